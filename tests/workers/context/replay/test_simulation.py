"""A replay shows exactly what an agent would have been shown, call by call, with prices and losses."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded import Tape, random_tape

from forgepool.workers.context.edits.masks import HARNESS, cut, find_answered_turn, find_seen, mask_steps
from forgepool.workers.context.edits.state import Cause, ContextState, EditProposal, Moment, Profile, SummaryQuestion
from forgepool.workers.context.profiles import registry
from forgepool.workers.context.profiles.advisory import Advisory
from forgepool.workers.context.profiles.comparators import Compact, Condenser
from forgepool.workers.context.profiles.ghost import Ghost
from forgepool.workers.context.profiles.ledger import variant
from forgepool.workers.context.profiles.pace import Pace
from forgepool.workers.context.profiles.registry import Off
from forgepool.workers.context.profiles.soulforge import SoulforgeV1, SoulforgeV2
from forgepool.workers.context.replay.comparison import APPEND_ONLY, UNCACHED, Columns, cases, compare, row_names
from forgepool.workers.context.replay.cost import ANTHROPIC, OPENAI, Block, Cashier
from forgepool.workers.context.replay.needs import needs
from forgepool.workers.context.replay.recording import Recording
from forgepool.workers.context.replay.simulation import ReplayOutcome, ReplayTerms, simulate
from forgepool.workers.context.shorten.new_results import Birth
from forgepool.workers.context.transcript.edit import Edit
from forgepool.workers.context.transcript.names import part_text
from forgepool.workers.context.transcript.usage import lengths, turn_length
from forgepool.workers.context.view.view import ContextView
from forgepool.workers.llm.messages import Text, ToolCall, Turn, Usage
from forgepool.workers.tools.endings import COMPACT

TERMS = ReplayTerms(prices=ANTHROPIC)


def run(
    recording: Recording, profile: Profile, terms: ReplayTerms = TERMS, birth: Birth | None = None
) -> ReplayOutcome:
    return simulate(recording, needs(recording.turns, frozenset()), profile, terms, birth=birth)


@dataclass(slots=True, kw_only=True)
class Watched:
    """A profile that records its causes and answers as it is told."""

    answer: Callable[[ContextState, Moment], EditProposal | None] = lambda state, moment: None
    causes: list[Cause] = field(default_factory=list)
    states: list[tuple[int, float]] = field(default_factory=list)
    fired: list[frozenset[str]] = field(default_factory=list)

    @property
    def name(self) -> str:
        return "watched"

    def propose(self, state: ContextState, moment: Moment) -> EditProposal | None:
        self.causes.append(moment.cause)
        self.fired.append(moment.fired)
        self.states.append((len(state.turns), state.gauge.tokens(4_000)))
        return self.answer(state, moment)


@dataclass(slots=True, kw_only=True)
class Random:
    """A profile that cuts and masks at random, the same for one seed."""

    seed: int

    @property
    def name(self) -> str:
        return "random"

    def propose(self, state: ContextState, moment: Moment) -> EditProposal | None:
        chance = random.Random(self.seed * 1_000 + len(state.turns))
        last = find_answered_turn(state.turns)
        kind = chance.randrange(4)
        if kind == 0 and (old := find_seen(state)):
            return EditProposal(edit=mask_steps(state, {chance.choice(old).step: "gone"}), why="mask")
        if kind == 1 and last > state.edit.cut:
            place = chance.choice([at for at in range(state.edit.cut, last + 1) if state.turns[at].role == "assistant"])
            return EditProposal(edit=cut(state, place, f"{HARNESS} {place}"), why="cut")
        return None


def test_a_conversation_that_only_grows_is_written_once_and_read_at_each_further_call() -> None:
    tape = Tape(task="t" * 40, system="s" * 400)
    for _ in range(3):
        tape.call("bash", {"command": "c" * 32}, "r" * 80, said="")
    outcome = run(tape.recording, Off())
    said = len("bash") + len("command") + 32
    steps = [(400 + 40 + done * (said + 80)) / 4 for done in range(3)]
    assert outcome.bill.written == steps[-1] and outcome.bill.cached == steps[0] + steps[1]
    assert (outcome.bill.fresh, outcome.bill.calls, outcome.bill.output) == (0, 3, 3 * said / 4)
    assert (outcome.bill.peak, outcome.bill.mean) == (steps[-1], sum(steps) / 3)
    assert outcome.spent_usd[-1] == pytest.approx(outcome.bill.cost_usd(ANTHROPIC)) and len(outcome.spent_usd) == 3


def test_a_recording_without_a_system_prompt_is_assumed_one_of_2_500_tokens() -> None:
    tape = Tape(task="t" * 40, system="")
    tape.say("done")
    assert run(tape.recording, Off()).bill.written == 2_510


def _priced_whole(recording: Recording, profile: Profile, prices: object) -> Cashier:
    """Price each call's whole view block by block, according to the definition."""
    view = ContextView(gauge=_gauge(recording))
    cashier = Cashier(system_characters=len(recording.system), automatic=prices is OPENAI)
    for turn in recording.turns:
        if turn.role == "user":
            for result in turn.results:
                view.answer(result)
            for text in (part for part in turn.parts if isinstance(part, Text)):
                view.say(Turn(role="user", parts=(text,)))
            continue
        proposal = view.propose(profile, Moment(cause="call"))
        assert not isinstance(proposal, str)
        if proposal is not None and proposal.edit != view.edit:
            view.use(proposal.edit)
        cashier.begin()
        for part in (part for each in view.shown for part in each.parts):
            key = hash((part.kind, getattr(part, "name", ""), part_text(part)))
            cashier.add(Block(key, turn_length(Turn(role="user", parts=(part,)))))
        cashier.ask(turn_length(turn))
        view.say(turn)
    return cashier


