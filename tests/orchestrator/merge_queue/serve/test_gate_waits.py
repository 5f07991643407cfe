"""No entry waits forever, and no journaled event keeps the queue from starting again."""

from pathlib import Path

import pytest
from gate_world import RUN, after, commit, decided, green, landing, opened, submitted
from hypothesis import given
from hypothesis import strategies as st

from forgepool.orchestrator.decisions.plan_index import gate_course, gate_plan
from forgepool.orchestrator.decisions.queue.submissions import earlier_name, entry_name
from forgepool.orchestrator.decisions.reasons import author_in
from forgepool.orchestrator.journal.events import (
    CheckAnswered,
    CheckCancelled,
    CheckSent,
    EntryHeld,
    Event,
    GateHalted,
    GateRuled,
    LandingIntended,
    MessageLost,
    ReviewAwaited,
    TaskFailed,
)
from forgepool.orchestrator.journal.queue_rules import GateRules
from forgepool.orchestrator.launch.session import resume_run
from forgepool.orchestrator.merge_queue.serve.serve import gate_name
from forgepool.orchestrator.reports import queue_status as explaining
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.orchestrator.run.loop import Wishes
from forgepool.orchestrator.run.run_folder import KeptRun, RunOptions
from forgepool.supervisor.messages.answers import CheckResult
from forgepool.workers.schema.orders import ReasonPack
from forgepool.workers.schema.settings import Settings
from forgepool.worktrees.git.git import is_ref


def answer(sent: CheckSent, verdict: str, **said: object) -> CheckAnswered:
    told = {"request_id": sent.message_id, "token": sent.token, "verdict": verdict, **said}
    return CheckAnswered(task=sent.task, result=CheckResult.model_validate(told), ahead=sent.ahead, car=sent.car)


def test_who_waits_for_a_review_may_turn_out_red() -> None:
    """Its own trial was still running when its diff turned out to differ behind other entries."""
    state = opened(submitted("a"))
    (sent,) = decided(state)
    assert isinstance(sent, CheckSent)
    after(state, sent, ReviewAwaited(task="a"), answer(sent, "red"))
    (given_back,) = decided(state)
    assert isinstance(given_back, TaskFailed)
    assert after(state, given_back).tasks["a"].phase == "failed"


def test_who_was_returned_after_a_landing_in_doubt_may_be_submitted_again() -> None:
    """The hub was asked before it was returned, so nothing is in doubt."""
    state = opened(submitted("a"))
    (sent,) = decided(state)
    assert isinstance(sent, CheckSent)
    (intended,) = decided(after(state, sent, green(sent)))
    assert isinstance(intended, LandingIntended)
    after(state, intended, landing(intended, "infrastructure"))
    assert state.tasks["a"].landing_in_doubt
    after(state, TaskFailed(task="a", reason=ReasonPack(attempt=1, kind="check_failed", summary="red")))
    assert not state.tasks["a"].landing_in_doubt
    assert after(state, submitted("a", revision=2)).tasks["a"].phase == "queued"


def test_trouble_again_and_again_takes_a_car_apart() -> None:
    """One entry may cause the failures and must not hold up the others."""
    state, now = opened(*(submitted(name) for name in "abcdef")), 100.0
    cars = []
    for _ in range(3):
        sent = [one for one in decided(state, now=now) if isinstance(one, CheckSent)]
        cars.append(max(len(one.car) for one in sent))
        after(state, *sent, at=now)
        for one in sent:
            after(state, answer(one, "infrastructure", detail="no disk"), at=now)
        now += 100.0
    assert cars == [2, 2, 1]


def test_a_landing_opens_the_gate_that_the_tip_before_it_had_shut() -> None:
    state = opened(submitted("a"))
    (sent,) = decided(state)
    assert isinstance(sent, CheckSent)
    after(state, sent, green(sent), GateHalted(why="'test' is red on main itself"))
    (intended,) = decided(state)
    assert isinstance(intended, LandingIntended)
    done = landing(intended, "moved").result.model_copy(update={"outcome": "landed", "commit": commit("composed")})
    assert state.halted
    after(state, intended, landing(intended, "moved").model_copy(update={"result": done}))
    assert state.tasks["a"].phase == "landed" and not state.halted


def test_what_changes_the_gate_holds_nobody_up_while_a_person_holds_it() -> None:
    state = opened(submitted("a"), submitted("b"))
    state.train.apart.add("a")
    assert [one.car for one in decided(state) if isinstance(one, CheckSent)] == [("a",)]
    after(state, EntryHeld(task="a", held=True))
    assert [one.car for one in decided(state) if isinstance(one, CheckSent)] == [("b",)]


def test_a_hotfix_that_finds_all_slots_taken_is_begun_and_what_makes_room_for_it_is_cancelled_once() -> None:
    """Its place and its trial are journaled together, so that neither exists without the other."""
    state, said = opened(*(submitted(one) for one in "abc")), list[Event]()
    while events := decided(state):
        after(state, *events)
    after(state, submitted("urgent").model_copy(update={"klass": "hotfix"}))
    for _ in range(20):
        said += (events := decided(state))
        after(state, *events)
    assert not events, "the gate cancels and begins without end"
    sent = [one.car for one in said if isinstance(one, CheckSent)]
    cancelled = [one.message_id for one in said if isinstance(one, CheckCancelled)]
    assert sent[0] == ("urgent",) and len(set(cancelled)) == len(cancelled) == len(sent)
    assert state.train.line.cars[0] == ("urgent",)


