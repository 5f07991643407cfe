"""
Classifies failures: the errors of vendors and servers become our few kinds of trouble.

This is the only place that knows vendors' codes and wordings. Waiting, falling back and shortening are done elsewhere.
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from forgepool.workers.llm.provider import Endpoint, ModelFailed, Trouble
from forgepool.workers.llm.wires.rate_limits import read_rate_limits
from forgepool.workers.llm.wires.resets import resets_at, retry_after_s

T = TypeVar("T")

_SAID_CHARACTERS = 300
_READ_CHARACTERS = 4_000
"""The most of a vendor's message that is read: patterns take time, and a proxy's page may be megabytes."""
_SHORTEST_KEY = 5
"""The shortest key that is removed from messages; a shorter one (`none`) may be a plain word."""

_OVERFLOW_CODES = frozenset(("context_length_exceeded", "exceed_context_size_error", "request_too_large"))
_USAGE = """
    enforced_spend_limit_reached contract_spend_limit_reached linked_organization_spend_limit_reached
    linked_organization_billing_unavailable insufficient_quota billing_hard_limit_reached billing_not_active
    billing_error usage_limit_reached
"""
_USAGE_CODES = frozenset(_USAGE.split())
_BY_CODE: Mapping[str, Trouble] = {
    "overloaded_error": "overloaded",
    **dict.fromkeys(("rate_limit_error", "rate_limit_exceeded", "tokens", "requests"), "rate_limit"),
    **dict.fromkeys(("authentication_error", "permission_error", "invalid_api_key"), "authentication"),
    **dict.fromkeys(("invalid_request_error", "invalid_prompt", "not_found_error", "model_not_found"), "bad_request"),
}
_BY_STATUS: Mapping[int, Trouble] = {
    401: "authentication",
    402: "usage_limit",
    403: "authentication",
    408: "server",
    409: "server",
    413: "overflow",
    425: "server",
    429: "rate_limit",
    503: "overloaded",
    529: "overloaded",
}

# In turn: Anthropic; OpenAI, vLLM, OpenRouter, DeepSeek; OpenAI; llama.cpp; Ollama; LM Studio; Google; Bedrock; xAI;
# Groq; Mistral; a limit per minute that one request alone is beyond.
_OVERFLOW_TEXT = re.compile(
    r"prompt is too long|exceed context limit|maximum (context|model) length|exceeds? the context window"
    r"|exceeds? the available context|exceed(s|ed)? (the |max )*context (length|size)|input length .{0,200} exceeds"
    r"|greater than the context length|context the overflows|input token count .{0,200} exceeds|input is too long"
    r"|maximum prompt length|context_length_exceeded|context length exceeded"
    r"|too large for model with \d+ maximum context|request too large for .{0,200}tokens per min",
    re.IGNORECASE | re.DOTALL,
)
_USAGE_TEXT = re.compile(
    r"credit balance is too low|(usage|spend|spending|monthly|weekly|billing|quota)[a-z ]{0,40} limits?\b"
    r"(?!.{0,200}per.minute)"
    r"|usage limits|insufficient (credits|balance|funds|quota)|exceeded your current quota|out of credits"
    r"|requires more credits",
    re.IGNORECASE | re.DOTALL,
)
_OVERLOADED_TEXT = re.compile(r"overloaded|at capacity|no capacity|loading model", re.IGNORECASE)
# Vendors show a part of a key that is wrong; ours are in no sentence, not even in part.
_KEY = re.compile(r"(?i)\b(sk|pk|xai|gsk|key)-[\w*.-]{4,}|bearer\s+\S+|\bAIza[\w*-]{8,}")

_MEND: Mapping[Trouble, str] = {
    "rate_limit": "wait before asking again",
    "usage_limit": "wait for its reset, raise the limit or use another account",
    "overloaded": "ask again later",
    "server": "ask again later",
    "connection": "look whether the server runs and can be reached",
    "silence": "ask again, or give it a longer silence_s",
    "truncated": "ask again",
    "authentication": "look at its key and at what the key may use",
    "bad_request": "another model may take it",
    "overflow": "the conversation must become shorter",
    "unavailable": "ask again later",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultReply:
    """The reply that came in place of an answer."""

    status: int | None = None
    """The HTTP status; 200 for an error inside a stream."""
    codes: tuple[str, ...] = ()
    """Every code and type it carries, the most specific first."""
    message: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


def trouble(reply: FaultReply) -> Trouble:
    """Return the kind of trouble. A code says more than a wording, and a wording more than a status."""
    reply = replace(reply, message=reply.message[:_READ_CHARACTERS])
    if _OVERFLOW_CODES & {*reply.codes} or (_refused(reply) and _OVERFLOW_TEXT.search(reply.message)):
        return "overflow"
    if _USAGE_CODES & {*reply.codes} or (_refused(reply) and _USAGE_TEXT.search(reply.message)):
        return "usage_limit"
    status = _status(reply)
    if status is not None:
        return _by_status(status, reply.message)
    known = (_BY_CODE[code] for code in reply.codes if code in _BY_CODE)
    return next(known, "overloaded" if _OVERLOADED_TEXT.search(reply.message) else "server")


def _refused(reply: FaultReply) -> bool:
    """Return whether the wording may be about the request, and not a proxy's page."""
    return reply.status is None or reply.status < 500 or len(reply.message) < _SAID_CHARACTERS


