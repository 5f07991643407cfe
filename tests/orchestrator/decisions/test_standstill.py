"""A blocked run starts nothing new, and reports the reason."""

from pathlib import Path

import pytest
from plans import answered, begun, check_sent, course, follow, intended, landing, queued, sent, task, verdict

from forgepool.orchestrator.decisions.decide import decide
from forgepool.orchestrator.decisions.locks import waits_for
from forgepool.orchestrator.decisions.reasons import reason_of_work
from forgepool.orchestrator.decisions.requests import grant_request
from forgepool.orchestrator.journal.events import (
    CheckAnswered,
    GateHalted,
    LandingAnswered,
    OrderSent,
    RunResumed,
    TaskBlocked,
    TaskFailed,
)
from forgepool.orchestrator.journal.inbox import PersonRequest
from forgepool.orchestrator.journal.store import Journal
from forgepool.orchestrator.launch.session import resume_run
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.orchestrator.run.run_folder import RunOptions, keep
from forgepool.orchestrator.run.sending import Wishes
from forgepool.orchestrator.run.transport import LeaseWatch
from forgepool.orchestrator.state.fold import apply
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import IllegalStep
from forgepool.workers.schema.settings import Settings


def test_the_owner_of_a_lock_is_not_passed_by_for_being_a_later_candidate() -> None:
    """`a` changed paths that `b` declares, so `a` waits for `b` and not the other way round."""
    of = course(task("a", files=["a"]), task("b", files=["b"]))
    state = begun(of, sent("a"), sent("b"))
    follow(state, answered("a", paths=["a", "b"]), at=101.0)
    follow(state, answered("b", paths=["b"]), at=102.0)
    assert waits_for(of, state, state.tasks["a"]) == "b"
    assert waits_for(of, state, state.tasks["b"]) is None


def test_of_a_circle_of_three_the_first_answered_goes_on() -> None:
    of = course(task("a", files=["a"]), task("b", files=["b"]), task("c", files=["c"]))
    state = begun(of, sent("a"), sent("b"), sent("c"))
    for at, (name, other) in enumerate((("b", "c"), ("a", "b"), ("c", "a"))):
        follow(state, answered(name, paths=[name, other]), at=101.0 + at)
    assert waits_for(of, state, state.tasks["b"]) is None
    assert waits_for(of, state, state.tasks["a"]) == "b"
    assert waits_for(of, state, state.tasks["c"]) == "a"


def test_all_that_needs_what_failed_is_blocked_at_once() -> None:
    of = course(task("d", "c"), task("c", "b"), task("b", "a"), task("a", attempts=1), task("free"))
    state = begun(of, sent("a"), answered("a", outcome="agent_failed"))
    reason = reason_of_work(answered("a", outcome="agent_failed").result, attempt=1)
    follow(state, TaskFailed(task="a", reason=reason))
    events = decide(of, state, now=200.0, order_slots=0, draining=False)
    assert events == [TaskBlocked(task=one, by=by) for one, by in (("b", "a"), ("c", "b"), ("d", "c"))]


def test_nothing_new_starts_while_the_gate_is_shut() -> None:
    of = course(task("a"), task("b"))
    state = begun(of, GateHalted(why="red"))
    assert decide(of, state, now=200.0, order_slots=4, draining=False) == []
    follow(state, RunResumed(tip="c1"))
    assert [type(one) for one in decide(of, state, now=200.0, order_slots=4, draining=False)] == [OrderSent, OrderSent]


def test_a_landing_on_which_the_hub_died_is_in_doubt() -> None:
    """It may have happened, so it is not withdrawn until the hub has been asked."""
    of = course(task("a"))
    state = begun(of, sent("a"), answered("a"), queued("a"), check_sent("a"))
    follow(state, CheckAnswered(task="a", result=verdict("a")), intended("a"))
    follow(state, LandingAnswered(task="a", result=landing("a", "infrastructure")))
    assert state.tasks["a"].landing_in_doubt
    assert grant_request(of, state, PersonRequest(do="cancel", task="a")) == []


def test_work_on_a_base_that_left_the_target_is_begun_anew_and_costs_no_attempt() -> None:
    of = course(task("a", attempts=1))
    state = begun(of, sent("a"), answered("a"), queued("a"), check_sent("a"))
    follow(state, CheckAnswered(task="a", result=verdict("a", "stale")))
    assert (state.tasks["a"].phase, state.tasks["a"].charged) == ("pending", 0)


def test_what_is_landing_is_left_to_its_lander_whatever_is_said_of_it() -> None:
    """A check of an entry behind it may report that its base has left the target."""
    of = course(task("a"), task("b"))
    state = begun(of, sent("a"), answered("a"), queued("a"), sent("b"), answered("b"), queued("b"))
    follow(state, check_sent("a"), CheckAnswered(task="a", result=verdict("a")), intended("a"))
    behind = check_sent("b").model_copy(update={"ahead": ("a",), "car": ("b",)})
    follow(state, behind, CheckAnswered(task="b", result=verdict("b", "stale", about="a")))
    assert state.tasks["a"].phase == "landing"
    follow(state, LandingAnswered(task="a", result=landing("a")))
    assert state.tasks["a"].phase == "landed"


def test_a_run_that_never_began_does_not_go_on() -> None:
    with pytest.raises(IllegalStep, match="never began"):
        apply(RunState.blank(["a"]), RunResumed(tip="c0"), number=1, at=1.0)


def test_resuming_a_run_that_never_began_is_refused_with_what_to_type(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home", cache=tmp_path / "cache")
    options = RunOptions(run="r-1", hub="/hub", target="t", workers=1, plan_file="p.yaml", plan_file_digest="")
    kept = keep(settings, options, course(task("a")).plan)
    Journal(kept.folder).close()
    with pytest.raises(CannotRun, match=r"never began; start it again: forgepool run p\.yaml"):
        resume_run(kept, settings, workers=None, wishes=Wishes(), listener=lambda state, recorded: None)


def test_a_queue_nobody_listens_to_is_told_of_once() -> None:
    """
    It is not reported at once, because a worker may be starting. It is reported again only after a worker has listened
    in between.
    """
    watch = LeaseWatch()
    asked = [(0, {"checks"}), (6, {"checks"}), (7, {"checks"}), (8, set[str]()), (9, {"checks"}), (15, {"checks"})]
    told = [watch.missing_workers(queues, now=float(at)) for at, queues in asked]
    assert told == [[], ["checks"], [], [], [], ["checks"]]
