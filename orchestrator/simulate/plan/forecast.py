"""
What a plan comes to, by many simulated runs of it: time, cost, what bounds it, and what one more worker would buy.

Where the numbers that go in are from is kept beside them: `given` by the person, from earlier `runs` of the plan, from
the `plan` itself, or `assumed`.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.simulate.plan.bounds import BoundsWatch, PlanBounds, bounds
from forgepool.orchestrator.simulate.plan.fitted import Fit, Kind
from forgepool.orchestrator.simulate.plan.run import Played, play
from forgepool.orchestrator.simulate.plan.world import PlanTerms, Seconds, Source

ASSUMED_WORK_S = 600.0
"""Of an attempt, where neither the plan nor an earlier run says anything of any task."""
ASSUMED_S: Mapping[Kind, float] = {"check": 60.0, "review": 120.0, "landing": 1.0}
ASSUMED_BAD = 0.08
_MOST_REVIEWS_AT_ONCE = 4
"""As a one-machine run has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a person asks to be simulated; None is left to earlier runs, or else assumed."""

    workers: int = 1
    trials: int = 1
    seeds: int = 20
    check_s: float | None = None
    bad: float | None = None
    from_runs: bool = False
    """Draw durations, reds and costs as they were in earlier runs; else only the plan's gaps are filled from there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grounds:
    """The terms, and where each of them is from."""

    terms: PlanTerms
    work_from: Mapping[str, Source]
    """By task."""
    others_from: Mapping[Literal["check", "review", "landing", "bad"], Source]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Of one number in all seeds: the middle one, which one of them has, and where the outer 5 % begin."""

    p5: float
    median: float
    p95: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        ordered = sorted(values)
        p5, median, p95 = (ordered[math.ceil(share * len(ordered)) - 1] for share in (0.05, 0.5, 0.95))
        return cls(p5=p5, median=median, p95=p95)


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    workers: int
    seeds: int
    """Runs that were played; a single one where nothing is left to chance."""
    makespan_s: Spread
    all_landed: int
    """Of the runs, those in which every task has landed."""
    known_usd: Spread
    """Of what has a known cost."""
    unknown: int
    """Of the attempts and reviews that are paid for, in the run in the middle, how many have no known cost."""
    paid: int
    most_usd: float | None
    """No run could have cost more: the budget, or what was reserved; None where something has no limit."""
    middle: Played
    """The run whose makespan is the median."""
    look: BoundsWatch
    """At that run."""
    bounds: PlanBounds
    """Of that run."""
    with_one_more: Spread
    """The makespan with one more worker, over the same seeds."""


def grounds(course: PlanIndex, wanted: Wanted, fitted: Fit, *, reviewed: bool = False) -> Grounds:
    """`reviewed`: the target lets nothing in without a review."""
    work = {task.id: _work(course, task.id, wanted, fitted) for task in course.plan.tasks}
    known = [statistics.median(seconds) for seconds, _ in work.values() if seconds]
    usual = statistics.median(known) if known else ASSUMED_WORK_S
    check, check_from = _took("check", wanted, fitted)
    if wanted.check_s is not None:
        check, check_from = (wanted.check_s,), "given"
    review, review_from = _took("review", wanted, fitted)
    landing, landing_from = _took("landing", wanted, fitted)
    bad, bad_from = _bad(wanted, fitted)
    terms = PlanTerms(
        workers=wanted.workers,
        trials=wanted.trials,
        reviews=min(wanted.workers, _MOST_REVIEWS_AT_ONCE),
        reviewed=reviewed,
        work_s={task: seconds or (usual,) for task, (seconds, _) in work.items()},
        check_s=check,
        review_s=review,
        landing_s=landing,
        bad=bad,
        fruitless=(fitted.share("fruitless", "attempts") or 0.0) if wanted.from_runs else 0.0,
        failed_review=(fitted.share("failed", "reviews") or 0.0) if wanted.from_runs else 0.0,
        usd={task: tuple(usd) for task, usd in fitted.usd.items()} if wanted.from_runs else {},
        review_usd=tuple(fitted.review_usd) if wanted.from_runs else (),
    )
    others: dict[Literal["check", "review", "landing", "bad"], Source] = {
        "check": check_from,
        "review": review_from,
        "landing": landing_from,
        "bad": bad_from,
    }
    return Grounds(terms=terms, work_from={task: source for task, (_, source) in work.items()}, others_from=others)


def forecast(course: PlanIndex, terms: PlanTerms, *, seeds: int) -> Forecast:
    count = seeds if _has_chances(terms) else 1
    played = [_numbers(play(course, terms, seed)) for seed in range(1, count + 1)]
    more = replace(terms, workers=terms.workers + 1, reviews=min(terms.workers + 1, _MOST_REVIEWS_AT_ONCE))
    one_more = [play(course, more, seed).makespan_s for seed in range(1, count + 1)]
    makespan = Spread.of([one.makespan_s for one in played])
    middle_seed = next(at for at, one in enumerate(played, start=1) if one.makespan_s == makespan.median)
    look = BoundsWatch(course=course, terms=terms)
    middle = play(course, terms, middle_seed, watch=look)
    most = [one.most_usd for one in played if one.most_usd is not None]
    return Forecast(
        workers=terms.workers,
        seeds=count,
        makespan_s=makespan,
        all_landed=sum(one.all_landed for one in played),
        known_usd=Spread.of([one.known_usd for one in played]),
        unknown=middle.money.unknown,
        paid=middle.money.paid,
        most_usd=max(most) if len(most) == len(played) else None,
        middle=middle,
        look=look,
        bounds=bounds(course, look, middle),
        with_one_more=Spread.of(one_more),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Numbers:
    """Of one run; the states of a thousand tasks in twenty runs are not kept."""

    makespan_s: float
    all_landed: bool
    known_usd: float
    most_usd: float | None


def _numbers(played: Played) -> _Numbers:
    return _Numbers(
        makespan_s=played.makespan_s,
        all_landed=played.all_landed,
        known_usd=played.money.known_usd,
        most_usd=played.money.most_usd,
    )


def _work(course: PlanIndex, task: str, wanted: Wanted, fitted: Fit) -> tuple[Seconds, Source]:
    """Nothing, where nobody says it."""
    seen = tuple(one for one in fitted.work_s.get(task, ()) if one > 0)
    planned = course.tasks[task].duration_s
    if seen and wanted.from_runs:
        return seen, "runs"
    if planned is not None:
        return (planned,), "plan"
    return ((statistics.median(seen),), "runs") if seen else ((), "assumed")


def _took(kind: Kind, wanted: Wanted, fitted: Fit) -> tuple[Seconds, Source]:
    seen = fitted.seconds(kind)
    if not seen:
        return (ASSUMED_S[kind],), "assumed"
    return (tuple(seen) if wanted.from_runs else (statistics.median(seen),)), "runs"


def _bad(wanted: Wanted, fitted: Fit) -> tuple[float, Source]:
    if wanted.bad is not None:
        return wanted.bad, "given"
    seen = fitted.share("red", "judged") if wanted.from_runs else None
    return (ASSUMED_BAD, "assumed") if seen is None else (seen, "runs")


def _has_chances(terms: PlanTerms) -> bool:
    drawn = (*terms.work_s.values(), *terms.usd.values(), terms.check_s, terms.review_s, terms.landing_s)
    chances = (terms.bad, terms.fruitless, terms.failed_review)
    return any(chances) or any(len(one) > 1 for one in (*drawn, terms.review_usd))
