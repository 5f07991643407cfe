"""
The hosts of a run: what they can do, how well their last answers were, and which of them an order goes to.

A host whose answers are infrastructure failures again and again is suspended. After a pause it gets one order to probe
it: a good answer readmits it, and a failure suspends it for longer. The last host is never suspended, because a failure
that all hosts share is no host's fault; `streaks` deals with that.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from forgepool.orchestrator.state.task import TaskState
from forgepool.workers.schema.capabilities import Need, label

_IN_A_ROW = 3
"""Infrastructure failures in a row that suspend a host; one with fewer has at most as many orders as are left."""
_REMEMBERED, _TOO_MANY = 10, 6
"""The last answers that are counted, and the failures among them that suspend a host."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 60.0, 240.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A present host that takes orders."""

    name: str
    slots: int
    can: frozenset[str] | None = None
    """Words of `capabilities`; None for a host that has proven nothing, and may be sent all."""
    ours: bool = True
    """It reads the messages of this version. One that does not takes them from a shared queue all the same."""


@dataclass(slots=True, kw_only=True)
class HostHealth:
    """The last answers of a host."""

    last: tuple[bool, ...] = ()
    """True for each that was an infrastructure failure, the latest last."""
    said: str = ""
    """The sentence of the last failure."""
    until: float = 0.0
    """The end of its suspension in Unix seconds; 0 for a host that is not suspended."""
    why: str = ""
    """The reason of its last suspension."""
    pauses: int = 0
    """Suspensions since it was last readmitted."""

    @property
    def in_a_row(self) -> int:
        """Return the number of failures since its last good answer."""
        return next((count for count, failed in enumerate(reversed(self.last)) if not failed), len(self.last))

    @property
    def is_well(self) -> bool:
        return not self.until and not self.in_a_row

    @property
    def is_ill(self) -> bool:
        return self.in_a_row >= (1 if self.until else _IN_A_ROW) or sum(self.last) >= _TOO_MANY

    @property
    def is_well_again(self) -> bool:
        return bool(self.until) and bool(self.last) and not self.last[-1]

    @property
    def words(self) -> str:
        """Return how its last answers were, as the end of a sentence."""
        return f"infrastructure failed {sum(self.last)} of its last {len(self.last)} answers, lastly: {self.said}"

    @property
    def next_pause_s(self) -> float:
        return min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0**self.pauses)

    def note(self, failed: bool, detail: str, at: float) -> None:
        """Take in an answer; those of a suspended host to what it was sent before say nothing new."""
        if at >= self.until:
            self.last = (*self.last, failed)[-_REMEMBERED:]
            self.said = detail if failed else self.said

    def suspend(self, until: float, why: str) -> None:
        self.until, self.why, self.last, self.pauses = until, why, (), self.pauses + 1

    def readmit(self) -> None:
        self.until, self.last, self.pauses = 0.0, (), 0

    def places(self, slots: int, now: float) -> int:
        """Return how many of its slots may be used now."""
        if self.until:
            return 1 if now >= self.until else 0
        return min(slots, max(1, _IN_A_ROW - self.in_a_row)) if self.in_a_row else slots


WELL = HostHealth()


@dataclass(slots=True, kw_only=True)
class Places:
    """The free slots of the hosts, while orders are decided on. Without hosts, any order may start anywhere."""

    hosts: Sequence[Host] | None
    health: Mapping[str, HostHealth]
    needs: Mapping[str, Sequence[Need]]
    """By task."""
    now: float
    free: dict[str, int] = field(default_factory=dict)
    offered: frozenset[str] = frozenset()
    """The words of all hosts together."""
    is_shared: bool = False
    """All hosts are equal."""
    _able: dict[tuple[Sequence[Need], tuple[str, ...]], list[Host]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        hosts: Sequence[Host] | None,
        health: Mapping[str, HostHealth],
        needs: Mapping[str, Sequence[Need]],
        *,
        kinds: Collection[Sequence[Need]] = (),
        running: Iterable[TaskState],
        now: float,
    ) -> "Places":
        offered = frozenset[str]().union(*(host.can or () for host in hosts or ()))
        places = cls(hosts=hosts, health=health, needs=needs, now=now, offered=offered)
        places.is_shared = places._are_equal(kinds)
        for host in hosts or ():
            places.free[host.name] = health.get(host.name, WELL).places(host.slots, now)
        places._lend_place()
        for task in running:
            at = task.holder.rpartition("/")[0] or task.sent_to
            if at in places.free:
                places.free[at] -= 1
        return places

    def _lend_place(self) -> None:
        """Give the host whose suspension ends first a place, where all hosts left are suspended: it beats none."""
        until = {host.name: self.health.get(host.name, WELL).until for host in self.hosts or () if host.ours}
        if until and min(until.values()) > self.now:
            self.free[min(until, key=lambda name: (until[name], name))] = 1

    def _are_equal(self, kinds: Iterable[Sequence[Need]]) -> bool:
        """Tell whether each host is well and can do every task of the plan, so that any may take any order."""
        return all(
            host.ours and self.health.get(host.name, WELL).is_well and all(self._fits(host, kind) for kind in kinds)
            for host in self.hosts or ()
        )

    def able(self, task: TaskState) -> list[Host]:
        """Return the present hosts that can do the task, and have not shown that they cannot."""
        needs, unfit = self.needs[task.id], tuple(task.unfit)
        # Many tasks need the same.
        if (needs, unfit) not in self._able:
            able = (host for host in self.hosts or () if host.ours and host.name not in unfit)
            self._able[needs, unfit] = [host for host in able if self._fits(host, needs)]
        return self._able[needs, unfit]

    def _fits(self, host: Host, needs: Sequence[Need]) -> bool:
        return host.can is None or all(need.is_met(host.can, offered=self.offered) for need in needs)

    def take(self, task: TaskState, *, but: str = "") -> str | None:
        """
        Take a free slot for the task and return its host, which is not `but`; None where no able host has one. Where
        all hosts are equal, the order is for any of them: the host is empty.

        Hosts that can do less go first, so that those that can do more are left to the tasks that need them. The host
        where infrastructure failed the task last goes last.
        """
        if self.hosts is None or (self.is_shared and not task.unfit and not but and not self._is_labelled(task)):
            return ""
        last = task.result.host if task.result is not None and task.result.outcome == "infrastructure" else ""
        able = [host for host in self.able(task) if self.free[host.name] > 0 and host.name != but]
        if not able:
            return None
        best = min(able, key=lambda host: (host.name == last, len(host.can or ()), -self.free[host.name], host.name))
        self.free[best.name] -= 1
        return best.name

    def _is_labelled(self, task: TaskState) -> bool:
        """Does the task name labels? Only a host's own queue keeps its order from a host that comes meanwhile."""
        return any(word.startswith(label("")) for need in self.needs[task.id] for word in need.any_of)

    def lacking(self, task: TaskState) -> tuple[str, ...]:
        """Return what no present host has for the task, in words; empty where some host can do it, or there is none."""
        if not self.hosts or self.able(task):
            return ()
        needs = self.needs[task.id]
        known = [host.can for host in self.hosts if host.name not in task.unfit and host.can is not None]
        missing = [[one.words for one in needs if not one.is_met(can, offered=self.offered)] for can in known]
        return tuple(sorted(missing, key=len)[0] if missing else task.unfit.values())
