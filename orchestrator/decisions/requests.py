"""Changes that a person's request makes in a run. Pure."""

from collections.abc import Iterator, Mapping, Sequence

from forgepool.orchestrator.decisions.orders.money import can_pay
from forgepool.orchestrator.decisions.orders.purse import expect_use
from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.decisions.queue.submissions import entry_of
from forgepool.orchestrator.decisions.reasons import again_or_stop, reason_of_rejection
from forgepool.orchestrator.decisions.reviews import post_merge
from forgepool.orchestrator.decisions.reviews.task_reviews import can_pay_review
from forgepool.orchestrator.journal.events import (
    BudgetSet,
    CandidateRestored,
    EntryRecalled,
    Event,
    LeadSpoken,
    ProfileChosen,
    TaskApproved,
    TaskCancelled,
    TaskRejected,
    TaskReplied,
    TaskRetried,
    TaskReturned,
    TasksAdded,
    TasksDropped,
    TreasuryLimited,
)
from forgepool.orchestrator.journal.inbox import PersonRequest
from forgepool.orchestrator.journal.queue_events import Asks
from forgepool.orchestrator.plan.addition import MOST_BY_LEAD, MOST_BY_PERSON, check_growth
from forgepool.orchestrator.plan.budget import Budget
from forgepool.orchestrator.plan.readiness import ready
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.steps.task_steps import stands
from forgepool.orchestrator.state.task import IN_FLIGHT, RETRIABLE, TERMINAL, Phase, TaskState
from forgepool.workers.schema.orders import Reply

_SPOKEN = ("review_failed", "rejected")
"""Reasons that a person may overrule; no word makes up for a red check."""


def approve(course: PlanIndex, state: RunState, task_id: str, *, by: str) -> list[Event]:
    """Empty where there is nothing to approve, as `why_not_approve` says."""
    if why_not_approve(course, state, task_id) is not None:
        return []
    return [TaskApproved(task=task_id, by=by, commit=state.tasks[task_id].candidate)]


def reject(course: PlanIndex, state: RunState, task_id: str, *, by: str, why: str) -> list[Event]:
    if why_not_reject(state, task_id) is not None:
        return []
    task = state.tasks[task_id]
    reason = reason_of_rejection(task, by=by, why=why)
    after = again_or_stop(course, task, reason)
    rung = after.rung if isinstance(after, TaskReturned) else 0
    return [TaskRejected(task=task_id, by=by, reason=reason, again=isinstance(after, TaskReturned), rung=rung)]


def why_not_approve(course: PlanIndex, state: RunState, task_id: str) -> str | None:
    """Return why it cannot be approved, to be read after its name; None where it can."""
    task = state.tasks[task_id]
    if task.phase == "landed":
        return f"has landed already, as {task.commit[:12]}"
    if task.phase == "landing":
        return "is just landing"
    if task.phase == "given":
        return _at_gate(state, task, "approve")
    if not course.wants_review(task):
        return "wants no approval: its candidates land by their checks alone"
    if task.review.person is not None and task.phase != "cancelled":
        return f"is approved already, by {task.review.person.by}"
    if not task.candidate:
        return f"has no candidate to approve, it is {task.phase}"
    if task.phase in IN_FLIGHT or (task.phase == "needs_human" and _waits_for_word(task)) or _overruled(task):
        return None
    return f"is {task.phase} for another reason than its review: {task.detail}; to start it again: `forgepool retry`"


def why_not_reject(state: RunState, task_id: str) -> str | None:
    task = state.tasks[task_id]
    if task.phase == "landed":
        return f"has landed already, as {task.commit[:12]}; a landing is not taken back"
    if task.phase == "given":
        return _at_gate(state, task, "reject")
    if task.phase == "landing" or task.landing_in_doubt:
        return "may be landing just now, and is not called back"
    waiting = task.phase in IN_FLIGHT or task.restorable or (task.phase == "needs_human" and _waits_for_word(task))
    if not task.candidate or not waiting:
        return f"has no candidate that waits, it is {task.phase}"
    return None


def _at_gate(state: RunState, task: TaskState, word: str) -> str:
    entry = entry_of(Asks(run=state.run, task=task.id, number=task.given))
    return f"is in the hands of a gate; say it there: forgepool {word} {state.gate} {entry}"


