"""
The effects of an attempt's events on its task, from the order to the answer and its consequences.

Each function is given a task in a phase in which its event may happen; `state` has the table of those.
"""

from dataclasses import replace
from typing import Literal

from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.journal.ask_events import Ask
from forgepool.orchestrator.plan.budget import SeenUse, Use, find_carried_use, give_up_use, settle_use
from forgepool.orchestrator.state.review import Outstanding
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.steps.train_steps import settle_phases
from forgepool.orchestrator.state.task import IN_FLIGHT, IllegalStep, TaskState
from forgepool.supervisor.messages.answers import PersonApproval
from forgepool.workers.schema.orders import ReasonPack


def send_order(state: RunState, task: TaskState, event: e.OrderSent, at: float) -> None:
    if event.attempt != task.attempt + 1:
        raise IllegalStep(f"attempt {event.attempt} of '{task.id}' does not follow {task.attempt}")
    task.enter("running", at)
    task.intended = ()
    state.elsewhere.pop(task.id, None)
    task.attempt, task.base, task.result = event.attempt, event.base, None
    task.resumes, task.mends, task.interrupted, task.interrupted_base = event.resumes, event.mends, None, ""
    task.sent_to, task.context_share = event.host, 0.0
    if event.resumes is None:
        task.interrupted_paths = ()
        if event.leads:
            # A conversation that begins afresh has collected and heard nothing.
            state.lead.collected, state.lead.notes, state.lead.heard = {}, (), 0
    task.extra = task.wanted
    task.verdict, task.certificates = None, ()
    task.review.forget_candidate()
    task.kept = task.reviewed = False
    task.first_started = task.first_started or at
    task.overtaken, task.limit_until = 0, 0.0
    use = Use(
        reserved_usd=event.reserved_usd,
        reserved_tokens=event.reserved_tokens,
        resumes=event.resumes,
        carried=find_carried_use(task.uses, event.resumes),
        sent_at=event.issued_at,
        accounts=event.accounts,
    )
    task.uses = task.uses | {event.attempt: use}
    task.message = Outstanding(
        message_id=event.message_id, token=event.token, kind="order", task=task.id, issued_at=event.issued_at
    )
    if event.resumes is None:
        task.based_at = state.number + 1
    for passed in event.overtook:
        state.tasks[passed].overtaken += 1


def lose_order(task: TaskState, event: e.MessageLost, at: float) -> None:
    """
    Retry a lost order, at once the first time. It counts as trouble, since a task that kills its worker would be
    retried for ever.
    """
    task.message, task.lost = None, task.lost + 1
    first = task.troubles == 0
    task.fall_into_trouble(event.why, at)
    if first:
        task.not_before = at
    _give_up_use(task, event.used)
    interrupt_task(task, task.attempt)
    task.enter("pending", at)


def answer_order(state: RunState, task: TaskState, event: e.OrderAnswered, at: float) -> None:
    """Also late, of an attempt thought lost: then only a candidate changes anything."""
    result = event.result
    if task.phase == "pending" and result.outcome != "candidate":
        raise IllegalStep(f"a late answer to '{task.id}' that is no candidate changes nothing")
    queued = any(ask.verdict == "queued" for ask in task.asks.values()) and not result.resumable
    if task.phase == "running" and result.attempt != task.attempt:
        _give_up_use(task, None)
    asked_at = task.message.issued_at if task.message is not None else 0.0
    task.message, task.result, task.asks, task.money, task.lost = None, result, {}, None, 0
    task.works = task.works | e.list_kept(event)
    if result.lead is not None:
        state.lead.request, state.lead.notes = result.lead.request, result.lead.notes
    task.uses = settle_use(
        task.uses,
        result.attempt,
        result.spent,
        models=result.models,
        includes=result.includes,
        carried=result.carried,
    )
    task.interrupted, task.interrupted_base = None, ""
    if result.resumable:
        interrupt_task(task, result.attempt, touched=result.paths)
    match result.outcome:
        case "candidate":
            state.end_streak("order")
            # One that was kept goes on by a second answer of its attempt, too: it waits for nothing any more.
            task.troubles, task.waits, task.kept = 0, 0, False
            task.enter("candidate", at)
        case "infrastructure":
            if result.not_before is None:
                task.fall_into_trouble(result.detail, at)
                state.note_trouble("order", (task.id,), result.detail, at, asked_at=asked_at)
            elif queued:
                # It waits for paths, not for a time; that of another host's clock least of all.
                task.troubles, task.detail, task.not_before = 0, result.detail, at
            else:
                task.wait_for_limit(result.not_before, result.detail, at)
            task.enter("pending", at)
        case _:
            state.end_streak("order")
            task.troubles = task.waits = 0
            task.enter("waiting" if result.outcome == "waiting" else "answered", at)


