"""
Fold events into a state. `apply` is the one writer of a state.

Each event has one step. A step names the phases in which its task may be. In any other phase the event is an
IllegalStep: it is refused before it is written to the journal.
"""

from typing import assert_never, get_args

from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.state.hosts import HostHealth
from forgepool.orchestrator.state.review import Outstanding
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.steps import budget_steps, task_steps, train_steps
from forgepool.orchestrator.state.steps.task_steps import begin_afresh, lose_order, lose_review, reopen
from forgepool.orchestrator.state.steps.train_steps import lose_check, lose_landing, settle_phases
from forgepool.orchestrator.state.task import RETRIABLE, TERMINAL, IllegalStep, Phase, TaskState


def take_message(state: RunState, event: e.MessageTaken) -> None:
    message, holder = _owed(state, event.message_id), f"{event.host}/{event.pid}"
    if message.kind == "wave":
        state.wave.holder = holder
    elif message.kind == "wave_review":
        state.wave_review.review.holder = holder
    elif message.kind in ("check", "landing"):
        state.train.take_message(message, holder)
    elif message.kind == "review":
        state.tasks[message.task].review.holder = holder
    else:
        state.tasks[message.task].holder = holder


def lose_message(state: RunState, event: e.MessageLost, at: float) -> None:
    message = _owed(state, event.message_id)
    if message.kind == "wave":
        state.wave.lose_message(event, at)
    elif message.kind == "wave_review":
        state.wave_review.lose_message(event, at)
    elif message.kind == "review":
        lose_review(state.tasks[message.task], event, at)
    elif message.kind == "check":
        lose_check(state, event, at)
    elif message.kind == "landing":
        lose_landing(state, event, at)
    else:
        lose_order(state.tasks[message.task], event, at)


def _owed(state: RunState, message_id: str) -> Outstanding:
    message = state.outstanding().get(message_id)
    if message is None:
        raise IllegalStep(f"no answer is owed to {message_id}")
    return message


def send_integration_review(state: RunState, event: e.WaveReviewSent) -> None:
    if event.tip != state.tip or event.tip != state.wave.since:
        raise IllegalStep(f"{event.tip[:12]} is not reviewed as a whole before all checks are green on it")
    state.wave_review.note_sent(event, state.number + 1)


def approve_landings(state: RunState, event: e.WaveApproved) -> None:
    if event.tip != state.tip:
        raise IllegalStep(f"the target is at {state.tip[:12]}, not at {event.tip[:12]} as {event.by} has seen it")
    state.wave_review.approve(event, state.number + 1)
    if state.halted_by_review:
        state.halted, state.halted_by_review = "", False
        state.note_reopening()


_MAY_BE_REPLACED: tuple[Phase, ...] = tuple(
    phase for phase in get_args(Phase) if phase not in ("landed", "landing", "given")
)


def start_run(state: RunState, event: e.RunStarted) -> None:
    if state.run:
        raise IllegalStep(f"run {state.run} has started already")
    state.run, state.hub, state.target = event.run, event.hub, event.target
    state.tip, state.plan_digest, state.gate_file = event.tip, event.plan_digest, event.gate_file
    state.began_on = event.tip
    state.gate, state.assets, state.stopped = event.gate, event.assets, None
    state.wave.since = state.wave_review.anchor = event.tip
    state.wave.base_first = event.base_first


def resume_run(state: RunState, event: e.RunResumed, at: float) -> None:
    if not state.run:
        raise IllegalStep("a run that never began cannot go on")
    moved = event.tip != state.tip
    if moved:
        state.train.note_moved_tip()
        settle_phases(state, at)
    state.tip, state.halted, state.finished, state.stopped = event.tip, "", False, None
    state.gate, state.gate_away = state.gate if event.gate is None else event.gate, ""
    state.hub = state.hub if event.hub is None else event.hub
    state.halted_by_infrastructure = state.halted_by_review = False
    state.streaks.clear()
    state.hosts.clear()
    state.lacking, state.elsewhere, state.shut_models = {}, {}, {}
    for task in state.tasks.values():
        task.unfit = {}
        if task.phase == "reported":
            task.review.resume()
    state.wave_review.resume()
    state.train.reopen()
    state.wave.resume(moved=moved)


