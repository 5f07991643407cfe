"""
Finds the bottlenecks of a simulated run: the waits and the work that made it as long as it was.

A `BoundsWatch` sees the run after each decision. It records each task's activity or wait, without gaps, from the run's
beginning to the task's end. The critical path is then followed back from the task that ended last: while a task
waited for its needs, the need that landed last takes its place. So each second of the run counts once.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.plan.readiness import PATIENCE, why_waiting
from forgepool.orchestrator.simulate.run import Played, SimulatedSpan
from forgepool.orchestrator.simulate.world import PlanTerms
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import IN_TRAIN, TERMINAL, TaskState

At = Literal[
    "working",
    "testing",
    "reviewing",
    "landing",
    "wave",
    "needs",
    "lock",
    "worker",
    "gate",
    "reviewer",
    "budget",
]
"""The activity of a task, or what it waits for. `gate` is a wait for a free trial, or for the entries ahead of it."""
BUSY: tuple[At, ...] = ("working", "testing", "reviewing", "landing", "wave")
By = Literal["path", "lock", "workers", "checks", "reviews", "budget"]
_BY: Mapping[At, By] = {
    **dict.fromkeys(BUSY, "path"),
    "lock": "lock",
    "worker": "workers",
    "gate": "checks",
    "reviewer": "reviews",
    "budget": "budget",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStretch:
    """A stretch of time in which one task had one activity, or one wait."""

    task: str
    at: At
    begins_s: float
    ends_s: float
    of: str = ""
    """The task that holds the lock, with `lock`."""

    @property
    def seconds(self) -> float:
        return self.ends_s - self.begins_s


@dataclass(slots=True, kw_only=True)
class BoundsWatch:
    """Records the stretches of all tasks; pass it to `play` as its `watch`."""

    index: PlanIndex
    terms: PlanTerms
    stretches: dict[str, list[TaskStretch]] = field(default_factory=lambda: defaultdict(list))
    since: dict[str, tuple[float, At, str]] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    order: list[str] = field(default_factory=list)
    """The tasks in the order of their ends, without those that never began."""
    crowded_s: float = 0.0
    """The time in which all trials ran while an entry waited for one."""
    looked_at_s: float = 0.0
    crowded: bool = False

    def __call__(self, state: RunState, now: float) -> None:
        if self.crowded:
            self.crowded_s += now - self.looked_at_s
        self.looked_at_s = now
        activities = _Activities(self.index, self.terms, state)
        self.crowded = activities.crowded
        for task in state.tasks.values():
            if task.id not in self.ended:
                self._note(task, activities, now)

    def _note(self, task: TaskState, activities: "_Activities", now: float) -> None:
        over = task.phase in TERMINAL
        at, of = activities.at(task)
        before = self.since.get(task.id)
        if before is not None and (over or before[1:] != (at, of)):
            began, was, whose = before
            if now > began:
                self.stretches[task.id].append(TaskStretch(task=task.id, at=was, begins_s=began, ends_s=now, of=whose))
        if over:
            self.ended.add(task.id)
            if task.phase != "blocked":
                self.order.append(task.id)
        elif before is None or before[1:] != (at, of):
            self.since[task.id] = (now, at, of)

    def way_back(self, makespan_s: float) -> list[TaskStretch]:
        """Return the stretches of the critical path, from the run's beginning to its end."""
        if not self.order:
            return []
        task = self.order[-1]
        path = self._wave(task, makespan_s)
        while True:
            own = self.stretches.get(task, [])
            waited = next((at for at in range(len(own) - 1, -1, -1) if own[at].at == "needs"), -1)
            path += reversed(own[waited + 1 :])
            need = None if waited < 0 else self._last_need(task, own[waited].ends_s)
            if need is None:
                return path[::-1]
            task = need

    def _wave(self, last: str, makespan_s: float) -> list[TaskStretch]:
        """Return the stretch of the last post-merge check, after all tasks."""
        ended = max((stretch.ends_s for stretch in self.stretches.get(last, [])), default=0.0)
        tail = TaskStretch(task="", at="wave", begins_s=ended, ends_s=makespan_s)
        return [tail] if tail.seconds > 0 else []

    def _last_need(self, task: str, at: float) -> str | None:
        needs = [need.id for need in self.index.tasks[task].needs]
        return next((need for need in needs if self.stretches[need] and self.stretches[need][-1].ends_s == at), None)


