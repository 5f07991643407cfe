"""Faults of models over real HTTP and all three wires, and the wordings of servers that are not available here."""

import socket
import threading
import time
import traceback
from datetime import datetime
from email.utils import formatdate
from typing import Any

import pytest
from vendors.answers import Wire
from vendors.asking import CARD, KEY, WIRES, never, provider, reply, request
from vendors.redirecting import Redirecting
from vendors.server import (
    EMPTY,
    MALFORMED,
    MAX_TOKENS_IN_CALL,
    OVERFLOW_MIDWAY,
    REFUSAL,
    Fault,
    Raw,
    Say,
    VendorServer,
    scripted,
)

from forgepool.workers.llm.messages import Turn
from forgepool.workers.llm.provider import ModelFailed
from forgepool.workers.llm.wires.faults import FaultReply, from_body, make_failure, sentence, trouble

all_wires = pytest.mark.parametrize("wire", WIRES)


def _failure(wire: Wire, fault: Fault, **own: Any) -> ModelFailed:
    """Return the failure of one try, and assert that the next try is answered."""
    with VendorServer(scripted(fault, Say(text="done"))) as server:
        asked = provider(wire, server, **own)
        with pytest.raises(ModelFailed) as failed:
            asked.ask(request(), stop=never)
        assert asked.ask(request(), stop=never).text == "done"
        assert server.invalid == []
        assert [one.number for one in server.seen] == [1, 2]
    assert "\n" not in str(failed.value)
    assert KEY not in str(failed.value)
    return failed.value


@all_wires
@pytest.mark.parametrize(
    ("fault", "kind", "status"),
    [
        (Fault(kind="rate_limit"), "rate_limit", 429),
        (Fault(kind="usage_limit"), "usage_limit", 429),
        (Fault(kind="overloaded"), "overloaded", None),
        (Fault(kind="overloaded", status=529), "overloaded", 529),
        (Fault(kind="server"), "server", 500),
        (Fault(kind="authentication"), "authentication", 401),
        (Fault(kind="forbidden"), "authentication", 403),
        (Fault(kind="no_model"), "bad_request", 404),
        (Fault(kind="bad_request"), "bad_request", 400),
        (Fault(kind="overflow"), "overflow", 400),
        (Fault(kind="too_large"), "overflow", 413),
        (Fault(kind="reset"), "connection", None),
        (Fault(kind="reset_midway"), "connection", None),
        (Fault(kind="cut"), "truncated", None),
    ],
    ids=lambda value: value.kind if isinstance(value, Fault) else str(value),
)
def test_a_try_without_a_turn_fails_as_what_it_is(wire: Wire, fault: Fault, kind: str, status: int | None) -> None:
    """Each fault gives one kind of failure after one request, and does not affect the next try."""
    failed = _failure(wire, fault)
    assert failed.trouble == kind
    assert status is None or failed.status == status
    assert "model-1" in str(failed)


@pytest.mark.parametrize(
    ("wire", "code", "kind"),
    [
        ("anthropic", "overloaded_error", "overloaded"),
        ("anthropic", "rate_limit_error", "rate_limit"),
        ("anthropic", "api_error", "server"),
        ("anthropic", "authentication_error", "authentication"),
        ("anthropic", "billing_error", "usage_limit"),
        ("openai-responses", "rate_limit_exceeded", "rate_limit"),
        ("openai-responses", "insufficient_quota", "usage_limit"),
        ("openai-responses", "context_length_exceeded", "overflow"),
        ("openai-chat", "rate_limit_exceeded", "rate_limit"),
        ("openai-chat", "502", "server"),
        ("openai-chat", "429", "rate_limit"),
    ],
)
@pytest.mark.parametrize("event", ["error_event", "failed_event"])
def test_an_error_inside_a_stream_is_told_by_its_type(wire: Wire, code: str, kind: str, event: Any) -> None:
    """The HTTP status is 200 and says nothing."""
    failed = _failure(wire, Fault(kind=event, code=code, message="It went wrong"))
    assert (failed.trouble, failed.status) == (kind, 200)


