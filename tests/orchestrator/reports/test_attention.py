"""Everything that needs a person has one row with the command that ends it, and the row goes with its cause."""

import time
from pathlib import Path

import pytest
from plans import RUN, answered, begun, course, follow, sent, task

from forgepool.orchestrator.cli.run.options import find_task
from forgepool.orchestrator.decisions.plan_index import PlanIndex, gate_course, gate_plan
from forgepool.orchestrator.journal.events import (
    EntrySubmitted,
    Event,
    GateHalted,
    GateNoticed,
    GatePaused,
    GateResumed,
    HostsLacking,
    MessageTaken,
    PlanRevised,
    RunEnded,
    RunPaused,
    RunResumed,
    RunStarted,
    TaskBlocked,
    TaskFailed,
    TaskParked,
    TaskReplied,
    TaskRetried,
    TasksAdded,
    TaskUnchanged,
    WaveApproved,
)
from forgepool.orchestrator.journal.store import Journal
from forgepool.orchestrator.plan.budget import Budget
from forgepool.orchestrator.reports.attention import UNTAKEN_S, Liveness, attention
from forgepool.orchestrator.reports.home import HomeView, journal_stamp
from forgepool.orchestrator.reports.status import standing
from forgepool.orchestrator.run.run_folder import NoSuchRun, RunOptions, keep
from forgepool.orchestrator.state.run import REOPENED, RunState
from forgepool.workers.schema.orders import BuiltinAgent, CommandAgent, ReasonKind, ReasonPack, Reply
from forgepool.workers.schema.settings import Settings
from forgepool.worktrees.errors import UserError

PLAN = course(task("a", agent=BuiltinAgent()), task("b", "a"), task("c"), budget=Budget(usd=2.0))
LIVE = Liveness(live=True, now=101.0)
STOPPED = Liveness(live=False, now=101.0)
ENDED: list[Event] = [TaskBlocked(task="b", by="a"), sent("c"), answered("c", 1, "no_change")]
HALTED = GateHalted(why="a finding", reviewed=True)
ENDED += [TaskUnchanged(task="c", why="nothing"), RunEnded(landed=0, not_landed=2, unchanged=1)]


def rows(state: RunState, alive: Liveness = LIVE, of: PlanIndex = PLAN) -> list[tuple[str, str, str]]:
    return [(row.cause, row.task, row.command) for row in attention(of, state, alive)]


def parked(why: str, question: str = "the disk is full") -> list[Event]:
    outcome = "needs_human" if why == "question" else "infrastructure"
    asked = {"question": question, "resumable": True} if why == "question" else {}
    parking = TaskParked.model_validate({"task": "a", "question": question, "why": why})
    return [sent("a"), answered("a", 1, outcome, **asked), parking]


def failed(kind: ReasonKind) -> list[Event]:
    reason = ReasonPack(attempt=1, kind=kind, summary="it is red")
    return [sent("a"), answered("a", 1, "agent_failed"), TaskFailed(task="a", reason=reason)]


@pytest.mark.parametrize(
    ("events", "row"),
    [
        (parked("question", "tabs?"), ("question", "a", f"forgepool answer {RUN} a TEXT")),
        (parked("trouble"), ("trouble", "a", f"forgepool retry {RUN} a")),
        (parked("budget"), ("budget", "", f"forgepool budget {RUN} --usd USD")),
        (failed("check_failed"), ("failed", "a", f"forgepool retry {RUN} a")),
        (failed("conflict"), ("conflict", "a", f"forgepool retry {RUN} a")),
        ([HostsLacking(tasks={"a": ("a gpu",)})], ("no host", "", "forgepool worker --broker URL")),
        (
            [GateNoticed(gate="gate-t", away="it was last seen at 12:00")],
            ("stuck", "", "forgepool queue serve --repo /hub --target t"),
        ),
    ],
)
def test_a_cause_has_one_row_with_the_command_that_ends_it(events: list[Event], row: tuple[str, str, str]) -> None:
    assert rows(begun(PLAN)) == []
    assert rows(begun(PLAN, *events)) == [row]


