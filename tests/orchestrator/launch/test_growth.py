"""A run's plan grows: what is added and dropped when, and who sees it."""

from pathlib import Path

import pytest
from plans import RUN, answered, begun, course, follow, sent, task

from forgepool.orchestrator.decisions.decide import decide
from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.decisions.requests import find_ended, grant_request, grow, why_not_grow, why_refused
from forgepool.orchestrator.journal.events import (
    Event,
    OrderSent,
    PlanRevised,
    RunEnded,
    RunStarted,
    TaskAlreadyThere,
    TaskBlocked,
    TaskCancelled,
    TaskFailed,
    TasksAdded,
    TasksDropped,
)
from forgepool.orchestrator.journal.inbox import PersonRequest
from forgepool.orchestrator.launch.revision import revise, with_landed
from forgepool.orchestrator.plan.addition import MOST_BY_LEAD, MOST_BY_PERSON
from forgepool.orchestrator.plan.document import dump_plan, plan_digest
from forgepool.orchestrator.reports.home import RunView
from forgepool.orchestrator.reports.status import standing
from forgepool.orchestrator.run import run_folder
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.orchestrator.run.run_folder import KeptRun, RunOptions
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import IllegalStep
from forgepool.workers.schema.orders import ReasonPack
from forgepool.workers.schema.settings import Settings

OF = course(task("a"), task("b", "a"))
FAILED = (
    *(sent("a"), answered("a", 1, "agent_failed")),
    TaskFailed(task="a", reason=ReasonPack(attempt=1, kind="agent_failed", summary="s")),
)


def added(*names: str, needs: str = "", request: str = "k") -> TasksAdded:
    tasks = tuple(task(one, *needs.split()) for one in names)
    return TasksAdded(tasks=tasks, by="A Person", why="more", request=request)


def started(of: PlanIndex, state: RunState) -> list[str]:
    events = decide(of.grow_with(state), state, now=1e6, order_slots=9, draining=False)
    return [event.task for event in events if isinstance(event, OrderSent)]


def test_a_run_whose_tasks_are_all_done_goes_on_with_what_is_added() -> None:
    there = [TaskAlreadyThere(task=one, commit="c", by_run="r") for one in ("a", "b")]
    state = begun(OF, *there, RunEnded(landed=0, not_landed=0, already_there=2))
    assert state.finished
    follow(state, *grow(OF, state, added("c", needs="b")))
    assert not state.finished and started(OF, state) == ["c"]
    rows = standing(OF, state, now=100.0, live=True).tasks
    assert [one.task for one in rows] == ["a", "b", "c"], "a reader with the old plan sees the grown one"


def test_a_request_adds_once() -> None:
    state = begun(OF, added("c"))
    assert grow(OF.grow_with(state), state, added("d")) == []
    with pytest.raises(IllegalStep, match="were added already"):
        follow(state, added("d"))
    with pytest.raises(IllegalStep, match="there is a task 'c' already"):
        follow(state, added("c", request="other"))
    assert grow(OF.grow_with(state), state, added("c", request="other")) == []


@pytest.mark.parametrize(
    ("events", "drop", "sentence"),
    [
        ((sent("a"),), "a", "task 'a' is running, and only a task that has not begun can be dropped; to end it:"),
        (FAILED[:2], "a", "task 'a' is answered, and only a task that has not begun"),
        (FAILED, "a", "task 'a' is failed, and only a task that has not begun can be dropped"),
        ((), "nobody", f"run {RUN} has no task 'nobody' to drop"),
        ((), "a", "task 'b' needs 'a', which is to be dropped; drop 'b', too"),
    ],
)
def test_only_what_has_not_begun_is_dropped(events: tuple[Event, ...], drop: str, sentence: str) -> None:
    state = begun(OF, *events)
    assert (why_not_grow(OF, state, added("c"), (drop,)) or "").startswith(sentence)
    assert grow(OF, state, added("c"), (drop,)) == []


def test_an_interrupted_task_has_begun() -> None:
    state = begun(OF, sent("a"), answered("a", 1, "infrastructure"))
    follow(state, *decide(OF, state, now=1e6, order_slots=0, draining=False))
    assert state.tasks["a"].phase == "pending"
    assert "task 'a' has begun" in (why_not_grow(OF, state, added("c"), ("a",)) or "")
    with pytest.raises(IllegalStep, match="has begun"):
        follow(state, TasksDropped(tasks=("a",), by="p", why=""))


