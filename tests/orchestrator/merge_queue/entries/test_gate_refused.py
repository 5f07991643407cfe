"""A hub refuses entries that are green: the refused entry is found, and all others land."""

from gate_world import after, commit, opened, submitted
from hypothesis import given, settings
from hypothesis import strategies as st

from forgepool.orchestrator.decisions.decide import decide
from forgepool.orchestrator.decisions.plan_index import GateCourse, gate_course, gate_plan
from forgepool.orchestrator.decisions.queue.intake import apply_request
from forgepool.orchestrator.decisions.results import receive_answer
from forgepool.orchestrator.journal.events import (
    CheckSent,
    EntryHeld,
    Event,
    GateHalted,
    GateResumed,
    LandingAnswered,
    LandingIntended,
    TipMoved,
)
from forgepool.orchestrator.journal.inbox import PersonRequest
from forgepool.orchestrator.reports.queue_status import standing_of
from forgepool.orchestrator.state.run import RunState
from forgepool.supervisor.messages.answers import CheckResult, Landing

WORDS = "the hub refused refs/heads/main: pre-receive hook declined (no secrets here)"
_MOST_TURNS = 400


def _course(state: RunState) -> GateCourse:
    return gate_course(gate_plan(state.run, "main"), state)


class Hub:
    """Accepts landings without the bad entries, and remembers what it was asked."""

    def __init__(self, *bad: str, all_bad: bool = False) -> None:
        self.bad, self.all_bad = set(bad), all_bad
        self.asked: list[tuple[str, ...]] = []

    def says(self, sent: LandingIntended) -> Landing:
        self.asked.append(sent.entries)
        refused = self.all_bad or bool(self.bad & set(sent.entries))
        told = {"outcome": "refused", "detail": WORDS, "by_hub": True} if refused else {"outcome": "landed"}
        at = None if refused else sent.commit
        return Landing.model_validate({"request_id": sent.message_id, "token": sent.token, "commit": at, **told})


def _checked(state: RunState, sent: CheckSent, red: set[str]) -> list[Event]:
    spec = (*sent.ahead, *(sent.car or (sent.task,)))
    commits = tuple(commit(f"{sent.base[:8]} {' '.join(spec[: at + 1])}"[-20:]) for at in range(len(spec)))
    result = CheckResult(
        request_id=sent.message_id,
        token=sent.token,
        verdict="red" if red & set(spec) else "green",
        commit=commits[-1],
        commits=commits,
        tree=commit("tree"),
    )
    return receive_answer(_course(state), state, result)


def _settle(
    state: RunState, hub: Hub, *, slots: int = 3, red: set[str] | None = None, last_first: bool = False
) -> None:
    """Run until nothing is left to do, with one answer at a time and checks in either order."""
    open_: list[CheckSent] = []
    for _ in range(_MOST_TURNS):
        course = _course(state)
        events = decide(course, state, now=state.at, order_slots=0, check_slots=slots, draining=False)
        after(state, *events)
        open_ += [one for one in events if isinstance(one, CheckSent)]
        open_ = [one for one in open_ if one.message_id in state.outstanding()]
        landing = next((one for one in events if isinstance(one, LandingIntended)), None)
        if landing is not None:
            after(state, *receive_answer(course, state, hub.says(landing)))
        elif open_:
            after(state, *_checked(state, open_.pop(-1 if last_first else 0), red or set()))
        elif not events:
            return
    raise AssertionError("it spins")


def _phases(state: RunState) -> dict[str, str]:
    return {one.id: one.phase for one in state.tasks.values()}


def test_who_is_refused_alone_is_kept_back_and_everybody_else_lands() -> None:
    state, hub = opened(*(submitted(name) for name in "abcdef")), Hub("c")
    _settle(state, hub)
    assert {one for one, phase in _phases(state).items() if phase == "landed"} == {*"abdef"}
    assert not state.halted
    stand = standing_of(state, state.tasks["c"], state.at)
    assert (stand.state, stand.code, stand.next) == ("waits", "refused", "forgepool queue retry c")
    assert stand.why == f"{WORDS}; it waits for a person to retry it"


