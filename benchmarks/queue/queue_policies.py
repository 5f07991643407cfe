"""
The queue policies that the simulator plays: the merge train, its peers as their makers describe them, and an oracle.

Each gets the same yard. A peer's features that have no bearing on what lands when are left out.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field

from simulated_yard import Changes, QueuePolicy, Run, Yard

from forgepool.supervisor.train.model import (
    Action,
    Cancel,
    Couple,
    Dissolve,
    Ids,
    Land,
    Return,
    Snapshot,
    StartTrial,
    TrainEntry,
    Trial,
)
from forgepool.supervisor.train.model import TrainPolicy as TrainPolicy
from forgepool.supervisor.train.plan import plan
from forgepool.supervisor.train.queue import TrainQueue
from forgepool.supervisor.train.surprise import is_unexpected, surprise_rate


@dataclass(slots=True, kw_only=True)
class SimulatedTrain:
    yard: Yard
    policy: TrainPolicy = field(default_factory=TrainPolicy)
    line: TrainQueue = field(default_factory=TrainQueue)
    running: dict[str, Run] = field(default_factory=dict)
    surprises: list[bool] = field(default_factory=list)

    def decide(self, arrived: Changes, ended: list[Run]) -> None:
        for number in arrived:
            change = self.yard.world.changes[number]
            scopes = frozenset(map(str, change.modules)) if self.yard.world.terms.scopes else None
            self.line.enter(TrainEntry(id=str(number), accepted=number, risk=change.risk, scopes=scopes))
        for trial, run in self.running.items():
            if run.failing:
                self.line.doubt(trial)
        for run in ended:
            trial = next(key for key, one in self.running.items() if one is run)
            del self.running[trial]
            self.line.answer(trial, "green" if run.green else "red")
        while actions := plan(self._seen()):
            for action in actions:
                self._do(action)

    def _seen(self) -> Snapshot:
        return self.line.snapshot(
            slots=self.yard.world.terms.workers, policy=self.policy, surprise=surprise_rate(self.surprises)
        )

    def _do(self, action: Action) -> None:
        match action:
            case Couple(entries=ids, at=at):
                self.line.couple(ids, at)
            case StartTrial():
                self._start(action)
            case Cancel(trial=trial):
                self.line.forget(trial)
            case Land(trial=trial):
                self._land(self.line.trials[trial].spec)
            case Return(entry=entry):
                self._decided((entry,), returned=True)
                self.yard.give_back(int(entry))
                self.line.leave([entry])
            case Dissolve(car=car, parts=parts, suspects=suspects):
                self.line.dissolve(car, parts, suspects)
        for trial in [key for key in self.running if key not in self.line.trials]:
            self.yard.cancel(self.running.pop(trial))

    def _start(self, start: StartTrial) -> None:
        run = self.yard.start(_numbers((*start.ahead, *start.car)), _numbers(start.car), again=start.decisive)
        trial = Trial(id=str(len(self.yard.runs)), ahead=start.ahead, car=start.car, decisive=start.decisive)
        self.running[trial.id] = run
        self.line.start(trial)

    def _land(self, ids: Ids) -> None:
        self._decided(ids, returned=False)
        self.yard.land(_numbers(ids))
        self.line.land(ids)

    def _decided(self, ids: Ids, *, returned: bool) -> None:
        self.surprises.extend(is_unexpected(self.line.entries[one], returned=returned) for one in ids)


def _numbers(ids: Ids) -> Changes:
    return tuple(int(one) for one in ids)


@dataclass(slots=True, kw_only=True)
class Batches:
    """
    Runs one batch at a time, of the waiting changes up to `most`.

    A red batch is halved, and the first half runs first. With a `most` of 1 this is the serial queue.
    """

    yard: Yard
    most: int = 8
    waiting: list[int] = field(default_factory=list)
    parts: list[Changes] = field(default_factory=list)
    run: Run | None = None

    def decide(self, arrived: Changes, ended: list[Run]) -> None:
        self.waiting.extend(arrived)
        for run in ended:
            self.run = None
            self._settle(run)
        if self.run is None and (self.parts or self.waiting):
            batch = self.parts.pop(0) if self.parts else tuple(self.waiting[: self.most])
            self.waiting = [one for one in self.waiting if one not in batch]
            self.run = self.yard.start(batch, batch)

    def _settle(self, run: Run) -> None:
        half = len(run.spec) // 2
        if run.green:
            self.yard.land(run.spec)
        elif not half:
            self.yard.give_back(run.spec[0])
        else:
            self.parts[:0] = [run.spec[:half], run.spec[half:]]


@dataclass(slots=True, kw_only=True)
class _Item:
    change: int
    ahead: Changes = ()
    """Changes that its run assumes to be ahead; those that have landed are taken out."""
    run: Run | None = None


@dataclass(slots=True, kw_only=True)
class OptimisticChain:
    """
    Tries each change at once on top of all before it that are not red; returns a red one when it is the first.

    This is Zuul's dependent pipeline: all changes behind a red one restart at once without it. Where the window of
    changes that may be tried `adapts`, it grows by one with each landing. Each return halves it, down to 3. Otherwise
    the window stays as it is.

    GitHub's merge groups are the `lazy` ones. Changes behind a red one keep their runs until it is the first and is
    returned. A green group lands all before it, red ones too.
    """

    yard: Yard
    window: int = 20
    adapts: bool = True
    lazy: bool = False
    line: list[_Item] = field(default_factory=list)

    def decide(self, arrived: Changes, ended: list[Run]) -> None:
        self.line.extend(_Item(change=one) for one in arrived)
        while self._settle():
            pass
        self._send()

    def _settle(self) -> bool:
        if self.lazy and self._land_group():
            return True
        first = self.line[0] if self.line else None
        if first is None or first.run is None or first.ahead or first.run.state not in ("green", "red"):
            return False
        self.line.remove(first)
        landed = first.run.state == "green"
        if landed:
            self.yard.land((first.change,))
            for item in self.line:
                item.ahead = tuple(one for one in item.ahead if one != first.change)
        else:
            self.yard.give_back(first.change)
        if self.adapts:
            self.window = self.window + 1 if landed else max(3, self.window // 2)
        return True

    def _land_group(self) -> bool:
        green = [at for at, item in enumerate(self.line) if item.run is not None and item.run.state == "green"]
        group = tuple(item.change for item in self.line[: max(green, default=-1) + 1])
        if not group or (*self.line[len(group) - 1].ahead, group[-1]) != group:
            return False
        self.yard.land(group)
        for item in self.line[: len(group)]:
            if item.run is not None:
                self.yard.cancel(item.run)
        self.line = self.line[len(group) :]
        for item in self.line:
            item.ahead = item.ahead[len(group) :] if item.ahead[: len(group)] == group else item.ahead
        return True

    def _send(self) -> None:
        ahead = Changes()
        for item in self.line[: self.window]:
            if item.run is not None and item.ahead != ahead:
                self.yard.cancel(item.run)
                item.run = None
            if item.run is None and self.yard.free > 0:
                item.ahead = ahead
                item.run = self.yard.start((*ahead, item.change), (item.change,))
            if self.lazy or item.run is None or item.run.state != "red":
                ahead = (*ahead, item.change)


@dataclass(slots=True, kw_only=True)
class Oracle:
    """
    Knows what is good: each change runs once, in strict order, and no run is in vain. Its runs never flake.

    Where checks have scopes, the order is strict within each module only.
    """

    yard: Yard
    free: list[float] = field(default_factory=list)
    last: dict[int, float] = field(default_factory=dict)
    """Time of the last landing in each module, in minutes."""

    def decide(self, arrived: Changes, ended: list[Run]) -> None:
        """Decide all arrivals at once, with the yard's clock set to the time at which each decision falls."""
        yard = self.yard
        free = self.free or [0.0] * yard.world.terms.workers
        for one in arrived:
            yard.now = max(yard.world.changes[one].arrived, heapq.heappop(free))
            run = yard.start((one,), (one,), again=False, flake=0.0)
            heapq.heappush(free, run.ends)
            modules = yard.world.changes[one].modules if yard.world.terms.scopes else (0,)
            yard.now = max(run.ends, *(self.last.get(module, 0.0) for module in modules))
            if run.green:
                self.last |= dict.fromkeys(modules, yard.now)
                yard.land((one,))
            else:
                yard.give_back(one)
        self.free = free


_ALL = 10**9

POLICIES: dict[str, Callable[[Yard], QueuePolicy]] = {
    "forgepool": lambda yard: SimulatedTrain(yard=yard),
    "serial": lambda yard: Batches(yard=yard, most=1),
    "bors": lambda yard: Batches(yard=yard, most=8),
    "zuul": lambda yard: OptimisticChain(yard=yard),
    "zuulfix": lambda yard: OptimisticChain(yard=yard, window=yard.world.terms.workers, adapts=False),
    "gh": lambda yard: OptimisticChain(yard=yard, window=_ALL, adapts=False, lazy=True),
    "oracle": lambda yard: Oracle(yard=yard),
}
