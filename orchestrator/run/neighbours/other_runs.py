"""
Several runs on one Redis: what a run tells the others, its share of the order slots, and the paths that others hold.

Pure. All of it is advice: a run that knows nothing of another one lands as safely, and only loses time to conflicts.
"""

import heapq
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.plan.overlap import Globs
from forgepool.orchestrator.state.run import RunState
from forgepool.workers.queue.run_presence import RunPresence
from forgepool.workers.schema.globs import BadGlob, parse
from forgepool.worktrees.git.git import without_password

_MOST_PATHS = 5_000
"""Globs that a run tells the others: beyond that, a task of theirs may start too early."""
_SCP_FORM = re.compile(r"(?:[^/:@]+@)?([^/:]+):(?!//)(.+)")


def describe_run(course: PlanIndex, state: RunState, *, weight: int, waiting: int) -> RunPresence:
    """
    Return what the run tells the others. A queue holds no paths: its entries are in flight in the runs they come from.
    """
    locks = () if course.serving else course.in_flight(state).values()
    paths = dict.fromkeys(pattern.text for lock in locks if lock is not None for pattern in lock.patterns)
    return RunPresence(
        run=state.run,
        hub=name_hub(state.hub),
        target=state.target,
        weight=weight,
        running=len(state.working()),
        waiting=waiting,
        paths=tuple(paths)[:_MOST_PATHS],
    )


def name_hub(url: str) -> str:
    """Return one name for the usual ways to write a hub's address, without users and passwords."""
    if found := _SCP_FORM.fullmatch(url):
        url = f"ssh://{found[1]}/{found[2].lstrip('/')}"
    return without_password(url).removeprefix("file://").rstrip("/").removesuffix(".git").rstrip("/")


def find_paths_elsewhere(state: RunState, others: Sequence[RunPresence]) -> dict[str, Globs]:
    """Return, by run, the paths that other runs have in flight on the same target of the same hub."""
    here = (name_hub(state.hub), state.target)
    same = (one for one in others if one.run != state.run and one.paths and (one.hub, one.target) == here)
    return {one.run: _read_globs(one.paths) for one in same}


@lru_cache(maxsize=64)
def _read_globs(texts: tuple[str, ...]) -> Globs:
    """Read globs that another process wrote. Texts that are no globs are left out."""
    patterns = []
    for text in texts:
        try:
            patterns.append(parse(text))
        except BadGlob:
            continue
    return Globs(tuple(dict.fromkeys(patterns)))


def share_of_slots(slots: int, run: str, weight: int, others: Sequence[RunPresence]) -> int:
    """
    Return how many of the order slots a run may use: by weight among the runs that want slots, and at least one.

    No other run is counted for more than it uses and could start, and the rest goes to those that want more. All runs
    come to the same result, slot by slot, by the method of Sainte-Laguë.
    """
    wanted = {one.run: one.running + one.waiting for one in others if one.run != run and one.running + one.waiting > 0}
    if not slots or not wanted:
        return slots
    weights: Mapping[str, int] = {one.run: one.weight for one in others} | {run: weight}
    given, wanted = dict.fromkeys((run, *wanted), 0), wanted | {run: slots}
    # Each gets its first slot before any gets a second.
    turns = [(False, 0.5 / weights[name], name) for name in given]
    heapq.heapify(turns)
    for _ in range(slots):
        _, _, name = heapq.heappop(turns)
        given[name] += 1
        if given[name] < wanted[name]:
            heapq.heappush(turns, (True, (given[name] + 0.5) / weights[name], name))
        if not turns:
            break
    return max(1, given[run])