def interrupt_task(task: TaskState, attempt: int, *, touched: tuple[str, ...] = ()) -> None:
    """The next attempt may go on from this one."""
    task.interrupted, task.interrupted_base = attempt, task.base
    task.interrupted_paths = _together(task.interrupted_paths, task.extra, touched)


def choose_profile(task: TaskState, event: e.ProfileChosen) -> None:
    task.profile = event.profile


def rebuild_context(task: TaskState, event: e.ContextRebuilt) -> None:
    task.rebuilds += event.changed
    task.context_share = event.after_tokens / max(1, event.window_tokens)


def ask_paths(task: TaskState, event: e.PathsAsked, at: float) -> None:
    if event.attempt != task.attempt:
        raise IllegalStep(f"attempt {event.attempt} of '{task.id}' is over and asks for nothing")
    if event.number in task.asks:
        raise IllegalStep(f"attempt {event.attempt} of '{task.id}' has asked {event.number} already")
    task.asks = task.asks | {event.number: Ask(number=event.number, paths=event.paths, at=at)}


def grant_paths(task: TaskState, event: e.PathsGranted) -> None:
    _close(task, event, "granted")
    task.extra = _together(task.extra, event.paths)


def queue_paths(task: TaskState, event: e.PathsQueued) -> None:
    _close(task, event, "queued", event.why)
    task.wanted = _together(task.wanted, event.paths)


def refuse_paths(task: TaskState, event: e.PathsRefused) -> None:
    _close(task, event, "refused", event.why)


def _close(
    task: TaskState,
    event: e.PathsGranted | e.PathsQueued | e.PathsRefused,
    verdict: Literal["granted", "queued", "refused"],
    why: str = "",
) -> None:
    """Keeps what a question was answered with."""
    number = next(reversed(task.asks), None) if event.number is None else event.number
    ask = None if number is None else task.asks.get(number)
    if ask is None or ask.verdict is not None or event.attempt != task.attempt:
        raise IllegalStep(f"attempt {event.attempt} of '{task.id}' waits for no paths")
    task.asks = task.asks | {ask.number: replace(ask, verdict=verdict, why=why)}


def extend_lock(task: TaskState, event: e.LockExtended) -> None:
    task.extra = (*task.extra, *event.paths)


def queue_entry(state: RunState, task: TaskState, event: e.EntryQueued, at: float) -> None:
    task.reviewed, task.verdict = event.reviewed, None
    task.enter("queued", at)
    task.queued_at = task.queued_at or state.number + 1


def _together(*some: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(path for paths in some for path in paths))


def return_task(state: RunState, task: TaskState, event: e.TaskReturned, at: float) -> None:
    """The hub was asked before: what was in doubt has not landed."""
    task.intended = ()
    charge(state, task, event.reason)
    if event.free:
        task.charged, task.moved = task.charged - 1, task.moved + 1
    task.enter("pending", at)


def pass_on(task: TaskState, event: e.TaskPassedOn, at: float) -> None:
    """Try it elsewhere; the attempt does not count."""
    task.unfit = task.unfit | {event.host: event.why}
    task.detail = f"{event.host}: {event.why}"
    task.enter("pending", at)


def fail_task(state: RunState, task: TaskState, event: e.TaskFailed, at: float) -> None:
    task.intended = ()
    charge(state, task, event.reason)
    task.enter("failed", at)


