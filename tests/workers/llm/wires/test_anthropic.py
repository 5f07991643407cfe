"""The adapter for Anthropic's wire, over real HTTP."""

from typing import Any

import pytest
from vendors.asking import CARD, KEY, never, provider, reply, request
from vendors.server import Raw, Say, Tokens, VendorServer, scripted
from vendors.wires.shapes import assert_shaped

from forgepool.workers.llm.messages import Opaque, Text, ToolCall, ToolResult, Turn, Usage, user
from forgepool.workers.llm.provider import Delta, Endpoint, LlmEvent, ModelFailed
from forgepool.workers.llm.wires.anthropic import body

_READ: Any = ("read_file", {"path": "a.py"})


def _one(answer: Say | Raw, **own: Any) -> Turn:
    with VendorServer(scripted(answer)) as server:
        turn = provider("anthropic", server, **own).ask(request(), stop=never)
    assert server.invalid == []
    return turn


def test_a_turn_has_all_that_was_said_in_its_order() -> None:
    """The parts are thinking, text and two calls. The vendor's id and the model are kept."""
    turn = _one(Say(thinking="I think", text="I will read", calls=[_READ, ("write_file", {})]))
    assert [part.kind for part in turn.parts] == ["opaque", "text", "call", "call"]
    assert [(call.name, call.arguments) for call in turn.calls] == [("read_file", {"path": "a.py"}), ("write_file", {})]
    assert (turn.role, turn.stop, turn.text) == ("assistant", "calls", "I will read")
    assert (turn.id, turn.model) == ("msg_1", "model-1")


def test_usage_counts_all_of_the_input() -> None:
    """The vendor's input count excludes cached and cache-written tokens."""
    said = Tokens(input=1000, cached=600, written=300, written_1h=200, output=50, reasoning=20)
    assert _one(Say(text="x", usage=said)).usage == Usage(
        input_tokens=1000,
        cached_tokens=600,
        written_tokens=300,
        written_1h_tokens=200,
        output_tokens=50,
        reasoning_tokens=20,
        cost_usd=None,
    )


def test_pieces_are_heard_as_they_come() -> None:
    """All kinds arrive in pieces, and together they make up the turn."""
    heard: list[LlmEvent] = []
    with VendorServer(scripted(Say(thinking="I think", text="I will read", calls=[_READ]))) as server:
        turn = provider("anthropic", server).ask(request(), stop=never, hear=heard.append)
    deltas = [event for event in heard if isinstance(event, Delta)]
    assert {delta.kind for delta in deltas} == {"thinking", "text", "call"}
    assert "".join(delta.text for delta in deltas if delta.kind == "text") == turn.text
    assert len(deltas) > len(turn.parts)


@pytest.mark.parametrize("redacted", [False, True])
def test_thinking_goes_back_as_it_came(redacted: bool) -> None:
    """The server refuses a changed signature or sealed block. A turn of only thinking is sent back, too."""
    answers = (Say(thinking="I think", redacted=redacted, calls=[_READ]), Say(thinking="hm", redacted=redacted), Say())
    with VendorServer(scripted(*answers)) as server:
        asked = provider("anthropic", server)
        first = asked.ask(request(), stop=never)
        second = asked.ask(request(CARD, first, reply(first)), stop=never)
        asked.ask(request(CARD, first, reply(first), second, reply(second)), stop=never)
    assert server.invalid == []
    kinds = [block["type"] for block in server.seen[2].body["messages"][1]["content"]]
    assert kinds == ["redacted_thinking" if redacted else "thinking", "tool_use"]


def test_another_models_thinking_is_left_out() -> None:
    """It is signed for that model, and this one's vendor would refuse the request."""
    with VendorServer(scripted(Say(thinking="I think", calls=[_READ]), Say(text="ok"))) as server:
        first = provider("anthropic", server, model="model-0").ask(request(), stop=never)
        provider("anthropic", server).ask(request(CARD, first, reply(first)), stop=never)
    assert server.invalid == []
    assert [block["type"] for block in server.seen[1].body["messages"][1]["content"]] == ["tool_use"]


def _turns() -> tuple[Turn, ...]:
    answer = Turn(
        role="assistant",
        parts=(
            Opaque(wire="anthropic", model="m", block={"type": "thinking", "thinking": "t", "signature": "s"}),
            Text(text="  "),
            Text(text="I read", phase="commentary"),
            ToolCall(id="functions.read:0", name="read_file", arguments={"path": "é"}),
            ToolCall(id="b", name="read_file", malformed='{"path": '),
        ),
    )
    results = user(
        Text(text="First a word."),
        ToolResult(call_id="functions.read:0", text=""),
        ToolResult(call_id="b", text="no", is_error=True),
    )
    empty = Turn(role="assistant", parts=())
    return CARD, answer, results, user(Text(text="And another."), Text(text="")), empty, user()


def test_a_request_is_what_the_kits_own_type_allows() -> None:
    """It has every part a conversation can have, and no field the type does not know."""
    asked = body(Endpoint(model="m", effort="high"), request(*_turns(), lasting=True))
    assert_shaped("anthropic", asked)
    assert not {"temperature", "top_p", "top_k"} & asked.keys()
    assert asked["output_config"] == {"effort": "high"}


