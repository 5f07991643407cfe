"""A changed plan for a run: tables of the cases a reader would ask about."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from plans import answered, begun, check_sent, course, follow, intended, landing, queued, sent, task, verdict

from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.journal.events import (
    CheckAnswered,
    EntryGiven,
    EntryHeld,
    Event,
    LandingAnswered,
    PlanRevised,
    RunEnded,
    RunStarted,
    TaskAlreadyThere,
    TaskApproved,
    TaskBlocked,
    TaskFailed,
    TaskParked,
)
from forgepool.orchestrator.journal.store import JournalUnreadable
from forgepool.orchestrator.launch.revision import revise, take_plan, with_landed
from forgepool.orchestrator.plan.document import Plan, Task, dump_plan
from forgepool.orchestrator.run import run_folder
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import IllegalStep
from forgepool.workers.schema.orders import BuiltinAgent, CommandAgent, ReasonPack, Spent
from forgepool.workers.schema.settings import Settings

REASON = ReasonPack(attempt=1, kind="agent_failed", summary="s")
FAILED = (sent("a"), answered("a", 1, "agent_failed"), TaskFailed(task="a", reason=REASON))
IN_DOUBT = (
    *(sent("a"), answered("a"), queued("a"), check_sent("a"), CheckAnswered(task="a", result=verdict("a"))),
    *(intended("a"), LandingAnswered(task="a", result=landing("a", "infrastructure", detail="the hub is away"))),
)
GIVEN = (sent("a"), answered("a"), queued("a"), EntryGiven(task="a", number=1, commit="c-a-1", gate="gate-main"))
LANDED = (
    *(sent("a"), answered("a"), queued("a"), check_sent("a"), CheckAnswered(task="a", result=verdict("a"))),
    *(intended("a"), LandingAnswered(task="a", result=landing("a", commit="m-a-1"))),
)
OTHER = CommandAgent(run="other")


def revised(of: PlanIndex, state: RunState, *tasks: Task, **said: Any) -> PlanRevised:
    return revise(of.plan, with_landed(of.plan, course(*tasks, **said).plan, state), state, "plan-9.json")


@pytest.mark.parametrize(
    ("events", "changed", "afresh"),
    [
        ((), {"agent": OTHER}, ("a",)),
        ((), {"description": "else"}, ("a",)),
        ((), {"priority": 3}, ()),
        ((sent("a"),), {"attempts": 3}, ()),
        ((sent("a"),), {"acceptance": ("true",)}, ("a",)),
        (FAILED, {}, ()),
        (FAILED, {"attempts": 3}, ("a",)),
        ((sent("a"), answered("a", 1, "needs_human"), TaskParked(task="a", question="q")), {"attempts": 3}, ("a",)),
        (
            (sent("a"), answered("a", 1, "needs_human"), TaskParked(task="a", question="q", why="question")),
            {"attempts": 3},
            (),
        ),
        ((TaskAlreadyThere(task="a", commit="c", by_run="r"),), {"priority": 3}, ()),
        ((TaskAlreadyThere(task="a", commit="c", by_run="r"),), {"agent": OTHER}, ("a",)),
        (LANDED, {"priority": 3}, ()),
    ],
)
def test_other_work_begins_afresh_and_what_ended_badly_does_with_any_change(
    events: tuple[Event, ...], changed: dict[str, Any], afresh: tuple[str, ...]
) -> None:
    of = course(task("a"))
    state = begun(of, *events)
    was = state.tasks["a"].phase
    event = revised(of, state, task("a", **changed))
    assert event.afresh == afresh
    follow(state, event)
    assert state.tasks["a"].phase == ("pending" if afresh else was)


def test_another_model_is_no_other_work() -> None:
    of = course(task("a", agent=BuiltinAgent(model="one")), review="none")
    state = begun(of, sent("a"))
    assert revised(of, state, task("a", agent=BuiltinAgent(model="two")), review="none").afresh == ()


def test_what_a_changed_task_had_blocked_waits_for_it_again_and_what_is_new_is_pending() -> None:
    of = course(task("a"), task("b", "a"), task("c", "b"))
    state = begun(of, *FAILED, TaskBlocked(task="b", by="a"), TaskBlocked(task="c", by="b"))
    follow(state, RunEnded(landed=0, not_landed=3))
    event = revised(of, state, task("a", agent=OTHER), task("b", "a"), task("c", "b"), task("d"))
    assert (event.afresh, event.reopened, event.added) == (("a",), ("b", "c"), ("d",))
    follow(state, event)
    assert {one.phase for one in state.tasks.values()} == {"pending"} and not state.finished
    assert [*state.tasks] == ["a", "b", "c", "d"]
    assert (state.tasks["a"].charged, state.tasks["a"].reasons, state.tasks["a"].attempt) == (0, (), 1)


def test_a_task_begun_afresh_does_not_take_what_an_earlier_attempt_made() -> None:
    of = course(task("a"), task("b"))
    state = begun(of, sent("a"), answered("a"), queued("a"), check_sent("a"))
    follow(state, revised(of, state, task("a", agent=OTHER), task("b")))
    assert (state.tasks["a"].candidate, state.train.line.entries, state.outstanding()) == ("", {}, {})
    with pytest.raises(IllegalStep):
        follow(state, sent("a", 1))
    follow(state, sent("a", 2))


def test_a_removed_task_is_gone_what_it_used_counts_and_coming_back_it_goes_on_counting() -> None:
    of = course(task("a"), task("b"))
    state = begun(of, sent("a"), answered("a", 1, "agent_failed", spent=Spent(cost_usd=2.0)))
    follow(state, revised(of, state, task("b")))
    assert [*state.tasks] == ["b"]
    assert [use.spent.cost_usd for use in state.uses() if use.spent] == [2.0]
    back = course(task("b"), task("a"))
    follow(state, revise(course(task("b")).plan, back.plan, state, "plan-11.json"), sent("a", 2))
    assert state.tasks["a"].attempt == 2 and not state.removed


@pytest.mark.parametrize(
    ("tasks", "events", "sentence"),
    [
        ((task("a", agent=OTHER),), LANDED, "has landed as m-a-1"),
        ((task("a", agent=OTHER),), LANDED[:-1], "may be landing right now; first resume without --plan"),
        ((task("b"),), LANDED[:-1], "may be landing right now"),
        ((task("a", agent=OTHER),), IN_DOUBT, "may be landing right now"),
        ((task("b"),), IN_DOUBT, "may be landing right now"),
        ((task("a", agent=OTHER),), GIVEN, "withdraw it first: forgepool cancel"),
        ((task("b"),), GIVEN, "withdraw it first: forgepool cancel"),
    ],
)
def test_what_has_landed_or_is_landing_is_not_replaced(
    tasks: tuple[Task, ...], events: tuple[Event, ...], sentence: str
) -> None:
    of = course(task("a"))
    with pytest.raises(CannotRun, match=sentence):
        revised(of, begun(of, *events), *tasks)


@pytest.mark.parametrize("events", [LANDED[:-1], IN_DOUBT, LANDED, GIVEN], ids=["landing", "doubt", "landed", "given"])
@pytest.mark.parametrize("named", ["afresh", "removed"])
def test_no_event_replaces_what_has_landed_or_may_land(events: tuple[Event, ...], named: str) -> None:
    """The journal refuses any event that could lose a landing, whatever decided on it."""
    state = begun(course(task("a")), *events)
    event = PlanRevised(plan_file="plan-9.json", plan_digest="d", tasks=("b",))
    with pytest.raises(IllegalStep):
        follow(state, event.model_copy(update={named: ("a",)}))


def test_what_is_tested_by_the_old_plans_checks_is_tested_again() -> None:
    of = course(task("a"), task("b"))
    state = begun(of, sent("a"), answered("a"), queued("a"), check_sent("a"))
    follow(state, revised(of, state, task("a"), task("b", priority=3)))
    assert (state.tasks["a"].phase, state.outstanding()) == ("queued", {})


def test_a_task_begun_afresh_is_held_no_more_and_what_its_review_came_to_is_forgotten() -> None:
    of = course(task("a", agent=BuiltinAgent()))
    state = begun(of, sent("a"), answered("a"), queued("a"), check_sent("a"))
    follow(state, CheckAnswered(task="a", result=verdict("a")), TaskApproved(task="a", by="ann", commit="c-a-1"))
    follow(state, EntryHeld(task="a", held=True))
    assert state.tasks["a"].review.person is not None and state.held == {"a"}
    follow(state, revised(of, state, task("a", agent=OTHER)))
    assert state.tasks["a"].review.person is None and state.held == set()


def test_what_a_task_under_way_was_promised_is_free_once_it_is_begun_afresh() -> None:
    of = course(task("a", agent=BuiltinAgent()))
    state = begun(of, sent("a"))
    assert [use.ended for use in state.uses()] == [""]
    follow(state, revised(of, state, task("a", agent=OTHER)))
    assert [use.ended for use in state.uses()] == ["untaken"]


def test_what_has_landed_needs_nothing_that_the_plan_has_no_more() -> None:
    of = course(task("z"), task("a", "z"))
    state = begun(of, TaskAlreadyThere(task="z", commit="c", by_run="r"), *LANDED)
    assert [one.needs for one in with_landed(of.plan, course(task("b")).plan, state).tasks] == [(), ()]


def test_what_has_landed_stays_though_the_plan_has_it_no_more() -> None:
    of = course(task("z"), task("a"))
    state = begun(of, *LANDED)
    plan = with_landed(of.plan, course(task("b")).plan, state)
    assert [one.id for one in plan.tasks] == ["b", "a"]
    event = revise(of.plan, plan, state, "plan-9.json")
    assert (event.added, event.removed, event.tasks) == (("b",), ("z",), ("b", "a"))
    assert follow(state, event).tasks["a"].phase == "landed"


def test_a_plan_that_no_event_names_was_written_by_a_command_that_died_and_is_not_the_runs(tmp_path: Path) -> None:
    kept, settings = _kept(tmp_path)
    (kept.folder / "plan-2.json").write_text(dump_plan(course(task("b")).plan))
    assert run_folder.open_run(settings, "p-1").plan == kept.plan
    state, _ = kept.amend(lambda state: [_revision(kept.plan, state, course(task("b")).plan)])
    again = run_folder.open_run(settings, "p-1")
    assert [one.id for one in again.plan.tasks] == ["b"]
    assert [*again.state().tasks] == [*state.tasks] == ["b"]
    (kept.folder / "plan-2.json").write_text(dump_plan(course(task("c")).plan))
    with pytest.raises(JournalUnreadable, match="it was changed by hand"):
        run_folder.open_run(settings, "p-1")


def _kept(folder: Path) -> tuple[run_folder.KeptRun, Settings]:
    settings = Settings(home=folder / "home", cache=folder / "cache")
    options = run_folder.RunOptions(run="p-1", hub="/h", target="t", workers=1, plan_file="p", plan_file_digest="")
    kept = run_folder.keep(settings, options, course(task("a")).plan)
    kept.amend(lambda state: [_started()])
    return kept, settings


def _started() -> Event:
    return RunStarted(run="p-1", plan_digest="d", hub="/h", target="t", tip="c0")


def _revision(old: Plan, state: RunState, new: Plan) -> PlanRevised:
    return revise(old, new, state, "plan-2.json")


def test_a_gate_goes_by_no_plan(tmp_path: Path) -> None:
    kept, settings = _kept(tmp_path)
    gate = replace(kept, options=kept.options.model_copy(update={"gate": True}))
    with pytest.raises(CannotRun, match="is a merge queue and has no plan"):
        take_plan(gate, tmp_path / "plan.yaml", settings)