def test_dropped_tasks_are_replaced_and_never_start() -> None:
    state = begun(OF)
    follow(state, *grow(OF, state, added("a", "c", needs=""), ("a", "b")))
    of = OF.grow_with(state)
    assert list(of.tasks) == list(state.tasks) == ["a", "c"]
    assert find_ended(state) == {"b": "was dropped from the run"}
    assert started(OF, state) == ["a", "c"]
    follow(state, *grow(of, state, added("b", request="k2")))
    assert list(OF.grow_with(state).tasks) == ["a", "c", "b"] and find_ended(state) == {}


def test_a_new_task_may_not_need_what_has_failed() -> None:
    state = begun(OF, *FAILED, TaskBlocked(task="b", by="a"))
    assert find_ended(state) == {"a": "has failed", "b": "is blocked by a task that has failed"}
    assert find_ended(begun(OF, TaskCancelled(task="a"))) == {"a": "was cancelled"}


@pytest.mark.parametrize(("key", "most"), [("lead#{}", MOST_BY_LEAD), ("key{}", MOST_BY_PERSON)])
def test_no_more_tasks_are_added_than_the_cap_says(key: str, most: int) -> None:
    state = begun(OF)
    for number in range(2):
        names = [f"n{number}-{one}" for one in range(most // 2)]
        follow(state, *grow(OF.grow_with(state), state, added(*names, request=key.format(number))))
    assert len(state.tasks) == most + 2
    last = added("more", request=key.format(2))
    assert f"may add {most:,} to one run, and {most:,} are added" in (
        why_not_grow(OF.grow_with(state), state, last) or ""
    )
    other = added("other", request="lead#9" if "key" in key else "a-persons")
    assert why_not_grow(OF.grow_with(state), state, other) is None, "a lead and a person are counted apart"


def test_a_persons_words_that_came_too_late_are_refused_with_a_sentence() -> None:
    state = begun(OF, sent("a"))
    word = PersonRequest(do="add", tasks=added("c").tasks, drop=("a",), by="A Person", key="k")
    assert "task 'a' is running" in (why_refused(OF, state, word) or "")
    assert grant_request(OF, state, word) == []
    follow(state, *grant_request(OF, state, word.model_copy(update={"drop": ()})))
    assert why_refused(OF.grow_with(state), state, word) is None, "it was granted before"


def test_a_corrected_plan_keeps_what_was_added_unless_it_names_it() -> None:
    state = begun(OF, added("c", "d", needs="b"))
    old = OF.grow_with(state)

    def take(*tasks: str) -> PlanIndex:
        new = with_landed(old.plan, course(*(task(one, files=("x",)) for one in tasks)).plan, state)
        follow(state, revise(old.plan, new, state, "plan-9.json"))
        return PlanIndex(new, {}).grow_with(state)

    with pytest.raises(CannotRun, match=r"task 'c' needs 'b', which is no task of the run.*added to the run"):
        take("a")
    now = take("a", "b", "d")
    assert list(now.tasks) == list(state.tasks) == ["a", "b", "d", "c"]
    assert now.tasks["d"].files == ("x",), "the file's own words hold"
    assert [one.id for one in state.added] == ["c"]


def keep(settings: Settings) -> KeptRun:
    options = RunOptions(run=RUN, hub="/hub", target="t", workers=1, plan_file="p", plan_file_digest="")
    return run_folder.keep(settings, options, OF.plan)


def test_every_reader_of_the_folder_sees_the_grown_plan(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    kept = keep(settings)
    beginning = RunStarted(run=RUN, plan_digest="d", hub="/hub", target="t", tip="c0")
    kept.amend(lambda state: [beginning])
    view = RunView(settings, RUN)
    assert view.look(lambda look: list(look.course.tasks)) == ["a", "b"]
    kept.amend(lambda state: grow(OF, state, added("c"), ("b",)))
    assert view.look(lambda look: (list(look.course.tasks), list(look.state.tasks))) == (["a", "c"], ["a", "c"])
    opened = run_folder.open_run(settings, RUN)
    assert [one.id for one in opened.plan.tasks] == list(opened.state().tasks) == ["a", "c"]

    def revised(state: RunState) -> list[Event]:
        plan = course(task("a"), task("b")).plan
        (opened.folder / "plan-9.json").write_text(dump_plan(plan))
        return [PlanRevised(plan_file="plan-9.json", plan_digest=plan_digest(plan), tasks=("a", "b"), removed=("c",))]

    opened.amend(revised)
    opened.amend(lambda state: grow(course(task("a"), task("b")), state, added("e", request="k2")))
    last = run_folder.open_run(settings, RUN)
    assert list(last.course.tasks) == list(last.state().tasks) == ["a", "b", "e"]
    assert view.look(lambda look: list(look.course.tasks)) == ["a", "b", "e"]
