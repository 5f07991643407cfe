"""Summaries of conversations, asked of models over real HTTP: what they may change, and what they cost."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from alive import LIKE, Alive, long
from vendors.answers import EMPTY, Answer, Body, Fault, Say, Seen, Tokens, Wire
from vendors.asking import WIRES, provider
from vendors.server import VendorServer

from forgepool.workers.agents.builtin.models import SummaryAsker, SummaryModel, TableModels
from forgepool.workers.context.edits.state import Profile, SummaryQuestion
from forgepool.workers.context.profiles.comparators import Compact
from forgepool.workers.context.profiles.pace import Pace
from forgepool.workers.context.profiles.soulforge import SoulforgeV1
from forgepool.workers.context.transcript.entries import Answered, Rebuilt, TurnSaid, now
from forgepool.workers.context.transcript.usage import Meter
from forgepool.workers.llm.messages import ToolResult
from forgepool.workers.llm.routing.table import read_table
from forgepool.workers.schema.orders import BuiltinAgent, Limits, Spent, WorkOrder
from forgepool.workers.schema.settings import Settings
from forgepool.workers.tools.commands.red_phase import CONFIRM

KEY = "SUMMONING_TEST_KEY"
SECRET = "sk-very-secret-0123456789"
PROFILES: dict[str, Callable[[], Profile]] = {
    "pace": Pace,
    "soulforge-v1": lambda: SoulforgeV1(trigger_tokens=3_500),
    "compact": lambda: Compact(trigger_tokens=3_500),
}
YAML = """\
files_read: [src/f1.py]
files_written: []
plan_committed: false
key_decisions: [keep the clock an argument]
last_test_output: "1 failed"
red_phase_confirmed: true
"""
PROSE = "The clock in src/f1.py is to become an argument; its test fails as it should, and the code is not written yet."


ORDER = WorkOrder(
    order_id="r.t.1",
    token="tok",
    run="r",
    task="t",
    attempt=1,
    hub="/hub",
    target="main",
    base="0" * 40,
    title="Mend the clock",
    agent=BuiltinAgent(),
    issued_at=1.0,
    start_by=2.0,
)


def good(profile: str) -> Say:
    return Say(text=YAML if profile == "pace" else PROSE)


@dataclass(slots=True, kw_only=True)
class Ground:
    """A server with a model that leads and one for summaries, and the meter that is charged."""

    server: VendorServer
    settings: Settings
    meter: Meter
    longest_s: float = 20.0

    @property
    def models(self) -> TableModels:
        table = read_table(self.settings.models_file)
        return TableModels(order=ORDER, agent=BuiltinAgent(), table=table, settings=self.settings)

    @property
    def asker(self) -> SummaryAsker:
        return SummaryAsker(
            leading=lambda: self.models.beside("execute", "lead"),
            compact=self.models.compact,
            meter=self.meter,
            stop=lambda: False,
            hide=lambda text: text.replace(SECRET, "[hidden]"),
            longest_s=self.longest_s,
        )

    def alive(self, folder: Path, profile: str) -> Alive:
        """Yield a conversation whose profile wants a summary before the next call."""
        alive = Alive(folder, PROFILES[profile](), ask=self.asker.ask)
        for number in range(6):
            alive.call(answer=long(number, 3_000) if number else f"The key is {SECRET}.")
        if profile == "pace":
            alive.call(CONFIRM, "OK: confirmed\n1 failed", command="pytest -q")
        return alive


Serve = Callable[..., Ground]


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    monkeypatch.setenv(KEY, "k-1")
    servers: list[VendorServer] = []

    def go(brain: Callable[[Seen], Answer], *, compact: bool = True) -> Ground:
        servers.append(VendorServer(brain, models=["lead", "small"]))
        server = servers[-1].__enter__()
        price = "{input: 1, cached: 0.1, written: 1.25, output: 5}"
        model = f"account: local, family: test, window_tokens: 100000, max_output_tokens: 4000, price: {price}"
        route = "reason: a test, source: here, date: '2026-11-01'"
        path = tmp_path / "models.yaml"
        small = f"  compact: {{primary: small, {route}}}\n" if compact else ""
        path.write_text(
            f"accounts:\n  local: {{wire: anthropic, key: {KEY}, base_url: '{server.url}'}}\n"
            f"models:\n  lead: {{{model}}}\n  small: {{{model}}}\n"
            f"routes:\n  code: {{primary: lead, {route}}}\n{small}budget: small\n"
        )
        settings = Settings(home=tmp_path / "home", cache=tmp_path / "cache", models=path)
        return Ground(server=server, settings=settings, meter=Meter(limits=Limits()))

    yield go
    for server in servers:
        server.__exit__(None, None, None)


def only_rebuilt(alive: Alive) -> Rebuilt:
    (found,) = [entry for entry in alive.rebuilds if entry.calls]
    return found


def told(alive: Alive) -> Spent:
    """Return the use that another process would find, without turns of the conversation."""
    return Meter.of(Limits(), alive.transcript.entries).spent.model_copy(update={"turns": 0})


@pytest.mark.parametrize("profile", PROFILES)
def test_a_good_summary_takes_the_place_of_what_it_sums_up(tmp_path: Path, serve: Serve, profile: str) -> None:
    """It is asked for once. The transcript has its model, its cost and what it replaced, and the cost is charged."""
    ground = serve(lambda seen: good(profile))
    with ground.alive(tmp_path, profile) as alive:
        before = len(alive.shown)
        alive.context.prepare()
        entry = only_rebuilt(alive)
        assert entry.edit is not None and entry.calls == 1 and entry.dropped, entry.why
        assert len(alive.shown) < before / 2
        assert ("keep the clock an argument" if profile == "pace" else PROSE) in alive.shown.decode()
        assert [seen.model for seen in ground.server.seen] == ["lead" if profile == "compact" else "small"]
        assert entry.usage.cost_usd == ground.meter.spent.cost_usd and (entry.usage.cost_usd or 0) > 0
        assert told(alive) == ground.meter.spent
        assert ground.server.invalid == []


_BAD: dict[str, Callable[[str], Answer]] = {
    "bad": lambda profile: Say(text="files_read: [[["),
    "contrary": lambda profile: Say(
        text=YAML.replace("red_phase_confirmed: true", "red_phase_confirmed: false")
        if profile == "pace"
        else "All is done in lib/made/up.py and lib/never/seen.py, see also docs/nowhere/at_all.md for its design."
    ),
    "slow": lambda profile: Fault(kind="silence", seconds=30.0),
    "slow midway": lambda profile: Fault(kind="silence_midway", seconds=30.0, half=good(profile)),
    "empty": lambda profile: EMPTY,
    "blank": lambda profile: Say(text=" \n"),
    "oversized": lambda profile: Say(text=good(profile).text + "# " + "more and more " * 10_000),
    "cut off": lambda profile: Say(text=good(profile).text, stop="max_tokens"),
    "refusing": lambda profile: Say(text=good(profile).text, stop="refusal"),
    "calling": lambda profile: Say(text=good(profile).text, calls=[("read_file", {"path": "src/f1.py"})]),
    "failing": lambda profile: Fault(kind="server"),
    "overloaded": lambda profile: Fault(kind="overloaded"),
    "breaking off": lambda profile: Fault(kind="reset_midway", half=good(profile)),
    "not taking it": lambda profile: Fault(kind="overflow"),
    "refusing the request": lambda profile: Fault(kind="bad_request"),
}


_WHY = {
    "slow": "had not answered after 0.5 s",
    "slow midway": "had not answered after 0.5 s",
    "empty": "its answer was empty",
    "cut off": "its answer ended by max_tokens",
    "calling": "it called a tool where it was to answer",
}


@pytest.mark.parametrize("how", _BAD)
@pytest.mark.parametrize("profile", PROFILES)
def test_a_summary_that_is_none_changes_nothing(tmp_path: Path, serve: Serve, profile: str, how: str) -> None:
    """
    The view stays the same byte for byte. The transcript gives the reason, the use is charged, and the conversation
    continues.
    """
    ground = serve(lambda seen: _BAD[how](profile))
    ground.longest_s = 0.5 if how.startswith("slow") else 20.0
    with ground.alive(tmp_path, profile) as alive:
        before = alive.shown
        alive.context.prepare()
        assert alive.shown == before
        entry = only_rebuilt(alive)
        assert entry.edit is None and entry.calls == 1
        assert _WHY.get(how, "") in entry.why
        assert told(alive) == ground.meter.spent
        if how in ("slow midway", "breaking off", "oversized"):
            assert (ground.meter.spent.cost_usd or 0) > 0, "it had begun to answer"
        alive.call()
        assert {seen.model for seen in ground.server.seen} == {"lead" if profile == "compact" else "small"}
        assert len(ground.server.seen) <= 2, "a trouble that may pass is tried twice; else nobody is asked again"


@pytest.mark.parametrize("profile", ["pace", "soulforge-v1"])
def test_without_a_route_nobody_is_asked(tmp_path: Path, serve: Serve, profile: str) -> None:
    ground = serve(lambda seen: good(profile), compact=False)
    with ground.alive(tmp_path, profile) as alive:
        before = alive.shown
        alive.context.prepare()
        assert alive.shown == before and ground.server.seen == []
        assert [entry.calls for entry in alive.rebuilds] == [0]
        assert "no model is set for the route 'compact'" in alive.rebuilds[0].why
        assert ground.meter.spent == Spent()


@pytest.mark.parametrize("limits", [Limits(cost_usd=0.001), Limits(tokens=500)])
@pytest.mark.parametrize("profile", PROFILES)
def test_who_has_used_its_limits_asks_nobody(tmp_path: Path, serve: Serve, profile: str, limits: Limits) -> None:
    """The rest belongs to the conversation itself."""
    ground = serve(lambda seen: good(profile))
    ground.meter = Meter(limits=limits)
    with ground.alive(tmp_path, profile) as alive:
        alive.context.prepare()
        assert ground.server.seen == []
        assert "no model was asked: the agent used its" in alive.rebuilds[0].why


def test_a_secret_is_shown_to_nobody_and_taken_from_nobody(tmp_path: Path, serve: Serve) -> None:
    """It is hidden in the request for a summary and in the summary."""
    ground = serve(lambda seen: Say(text=f"{PROSE} The key is {SECRET}."))
    with ground.alive(tmp_path, "soulforge-v1") as alive:
        alive.context.prepare()
        assert "[hidden]" in "".join(ground.server.seen[0].texts)
        assert SECRET.encode() not in ground.server.seen[0].raw
        assert only_rebuilt(alive).edit is not None and SECRET not in alive.shown.decode()


def _blocks(body: Body) -> list[tuple[str, Any]]:
    """Return the blocks of its messages, in order, without their marks."""
    return [
        (message["role"], {key: value for key, value in block.items() if key != "cache_control"})
        for message in body["messages"]
        for block in message["content"]
    ]


def _marks(body: Body) -> list[int]:
    blocks = [block for message in body["messages"] for block in message["content"]]
    return [number for number, block in enumerate(blocks) if "cache_control" in block]


def test_a_question_about_the_conversation_is_read_from_its_cache(tmp_path: Path, serve: Serve) -> None:
    """
    Its system, tools and turns equal the conversation's byte for byte, with a mark where the last request ended.

    The next request of the conversation finds as much in the cache as if there had been no question.
    """
    ground = serve(lambda seen: Say(calls=[("read_file", {"path": "src/new.py"})]) if seen.number != 2 else EMPTY)
    with Alive(tmp_path, PROFILES["compact"](), ask=ground.asker.ask) as alive:
        for number in range(3):
            alive.call(answer=long(number, 3_000), model="lead")
        leading = ground.models.open("execute", stronger=False).provider

        def ask() -> None:
            alive.context.prepare()
            turn = leading.ask(alive.context.request, stop=lambda: False)
            alive.transcript.append(TurnSaid(at=now(), turn=turn))
            result = ToolResult(call_id=turn.calls[0].id, text=long(9, 12_000))
            alive.transcript.append(Answered(at=now(), iteration=1, seconds=0.0, result=result))

        ask()
        assert alive.rebuilds == []
        ask()
        assert only_rebuilt(alive).edit is None
        first, question, second = (seen.body for seen in ground.server.seen)
        assert (question["tools"], question["system"]) == (first["tools"], first["system"])
        known = _blocks(first)
        assert _blocks(question)[: len(known)] == known
        assert _blocks(question)[:-1] == _blocks(second)
        assert _marks(first)[-1] in _marks(question) and _marks(first)[-1] in _marks(second)
        assert question["messages"][-1]["content"][-1]["text"].endswith("Answer with text alone; call no tool.")
        turns = [entry.turn for entry in alive.transcript.entries if isinstance(entry, TurnSaid)]
        usages = [turn.usage for turn in turns if turn.usage.input_tokens]
        assert only_rebuilt(alive).usage.cached_tokens == usages[0].input_tokens == usages[1].cached_tokens
        assert ground.server.invalid == []


@pytest.mark.parametrize("wire", WIRES)
def test_a_question_begins_with_all_of_the_conversation_on_every_wire(tmp_path: Path, wire: Wire) -> None:
    """It uses the conversation's cache key, if there is one. These caches need no marks."""
    said = "messages" if wire != "openai-responses" else "input"
    with VendorServer(lambda seen: EMPTY) as server, Alive(tmp_path, "off") as alive:
        for number in range(3):
            alive.call(answer=long(number))
        leading = SummaryModel(provider=provider(wire, server), price=lambda given, answered: 0.0)
        meter = Meter(limits=Limits())
        asker = SummaryAsker(leading=lambda: leading, compact=lambda: None, meter=meter, stop=lambda: False)
        leading.provider.ask(alive.context.request, stop=lambda: False)
        asker.ask(SummaryQuestion(kind="prose", instruction="Sum up."), alive.context.request, lambda: True)
        first, question = (_unmarked(seen.body) for seen in server.seen)
        assert server.invalid == []
    added = _parts(question[said])[len(_parts(first[said])) :]
    assert _parts(question[said])[: len(_parts(first[said]))] == _parts(first[said])
    assert len(added) == 1 and "Sum up." in str(added[0])
    others = [{key: value for key, value in body.items() if key not in (said, *_MOST)} for body in (first, question)]
    assert others[0] == others[1] and "tools" in others[0]