@all_wires
@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "300"}, 0.3),
        ({"retry-after": formatdate(time.time() + 9000, usegmt=True)}, 9000),
    ],
    ids=["without", "seconds", "milliseconds", "date"],
)
def test_what_a_vendor_asks_to_wait_is_kept(wire: Wire, headers: dict[str, str], seconds: float | None) -> None:
    """The delay is read in each of its forms; it is None if there is none."""
    failed = _failure(wire, Fault(kind="rate_limit", headers=headers))
    assert failed.retry_after_s == (
        seconds if seconds is None else pytest.approx(seconds, abs=0.01 if seconds and seconds < 60 else 1800)
    )


def test_a_usage_limit_says_when_it_ends() -> None:
    """Anthropic says so only in the text of the message."""
    day = time.strftime("%Y-%m-%d", time.gmtime(time.time() + 9 * 86_400))
    said = f"You have reached your specified API usage limits. You will regain access on {day} at 00:00 UTC."
    failed = _failure("anthropic", Fault(kind="usage_limit", message=said))
    assert failed.resets_at == datetime.fromisoformat(f"{day}T00:00:00+00:00").timestamp()


@all_wires
@pytest.mark.parametrize("kind", ["silence", "silence_midway"])
def test_silence_is_waited_for_only_so_long(wire: Wire, kind: Any) -> None:
    """A server that is silent, at the start or in the middle, is given up after `silence_s`."""
    failed = _failure(wire, Fault(kind=kind, seconds=60), silence_s=0.5)
    assert failed.trouble == "silence"


@all_wires
@pytest.mark.parametrize("kind", ["silence", "silence_midway"])
def test_who_asks_to_stop_is_heard_in_silence(wire: Wire, kind: Any) -> None:
    """The stop is checked in the caller's thread, long before the silence would end the try."""
    asked_by = set()
    begun = time.monotonic()

    def stop() -> bool:
        asked_by.add(threading.current_thread())
        return time.monotonic() - begun > 0.3

    with VendorServer(scripted(Fault(kind=kind, seconds=60))) as server, pytest.raises(ModelFailed) as failed:
        provider(wire, server, silence_s=1.0).ask(request(), stop=stop)
    assert failed.value.trouble == "stopped"
    assert asked_by == {threading.current_thread()}
    assert time.monotonic() - begun < 0.9


@all_wires
def test_a_server_that_is_not_there_is_a_connection_that_failed(wire: Wire) -> None:
    """Nothing listens at the port, and the message has the system's own text."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(ModelFailed, match="refused") as failed:
        provider(wire, f"http://127.0.0.1:{port}").ask(request(), stop=never)
    assert failed.value.trouble == "connection"


@pytest.mark.parametrize("wire", ["anthropic", "openai-responses", "openai-chat"])
def test_the_vendor_itself_is_not_asked_without_a_key(wire: Wire) -> None:
    """The request fails before anything is sent."""
    with pytest.raises(ModelFailed, match="no key") as failed:
        provider(wire, "", api_key="", base_url=None).ask(request(), stop=never)
    assert failed.value.trouble == "authentication"


@all_wires
def test_what_is_no_stream_at_all_is_no_answer(wire: Wire) -> None:
    """A proxy's page or broken JSON ends the try but not the process."""
    for answer in (Raw(events=["<html>hello</html>"]), Raw(events=["event: message_start\ndata: {oops\n\n"])):
        with VendorServer(scripted(answer)) as server, pytest.raises(ModelFailed) as failed:
            provider(wire, server).ask(request(), stop=never)
        assert failed.value.trouble == "truncated"


def _bad_turn(wire: Wire, said: Say) -> Turn:
    """Return the bad turn, and assert that the conversation can continue with a strict vendor."""
    with VendorServer(scripted(said, Say(text="done"))) as server:
        asked = provider(wire, server)
        turn = asked.ask(request(), stop=never)
        assert asked.ask(request(CARD, turn, reply(turn)), stop=never).text == "done"
        assert server.invalid == []
    return turn


@all_wires
def test_malformed_arguments_are_kept_as_they_came(wire: Wire) -> None:
    """They are never repaired into a call that could run."""
    turn = _bad_turn(wire, MALFORMED)
    assert [(call.arguments, call.malformed) for call in turn.calls] == [({}, '{"path": "calc.py" oops}')]
    assert turn.stop == "calls"


@all_wires
def test_a_call_cut_off_by_the_output_limit_is_not_half_a_call(wire: Wire) -> None:
    """The turn is marked as cut, and the call as malformed."""
    turn = _bad_turn(wire, Say(text="W", calls=MAX_TOKENS_IN_CALL.calls, stop="max_tokens", usage=_used(1000)))
    assert turn.stop == "max_tokens"
    assert turn.calls[0].malformed == '{"path": "calc.py", "content": "def add'


