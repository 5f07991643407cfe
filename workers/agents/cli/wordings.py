"""
What the programs' own words for trouble mean. Vendors' codes and wordings are `workers.llm.wires.faults`';
these are the programs'.

Data: each with where it was seen. A wording that is not known is no trouble of any kind, and the attempt has failed.
"""

import re
import time
from collections.abc import Iterable
from dataclasses import dataclass

from forgepool.workers.agents.cli.events import ProgramFailure
from forgepool.workers.agents.cli.lines import clip_text
from forgepool.workers.agents.cli.reset_times import likely, reset_time
from forgepool.workers.llm.provider import Trouble
from forgepool.workers.llm.wires import faults
from forgepool.workers.llm.wires.resets import resets_at


@dataclass(frozen=True, slots=True)
class Wording:
    pattern: str
    trouble: Trouble
    source: str


WORDINGS = (
    # What they say of limits that end at a stated time.
    Wording(r"hit your .{0,40}\blimit", "usage_limit", "claude 2.1.329 and codex 0.169.0, run against a local 429"),
    Wording(r"usage limit reached", "usage_limit", "claude before 2: 'Claude AI usage limit reached|<unix seconds>'"),
    Wording(r"out of (usage )?credits|requires usage credits", "usage_limit", "claude 2.1.329, its text"),
    Wording(r"^Quota exceeded\b", "usage_limit", "codex 0.169.0, run against a local 429 insufficient_quota"),
    # What no key, or a wrong one, looks like.
    Wording(r"Invalid API key|Not logged in|Please run /login", "authentication", "claude 2.1.329, run"),
    Wording(r"status 40[13]\b", "authentication", "codex 0.169.0, run: 'unexpected status 401 Unauthorized'"),
    Wording(
        r"Missing environment variable", "authentication", "codex 0.169.0, its text for an env_key that is not set"
    ),
    Wording(r"litellm\.(AuthenticationError|PermissionDeniedError)", "authentication", "aider 0.86.2, run"),
    # What is too long for the model.
    Wording(r"ran out of room in the model's context window", "overflow", "codex 0.169.0, run"),
    Wording(r"has hit a token limit|litellm\.ContextWindowExceededError", "overflow", "aider 0.86.2, its text"),
    # What passes.
    Wording(r"last status: 429|litellm\.RateLimitError", "rate_limit", "codex 0.169.0 and aider 0.86.2, run"),
    Wording(r"status 5(03|29)\b|at capacity|Overloaded errors", "overloaded", "codex 0.169.0 and claude 2.1.329, run"),
    Wording(r"litellm\.(ServiceUnavailableError|InternalServerError)", "server", "aider 0.86.2, run"),
    Wording(r"status 5\d\d\b", "server", "codex 0.169.0, run"),
    Wording(r"stream (disconnected|closed) before", "truncated", "codex 0.169.0, run"),
    Wording(r"Connection lost mid-response", "truncated", "claude 2.1.329, run against a stream that was cut"),
    Wording(
        r"litellm\.(APIConnectionError|Timeout)|error sending request", "connection", "aider 0.86.2; codex 0.169.0"
    ),
    Wording(
        r"Connection (refused|error|closed)|ECONNREFUSED|Unable to connect", "connection", "claude 2.1.329; opencode"
    ),
)


def failure(
    said: str, *, status: int | None = None, codes: Iterable[str] = (), headers: dict[str, str] | None = None
) -> ProgramFailure:
    """What went wrong, as a program says it, with what else it tells of a vendor's answer."""
    now = time.time()
    said = clip_text(said)
    found = faults.FaultReply(status=status, codes=tuple(codes), message=said, headers=headers or {})
    trouble = _trouble(found)
    ends = reset_time(said, now) or _by_header(found, now) if trouble == "usage_limit" else None
    return ProgramFailure(said=said, trouble=trouble, resets_at=likely(ends, now))


def _by_header(said: faults.FaultReply, now: float) -> float | None:
    try:
        return resets_at(said.headers, "", now)
    except (ValueError, OverflowError):
        return None


def _trouble(said: faults.FaultReply) -> Trouble | None:
    """A limit that is used up, whatever else is said; then the program's words; then the vendor's."""
    vendors = faults.trouble(said)
    if vendors == "usage_limit":
        return vendors
    own = next((word.trouble for word in WORDINGS if re.search(word.pattern, said.message, re.IGNORECASE)), None)
    if own is not None:
        return own
    # With neither a status nor a code, that a server failed is what is said of everything unknown.
    return None if vendors == "server" and said.status is None else vendors
