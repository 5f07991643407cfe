"""The events that follow from a state: tables of the cases a reader would ask about."""

from typing import Any

import pytest
from plans import (
    answered,
    begun,
    check_sent,
    course,
    follow,
    intended,
    landing,
    queued,
    sent,
    task,
    verdict,
)

from forgepool.orchestrator.cli.output.progress import exit_status
from forgepool.orchestrator.decisions.decide import decide
from forgepool.orchestrator.decisions.locks import waits_for
from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.decisions.reasons import MOST_MOVES
from forgepool.orchestrator.decisions.results import receive_answer
from forgepool.orchestrator.journal.events import (
    CheckAnswered,
    CheckSent,
    Event,
    GateHalted,
    LandingAnswered,
    MessageLost,
    RunEnded,
    TaskAlreadyThere,
    TaskParked,
    TaskRetried,
    TaskReturned,
    TaskUnchanged,
)
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import MOST_TROUBLES, IllegalStep
from forgepool.workers.schema.orders import BuiltinAgent, Outcome
from forgepool.workers.workspace.scans.findings import ScanFinding


def next_events(
    of: PlanIndex, state: RunState, *, now: float = 100.0, slots: int = 9, draining: bool = False
) -> list[Event]:
    return decide(of, state, now=now, order_slots=slots, draining=draining)


def kinds(of: PlanIndex, state: RunState, **said: Any) -> list[tuple[str, str]]:
    return [(event.kind, getattr(event, "task", "")) for event in next_events(of, state, **said)]


def at_gate(of: PlanIndex, name: str = "a") -> RunState:
    """Return a state with a candidate that is being tested."""
    return begun(of, sent(name), answered(name), queued(name), check_sent(name))


def test_tasks_start_as_far_as_slots_needs_and_locks_go() -> None:
    of = course(task("a", files=["x"]), task("b", files=["x"]), task("c", files=["y"]), task("d", "c", files=["z"]))
    state = begun(of)
    assert kinds(of, state) == [("order.sent", "c"), ("order.sent", "a")]
    assert kinds(of, state, slots=1) == [("order.sent", "c")]
    assert kinds(of, state, slots=0) == []
    assert kinds(of, state, draining=True) == []


def test_slots_are_counted_with_what_is_running() -> None:
    of = course(task("a"), task("b"))
    assert kinds(of, begun(of, sent("a")), slots=1) == []
    assert kinds(of, begun(of, sent("a")), slots=2) == [("order.sent", "b")]


@pytest.mark.parametrize("outcome", ["no_change", "verify_failed", "agent_failed", "limits_spent"])
def test_an_attempt_that_failed_is_returned_while_attempts_are_left(outcome: Outcome) -> None:
    of = course(task("a", attempts=2))
    state = begun(of, sent("a"), answered("a", 1, outcome))
    (returned,) = next_events(of, state)
    assert isinstance(returned, TaskReturned) and returned.reason.attempt == 1
    follow(state, returned, sent("a", 2), answered("a", 2, outcome))
    assert kinds(of, state) == [("task.failed", "a")]


@pytest.mark.parametrize("outcome", ["verify_failed", "agent_failed", "limits_spent"])
def test_only_an_attempt_that_changed_nothing_is_done_without_a_candidate(outcome: Outcome) -> None:
    of = course(task("a", attempts=1, unchanged="ok"))
    assert kinds(of, begun(of, sent("a"), answered("a", 1, outcome))) == [("task.failed", "a")]


def test_an_attempt_that_changes_nothing_is_done_where_the_plan_says_so_and_satisfies_what_needs_it() -> None:
    of = course(task("a", unchanged="ok"), task("b", "a"))
    state = begun(of, sent("a"), answered("a", 1, "no_change"))
    (unchanged,) = next_events(of, state)
    assert unchanged == TaskUnchanged(task="a", why="command exited 0")
    follow(state, unchanged)
    assert kinds(of, state) == [("order.sent", "b")]
    with pytest.raises(IllegalStep):
        follow(state, sent("a", 2))


def test_a_run_ends_with_what_landed_what_had_no_changes_and_what_was_there() -> None:
    of = course(task("a", unchanged="ok"), task("b"))
    there = TaskAlreadyThere(task="b", commit="c7", by_run="p-1")
    state = begun(of, there, sent("a"), answered("a", 1, "no_change"))
    follow(state, *next_events(of, state))
    (ended,) = next_events(of, state)
    assert ended == RunEnded(landed=0, not_landed=0, unchanged=1, already_there=1)
    assert exit_status(follow(state, ended), "ended") == 0


