"""Over whole conversations and real HTTP, what was sent before is found in the vendors' caches."""

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest
from vendors.answers import Body, Seen, Wire
from vendors.asking import CARD, WIRES, never, provider, reply, request
from vendors.server import Answer, Say, VendorServer

from forgepool.workers.llm.messages import Text, ToolResult, Turn, user
from forgepool.workers.llm.provider import Provider
from forgepool.workers.llm.wires.anthropic import mark

_TURNS = 30
_BIG_TURN = 12
"""A turn with more calls than the vendor looks back for a mark."""


def _brain(seen: Seen) -> Answer:
    calls: list[Any] = [("read_file", {"path": f"src/f{seen.number}_{n}.py"}) for n in range(25)]
    return Say(
        thinking=f"thought {seen.number}" if seen.number % 3 else "",
        text=f"Step {seen.number}." if seen.number % 2 else "",
        calls=calls if seen.number == _BIG_TURN else calls[:1],
    )


def _conversation(asked: Provider, *, turns: int = _TURNS, lasting: bool = False) -> Iterator[Turn]:
    """Yield the model's turns; results follow each, and every fifth time a message of the harness."""
    said: list[Turn] = [CARD]
    for number in range(turns):
        turn = asked.ask(request(*said, lasting=lasting), stop=never)
        yield turn
        results = [ToolResult(call_id=call.id, text="x" * 200) for call in turn.calls]
        words = [Text(text="Half of your turns are left.")] if number % 5 == 0 else []
        said += [turn, user(*results, *words)]


def _unmarked(value: Any) -> Any:
    if isinstance(value, list):
        return [_unmarked(one) for one in value]
    if isinstance(value, dict):
        return {key: _unmarked(one) for key, one in value.items() if key != "cache_control"}
    return value


def _prompt(wire: Wire, body: Body) -> list[str]:
    """Return everything a cache may hold, in its order, byte for byte."""
    if wire == "openai-responses":
        parts = [body["tools"], body["instructions"], *body["input"]]
    else:
        parts = [body["tools"], body.get("system"), *body["messages"]]
    return [json.dumps(_unmarked(part)) for part in parts]


@pytest.mark.parametrize("wire", WIRES)
def test_a_request_only_adds_to_the_one_before(wire: Wire) -> None:
    """Over thirty turns, every request begins with all of the one before it, byte for byte."""
    with VendorServer(_brain) as server:
        assert len(list(_conversation(provider(wire, server)))) == _TURNS
    prompts = [_prompt(wire, seen.body) for seen in server.seen]
    assert server.invalid == []
    assert len(prompts) == _TURNS
    for before, now in itertools.pairwise(prompts):
        assert now[: len(before)] == before
        assert len(now) > len(before)


def test_nothing_beside_the_prompt_changes_either() -> None:
    """The other fields, above all the cache key, are equal in every request of a conversation."""
    with VendorServer(_brain) as server:
        list(_conversation(provider("openai-responses", server), turns=4))
    others = [{key: value for key, value in seen.body.items() if key != "input"} for seen in server.seen]
    assert all(other == others[0] for other in others)
    assert others[0]["prompt_cache_key"]


def test_another_task_has_another_cache_key() -> None:
    """One key for all would send all requests to one machine."""
    with VendorServer(_brain) as server:
        asked = provider("openai-responses", server)
        for card in (CARD, user(Text(text="Another task."))):
            asked.ask(request(card), stop=never)
    assert len({seen.body["prompt_cache_key"] for seen in server.seen}) == 2


@pytest.mark.parametrize("lasting", [False, True])
def test_all_that_was_marked_before_is_read_from_the_cache(lasting: bool) -> None:
    """One turn has more blocks than are looked back for. At most four marks are sent."""
    with VendorServer(_brain) as server:
        usages = [turn.usage for turn in _conversation(provider("anthropic", server), lasting=lasting)]
    assert server.invalid == []  # More than four marks, or an hour's after one of five minutes, would be in it.
    for before, now in itertools.pairwise(usages):
        assert now.cached_tokens == before.input_tokens
        assert now.fresh_tokens == 0
    assert usages[-1].hit_rate > 0.9