@pytest.mark.parametrize(
    ("kind", "command"), [("check_failed", f"resume {RUN} --plan FILE"), ("conflict", f"retry {RUN} a")]
)
def test_a_command_that_would_do_the_same_again_wants_another_plan(kind: ReasonKind, command: str) -> None:
    of = course(task("a", agent=CommandAgent(run="make")), task("b", "a"), task("c"))
    (row,) = attention(of, begun(of, *failed(kind)), LIVE)
    assert row.command == f"forgepool {command}"
    assert row.sentence.endswith("correct the plan, and run it again") == (kind == "check_failed")


def test_a_row_goes_with_its_cause() -> None:
    state = begun(PLAN, *parked("question", "tabs?"))
    assert len(rows(state)) == 1
    assert rows(follow(state, TaskReplied(task="a", reply=Reply(question="tabs?", answer="yes", by="ada")))) == []
    state = begun(PLAN, *failed("check_failed"))
    assert len(rows(state)) == 1
    assert rows(follow(state, TaskRetried(task="a"))) == []


def test_what_a_failed_task_blocks_has_no_row_of_its_own() -> None:
    state = begun(PLAN, *failed("check_failed"), TaskBlocked(task="b", by="a"))
    (row,) = attention(PLAN, state, LIVE)
    assert row.sentence == "Failed after 1 attempt: it is red; 1 task cannot go on without it"


def test_a_budget_has_one_row_for_all_tasks_that_it_stops() -> None:
    events: list[Event] = [TaskParked(task=one, question="the budget is used", why="budget") for one in ("a", "c")]
    (row,) = attention(PLAN, begun(PLAN, *events), LIVE)
    assert row.sentence.startswith("The budget stops a, c: 0.00 of 2.00 USD spent or reserved")


def test_a_question_comes_before_a_failure_and_of_equals_the_older_first() -> None:
    wide = course(*(task(name, agent=BuiltinAgent()) for name in ("a", "b", "c")))
    state = begun(wide, *failed("check_failed"))
    for at, name in ((102.0, "c"), (103.0, "b")):
        follow(state, sent(name), answered(name, 1, "needs_human", question="?"), at=at)
        follow(state, TaskParked(task=name, question="?", why="question"), at=at)
    assert [(cause, about) for cause, about, _ in rows(state, LIVE, wide)] == [
        ("question", "c"),
        ("question", "b"),
        ("failed", "a"),
    ]


def test_hundreds_of_failures_are_counted_in_one_last_row() -> None:
    many = course(*(task(f"t{number}") for number in range(130)))
    state = begun(many)
    for number in range(130):
        reason = ReasonPack(attempt=1, kind="check_failed", summary="it is red")
        name = f"t{number}"
        follow(state, sent(name), answered(name, 1, "agent_failed"), TaskFailed(task=name, reason=reason))
    found = rows(state, LIVE, many)
    assert len(found) == 101
    assert ("failed", "", f"forgepool report {RUN}") in found


@pytest.mark.parametrize(
    ("events", "cause", "sentence"),
    [
        ([RunPaused(why="interrupted")], "paused", "It was stopped with 3 tasks to go: interrupted"),
        (
            [*failed("check_failed"), *ENDED, TaskRetried(task="a")],
            "paused",
            "It has 1 task to do again; nothing runs it",
        ),
        (
            [RunPaused(why="x"), RunResumed(tip="c0")],
            "unexpected end",
            "Its process ended without a word, with 3 tasks to go",
        ),
    ],
)
def test_a_run_that_no_process_runs_is_to_be_resumed(events: list[Event], cause: str, sentence: str) -> None:
    (row,) = attention(PLAN, begun(PLAN, *events), STOPPED)
    assert (row.cause, row.sentence, row.command) == (cause, sentence, f"forgepool resume {RUN}")
    halted = begun(PLAN, GateHalted(why="the target is red"))
    assert [(one.cause, one.sentence) for one in attention(PLAN, halted, STOPPED)] == [
        ("paused", "Landing is paused with 3 tasks to go: the target is red")
    ]