@pytest.mark.parametrize(
    ("effort", "said"),
    [
        ("none", {"thinking": {"type": "disabled"}}),
        ("minimal", {"output_config": {"effort": "low"}}),
        ("max", {"output_config": {"effort": "max"}}),
        (None, {}),
    ],
)
def test_effort_is_said_in_the_vendors_words(effort: str | None, said: dict[str, Any]) -> None:
    """The vendor has fewer levels than others, and none for no thinking."""
    asked = body(Endpoint(model="m", effort=effort), request())
    assert_shaped("anthropic", asked)
    assert {key: asked[key] for key in ("thinking", "output_config") if key in asked} == said


def test_any_conversation_of_ours_is_taken_by_a_strict_vendor() -> None:
    """It has empty texts, an empty turn, two user turns in a row, unknown ids, and text before results."""
    with VendorServer(scripted(Say(text="ok"))) as server:
        provider("anthropic", server).ask(request(*_turns()), stop=never)
    assert server.invalid == []
    _, answer, results, empty, last = server.seen[0].body["messages"]
    assert [block["type"] for block in answer["content"]] == ["text", "tool_use", "tool_use"]
    assert answer["content"][2]["input"] == {}
    assert [block["type"] for block in results["content"]] == ["tool_result", "tool_result", "text", "text"]
    assert results["content"][0]["tool_use_id"] == answer["content"][1]["id"]
    assert results["content"][0]["content"] == "(no output)"
    assert results["content"][1]["is_error"] is True
    assert (empty["content"][0]["text"], last["content"][0]["text"]) == ("(no answer)", "(nothing)")


def test_a_limit_on_the_answer_is_always_sent() -> None:
    """The request's own limit comes first, then the model's. The vendor always requires one."""
    own = Endpoint(model="m", max_output_tokens=500)
    assert body(own, request(max_output_tokens=70))["max_tokens"] == 70
    assert body(own, request())["max_tokens"] == 500
    assert body(Endpoint(model="m"), request())["max_tokens"] > 1000


@pytest.mark.parametrize("ending", ["", "/", "/v1", "/v1/"])
def test_an_address_may_have_the_version_in_it_or_not(ending: str) -> None:
    """People write both. The key is sent in both headers that servers may read."""
    with VendorServer(scripted(Say(text="ok"))) as server:
        provider("anthropic", f"{server.url}/team{ending}", headers={"x-team": "a"}).ask(request(), stop=never)
    seen = server.seen[0]
    assert (seen.path, seen.headers["x-team"]) == ("/team/v1/messages", "a")
    assert (seen.headers["x-api-key"], seen.headers["authorization"]) == (KEY, f"Bearer {KEY}")


_START: Any = {"type": "message_start", "message": {"id": "m1", "model": "other", "usage": {}}}
_END: Any = [
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}},
    {"type": "message_stop"},
]


def test_another_servers_short_ways_are_understood() -> None:
    """A call arrives with complete arguments at its start, usage is incomplete, and a block is of an unknown type."""
    call = {"type": "tool_use", "id": "t", "name": "read_file", "input": {"path": "a"}}
    blocks = [
        {"type": "content_block_start", "index": 0, "content_block": {"type": "novelty", "what": 1}},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": call},
        {"type": "content_block_stop", "index": 1},
    ]
    turn = _one(Raw(events=[_START, *blocks, *_END]))
    assert [call.arguments for call in turn.calls] == [{"path": "a"}]
    assert (turn.model, turn.stop, turn.usage.output_tokens) == ("other", "calls", 5)


_NO_REASON = {"type": "message_delta", "delta": {"stop_reason": None}, "usage": {"output_tokens": 5}}
_NEVER_BEGUN = {"type": "content_block_delta", "index": 3, "delta": {"type": "text_delta", "text": "x"}}


@pytest.mark.parametrize(
    "events",
    [[_START, _END[0]], [_START, _END[1]], [_START, _NO_REASON, _END[1]], [_START, _NEVER_BEGUN, *_END]],
    ids=["no end", "no delta", "no reason", "no beginning"],
)
def test_a_turn_counts_with_its_end_and_its_reason_alone(events: list[Any]) -> None:
    """Half an answer, or pieces that belong nowhere, may look like a complete one."""
    with pytest.raises(ModelFailed) as failed:
        _one(Raw(events=events))
    assert failed.value.trouble == "truncated"


def test_a_character_in_two_halves_is_one() -> None:
    """A half of a surrogate pair could not be stored."""
    halves = ["\ud83d", "\ude00"]
    events = [
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": half}}
            for half in halves
        ),
        {"type": "content_block_stop", "index": 0},
    ]
    turn = _one(Raw(events=[_START, *events, *_END]))
    assert turn.text == "\U0001f600"
    assert turn.encode()


@pytest.mark.parametrize("signature", ["", "half a signature"])
def test_thought_that_was_never_finished_is_not_sent_back(signature: str) -> None:
    """Without its complete signature, the vendor refuses it."""
    begun = {"type": "thinking", "thinking": "", "signature": ""}
    deltas = [{"type": "thinking_delta", "thinking": "hm"}]
    deltas += [{"type": "signature_delta", "signature": signature}] if signature else []
    events = [
        {"type": "content_block_start", "index": 0, "content_block": begun},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
        *([] if signature else [{"type": "content_block_stop", "index": 0}]),
    ]
    cut = {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}, "usage": {"output_tokens": 5}}
    turn = _one(Raw(events=[_START, *events, cut, _END[1]]))
    assert (turn.parts, turn.stop) == ((), "max_tokens")