def test_only_the_lasting_beginning_is_kept_for_an_hour() -> None:
    """It is the tools, the system and the task card of a long conversation. The rest is cached for five minutes."""
    with VendorServer(_brain) as server:
        long = [turn.usage for turn in _conversation(provider("anthropic", server), turns=3, lasting=True)]
    with VendorServer(_brain) as server:
        short = [turn.usage for turn in _conversation(provider("anthropic", server), turns=3)]
    assert [usage.written_1h_tokens > 0 for usage in long] == [True, False, False]
    assert [usage.written_tokens > 0 for usage in long] == [True, True, True]
    assert [usage.written_1h_tokens for usage in short] == [0, 0, 0]


def test_another_task_finds_what_all_tasks_share() -> None:
    """Tools and the first system block come from the cache, and the rest is the task's own."""
    with VendorServer(_brain) as server:
        asked = provider("anthropic", server)
        for task in ("one", "another"):
            card = user(Text(text=f"Task {task}"))
            turn = asked.ask(request(card, system=("What all tasks share." * 20, task)), stop=never)
    assert turn.usage.cached_tokens > 100


def test_another_task_with_the_same_skill_finds_the_skill_too() -> None:
    """The whole system prompt is written to the cache by the first task, and read by the second one's first request."""
    skill = "What a role is told. " * 3_000
    with VendorServer(_brain) as server:
        asked = provider("anthropic", server)
        first, second = (
            asked.ask(request(user(Text(text=task)), system=("What all share.", "The phase.", skill)), stop=never).usage
            for task in ("one", "another")
        )
    assert server.invalid == []
    assert first.cached_tokens == 0
    assert second.cached_tokens > len(skill) // 4
    assert second.written_tokens + second.fresh_tokens < 100


@pytest.mark.parametrize("wire", WIRES)
def test_another_task_finds_the_survey_that_both_begin_with(wire: Wire) -> None:
    """The whole survey is read by the second task's first request, and no request has a mark too many."""
    survey = Text(text="## Survey of the repository. " * 2_000)
    with VendorServer(_brain) as server:
        asked = provider(wire, server)
        reads, keys = [], []
        for task in ("one", "another"):
            said = [user(survey, Text(text=task))]
            for number in range(4):
                turn = asked.ask(request(*said, shares_first=True), stop=never)
                reads += [] if number else [turn.usage]
                said += [turn, reply(turn)]
            keys.append(server.seen[-1].body.get("prompt_cache_key"))
    assert server.invalid == []
    assert reads[0].cached_tokens == 0
    assert reads[1].cached_tokens > len(survey.text) // 4
    assert reads[1].input_tokens - reads[1].cached_tokens < 100
    assert wire != "openai-responses" or keys[0] != keys[1], "one key would send all tasks to one machine"


def test_openai_reports_what_it_found_by_itself() -> None:
    """Its caches need no marks, and the usage still reports what they held."""
    for wire in WIRES[1:]:
        with VendorServer(_brain) as server:
            usages = [turn.usage for turn in _conversation(provider(wire, server), turns=5)]
        assert usages[0].cached_tokens == 0
        for before, now in itertools.pairwise(usages):
            assert before.input_tokens - now.cached_tokens < 32


def _marked(blocks: list[Body]) -> list[bool]:
    return ["cache_control" in block for block in blocks]


def test_without_a_system_prompt_the_tools_are_marked() -> None:
    """The shared beginning is marked, whichever part exists. With neither part there is no mark."""
    tools, messages = [{"name": "a"}, {"name": "b"}], [{"role": "user", "content": [{"type": "text", "text": "x"}]}]
    mark(tools, [], messages, lasting=False)
    assert _marked(tools) == [False, True]
    assert _marked(messages[0]["content"]) == [True]
    mark([], [], messages, lasting=False)


def test_no_mark_is_shared_between_requests() -> None:
    """A new request made from the same turns carries only its own marks."""
    with VendorServer(_brain) as server:
        asked = provider("anthropic", server)
        turn = asked.ask(request(), stop=never)
        asked.ask(request(CARD, turn, reply(turn)), stop=never)
        asked.ask(request(), stop=never)
    assert server.seen[0].raw == server.seen[2].raw