def _gauge(recording: Recording) -> object:
    from forgepool.workers.context.transcript.usage import Gauge

    return Gauge(window_tokens=200_000, fixed_characters=len(recording.system))


@settings(max_examples=25)
@given(seed=st.integers(0, 100_000), automatic=st.booleans())
def test_what_is_taken_in_piece_by_piece_costs_what_the_whole_view_does(seed: int, automatic: bool) -> None:
    recording = random_tape(seed, 14)
    prices = OPENAI if automatic else ANTHROPIC
    found = run(recording, Random(seed=seed), ReplayTerms(prices=prices))
    assert found.refused == []
    assert found.bill == _priced_whole(recording, Random(seed=seed), prices).bill


@settings(max_examples=25)
@given(seed=st.integers(0, 100_000), prices=st.sampled_from([ANTHROPIC, OPENAI]))
def test_the_lossless_variant_is_never_dearer_than_append_only_and_loses_nothing(seed: int, prices: object) -> None:
    recording = random_tape(seed, 20)
    terms = ReplayTerms(prices=prices)  # type: ignore[arg-type]  # sampled
    entry = registry.find_profile("ledger-lossless")
    plain, short = run(recording, Off(), terms), run(recording, entry.make(), terms, entry.birth)
    assert short.bill.cost_usd(terms.prices) <= plain.bill.cost_usd(terms.prices) + 1e-12
    assert (short.rebuilds, short.calls_hit, short.needs_lost, short.anchors_lost) == (0, 0, 0, 0)


def test_the_lossless_variant_is_cheaper_where_the_agent_reads_the_same_again() -> None:
    tape = Tape()
    for _ in range(6):
        tape.read("src/a.py", "def expire(): return None\n" * 60)
    entry = registry.find_profile("ledger-lossless")
    assert (
        run(tape.recording, entry.make(), birth=entry.birth).bill.written < run(tape.recording, Off()).bill.written / 3
    )


def test_nothing_is_lost_where_nothing_is_removed() -> None:
    recording = random_tape(7, 30)
    outcome = run(recording, Off())
    assert outcome.calls_with_needs > 3
    assert (outcome.needs_lost, outcome.calls_hit, outcome.anchors_lost, outcome.refetch_usd) == (0, 0, 0, 0)