def revise_plan(state: RunState, event: e.PlanRevised, at: float) -> None:
    """Take another plan. Tests at the gate were run by the old plan's checks, and are run again."""
    for task in (state.step(one, *_MAY_BE_REPLACED) for one in (*event.removed, *event.afresh)):
        if task.landing_in_doubt:
            raise IllegalStep(f"'{task.id}' may have landed, and is not replaced")
        state.train.leave(task.id)
        state.held.discard(task.id)
        begin_afresh(task, at)
    for task in (state.step(one, "blocked") for one in event.reopened):
        reopen(task, at)
    known = state.removed | state.tasks
    state.replace_tasks({one: known.get(one) or TaskState(id=one) for one in event.tasks})
    state.removed = {one: task for one, task in known.items() if one not in state.tasks}
    state.plan_digest, state.assets = event.plan_digest, event.assets
    unchanged = set(event.tasks).difference(event.afresh)
    state.models = {one: model for one, model in state.models.items() if one in unchanged}
    state.rungs = {one: rung for one, rung in state.rungs.items() if one in unchanged}
    state.added, state.dropped = tuple(task for task in state.added if task.id in event.kept), ()
    if state.finished and not state.all_ended:
        state.note_reopening()
    state.train.note_moved_tip()
    settle_phases(state, at)


_GOING_ON: tuple[Phase, ...] = tuple(
    phase for phase in get_args(Phase) if phase not in TERMINAL or phase == "needs_human"
)
_AT_GATE: tuple[Phase, ...] = ("queued", "testing", "reviewing")
_IN_REVIEW: tuple[Phase, ...] = (*_AT_GATE, "reported")
_MADE: tuple[Phase, ...] = ("answered", "candidate", "queued", "testing", "reviewing", "reviewed")
_MAY_BE_RETURNED: tuple[Phase, ...] = (*_MADE, "given")
_MAY_BE_PARKED: tuple[Phase, ...] = ("pending", "queued", "testing", "answered", "reviewing", "reviewed")
_MAY_BE_CANCELLED: tuple[Phase, ...] = ("pending", "running", "waiting", *_MADE, "given", "needs_human")
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
    _note_host(state, event, at)
    if isinstance(event, e.OrderSent | e.ReviewSent | e.WaveReviewSent) and (
        event.reserved_usd or event.reserved_tokens
    ):
        state.forget_treasury_waits(event.accounts)
    train_steps.place_in_train(state, event)
    state.number, state.at = number, at


def _apply_run_event(state: RunState, event: e.RunEvent, at: float) -> None:
    match event:
        case e.RunStarted():
            start_run(state, event)
        case e.RunForecast():
            state.forecast = event
        case e.RunResumed():
            resume_run(state, event, at)
        case e.RunEnded():
            state.end()
        case e.PlanRevised():
            revise_plan(state, event, at)
        case e.TasksAdded():
            state.add_tasks(event)
        case e.TasksDropped():
            state.drop_tasks(event)
        case e.BudgetSet():
            state.budget = event.budget
        case e.TreasuryLimited():
            state.note_treasury(event)
        case e.GateHalted():
            state.halt(event)
        case e.HostsLacking():
            state.lacking, state.lacking_since = event.tasks, at
        case e.ModelsShut():
            state.shut_models = event.tasks
        case e.TasksHeld():
            state.note_held(event.tasks, at)
        case e.HostSuspended():
            state.hosts.setdefault(event.host, HostHealth()).suspend(event.until, event.why)
            # The mistake was the host's.
            state.end_streak("order")
        case e.HostReadmitted():
            state.hosts.setdefault(event.host, HostHealth()).readmit()
        case e.RunPaused():
            state.elsewhere, state.stopped = {}, event.why
        case e.WorkersMissing() | e.MessagesRefused() | e.PartRestarted() | e.HostMismatched():
            pass
        case other:
            assert_never(other)


