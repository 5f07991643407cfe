"""
The runs of this host: a folder each, with the plan as it was when the run began, its options, journal and logs.
"""

import hashlib
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import Field

from forgepool.orchestrator.decisions.plan_index import PlanIndex, describe_work, gate_course
from forgepool.orchestrator.journal.events import (
    Event,
    OrderAnswered,
    OrderSent,
    PlanRevised,
    TaskRejected,
    TaskRetried,
    TaskReturned,
    TasksAdded,
    TasksDropped,
)
from forgepool.orchestrator.journal.store import Journal, JournalUnreadable, Recorded, read, read_kinds
from forgepool.orchestrator.plan.addition import grow_plan, list_rungs
from forgepool.orchestrator.plan.document import Plan, Task, dump_plan, plan_digest, read_expanded
from forgepool.orchestrator.state.fold import apply
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import IllegalStep, TaskState
from forgepool.workers.schema.mistakes import DocumentWrong, slug
from forgepool.workers.schema.orders import Message, Spent
from forgepool.workers.schema.settings import Settings
from forgepool.worktrees.errors import UserError
from forgepool.worktrees.git.git import CommitId, Git


class RunOptions(Message):
    """The options a run was started with; `resume` uses the same unless told otherwise."""

    run: str
    hub: str
    target: str
    workers: int
    trials: int = 1
    """Cars whose checks run at once, on one machine."""
    plan_file: str
    plan_file_digest: str
    programs: str = ""
    """A folder put first on PATH for this run's workers."""
    weight: int = Field(default=1, ge=1)
    """Its part of the order slots, relative to other runs on its Redis."""
    broker: str = ""
    """The shared Redis of its workers, without password and options; empty for one of its own."""
    person: str = ""
    """The person who started it, for the limits of the treasury."""
    own_train: bool = False
    """True if its candidates land by a train of its own, even where a queue serves the target."""
    gate: bool = False
    """It is a gate: its entries are in its journal, and no plan was ever written."""


@dataclass(frozen=True, slots=True)
class KeptRun:
    """A run as its folder has it."""

    folder: Path
    options: RunOptions
    plan: Plan
    """The one it goes by now."""
    course: PlanIndex
    began_with: tuple[str, ...] | None = None
    """Ids of its first plan's tasks, where its plan has changed since."""

    def state(self) -> RunState:
        """The state its journal leads to; raises JournalUnreadable."""
        return self.replay()[0]

    def replay(self) -> tuple[RunState, list[Recorded]]:
        """The state and the events that lead to it; raises JournalUnreadable."""
        first = self.began_with
        state = RunState.blank((task.id for task in self.plan.tasks) if first is None else first)
        recorded = list(read(self.folder))
        try:
            for one in recorded:
                apply(state, one.event, number=one.number, at=one.at)
        except IllegalStep as impossible:
            raise JournalUnreadable(f"{self.folder / 'journal.db'} tells what cannot be: {impossible}") from impossible
        return state, recorded

    def amend(self, decide: Callable[[RunState], list[Event]]) -> tuple[RunState, list[Event]]:
        """
        Journal what follows from the state of a run that is not running; return the state after it, and the events.

        Raises:
            JournalBusy: a process runs it.
            JournalUnreadable: as `state`.
        """
        journal = Journal(self.folder)
        try:
            state = self.state()
            changes = decide(state)
            for change in changes:
                apply(state, change, number=state.number + 1, at=time.time())
            if changes:
                journal.append(changes, at=time.time())
        finally:
            journal.close()
        return state, changes

    def plan_file_changed(self) -> bool:
        """Tell whether the plan's file has changed since the run was started."""
        path = Path(self.options.plan_file)
        return path.is_file() and file_digest(path) != self.options.plan_file_digest


def keep_report(folder: Path, course: PlanIndex, state: RunState, task: TaskState, git: Git) -> None:
    """Write a task's report into the run's folder, below `results/`; that of a survey also into the home."""
    from forgepool.orchestrator.journal.surveys import keep_survey
    from forgepool.workers.agents.briefing.task_card import report_text

    planned, report = course.tasks[task.id], task.report
    if report is None:
        return
    (folder / "results").mkdir(exist_ok=True)
    (folder / "results" / f"{task.id}.md").write_text(report_text(task.id, planned.title, report), encoding="utf-8")
    if task.attempt and planned.surveys:
        # The run's folder is in `runs`, in the home.
        keep_survey(folder.parents[1], state.hub, course.plan, git, CommitId(task.base), state.run, report)