def restore_approved(course: PlanIndex, state: RunState) -> list[Event]:
    """An approved candidate whose lock is free, and with it all it may not stand beside; one at a time."""
    waiting = [task.id for task in state.phases.pending_again() if task.restorable]
    if not waiting:
        return []
    done = course.find_done(state)
    free = ready(course.graph, landed=done, in_flight=course.in_flight(state), waiting=waiting, slots=1)
    return [CandidateRestored(task=one) for one in free]


def _waits_for_word(task: TaskState) -> bool:
    """Tell whether it is parked with a candidate that was not judged unfavourably."""
    judged = any(reason.attempt == task.made_by for reason in task.reasons)
    return task.parked_for in ("review", "budget") and bool(task.candidate) and not judged


def _overruled(task: TaskState) -> bool:
    """Tell whether its last candidate was given up only because a reviewer or a person objected."""
    if task.phase not in ("failed", "pending") or not task.reasons:
        return False
    last = task.reasons[-1]
    return last.attempt == task.made_by and last.kind in _SPOKEN


CONVERSING = ("builtin", "scripted")
"""Agents whose conversation the harness leads."""


def grant_request(course: PlanIndex, state: RunState, request: PersonRequest) -> list[Event]:
    """The events of a request; empty where there is nothing it could change."""
    match request.do:
        case "cancel":
            return [_called_off(state, one) for one in _named(state, request) if _may_cancel(state, one)]
        case "retry":
            wanted = [one for one in _named(state, request) if state.tasks[one].phase in RETRIABLE]
            said = {
                "note": request.text,
                "by": request.by if request.text else "",
                "model": request.model,
                "begins": request.begins,
            }
            retried, beyond = _together(course, state, wanted), _find_limits_passed(state, wanted)
            passed = [one.model_copy(update={"effect": "passed", "by": request.by}) for one in beyond]
            changed = bool(request.model or request.begins)
            goes_on = set() if changed else {one for one in wanted if _find_limits_passed(state, [one])}
            return [
                *passed,
                *(
                    TaskRetried(task=one, afresh=one not in goes_on, **(said if one in wanted else {}))
                    for one in retried
                ),
            ]
        case "context":
            shown = [one for one in _named(state, request) if may_choose_profile(course, state, one)]
            return [ProfileChosen(task=one, profile=request.text) for one in shown]
        case "answer":
            return [*_answered(course, state, request)]
        case "approve" if request.wave:
            return post_merge.approve_landings(course, state, tip=request.candidate, by=request.by)
        case "approve" | "reject":
            return _spoken(course, state, request)
        case "say":
            return [LeadSpoken(task=request.task, text=request.text, by=request.by)] if request.task else []
        case "add" | "budget":
            return _change_terms(course, state, request)
        case "pause" | "go" | "hold" | "release" | "reclass" | "grant":
            return []  # Of a gate alone, where `orchestrator.decisions.queue.intake` grants them.


def why_refused(course: PlanIndex, state: RunState, request: PersonRequest) -> str | None:
    """Why a person's word holds no more, or why no task can be added; None where it is granted, or was before."""
    if request.do == "add" and request.key not in state.additions:
        return why_not_grow(course, state, _addition(request), request.drop)
    if request.budget is not None and _is_too_little(course, state, request.budget):
        return f"more of the budget of run {state.run} is spent or reserved by now than it was to be set to"
    return overtaken(state, request)


def overtaken(state: RunState, request: PersonRequest) -> str | None:
    """Why a person's word holds no more: there is another candidate than the one it was said of. None where it does."""
    if request.wave and request.candidate != state.tip:
        return f"the wave up to {request.candidate[:12]} was approved, and {state.target} is at {state.tip[:12]} now"
    task = state.tasks.get(request.task or "")
    if request.do not in ("approve", "reject") or task is None or request.candidate in ("", task.candidate):
        return None
    now = f"{task.candidate[:12]} is" if task.candidate else "none is"
    return f"'{request.do}' was said of candidate {request.candidate[:12]} of '{task.id}', and {now} there now"


def _addition(request: PersonRequest) -> TasksAdded:
    return TasksAdded(tasks=request.tasks, by=request.by, why=request.text, request=request.key)