def _used(output: int) -> Any:
    from vendors.answers import Tokens

    return Tokens(input=100, output=output)


@all_wires
def test_a_window_filled_while_answering_is_told_from_an_answer_that_was_too_long(wire: Wire) -> None:
    """OpenAI uses one word for both. An answer shorter than its limit was not cut by that limit."""
    assert _bad_turn(wire, OVERFLOW_MIDWAY).stop == "overflow"


@all_wires
def test_a_refusal_is_a_turn_that_says_so(wire: Wire) -> None:
    """Its text is kept."""
    turn = _bad_turn(wire, REFUSAL)
    assert (turn.stop, turn.text) == ("refusal", REFUSAL.text)


@all_wires
def test_an_empty_turn_is_a_turn(wire: Wire) -> None:
    """It is sent back as a placeholder, because no vendor accepts an empty message."""
    turn = _bad_turn(wire, EMPTY)
    assert (turn.parts, turn.stop) == ((), "end")


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (400, "prompt is too long: 208310 tokens > 200000 maximum"),
        (400, "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length"),
        (400, "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens"),
        (400, "This endpoint's maximum context length is 131072 tokens. However, you requested about 140000 tokens"),
        (400, "The decoder prompt (length 9001) is longer than the maximum model length of 8192."),
        (500, "the request exceeds the available context size. try increasing the context size"),
        (400, "prompt too long; exceeded max context length by 1207 tokens"),
        (400, "the input length exceeds the context length"),
        (400, "The number of tokens to keep from the initial prompt is greater than the context length"),
        (400, "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575)."),
        (429, "Request too large for gpt-x on tokens per min (TPM): Limit 30000, Requested 40000."),
    ],
)
def test_an_overflow_is_known_by_its_words_where_there_is_no_code(status: int, said: str) -> None:
    """The wordings are those of vendors and servers. The conversation must become shorter, whatever the status."""
    assert trouble(FaultReply(status=status, message=said)) == "overflow"


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (400, "Your credit balance is too low to access the API."),
        (400, "You have reached your specified API usage limits."),
        (402, "This request requires more credits, or fewer max_tokens."),
        (402, "Payment required"),
        (429, "You exceeded your current quota, please check your plan and billing details."),
        (429, "You've hit your usage limit. Try again later."),
    ],
)
def test_a_usage_limit_is_known_by_its_words_where_there_is_no_code(status: int, said: str) -> None:
    """Asking again soon is useless, even if the status is that of a bad request."""
    assert trouble(FaultReply(status=status, message=said)) == "usage_limit"


@pytest.mark.parametrize(
    ("status", "said", "kind"),
    [
        (429, "This would exceed your organization's rate limit of 50,000 input tokens per minute.", "rate_limit"),
        (429, "Number of request tokens has exceeded your per-minute rate limit", "rate_limit"),
        (500, "Internal server error", "server"),
        (503, "Loading model", "overloaded"),
        (502, "Bad gateway", "server"),
        (408, "Timeout", "server"),
        (422, "Unprocessable", "bad_request"),
        (502, "<html>" + "usage limits, maximum context length" * 20, "server"),
    ],
)
def test_the_rest_is_known_by_its_status(status: int, said: str, kind: str) -> None:
    """A limit per minute is no usage limit."""
    assert trouble(FaultReply(status=status, message=said)) == kind


def test_a_limit_on_growth_is_a_rate_limit() -> None:
    """The vendor says when to continue, and no budget is spent."""
    body = {"error": {"type": "rate_limit_error", "message": "m", "details": {"error_code": "ramp_limit_exceeded"}}}
    assert trouble(from_body(body, status=429)) == "rate_limit"


@pytest.mark.parametrize("key", ["sk-proj-abcd1234", "sk-ab***wxyz", "Bearer abc.def", "AIzaSyB-1234567890"])
def test_no_sentence_has_a_key_in_it(key: str) -> None:
    """Vendors show wrong keys in part, and messages go to journals and screens."""
    said = sentence("m", "authentication", f"Incorrect API key provided: {key}. You can find yours online.", 401)
    assert key not in said
    assert "[key]" in said


def test_a_missing_model_is_named() -> None:
    """A 404 is mended by another name in the model table."""
    assert "there is no model 'gpt-0'" in sentence("gpt-0", "bad_request", "not found", 404)


