"""
What a plan comes to, by many simulated runs of it: time, cost, what bounds it, and what one more worker would buy.

Where the numbers that go in are from is kept beside them: `given` by the person, from earlier `runs` of the plan, from
the `plan` itself, or `assumed`.
"""

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.journal.events import (
    CheckAnswered,
    CheckSent,
    LandingAnswered,
    LandingIntended,
    MessageTaken,
    OrderAnswered,
    ReviewAnswered,
    ReviewSent,
    TaskFailed,
    TaskReturned,
)
from forgepool.orchestrator.journal.store import JournalUnreadable, Recorded, read
from forgepool.orchestrator.plan.document import Plan
from forgepool.orchestrator.run.run_folder import open_run, runs_folder
from forgepool.orchestrator.simulate.bounds import BoundsWatch, PlanBounds, bounds
from forgepool.orchestrator.simulate.run import Played, play
from forgepool.orchestrator.simulate.world import PlanTerms, Seconds, Source
from forgepool.workers.schema.orders import WorkResult
from forgepool.workers.schema.settings import Settings

_RUNS_LOOKED_AT = 5
_MOST_LETTERS = 160
"""Of what is said about a run that is left out."""
Kind = Literal["check", "review", "landing"]
_AT_GATE = ("check_failed", "conflict", "findings")


@dataclass(slots=True, kw_only=True)
class Fit:
    """Observations of the latest runs of a plan, oldest first."""

    runs: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    """A sentence for each run that could not be read."""
    work_s: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """By task, of attempts that brought a candidate."""
    took_s: defaultdict[Kind, list[float]] = field(default_factory=lambda: defaultdict(list))
    usd: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """By task, of attempts by models whose price was known."""
    review_usd: list[float] = field(default_factory=list)
    counted: Counter[str] = field(default_factory=Counter)
    """`attempts` and of these `fruitless`; `judged` candidates at the gate and of these `red`; `reviews`, `failed`."""

    def seconds(self, kind: Kind) -> list[float]:
        """Without those that clocks of other hosts have made impossible."""
        return [one for one in self.took_s.get(kind, ()) if one > 0]

    def share(self, part: str, whole: str) -> float | None:
        """None where there was nothing that it could be a share of."""
        return self.counted[part] / self.counted[whole] if self.counted[whole] else None


def fit(settings: Settings, plan: Plan) -> Fit:
    """From the last five runs of plans of this name, whatever became of them."""
    found, paid = Fit(), PlanIndex(plan, {}).paid
    for folder in _earlier(settings, plan, found)[-_RUNS_LOOKED_AT:]:
        try:
            recorded = list(read(folder))
        except JournalUnreadable as problem:
            found.left_out.append(_sentence(problem))
            continue
        found.runs.append(folder.name)
        _take_in(found, recorded, paid)
    return found


def _earlier(settings: Settings, plan: Plan, found: Fit) -> list[Path]:
    """Oldest first. The name of a run begins with its plan's, but so do those of a plan called `<name>-more`."""
    alike = sorted(runs_folder(settings).glob(f"{plan.name[:40]}-*"), key=lambda path: path.stat().st_mtime)
    earlier = []
    for folder in alike:
        try:
            if open_run(settings, folder.name).plan.name == plan.name:
                earlier.append(folder)
        except JournalUnreadable as problem:
            found.left_out.append(_sentence(problem))
    return earlier


def _sentence(problem: JournalUnreadable) -> str:
    """Its beginning: what a validator adds are lines for somebody else."""
    first, *more = str(problem).splitlines()
    return first[:_MOST_LETTERS] + ("..." if more or len(first) > _MOST_LETTERS else "")


def _take_in(found: Fit, recorded: list[Recorded], paid: frozenset[str]) -> None:
    clock = _Clock()
    for one in recorded:
        clock.note(one)
        match one.event:
            case OrderAnswered(task=task, result=result):
                _worked(found, task, result, is_paid=task in paid)
            case ReviewAnswered(result=result) if result.outcome in ("passed", "failed"):
                found.counted.update(reviews=1, failed=result.outcome == "failed")
                found.took_s["review"].append(result.seconds or clock.since_begun(result.request_id, one.at))
                if result.spent.cost_usd is not None:
                    found.review_usd.append(result.spent.cost_usd)
            case CheckAnswered(result=result) if result.verdict == "green":
                found.took_s["check"].append(result.seconds or clock.since_begun(result.request_id, one.at))
            case LandingAnswered(result=result, entries=entries, task=task) if result.outcome == "landed":
                found.counted.update(judged=len(entries or (task,)))
                if result.request_id in clock.begun:
                    found.took_s["landing"].append(clock.since_begun(result.request_id, one.at))
            case TaskReturned(reason=reason) | TaskFailed(reason=reason) if reason.kind in _AT_GATE:
                found.counted.update(judged=1, red=1)
            case _:
                pass


def _worked(found: Fit, task: str, result: WorkResult, *, is_paid: bool) -> None:
    if result.outcome in ("infrastructure", "needs_human"):
        return
    made = result.outcome == "candidate"
    found.counted.update(attempts=1, fruitless=not made)
    if made:
        found.work_s[task].append(result.finished_at - result.started_at)
    if is_paid and result.spent.cost_usd is not None:
        carried = result.carried.cost_usd if result.carried is not None else 0.0
        found.usd[task].append(max(0.0, result.spent.cost_usd - (carried or 0.0)))


@dataclass(slots=True)
class _Clock:
    """When messages were begun, as far as that was seen; else when they were sent."""

    begun: dict[str, float] = field(default_factory=dict)

    def note(self, one: Recorded) -> None:
        if isinstance(one.event, CheckSent | ReviewSent | LandingIntended | MessageTaken):
            self.begun[one.event.message_id] = one.at

    def since_begun(self, message_id: str, at: float) -> float:
        return at - self.begun.get(message_id, at)


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
