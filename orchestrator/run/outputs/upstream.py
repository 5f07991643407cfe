"""
What a task is told of those it needs: what their agents said they did, and where it landed. Pure.

How it is shown to a model is the worker's affair. What is said is bounded, as it travels with the order: a claim may be
long, a group of thousands may be needed, and whoever wants more reads the commits.
"""

from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.plan.document import Task, TaskNeed
from forgepool.orchestrator.state.run import RunState
from forgepool.workers.schema.orders import Prior

_SUMMARY_CHARACTERS = 4_000
_FULL_CHARACTERS = 64_000
_ALL_CHARACTERS = 256_000
_SUMMARY_PATHS = 100
_FULL_PATHS = 2_000


def priors(course: PlanIndex, state: RunState, planned: Task) -> tuple[Prior, ...]:
    """Of what it needs and has landed, in the plan's order; once the bound is reached, without the claims."""
    left = _ALL_CHARACTERS
    found = []
    for need in planned.needs:
        prior = _prior(course, state, need)
        size = len(prior.summary) + sum(map(len, prior.paths))
        if size > left:
            prior = prior.model_copy(update={"summary": "", "paths": ()})
            size = 0
        left -= size
        found.append(prior)
    return tuple(found)


def _prior(course: PlanIndex, state: RunState, need: TaskNeed) -> Prior:
    task = state.tasks[need.id]
    summary = task.result.claimed_summary if task.result else ""
    paths = task.result.paths if task.result else ()
    return Prior(
        task=need.id,
        full=need.full,
        title=course.tasks[need.id].title,
        summary=summary[: _FULL_CHARACTERS if need.full else _SUMMARY_CHARACTERS],
        commit=task.commit,
        paths=paths[: _FULL_PATHS if need.full else _SUMMARY_PATHS],
    )