def _hide_first(state: ContextState, moment: Moment) -> EditProposal | None:
    return EditProposal(edit=mask_steps(state, {1: "gone"}), why="for the test") if len(state.deeds) >= 2 else None


def test_a_call_that_needs_what_is_hidden_is_hit_and_fetches_it_again() -> None:
    """It costs one more call that says 60 tokens. The fetched text is written and carried for ten calls."""
    tape = Tape(system="s" * 400)
    tape.read("a", "def renewal(): pass".ljust(400))
    tape.read("b", "nothing of use")
    tape.call("grep", {"pattern": "renewal"}, "")
    tape.call("grep", {"pattern": "nothing"}, "")
    outcome = run(tape.recording, Watched(answer=_hide_first))
    assert (outcome.rebuilds, outcome.needs, outcome.needs_lost) == (1, 2, 1)
    assert (outcome.calls_with_needs, outcome.calls_hit) == (2, 1)
    view = lengths(tape.turns[:5]) - 400 + len("gone")
    expected = (400 + view) / 4 * 0.3 + 60 * 15 + 100 * (3.75 + 10 * 0.3)
    assert outcome.refetch_usd == pytest.approx(expected / 1e6)


def test_no_result_refers_to_one_that_is_not_shown_any_more() -> None:
    """A file read again after its first reading was hidden is shown in full, and nothing is lost."""
    tape = Tape()
    tape.read("a", "def renewal(): pass\n" * 30)
    tape.read("b", "nothing of use")
    tape.read("a", "def renewal(): pass\n" * 30)
    tape.call("grep", {"pattern": "renewal"}, "")
    outcome = run(tape.recording, Watched(answer=_hide_first), birth=Birth.lossless())
    assert (outcome.rebuilds, outcome.needs_lost) == (1, 0) and outcome.needs >= 1
    assert run(tape.recording, Off(), birth=Birth.lossless()).bill.written < outcome.bill.written


def test_what_happens_once_in_a_task_is_remembered() -> None:
    def once(state: ContextState, moment: Moment) -> EditProposal | None:
        return None if "first" in moment.fired else EditProposal(edit=state.edit, why="nothing", once="first")

    profile = Watched(answer=once)
    outcome = run(random_tape(1, 5), profile)
    assert profile.fired == [frozenset(), *[frozenset({"first"})] * 4] and outcome.rebuilds == 0


def test_a_question_named_once_is_put_once() -> None:
    def asking(state: ContextState, moment: Moment) -> None:
        moment.ask(SummaryQuestion(kind="brief", instruction="sum up", once="first"))

    assert run(random_tape(1, 5), Watched(answer=asking)).model_calls == 1


@pytest.mark.parametrize("live", [True, False])
def test_questions_to_models_are_counted_and_paid(live: bool) -> None:
    def asking(state: ContextState, moment: Moment) -> None:
        question = SummaryQuestion(kind="brief", instruction="i" * 40, text="" if live else "t" * 400)
        if len(state.turns) == 5:
            moment.ask(question)

    recording = random_tape(3, 4)
    plain, outcome = run(recording, Off()), run(recording, Watched(answer=asking))
    assert outcome.model_calls == 1 and outcome.bill.calls == plain.bill.calls
    unseen = turn_length(recording.turns[3]) + turn_length(recording.turns[4])
    fresh = (unseen + 40) / 4 if live else 440 / 4
    before = (len(recording.system) + lengths(recording.turns[:3])) / 4 if live else 0
    assert (outcome.bill.fresh, outcome.bill.cached - plain.bill.cached) == (fresh, before)
    assert outcome.bill.output > plain.bill.output


def test_the_first_test_that_fails_stands_for_the_red_phase_once() -> None:
    tape = Tape()
    for status in (0, 1, 1):
        tape.call("bash", {"command": "pytest -q"}, f"[exit status {status}, 1.0 s]\nran")
    tape.say("done")
    profile = Watched()
    run(tape.recording, profile)
    assert profile.causes == ["call", "call", "red", "call"]


