"""The adapter for OpenAI's newer wire, over real HTTP."""

import json
from typing import Any

import pytest
from vendors.asking import CARD, never, provider, reply, request
from vendors.server import Raw, Say, Tokens, VendorServer, scripted
from vendors.wires.shapes import assert_shaped

from forgepool.workers.llm.messages import Opaque, Text, ToolCall, ToolResult, Turn, Usage, user
from forgepool.workers.llm.provider import Delta, Endpoint, LlmEvent
from forgepool.workers.llm.wires.openai_responses import body

_READ: Any = ("read_file", {"path": "a.py"})
_WIRE = "openai-responses"


def test_a_turn_has_all_that_was_said_in_its_order() -> None:
    """It has reasoning, text, two calls, the vendor's id and the model, and its pieces were streamed."""
    heard: list[LlmEvent] = []
    said = Say(thinking="I think", text="I will read", phase="commentary", calls=[_READ, ("write_file", {})])
    with VendorServer(scripted(said)) as server:
        turn = provider(_WIRE, server).ask(request(), stop=never, hear=heard.append)
    assert [part.kind for part in turn.parts] == ["opaque", "text", "call", "call"]
    assert [call.arguments for call in turn.calls] == [{"path": "a.py"}, {}]
    assert turn.parts[1] == Text(text="I will read", phase="commentary")
    assert (turn.stop, turn.id, turn.model) == ("calls", "resp_1", "model-1")
    assert {event.kind for event in heard if isinstance(event, Delta)} == {"thinking", "text", "call"}


def test_usage_counts_all_of_the_input() -> None:
    """Cached tokens are part of the input, as the vendor counts."""
    said = Tokens(input=1000, cached=600, written=300, output=50, reasoning=20)
    with VendorServer(scripted(Say(text="x", usage=said))) as server:
        usage = provider(_WIRE, server).ask(request(), stop=never).usage
    assert usage == Usage(
        input_tokens=1000,
        cached_tokens=600,
        written_tokens=300,
        output_tokens=50,
        reasoning_tokens=20,
        cost_usd=None,
    )


@pytest.mark.parametrize("redacted", [False, True])
def test_reasoning_goes_back_before_what_it_led_to(redacted: bool) -> None:
    """It is sent back complete and sealed, even if nothing else came. Texts keep their mark."""
    first_say = Say(thinking="I think", redacted=redacted, text="Reading.", phase="commentary", calls=[_READ])
    answers = (first_say, Say(thinking="hm", redacted=redacted), Say(text="done"))
    with VendorServer(scripted(*answers)) as server:
        asked = provider(_WIRE, server)
        first = asked.ask(request(), stop=never)
        second = asked.ask(request(CARD, first, reply(first)), stop=never)
        asked.ask(request(CARD, first, reply(first), second, reply(second)), stop=never)
    assert server.invalid == []
    items = server.seen[1].body["input"]
    assert [item["type"] for item in items[1:5]] == ["reasoning", "message", "function_call", "function_call_output"]
    assert items[2]["phase"] == "commentary"


def test_another_models_reasoning_is_left_out() -> None:
    """It is sealed for that model, and this one's vendor would refuse the request."""
    with VendorServer(scripted(Say(thinking="I think", calls=[_READ]), Say(text="ok"))) as server:
        first = provider(_WIRE, server, model="model-0").ask(request(), stop=never)
        provider(_WIRE, server).ask(request(CARD, first, reply(first)), stop=never)
    assert server.invalid == []
    kinds = [item["type"] for item in server.seen[1].body["input"]]
    assert kinds == ["message", "function_call", "function_call_output", "message"]


def test_a_conversation_goes_on_over_another_wire() -> None:
    """Parts that only the first vendor understands are left out."""
    with VendorServer(
        scripted(Say(thinking="I think", text="x", calls=[_READ]), Say(text="a"), Say(text="b"))
    ) as server:
        first = provider("anthropic", server).ask(request(), stop=never)
        for wire in (_WIRE, "openai-chat"):
            provider(wire, server).ask(request(CARD, first, reply(first)), stop=never)
    assert server.invalid == []