def _apply_order_event(state: RunState, event: e.OrderEvent, at: float) -> None:
    match event:
        case e.OrderSent():
            task_steps.send_order(state, state.step(event.task, "pending"), event, at)
        case e.MessageTaken():
            take_message(state, event)
        case e.MessageLost():
            lose_message(state, event, at)
        case e.OrderAnswered():
            task_steps.answer_order(state, state.step(event.task, "running", "pending"), event, at)
        case e.WorkKept():
            task = state.tasks[event.task]
            task.works = task.works | {event.attempt: event}
        case e.PathsAsked():
            task_steps.ask_paths(state.step(event.task, "running"), event, at)
        case e.PathsGranted():
            task_steps.grant_paths(state.step(event.task, "running"), event)
        case e.PathsQueued():
            task_steps.queue_paths(state.step(event.task, "running"), event)
        case e.PathsRefused():
            task_steps.refuse_paths(state.step(event.task, "running"), event)
        case e.MoneyAsked() | e.MoneyGranted() | e.MoneyQueued():
            budget_steps.change_money(state.step(event.task, "running"), event, at)
        case e.LockExtended():
            task_steps.extend_lock(state.step(event.task, "candidate"), event)
        case e.ProfileChosen():
            task_steps.choose_profile(state.step(event.task, *_GOING_ON), event)
        case e.ContextRebuilt():
            task_steps.rebuild_context(state.step(event.task, "running"), event)
        case other:
            assert_never(other)


def _apply_task_event(state: RunState, event: e.TaskEvent, at: float) -> None:
    match event:
        case e.ReviewAwaited():
            task_steps.await_review(state, state.step(event.task, "queued", "testing"), at)
        case e.ReviewSent():
            task_steps.send_review(state, state.step(event.task, *_IN_REVIEW), event)
        case e.ReviewAnswered():
            task_steps.answer_review(state.step(event.task, *_IN_REVIEW), event, at)
        case e.BudgetAwaited():
            budget_steps.await_budget(state.step(event.task, "answered"), event, at)
        case e.TaskReturned():
            task_steps.return_task(state, state.step(event.task, *_MAY_BE_RETURNED), event, at)
            state.climb(event.task, event.rung)
        case e.TaskFailed():
            task_steps.fail_task(state, state.step(event.task, "pending", *_MAY_BE_RETURNED), event, at)
        case e.TaskUnchanged():
            task_steps.end_unchanged(state.step(event.task, "answered"), event, at)
        case e.SurveyFound():
            state.take_survey(state.step(event.task, "pending"), event, at)
        case e.LeadReplied():
            state.reply_to_lead(state.step(event.task, "waiting"), event, at)
        case e.LeadSpoken():
            state.lead.words = (*state.lead.words, event)
        case e.TaskReported():
            task_steps.end_reported(state.step(event.task, "answered"), event, at)
        case e.TaskAlreadyThere():
            task_steps.end_already_there(state.step(event.task, "pending"), event, at)
        case e.TaskBlocked():
            task_steps.block_task(state.step(event.task, "pending", "queued", "testing"), event, at)
        case e.TaskParked():
            task_steps.park_task(state.step(event.task, *_MAY_BE_PARKED), event, at)
        case e.TaskPassedOn():
            task_steps.pass_on(state.step(event.task, "answered"), event, at)
        case e.TaskCancelled():
            task_steps.cancel_task(state.step(event.task, *_MAY_BE_CANCELLED), event, at)
        case e.CandidateRestored():
            task_steps.restore_candidate(state.step(event.task, "pending"), at)
        case e.TaskRetried() | e.TaskReplied() | e.TaskApproved() | e.TaskRejected():
            _apply_word_of_a_person(state, event, at)
        case other:
            assert_never(other)