def test_a_cache_is_cold_after_a_pause_only_where_it_is_told_how_long_it_keeps() -> None:
    tape = Tape()
    for at in (10.0, 20.0, 400.0, 405.0):
        tape.read("a", "text", at=at)
    tape.say("done")
    recording = replace(tape.recording, times=(0.0, 10.0, 12.0, 20.0, 350.0, 400.0, 401.0, 405.0, 406.0, None))
    profile, warm = Watched(), Watched()
    cold = run(recording, profile, ReplayTerms(prices=ANTHROPIC, ttl_s=300.0))
    kept = run(recording, warm)
    assert profile.causes == ["call", "call", "cold", "call", "call"] and set(warm.causes) == {"call"}
    third = (len(recording.system) + lengths(recording.turns[:5])) / 4
    second = (len(recording.system) + lengths(recording.turns[:3])) / 4
    assert cold.bill.written - kept.bill.written == second and kept.bill.cached - cold.bill.cached == second
    assert third > second


def test_a_view_larger_than_the_window_is_an_overflow() -> None:
    tape = Tape()
    for _ in range(3):
        tape.read("a", "x" * 4_000)
    profile = Watched()
    run(tape.recording, profile, ReplayTerms(prices=ANTHROPIC, window_tokens=1_500))
    assert profile.causes == ["call", "call", "call", "overflow"]


def test_the_wish_of_an_agent_is_one() -> None:
    tape = Tape()
    tape.call(COMPACT, {"reason": "full"}, "OK")
    tape.say("done")
    profile = Watched()
    run(tape.recording, profile)
    assert profile.causes == ["call", "wish"]


def test_what_cannot_be_shown_is_not_and_is_told() -> None:
    def harmful(state: ContextState, moment: Moment) -> EditProposal | None:
        return EditProposal(edit=Edit(cut=len(state.turns) + 3), why="all of it") if len(state.turns) > 3 else None

    recording = random_tape(2, 6)
    outcome = run(recording, Watched(answer=harmful))
    assert outcome.bill == run(recording, Off()).bill and outcome.rebuilds == 0
    assert outcome.refused and "watched proposed what cannot be shown" in outcome.refused[0]


def test_what_a_provider_counted_of_another_view_does_not_steer_this_one() -> None:
    recording = random_tape(4, 6)
    turns = tuple(
        turn.model_copy(update={"usage": Usage(input_tokens=9)}) if turn.role == "assistant" else turn
        for turn in recording.turns
    )
    profile = Watched()
    run(replace(recording, turns=turns), profile)
    assert {tokens for _, tokens in profile.states} == {1_000}


ASKING: dict[str, tuple[Profile, int]] = {
    "pace": (Pace(), 200_000),
    "ghost": (Ghost(), 6_000),
    "soulforge-v1": (SoulforgeV1(trigger_tokens=15_000), 200_000),
    "soulforge-v2": (SoulforgeV2(trigger_tokens=2_500), 200_000),
    "compact": (Compact(trigger_tokens=15_000), 200_000),
    "condenser": (Condenser(max_items=40), 200_000),
}


@pytest.mark.parametrize("name", ASKING)
def test_the_stand_in_answers_what_every_profile_asks(name: str) -> None:
    """The answers are valid, and the profile is charged for question and answer."""
    profile, window = ASKING[name]
    tape = Tape()
    for number in range(60):
        said = f"I decided to use option {number}: the 'other' one loses sessions, since it has no lock."
        status = int(number == 20)
        answer = f"[exit status {status}, 1.0 s]\nran {number}\n" + "plain words of an output\n" * 80
        tape.call("bash", {"command": "pytest -q"}, answer, said=said)
    asked: list[EditProposal] = []

    def noting(state: ContextState, moment: Moment) -> EditProposal | None:
        proposal = profile.propose(state, moment)
        if proposal is not None and proposal.replies:
            asked.append(proposal)
        return proposal

    outcome = run(tape.recording, Watched(answer=noting), ReplayTerms(prices=ANTHROPIC, window_tokens=window))
    assert outcome.model_calls >= 1 and outcome.refused == []
    settled = [each for each in asked if not each.once or each.edit.head]
    assert settled, [each.why for each in asked]
    assert not any("not compressed" in each.why or ", but " in each.why for each in settled)


