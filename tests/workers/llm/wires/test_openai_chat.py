"""The adapter for OpenAI's older wire, over real HTTP, and the peculiarities of servers that speak it."""

import json
from typing import Any

import pytest
from vendors.answers import Body
from vendors.asking import CARD, never, provider, request
from vendors.server import Raw, Say, Tokens, VendorServer, scripted
from vendors.wires.shapes import assert_shaped

from forgepool.workers.llm.messages import Opaque, Text, ToolCall, ToolResult, Turn, Usage, user
from forgepool.workers.llm.provider import Delta, Endpoint, LlmEvent, ModelFailed
from forgepool.workers.llm.wires.openai_chat import body

_READ: Any = ("read_file", {"path": "a.py"})
_WIRE = "openai-chat"


def _heard(*events: Body | str, turns: tuple[Turn, ...] = (CARD,)) -> Turn:
    with VendorServer(scripted(Raw(events=[*events, "data: [DONE]\n\n"]))) as server:
        turn = provider(_WIRE, server).ask(request(*turns), stop=never)
    assert server.invalid == []
    return turn


def _chunk(delta: Body | None = None, finish: str | None = None, **more: Any) -> Body:
    return {"choices": [{"delta": delta, "finish_reason": finish}], **more}


def _piece(**more: Any) -> Body:
    return _chunk({"tool_calls": [more]})


def test_a_turn_has_all_that_was_said() -> None:
    """It has text and two calls. Reasoning is streamed and is no part of the turn."""
    heard: list[LlmEvent] = []
    said = Say(thinking="I think", text="I will read", calls=[_READ, ("write_file", {})])
    with VendorServer(scripted(said)) as server:
        turn = provider(_WIRE, server).ask(request(), stop=never, hear=heard.append)
    assert [part.kind for part in turn.parts] == ["text", "call", "call"]
    assert [call.arguments for call in turn.calls] == [{"path": "a.py"}, {}]
    assert (turn.stop, turn.id, turn.model) == ("calls", "chatcmpl-1", "model-1")
    assert {event.kind for event in heard if isinstance(event, Delta)} == {"thinking", "text", "call"}


def test_usage_is_asked_for_and_kept() -> None:
    """A stream reports usage only on request."""
    said = Tokens(input=1000, cached=600, output=50, reasoning=20)
    with VendorServer(scripted(Say(text="x", usage=said))) as server:
        usage = provider(_WIRE, server).ask(request(), stop=never).usage
    assert server.seen[0].body["stream_options"] == {"include_usage": True}
    assert usage == Usage(input_tokens=1000, cached_tokens=600, output_tokens=50, reasoning_tokens=20, cost_usd=None)


def test_usage_that_is_not_told_is_guessed() -> None:
    """The estimate uses both directions, so that a limit in tokens holds."""
    with VendorServer(scripted(Say(text="x" * 400, usage=Tokens()))) as server:
        usage = provider(_WIRE, server).ask(request(user(Text(text="y" * 4000))), stop=never).usage
    assert 1000 < usage.input_tokens < 1500
    assert 100 <= usage.output_tokens < 110
    assert usage.cost_usd is None


def _turns() -> tuple[Turn, ...]:
    answer = Turn(
        role="assistant",
        parts=(
            Opaque(wire="anthropic", model="m", block={"type": "thinking"}),
            Text(text="I read"),
            Text(text="and more"),
            ToolCall(id="functions.read:0", name="read_file", arguments={"path": "é"}),
            ToolCall(id="b", name="read_file", malformed='{"path": '),
        ),
    )
    results = user(
        Text(text="First a word."),
        ToolResult(call_id="functions.read:0", text=""),
        ToolResult(call_id="b", text="no", is_error=True),
    )
    return CARD, answer, results, user(Text(text="And another.")), Turn(role="assistant", parts=()), user()


@pytest.mark.parametrize("base_url", [None, "http://localhost:1"])
def test_a_request_is_what_the_kits_own_type_allows(base_url: str | None) -> None:
    """It has every part a conversation can have. Fields only the vendor knows go only to the vendor."""
    told = Endpoint(model="m", effort="high", max_output_tokens=9, base_url=base_url)
    asked = body(told, request(*_turns()))
    assert_shaped(_WIRE, asked)
    assert "temperature" not in asked
    assert asked["max_tokens" if base_url else "max_completion_tokens"] == 9
    assert ("prompt_cache_key" in asked) is (base_url is None)