def _status(reply: FaultReply) -> int | None:
    """Return an error's status: its own, or inside a stream the one that some servers give as its code."""
    if reply.status not in (None, 200):
        return reply.status
    return next((int(code) for code in reply.codes if re.fullmatch(r"[45]\d\d", code)), None)


def _by_status(status: int, message: str) -> Trouble:
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    if status >= 500:
        return "overloaded" if _OVERLOADED_TEXT.search(message) else "server"
    return "bad_request"


def make_failure(reply: FaultReply, called: str, *, hidden: str = "") -> ModelFailed:
    """Make the failure of a model; `hidden` is its key."""
    kind, now = trouble(reply), time.time()
    return ModelFailed(
        sentence(called, kind, reply.message, reply.status, hidden=hidden),
        trouble=kind,
        status=reply.status,
        retry_after_s=retry_after_s(reply.headers, reply.message, now),
        resets_at=resets_at(reply.headers, reply.message, now),
        limits=read_rate_limits(reply.headers, now),
    )


def sentence(called: str, kind: Trouble, message: str, status: int | None = None, *, hidden: str = "") -> str:
    """Say in one line what is wrong, in the vendor's words without the key, and what would mend it."""
    plain = " ".join(_without(hidden, message[:_READ_CHARACTERS]).split())
    words = _KEY.sub("[key]", plain)[:_SAID_CHARACTERS].rstrip(". ")
    number = f", status {status}" if status not in (None, 200) else ""
    what = f"model '{called}' gave no answer ({kind.replace('_', ' ')}{number})"
    mend = _mend(kind, called, status)
    return f"{what}: {words}; {mend}" if words else f"{what}; {mend}"


def _without(key: str, message: str) -> str:
    """Remove the key from a message, also as a library shows one that cannot be sent."""
    for shown in (key, repr(key)[1:-1], key.strip()):
        if len(shown) >= _SHORTEST_KEY:
            message = message.replace(shown, "[key]")
            # It may be that of a key the reading above has cut.
            cut = next((end for end in range(len(shown) - 1, 7, -1) if message.endswith(shown[:end])), 0)
            message = f"{message[:-cut]}[key]" if cut else message
    return message


def _mend(kind: Trouble, called: str, status: int | None) -> str:
    if status == 404:
        return f"there is no model '{called}' there, or not for this key"
    if status is not None and 300 <= status < 400:
        return "it sends on to another address, to which no key is sent; put that one into base_url if it is right"
    return _MEND[kind]


def from_kit(error: Exception, called: str, *, hidden: str = "") -> ModelFailed:
    """Make the failure for an exception of a vendor's kit, or of the layers below it."""
    if hasattr(error, "status_code"):
        return make_failure(_from_status(error), called, hidden=hidden)
    body = getattr(error, "body", None)
    if body is not None:
        return make_failure(from_body(body, str(error)), called, hidden=hidden)
    kind = _transport(error)
    if kind is None:
        return broken_off(called, "what it sent is no answer")
    return ModelFailed(sentence(called, kind, _cause(error), hidden=hidden), trouble=kind)


def guard(asked: Callable[[], T], endpoint: Endpoint) -> T:
    """
    Return what a vendor's kit brings.

    Raises:
        ModelFailed: it has brought nothing.
    """
    try:
        return asked()
    except ModelFailed:
        raise
    except Exception as error:
        failure = from_kit(error, endpoint.called, hidden=endpoint.api_key)
    # Outside of the `except`, so that no chain shows what the sentence leaves out.
    raise failure


def broken_off(called: str, how: str = "its answer ended before its end") -> ModelFailed:
    return ModelFailed(sentence(called, "truncated", how), trouble="truncated")


def ill_ended(called: str, word: object) -> ModelFailed:
    """Make the failure for an answer with a bad end."""
    return broken_off(called, f"its answer ended in a way of its own ({str(word or 'without a reason')[:60]})")


def keyless(called: str) -> ModelFailed:
    return ModelFailed(sentence(called, "authentication", "it has no key"), trouble="authentication")


def _from_status(error: Any) -> FaultReply:
    reply = from_body(error.body, str(error))
    return FaultReply(
        status=error.status_code, codes=reply.codes, message=reply.message, headers={**error.response.headers}
    )


def from_body(body: object, otherwise: str = "", status: int = 200) -> FaultReply:
    """Read an error from any vendor's JSON; `otherwise` is the message where it has none."""
    error = body.get("error", body) if isinstance(body, Mapping) else body
    if not isinstance(error, Mapping):
        return FaultReply(status=status, message=str(error or otherwise))
    message = error.get("message")
    return FaultReply(status=status, codes=tuple(_codes(error)), message=str(message) if message else otherwise)


def _codes(error: Mapping[str, object]) -> Iterator[str]:
    details = error.get("details")
    if isinstance(details, Mapping) and details.get("error_code"):
        yield str(details["error_code"])
    yield from (str(error[key]) for key in ("code", "type") if error.get(key))


def _transport(error: Exception) -> Trouble | None:
    """Return the trouble of a transport failure; None for any other."""
    import httpx2

    causes = tuple(_causes(error))
    if any(isinstance(cause, httpx2.ReadTimeout) for cause in causes):
        return "silence"
    return "connection" if any(isinstance(cause, httpx2.TransportError | OSError) for cause in causes) else None


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


def _cause(error: Exception) -> str:
    """Return the message of the deepest cause, which is the system's and says most."""
    return next((str(cause) for cause in reversed(tuple(_causes(error))) if str(cause)), type(error).__name__)