def grow(course: PlanIndex, state: RunState, added: TasksAdded, drop: Sequence[str] = ()) -> list[Event]:
    """
    Add tasks to the run in place of those that are dropped. Empty where `why_not_grow` says why, and for a request that
    was granted before.
    """
    if added.request in state.additions or why_not_grow(course, state, added, drop) is not None:
        return []
    dropped = [TasksDropped(tasks=tuple(drop), by=added.by, why=added.why)] if drop else []
    return [*dropped, added]


def why_not_grow(course: PlanIndex, state: RunState, added: TasksAdded, drop: Sequence[str] = ()) -> str | None:
    """Return, in one sentence, why these tasks can be neither dropped nor added; None where they can."""
    if (why := why_not_drop(state, drop)) is not None:
        return why
    by_lead = "#" in added.request
    before = sum(count for key, count in state.additions.items() if ("#" in key) == by_lead)
    most, whose = (MOST_BY_LEAD, "a lead") if by_lead else (MOST_BY_PERSON, "a person")
    if before + len(added.tasks) > most:
        return (
            f"{len(added.tasks)} more tasks would be too many: {whose} may add {most:,} to one run, and {before:,} are "
            "added; add fewer"
        )
    return check_growth(course.plan, added.tasks, drop)


def why_not_drop(state: RunState, drop: Sequence[str]) -> str | None:
    for one in drop:
        task = state.tasks.get(one)
        if task is None:
            return f"run {state.run} has no task '{one}' to drop; `forgepool status {state.run}` lists its tasks"
        if task.phase != "pending" or task.attempt:
            stands = "has begun" if task.phase == "pending" else f"is {task.phase.replace('_', ' ')}"
            mend = f"; to end it: forgepool cancel {state.run} {one}" if task.phase not in TERMINAL else ""
            return f"task '{one}' {stands}, and only a task that has not begun can be dropped{mend}"
    return None


_FATES: Mapping[Phase, str] = {
    "failed": "has failed",
    "blocked": "is blocked by a task that has failed",
    "cancelled": "was cancelled",
}


def find_ended(state: RunState) -> dict[str, str]:
    """Return, by task that no new task may need, what became of it, for `read_addition`."""
    ended = {task.id: _FATES[task.phase] for task in state.in_phase(*_FATES)}
    return {**dict.fromkeys(state.dropped, "was dropped from the run"), **ended}


def may_choose_profile(course: PlanIndex, state: RunState, task_id: str) -> bool:
    """Tell whether a conversation is shown to a model, or will be; a task that waits for a person goes on later."""
    phase = state.tasks[task_id].phase
    return course.tasks[task_id].agent.kind in CONVERSING and (phase not in TERMINAL or phase == "needs_human")


def _change_terms(course: PlanIndex, state: RunState, request: PersonRequest) -> list[Event]:
    """Return the events of a request for other tasks of the run, or for another budget than it has."""
    if request.do == "add":
        return grow(course, state, _addition(request), request.drop)
    budget = request.budget
    if budget is None or budget == course.within(None).budget(state) or _is_too_little(course, state, budget):
        return []
    return with_budget(course, state, budget)


def _is_too_little(course: PlanIndex, state: RunState, budget: Budget) -> bool:
    """Tell whether the run has used or reserved more, in all the time that it lasts."""
    return next(course.within(None).ledger(state).above(budget), None) is not None


def with_budget(course: PlanIndex, state: RunState, budget: Budget) -> list[Event]:
    """Another budget for the run; what had stopped for want of one goes on where it was."""
    return [BudgetSet(budget=budget), *_reopened(course, state, _find_parked_for_budget(state))]


def reopen_for_budget(course: PlanIndex, state: RunState) -> list[TaskRetried]:
    """Reopen what had stopped for want of budget, where enough has come back for it since."""
    stopped = _find_parked_for_budget(state)
    if not stopped:
        return []
    expected = expect_use(course, state)
    return _reopened(
        course,
        state,
        [
            task
            for task in stopped
            if (can_pay_review(course, state, task) if stands(task) else can_pay(course, state, task, expected))
        ],
    )