def test_any_conversation_of_ours_is_taken_by_a_strict_server() -> None:
    """It has empty texts, an empty turn, two user turns in a row, odd ids, and text before results."""
    with VendorServer(scripted(Say(text="ok"))) as server:
        provider(_WIRE, server).ask(request(*_turns()), stop=never)
    assert server.invalid == []
    messages = server.seen[0].body["messages"]
    roles = ["system", "user", "assistant", "tool", "tool", "user", "assistant", "user"]
    assert [message["role"] for message in messages] == roles
    assert [json.loads(call["function"]["arguments"]) for call in messages[2]["tool_calls"]] == [{"path": "é"}, {}]
    assert [message["content"] for message in messages[3:5]] == ["(no output)", "no"]
    assert messages[5]["content"] == "First a word.\n\nAnd another."


@pytest.mark.parametrize("ending", ["", "/", "/v1", "/v1/"])
def test_an_address_may_have_the_version_in_it_or_not(ending: str) -> None:
    """People write both."""
    with VendorServer(scripted(Say(text="ok"))) as server:
        provider(_WIRE, f"{server.url}/team{ending}", headers={"x-team": "a"}).ask(request(), stop=never)
    assert (server.seen[0].path, server.seen[0].headers["x-team"]) == ("/team/v1/chat/completions", "a")


def test_a_server_that_wants_no_key_needs_none() -> None:
    """Only the SDK insists on a key."""
    with VendorServer(scripted(Say(text="ok"))) as server:
        assert provider(_WIRE, server, api_key="").ask(request(), stop=never).text == "ok"


def test_what_is_missing_is_made_up_for() -> None:
    """Ids, usage and call numbers are missing, deltas are null, chunks have no choices, and the end is unknown."""
    turn = _heard(
        {"choices": []},
        _chunk(None),
        _chunk({"content": "Hi", "tool_calls": None}),
        _piece(function={"name": "read_file", "arguments": '{"path": '}),
        _piece(function={"arguments": '"a.py"}'}),
        _chunk(None, "eos"),
    )
    assert (turn.text, turn.stop, turn.model) == ("Hi", "calls", "model-1")
    assert [(call.name, call.arguments) for call in turn.calls] == [("read_file", {"path": "a.py"})]
    assert turn.calls[0].id.startswith("call_")


def test_calls_that_are_all_numbered_alike_are_told_apart_by_id() -> None:
    """Some servers send each call in one piece with the same number."""
    turn = _heard(
        _piece(index=0, id="a", function={"name": "read_file", "arguments": '{"path": "1"}'}),
        _piece(index=0, id="b", function={"name": "read_file", "arguments": '{"path": "2"}'}),
        _chunk({}, "stop"),
    )
    assert [(call.id, call.arguments["path"]) for call in turn.calls] == [("a", "1"), ("b", "2")]


def test_an_id_that_was_used_before_is_not_used_again() -> None:
    """Some servers number the calls of every answer from zero, and a result must belong to one call."""
    earlier = Turn(role="assistant", parts=(ToolCall(id="call_0", name="read_file"),))
    result = user(ToolResult(call_id="call_0", text="x"))
    again = [_piece(index=place, id="call_0", function={"name": "read_file", "arguments": "{}"}) for place in (0, 1)]
    turn = _heard(*again, _chunk({}, "tool_calls"), turns=(CARD, earlier, result))
    assert len({"call_0", *(call.id for call in turn.calls)}) == 3


@pytest.mark.parametrize(
    ("finish", "stop"),
    [
        ("stop", "end"),
        ("length", "max_tokens"),
        ("model_length", "overflow"),
        ("content_filter", "refusal"),
        ("end_turn", "end"),
    ],
)
def test_an_answers_end_has_many_names(finish: str, stop: str) -> None:
    """A turn has five."""
    assert _heard(_chunk({"content": "Hi"}), _chunk({}, finish)).stop == stop


@pytest.mark.parametrize(("finish", "kind"), [("error", "server"), (None, "truncated")])
def test_an_answer_that_did_not_end_is_none(finish: str | None, kind: str) -> None:
    """The server says so, or says nothing."""
    with pytest.raises(ModelFailed) as failed:
        _heard(_chunk({"content": "Hi"}), _chunk({}, finish))
    assert failed.value.trouble == kind
