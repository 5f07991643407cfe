"""Tasks that answer, and tasks that may write nothing: no lock, no candidate, and an outcome that satisfies needs."""

from pathlib import Path

import pytest
from invariants import indexes_hold
from plans import answered, begun, check_sent, course, follow, intended, landing, queued, sent, task, verdict

from forgepool.orchestrator.cli.output.progress import exit_status
from forgepool.orchestrator.decisions.decide import decide
from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.decisions.requests import grant_request
from forgepool.orchestrator.journal.events import (
    CheckAnswered,
    ContextRebuilt,
    Event,
    LandingAnswered,
    OrderSent,
    RunEnded,
    SurveyFound,
    TaskBlocked,
    TaskCancelled,
    TaskFailed,
    TaskParked,
    TaskReported,
    TaskRetried,
    TaskReturned,
    TaskUnchanged,
)
from forgepool.orchestrator.journal.inbox import PersonRequest
from forgepool.orchestrator.plan.addition import read_addition
from forgepool.orchestrator.run.dispatch import priors
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import IllegalStep
from forgepool.workers.schema.orders import BuiltinAgent, ReasonPack
from forgepool.workers.schema.reports import Evidence, Report

REPORT = Report(summary="in a.py", output="x" * 300, missing=("its age",), evidence=(Evidence(path="a.py"),))


def step(of: PlanIndex, state: RunState) -> list[Event]:
    return decide(of, state, now=200.0, order_slots=3, draining=False)


def test_a_report_ends_its_task_satisfies_what_needs_it_and_is_passed_on() -> None:
    of = course(task("a", answers=True), task("b", "a"))
    state = begun(of, sent("a"), answered("a", 1, "reported", report=REPORT, claimed_summary="in a.py"))
    (reported,) = step(of, state)
    assert reported == TaskReported(task="a", report=REPORT)
    follow(state, reported)
    assert [(event.kind, event.task) for event in step(of, state)] == [("order.sent", "b")]
    (prior,) = priors(of, state, of.tasks["b"])
    assert prior.report == REPORT and prior.summary == "in a.py"


def test_a_run_counts_its_reports_and_one_can_be_asked_for_again() -> None:
    of = course(task("a", answers=True))
    state = begun(of, sent("a"), answered("a", 1, "reported", report=REPORT))
    follow(state, *step(of, state))
    (ended,) = step(of, state)
    assert ended == RunEnded(landed=0, not_landed=0, reported=1)
    follow(state, ended, TaskRetried(task="a"))
    assert state.tasks["a"].report is None and state.tasks["a"].phase == "pending"
    assert [event.kind for event in step(of, state)] == ["order.sent"]


def test_a_task_that_answers_holds_no_lock_and_its_reads_keep_nobody_waiting() -> None:
    of = course(task("a", answers=True, reads=("src/**",)), task("b", files=["src/**"]), undeclared="exclusive")
    state = begun(of, sent("a"))
    assert not of.in_flight(state)["a"]
    assert [event.kind for event in step(of, state)] == ["order.sent"]


@pytest.mark.parametrize("paths", [(), ("a.py",)])
def test_a_candidate_of_a_task_that_answers_never_enters_the_train(paths: tuple[str, ...]) -> None:
    """A worker of an earlier version, which does not know of answers, makes one."""
    of = course(task("a", answers=True, attempts=2))
    state = begun(of, sent("a"), answered("a", 1, paths=paths))
    (returned,) = step(of, state)
    assert isinstance(returned, TaskReturned)
    with pytest.raises(IllegalStep):
        follow(begun(of, sent("a")), TaskReported(task="a", report=REPORT))


def test_a_task_that_may_write_nothing_is_refused_for_a_change_and_done_without_one() -> None:
    of = course(task("a", files=[], unchanged="ok", attempts=2))
    (returned,) = step(of, begun(of, sent("a"), answered("a", 1, paths=["x.py"])))
    assert isinstance(returned, TaskReturned)
    assert returned.reason.summary == (
        "it changed x.py, and `files: []` lets it change nothing; name in `files` what it may change"
    )
    (unchanged,) = step(of, begun(of, sent("a"), answered("a", 1, "no_change")))
    assert isinstance(unchanged, TaskUnchanged)


def test_a_committed_plan_without_files_is_done_and_silence_is_not() -> None:
    of = course(task("a", files=["a.py"], agent=BuiltinAgent(), attempts=1))
    said = {"detail": "the agent found nothing to change: it is there", "nothing_to_do": True}
    (unchanged,) = step(of, begun(of, sent("a"), answered("a", 1, "no_change", **said)))
    assert unchanged == TaskUnchanged(task="a", why="the agent found nothing to change: it is there")
    (failed,) = step(of, begun(of, sent("a"), answered("a", 1, "no_change")))
    assert failed.kind == "task.failed"
    judged = course(task("a", files=["a.py"], agent=BuiltinAgent(), attempts=1, criteria=("It is fast.",)))
    (failed,) = step(judged, begun(judged, sent("a"), answered("a", 1, "no_change", **said)))
    assert failed.kind == "task.failed", "its criteria were answered by nobody"


