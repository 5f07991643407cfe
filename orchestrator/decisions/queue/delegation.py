"""What a run that holds no train of its own does with its candidates, and with what the gate says of them: pure."""

from forgepool.orchestrator.decisions.orders.retries import TRIED_CHARS, again_or_stop
from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.journal.events import EntryGiven, Event, TaskCancelled, TaskFailed
from forgepool.orchestrator.journal.queue_events import GateAnswer
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import TaskState
from forgepool.workers.schema.orders import ReasonPack


def delegate_queued(state: RunState) -> list[EntryGiven]:
    """Whatever stands in line here goes to the gate, but for what may have landed by the run's own train."""
    if not state.gate:
        return []
    waiting = state.in_phase("queued", "testing", "reviewing")
    waiting.sort(key=lambda task: task.queued_at)
    return [
        EntryGiven(task=task.id, number=task.given + 1, commit=task.candidate, gate=state.gate, tip=state.tip)
        for task in waiting
        if not task.landing_in_doubt and task.candidate
    ]


def settle_replies(course: PlanIndex, state: RunState) -> list[Event]:
    """What follows from its answers."""
    events: list[Event] = []
    for task in state.in_phase("given"):
        if task.told is not None:
            events += _after(course, task, task.told)
    return events


def _after(course: PlanIndex, task: TaskState, answer: GateAnswer) -> list[Event]:
    if answer.word in ("wants_person", "in_line", "landed"):
        return []
    if task.recalled:
        return [TaskCancelled(task=task.id)]
    if answer.word == "withdrawn":
        # By a person, who does not want to see it again a minute later.
        return [TaskFailed(task=task.id, reason=_reason(task, answer))]
    return [again_or_stop(course, task, _reason(task, answer))]


def _reason(task: TaskState, answer: GateAnswer) -> ReasonPack:
    """The gate's, told of the attempt that made it."""
    tried = task.result.claimed_summary[:TRIED_CHARS] if task.result is not None else ""
    if answer.reason is not None:
        return answer.reason.model_copy(update={"attempt": task.made_by, "tried": tried})
    kind = "rejected" if answer.word == "withdrawn" else "refused"
    return ReasonPack.model_validate(
        {"attempt": task.made_by, "kind": kind, "summary": f"{answer.gate}: {answer.why}", "tried": tried}
    )