def with_options(kept: KeptRun, options: RunOptions) -> KeptRun:
    """The same run with other options, remembered."""
    (kept.folder / "options.json").write_text(options.encode())
    return replace(kept, options=options)


class NoSuchRun(UserError):
    """There is no such run. One sentence, with the runs there are."""


def new_run_id(plan_name: str) -> str:
    """`<plan>-<date>-<time>-<4 hex digits>`: sorts by time within a plan, and may stand in a git ref."""
    import secrets

    return f"{plan_name[:40]}-{time.strftime('%m%d-%H%M%S')}-{secrets.token_hex(2)}"


def is_run_name(text: str) -> bool:
    """Tell whether a run may have this name: it becomes a folder, and a part of refs."""
    # It imports much that commands which only show a run do not need.
    from forgepool.workers.workspace.refs import RESERVED

    try:
        return slug(text).lower() not in RESERVED
    except ValueError:
        return False


def runs_folder(settings: Settings) -> Path:
    return settings.home / "runs"


def plan_texts(settings: Settings) -> Path:
    """Return the folder of plans that clients gave as texts. A run has its own copy of its plan."""
    return settings.home / "plans"


def keep(settings: Settings, options: RunOptions, plan: Plan) -> KeptRun:
    """Makes the folder of a new run."""
    folder = runs_folder(settings) / options.run
    (folder / "logs").mkdir(parents=True)
    (folder / "plan.json").write_text(dump_plan(plan))
    (folder / "options.json").write_text(options.encode())
    return KeptRun(folder, options, plan, PlanIndex(plan, {}))


def find(settings: Settings, run: str | None) -> KeptRun:
    """
    Return the run of that name or unique prefix; without a name, the latest.

    Raises:
        NoSuchRun: there is none, or there are several.
    """
    names = list(run_names(settings))
    if not names:
        raise NoSuchRun("there are no runs yet; `forgepool run PLAN` starts one")
    if run is None:
        return open_run(settings, names[0])
    found = [run] if run in names else [name for name in names if name.startswith(run)]
    if len(found) == 1:
        return open_run(settings, found[0])
    what = "there is no run" if not found else "there are several runs"
    raise NoSuchRun(f"{what} '{run}'; the latest are: {', '.join((found or names)[:5])}")


def run_names(settings: Settings) -> Iterator[str]:
    """All runs, the latest first."""
    folder = runs_folder(settings)
    if not folder.is_dir():
        return
    kept = [one for one in folder.iterdir() if (one / "options.json").is_file()]
    for one in sorted(kept, key=lambda path: (path / "options.json").stat().st_mtime, reverse=True):
        yield one.name


def open_run(settings: Settings, run: str, *, with_course: bool = True) -> KeptRun:
    """Open a run. A queue's index is read from its journal, unless the caller reads the journal anyway."""
    folder = runs_folder(settings) / run
    try:
        options = RunOptions.model_validate_json((folder / "options.json").read_text())
        plan = read_expanded((folder / "plan.json").read_text())
    except (OSError, ValueError, DocumentWrong) as problem:
        raise JournalUnreadable(f"{folder} is not a whole run: {problem}") from problem
    kept = _with_latest_plan(KeptRun(folder, options, plan, PlanIndex(plan, {})))
    return replace(kept, course=gate_course(plan, kept.state())) if options.gate and with_course else kept


def _with_latest_plan(kept: KeptRun) -> KeptRun:
    """
    The run by the last plan it was given, with what was added to it since and without what was dropped; a plan that no
    event names was written by a command that died.

    Raises:
        JournalUnreadable: that plan cannot be read.
    """
    changes = read_kinds(kept.folder, "plan.revised", "tasks.added", "tasks.dropped")
    if not changes:
        return kept
    plan, last = kept.plan, max((at for at, one in enumerate(changes) if isinstance(one, PlanRevised)), default=0)
    for event in changes[last:]:
        match event:
            case PlanRevised():
                plan = _read_revised(kept.folder, event)
            case TasksAdded():
                plan = grow_plan(plan, event.tasks, ())
            case TasksDropped():
                plan = grow_plan(plan, (), event.tasks)
            case _:
                pass
    return replace(kept, plan=plan, course=PlanIndex(plan, {}), began_with=tuple(task.id for task in kept.plan.tasks))


