"""How a run stands whose target a gate keeps, in words; and which plans cannot go through one. Pure."""

from collections.abc import Iterator

from forgepool.orchestrator.decisions.evidence import count_of
from forgepool.orchestrator.plan.document import Plan
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import TERMINAL, TaskState
from forgepool.supervisor.messages import ReviewPolicy


def why_not_through(plan: Plan, gate: str) -> str | None:
    """What a plan says that a gate could not keep to, in one sentence; None where it can go through it."""
    found = next(_beyond(plan), None)
    if found is None:
        return None
    what, mend = found
    return f"{plan.target} is kept by {gate}: {what}; {mend}, or land past it with --own-train"


def _beyond(plan: Plan) -> Iterator[tuple[str, str]]:
    """What is a person's word to the run alone, each with what would be right."""
    if isinstance(plan.checks, tuple) and plan.checks:
        what = (
            f"plan {plan.name} has checks of its own, and those of {plan.target}:forgepool.yaml alone are asked there"
        )
        yield what, "put them there, and say nothing of `checks` in the plan"
    for task in plan.tasks:
        if task.grants or task.waive:
            key = "grants" if task.grants else "waive"
            what = f"task '{task.id}' has `{key}`, and nobody's word is taken there for what may be changed"
            yield what, "take it out, and let a person push what is protected"
    policy = plan.review.policy if plan.review is not None and plan.review != "none" else ReviewPolicy()
    if policy.by or policy.script is not None or policy.reviewers > 1:
        what = f"plan {plan.name} says by whom it is reviewed, and there its own reviewers are asked"
        yield what, "leave `by`, `scripted` and `reviewers` out"
    if plan.gate.wave is not None:
        yield f"plan {plan.name} has a `wave`, which belongs to a train of the run's own", "take it out"


def unheard(state: RunState) -> str:
    """What is said of a gate that gives no sign any more."""
    where = f"forgepool queue serve --repo {state.hub} --target {state.target}"
    waiting = count_of(len(state.in_phase("given")), "candidate")
    return f"nothing is heard of {state.gate}, which has {waiting} of this run; keep it again, on its host: {where}"


def gate_words(state: RunState, task: TaskState) -> str:
    """What a candidate waits for that a gate has, in a few words."""
    wanted_back = "is wanted back from" if task.recalled else "at"
    if task.told is not None and task.told.word == "wants_person":
        return f"a person is wanted at {state.gate}: {task.told.why}"
    if state.gate_away:
        return f"{wanted_back} {state.gate}, of which nothing is heard"
    return f"{wanted_back} {state.gate}"


def why_held_up(state: RunState, *, patient: bool) -> str:
    """Why a run cannot go on by itself, whatever it waits for; empty where it may."""
    given = state.in_phase("given")
    wanted = [task for task in given if task.told is not None and task.told.word == "wants_person"]
    waiting = [task for task in wanted if not task.recalled]
    if given and len(waiting) == len(given):
        more = f", and {len(waiting) - 1} more wait so" if len(waiting) > 1 else ""
        return f"'{waiting[0].id}': {gate_words(state, waiting[0])}{more}"
    if state.gate_away and not patient:
        left = sum(task.phase not in TERMINAL for task in state.tasks.values())
        return f"{state.gate_away} ({count_of(left, 'task')} left)"
    return ""
