"""
Forecasts a plan by many simulated runs: time, cost, bottlenecks, and the gain of one more worker.

The source of each input is kept beside it: `given` by the user, from earlier `runs` of the plan, from the `plan`
itself, or `assumed`. `fit` reads the journals of this user's earlier runs.
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
    RunForecast,
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
"""The longest reason for leaving out a run, in characters."""
Kind = Literal["check", "review", "landing"]
_AT_GATE = ("check_failed", "conflict", "findings")


@dataclass(slots=True, kw_only=True)
class Fit:
    """Observations of the latest runs of a plan, oldest first."""

    runs: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    """One sentence for each run that could not be read."""
    work_s: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """The durations of attempts with a candidate, by task."""
    took_s: defaultdict[Kind, list[float]] = field(default_factory=lambda: defaultdict(list))
    usd: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """The costs of attempts by models with a known price, by task."""
    review_usd: list[float] = field(default_factory=list)
    counted: Counter[str] = field(default_factory=Counter)
    """Counts: `attempts` and `fruitless` ones, `judged` candidates and `red` ones, `reviews` and `failed` ones."""

    def seconds(self, kind: Kind) -> list[float]:
        """Return durations of a kind, without impossible ones, which come from other hosts' clocks."""
        return [seconds for seconds in self.took_s.get(kind, ()) if seconds > 0]

    def share(self, part: str, whole: str) -> float | None:
        """Return the share of one count in another; None where that is zero."""
        return self.counted[part] / self.counted[whole] if self.counted[whole] else None


def fit(settings: Settings, plan: Plan) -> Fit:
    """Read the last five runs of plans of this name, however they ended."""
    fitted, paid = Fit(), PlanIndex(plan, {}).paid
    for folder in _earlier(settings, plan, fitted)[-_RUNS_LOOKED_AT:]:
        try:
            recorded = list(read(folder))
        except JournalUnreadable as problem:
            fitted.left_out.append(_sentence(problem))
            continue
        fitted.runs.append(folder.name)
        _take_in(fitted, recorded, paid)
    return fitted


def _earlier(settings: Settings, plan: Plan, fitted: Fit) -> list[Path]:
    """Return the plan's runs, oldest first. A run's name begins with its plan's, but so do those of `<name>-more`."""
    alike = sorted(runs_folder(settings).glob(f"{plan.name[:40]}-*"), key=lambda path: path.stat().st_mtime)
    earlier = []
    for folder in alike:
        try:
            if open_run(settings, folder.name).plan.name == plan.name:
                earlier.append(folder)
        except JournalUnreadable as problem:
            fitted.left_out.append(_sentence(problem))
    return earlier


def _sentence(problem: JournalUnreadable) -> str:
    """Return the beginning of a problem; the validator's further lines are left out."""
    first, *more = str(problem).splitlines()
    return first[:_MOST_LETTERS] + ("..." if more or len(first) > _MOST_LETTERS else "")


def _take_in(fitted: Fit, recorded: list[Recorded], paid: frozenset[str]) -> None:
    clock = _Clock()
    for record in recorded:
        clock.note(record)
        match record.event:
            case OrderAnswered(task=task, result=result):
                _worked(fitted, task, result, is_paid=task in paid)
            case ReviewAnswered(result=result) if result.outcome in ("passed", "failed") and result.objections is None:
                fitted.counted.update(reviews=1, failed=result.outcome == "failed")
                fitted.took_s["review"].append(result.seconds or clock.since_begun(result.request_id, record.at))
                if result.spent.cost_usd is not None:
                    fitted.review_usd.append(result.spent.cost_usd)
            case CheckAnswered(result=result) if result.verdict == "green":
                fitted.took_s["check"].append(result.seconds or clock.since_begun(result.request_id, record.at))
            case LandingAnswered(result=result, entries=entries, task=task) if result.outcome == "landed":
                fitted.counted.update(judged=len(entries or (task,)))
                if result.request_id in clock.begun:
                    fitted.took_s["landing"].append(clock.since_begun(result.request_id, record.at))
            case TaskReturned(reason=reason) | TaskFailed(reason=reason) if reason.kind in _AT_GATE:
                fitted.counted.update(judged=1, red=1)
            case _:
                pass


def _worked(fitted: Fit, task: str, result: WorkResult, *, is_paid: bool) -> None:
    if result.outcome in ("infrastructure", "needs_human"):
        return
    made = result.outcome in ("candidate", "reported")
    fitted.counted.update(attempts=1, fruitless=not made)
    if made:
        fitted.work_s[task].append(result.finished_at - result.started_at)
    if is_paid and result.spent.cost_usd is not None:
        carried = result.carried.cost_usd if result.carried is not None else 0.0
        fitted.usd[task].append(max(0.0, result.spent.cost_usd - (carried or 0.0)))


@dataclass(slots=True)
class _Clock:
    """The times at which messages were begun, or sent where the beginning was not seen."""

    begun: dict[str, float] = field(default_factory=dict)

    def note(self, record: Recorded) -> None:
        if isinstance(record.event, CheckSent | ReviewSent | LandingIntended | MessageTaken):
            self.begun[record.event.message_id] = record.at

    def since_begun(self, message_id: str, at: float) -> float:
        return at - self.begun.get(message_id, at)


