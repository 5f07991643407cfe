"""Renders a forecast as sentences, and as JSON."""

import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import get_args

from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.decisions.reasons import count_of
from forgepool.orchestrator.reports.costs import usd_words
from forgepool.orchestrator.simulate.bounds import By, PlanBounds
from forgepool.orchestrator.simulate.forecast import Fit, Forecast, Grounds, Kind, Spread, Wanted
from forgepool.orchestrator.simulate.world import Source

_FROM: dict[Source, str] = {
    "given": "as given",
    "runs": "from earlier runs",
    "plan": "from the plan (duration_s)",
    "assumed": "assumed",
}
_OTHERS: dict[Kind, str] = {"check": "checks", "review": "reviews", "landing": "landing"}
_MOST_NAMED = 6
_OPTION = "--from-runs"
_SIMULATE = f"`forgepool simulate plan FILE {_OPTION}`"
_WORTH_A_WORD = 0.005
"""The least share of the makespan that a further worker must save to be reported."""


def lines(index: PlanIndex, forecast: Forecast, based: Grounds, fitted: Fit, wanted: Wanted) -> Iterator[str]:
    terms, spread = based.terms, forecast.makespan_s
    yield (
        f"simulation of plan {index.plan.name}: {count_of(len(index.tasks), 'task')}, "
        f"{count_of(terms.workers, 'worker')}, {count_of(terms.trials, 'car')} checked at once, "
        f"{count_of(forecast.seeds, 'run')} on a virtual clock; nothing was started"
    )
    yield f"makespan: {_range(spread)}"
    yield f"landed: all tasks in {forecast.all_landed} of {count_of(forecast.seeds, 'run')}{_middle(forecast)}"
    yield f"cost: {cost_words(index, forecast)}"
    if index.racing:
        yield f"races: {', '.join(sorted(index.racing))}; their first two models begin together, if slots are left"
    yield from _bound_lines(forecast)
    yield _one_more(forecast)
    yield from _based_on(index, based, fitted, wanted)


def summary_line(index: PlanIndex, forecast: Forecast) -> str:
    """Return one line with the time and the cost of a plan."""
    workers = count_of(forecast.workers, "worker")
    return f"{_range(forecast.makespan_s)} with {workers}; cost: {cost_words(index, forecast, _SIMULATE)}"


def cost_words(index: PlanIndex, forecast: Forecast, how: str = _OPTION) -> str:
    """Return the cost in words; `how` is what asks earlier runs for it."""
    if not forecast.paid:
        return "0 USD; no attempt or review uses a paid model"
    if index.plan.budget.usd is not None:
        most = f"never more than the budget, {usd_words(index.plan.budget.usd)} USD"
    elif forecast.most_usd is not None:
        most = f"at most {usd_words(forecast.most_usd)} USD, which is what limits reserve in the dearest of these runs"
    else:
        of = f"{forecast.middle.money.unlimited} of {forecast.paid} attempts and reviews"
        most = f"no upper bound, for {of} have no limit of cost, and the plan has no budget"
    known = f"{usd_words(forecast.known_usd.p5)} to {usd_words(forecast.known_usd.p95)} USD"
    if forecast.unknown == forecast.paid:
        return f"unknown, no earlier run tells it ({how}); {most}"
    if forecast.unknown:
        what = f"{forecast.unknown} of {count_of(forecast.paid, 'attempt')} and reviews that are paid for"
        return f"{known} as far as it is known, unknown for {what}; {most}"
    return f"{known} (5-95 %), {usd_words(forecast.known_usd.median)} USD in the middle; {most}"


def _bound_lines(forecast: Forecast) -> Iterator[str]:
    bounds, whole = forecast.bounds, forecast.bounds.makespan_s
    of = f"of the {_time(whole)}" + (f" of seed {forecast.middle.seed}" if forecast.seeds > 1 else "")
    yield f"bounded mostly by {_most(bounds, of)}"
    yield f"path: {path_words(bounds)}"
    if bounds.chain != bounds.path:
        named = _chain([task for task, _ in bounds.chain])
        yield f"longest chain of needs: {named}, {_time(bounds.chain_s)} of work, checks and landings"
    yield f"locks: {lock_words(bounds)}"
    workers = "the worker was" if forecast.workers == 1 else f"all {forecast.workers} workers were"
    yield f"workers: {workers} busy {_percent(bounds.all_busy)} of the time"
    crowded = _percent(bounds.crowded)
    yield f"checks: the gate was the bottleneck {crowded} of the time, with entries waiting for a free trial"