def test_a_person_has_it_tried_again_and_another_revision_is_another_matter() -> None:
    state, hub = opened(submitted("a")), Hub("a")
    _settle(state, hub)
    assert hub.asked == [("a",)] and not state.halted
    assert apply_request(state, PersonRequest(do="go")) == []
    again = apply_request(state, PersonRequest(do="retry", task="a", by="Ann"))
    assert again == [EntryHeld(task="a", by="Ann", held=False)]
    after(state, *again)
    _settle(state, hub)
    assert hub.asked == [("a",), ("a",)] and "a" in state.train.refused and not state.halted
    after(state, submitted("a", revision=2))
    _settle(state, Hub())
    assert _phases(state) == {"a": "landed"}


def test_a_hub_that_takes_nobody_shuts_the_gate_after_two_and_keeps_nobody_back() -> None:
    state, hub = opened(*(submitted(name) for name in "abcd")), Hub(all_bad=True)
    _settle(state, hub)
    assert state.halted == WORDS
    assert [len(one) for one in hub.asked if len(one) == 1] == [1, 1]
    asked_before = len(hub.asked)
    _settle(state, hub)
    assert len(hub.asked) == asked_before, "it is asked again only when a person says so, or the target has moved"
    for mended in (GateResumed(), TipMoved(tip=commit("moved"))):
        other = opened(*(submitted(name) for name in "abcd"))
        _settle(other, Hub(all_bad=True))
        after(other, mended)
        assert not other.halted and not other.train.refused
        _settle(other, Hub())
        assert set(_phases(other).values()) == {"landed"}


def test_who_needs_one_that_is_kept_back_waits_for_it_and_nobody_else_does() -> None:
    state = opened(submitted("a"), submitted("b", "a"), submitted("c"))
    _settle(state, Hub("a"))
    assert _phases(state) == {"a": "queued", "b": "queued", "c": "landed"}
    assert standing_of(state, state.tasks["b"], state.at).blocked_by == "a"


def test_one_that_changes_the_gate_and_is_refused_holds_nobody_up() -> None:
    state = opened(submitted("a"), submitted("b"))
    state.train.apart.add("a")
    _settle(state, Hub("a"))
    assert _phases(state) == {"a": "queued", "b": "landed"}


def test_a_landing_without_the_evidence_still_shuts_the_gate_at_once() -> None:
    """No hook refused a commit here: it is our mistake, or the target has gone."""
    state = opened(submitted("a"))
    sent = decide(_course(state), state, now=100.0, order_slots=0, check_slots=1, draining=False)
    after(state, *sent)
    assert isinstance(sent[0], CheckSent)
    after(state, *_checked(state, sent[0], set()))
    (landing,) = decide(_course(state), state, now=100.0, order_slots=0, check_slots=1, draining=False)
    assert isinstance(landing, LandingIntended)
    after(state, landing)
    said = Landing(request_id=landing.message_id, token=landing.token, outcome="refused", detail="no certificate")
    answered = receive_answer(_course(state), state, said)
    assert [type(one) for one in answered] == [LandingAnswered, GateHalted]


def test_a_refusal_of_an_earlier_version_is_read_as_it_was_meant() -> None:
    """Its journal does not say who refused."""
    said = Landing.model_validate({"request_id": "r", "token": "t", "outcome": "refused", "detail": "no"})
    assert not said.by_hub


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 9),
    st.sets(st.integers(0, 8), max_size=4),
    st.sets(st.integers(0, 8), max_size=2),
    st.integers(1, 4),
    st.booleans(),
)
def test_whoever_the_hub_takes_lands_whatever_it_does_not_take(
    count: int, bad: set[int], red: set[int], slots: int, last_first: bool
) -> None:
    """Several bad entries in a row pause the queue, and a person opens it each time."""
    names = [f"n{at}" for at in range(count)]
    bad_ones, red_ones = {f"n{at}" for at in bad} & {*names}, {f"n{at}" for at in red} & {*names}
    state, hub = opened(*(submitted(name) for name in names)), Hub(*bad_ones)
    for _ in range(4):
        _settle(state, hub, slots=slots, red=red_ones, last_first=last_first)
        if not state.halted:
            break
        assert len(bad_ones) > 1, "one entry's trouble is nobody else's"
        after(state, GateResumed())
    phases = _phases(state)
    assert not state.halted, "two that were refused once more say nothing of the others"
    assert {one for one, phase in phases.items() if phase == "landed"} == {*names} - bad_ones - red_ones
    assert len(hub.asked) <= 6 * (count + 4)
