"""Proves the numbers of a bundle against its own parts: money, tokens, tasks. No repository is needed for it."""

import math
from collections import Counter
from collections.abc import Iterator

from forgepool.orchestrator.decisions.reasons import word_verdicts
from forgepool.orchestrator.reports.proof.bundle import BillItem, ProofBundle


def is_waste(item: BillItem) -> bool:
    """Tell whether an item paid for an attempt that did not land."""
    return item.work == "attempt" and not item.landed


def check_sums(bundle: ProofBundle) -> Iterator[str]:
    """Yield a sentence for each number that does not fit the others."""
    yield from _check_money(bundle)
    yield from _check_tokens(bundle)
    yield from _check_tasks(bundle)
    yield from _check_attempts(bundle)


def _check_money(bundle: ProofBundle) -> Iterator[str]:
    cost = bundle.cost
    waste = sum(one.cost_usd or 0.0 for one in cost.items if is_waste(one))
    reviews = sum(one.cost_usd or 0.0 for one in cost.items if one.work != "attempt")
    total = sum(one.cost_usd or 0.0 for one in cost.items)
    sums = {"all": (cost.total_usd, total), "waste": (cost.waste_usd, waste), "reviews": (cost.review_usd, reviews)}
    for name, (named, found) in sums.items():
        if not math.isclose(named, found, abs_tol=1e-6):
            yield f"the bill says {named:.4f} USD for {name}, and its items add up to {found:.4f}"
    seen = Counter((one.task, one.work, one.number) for one in cost.items)
    for (task, work, number), times in seen.items():
        if times > 1:
            yield f"the bill has {work} {number} of '{task}' {times} times"


def _check_tokens(bundle: ProofBundle) -> Iterator[str]:
    cost = bundle.cost
    counts = {
        "items of unknown cost": (cost.unknown, sum(one.cost_usd is None for one in cost.items)),
        "input tokens": (cost.input_tokens, sum(one.input_tokens for one in cost.items)),
        "cached tokens": (cost.cached_tokens, sum(one.cached_tokens for one in cost.items)),
        "output tokens": (cost.output_tokens, sum(one.output_tokens for one in cost.items)),
    }
    for name, (named, found) in counts.items():
        if named != found:
            yield f"the bill says {named:,} {name}, and its items have {found:,}"
    for one in cost.items:
        if min(one.cost_usd or 0.0, one.input_tokens, one.output_tokens, one.cached_tokens) < 0:
            yield f"the bill has less than nothing for {one.work} {one.number} of '{one.task}'"


def _check_tasks(bundle: ProofBundle) -> Iterator[str]:
    """Yield where the list of tasks and the landings differ."""
    commits = dict(bundle.landed)
    tasks = {task.id: task for task in bundle.tasks}
    for name, times in Counter(name for name, _ in bundle.landed).items():
        if times > 1:
            yield f"task '{name}' is in {times} landings, and a task lands once"
        if name not in tasks or tasks[name].phase != "landed":
            yield f"task '{name}' has a landing, and in the list of tasks it has not landed"
        elif tasks[name].commit != commits[name]:
            yield f"task '{name}' landed as {commits[name][:12]}, and in the list of tasks as {tasks[name].commit[:12]}"
    for name, task in tasks.items():
        if task.phase == "landed" and name not in commits:
            yield f"task '{name}' has landed by the list of tasks, and there is no landing of it"
    worded = word_verdicts([task.phase for task in bundle.tasks if not task.missing_survey], bundle.target)
    if bundle.verdict not in worded:
        yield f"the verdict is '{bundle.verdict}', and by the list of tasks it is '{worded[0]}'"


def _check_attempts(bundle: ProofBundle) -> Iterator[str]:
    """Yield where the bill and the landings differ about attempts. A merge queue's landings name none."""
    known = {entry.task: entry.attempt for entry in bundle.entries}
    queued = {one.task for one in bundle.by_queue}
    attempts = {(one.task, one.number): one for one in bundle.cost.items if one.work == "attempt"}
    for (name, number), one in attempts.items():
        if one.landed and name not in queued and number > known.get(name, 0):
            yield f"the bill says that attempt {number} of '{name}' landed, and no landing is of it"
    if bundle.is_queue:
        return
    for entry in bundle.entries:
        item = attempts.get((entry.task, entry.attempt))
        if item is None or not item.landed:
            yield f"attempt {entry.attempt} of '{entry.task}' landed, and the bill has no such item"
    for task in bundle.tasks:
        numbers = [number for name, number in attempts if name == task.id]
        if (len(numbers), min(numbers, default=1), max(numbers, default=0)) != (task.attempts, 1, task.attempts):
            yield f"task '{task.id}' had {task.attempts} attempts, and the bill has others"
