"""
All runs and queues of a home, live or ended, as their journals have them: the read model of `forgepool serve`.

A journal is folded once and then kept up: a look reads only the events that are new. So it shows runs of other
processes as well, and what happened before the first look.
"""

import re
import threading
import time
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, TypeVar, get_args

from pydantic import Field, InstanceOf

from forgepool.orchestrator.decisions.plan_index import PlanIndex, gate_course
from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.journal.store import JournalUnreadable, is_being_written, read
from forgepool.orchestrator.plan.budget import Use
from forgepool.orchestrator.reports.attention import AttentionRow, Liveness, attention, rank
from forgepool.orchestrator.reports.costs import ReportedLedger, RunBill, bill, bill_waste
from forgepool.orchestrator.reports.status import outcome_of
from forgepool.orchestrator.run import run_folder
from forgepool.orchestrator.run.run_folder import KeptRun, NoSuchRun
from forgepool.orchestrator.state.counts import EventCounts
from forgepool.orchestrator.state.fold import apply
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import DONE, IllegalStep, Phase
from forgepool.workers.schema.settings import Settings

_MOST_FOLDED = 24
"""Runs whose folded state is kept in memory; of the others, their summaries are."""
_FRESH_S = 15.0
"""Seconds for which the summary of a live run holds without a new event: some rows depend on the clock."""
_UNNAMED = "unknown"
_NAME = re.compile(r"[\w][\w.@+-]{0,250}", re.ASCII)

T = TypeVar("T")
_SETTLED_S = 1.0
Stamp = tuple[int, ...]
"""Sizes and times of a journal's files: another stamp means that there may be new events."""


@dataclass(slots=True, kw_only=True)
class RunLook:
    """A run as its journal has it at one moment."""

    kept: KeptRun
    course: PlanIndex
    state: RunState
    alive: Liveness
    began: float
    """Unix seconds of the first event; 0 where there is none."""
    counts: EventCounts = field(default_factory=EventCounts)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFigures:
    """Numbers of a run for monitoring, none of them about a single task."""

    counts: EventCounts = field(default_factory=EventCounts)
    tasks: Mapping[Phase, int] = field(default_factory=dict)
    bills: Mapping[str, RunBill] = field(default_factory=dict)
    """By the names of the models that worked together on an attempt, as in `a, b`; those of lost ones are not known."""
    untaken: Mapping[str, int] = field(default_factory=dict)
    """By kind, the messages that no worker has taken yet."""
    hosts: frozenset[str] = frozenset()
    """Hosts that have answered, or are at work."""
    suspended: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """One line of the list of runs."""

    run: str
    gate: bool = False
    """It is a merge queue."""
    plan: str = ""
    target: str = ""
    hub: str = ""
    outcome: str = "unreadable"
    """`running`, `paused`, `landed`, `done`, `incomplete`; `serving` or `not served` for a queue; `unreadable`."""
    trouble: str = ""
    """The sentence of a journal that cannot be read."""
    live: bool = False
    total: int = 0
    landed: int = 0
    done: int = 0
    waiting: int = 0
    """Entries in a queue that have not ended."""
    began: float = 0.0
    at: float = 0.0
    """Unix seconds of the last event."""
    number: int = 0
    """Number of the last event."""
    used: RunBill = field(default_factory=RunBill)
    waste: RunBill = field(default_factory=RunBill)
    """The part of attempts that did not land."""
    budget: ReportedLedger | None = None
    rows: tuple[AttentionRow, ...] = ()
    """The things that need a person."""
    figures: Annotated[InstanceOf[RunFigures], Field(exclude=True)] = field(default_factory=RunFigures)
    """For monitoring alone."""


def journal_stamp(folder: Path) -> Stamp:
    """
    Return the stamp of a journal; two calls of `stat`.

    It changes once more a while after the last write: readers see an event only when its write is safe on the disk.
    """
    found: list[int] = []
    for name in ("journal.db", "journal.db-wal"):
        try:
            stands = (folder / name).stat()
        except OSError:
            continue
        found += (stands.st_size, stands.st_mtime_ns)
    is_settled = all(time.time_ns() - at > _SETTLED_S * 1e9 for at in found[1::2])
    return (*found, is_settled)


class RunView:
    """The journal of one run or queue, for readers that look often. Read-only and thread-safe."""

    def __init__(self, settings: Settings, name: str) -> None:
        self.folder = run_folder.runs_folder(settings) / name
        self._settings, self._name = settings, name
        self._lock = threading.Lock()
        self._look: RunLook | None = None

    def look(self, ask: Callable[[RunLook], T]) -> T:
        """
        Apply `ask` to the run as it stands now. It must neither keep nor change the state.

        Raises:
            JournalUnreadable: there is no readable journal.
        """
        with self._lock:
            live = is_being_written(self.folder)
            look = self._go_on()
            look.alive = Liveness(live=live, now=time.time())
            return ask(look)

    def _go_on(self) -> RunLook:
        look = self._look
        if look is None:
            kept = run_folder.open_run(self._settings, self._name, with_course=False)
            first = kept.began_with
            state = RunState.blank([task.id for task in kept.plan.tasks] if first is None else first)
            alive = Liveness(live=False, now=0.0)
            look = RunLook(kept=kept, course=kept.course, state=state, alive=alive, began=0.0)
        self._look = None  # A fold that fails in its middle is begun again.
        before, revised = look.state.number, False
        try:
            for one in read(self.folder, after=before):
                apply(look.state, one.event, number=one.number, at=one.at)
                look.counts.take(one.event, one.at)
                look.began = look.began or one.at
                revised = revised or isinstance(one.event, e.PlanRevised)
        except IllegalStep as impossible:
            path = self.folder / "journal.db"
            raise JournalUnreadable(f"{path} has an impossible event: {impossible}") from impossible
        if revised:
            look.kept = run_folder.open_run(self._settings, self._name, with_course=False)
            look.course = look.kept.course
        look.course = look.course.grow_with(look.state)
        if look.kept.options.gate and (look.state.number != before or not look.course.serving):
            look.course = gate_course(look.kept.plan, look.state)
        self._look = look
        return look


