"""
From an event of the journal to the message it stands for. Pure, so that a message is sent again as it was.
"""

from orchestrator.budget import Use
from orchestrator.course import Course
from orchestrator.locks import may_ask
from orchestrator.outputs import priors
from orchestrator.state import State
from orchestrator.task_state import Outstanding, TaskState
from supervisor.definitions import CheckDefinition
from supervisor.messages import CheckRequest, EntryRef, LandRequest
from workers.messages import Limits, WorkOrder
from workers.refs import candidate_ref

_MAY_LIE_S = 3600.0
"""Seconds a message may lie in a queue before it is stale. Counted from each sending."""


def order(course: Course, state: State, task: TaskState, sent: Outstanding, *, now: float, resent: bool) -> WorkOrder:
    planned = course.tasks[task.id]
    return WorkOrder(
        order_id=sent.message_id,
        token=sent.token,
        run=state.run,
        task=task.id,
        attempt=task.attempt,
        hub=state.hub,
        target=state.target,
        base=task.base,
        title=planned.title,
        description=planned.description,
        type=planned.type,
        agent=planned.agent,
        files=planned.files or (),
        acceptance=planned.acceptance,
        env=planned.env,
        policy=planned.policy,
        unattended=planned.unattended,
        network=planned.network,
        context=task.profile or None,
        setups=tuple(check.needs for check in _plan_checks(course) if check.needs is not None),
        limits=_limits(planned.limits, task),
        reasons=task.reasons,
        priors=priors(course, state, planned),
        resumes=task.resumes,
        carried=task.uses.get(task.attempt, Use()).carried,
        replies=task.replies,
        may_ask_paths=may_ask(course, task.id),
        issued_at=sent.issued_at,
        start_by=now + _MAY_LIE_S,
        resent=resent,
    )


def _limits(own: Limits, task: TaskState) -> Limits:
    """The task's own, within what was reserved for this attempt besides what it carries over."""
    use = task.uses.get(task.attempt, Use())
    return own.model_copy(
        update={
            "cost_usd": _less(own.cost_usd, use.limit_usd),
            "tokens": _less(own.tokens, use.limit_tokens),
        }
    )


def _less(own: float | None, reserved: float | None) -> float | None:
    return min((one for one in (own, reserved) if one is not None), default=None)


def check_request(course: Course, state: State, task: TaskState, sent: Outstanding, *, now: float) -> CheckRequest:
    return CheckRequest(
        request_id=sent.message_id,
        token=sent.token,
        run=state.run,
        hub=state.hub,
        target=state.target,
        base=task.base,
        entries=(_entry(course, state, task),),
        style=course.plan.landing,
        plan_checks=_plan_checks(course),
        checks_waived=course.plan.checks == "none",
        had_gate_file=state.gate_file,
        issued_at=sent.issued_at,
        start_by=now + _MAY_LIE_S,
    )


def land_request(course: Course, state: State, task: TaskState, sent: Outstanding, *, now: float) -> LandRequest:
    if task.verdict is None or task.verdict.commit is None or task.verdict.tree is None:
        raise ValueError(f"'{task.id}' is to land without a verdict")
    return LandRequest(
        **dict(check_request(course, state, task, sent, now=now)),
        commit=task.verdict.commit,
        tree=task.verdict.tree,
        certificates=task.certificates,
    )


def _plan_checks(course: Course) -> tuple[CheckDefinition, ...]:
    checks = course.plan.checks
    return checks if isinstance(checks, tuple) else ()


def _entry(course: Course, state: State, task: TaskState) -> EntryRef:
    if task.result is None or task.result.commit is None:
        raise ValueError(f"'{task.id}' stands in the train without a candidate")
    attempt = task.result.attempt
    return EntryRef(
        task=task.id,
        attempt=attempt,
        commit=task.result.commit,
        ref=candidate_ref(state.run, task.id, attempt),
        message=_landing_message(course, state, task, attempt),
    )


def _landing_message(course: Course, state: State, task: TaskState, attempt: int) -> str:
    """Of the commit on the target: what was done, and the trailers by which history is read again."""
    planned = course.tasks[task.id]
    return (
        f"{planned.title}\n\n"
        f"Forgepool-Run: {state.run}\n"
        f"Forgepool-Task: {task.id}\n"
        f"Forgepool-Attempt: {attempt}\n"
        f"Forgepool-Agent: {planned.agent.kind}\n"
    )
