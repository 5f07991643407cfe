"""
What a simulated run waited for, and so what bounds it.

A `BoundsWatch` sees the run whenever all is decided, and keeps for each task what it was at or waited for, gaplessly
from the run's beginning to the task's end. From the task that ended last it is then followed back: as long as a task
waited for what it needs, the need that landed last stands in its place. Each second of the run is so counted once.
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
"""What a task is at, or waits for; `gate` is a free trial there, or that those ahead of it are through."""
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
    """Some time of one task, in which it was at one thing, or waited for one."""

    task: str
    at: At
    begins_s: float
    ends_s: float
    of: str = ""
    """Of a lock, the task that holds it."""

    @property
    def seconds(self) -> float:
        return self.ends_s - self.begins_s


@dataclass(slots=True, kw_only=True)
class BoundsWatch:
    """Give it to `play` as its `watch`."""

    course: PlanIndex
    terms: PlanTerms
    stretches: dict[str, list[TaskStretch]] = field(default_factory=lambda: defaultdict(list))
    since: dict[str, tuple[float, At, str]] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    order: list[str] = field(default_factory=list)
    """In which tasks ended, without those that never began."""
    crowded_s: float = 0.0
    """How long all trials ran while an entry waited for one."""
    looked_at_s: float = 0.0
    crowded: bool = False

    def __call__(self, state: RunState, now: float) -> None:
        if self.crowded:
            self.crowded_s += now - self.looked_at_s
        self.looked_at_s = now
        found = _Found(self.course, self.terms, state)
        self.crowded = found.crowded
        for task in state.tasks.values():
            if task.id not in self.ended:
                self._note(task, found, now)

    def _note(self, task: TaskState, found: "_Found", now: float) -> None:
        over = task.phase in TERMINAL
        at, of = found.at(task)
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
        """The stretches that fill the run from 0 to its end, the first first."""
        if not self.order:
            return []
        task = self.order[-1]
        found = self._wave(task, makespan_s)
        while True:
            own = self.stretches.get(task, [])
            waited = next((at for at in range(len(own) - 1, -1, -1) if own[at].at == "needs"), -1)
            found += reversed(own[waited + 1 :])
            if waited < 0:
                return found[::-1]
            if (need := self._last_need(task, own[waited].ends_s)) is None:
                return found[::-1]
            task = need

    def _wave(self, last: str, makespan_s: float) -> list[TaskStretch]:
        """All checks on the target itself, once nothing else is left to do."""
        ended = max((one.ends_s for one in self.stretches.get(last, [])), default=0.0)
        tail = TaskStretch(task="", at="wave", begins_s=ended, ends_s=makespan_s)
        return [tail] if tail.seconds > 0 else []

    def _last_need(self, task: str, at: float) -> str | None:
        needs = [need.id for need in self.course.tasks[task].needs]
        return next((one for one in needs if self.stretches[one] and self.stretches[one][-1].ends_s == at), None)


class _Found:
    """A state, with what is asked of it for each task."""

    def __init__(self, course: PlanIndex, terms: PlanTerms, state: RunState) -> None:
        self._course, self._terms, self._state = course, terms, state
        self._landed = {task.id for task in state.in_phase("landed")}
        self._in_flight = course.in_flight(state)
        self._full = len(state.in_phase("running")) >= terms.workers
        self._refused: dict[str, str] = {}
        for holder, lock in reversed(self._in_flight.items()):
            self._refused.update(dict.fromkeys(course.graph.find_locked_out(holder, lock), holder))
        trials = state.train.line.trials.values()
        running = [one for one in trials if one.state == "running"]
        tried = {task for one in trials if one.state in ("running", "green") for task in one.car}
        queued = (task.id for task in state.in_phase("queued"))
        self.crowded = len(running) >= terms.trials and any(one not in tried for one in queued)

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
            case one if one in IN_TRAIN:
                return "gate", ""
            case one if one in TERMINAL:
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
            overtaken={one.id: one.overtaken for one in tasks if one.overtaken >= PATIENCE},
            slots=1,
        )
        return ("lock", waiting.reserved[0]) if waiting.reserved else ("budget", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class LockWait:
    """One task that waited, in all, for what another one held."""

    task: str
    holder: str
    seconds: float
    globs: tuple[str, str] | None
    """That of the holder, and that of who waited; None where they meet in no declared glob."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanBounds:
    """Of one simulated run."""

    makespan_s: float
    by: By
    """What most of the way to the end went into."""
    seconds: Mapping[By, float]
    """Of the way to the end; together they are the makespan."""
    path: tuple[tuple[str, float], ...]
    """The tasks on that way, with the seconds in which they were worked on, tested, reviewed and landed."""
    path_at: Mapping[At, float]
    """The same seconds, by what was done."""
    chain: tuple[tuple[str, float], ...]
    """Of tasks that need one another those with the most of such seconds, whether the end waited for them or not."""
    again_s: float
    """Of the path, what went into attempts that were not the task's last."""
    lock_waits: tuple[LockWait, ...]
    """Of the whole run, the longest first."""
    all_busy: float
    """0 to 1: the share of the time in which every worker was at work."""
    crowded: float
    """0 to 1: in which all trials ran while an entry waited for one."""

    @property
    def path_s(self) -> float:
        return self.seconds.get("path", 0.0)

    @property
    def chain_s(self) -> float:
        return sum(seconds for _, seconds in self.chain)