@pytest.mark.parametrize(
    ("events", "stopped"),
    [
        ([], None),
        ([RunPaused(why="interrupted")], "interrupted"),
        ([RunPaused(why="interrupted"), TaskRetried(task="a")], "interrupted"),
        ([RunPaused(why="interrupted"), RunResumed(tip="c0")], None),
        ([TaskRetried(task="a")], None),
        (ENDED, ""),
        ([*ENDED, TaskRetried(task="a")], REOPENED),
        ([*ENDED, TasksAdded(request="more", tasks=(task("new"),), by="ada", why="")], REOPENED),
        ([*ENDED, TaskRetried(task="a"), RunResumed(tip="c0")], None),
        ([*ENDED, PlanRevised(plan_file="p", plan_digest="e", tasks=("a", "b", "c", "d"))], REOPENED),
        ([HALTED, TaskRetried(task="a")], None),
        ([HALTED, RunPaused(why=""), TaskRetried(task="a")], REOPENED),
        ([HALTED, RunPaused(why=""), WaveApproved(by="Ada", tip="c0")], REOPENED),
    ],
)
def test_only_a_run_that_had_come_to_its_end_is_opened_again(events: list[Event], stopped: str | None) -> None:
    """An interrupted run goes on by `forgepool resume` alone, and one under way or of a dead process has no reason."""
    assert begun(PLAN, *failed("check_failed"), *events).stopped == stopped


def test_a_message_that_no_worker_takes_is_stuck_only_where_none_is_at_work() -> None:
    state = begun(PLAN, sent("a"))
    late = Liveness(live=True, now=100.0 + UNTAKEN_S + 1)
    assert rows(state, Liveness(live=True, now=100.0 + UNTAKEN_S - 1)) == []
    assert rows(state, late) == [("stuck", "", "forgepool worker --broker URL")]
    follow(state, sent("c"), MessageTaken(message_id=f"{RUN}.c.1", host="h", pid=1))
    assert rows(state, late) == [], "it waits its turn"


def test_a_journal_without_events_needs_nobody() -> None:
    assert attention(PLAN, RunState.blank(PLAN.tasks), Liveness(live=False, now=0.0)) == []


def test_a_queue_that_is_paused_or_that_no_process_serves_has_a_row() -> None:
    state = RunState.blank(())
    began = RunStarted(run="gate-t", plan_digest="", hub="/hub", target="t", tip="c0")
    entry = EntrySubmitted(task="one", branch="feature/one", revision=1, commit="c1", title="t")
    follow(state, began, entry)

    def found(alive: Liveness) -> list[tuple[str, str, str]]:
        return rows(state, alive, gate_course(gate_plan("gate-t", "t"), state))

    serve = "forgepool queue serve --repo /hub --target t"
    assert found(LIVE) == []
    assert found(Liveness(live=False, now=101.0)) == [("stuck", "", serve)]
    follow(state, GatePaused(why="lunch"))
    assert found(LIVE) == [("paused", "", "forgepool queue resume --target t")]
    follow(state, GateResumed(), *(TaskFailed(task="one", reason=ReasonPack(attempt=1, kind="conflict", summary="x")),))
    assert found(LIVE) == [("conflict", "one", "forgepool queue submit BRANCH --name feature/one")]
    assert found(Liveness(live=True, now=100.0 + 8 * 86400)) == [], "it was returned more than seven days ago"
    shown = standing(gate_course(gate_plan("gate-t", "t"), state), state, now=101.0, live=True)
    assert (shown.outcome, [(one.task, one.phase) for one in shown.tasks]) == ("serving", [("feature/one", "returned")])