def charge(state: RunState, task: TaskState, reason: ReasonPack) -> None:
    """The next attempt, if there is one, begins a conversation afresh: it is to do better, not to go on."""
    task.charged += 1
    task.reasons = (*task.reasons, reason)
    task.begins, task.judged_on = "", state.tip
    task.interrupted, task.interrupted_base = None, ""
    task.detail = reason.summary


def end_unchanged(task: TaskState, event: e.TaskUnchanged, at: float) -> None:
    task.detail = event.why
    task.enter("no_changes", at)


def end_reported(task: TaskState, event: e.TaskReported, at: float) -> None:
    task.report, task.detail = event.report, event.report.summary
    task.enter("reported", at)


def end_already_there(task: TaskState, event: e.TaskAlreadyThere, at: float) -> None:
    task.commit, task.detail = event.commit, f"landed by run {event.by_run}"
    task.enter("already_there", at)


def block_task(task: TaskState, event: e.TaskBlocked, at: float) -> None:
    task.detail, task.blocked_by = event.why, event.by
    task.enter("blocked", at)


def park_task(task: TaskState, event: e.TaskParked, at: float) -> None:
    """Park the task. One that stopped because the run's budget was used up goes on from there when there is more."""
    if event.why == "budget" and task.phase == "answered" and task.result is not None:
        interrupt_task(task, task.result.attempt, touched=task.result.paths)
    task.detail, task.parked_for, task.intended = event.question, event.why, ()
    if event.why == "question":
        task.question, task.over = event.question, task.attempt
    else:
        task.question = ""
    task.enter("needs_human", at)


def cancel_task(task: TaskState, event: e.TaskCancelled, at: float) -> None:
    """Not while landing: by then the target may have moved."""
    if task.message is not None and task.message.kind == "order":
        _give_up_use(task, event.used)
    detail = f"cancelled by {event.by}: {event.why}" if event.by else "cancelled"
    task.message, task.detail, task.over, task.kept = None, detail, task.attempt, False
    task.enter("cancelled", at)


def _give_up_use(task: TaskState, seen: SeenUse | None) -> None:
    """Give up the attempt under way, and count its use. A holder was seen if a worker had taken it."""
    if (use := task.uses.get(task.attempt)) is not None and use.spent is None:
        task.uses = task.uses | {task.attempt: give_up_use(use, taken=bool(task.holder), seen=seen)}


def retry_task(task: TaskState, event: e.TaskRetried, at: float) -> None:
    task.kept = not event.afresh and task.parked_for == "budget" and stands(task)
    if event.afresh:
        task.charged, task.moved, task.over, task.commit, task.begins = 0, 0, task.attempt, "", event.begins
        task.interrupted, task.interrupted_base, task.wanted = None, "", ()
        task.review.forget_candidate()
    task.replies = (*task.replies, *event.notes)
    task.detail = "tried again by hand" if event.afresh else ""
    reopen(task, at)


def reply_to_task(task: TaskState, event: e.TaskReplied, at: float) -> None:
    if not task.question:
        raise IllegalStep(f"task '{task.id}' asks nothing")
    task.replies = (*task.replies, event.reply)
    task.detail = "answered by a person"
    reopen(task, at)


def stands(task: TaskState) -> bool:
    """Tell whether it has a candidate that was not judged unfavourably."""
    return bool(task.candidate) and all(reason.attempt != task.made_by for reason in task.reasons)


def begin_afresh(task: TaskState, at: float) -> None:
    """Forget what was made, said and decided of a task: it was about other work."""
    if task.message is not None:
        _give_up_use(task, None)
    task.message, task.result, task.verdict, task.certificates = None, None, None, ()
    task.charged, task.moved, task.over = 0, 0, task.attempt
    task.interrupted, task.interrupted_base, task.interrupted_paths = None, "", ()
    task.wanted, task.reasons, task.replies, task.begins = (), (), (), ""
    task.kept = task.reviewed = False
    task.commit, task.detail, task.queued_at, task.first_started, task.work_spans = "", "", 0, 0.0, ()
    task.review.forget_candidate()
    reopen(task, at)


