"""
The target before anything has landed on it: when it is checked, what waits for the answer, what is said of it. Pure.

The first agents work meanwhile. A call to a model that somebody pays for waits until it is known that work on the
target can land at all.
"""

from collections.abc import Sequence

from forgepool.orchestrator.decisions.orders.start_orders import find_tasks_held_by_base
from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.decisions.reviews.post_merge import request_all_checks
from forgepool.orchestrator.journal.events import GateHalted, WaveSent
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import IN_FLIGHT, is_pausing
from forgepool.supervisor.messages import CheckResult
from forgepool.workers.schema.error_lines import error_lines


def next_base(state: RunState, now: float) -> list[WaveSent]:
    """Return the request for all checks on the target, where nothing is known of it yet."""
    wave = state.wave
    if not wave.base_wanted or wave.message is not None or is_pausing(wave.not_before, now):
        return []
    return [request_all_checks(state, now, "base", since=state.tip, tasks=())]


def base_words(state: RunState) -> str:
    """Return why no model is called yet."""
    red = state.wave.base_red
    return "no model is called until the target has been checked" if red is None else f"waits: {red.detail}"


def halt_for_base(course: PlanIndex, state: RunState) -> list[GateHalted]:
    """Return that the run stops where nothing but calls to models is left, and the target is red."""
    red = state.wave.base_red
    if red is None or state.halted or state.outstanding() or state.in_phase(*IN_FLIGHT):
        return []
    landed = {task.id for task in state.in_phase("landed")}
    able = [task.id for task in state.in_phase("pending") if course.graph.needs_landed(task.id, landed)]
    held = find_tasks_held_by_base(course, state)
    if not able or not held.issuperset(able):
        return []
    anyway = "resume without one, where these tasks are to fix it"
    return [GateHalted(why=f"{describe_red_target(state, red)}; no model was called for {_some(able)}; {anyway}")]


def describe_red_target(state: RunState, result: CheckResult, *, serving: bool = False) -> str:
    """Return what is wrong with the target and what to do, in one line."""
    after = ": the queue continues by itself" if serving else f", then: forgepool resume {state.run}"
    return f"{result.detail}; push a fix to {state.target}{after}"


def where_to_look(result: CheckResult) -> list[str]:
    """Return the first error lines of each red check, the log's path, and the command that shows it again."""
    found = []
    for failure in result.failures:
        found += [f"{failure.check}: {line}" for line in error_lines(failure.log_tail)]
        found += [f"log: {failure.log}"] if failure.log else []
    return [*found, f"see it again: {result.reproduce}"] if result.reproduce else found


def _some(tasks: Sequence[str]) -> str:
    return ", ".join(tasks[:5]) + (f" and {len(tasks) - 5} more" if len(tasks) > 5 else "")