def test_an_entry_of_a_queue_is_found_by_its_branch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORGEPOOL_HOME", str(tmp_path))
    options = RunOptions(run="gate-t", hub="/hub", target="t", workers=1, plan_file="", plan_file_digest="", gate=True)
    journal = Journal(keep(Settings(), options, gate_plan("gate-t", "t")).folder)
    began = RunStarted(run="gate-t", plan_digest="", hub="/hub", target="t", tip="c0")
    journal.append(
        [began, EntrySubmitted(task="feature--one", branch="feature/one", revision=1, commit="c1", title="t")], at=1.0
    )
    journal.close()
    assert find_task("gate-t", "feature/one")[1] == find_task("gate-t", "feature--one")[1] == "feature--one"
    with pytest.raises(UserError, match="has no task 'x/y'; it has: feature/one"):
        find_task("gate-t", "x/y")


def kept_run(settings: Settings, run: str, at: float, *events: Event) -> Journal:
    options = RunOptions(run=run, hub="/hub", target="t", workers=1, plan_file="p.yaml", plan_file_digest="")
    journal = Journal(keep(settings, options, PLAN.plan).folder)
    began = RunStarted(run=run, plan_digest="d", hub="/hub", target="t", tip="c0")
    journal.append([began, *events], at=at)
    return journal


def home_rows(home: HomeView) -> list[tuple[str, str]]:
    return [(row.run, row.cause) for row in home.attention()]


def test_the_home_follows_its_journals_and_forgets_what_a_later_run_replaces(tmp_path: Path) -> None:
    home = HomeView(Settings(home=tmp_path / "home", cache=tmp_path / "cache"))
    assert home.attention() == []
    done: list[Event] = [TaskBlocked(task="b", by="a"), sent("c"), answered("c", 1, "infrastructure")]
    done += [TaskParked(task="c", question="the disk is full"), RunEnded(landed=0, not_landed=3)]
    first = kept_run(home.settings, "p-1", 100.0, *[_of("p-1", one) for one in (*failed("check_failed"), *done)])
    assert home_rows(home) == [("p-1", "failed"), ("p-1", "trouble")]
    first.close()
    second = kept_run(home.settings, "p-2", 200.0)
    assert home_rows(home) == [], "the later run goes on, and the earlier one has ended"
    second.append([RunPaused(why="interrupted")], at=201.0)
    second.close()
    assert home_rows(home) == [("p-2", "paused")]
    again = Journal(tmp_path / "home" / "runs" / "p-2")
    again.append([RunResumed(tip="c0")], at=202.0)
    assert home_rows(home) == [], "it is live again"
    again.close()
    assert home_rows(home) == [("p-2", "unexpected end")]


def test_a_stamp_changes_once_more_after_a_write(tmp_path: Path) -> None:
    """A write changes the files before readers see its event. A reader in between has to look again."""
    journal = Journal(tmp_path / "run")
    journal.append([GatePaused(why="x")], at=1.0)
    first, late = journal_stamp(tmp_path / "run"), time.monotonic() + 20
    while journal_stamp(tmp_path / "run") == first and time.monotonic() < late:
        time.sleep(0.05)
    second = journal_stamp(tmp_path / "run")
    journal.close()
    assert second != first


def _of(run: str, event: Event) -> Event:
    """Return the event with the messages of another run."""
    return type(event).model_validate_json(event.encode().replace(f"{RUN}.", f"{run}."))


def test_a_name_is_never_a_path(tmp_path: Path) -> None:
    home = HomeView(Settings(home=tmp_path / "home", cache=tmp_path / "cache"))
    (tmp_path / "home" / "runs").mkdir(parents=True)
    (tmp_path / "home" / "options.json").write_text("{}")
    for name in ("..", "../home", ".", "", "a/b", "/etc", "a" * 300):
        with pytest.raises(NoSuchRun):
            home.folder(name)