def test_a_window_of_no_size_leaves_the_journal_readable() -> None:
    of = course(task("a", files=["a.py"]))
    told = {"profile": "ledger", "why": "", "changed": False, "before_tokens": 5, "after_tokens": 5}
    state = begun(of, sent("a"), ContextRebuilt(task="a", attempt=1, window_tokens=0, **told))
    assert state.tasks["a"].context_share == 5.0


SURVEY = task("survey", answers=True, surveys=True, agent=BuiltinAgent())
FOUND = SurveyFound(task="survey", by_run="r-0", commit="c" * 40, report=REPORT, stands=True)


@pytest.mark.parametrize(
    "end",
    [
        TaskCancelled(task="survey"),
        TaskParked(task="survey", question="which?"),
        TaskFailed(task="survey", reason=ReasonPack(attempt=1, kind="agent_failed", summary="no report")),
    ],
)
def test_tasks_wait_for_the_survey_and_go_on_however_it_ends(end: Event) -> None:
    of = course(SURVEY, task("a", "survey"), task("b", "a"))
    state = begun(of, sent("survey"))
    assert step(of, state) == []
    follow(state, answered("survey", 1, "agent_failed"), end)
    assert [(event.kind, event.task) for event in step(of, state)] == [("order.sent", "a")]
    assert priors(of, state, of.tasks["a"]) == ()
    follow(state, sent("a"), answered("a", 1, "no_change"), TaskUnchanged(task="a", why="nothing"))
    follow(state, sent("b"), answered("b", 1, "no_change"), TaskUnchanged(task="b", why="nothing"))
    assert step(of, state) == [RunEnded(landed=0, not_landed=0, unchanged=2)]
    assert exit_status(of, state, "ended") == 0
    indexes_hold(of, state)


def test_the_survey_is_of_the_tree_on_which_the_run_began_and_a_second_try_of_the_tip() -> None:
    """A commit that a command has landed meanwhile is not in the tree on which this run began."""
    of = course(SURVEY, task("p"))
    state = begun(of, sent("p"), answered("p"), queued("p"), check_sent("p"))
    follow(state, CheckAnswered(task="p", result=verdict("p")), intended("p"))
    follow(state, LandingAnswered(task="p", result=landing("p")))
    (first,) = step(of, state)
    assert isinstance(first, OrderSent) and (first.task, first.base) == ("survey", "c0") and state.tip != "c0"
    token = first.token
    follow(state, first, answered("survey", 1, "agent_failed", token=token))
    (returned,) = step(of, state)
    follow(state, returned)
    (second,) = step(of, state)
    assert isinstance(second, OrderSent) and second.base == state.tip


def test_what_another_failure_blocks_is_not_blocked_by_the_survey() -> None:
    of = course(SURVEY, task("a", "survey"), task("x"), task("y", "x"), task("z", "survey", "x"))
    failed = [
        TaskFailed(task=one, reason=ReasonPack(attempt=1, kind="agent_failed", summary="no")) for one in ("survey", "x")
    ]
    state = begun(of, sent("survey"), sent("x"))
    follow(state, answered("survey", 1, "agent_failed"), answered("x", 1, "agent_failed"), *failed)
    blocked = [event for event in step(of, state) if isinstance(event, TaskBlocked)]
    assert {(event.task, event.by) for event in blocked} == {("y", "x"), ("z", "x")}


def test_what_waits_for_a_survey_waits_for_its_retry_and_a_retry_of_the_task_leaves_the_survey() -> None:
    of = course(SURVEY, task("a", "survey"))
    failed = TaskFailed(task="survey", reason=ReasonPack(attempt=1, kind="agent_failed", summary="no report"))
    state = begun(of, sent("survey"), answered("survey", 1, "agent_failed"), failed)
    follow(state, TaskRetried(task="survey"))
    assert [(event.kind, event.task) for event in step(of, state)] == [("order.sent", "survey")]
    follow(state, sent("survey", 2), answered("survey", 2, "agent_failed"), failed, sent("a"), TaskCancelled(task="a"))
    retried = grant_request(of, state, PersonRequest(do="retry", task="a"))
    assert retried == [TaskRetried(task="a")]


def test_a_kept_survey_is_reported_at_once_and_says_which_commit_it_describes() -> None:
    of = course(SURVEY, task("a", "survey"))
    state = begun(of, FOUND)
    assert [(event.kind, event.task) for event in step(of, state)] == [("order.sent", "a")]
    (prior,) = priors(of, state, of.tasks["a"])
    assert (prior.report, prior.surveyed) == (REPORT, FOUND.commit)
    assert state.tasks["survey"].attempt == 0 and not list(state.uses())


def test_a_task_that_is_added_to_a_surveyed_plan_gets_the_survey() -> None:
    text = "tasks:\n  - {id: more, agent: {builtin: {}}}\n  - {id: plain, agent: {command: make}}\n"
    more, plain = read_addition(text, course(SURVEY, task("a", "survey")).plan, Path("absent"), lambda: ())
    assert [need.id for need in more.needs] == ["survey"] and plain.needs == ()