def test_an_attempt_that_changes_nothing_after_one_that_was_refused_has_failed() -> None:
    """The first attempt's work was refused, so doing nothing is not what was asked for."""
    of = course(task("a", unchanged="ok"))
    state = follow(at_gate(of), CheckAnswered(task="a", result=verdict("a", "red")))
    follow(state, *next_events(of, state), sent("a", 2), answered("a", 2, "no_change"))
    assert kinds(of, state) == [("task.failed", "a")]


@pytest.mark.parametrize(("kind", "partner"), [("conflict", None), ("red", "b")])
def test_a_command_that_met_another_landing_is_tried_again_and_charged_no_attempt(
    kind: Any, partner: str | None
) -> None:
    of = course(task("a", attempts=1))
    state = at_gate(of)
    for attempt in range(1, MOST_MOVES + 1):
        follow(
            state,
            CheckAnswered(task="a", result=verdict("a", kind, attempt, attempt=attempt, partner=partner, detail="w")),
        )
        (returned,) = next_events(of, state)
        assert isinstance(returned, TaskReturned) and returned.free
        again = attempt + 1
        follow(state, returned, sent("a", again), answered("a", again), queued("a"))
        assert state.tasks["a"].charged == 0
        follow(state, *next_events(of, state))
    last = verdict("a", kind, MOST_MOVES + 1, attempt=MOST_MOVES + 1, partner=partner, detail="w")
    follow(state, CheckAnswered(task="a", result=last))
    assert kinds(of, state) == [("task.failed", "a")], "on a busy target it would have no end"


@pytest.mark.parametrize("kind", ["conflict", "red"])
@pytest.mark.parametrize(
    ("partner", "free"), [("of-another-run", True), ("0123456789ab", True), ("b", False), (None, False)]
)
def test_a_model_that_met_what_others_landed_is_charged_no_attempt(kind: Any, partner: str | None, free: bool) -> None:
    """The plan's own tasks are kept apart by its locks; other runs and people are not."""
    of = course(task("a", attempts=2, agent=BuiltinAgent()), task("b"))
    state = at_gate(of)
    follow(state, CheckAnswered(task="a", result=verdict("a", kind, partner=partner, detail="w")))
    (returned, *_) = next_events(of, state)
    assert isinstance(returned, TaskReturned) and returned.free is free


def test_a_command_whose_change_others_have_landed_meanwhile_is_tried_again_and_has_no_changes() -> None:
    of = course(task("a", attempts=1, unchanged="ok"))
    empty = ScanFinding(rule="empty-change", weight="blocks", path=".", said="nothing differs from the target")
    state = follow(at_gate(of), CheckAnswered(task="a", result=verdict("a", "findings", findings=(empty,))))
    (returned,) = next_events(of, state)
    assert isinstance(returned, TaskReturned) and (returned.free, returned.reason.kind) == (True, "no_change")
    follow(state, returned, sent("a", 2), answered("a", 2, "no_change"))
    assert kinds(of, state) == [("task.unchanged", "a")]


def test_a_models_conflict_and_a_commands_own_red_check_are_charged() -> None:
    of = course(task("a", attempts=1, agent=BuiltinAgent()), task("b"), review="none")
    state = follow(at_gate(of), CheckAnswered(task="a", result=verdict("a", "conflict", partner="b")))
    assert kinds(of, state) == [("task.failed", "a")]
    of = course(task("a", attempts=1))
    assert kinds(of, follow(at_gate(of), CheckAnswered(task="a", result=verdict("a", "red")))) == [("task.failed", "a")]


def test_infrastructure_costs_no_attempt_and_is_waited_out() -> None:
    of = course(task("a", attempts=1))
    state = begun(of, sent("a"), answered("a", 1, "infrastructure"))
    assert state.tasks["a"].charged == 0
    assert kinds(of, state, now=100.5) == []
    assert kinds(of, state, now=101.0) == [("order.sent", "a")]


def test_a_person_is_asked_when_infrastructure_fails_on_and_on() -> None:
    of = course(task("a"))
    state = begun(of)
    for attempt in range(1, MOST_TROUBLES + 1):
        assert kinds(of, state, now=1e6) == [("order.sent", "a")]
        follow(state, sent("a", attempt), answered("a", attempt, "infrastructure", detail="the disk is full"))
    (parked,) = next_events(of, state, now=1e6)
    assert parked.kind == "task.parked" and "the disk is full" in parked.question


