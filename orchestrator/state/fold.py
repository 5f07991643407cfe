"""
Fold events into a state. `apply` is the one writer of a state.

Each event has one step. A step names the phases in which its task may be. In any other phase the event is an
IllegalStep: it is refused before it is written to the journal.
"""

from typing import assert_never, get_args

from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.steps import delegation, messages, orders, post_merge, queue, reviews, runs, train
from forgepool.orchestrator.state.task import IN_TRAIN, RETRIABLE, TERMINAL, Phase

_GOING_ON: tuple[Phase, ...] = tuple(
    phase for phase in get_args(Phase) if phase not in TERMINAL or phase == "needs_human"
)
_IN_REVIEW: tuple[Phase, ...] = ("queued", "testing", "reviewing")
_MADE: tuple[Phase, ...] = ("answered", "candidate", "queued", "testing", "reviewing", "reviewed")
_MAY_BE_RETURNED: tuple[Phase, ...] = (*_MADE, "given")
_MAY_BE_PARKED: tuple[Phase, ...] = ("pending", "queued", "testing", "answered", "reviewing", "reviewed")
_MAY_BE_CANCELLED: tuple[Phase, ...] = ("pending", "running", *_MADE, "given", "needs_human")
_MAY_BE_APPROVED: tuple[Phase, ...] = (*_MADE[1:], "pending", "failed", "needs_human")


def apply(state: RunState, event: e.Event, *, number: int, at: float) -> None:
    """
    Apply one event to the state. `number` is its number in the journal, `at` its time in Unix seconds.

    Raises:
        IllegalStep: it cannot happen now; the state is unchanged.
    """
    if isinstance(event, e.RunEvent):
        _apply_run_event(state, event, at)
    elif isinstance(event, e.OrderEvent):
        _apply_order_event(state, event, at)
    elif isinstance(event, e.TaskEvent):
        _apply_task_event(state, event, at)
    elif isinstance(event, e.TrainEvent):
        _apply_train_event(state, event, at)
    else:
        _apply_queue_event(state, event, at)
    _place_in_train(state, event)
    state.number, state.at = number, at


def _apply_run_event(state: RunState, event: e.RunEvent, at: float) -> None:
    match event:
        case e.RunStarted():
            runs.start_run(state, event)
        case e.RunResumed():
            runs.resume_run(state, event, at)
        case e.RunEnded():
            runs.end_run(state)
        case e.PlanRevised():
            runs.revise_plan(state, event, at)
        case e.BudgetSet():
            state.budget = event.budget
        case e.GateHalted():
            runs.halt_gate(state, event)
        case e.RunPaused() | e.WorkersMissing() | e.PartRestarted():
            pass
        case other:
            assert_never(other)


def _apply_order_event(state: RunState, event: e.OrderEvent, at: float) -> None:
    match event:
        case e.OrderSent():
            orders.send_order(state, state.step(event.task, "pending"), event, at)
        case e.MessageTaken():
            messages.take_message(state, event)
        case e.MessageLost():
            messages.lose_message(state, event, at)
        case e.OrderAnswered():
            orders.answer_order(state.step(event.task, "running", "pending"), event, at)
        case e.PathsAsked():
            orders.ask_paths(state.step(event.task, "running"), event, at)
        case e.PathsGranted():
            orders.grant_paths(state.step(event.task, "running"), event)
        case e.PathsQueued():
            orders.queue_paths(state.step(event.task, "running"), event)
        case e.PathsRefused():
            orders.refuse_paths(state.step(event.task, "running"), event)
        case e.LockExtended():
            orders.extend_lock(state.step(event.task, "candidate"), event)
        case e.ProfileChosen():
            orders.choose_profile(state.step(event.task, *_GOING_ON), event)
        case e.ContextRebuilt():
            orders.rebuild_context(state.step(event.task, "running"), event)
        case other:
            assert_never(other)