def _most(bounds: PlanBounds, of: str) -> str:
    words: dict[By, str] = {
        "path": "the critical path: work, checks and landings of tasks that need one another took",
        "lock": "locks: the tasks that ended last waited for what others held for",
        "workers": "workers: the tasks that ended last waited for a free worker for",
        "checks": "checks: the tasks that ended last waited at the gate for",
        "reviews": "reviews: the tasks that ended last waited for a reviewer for",
        "budget": "the budget: the tasks that ended last waited for a part of it for",
    }
    return f"{words[bounds.by]} {_time(bounds.seconds.get(bounds.by, 0.0))} {of}"


def path_words(bounds: PlanBounds) -> str:
    named = [f"{task} ({_time(seconds)})" for task, seconds in bounds.path]
    parts = ", ".join(f"{_time(seconds)} {at}" for at, seconds in bounds.path_at.items() if seconds)
    again = f"; {_time(bounds.again_s)} of it in attempts that came back" if bounds.again_s else ""
    return f"{_chain(named)}: {_time(bounds.path_s)}, of these {parts}{again}" if named else "no task was begun"


def lock_words(bounds: PlanBounds) -> str:
    if not bounds.lock_waits:
        return "no task waited for one"
    whole = sum(wait.seconds for wait in bounds.lock_waits)
    tasks = len({wait.task for wait in bounds.lock_waits})
    worst = bounds.lock_waits[0]
    meets = f", '{worst.globs[1]}' meets its '{worst.globs[0]}'" if worst.globs else ""
    return (
        f"{count_of(tasks, 'task')} waited {_time(whole)} in all for what others held; "
        f"longest {worst.task} for {worst.holder or 'others'}, {_time(worst.seconds)}{meets}"
    )


def _one_more(forecast: Forecast) -> str:
    before, after = forecast.makespan_s.median, forecast.with_one_more.median
    saved, what = before - after, f"one more worker ({forecast.workers + 1})"
    over = " over the same seeds" if forecast.seeds > 1 else ""
    if before == after:
        return f"{what}: would buy nothing, {_time(after)} as before{over}"
    if saved < before * _WORTH_A_WORD:
        return f"{what}: would buy nothing to speak of, {_time(after)} in place of {_time(before)}{over}"
    share = _percent(saved / before)
    return f"{what}: would save {_time(saved)} ({share}), {_time(after)} in place of {_time(before)}{over}"


def _based_on(index: PlanIndex, based: Grounds, fitted: Fit, wanted: Wanted) -> Iterator[str]:
    yield f"durations of tasks: {', '.join(_tasks_from(based))}"
    terms, others = based.terms, based.others_from
    took: dict[Kind, tuple[float, ...]] = {"check": terms.check_s, "review": terms.review_s, "landing": terms.landing_s}
    shown = [kind for kind in _OTHERS if kind != "review" or index.reviewed or terms.reviewed]
    durations = [f"{_OTHERS[kind]} {_seconds(took[kind])} ({_FROM[others[kind]]})" for kind in shown]
    yield f"{'; '.join(durations)}; chance of red {_percent(terms.bad)} ({_FROM[others['bad']]})"
    if wanted.from_runs:
        yield _fitted(fitted, index)
    for sentence in fitted.left_out:
        yield f"left out: {sentence}"
    if index.plan.budget.capped and index.paid and not terms.usd:
        yield "budget: the cost of attempts is unknown, so the budget delays no task here"
    yield "not simulated: trouble of hosts and models, conflicts between candidates, people's answers"


def _tasks_from(based: Grounds) -> Iterator[str]:
    count = Counter(based.work_from.values())
    for source in get_args(Source):
        if count[source] and source != "assumed":
            yield f"{count[source]} {_FROM[source]}"
    if count["assumed"]:
        named = [task for task, source in based.work_from.items() if source == "assumed"]
        each = based.terms.work_s[named[0]][0]
        why = "the median of the others" if len(count) > 1 else "for want of anything better"
        yield f"{count['assumed']} assumed, {_time(each)} each, {why} ({_listed(named)})"


def _fitted(fitted: Fit, index: PlanIndex) -> str:
    if not fitted.runs:
        return f"earlier runs: there is none of plan {index.plan.name} that can be read"
    seen = fitted.counted
    return (
        f"earlier runs: {_listed(fitted.runs)}; {seen['red']} of {count_of(seen['judged'], 'candidate')} red, "
        f"{seen['fruitless']} of {count_of(seen['attempts'], 'attempt')} without a candidate, "
        f"{seen['failed']} of {count_of(seen['reviews'], 'review')} failed"
    )


