"""
Runs checks and moves a target on a virtual clock, and computes the figures of a policy that was played on them.

The yard decides nothing and refuses nothing. The figures come from what the yard recorded, not from what the policy
says of itself. So they show afterwards when a policy landed untested changes.
"""

import heapq
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from statistics import fmean
from typing import Protocol

from simulated_world import QueueTerms, World

Changes = tuple[int, ...]
"""Numbers of changes, in order."""
Inputs = tuple[int, frozenset[int]]
"""A change, and all changes in the modules it touches, which its checks look at."""
_COMPOSED_MIN = 2 / 60
"""Minutes it takes to find that nothing has to be run."""


@dataclass(slots=True, kw_only=True, eq=False)
class Run:
    """One request to check changes; `times` counts each time that the checks ran."""

    base: int
    """Length of the target at the start; the run tests that much of it, and then the spec."""
    spec: Changes
    began: float
    ends: float
    times: int
    green: bool
    inputs: tuple[Inputs, ...] = ()
    """Everything that the checks look at here; empty where checks have no scopes."""
    failing: bool = False
    """True once the first attempt is known to be red, while the checks run again."""
    state: str = "running"


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A change of the target's length, at a time in minutes."""

    length: int
    at: float


class QueuePolicy(Protocol):
    def decide(self, arrived: Changes, ended: list[Run]) -> None:
        """Take the changes that arrived and the runs that ended, and tell the yard what to do."""


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
        """Play the policy until all changes have arrived and nothing runs any more."""
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

    def start(self, spec: Changes, car: Changes, *, again: bool = True, flake: float | None = None) -> Run:
        """
        Start the checks of a spec that ends with the car; they take as long as those of the car's slowest change.

        With `again`, red checks run again up to the number of times that the world's terms give. Where checks have
        scopes, and everything they look at has been green before, nothing is run.
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

    def _inputs(self, one: int, spec: Changes) -> Inputs:
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

    def land(self, spec: Changes) -> None:
        self.target.extend(spec)
        self.landed.update(dict.fromkeys(spec, self.now))
        self.moves.append(Move(length=len(self.target), at=self.now))

    def give_back(self, change: int) -> None:
        self.returned[change] = self.now

    def is_good(self, spec: Changes) -> bool:
        """Tell whether the spec is good on the target as it is now; a policy learns this only from a run."""
        return all(self._goes_on(one, spec[:at]) for at, one in enumerate(spec))

    def _goes_on(self, one: int, ahead: Changes) -> bool:
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


_WARM_UP = 50
"""Changes at the beginning whose times do not count: the line is empty then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """
    Figures of one policy in one world, or their means over several worlds.

    Over several worlds, `red_moves` and `exactness_violations` are sums.
    """

    policy: str
    p50_min: float
    """Minutes from arrival to landing; returned changes do not count."""
    p95_min: float
    p99_min: float
    landed_per_h: float
    runs_per_change: float
    wasted_pct: float
    """Percentage of the time of all runs that went into cancelled ones."""
    false_reject_pct: float
    """Percentage of all changes that were returned though good on the target as it was then."""
    red_moves: int
    """Moves of the target that brought in a change that is red there."""
    exactness_violations: int
    """Moves of the target to a sequence that had no green run of exactly that sequence by then."""
    decided_pct: float
    """Percentage of all changes decided by the time the last arrived; well below 100 means that the line grows."""

    def as_json(self) -> dict[str, object]:
        return {key: round(value, 3) if isinstance(value, float) else value for key, value in asdict(self).items()}


def play(name: str, make: Callable[[Yard], QueuePolicy], terms: QueueTerms, seeds: Iterable[int]) -> Numbers:
    """Play the policy in one world of each seed, and return the means."""
    found = []
    for seed in seeds:
        yard = Yard(world=World(terms=terms, seed=seed))
        yard.play(make(yard))
        found.append(numbers(name, yard))
    return mean(name, found)


def numbers(name: str, yard: Yard) -> Numbers:
    changes = yard.world.changes
    warm = 0 if yard.world.terms.burst or len(changes) < 4 * _WARM_UP else _WARM_UP
    times = sorted(at - changes[one].arrived for one, at in yard.landed.items() if one >= warm)
    decided = yard.landed | yard.returned
    end = max(decided.values(), default=0.0)
    run_min = sum(run.ends - run.began for run in yard.runs)
    in_vain = sum(run.ends - run.began for run in yard.runs if run.state == "cancelled")
    until = end if yard.world.terms.burst == len(changes) else changes[-1].arrived
    return Numbers(
        policy=name,
        p50_min=_quantile(times, 0.5),
        p95_min=_quantile(times, 0.95),
        p99_min=_quantile(times, 0.99),
        landed_per_h=60 * len(yard.landed) / end if end else 0.0,
        runs_per_change=sum(run.times for run in yard.runs) / len(changes),
        wasted_pct=100 * in_vain / run_min if run_min else 0.0,
        false_reject_pct=100 * sum(_was_good(yard, one) for one in yard.returned) / len(changes),
        red_moves=count_moves_to_red(yard),
        exactness_violations=exactness_violations(yard),
        decided_pct=100 * sum(at <= until for at in decided.values()) / len(changes),
    )


def mean(name: str, found: Sequence[Numbers]) -> Numbers:
    values = {field.name: [getattr(one, field.name) for one in found] for field in fields(Numbers)}
    wrong = ("red_moves", "exactness_violations")
    means = {key: fmean(each) for key, each in values.items() if key not in ("policy", *wrong)}
    return Numbers(policy=name, red_moves=sum(values[wrong[0]]), exactness_violations=sum(values[wrong[1]]), **means)


def exactness_violations(yard: Yard) -> int:
    """Return how many moves of the target had not been tested green before as exactly that sequence."""
    tested = dict[int, list[tuple[int, tuple[int, ...], float]]]()
    for run in yard.runs:
        if run.state != "cancelled" and run.green:
            tested.setdefault(run.base + len(run.spec), []).append((run.base, run.spec, run.ends))
    return sum(
        not any(
            tuple(yard.target[base : move.length]) == spec and ended <= move.at
            for base, spec, ended in tested.get(move.length, ())
        )
        for move in yard.moves
    )


def count_moves_to_red(yard: Yard) -> int:
    count, before = 0, 0
    for move in yard.moves:
        count += any(not _goes_on(yard, at) for at in range(before, move.length))
        before = move.length
    return count


def _goes_on(yard: Yard, at: int) -> bool:
    """Tell whether the change at that place is good alone, and with all that landed after its base and before it."""
    change = yard.world.changes[yard.target[at]]
    since = (other for other in yard.target[:at] if yard.landed[other] > change.base)
    return not change.bad and not any(yard.world.clashes(change.number, other) for other in since)


def _was_good(yard: Yard, one: int) -> bool:
    """Tell whether a returned change was good on what had landed by then."""
    change, at = yard.world.changes[one], yard.returned[one]
    since = (other for other, landed in yard.landed.items() if change.base < landed <= at)
    return not change.bad and not any(yard.world.clashes(one, other) for other in since)


def _quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0
