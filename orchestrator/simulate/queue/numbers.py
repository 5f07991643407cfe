"""What a policy came to, from what the yard wrote down: times, runs, waste, and what landed that may not."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from statistics import fmean

from forgepool.orchestrator.simulate.queue.world import QueueTerms, World
from forgepool.orchestrator.simulate.queue.yard import QueuePolicy, Yard

_WARM_UP = 50
"""Changes at the beginning whose times do not count: the line is empty then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """Of one policy in one world, or the means over several worlds; the last but one two are sums."""

    policy: str
    p50_min: float
    """From arrival to landing; those returned do not count."""
    p95_min: float
    p99_min: float
    landed_per_h: float
    runs_per_change: float
    wasted_pct: float
    """Of the time that checks ran, what went into runs that were cancelled."""
    false_reject_pct: float
    """Of all changes, those returned that were good on the target as it was then."""
    red_moves: int
    """Moves of the target to what is red, and was not before."""
    exactness_violations: int
    """Moves of the target to what was not tested green as exactly that sequence."""
    decided_pct: float
    """Of all changes, those decided by the time the last arrived; less than all few means that the line grows."""

    def as_json(self) -> dict[str, object]:
        return {key: round(value, 3) if isinstance(value, float) else value for key, value in asdict(self).items()}


def play(name: str, make: Callable[[Yard], QueuePolicy], terms: QueueTerms, seeds: Iterable[int]) -> Numbers:
    """The policy in one world of each seed."""
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
    """Each value that the target took must have been tested, by then, as exactly that sequence, and green."""
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
    """Whether what landed there is good by itself, and with all that landed before it and since it was written."""
    change = yard.world.changes[yard.target[at]]
    since = (other for other in yard.target[:at] if yard.landed[other] > change.base)
    return not change.bad and not any(yard.world.clashes(change.number, other) for other in since)


def _was_good(yard: Yard, one: int) -> bool:
    """One that was returned: whether it would have gone on what had landed by then."""
    change, at = yard.world.changes[one], yard.returned[one]
    since = (other for other, landed in yard.landed.items() if change.base < landed <= at)
    return not change.bad and not any(yard.world.clashes(one, other) for other in since)


def _quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0