class _Activities:
    """Tells the activity of each task in one state."""

    def __init__(self, index: PlanIndex, terms: PlanTerms, state: RunState) -> None:
        self._course, self._terms, self._state = index, terms, state
        self._landed = index.find_done(state)
        self._in_flight = index.in_flight(state)
        self._full = len(state.in_phase("running")) >= terms.workers
        self._refused: dict[str, str] = {}
        for holder, lock in reversed(self._in_flight.items()):
            self._refused.update(dict.fromkeys(index.graph.find_locked_out(holder, lock), holder))
        trials = state.train.line.trials.values()
        running = [trial for trial in trials if trial.state == "running"]
        tried = {task for trial in trials if trial.state in ("running", "green") for task in trial.car}
        queued = (task.id for task in state.in_phase("queued"))
        self.crowded = len(running) >= terms.trials and any(task not in tried for task in queued)

    def at(self, task: TaskState) -> tuple[At, str]:
        match task.phase:
            case "pending":
                return self._waits(task)
            case "running":
                return "working", ""
            case "testing":
                return "testing", ""
            case "landing":
                return "landing", ""
            case "reviewing":
                return ("reviewing" if task.review.message is not None else "reviewer"), ""
            case phase if phase in IN_TRAIN:
                return "gate", ""
            case phase if phase in TERMINAL:
                return "needs", ""
            case _:
                return "lock", ""

    def _waits(self, task: TaskState) -> tuple[At, str]:
        if not self._course.graph.needs_landed(task.id, self._landed):
            return "needs", ""
        if (holder := self._refused.get(task.id)) is not None:
            return "lock", holder
        if self._full:
            return "worker", ""
        tasks = self._state.tasks.values()
        waiting = why_waiting(
            self._course.graph,
            task.id,
            landed=self._landed,
            in_flight=self._in_flight,
            overtaken={each.id: each.overtaken for each in tasks if each.overtaken >= PATIENCE},
            slots=1,
        )
        return ("lock", waiting.reserved[0]) if waiting.reserved else ("budget", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class LockWait:
    """The whole time in which one task waited for a lock of another."""

    task: str
    holder: str
    seconds: float
    globs: tuple[str, str] | None
    """The glob of the holder and that of the waiting task; None where no declared globs meet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanBounds:
    """The bottlenecks of one simulated run."""

    makespan_s: float
    by: By
    """The kind with the most seconds."""
    seconds: Mapping[By, float]
    """The seconds of the critical path by kind; their sum is the makespan."""
    path: tuple[tuple[str, float], ...]
    """The tasks on the critical path, with the seconds of their work, checks, reviews and landings."""
    path_at: Mapping[At, float]
    """The same seconds by activity."""
    chain: tuple[tuple[str, float], ...]
    """The chain of needs with the most such seconds, even if the end did not wait for it."""
    again_s: float
    """The seconds of the path in attempts that were not the task's last."""
    lock_waits: tuple[LockWait, ...]
    """The waits for locks in the whole run, the longest first."""
    all_busy: float
    """The share of the time, 0 to 1, in which every worker was busy."""
    crowded: float
    """The share of the time, 0 to 1, in which all trials ran while an entry waited for one."""

    @property
    def path_s(self) -> float:
        return self.seconds.get("path", 0.0)

    @property
    def chain_s(self) -> float:
        return sum(seconds for _, seconds in self.chain)


def bounds(index: PlanIndex, look: BoundsWatch, played: Played) -> PlanBounds:
    way = look.way_back(played.makespan_s)
    seconds: Counter[By] = Counter()
    path_at: Counter[At] = Counter()
    tasks: dict[str, float] = {}
    for stretch in way:
        seconds[_BY[stretch.at]] += stretch.seconds  # type: ignore[assignment]  # a Counter may count fractions
        if stretch.at in BUSY:
            path_at[stretch.at] += stretch.seconds  # type: ignore[assignment]
            if stretch.task:
                tasks[stretch.task] = tasks.get(stretch.task, 0.0) + stretch.seconds
    span = played.makespan_s or 1.0
    return PlanBounds(
        makespan_s=played.makespan_s,
        by=max(seconds, key=lambda by: seconds[by], default="path"),
        seconds=seconds,
        path=tuple(tasks.items()),
        path_at=path_at,
        chain=_longest_chain(index, look),
        again_s=_again_s(way, played.spans),
        lock_waits=_lock_waits(index, look),
        all_busy=_all_at_work_s(played.spans, look.terms.workers) / span,
        crowded=look.crowded_s / span,
    )


def _longest_chain(index: PlanIndex, look: BoundsWatch) -> tuple[tuple[str, float], ...]:
    own = {task: sum(each.seconds for each in look.stretches.get(task, ()) if each.at in BUSY) for task in index.tasks}
    left: dict[str, float] = {}
    first = [task for task, of in index.graph.tasks.items() if not of.needs]
    for task in reversed([*first, *index.graph.after_all(first)]):
        left[task] = own[task] + max((left[then] for then in index.graph.after[task]), default=0.0)
    chain: list[tuple[str, float]] = []
    choice = tuple(left)
    while choice:
        task = max(choice, key=left.__getitem__)
        chain.append((task, own[task]))
        choice = index.graph.after[task]
    return tuple(chain)


def _again_s(way: Iterable[TaskStretch], spans: Iterable[SimulatedSpan]) -> float:
    last = {span.tasks[0]: span.begins_s for span in spans if span.place == "worker"}
    return sum(each.seconds for each in way if each.at in BUSY and each.task and each.ends_s <= last[each.task])


def _lock_waits(index: PlanIndex, look: BoundsWatch) -> tuple[LockWait, ...]:
    waited: Counter[tuple[str, str]] = Counter()
    for each in (each for own in look.stretches.values() for each in own if each.at == "lock"):
        waited[each.task, each.of] += each.seconds  # type: ignore[assignment]  # a Counter may count fractions
    waits = (
        LockWait(task=task, holder=holder, seconds=seconds, globs=_globs(index, task, holder))
        for (task, holder), seconds in waited.items()
    )
    return tuple(sorted(waits, key=lambda wait: -wait.seconds))


def _globs(index: PlanIndex, task: str, holder: str) -> tuple[str, str] | None:
    return index.graph.witness(task, holder, index.declared[holder]) if holder else None


def _all_at_work_s(spans: Sequence[SimulatedSpan], workers: int) -> float:
    changes = sorted(
        change for span in spans if span.place == "worker" for change in ((span.begins_s, 1), (span.ends_s, -1))
    )
    busy_s, at_work, since = 0.0, 0, 0.0
    for at, more in changes:
        busy_s += (at - since) if at_work >= workers else 0.0
        at_work, since = at_work + more, at
    return busy_s