def test_a_message_that_kills_all_who_take_it_is_not_sent_for_ever() -> None:
    of = course(task("a"))
    state = begun(of)
    for attempt in range(1, MOST_TROUBLES + 1):
        assert kinds(of, state, now=1e6) == [("order.sent", "a")]
        follow(state, sent("a", attempt), MessageLost(message_id=f"r-1.a.{attempt}", why="gone"))
    assert kinds(of, state, now=1e6) == [("task.parked", "a")]


def test_what_is_lost_once_is_tried_again_at_once() -> None:
    of = course(task("a"))
    state = begun(of, sent("a"), MessageLost(message_id="r-1.a.1", why="gone"))
    assert kinds(of, state) == [("order.sent", "a")]


def test_one_entry_is_at_the_gate_in_the_order_of_their_coming() -> None:
    of = course(task("a"), task("b"))
    state = begun(of, sent("a"), sent("b"), answered("b"), queued("b"), answered("a"), queued("a"))
    (together,) = next_events(of, state)
    assert isinstance(together, CheckSent) and together.car == ("b", "a")
    follow(state, together)
    assert kinds(of, state) == []


def test_green_goes_on_to_the_landing_of_that_very_commit() -> None:
    of = course(task("a"))
    state = follow(at_gate(of), CheckAnswered(task="a", result=verdict("a")))
    (intent,) = next_events(of, state)
    assert intent.kind == "landing.intended"
    assert (intent.commit, intent.tree, intent.base) == ("m-a-1", "tree-a-1", "c0")


def test_a_landing_of_another_commit_than_the_green_one_is_an_illegal_step() -> None:
    of = course(task("a"))
    state = follow(at_gate(of), CheckAnswered(task="a", result=verdict("a")))
    with pytest.raises(IllegalStep, match="not what was found green"):
        follow(state, intended("a", commit="another"))
    red = follow(at_gate(of), CheckAnswered(task="a", result=verdict("a", "red")))
    with pytest.raises(IllegalStep, match="not what was found green"):
        follow(red, intended("a"))


@pytest.mark.parametrize(("kind", "reason"), [("red", "check_failed"), ("conflict", "conflict")])
def test_what_is_not_let_in_comes_back_with_the_reason(kind: Any, reason: str) -> None:
    of = course(task("a", attempts=2))
    found = verdict("a", kind, partner="b", detail="why")
    (returned,) = next_events(of, follow(at_gate(of), CheckAnswered(task="a", result=found)))
    assert isinstance(returned, TaskReturned)
    assert (returned.reason.kind, returned.reason.conflicting_entry, returned.reason.summary) == (reason, "b", "why")


@pytest.mark.parametrize("kind", ["base_red", "not_configured", "infrastructure"])
def test_verdicts_that_blame_nobody_leave_the_entry_in_the_train(kind: Any) -> None:
    of = course(task("a", attempts=1))
    state = follow(at_gate(of), CheckAnswered(task="a", result=verdict("a", kind)))
    assert (state.tasks["a"].phase, state.tasks["a"].charged) == ("queued", 0)
    assert kinds(of, follow(state, GateHalted(why="w")), now=1e6) == []


def test_a_landing_that_met_a_moved_target_is_tested_again_on_the_new_tip() -> None:
    of = course(task("a"))
    state = follow(
        at_gate(of),
        CheckAnswered(task="a", result=verdict("a")),
        intended("a"),
        LandingAnswered(task="a", result=landing("a", "moved", commit="c9")),
    )
    (again,) = next_events(of, state)
    assert again.kind == "check.sent" and (again.base, again.message_id) == ("c9", "r-1.a.1.check-2")


def test_what_can_no_longer_be_composed_as_it_was_tested_is_tested_again_through_an_open_gate() -> None:
    of = course(task("a"))
    state = follow(at_gate(of), CheckAnswered(task="a", result=verdict("a")), intended("a"))
    answered = receive_answer(of, state, landing("a", "untested", detail="it is not kept any more"))
    assert [one.kind for one in answered] == ["landing.answered"]
    (again,) = next_events(of, follow(state, *answered))
    assert again.kind == "check.sent" and (again.base, again.message_id) == ("c0", "r-1.a.1.check-2")


def test_what_needs_a_task_that_failed_is_blocked_all_the_way_down() -> None:
    of = course(task("a", attempts=1), task("b", "a"), task("c", "b"))
    state = begun(of, sent("a"), answered("a", 1, "no_change"))
    seen: list[tuple[str, str]] = []
    while events := next_events(of, state):
        seen += [(event.kind, getattr(event, "task", "")) for event in events]
        follow(state, *events)
    assert seen == [("task.failed", "a"), ("task.blocked", "b"), ("task.blocked", "c"), ("run.ended", "")]


