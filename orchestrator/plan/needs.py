"""
What the tasks of a plan file need: groups stand for their members, and no task waits for itself.

Which tasks may start when is decided in `readiness`.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from forgepool.orchestrator.plan.entries import PlanReading, WrittenTask
from forgepool.workers.schema.mistakes import MAX_MISTAKES, nearest

_MOST_NEEDS = 1_000_000


def needs_of_all(reading: PlanReading, written: Sequence[WrittenTask]) -> dict[str, dict[str, bool]]:
    """What each task needs, groups replaced by their members; True where its full output is wanted."""
    names: dict[str, list[str]] = {each.entry.id: [each.entry.id] for each in written}
    for entry in reading.source.tasks:
        if entry.group_name:
            names.setdefault(entry.group_name, [])
    for each in written:
        if group := reading.source.tasks[each.index].group_name:
            names[group].append(each.entry.id)
    found: dict[str, dict[str, bool]] = {}
    count = 0
    for each in written:
        found[each.entry.id] = _needs_of(reading, each, names)
        count += len(found[each.entry.id])
        if count > _MOST_NEEDS:
            sentence = f"makes more than {_MOST_NEEDS:,} needs in all; put one task between the two groups"
            reading.refuse(each.index, ("needs",), f"task '{each.entry.id}' {sentence}")
            return {}
    return found


def _needs_of(reading: PlanReading, task: WrittenTask, names: Mapping[str, Sequence[str]]) -> dict[str, bool]:
    found: dict[str, bool] = {}
    for at, text in enumerate(task.entry.needs):
        name, colon, depth = text.partition(":")
        if colon and depth != "full":
            wrong = f"needs '{text}'; write '{name}' or '{name}:full'"
        elif name not in names:
            wrong = f"needs '{name}', which is not in the plan; tasks are: {_nearest_first(reading, name, names)}"
        elif task.entry.id in names[name]:
            wrong = "needs itself; remove the need"
        else:
            found.update({each: found.get(each, False) or bool(colon) for each in names[name]})
            continue
        reading.refuse(task.index, ("needs", at), f"task '{task.entry.id}' {wrong}")
    return found


def _nearest_first(reading: PlanReading, name: str, names: Mapping[str, object]) -> str:
    """At most ten names; beyond the mistakes that are shown, likeness is not worth its time."""
    like = nearest(name, names, 10) if len(reading.wrong) < MAX_MISTAKES else []
    shown = list(dict.fromkeys([*like, *islice(names, 10)]))[:10]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more else "")


def check_cycles(reading: PlanReading, written: Sequence[WrittenTask], needs: Mapping[str, Iterable[str]]) -> None:
    at = {each.entry.id: each for each in written}
    for cycle in _cycles(needs):
        task = at[cycle[0]]
        names = [*cycle, cycle[0]] if len(cycle) <= 10 else [*cycle[:8], "...", cycle[-1], cycle[0]]
        sentence = f"task '{task.entry.id}' waits for itself: {' -> '.join(names)}; remove one of these needs"
        reading.refuse(task.index, ("needs",), sentence)


def _cycles(needs: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """
    Cycles among needs, each begun at its first task; at least one of every tangle. Linear, and no recursion.

    Each task that can never start needs another such: followed from task to task, they lead into a cycle.
    """
    stuck = _stuck(needs)
    next_of = {task: next(need for need in needs[task] if need in stuck) for task in needs if task in stuck}
    order = {task: at for at, task in enumerate(needs)}
    found: list[list[str]] = []
    seen: dict[str, str] = {}
    for start in next_of:
        path: list[str] = []
        task = start
        while task not in seen:
            seen[task] = start
            path.append(task)
            task = next_of[task]
        if seen[task] == start:
            cycle = path[path.index(task) :]
            first = cycle.index(min(cycle, key=order.__getitem__))
            found.append([*cycle[first:], *cycle[:first]])
    return found


def _stuck(needs: Mapping[str, Iterable[str]]) -> set[str]:
    """What remains when every task whose needs can be met has been taken away."""
    waiting = {task: set(of) for task, of in needs.items()}
    dependents: dict[str, list[str]] = defaultdict(list)
    for task, of in waiting.items():
        for need in of:
            dependents[need].append(task)
    free = [task for task, of in waiting.items() if not of]
    while free:
        done = free.pop()
        del waiting[done]
        for task in dependents[done]:
            waiting[task].discard(done)
            if not waiting[task]:
                free.append(task)
    return set(waiting)