def _find_limits_passed(state: RunState, tasks: Sequence[str]) -> list[TreasuryLimited]:
    """Return the treasury's limits that a person was asked about for these tasks."""
    asked = [state.tasks[one].detail for one in tasks if state.tasks[one].parked_for == "budget"]
    limits = (one for one in state.treasury.values() if one.effect == "asks")
    return [one for one in limits if any(one.words in question for question in asked)]


def _find_parked_for_budget(state: RunState) -> list[TaskState]:
    return [task for task in state.in_phase("needs_human") if task.parked_for == "budget"]


def _reopened(course: PlanIndex, state: RunState, stopped: Sequence[TaskState]) -> list[TaskRetried]:
    """Let tasks go on where they were, with those that were blocked for want of them."""
    chosen = with_blocked(course, state, {task.id for task in stopped}) if stopped else set()
    return [TaskRetried(task=task.id, afresh=False) for task in course.plan.tasks if task.id in chosen]


def _answered(course: PlanIndex, state: RunState, request: PersonRequest) -> Iterator[Event]:
    """The task goes on, and what was blocked for want of it may, too."""
    task = state.tasks.get(request.task or "")
    if task is None or not task.question:
        return
    reply = Reply(question=task.question, answer=request.text, by=request.by)
    for one in _together(course, state, [task.id]):
        yield TaskReplied(task=one, reply=reply) if one == task.id else TaskRetried(task=one, afresh=False)


def _spoken(course: PlanIndex, state: RunState, request: PersonRequest) -> list[Event]:
    """A person's word about a candidate; what was blocked for want of it may go on where it does."""
    if request.task is None or request.task not in state.tasks or overtaken(state, request) is not None:
        return []
    if request.do == "approve":
        said = approve(course, state, request.task, by=request.by)
    else:
        said = reject(course, state, request.task, by=request.by, why=request.text)
    over = any(isinstance(one, TaskRejected) and not one.again for one in said)
    if not said or over:
        return said
    blocked = with_blocked(course, state, {request.task}) - {request.task}
    return [*said, *(TaskRetried(task=one.id, afresh=False) for one in course.plan.tasks if one.id in blocked)]


def _named(state: RunState, request: PersonRequest) -> list[str]:
    named = (request.task,) if request.task is not None else request.named or tuple(state.tasks)
    return [one for one in named if one in state.tasks]


def _may_cancel(state: RunState, task_id: str) -> bool:
    """A landing under way, or in doubt, is not called back: the target may have moved."""
    task = state.tasks[task_id]
    if task.phase == "given":
        return not task.recalled
    return task.phase not in TERMINAL and task.phase != "landing" and not task.landing_in_doubt


def _called_off(state: RunState, task_id: str) -> TaskCancelled | EntryRecalled:
    """Cancel the task. A delegated one is asked back from the queue, which may be landing it just now."""
    return EntryRecalled(task=task_id) if state.tasks[task_id].phase == "given" else TaskCancelled(task=task_id)


def _together(course: PlanIndex, state: RunState, wanted: list[str]) -> list[str]:
    """The tasks themselves, what they need and lack, and what was blocked for want of any of these; in plan order."""
    chosen = with_blocked(course, state, _with_needs(course, state, wanted))
    return [task.id for task in course.plan.tasks if task.id in chosen]


def with_blocked(course: PlanIndex, state: RunState, chosen: set[str]) -> set[str]:
    """These, and what was blocked for want of any of them."""
    chosen = set(chosen)
    blocked_before = {task.id for task in state.in_phase("blocked")}
    changed = True
    while changed:
        blocked = {
            task.id
            for task in course.plan.tasks
            if task.id in blocked_before and any(need.id in chosen for need in task.needs)
        }
        changed = not blocked <= chosen
        chosen |= blocked
    return chosen


def _with_needs(course: PlanIndex, state: RunState, wanted: list[str]) -> set[str]:
    """A task whose needs stay failed would be blocked again at once."""
    chosen: set[str] = set()
    left, done = list(wanted), course.find_done(state)
    while left:
        task_id = left.pop()
        if task_id not in chosen and state.tasks[task_id].phase in RETRIABLE:
            chosen.add(task_id)
            left += [need.id for need in course.tasks[task_id].needs if need.id not in done]
    return chosen