def _read_revised(folder: Path, revised: PlanRevised) -> Plan:
    path = folder / revised.plan_file
    try:
        plan = read_expanded(path.read_text())
    except (OSError, ValueError, DocumentWrong) as problem:
        raise JournalUnreadable(f"{path} is not the plan that the run goes by: {problem}") from problem
    if plan_digest(plan) != revised.plan_digest:
        raise JournalUnreadable(f"{path} is not the plan that the run goes by; it was changed by hand")
    return plan


def file_digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


_RUNS_LOOKED_AT = 5


def learn_from_runs(settings: Settings, plan: Plan) -> PlanIndex:
    """
    Return the plan with what the last five runs of plans of this name tell: the median seconds of each task's finished
    orders, and what finished tasks of each kind of work have used.
    """
    import statistics

    took: defaultdict[str, list[float]] = defaultdict(list)
    used: defaultdict[str, list[Spent]] = defaultdict(list)
    timed = all(task.duration_s is not None for task in plan.tasks)
    for run in [] if timed and not plan.budget.capped else _earlier_runs(settings, plan):
        try:
            works = _read_works(run)
            first, raced = dict(works), dict[str, Task]()
            for recorded in read(run):
                event = recorded.event
                if isinstance(event, OrderAnswered) and event.result.outcome in ("candidate", "reported"):
                    took[event.task].append(max(0.0, event.result.finished_at - event.result.started_at))
                    work = raced.get(event.result.order_id, works.get(event.task))
                    if event.result.spent.tokens and work is not None:
                        used[describe_work(work)].append(event.result.spent)
                elif isinstance(event, OrderSent) and event.rung and event.task in works:
                    rungs = list_rungs(first[event.task])
                    raced[event.message_id] = rungs[min(event.rung, len(rungs)) - 1]
                elif isinstance(event, TaskRetried) and event.model:
                    # From here on another model than the plan's does it.
                    works.pop(event.task, None)
                elif isinstance(event, TaskRetried) and event.afresh and event.task in works:
                    works[event.task] = first[event.task]
                elif isinstance(event, TaskReturned | TaskRejected) and event.rung and event.task in works:
                    rungs = list_rungs(first[event.task])  # A later plan of the run may have more.
                    works[event.task] = rungs[min(event.rung, len(rungs)) - 1]
        except JournalUnreadable:
            continue
    seconds = {} if timed else {task: statistics.median(each) for task, each in took.items()}
    index = PlanIndex(plan, seconds, learned_use=used)
    return replace(index, racing=frozenset(task for task, why in list_races(index, settings).items() if not why))


def list_races(course: PlanIndex, settings: Settings) -> Mapping[str, str]:
    """Return, by task that is to race, why it does not, by the families in this host's table; empty where it does."""
    if not any(task.race for task in course.plan.tasks):
        return {}
    # Imported late: most plans race nothing, and commands that only look at runs start sooner.
    from forgepool.orchestrator.decisions.orders.races import explain_races
    from forgepool.workers.agents.families import find_family
    from forgepool.workers.llm.routing.table import read_table

    table = read_table(settings.models_file)
    return explain_races(course, lambda model: table.family(model) or find_family(model))


def _earlier_runs(settings: Settings, plan: Plan) -> list[Path]:
    folder = settings.home / "runs"
    if not folder.is_dir():
        return []
    # The name of a run begins with its plan's, but so do the names of runs of a plan called `<name>-more`.
    alike = sorted(folder.glob(f"{plan.name[:40]}-*"), key=lambda path: path.stat().st_mtime)
    return [run for run in alike if _plan_name(run) == plan.name][-_RUNS_LOOKED_AT:]


def _read_works(run: Path) -> dict[str, Task]:
    """Return the tasks of a run's first plan but for a lead; none for a plan that cannot be read."""
    try:
        return {task.id: task for task in read_expanded((run / "plan.json").read_text()).tasks if task.leads is None}
    except (OSError, ValueError, DocumentWrong):
        return {}


def _plan_name(run: Path) -> str | None:
    """Return the plan's name from the run's own copy; None for a folder that is no whole run."""
    try:
        return str(json.loads((run / "plan.json").read_text())["name"])
    except (OSError, ValueError, LookupError, TypeError):
        return None