class HomeView:
    """Every run and queue of a home. Thread-safe."""

    def __init__(self, settings: Settings, name: str = "") -> None:
        self.settings, self.name = settings, name or str(settings.home)
        self._lock = threading.Lock()
        self._views: OrderedDict[str, RunView] = OrderedDict()
        self._summaries: dict[str, tuple[tuple[Stamp, bool], float, RunSummary]] = {}

    def names(self) -> list[str]:
        """Return the names of all runs and queues, the latest first."""
        return list(run_folder.run_names(self.settings))

    def folder(self, name: str) -> Path:
        """Return a run's folder. Raises NoSuchRun; a name is never taken for a path."""
        folder = run_folder.runs_folder(self.settings) / name
        if not _NAME.fullmatch(name) or not (folder / "options.json").is_file():
            raise NoSuchRun(f"there is no run '{name[:80]}'; the list of runs has them all")
        return folder

    def view(self, name: str) -> RunView:
        """Return the view of a run; the one looked at longest ago is let go. Raises NoSuchRun."""
        self.folder(name)
        with self._lock:
            view = self._views.pop(name, None) or RunView(self.settings, name)
            self._views[name] = view
            while len(self._views) > _MOST_FOLDED:
                self._views.popitem(last=False)
        return view

    def summary(self, name: str) -> RunSummary:
        """Return a run's line, from memory where nothing has happened. Raises NoSuchRun."""
        folder = self.folder(name)
        key, now = (journal_stamp(folder), is_being_written(folder)), time.time()
        known = self._summaries.get(name)
        if known is not None and known[0] == key and (not key[1] or now - known[1] < _FRESH_S):
            return known[2]
        try:
            made = self.view(name).look(_summarise)
        except JournalUnreadable as unread:
            made = RunSummary(run=name, trouble=str(unread), live=key[1])
        self._summaries[name] = (key, now, made)
        return made

    def summaries(self) -> list[RunSummary]:
        """Return all lines, the latest run first, without rows of runs that a later run of the same plan replaced."""
        found = list(self._each())
        latest = {_plan_of(one): one.began for one in sorted(found, key=lambda one: one.began)}
        return [
            _without_rows(one) if not one.gate and _has_ended(one) and one.began < latest[_plan_of(one)] else one
            for one in found
        ]

    def _each(self) -> Iterator[RunSummary]:
        names = self.names()
        for gone in set(self._summaries).difference(names):
            self._summaries.pop(gone, None)
        for name in names:
            try:
                yield self.summary(name)
            except NoSuchRun:  # Removed since, or named by hand.
                continue

    def attention(self) -> list[AttentionRow]:
        """List what needs a person in this home, the most urgent first."""
        return rank([row for one in self.summaries() for row in one.rows])


def _plan_of(one: RunSummary) -> tuple[str, str, str]:
    return one.plan, one.target, one.hub


def _has_ended(one: RunSummary) -> bool:
    return one.outcome in ("landed", "done", "incomplete")


def _without_rows(one: RunSummary) -> RunSummary:
    return replace(one, rows=()) if one.rows else one


def _summarise(look: RunLook) -> RunSummary:
    state, gate = look.state, look.kept.options.gate
    used = bill(state.uses())
    return RunSummary(
        run=look.kept.options.run,
        gate=gate,
        plan=look.kept.plan.name,
        target=state.target or look.kept.options.target,
        hub=look.kept.options.hub,
        outcome=outcome_of(look.course, state, live=look.alive.live, gate=gate),
        live=look.alive.live,
        total=look.course.count_tasks(state),
        landed=state.count("landed"),
        done=state.count(*DONE),
        waiting=len(state.train.line.entries),
        began=look.began,
        at=state.at,
        number=state.number,
        used=used,
        waste=bill_waste(state.tasks.values()) if used.counts else RunBill(),
        budget=look.course.ledger(state),
        rows=tuple(attention(look.course, state, look.alive)),
        figures=_figures(look),
    )


def _figures(look: RunLook) -> RunFigures:
    state, uses = look.state, defaultdict[str, list[Use]](list)
    for use in state.uses():
        uses[", ".join(use.models) or _UNNAMED].append(use)
    owed = [(message, state.holder(message)) for message in state.outstanding().values()]
    counts = EventCounts()
    counts.merge(look.counts)
    return RunFigures(
        counts=counts,
        tasks={phase: count for phase in get_args(Phase) if (count := state.count(phase))},
        bills={models: used for models, of in uses.items() if (used := bill(of)).counts or models != _UNNAMED},
        untaken=Counter(message.kind for message, holder in owed if not holder),
        hosts=frozenset(state.hosts) | {holder.rpartition("/")[0] for _, holder in owed if holder},
        suspended=frozenset(name for name, health in state.hosts.items() if health.until),
    )