@pytest.mark.parametrize(("slots", "begun"), [(2, []), (3, [("d",)])])
def test_what_is_tried_of_those_that_land_holds_its_slots_until_they_have(slots: int, begun: list[object]) -> None:
    """Also during a landing, no more checks run than there are slots."""
    state = opened(*(submitted(one) for one in "abcd"))
    while events := decided(state, slots=4):
        after(state, *events)
    out = {one.car: state.train.out[one.id].message for one in state.train.line.trials.values()}
    sent, lost = out["c",], out["d",]
    assert sent is not None and lost is not None
    told = {"commit": commit("abc"), "tree": commit("tree"), "commits": [commit("a"), commit("ab"), commit("abc")]}
    found = {"request_id": sent.message_id, "token": sent.token, "verdict": "green", **told}
    after(state, CheckAnswered(task="c", result=CheckResult.model_validate(found), ahead=("a", "b"), car=("c",)))
    after(state, *decided(state, slots=4), MessageLost(message_id=lost.message_id, why="its worker is gone"))
    assert state.train.landing is not None and state.train.landing.intent.entries == ("a", "b", "c")
    assert [one.car for one in decided(state, slots=slots) if isinstance(one, CheckSent)] == begun


@pytest.mark.parametrize(("jump", "waits"), [(0.0, True), (-3600.0, False), (3600.0, False), (-5.0, True)])
def test_a_clock_that_jumps_makes_nobody_wait_for_longer_than_a_pause(jump: float, waits: bool) -> None:
    """After a failure, a clock set back by an hour would otherwise delay every retry by an hour."""
    state = opened(submitted("a"))
    (sent,) = decided(state, now=10_000.0)
    assert isinstance(sent, CheckSent)
    after(state, sent, answer(sent, "infrastructure", detail="the disk is full"), at=10_000.0)
    assert (decided(state, now=10_000.0 + jump) == []) == waits
    assert (explaining.standing_of(state, state.tasks["a"], 10_000.0 + jump).code == "infrastructure") == waits


def test_a_gate_is_kept_and_not_resumed(tmp_path: Path) -> None:
    plan = gate_plan(RUN, "main")
    told = {"run": RUN, "hub": "/hub", "target": "main", "workers": 0, "plan_file": "", "plan_file_digest": ""}
    kept = KeptRun(tmp_path, RunOptions.model_validate({**told, "gate": True}), plan, gate_course(plan, opened()))
    with pytest.raises(CannotRun, match="forgepool queue serve --repo /hub --target main"):
        resume_run(kept, Settings(), workers=None, wishes=Wishes(), listener=lambda state, recorded: None)


def test_who_submitted_is_told_and_not_who_might_have_worked() -> None:
    state = opened(submitted("a"))
    course = gate_course(gate_plan(RUN, "main"), state)
    assert author_in(course, state, state.tasks["a"]).agent == "person"


def test_names_that_would_be_called_the_same_are_told_apart() -> None:
    assert (entry_name("feature/one"), entry_name("feature-one")) == ("feature--one", "feature-one")
    texts = (
        "fix.1",
        "fix-1",
        "ä",
        "ö",
        "ü",
        "a b",
        "a-b",
        "",
        "-",
        "-a",
        "a",
        "a-",
        "x" * 300,
        "x" * 301,
        "x/" * 49 + "x",
    )
    nested = ("a/b", "a//b", "a/-b", "a-/b", "a/b/", "/a/b", "a--b/c", "a/b--c", "a/b/c", "a/b-c", "a-b/c", "a_b/c")
    names = {entry_name(text) for text in (*texts, *nested)}
    assert len(names) == len(texts) + len(nested)
    assert all(entry_name(name) == name and is_ref(f"refs/x/{name}") and len(name) <= 100 for name in names)


@given(st.text("ab/-.", max_size=8), st.text("ab/-.", max_size=8))
def test_two_branches_have_two_names_but_for_one_that_is_called_like_an_entry(one: str, other: str) -> None:
    """`feature--one` and `feature/one` have the same entry name, which the latter keeps."""
    same = entry_name(one) == entry_name(other)
    assert not same or one == other or entry_name(one) in (one, other)


def test_what_an_earlier_version_has_journaled_is_found_by_its_branch() -> None:
    assert (earlier_name("feature/one"), earlier_name("fix.1")) == ("feature-one", entry_name("fix.1"))
    assert gate_name("/srv/app.git", "release/2").startswith("gate-release-2-")


@pytest.mark.parametrize(
    ("cap", "cars"), [(None, [("a0", "a1"), ("a2",)]), (1, [("a0", "b")]), (2, [("a0", "a1"), ("b",)])]
)
def test_of_one_submitter_no_more_are_in_cars_than_may_be_while_others_wait(
    cap: int | None, cars: list[tuple[str, ...]]
) -> None:
    many = [submitted(f"a{n}").model_copy(update={"by": "Ann"}) for n in range(4)]
    other = submitted("b").model_copy(update={"by": "Bob"})
    state = opened(GateRuled(rules=GateRules(most_of_one=cap)), *many, other)
    while (begun := decided(state)) and len(state.train.line.cars) < len(cars):
        after(state, *begun)
    assert state.train.line.cars == cars