def reopen(task: TaskState, at: float) -> None:
    task.troubles = task.waits = 0
    task.review.calm()
    task.not_before = task.limit_until = task.ended = 0.0
    task.parked_for, task.question, task.unfit = None, "", {}
    task.report = None
    task.enter("pending", at)


def await_review(state: RunState, task: TaskState, at: float) -> None:
    """Let it wait for a review: what was approved before is another diff where it stands now."""
    if task.review.answer is not None and task.review.answer.outcome == "passed":
        task.review.answer = None
    task.enter("reviewing", at)
    state.train.uncouple(task.id)
    settle_phases(state, at)


def send_review(state: RunState, task: TaskState, event: e.ReviewSent) -> None:
    review = task.review
    if review.message is not None or event.number != review.sent + 1:
        raise IllegalStep(f"review {event.number} of '{task.id}' does not follow {review.sent}")
    review.base = event.base
    if task.phase == "reported":
        state.lead.reviewed, state.lead.reviewed_text = task.id, event.synthesis
    review.open_use(event)
    review.message = Outstanding(
        message_id=event.message_id, token=event.token, kind="review", task=task.id, issued_at=event.issued_at
    )


def answer_review(task: TaskState, event: e.ReviewAnswered, at: float) -> None:
    """Take the answer. Any but a pass takes a candidate out of the train: its trials would change nothing."""
    review, result = task.review, event.result
    if review.message is None or review.message.message_id != result.request_id:
        raise IllegalStep(f"no review of '{task.id}' is waited for under {result.request_id}")
    review.settle(result)
    if review.puts_off(result, at):
        return
    if result.outcome == "stale":
        task.result, task.detail = None, result.detail
        task.enter("pending", at)
        return
    review.answer, review.verdicts = result, review.verdicts + 1
    if result.outcome != "passed" and task.phase != "reported":
        task.enter("reviewed", at)
    elif task.phase == "reviewing":
        task.enter("queued", at)


def lose_review(task: TaskState, event: e.MessageLost, at: float) -> None:
    """Asked for again, at once the first time; what it may have used stays counted."""
    first = task.review.troubles == 0
    task.review.lose()
    task.review.fall_into_trouble(event.why, at)
    if first:
        task.review.not_before = at


def approve_task(task: TaskState, event: e.TaskApproved, at: float) -> None:
    """A review under way is not wanted any more. What was given up waits for its lock, and has its attempt back."""
    if not task.candidate or task.candidate != event.commit:
        raise IllegalStep(f"'{task.id}' has no candidate {event.commit[:12]} that could be approved")
    if task.phase not in IN_FLIGHT:
        _take_back(task, at)
    elif task.phase in ("reviewing", "reviewed"):
        task.enter("queued", at)
    task.review.let_go()
    task.review.calm()
    task.review.person = PersonApproval(commit=event.commit, by=event.by)
    task.detail = f"approved by {event.by}"


def _take_back(task: TaskState, at: float) -> None:
    if task.phase in ("pending", "failed") and not task.kept:
        task.charged = max(0, task.charged - 1)
    task.kept, task.over = True, task.attempt
    reopen(task, at)


def reject_task(state: RunState, task: TaskState, event: e.TaskRejected, at: float) -> None:
    if not task.candidate or event.reason.attempt != task.made_by:
        raise IllegalStep(f"'{task.id}' has no candidate of attempt {event.reason.attempt} that could be rejected")
    task.message, task.kept, task.review.person = None, False, None
    reopen(task, at)
    charge(state, task, event.reason)
    task.enter("pending" if event.again else "failed", at)


def restore_candidate(task: TaskState, at: float) -> None:
    # Whether it was kept is not asked: journals of earlier versions have it of others as well.
    if task.phase != "pending" or not task.candidate:
        raise IllegalStep(f"'{task.id}' has no candidate that could go on")
    task.kept = False
    task.enter("candidate", at)