def _apply_task_event(state: RunState, event: e.TaskEvent, at: float) -> None:
    match event:
        case e.ReviewAwaited():
            reviews.await_review(state, state.step(event.task, "queued", "testing"), at)
        case e.ReviewSent():
            reviews.send_review(state.step(event.task, *_IN_REVIEW), event)
        case e.ReviewAnswered():
            reviews.answer_review(state.step(event.task, *_IN_REVIEW), event, at)
        case e.TaskReturned():
            orders.return_task(state.step(event.task, *_MAY_BE_RETURNED), event, at)
        case e.TaskFailed():
            orders.fail_task(state.step(event.task, *_MAY_BE_RETURNED), event, at)
        case e.TaskUnchanged():
            orders.end_unchanged(state.step(event.task, "answered"), event, at)
        case e.TaskAlreadyThere():
            orders.end_already_there(state.step(event.task, "pending"), event, at)
        case e.TaskBlocked():
            orders.block_task(state.step(event.task, "pending", "queued", "testing"), event, at)
        case e.TaskParked():
            orders.park_task(state.step(event.task, *_MAY_BE_PARKED), event, at)
        case e.TaskCancelled():
            orders.cancel_task(state.step(event.task, *_MAY_BE_CANCELLED), event, at)
        case e.CandidateRestored():
            reviews.restore_candidate(state.step(event.task, "pending"), at)
        case e.TaskRetried() | e.TaskReplied() | e.TaskApproved() | e.TaskRejected():
            _apply_word_of_a_person(state, event, at)
        case other:
            assert_never(other)


def _apply_word_of_a_person(
    state: RunState, event: e.TaskRetried | e.TaskReplied | e.TaskApproved | e.TaskRejected, at: float
) -> None:
    match event:
        case e.TaskRetried():
            orders.retry_task(state.step(event.task, *RETRIABLE), event, at)
        case e.TaskReplied():
            orders.reply_to_task(state.step(event.task, "needs_human"), event, at)
        case e.TaskApproved():
            reviews.approve_task(state.step(event.task, *_MAY_BE_APPROVED), event, at)
        case e.TaskRejected():
            reviews.reject_task(state.step(event.task, *_MAY_BE_APPROVED), event, at)
    state.finished = state.finished and state.tasks[event.task].phase in TERMINAL


def _apply_train_event(state: RunState, event: e.TrainEvent, at: float) -> None:
    match event:
        case e.EntryQueued():
            orders.queue_entry(state, state.step(event.task, "candidate"), event, at)
        case e.CheckSent():
            train.send_check(state, event, at)
        case e.CheckAnswered():
            train.answer_check(state, event, at)
        case e.CheckDoubted():
            train.doubt_check(state, event)
        case e.CheckCancelled():
            train.cancel_check(state, event, at)
        case e.CarDissolved():
            train.dissolve_car(state, event, at)
        case e.LandingIntended():
            train.intend_landing(state, event, at)
        case e.LandingAnswered():
            train.answer_landing(state, event, at)
        case e.WaveSent():
            state.wave.note_sent(event, state.number + 1)
        case e.WaveAnswered():
            state.wave.take_answer(event, at)
        case e.WaveReviewSent():
            post_merge.send_integration_review(state, event)
        case e.WaveReviewAnswered():
            state.wave_review.take_answer(event, at)
        case e.WaveApproved():
            post_merge.approve_landings(state, event)
        case other:
            assert_never(other)


def _apply_queue_event(state: RunState, event: e.QueueEvent, at: float) -> None:
    match event:
        case e.EntrySubmitted():
            queue.submit_entry(state, event, at)
        case e.EntryRefused():
            queue.refuse_entry(state, event)
        case e.EntryAnswered():
            queue.answer_entry(state, event)
        case e.EntryHeld():
            queue.hold_entry(state, event)
        case e.EntryReclassed():
            queue.reclass_entry(state, event)
        case e.GatePaused():
            queue.pause_queue(state, event)
        case e.GateResumed():
            queue.resume_queue(state)
        case e.GateRuled():
            state.rules = event.rules
        case e.TipMoved():
            queue.move_tip(state, event, at)
        case e.GateFrozen() | e.GateThawed():
            pass
        case e.EntryGiven():
            delegation.delegate_entry(state.step(event.task, *_IN_REVIEW), event, at)
        case e.EntryRecalled():
            state.step(event.task, "given").recalled = True
        case e.EntryTold():
            delegation.take_reply(state, event, at)
        case e.GateNoticed():
            state.gate, state.gate_away = event.gate, event.away
        case other:
            assert_never(other)


def _place_in_train(state: RunState, event: e.Event) -> None:
    """Enter a task into the train when it is in one of the train's phases, and take it out when it is not."""
    about = event.result.about if isinstance(event, e.CheckAnswered) else ""
    for task in (state.tasks.get(one) for one in (getattr(event, "task", ""), about)):
        if task is None or (task.phase in IN_TRAIN) == (task.id in state.train.line.entries):
            continue
        if task.phase in IN_TRAIN:
            state.train.enter(task.id, task.queued_at)
        else:
            if isinstance(event, e.TaskReturned | e.TaskFailed):
                state.train.note(returned=True)
            state.train.leave(task.id)
            state.held.discard(task.id)
            train.settle_phases(state, state.at)