@pytest.mark.parametrize(
    "message", ["usage limit " * 300_000 + "per minute", "input length " * 300_000, "sk-" * 999_999]
)
def test_no_wording_takes_long_to_read(message: str) -> None:
    """A proxy's page may have megabytes, and a pattern's time can grow faster than its input."""
    begun = time.process_time()
    assert len(str(make_failure(FaultReply(status=429, message=message), "m"))) < 1000
    assert time.process_time() - begun < 1.0


@pytest.mark.parametrize("message", ["refused: {key}", "x" * 280 + "{key}", "x" * 3990 + "{key}", "refused: {key!r}"])
def test_a_models_own_key_is_in_no_sentence_whatever_it_looks_like(message: str) -> None:
    """No part of it remains where the text is cut."""
    key = "Passw0rd:of-a\nserver"
    said = sentence("m", "authentication", message.format(key=key), 401, hidden=key)
    assert "Passw0rd" not in said


@all_wires
def test_a_key_that_is_told_back_is_in_no_sentence_and_no_traceback(wire: Wire) -> None:
    """The server repeats the key with an error status and inside a stream."""
    own = "correct horse battery staple"
    refused = Fault(kind="authentication", message=f"no such key: {own}")
    for fault in (refused, Fault(kind="error_event", message=f"no such key: {own}")):
        with VendorServer(scripted(fault)) as server, pytest.raises(ModelFailed, match=r"\[key\]") as caught:
            provider(wire, server, api_key=own).ask(request(), stop=never)
        assert own not in "".join(traceback.format_exception(caught.value))


@all_wires
def test_nobody_is_sent_on_to_another_address(wire: Wire) -> None:
    """The conversation and the key would go there."""
    with VendorServer(scripted(Say(text="hello"))) as other:
        with Redirecting(other.url) as server, pytest.raises(ModelFailed, match="another address") as caught:
            provider(wire, server.url).ask(request(), stop=never)
        assert other.seen == [] and other.lost == []
    assert caught.value.trouble == "bad_request"


_AMBIENT = {
    "OPENAI_ORG_ID": "org-ambient",
    "OPENAI_PROJECT_ID": "proj-ambient",
    "OPENAI_CUSTOM_HEADERS": "x-ambient: 1\nauthorization: Bearer ambient",
    "OPENAI_API_KEY": "ambient",
    "ANTHROPIC_API_KEY": "ambient",
    "ANTHROPIC_AUTH_TOKEN": "ambient",
    "ANTHROPIC_CUSTOM_HEADERS": "x-ambient: 1\nx-api-key: ambient",
}


@all_wires
def test_nothing_of_the_environment_is_sent(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its variables may be meant for another server."""
    for name, value in _AMBIENT.items():
        monkeypatch.setenv(name, value)
    with VendorServer(scripted(Say(text="hello"))) as server:
        provider(wire, server, headers={"x-ours": "1"}).ask(request(), stop=never)
    seen = server.seen[0]
    assert "ambient" not in str(dict(seen.headers)) and "x-ambient" not in seen.headers
    assert (seen.headers["authorization"], seen.headers["x-ours"]) == (f"Bearer {KEY}", "1")


@all_wires
def test_what_an_address_wants_sent_along_is_sent_along(wire: Wire) -> None:
    """The query is no part of the path."""
    with VendorServer(scripted(Say(text="hello"))) as server:
        provider(wire, f"{server.url}/team?api-version=2026-11-01").ask(request(), stop=never)
    path, _, query = server.seen[0].path.partition("?")
    assert path.startswith("/team/v1/") and query == "api-version=2026-11-01"


@all_wires
@pytest.mark.parametrize("name", ["functions.bash", "read file", "", "x" * 70])
def test_a_tool_that_no_vendor_could_name_ends_no_conversation(wire: Wire, name: str) -> None:
    """Only that call is sent back under another name, the same each time. The turn keeps its text."""
    with VendorServer(scripted(Say(calls=[(name, {})]), Say(text="a"), Say(text="b"))) as server:
        asked = provider(wire, server)
        turn = asked.ask(request(), stop=never)
        for _ in range(2):
            asked.ask(request(CARD, turn, reply(turn)), stop=never)
    assert server.invalid == [] and turn.calls[0].name == name
    assert server.seen[1].body == server.seen[2].body