def test_an_agent_that_wishes_it_gets_a_brief_of_the_stand_in() -> None:
    tape = Tape()
    for _ in range(4):
        tape.call("bash", {"command": "pytest -q"}, "[exit status 0, 1.0 s]\n" + "ran\n" * 200, said="I chose locks.")
    tape.call(COMPACT, {"reason": "full"}, "OK")
    tape.say("done")
    outcome = run(tape.recording, Advisory(brief=True))
    assert (outcome.model_calls, outcome.rebuilds) == (1, 1)


def test_a_rebuilt_ledger_is_read_up_to_its_end_the_next_time() -> None:
    """A mark behind the ledger lets the second rebuild read the first one's ledger from the cache."""
    tape = Tape()
    for number in range(60):
        answer = f"def function_{number}(): pass\n" * 60
        tape.read(f"src/f{number}.py", answer, said=f"I look at file {number}, since the test names it.")
    outcome = run(tape.recording, variant("ledger"))
    assert outcome.rebuilds >= 2

    class Unmarked:
        name = "unmarked"
        own = variant("ledger")

        def propose(self, state: ContextState, moment: Moment) -> EditProposal | None:
            kept = replace(state, edit=state.edit)
            proposal = self.own.propose(kept, moment)
            if proposal is None:
                return None
            return replace(proposal, edit=proposal.edit.model_copy(update={"lasting": 0}))

    assert outcome.bill.cached > run(tape.recording, Unmarked()).bill.cached


def test_rows_have_the_columns_that_were_promised_one_for_each_profile() -> None:
    found = cases([random_tape(5, 8), random_tape(6, 8)])
    rows = list(compare(found, row_names(), TERMS))
    assert [row.name for row in rows] == [row.columns["profile"] for row in rows] == list(row_names())
    assert len(set(row_names())) == len(row_names()) and set(registry.names()) < set(row_names())
    promised = (
        "profile, cost_usd, cost_vs_append_pct, cost_with_refetch_pct, fresh_tokens, written_tokens, cached_tokens, "
        "hit_rate, peak_tokens, mean_tokens, rebuilds, model_calls, needs_lost_pct, steps_hit_pct, anchors_lost_pct"
    )
    assert all(list(row.columns) == promised.split(", ") for row in rows)
    by_name: dict[str, Columns] = {row.name: row.columns for row in rows}
    assert by_name["off"] == {**by_name[APPEND_ONLY], "profile": "off"}
    assert by_name["ledger-lossless"]["written_tokens"] < by_name["off"]["written_tokens"]
    assert by_name[UNCACHED]["cost_vs_append_pct"] > 50  # type: ignore[operator]  # never None here


def test_a_row_nobody_knows_is_refused_before_anything_is_priced() -> None:
    with pytest.raises(registry.UnknownProfile, match="write 'ledger'"):
        next(compare([], ["ledger", "ledgr"], TERMS))


def test_every_profile_is_found_by_its_own_name() -> None:
    assert [registry.profile(name).name for name in registry.names()] == list(registry.names())
    assert all(registry.find_profile(name).told.endswith(".") for name in registry.names())
    births = {name for name in registry.names() if registry.find_profile(name).birth is not None}
    assert births == {"ledger", "ledger-cheap", "ledger-safe", "ledger-lossless"}


def test_the_parts_of_a_call_are_told_apart_from_the_same_words() -> None:
    """Another tool with the same arguments is another request."""
    first, second = Tape(), Tape()
    first.call("read_file", {"path": "a"}, "text")
    second.call("view_file", {"path": "a"}, "text")
    calls = [part for tape in (first, second) for part in tape.turns[1].parts if isinstance(part, ToolCall)]
    from forgepool.workers.context.replay.simulation import _block

    assert len({_block(call, mark=False).key for call in calls}) == 2