def as_json(index: PlanIndex, forecast: Forecast, based: Grounds, fitted: Fit, wanted: Wanted) -> dict[str, object]:
    bounds, saved = forecast.bounds, forecast.makespan_s.median - forecast.with_one_more.median
    return {
        "simulated": True,
        "plan": index.plan.name,
        "tasks": len(index.tasks),
        "workers": forecast.workers,
        "trials": based.terms.trials,
        "seeds": forecast.seeds,
        "makespan_s": _spread(forecast.makespan_s),
        "all_landed_runs": forecast.all_landed,
        "races": sorted(index.racing),
        "middle": {"seed": forecast.middle.seed, "phases": dict(forecast.middle.phases)},
        "cost": {
            "known_usd": _spread(forecast.known_usd) if forecast.unknown < forecast.paid or not forecast.paid else None,
            "paid_attempts_and_reviews": forecast.paid,
            "of_unknown_cost": forecast.unknown,
            "most_usd": None if forecast.most_usd is None else round(forecast.most_usd, 6),
            "words": cost_words(index, forecast),
        },
        "bound": _bound_as_json(bounds),
        "one_more_worker": {
            "workers": forecast.workers + 1,
            "makespan_s": _spread(forecast.with_one_more),
            "saves_s": round(saved, 3),
            "saves_pct": round(100 * saved / forecast.makespan_s.median, 2) if forecast.makespan_s.median else 0.0,
        },
        "grounds": {
            "tasks": dict(Counter(based.work_from.values())),
            "assumed_tasks": [task for task, source in based.work_from.items() if source == "assumed"],
            "check_s": {"median": statistics.median(based.terms.check_s), "from": based.others_from["check"]},
            "review_s": {"median": statistics.median(based.terms.review_s), "from": based.others_from["review"]},
            "landing_s": {"median": statistics.median(based.terms.landing_s), "from": based.others_from["landing"]},
            "bad": {"probability": based.terms.bad, "from": based.others_from["bad"]},
            "from_runs": wanted.from_runs,
            "runs": list(fitted.runs),
            "left_out": list(fitted.left_out),
        },
    }


def _bound_as_json(bounds: PlanBounds) -> dict[str, object]:
    return {
        "by": bounds.by,
        "seconds": {by: round(seconds, 3) for by, seconds in bounds.seconds.items()},
        "path": [{"task": task, "seconds": round(seconds, 3)} for task, seconds in bounds.path],
        "path_s": round(bounds.path_s, 3),
        "longest_chain": [{"task": task, "seconds": round(seconds, 3)} for task, seconds in bounds.chain],
        "again_s": round(bounds.again_s, 3),
        "lock_waits": [
            {
                "task": wait.task,
                "for": wait.holder,
                "seconds": round(wait.seconds, 3),
                "globs": None if wait.globs is None else list(wait.globs),
            }
            for wait in bounds.lock_waits
        ],
        "workers_all_busy": round(bounds.all_busy, 4),
        "checks_bottleneck": round(bounds.crowded, 4),
    }


def _spread(of: Spread) -> dict[str, float]:
    return {"p5": round(of.p5, 3), "median": round(of.median, 3), "p95": round(of.p95, 3)}


def _range(of: Spread) -> str:
    if of.p5 == of.p95:
        return _time(of.median)
    return f"{_time(of.median)} in the middle, {_time(of.p5)} to {_time(of.p95)} (5-95 %)"


def _middle(forecast: Forecast) -> str:
    others = {phase: count for phase, count in forecast.middle.phases.items() if phase not in ("landed", "reported")}
    if forecast.seeds == 1 or not others:
        return ""
    return "; in the middle one " + ", ".join(f"{count} {phase}" for phase, count in others.items())


def _chain(named: Sequence[str]) -> str:
    most = 2 * _MOST_NAMED
    if len(named) > most:
        named = [*named[:_MOST_NAMED], f"({len(named) - most} more)", *named[-_MOST_NAMED:]]
    return " -> ".join(named)


def _listed(named: Sequence[str]) -> str:
    more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
    return ", ".join(named[:_MOST_NAMED]) + more


def _seconds(values: Sequence[float]) -> str:
    if len(set(values)) == 1:
        return f"{values[0]:.3g} s"
    return f"{min(values):.3g} to {max(values):.3g} s"


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.2f} h"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