def _turns() -> tuple[Turn, ...]:
    sealed = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "sealed"}
    answer = Turn(
        role="assistant",
        parts=(
            Opaque(wire="openai-responses", model="m", block=sealed),
            Text(text="I read", phase="commentary"),
            ToolCall(id="toolu_" + "x" * 80, name="read_file", arguments={"path": "é"}),
            ToolCall(id="b", name="read_file", malformed='{"path": '),
        ),
    )
    results = user(
        Text(text="First a word."),
        ToolResult(call_id="toolu_" + "x" * 80, text=""),
        ToolResult(call_id="b", text="no", is_error=True),
    )
    return CARD, answer, results, user(Text(text="")), Turn(role="assistant", parts=()), user()


def test_a_request_is_what_the_kits_own_type_allows() -> None:
    """It has every part a conversation can have, no unknown field, and asks the vendor not to store it."""
    asked = body(Endpoint(model="m", effort="high", max_output_tokens=9), request(*_turns(), max_output_tokens=7))
    assert_shaped(_WIRE, asked)
    assert "temperature" not in asked
    assert (asked["store"], asked["include"]) == (False, ["reasoning.encrypted_content"])
    assert (asked["reasoning"], asked["max_output_tokens"]) == ({"effort": "high"}, 7)
    assert {tool["strict"] for tool in asked["tools"]} == {False}


def test_any_conversation_of_ours_is_taken_by_a_strict_vendor() -> None:
    """It has empty texts, an empty turn, two user turns in a row, long ids, and text before results."""
    with VendorServer(scripted(Say(text="ok"))) as server:
        provider(_WIRE, server).ask(request(*_turns()), stop=never)
    assert server.invalid == []
    calls = [item for item in server.seen[0].body["input"] if item["type"] == "function_call"]
    assert [json.loads(call["arguments"]) for call in calls] == [{"path": "é"}, {}]


def test_an_item_told_of_only_at_the_end_is_part_of_the_turn() -> None:
    """Some servers omit the events in between, and most of the usage."""
    item = {
        "type": "message",
        "id": "m",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Hello\ud83d"}],
    }
    response = {"id": "r", "model": "served", "status": "completed", "output": [item], "usage": {"input_tokens": 3}}
    with VendorServer(scripted(Raw(events=[{"type": "response.completed", "response": response}]))) as server:
        turn = provider(_WIRE, server).ask(request(), stop=never)
    assert (turn.text, turn.model, turn.usage.input_tokens, turn.usage.output_tokens) == ("Hello\ufffd", "served", 3, 2)


def test_items_told_of_before_the_end_need_no_second_telling() -> None:
    """An end without items still ends the turn. Reasoning without a seal cannot be sent back."""
    message = {"type": "message", "id": "m", "role": "assistant", "content": [{"type": "output_text", "text": "Hello"}]}
    reasoning = {"type": "reasoning", "id": "r", "summary": []}
    events = [
        *(
            {"type": "response.output_item.done", "output_index": place, "item": item}
            for place, item in enumerate([reasoning, message])
        ),
        {"type": "response.completed", "response": {"id": "r", "model": "served", "status": "completed", "output": []}},
    ]
    with VendorServer(scripted(Raw(events=events))) as server:
        turn = provider(_WIRE, server).ask(request(), stop=never)
    assert turn.parts == (Text(text="Hello"),)


def test_a_refusal_is_one_whatever_else_is_in_the_answer() -> None:
    """The vendor calls the answer completed, and a call in it must not run."""
    refusal = {"type": "message", "id": "m", "role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}
    call = {"type": "function_call", "id": "f", "call_id": "c", "name": "read_file", "arguments": "{}"}
    response = {"id": "r", "model": "served", "status": "completed", "output": [refusal, call]}
    with VendorServer(scripted(Raw(events=[{"type": "response.completed", "response": response}]))) as server:
        turn = provider(_WIRE, server).ask(request(), stop=never)
    assert (turn.text, turn.stop) == ("No.", "refusal")