def test_a_path_outside_takes_the_lock_where_it_is_free() -> None:
    of = course(task("a", files=["x"]))
    state = begun(of, sent("a"), answered("a", paths=["x", "y"]))
    extended, entered = next_events(of, state)
    assert (extended.kind, entered.kind) == ("lock.extended", "entry.queued")
    assert extended.kind == "lock.extended" and extended.paths == ("y",)


def test_a_path_outside_is_refused_under_a_strict_scope() -> None:
    of = course(task("a", files=["x"]), scope="strict")
    (returned,) = next_events(of, begun(of, sent("a"), answered("a", paths=["x", "y"])))
    assert isinstance(returned, TaskReturned) and returned.reason.kind == "out_of_scope"
    assert returned.reason.paths == ("y",)


def test_a_path_outside_that_another_holds_is_waited_for() -> None:
    of = course(task("a", files=["x"]), task("b", files=["y"]))
    state = begun(of, sent("a"), sent("b"), answered("a", paths=["y"]))
    assert waits_for(of, state, state.tasks["a"]) == "b"
    assert kinds(of, state) == []
    follow(state, answered("b", 1, "infrastructure"))
    assert kinds(of, state) == [("lock.extended", "a"), ("entry.queued", "a")]


def test_of_two_candidates_that_wait_for_each_other_the_earlier_goes_on() -> None:
    of = course(task("a", files=["x"]), task("b", files=["y"]))
    state = begun(of, sent("a"), sent("b"))
    follow(state, answered("b", paths=["x"]), at=101.0)
    follow(state, answered("a", paths=["y"]), at=102.0)
    assert kinds(of, state) == [("lock.extended", "b"), ("entry.queued", "b")]
    follow(state, *next_events(of, state), at=103.0)
    assert waits_for(of, state, state.tasks["a"]) == "b"


def test_undeclared_tasks_take_their_locks_when_their_paths_are_known() -> None:
    of = course(task("a", files=None), task("b", files=None), task("c", files=["x"]))
    state = begun(of)
    assert len(kinds(of, state)) == 3
    follow(state, sent("a"), sent("b"))
    follow(state, answered("a", paths=["x"]))
    follow(state, *next_events(of, state, slots=0))
    assert ("order.sent", "c") not in kinds(of, state)
    follow(state, answered("b", paths=["x"]))
    assert waits_for(of, state, state.tasks["b"]) == "a"


def test_an_undeclared_task_runs_alone_where_the_plan_says_so() -> None:
    of = course(task("a", files=["x"]), task("b", files=None), undeclared="exclusive")
    assert kinds(of, begun(of, sent("b"))) == []
    assert kinds(of, begun(of, sent("a"))) == []


def test_a_run_ends_once_when_nothing_can_go_on() -> None:
    of = course(task("a", attempts=1))
    state = begun(of, sent("a"), answered("a", 1, "no_change"))
    follow(state, *next_events(of, state))
    (ended,) = next_events(of, state)
    assert ended == RunEnded(landed=0, not_landed=1)
    follow(state, ended)
    assert next_events(of, state) == []


def test_equal_states_lead_to_equal_decisions() -> None:
    of = course(*(task(f"t{number}", files=[f"f{number}"]) for number in range(9)))
    assert next_events(of, begun(of)) == next_events(of, begun(of))
    tokens = {
        event.token
        for now in (100.0, 101.0)
        for event in next_events(of, begun(of), now=now)
        if event.kind == "order.sent"
    }
    assert len(tokens) == 18, "a token differs for every sending"


def test_a_kept_candidate_that_is_answered_again_waits_for_nothing_more() -> None:
    """Redis may deliver an answer twice. If the candidate is stale later, the task has none to continue with."""
    of = course(task("a"))
    state = begun(of, sent("a"), answered("a"), queued("a"), TaskParked(task="a", question="more?", why="budget"))
    follow(state, TaskRetried(task="a", afresh=False))
    assert state.tasks["a"].restorable
    follow(state, answered("a"), queued("a"), check_sent("a"), CheckAnswered(task="a", result=verdict("a", "stale")))
    assert state.tasks["a"].phase == "pending" and not state.tasks["a"].restorable
    assert kinds(of, state) == [("order.sent", "a")]