ASSUMED_WORK_S = 600.0
"""The duration of an attempt, where neither the plan nor an earlier run has one for any task."""
ASSUMED_S: Mapping[Kind, float] = {"check": 60.0, "review": 120.0, "landing": 1.0}
ASSUMED_BAD = 0.08
_MOST_REVIEWS_AT_ONCE = 4
"""The same as in a run on one machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The user's request; None takes a value from earlier runs, or assumes it."""

    workers: int = 1
    trials: int = 1
    seeds: int = 20
    check_s: float | None = None
    bad: float | None = None
    from_runs: bool = False
    """Draw durations, failures and costs from earlier runs; else these only fill the plan's gaps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grounds:
    """The terms of the simulation, and the source of each."""

    terms: PlanTerms
    work_from: Mapping[str, Source]
    """The source of the work's duration, by task."""
    others_from: Mapping[Literal["check", "review", "landing", "bad"], Source]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The distribution of one number over all seeds. The median is the value of one of them."""

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
    """The number of runs; a single one where nothing is left to chance."""
    makespan_s: Spread
    all_landed: int
    """The number of runs in which every task landed, or reported as it was asked to."""
    known_usd: Spread
    """The sum of the known costs."""
    unknown: int
    """The number of `paid` whose cost is unknown."""
    paid: int
    """Paid attempts and reviews in the run of median length."""
    most_usd: float | None
    """The upper bound of the cost, by the budget or the reservations; None where something has no limit."""
    middle: Played
    """The run of median length."""
    look: BoundsWatch
    """The stretches of that run."""
    bounds: PlanBounds
    """The bottlenecks of that run."""
    with_one_more: Spread
    """The makespan with one more worker, over the same seeds."""


def grounds(index: PlanIndex, wanted: Wanted, fitted: Fit, *, reviewed: bool = False) -> Grounds:
    """Collect the terms and their sources. `reviewed` says that the target requires reviews."""
    work = {task.id: _work(index, task.id, wanted, fitted) for task in index.plan.tasks}
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
        answering=frozenset(task.id for task in index.plan.tasks if task.answers),
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
    return Grounds(
        terms=terms,
        work_from={task: source for task, (_, source) in work.items()},
        others_from={"check": check_from, "review": review_from, "landing": landing_from, "bad": bad_from},
    )


def forecast(index: PlanIndex, terms: PlanTerms, *, seeds: int) -> Forecast:
    count = seeds if _has_chances(terms) else 1
    # The states of a thousand tasks in twenty runs are not kept.
    runs = (play(index, terms, seed) for seed in range(1, count + 1))
    played = [(run.makespan_s, run.all_landed, run.money) for run in runs]
    more = replace(terms, workers=terms.workers + 1, reviews=min(terms.workers + 1, _MOST_REVIEWS_AT_ONCE))
    one_more = [play(index, more, seed).makespan_s for seed in range(1, count + 1)]
    makespan = Spread.of([makespan_s for makespan_s, _, _ in played])
    middle_seed = 1 + next(at for at, (makespan_s, _, _) in enumerate(played) if makespan_s == makespan.median)
    look = BoundsWatch(index=index, terms=terms)
    middle = play(index, terms, middle_seed, watch=look)
    most = [money.most_usd for _, _, money in played if money.most_usd is not None]
    return Forecast(
        workers=terms.workers,
        seeds=count,
        makespan_s=makespan,
        all_landed=sum(landed for _, landed, _ in played),
        known_usd=Spread.of([money.known_usd for _, _, money in played]),
        unknown=middle.money.unknown,
        paid=middle.money.paid,
        most_usd=max(most) if len(most) == len(played) else None,
        middle=middle,
        look=look,
        bounds=bounds(index, look, middle),
        with_one_more=Spread.of(one_more),
    )


def as_event(found: Forecast, fitted: Fit) -> RunForecast:
    """Return a forecast as a run's journal keeps it."""
    spans: dict[str, tuple[float, float]] = {}
    for span in found.middle.spans:
        for task in span.tasks:
            begins, ends = spans.get(task, (span.begins_s, 0.0))
            spans[task] = begins, max(ends, span.ends_s)
    usd = found.known_usd
    return RunForecast(
        seconds=(found.makespan_s.p5, found.makespan_s.median, found.makespan_s.p95),
        usd=None if found.unknown else (usd.p5, usd.median, usd.p95),
        spans=spans,
        runs=tuple(fitted.runs),
    )


def _work(index: PlanIndex, task: str, wanted: Wanted, fitted: Fit) -> tuple[Seconds, Source]:
    """Return a task's durations and their source; empty where they are unknown."""
    seen = tuple(seconds for seconds in fitted.work_s.get(task, ()) if seconds > 0)
    planned = index.tasks[task].duration_s
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
    return any(chances) or any(len(values) > 1 for values in (*drawn, terms.review_usd))
