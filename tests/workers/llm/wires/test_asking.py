"""One try over every wire: only a proper end counts, any input is survived, and every try is charged."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from vendors.answers import Body, Wire
from vendors.asking import CARD, WIRES, never, provider, reply, request
from vendors.pinging import Pinging
from vendors.server import Fault, Raw, Say, VendorServer, scripted

from forgepool.workers.llm.messages import Text, ToolCall, ToolResult, Turn, Usage, user
from forgepool.workers.llm.provider import ModelFailed
from forgepool.workers.llm.wires.normal_forms import VendorCounts, count, settle_counts

all_wires = pytest.mark.parametrize("wire", WIRES)
LONG = "x" * 4000
_NO_USAGE: Any = {}


def anthropic(reason: object, usage: object = _NO_USAGE, *, stopped: bool = True, **call: Any) -> list[Any]:
    block = {"type": "tool_use", "id": "t1", "name": "read_file", "input": {}} | call
    text = {"index": 0, "delta": {"type": "text_delta", "text": LONG}}
    return [
        {"type": "message_start", "message": {"id": "m", "model": "model-1", "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", **text},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": block},
        *([{"type": "content_block_stop", "index": 1}] if stopped else []),
        {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage},
        {"type": "message_stop"},
    ]


def responses(
    event: str, status: object, reason: object = None, usage: object = None, item: str = "completed"
) -> list[Any]:
    text = {"type": "message", "id": "m", "role": "assistant", "content": [{"type": "output_text", "text": LONG}]}
    call = {"type": "function_call", "id": "f", "call_id": "c1", "name": "read_file", "arguments": "{}", "status": item}
    details = {"reason": reason} if reason else None
    last = {"id": "r", "model": "model-1", "status": status, "incomplete_details": details, "usage": usage}
    return [{"type": f"response.{event}", "response": last | {"output": [text, call]}}]


def chat(finish: object, usage: object = None) -> list[Any]:
    call = {"index": 0, "id": "c1", "function": {"name": "read_file", "arguments": "{}"}}
    return [
        {"choices": [{"delta": {"content": LONG}}]},
        {"choices": [{"delta": {"tool_calls": [call]}}]},
        {"choices": [{"delta": {}, "finish_reason": finish}], "usage": usage},
        "data: [DONE]\n\n",
    ]


def ask(wire: Wire, events: list[Any], *turns: Turn, **own: Any) -> Turn:
    with VendorServer(scripted(Raw(events=events))) as server:
        turn = provider(wire, server, **own).ask(request(*(turns or (CARD,))), stop=never)
    assert server.invalid == []
    return turn


_BAD = ["abort", "insufficient_system_resource", "timeout", "network_error", "cancelled", "error_", "STOP!", "unheard"]


@pytest.mark.parametrize(
    ("wire", "events"),
    [
        *(("openai-chat", chat(word)) for word in _BAD),
        *(("anthropic", anthropic(word)) for word in [*_BAD, "error", "pause_turn"]),
        ("anthropic", anthropic("tool_use", stopped=False)),
        ("anthropic", anthropic("end_turn", stopped=False)),
        *(("openai-responses", responses("incomplete", "incomplete", word)) for word in [*_BAD, None]),
        *(("openai-responses", responses("completed", word)) for word in ("failed", "cancelled", "queued")),
        ("openai-responses", responses("incomplete", "cancelled", "max_output_tokens")),
        *(
            ("openai-responses", responses("completed", "completed", item=word))
            for word in ("incomplete", "in_progress")
        ),
        (
            "openai-responses",
            [
                {"type": "response.output_item.added", "output_index": 5, "item": {"type": "function_call"}},
                *responses("completed", "completed"),
            ],
        ),
    ],
)
def test_no_tool_is_run_from_a_turn_without_a_good_end(wire: Wire, events: list[Any]) -> None:
    """The server names an unknown end, or a part of the answer has none."""
    with pytest.raises(ModelFailed) as caught:
        ask(wire, events)
    assert caught.value.trouble == "truncated"


@pytest.mark.parametrize(
    ("wire", "events", "stop"),
    [
        *(
            ("openai-chat", chat(word), "refusal")
            for word in ("SAFETY", "PROHIBITED_CONTENT", "content-filter", "refusal")
        ),
        *(("openai-chat", chat(word), "max_tokens") for word in ("MAX_TOKENS", "max_output_tokens", "Length")),
        ("anthropic", anthropic("length"), "max_tokens"),
        ("anthropic", anthropic("content_filter"), "refusal"),
        ("openai-responses", responses("incomplete", "incomplete", "content_filter"), "refusal"),
        ("openai-responses", responses("incomplete", "incomplete", "max_tokens"), "max_tokens"),
        ("openai-responses", responses("completed", "completed", "content_filter"), "refusal"),
    ],
)
def test_other_words_for_too_long_and_for_refused_are_understood(wire: Wire, events: list[Any], stop: str) -> None:
    """In both cases no tool runs."""
    assert ask(wire, events).stop == stop


@all_wires
def test_a_good_end_with_calls_is_calls(wire: Wire) -> None:
    """The same events with a proper end show that the end decides the test above."""
    good = {
        "anthropic": anthropic("tool_use"),
        "openai-responses": responses("completed", "completed"),
        "openai-chat": chat("tool_calls"),
    }
    turn = ask(wire, good[wire])
    assert turn.stop == "calls" and [call.name for call in turn.calls] == ["read_file"]


_COUNTED: dict[Wire, tuple[str, str]] = {
    "anthropic": ("input_tokens", "output_tokens"),
    "openai-responses": ("input_tokens", "output_tokens"),
    "openai-chat": ("prompt_tokens", "completion_tokens"),
}
_EVENTS: Mapping[Wire, Callable[[object], list[Any]]] = {
    "anthropic": lambda usage: anthropic("tool_use", usage),
    "openai-responses": lambda usage: responses("completed", "completed", usage=usage),
    "openai-chat": lambda usage: chat("tool_calls", usage),
}


@all_wires
@pytest.mark.parametrize("number", [None, "", 0, -5, 10**15, "many", float("nan")])
def test_usage_that_cannot_be_is_guessed(wire: Wire, number: object) -> None:
    """Limits in tokens or money must hold even if a server reports no usage or nonsense."""
    given, said = _COUNTED[wire]
    usage = {given: number, said: number} if number != "" else {}
    turn = ask(wire, _EVENTS[wire](usage), user(Text(text="y" * 8000)))
    assert 2000 < turn.usage.input_tokens < 2600
    assert 1000 <= turn.usage.output_tokens < 1010
    assert turn.usage.fresh_tokens >= 0


def test_parts_of_usage_that_contradict_the_whole_count_as_fresh() -> None:
    """More tokens cannot come from a cache than were sent, so the higher price is used."""
    usage = settle_counts(
        VendorCounts(input=10, cached=99, written_1h=5, output=3, reasoning=9), sent="", said_characters=0
    )
    assert usage == Usage(input_tokens=10, output_tokens=3, reasoning_tokens=3, cost_usd=None)
    assert count({}, "x") is None


@all_wires
@pytest.mark.parametrize("kind", ["cut", "silence_midway"])
def test_what_broke_off_is_charged_for(wire: Wire, kind: Any) -> None:
    """The reported use counts, or an estimate. A reset is left out, because unread data may be lost with it."""
    half = Say(text="z" * 4000, calls=[("write_file", {"path": "a" * 400})])
    with VendorServer(scripted(Fault(kind=kind, half=half), Fault(kind="server"), Fault(kind="reset"))) as server:
        asked = provider(wire, server, silence_s=0.4)
        failures = []
        for _ in range(3):
            with pytest.raises(ModelFailed) as caught:
                asked.ask(request(), stop=never)
            failures.append(caught.value)
    broke, refused, unreached = failures
    assert broke.usage.input_tokens > 100 and broke.usage.cost_usd is None
    assert broke.usage.output_tokens >= 1000
    assert refused.usage == unreached.usage == Usage()


def _spoilt(wire: Wire) -> list[list[Body | str]]:
    """Return a good answer with each field of each event missing, null or of another type."""
    events = [event for event in _EVENTS[wire]({}) if isinstance(event, dict)]
    found: list[list[Body | str]] = []
    for place, event in enumerate(events):
        for path in _paths(event):
            for value in (None, [], 7, "x", {}):
                found.append([*events[:place], _with(event, path, value), *events[place + 1 :]])
    return found


def _paths(value: Any, before: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path for key, one in inner for path in ((*before, key), *_paths(one, (*before, key)))]


def _with(value: Any, path: tuple[Any, ...], new: object) -> Any:
    if not path:
        return new
    items = value.items() if isinstance(value, dict) else enumerate(value)
    changed = {key: _with(one, path[1:], new) if key == path[0] else one for key, one in items}
    return changed if isinstance(value, dict) else list(changed.values())


@all_wires
def test_whatever_an_event_lacks_the_process_goes_on(wire: Wire) -> None:
    """The result is either a turn, or one failed try with a sentence."""
    answers = _spoilt(wire)
    ends = set()
    with VendorServer(scripted(*(Raw(events=events) for events in answers))) as server:
        asked = provider(wire, server)
        for _ in answers:
            try:
                turn = asked.ask(request(), stop=never)
                assert turn.encode() and turn.usage.input_tokens > 0 and turn.usage.output_tokens >= 0
                ends.add("turn")
            except ModelFailed as failure:
                ends.add(failure.trouble)
    assert {"turn", "truncated"} <= ends


@pytest.mark.parametrize("early", [["a"], "text", 7, True])
def test_arguments_that_come_early_and_are_no_object_are_malformed(early: object) -> None:
    """A tool runs only with an object."""
    call = ask("anthropic", anthropic("tool_use", input=early)).calls[0]
    assert call.malformed is not None and call.arguments == {}


@all_wires
def test_an_id_that_another_call_has_is_not_used_again(wire: Wire) -> None:
    """Some servers number the calls of every answer from zero, and a result must belong to one call."""
    taken = {"anthropic": "t1", "openai-responses": "c1", "openai-chat": "c1"}[wire]
    earlier = Turn(role="assistant", parts=(ToolCall(id=taken, name="read_file"),))
    turns = (CARD, earlier, user(ToolResult(call_id=taken, text="x")))
    with VendorServer(scripted(Raw(events=_EVENTS[wire]({})), Say(text="done"))) as server:
        asked = provider(wire, server)
        turn = asked.ask(request(*turns), stop=never)
        asked.ask(request(*turns, turn, reply(turn)), stop=never)
    assert server.invalid == [] and turn.calls[0].id != taken


@all_wires
def test_what_is_sealed_goes_back_to_its_own_account_alone(wire: Wire) -> None:
    """Another account's vendor cannot open it and would refuse the request."""
    sealed = [0 if wire == "openai-chat" else 1, 0]
    with VendorServer(scripted(Say(thinking="hm", text="a"), Say(text="b"), Say(text="c"))) as server:
        first = provider(wire, server, account="ours").ask(request(), stop=never)
        for account in ("ours", "theirs"):
            provider(wire, server, account=account).ask(request(CARD, first, reply(first)), stop=never)
    assert server.invalid == []
    assert [str(seen.body).count("sealed") for seen in server.seen[1:]] == sealed


@all_wires
@pytest.mark.parametrize(("limit", "said"), [("longest_s", "still answering"), ("quiet_s", "signs of life")])
def test_signs_of_life_keep_nobody_waiting_for_ever(wire: Wire, limit: str, said: str) -> None:
    """A server that sends pings is never silent on the connection."""
    with Pinging() as server, pytest.raises(ModelFailed, match=said) as caught:
        provider(wire, server.url, **{limit: 0.4}).ask(request(), stop=never)
    assert caught.value.trouble == "silence" and server.pings > 2