def _apply_word_of_a_person(
    state: RunState, event: e.TaskRetried | e.TaskReplied | e.TaskApproved | e.TaskRejected, at: float
) -> None:
    had_ended = state.finished or state.halted_by_review
    match event:
        case e.TaskRetried():
            task_steps.retry_task(state.step(event.task, *RETRIABLE), event, at)
            if event.model:
                state.models = state.models | {event.task: event.model}
            if event.afresh and event.task in state.rungs:
                state.climb(event.task, 1)
            for kind in list(state.streaks):
                state.end_streak(kind)
        case e.TaskReplied():
            task_steps.reply_to_task(state.step(event.task, "needs_human"), event, at)
        case e.TaskApproved():
            task_steps.approve_task(state.step(event.task, *_MAY_BE_APPROVED), event, at)
        case e.TaskRejected():
            task_steps.reject_task(state, state.step(event.task, *_MAY_BE_APPROVED), event, at)
            state.climb(event.task, event.rung)
    state.finished = state.finished and state.tasks[event.task].phase in TERMINAL
    if had_ended and not state.finished:
        state.note_reopening()


def _apply_train_event(state: RunState, event: e.TrainEvent, at: float) -> None:
    match event:
        case e.EntryQueued():
            task_steps.queue_entry(state, state.step(event.task, "candidate"), event, at)
        case e.CheckSent():
            train_steps.send_check(state, event, at)
        case e.CheckAnswered():
            train_steps.answer_check(state, event, at)
        case e.CheckDoubted():
            train_steps.doubt_check(state, event)
        case e.CheckCancelled():
            train_steps.cancel_check(state, event, at)
        case e.CarDissolved():
            train_steps.dissolve_car(state, event, at)
        case e.LandingIntended():
            train_steps.intend_landing(state, event, at)
        case e.LandingAnswered():
            train_steps.answer_landing(state, event, at)
        case e.WaveSent():
            state.wave.note_sent(event, state.number + 1)
        case e.WaveAnswered():
            state.wave.take_answer(event, at)
        case e.WaveReviewSent():
            send_integration_review(state, event)
        case e.WaveReviewAnswered():
            state.wave_review.take_answer(event, at)
        case e.WaveApproved():
            approve_landings(state, event)
        case other:
            assert_never(other)


def _apply_queue_event(state: RunState, event: e.QueueEvent, at: float) -> None:
    match event:
        case e.EntrySubmitted():
            train_steps.submit_entry(state, event, at)
        case e.EntryRefused():
            train_steps.refuse_entry(state, event)
        case e.EntryAnswered():
            train_steps.answer_entry(state, event)
        case e.EntryHeld():
            train_steps.hold_entry(state, event)
        case e.EntryReclassed():
            train_steps.reclass_entry(state, event)
        case e.GatePaused():
            train_steps.pause_queue(state, event)
        case e.GateResumed():
            train_steps.resume_queue(state)
        case e.GateRuled():
            state.rules = event.rules
        case e.TipMoved():
            train_steps.move_tip(state, event, at)
        case e.GateFrozen() | e.GateThawed():
            pass
        case e.EntryGiven():
            train_steps.delegate_entry(state.step(event.task, *_AT_GATE), event, at)
        case e.EntryRecalled():
            state.step(event.task, "given").recalled = True
        case e.EntryTold():
            train_steps.take_reply(state, event, at)
        case e.GateNoticed():
            state.gate, state.gate_away = event.gate, event.away
        case other:
            assert_never(other)


def _note_host(state: RunState, event: e.Event, at: float) -> None:
    """Note how the host did that has answered. A limit of the models', or a lack that it tells, is no failure of it."""
    match event:
        case e.OrderAnswered(result=result):
            failed = result.outcome == "infrastructure" and result.not_before is None
        case e.CheckAnswered(result=result) | e.WaveAnswered(result=result):
            failed = result.verdict == "infrastructure"
        case e.ReviewAnswered(result=result) | e.WaveReviewAnswered(result=result):
            failed = result.outcome == "infrastructure" and result.not_before is None
        case e.LandingAnswered(result=result):
            failed = result.outcome == "infrastructure"
        case _:
            return
    state.note_host(result.host, failed=failed, detail=result.detail, at=at)
