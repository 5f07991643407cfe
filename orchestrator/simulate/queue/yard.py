"""
Where checks run on a virtual clock and the target moves; it writes down what was tested and what landed.

It decides nothing, and refuses nothing either: a policy that lands what was not tested is found out afterwards.
"""

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Protocol

from forgepool.orchestrator.simulate.queue.world import World

Numbers = tuple[int, ...]
"""Changes, in order."""
Inputs = tuple[int, frozenset[int]]
"""Of a change, all that is in the modules it touches: what its checks look at."""
_COMPOSED_MIN = 2 / 60
"""How long it takes to find that nothing has to be run."""


@dataclass(slots=True, kw_only=True, eq=False)
class Run:
    """One sending of changes to the checks; each time that they ran counts."""

    base: int
    """How long the target was: what is tested is that much of it, and the spec."""
    spec: Numbers
    began: float
    ends: float
    times: int
    green: bool
    inputs: tuple[Inputs, ...] = ()
    """Where checks have scopes, what they look at here."""
    failing: bool = False
    """Its first run was red, which is known, and it is run again."""
    state: str = "running"


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """The target came to be this long."""

    length: int
    at: float


class QueuePolicy(Protocol):
    def decide(self, arrived: Numbers, ended: list[Run]) -> None:
        """What has just happened; the yard is asked for what is to be done."""


@dataclass(slots=True, kw_only=True)
class Yard:
    world: World
    now: float = 0.0
    target: list[int] = field(default_factory=list)
    landed: dict[int, float] = field(default_factory=dict)
    returned: dict[int, float] = field(default_factory=dict)
    moves: list[Move] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    _due: list[tuple[float, int, Run]] = field(default_factory=list)
    _count: int = 0
    _certified: set[Inputs] = field(default_factory=set)
    _chance: random.Random = field(init=False)
    _clashes: Callable[[int, int], bool] = field(init=False)

    def __post_init__(self) -> None:
        self._chance = random.Random(f"yard {self.world.seed}")
        self._clashes = cache(self.world.clashes)

    def play(self, policy: QueuePolicy) -> None:
        """Until all have arrived and nothing runs any more."""
        coming = list(reversed(self.world.changes))
        while coming or self._due:
            ends = self._due[0][0] if self._due else float("inf")
            if coming and coming[-1].arrived <= ends:
                self.now = coming[-1].arrived
                arrived = []
                while coming and coming[-1].arrived <= self.now:
                    arrived.append(coming.pop().number)
                policy.decide(tuple(arrived), [])
                continue
            self.now, _, run = heapq.heappop(self._due)
            if run.state == "running" and self.now < run.ends:
                run.failing = True
                self._await(run, run.ends)
                policy.decide((), [])
            elif run.state == "running":
                run.state = "green" if run.green else "red"
                self._certified.update(run.inputs if run.green else ())
                policy.decide((), [run])

    @property
    def free(self) -> int:
        return self.world.terms.workers - sum(run.state == "running" for _, _, run in self._due)

    def start(self, spec: Numbers, car: Numbers, *, again: bool = True, flake: float | None = None) -> Run:
        """
        The checks of a spec, of which the car is the last part; they take as long as those of its slowest change.

        A red is run again as often as the world's terms have it, if it is run `again` at all. Where checks have scopes,
        and what they look at has been green, nothing is run.
        """
        terms, good, times, spent, first, green = self.world.terms, self.is_good(spec), 0, 0.0, 0.0, False
        inputs = tuple(self._inputs(one, spec) for one in spec) if terms.scopes else ()
        untold = [one for one, seen in zip(spec, inputs, strict=True) if seen not in self._certified] if inputs else car
        if not untold:
            spent, green = _COMPOSED_MIN, good
        takes = max((self.world.changes[one].takes for one in set(untold) & set(car) or untold), default=0.0)
        flake = terms.flake if flake is None else flake
        while untold and not green and times <= (terms.retries if again else 0):
            green = good and self._chance.random() >= flake
            spent += takes if green else takes * self._chance.uniform(0.3, 1)
            first = first or spent
            times += 1
        run = Run(base=len(self.target), spec=spec, began=self.now, ends=self.now + spent, times=times, green=green)
        run.inputs = inputs
        self.runs.append(run)
        self._await(run, self.now + first if times > 1 else run.ends)
        return run

    def _inputs(self, one: int, spec: Numbers) -> Inputs:
        modules, changes = self.world.changes[one].modules, self.world.changes
        return one, frozenset(
            other for other in (*self.target, *spec) if not modules.isdisjoint(changes[other].modules)
        )

    def _await(self, run: Run, until: float) -> None:
        self._count += 1
        heapq.heappush(self._due, (until, self._count, run))

    def cancel(self, run: Run) -> None:
        if run.state == "running":
            run.state, run.ends = "cancelled", self.now

    def land(self, spec: Numbers) -> None:
        self.target.extend(spec)
        self.landed.update(dict.fromkeys(spec, self.now))
        self.moves.append(Move(length=len(self.target), at=self.now))

    def give_back(self, change: int) -> None:
        self.returned[change] = self.now

    def is_good(self, spec: Numbers) -> bool:
        """On top of the target as it is now; told to nobody but by a run of the checks."""
        return all(self._goes_on(one, spec[:at]) for at, one in enumerate(spec))

    def _goes_on(self, one: int, ahead: Numbers) -> bool:
        change = self.world.changes[one]
        if change.bad or any(self._clashes(one, other) for other in ahead):
            return False
        for other in reversed(self.target):
            if self.landed[other] <= change.base:
                if not self.world.terms.scopes:
                    return True
                continue
            if self._clashes(one, other):
                return False
        return True