_MOST = ("max_tokens", "max_output_tokens", "max_completion_tokens")


def _unmarked(value: Any) -> Any:
    if isinstance(value, list):
        return [_unmarked(one) for one in value]
    if isinstance(value, dict):
        return {key: _unmarked(one) for key, one in value.items() if key != "cache_control"}
    return value


def _parts(messages: list[Body]) -> list[Any]:
    """Return each block with its side; on some wires, results of calls are messages of their own."""
    return [
        (message.get("role"), block)
        for message in messages
        for block in (message["content"] if isinstance(message.get("content"), list) else [message])
    ]


def test_who_cannot_sum_it_up_still_leads_the_conversation(tmp_path: Path, serve: Serve) -> None:
    """A chain drops a model that refuses a request of its conversation, and the question is no such request."""

    def brain(seen: Seen) -> Answer:
        return Fault(kind="bad_request") if "write a summary" in "".join(seen.texts) else Say(text="Going on.")

    ground = serve(brain)
    with ground.alive(tmp_path, "compact") as alive:
        leading = ground.models.open("execute", stronger=False).provider
        alive.context.ask = ground.asker.ask
        alive.context.prepare()
        assert only_rebuilt(alive).edit is None
        assert leading.ask(alive.context.request, stop=lambda: False).text == "Going on."


def test_no_more_is_asked_for_than_the_question_allows_and_the_limits_leave(serve: Serve) -> None:
    ground = serve(lambda seen: Say(text=PROSE, usage=Tokens(input=10, output=10)))
    question = SummaryQuestion(kind="prose", instruction="Sum up.", text="what was", max_output_tokens=700)
    for limits in (Limits(), Limits(tokens=600)):
        ground.meter = Meter(limits=limits)
        ground.asker.ask(question, LIKE, lambda: True)
    most = [seen.body["max_tokens"] for seen in ground.server.seen]
    assert most[0] == 700 and 512 <= most[1] < 600


def test_nobody_is_asked_once_where_that_cannot_be_written_down(serve: Serve) -> None:
    """Otherwise another attempt would ask and pay again."""
    ground = serve(lambda seen: Say(text=PROSE))
    said = ground.asker.ask(SummaryQuestion(kind="prose", instruction="Sum up.", text="what was"), LIKE, lambda: False)
    assert said == "no model was asked: the hub could not record that it would be"
    assert ground.server.seen == []