def bounds(course: PlanIndex, look: BoundsWatch, played: Played) -> PlanBounds:
    way = look.way_back(played.makespan_s)
    seconds: Counter[By] = Counter()
    path_at: Counter[At] = Counter()
    tasks: dict[str, float] = {}
    for one in way:
        seconds[_BY[one.at]] += one.seconds  # type: ignore[assignment]  # a Counter may count fractions
        if one.at in BUSY:
            path_at[one.at] += one.seconds  # type: ignore[assignment]
            if one.task:
                tasks[one.task] = tasks.get(one.task, 0.0) + one.seconds
    span = played.makespan_s or 1.0
    return PlanBounds(
        makespan_s=played.makespan_s,
        by=max(seconds, key=lambda by: seconds[by], default="path"),
        seconds=seconds,
        path=tuple(tasks.items()),
        path_at=path_at,
        chain=_longest_chain(course, look),
        again_s=_again_s(way, played.spans),
        lock_waits=_lock_waits(course, look),
        all_busy=_all_at_work_s(played.spans, look.terms.workers) / span,
        crowded=look.crowded_s / span,
    )


def _longest_chain(course: PlanIndex, look: BoundsWatch) -> tuple[tuple[str, float], ...]:
    own = {task: sum(one.seconds for one in look.stretches.get(task, ()) if one.at in BUSY) for task in course.tasks}
    left: dict[str, float] = {}
    first = [task for task, of in course.graph.tasks.items() if not of.needs]
    for task in reversed([*first, *course.graph.after_all(first)]):
        left[task] = own[task] + max((left[then] for then in course.graph.after[task]), default=0.0)
    found: list[tuple[str, float]] = []
    choice = tuple(left)
    while choice:
        task = max(choice, key=left.__getitem__)
        found.append((task, own[task]))
        choice = course.graph.after[task]
    return tuple(found)


def _again_s(way: Iterable[TaskStretch], spans: Iterable[SimulatedSpan]) -> float:
    last = {one.tasks[0]: one.begins_s for one in spans if one.place == "worker"}
    return sum(one.seconds for one in way if one.at in BUSY and one.task and one.ends_s <= last[one.task])


def _lock_waits(course: PlanIndex, look: BoundsWatch) -> tuple[LockWait, ...]:
    waited: Counter[tuple[str, str]] = Counter()
    for one in (one for own in look.stretches.values() for one in own if one.at == "lock"):
        waited[one.task, one.of] += one.seconds  # type: ignore[assignment]  # a Counter may count fractions
    found = (
        LockWait(task=task, holder=holder, seconds=seconds, globs=_globs(course, task, holder))
        for (task, holder), seconds in waited.items()
    )
    return tuple(sorted(found, key=lambda one: -one.seconds))


def _globs(course: PlanIndex, task: str, holder: str) -> tuple[str, str] | None:
    return course.graph.witness(task, holder, course.declared[holder]) if holder else None


def _all_at_work_s(spans: Sequence[SimulatedSpan], workers: int) -> float:
    changes = sorted(
        change for one in spans if one.place == "worker" for change in ((one.begins_s, 1), (one.ends_s, -1))
    )
    found, at_work, since = 0.0, 0, 0.0
    for at, more in changes:
        found += (at - since) if at_work >= workers else 0.0
        at_work, since = at_work + more, at
    return found
