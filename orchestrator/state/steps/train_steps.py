"""
The effects of the events at the gate, from an entry's place in the train to its landing.

An event may concern several tasks, those of a car or of a landing; each is given its own part.
"""

from typing import TypeVar

from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import IN_TRAIN, TERMINAL, IllegalStep, Phase, TaskState
from forgepool.orchestrator.state.train import trial_state
from forgepool.supervisor.messages.answers import ANYBODY, Approval, CheckResult
from forgepool.supervisor.train.model import Ids
from forgepool.workers.schema.orders import WorkResult

_MAY_TURN_OUT_LANDED: tuple[Phase, ...] = ("pending", "queued", "testing", "reviewing", "reviewed")
_UNTOLD = ("base_red", "not_configured", "apart")
"""Verdicts that say nothing of the entries."""


def send_check(state: RunState, event: e.CheckSent, at: float) -> None:
    car = [state.step(one, "queued", "testing") for one in event.car or (event.task,)]
    state.train.send_trial(event)
    car[-1].checks += 1
    for task in car:
        if task.phase == "queued":
            task.enter("testing", at)
        task.verdict, task.certificates = None, ()
        task.base = event.base


def answer_check(state: RunState, event: e.CheckAnswered, at: float) -> None:
    result = event.result
    trial, out = state.train.line.trials.get(result.request_id), state.train.out.get(result.request_id)
    issued_at = out.message.issued_at if out is not None and out.message is not None else 0.0
    state.train.take_answer(result)
    assert trial is not None
    for task in (state.tasks[one] for one in trial.car):
        task.verdict, task.reviewed = result, task.reviewed or result.reviewed
        _told(state, task, result, at)
    if result.verdict == "infrastructure":
        state.note_trouble("check", trial.car, result.detail, at, asked_at=issued_at)
        _take_apart(state, trial.car, at)
    else:
        state.end_streak("check")
    if result.verdict == "apart":
        state.train.apart.add(result.about)
    if result.verdict == "stale" and (result.about or event.task) in trial.spec:
        stale = state.tasks[result.about or event.task]
        if stale.phase != "landing":  # its lander finds out by itself, and its answer counts
            stale.detail, stale.result = result.detail, None
            stale.enter("pending", at)


def _take_apart(state: RunState, car: Ids, at: float) -> None:
    """Trouble again and again may be one entry's: it shall not hold up those it was coupled with."""
    if len(car) > 1 and car in state.train.line.cars and all(state.tasks[one].troubles > 1 for one in car):
        state.train.dissolve(car, [(one,) for one in car])
        for one in car:
            _settle_phase(state, state.tasks[one], at)


def _told(state: RunState, task: TaskState, result: CheckResult, at: float) -> None:
    if result.verdict == "infrastructure":
        task.fall_into_trouble(result.detail, at)
    elif result.verdict in _UNTOLD:
        task.detail = result.detail
    elif trial_state(result) is not None:
        task.troubles = 0
    _settle_phase(state, task, at)


def doubt_check(state: RunState, event: e.CheckDoubted) -> None:
    if event.message_id not in state.train.line.trials:
        raise IllegalStep(f"there is no trial {event.message_id} to doubt")
    state.train.line.doubt(event.message_id)


def cancel_check(state: RunState, event: e.CheckCancelled, at: float) -> None:
    trial = state.train.line.trials.get(event.message_id)
    if trial is None:
        raise IllegalStep(f"there is no trial {event.message_id} to cancel")
    state.train.forget(event.message_id)
    for one in trial.car:
        _settle_phase(state, state.tasks[one], at)


def dissolve_car(state: RunState, event: e.CarDissolved, at: float) -> None:
    if event.car not in state.train.line.cars:
        raise IllegalStep(f"there is no car of {', '.join(event.car)}")
    out = state.train.out.get(event.message_id)
    # A conflict runs no check, and tells nothing of what the checks' reds name.
    was_run = out is not None and out.result is not None and out.result.verdict != "conflict"
    state.train.dissolve(event.car, event.parts, event.suspects)
    if was_run:
        state.train.note_red_car(named=bool(event.suspects))
    for one in event.car:
        _settle_phase(state, state.tasks[one], at)


def intend_landing(state: RunState, event: e.LandingIntended, at: float) -> None:
    entries, commits = event.entries or (event.task,), event.commits or (event.commit,)
    tasks = [state.step(one, "queued", "testing") for one in entries]
    _refuse_untested(state, event, entries)
    approvals: tuple[Approval | None, ...] = event.approvals or (None,) * len(entries)
    for task, approval in zip(tasks, approvals, strict=True):
        if task.reviewed and (approval is None or not task.approves(approval)):
            raise IllegalStep(f"'{task.id}' may not land {event.commit[:12]}: no approval covers that very change")
    state.train.intend(event, entries)
    tasks[-1].landings += 1
    for task, commit in zip(tasks, commits, strict=True):
        task.enter("landing", at)
        task.certificates = event.certificates
        task.intended = (*task.intended, commit)


def _refuse_untested(state: RunState, event: e.LandingIntended, entries: Ids) -> None:
    line = state.train.line
    for key, out in state.train.out.items():
        trial, found = line.trials[key], out.result
        fits = trial.lands and trial.spec == entries
        if fits and found is not None and found.commit == event.commit:
            return
    raise IllegalStep(f"'{event.task}' may not land {event.commit[:12]}: that is not what was found green")


def answer_landing(state: RunState, event: e.LandingAnswered, at: float) -> None:
    """
    Apply the answer of a landing. A task whose landing was thought lost, or that was composed again, may have landed.
    """
    landing = state.train.landing
    if landing is not None and event.task in landing.intent.entries:
        _group_answered(state, event, at)
    elif event.result.outcome != "landed":
        raise IllegalStep(f"a late answer to the landing of '{event.task}' that is not 'landed' changes nothing")
    else:
        task = state.step(event.task, *_MAY_TURN_OUT_LANDED)
        state.wave_review.has_landed("", state.number + 1)
        _has_landed(state, task, event.result.commit or "", event, at)
        state.train.leave(event.task)
        state.train.note_moved_tip()
        settle_phases(state, at)
        state.tip = event.result.commit or state.tip


def _group_answered(state: RunState, event: e.LandingAnswered, at: float) -> None:
    landing, result = state.train.landing, event.result
    assert landing is not None
    intent = landing.intent
    state.train.landing = None
    commits = dict(zip(intent.entries, intent.commits or (intent.commit,), strict=True))
    if result.outcome == "landed" and result.commit == commits[event.task]:
        state.wave_review.has_landed(intent.base, state.number + 1)
        for one, commit in commits.items():
            _has_landed(state, state.tasks[one], commit, event, at)
        state.train.land_entries(intent.entries, intent.commit)
        if not state.halted_by_infrastructure:
            # What had been said of the target was said of another tip.
            state.halted = ""
        state.tip = intent.commit
        return
    if result.outcome == "landed":
        _landed_before(state, intent, event, at)
        return
    if result.outcome == "moved":
        state.tip = result.commit or state.tip
    for one in intent.entries:
        _not_landed(state.tasks[one], event, at)
    if result.by_hub and set(intent.entries) <= state.submitted.keys():
        state.train.not_taken(intent.entries, result.detail)
    if result.outcome != "infrastructure":
        # A hub that cannot be asked has moved nothing that is known of: what was green there lands when it is back.
        state.train.note_moved_tip()
    settle_phases(state, at)


def _landed_before(state: RunState, intent: e.LandingIntended, event: e.LandingAnswered, at: float) -> None:
    """One of them alone, by an earlier landing that was in doubt: this one comes to nothing."""
    state.wave_review.has_landed("", state.number + 1)
    _has_landed(state, state.tasks[event.task], event.result.commit or "", event, at)
    state.train.leave(event.task)
    for one in intent.entries:
        if one != event.task:
            state.tasks[one].verdict = None
            state.tasks[one].enter("queued", at)
    state.train.note_moved_tip()
    state.tip = event.result.commit or state.tip
    settle_phases(state, at)


def _has_landed(state: RunState, task: TaskState, commit: str, event: e.LandingAnswered, at: float) -> None:
    state.wave.has_landed()
    task.commit, task.landed_on_host, task.landed_at = commit, event.result.host, state.number + 1
    task.troubles, task.detail, task.intended = 0, "", ()
    state.train.note(returned=False)
    task.enter("landed", at)


def _not_landed(task: TaskState, event: e.LandingAnswered, at: float) -> None:
    result = event.result
    task.verdict = None
    task.detail = result.detail
    task.reviewed = task.reviewed or result.unapproved in (task.id, ANYBODY)
    if result.outcome == "infrastructure":
        task.fall_into_trouble(result.detail, at)
    else:
        task.intended = task.intended[:-1]
    task.enter("queued", at)


def lose_check(state: RunState, event: e.MessageLost, at: float) -> None:
    trial = state.train.line.trials[event.message_id]
    state.train.forget(event.message_id)
    for one in trial.car:
        _lost(state.tasks[one], event, at)
        _settle_phase(state, state.tasks[one], at)
    _take_apart(state, trial.car, at)


def lose_landing(state: RunState, event: e.MessageLost, at: float) -> None:
    """They are checked again: what was green is asked for again only if it is still to land."""
    landing = state.train.landing
    assert landing is not None
    state.train.landing = None
    state.train.note_moved_tip()
    for one in landing.intent.entries:
        task = state.tasks[one]
        _lost(task, event, at)
        task.verdict = None
        task.enter("queued", at)
    settle_phases(state, at)


def _lost(task: TaskState, event: e.MessageLost, at: float) -> None:
    """
    Count a lost message as trouble, since one that kills its worker would be sent for ever. The first retry comes at
    once.
    """
    first = task.troubles == 0
    task.fall_into_trouble(event.why, at)
    if first:
        task.not_before = at


def settle_phases(state: RunState, at: float) -> None:
    for task in state.in_phase("testing"):
        _settle_phase(state, task, at)


def _settle_phase(state: RunState, task: TaskState, at: float) -> None:
    """It is being tested as long as a trial of its own car is out."""
    running = any(one.state == "running" and task.id in one.car for one in state.train.line.trials.values())
    if task.phase == "testing" and not running:
        task.enter("queued", at)


Key = TypeVar("Key")
_MOST_REFUSED = 200


def submit_entry(state: RunState, event: e.EntrySubmitted, at: float) -> None:
    """Another commit under the name of one that has not landed takes its place, with a new word on everything."""
    task = state.tasks.get(event.task)
    if task is None:
        task = state.add_task(event.task)
    if task.phase in ("landed", "landing") or task.landing_in_doubt:
        raise IllegalStep(f"'{event.task}' is {task.phase}; what is submitted under its name needs another")
    if event.revision != task.attempt + 1:
        raise IllegalStep(f"revision {event.revision} of '{event.task}' does not follow {task.attempt}")
    if task.id in state.train.line.entries:
        state.train.leave(task.id)
        settle_phases(state, at)
    task.review.forget_candidate()
    task.attempt, task.verdict, task.certificates, task.detail = event.revision, None, (), ""
    task.troubles, task.not_before, task.ended, task.reviewed = 0, 0.0, 0.0, False
    task.result = WorkResult(
        order_id=f"{state.run}.{event.task}.{event.revision}",
        token="",
        outcome="candidate",
        commit=event.commit,
        paths=event.paths,
        planned=event.card.planned if event.card is not None else (),
        claimed_summary=event.card.claims if event.card is not None else "",
    )
    task.queued_at = task.queued_at or state.number + 1
    task.first_started = task.first_started or at
    state.submitted[event.task] = event
    state.refused.pop(event.task, None)
    if event.card is not None:
        state.out_of_turn.pop((event.task, event.card.asks.number), None)
    task.enter("queued", at)


def refuse_entry(state: RunState, event: e.EntryRefused) -> None:
    """Keep the refusal for readers; only the latest of a name, as any pusher can push anything."""
    if event.out_of_turn and event.asks is not None:
        _keep(state.out_of_turn, (event.name, event.asks.number), event)
    else:
        _keep(state.refused, event.name, event)


def _keep(kept: dict[Key, e.EntryRefused], key: Key, event: e.EntryRefused) -> None:
    kept.pop(key, None)
    kept[key] = event
    while len(kept) > _MOST_REFUSED:
        del kept[next(iter(kept))]


def answer_entry(state: RunState, event: e.EntryAnswered) -> None:
    """An answer to what came out of turn says nothing of the others."""
    if state.out_of_turn.pop((event.name, event.number), None) is None:
        state.answered[event.name] = (event.number, event.word)


def hold_entry(state: RunState, event: e.EntryHeld) -> None:
    task = state.step(event.task, *IN_TRAIN)
    if event.held:
        state.held.add(task.id)
    else:
        state.held.discard(task.id)
        state.train.let_go(task.id)


def reclass_entry(state: RunState, event: e.EntryReclassed) -> None:
    state.step(event.task, *IN_TRAIN)
    state.submitted[event.task] = state.submitted[event.task].model_copy(update={"klass": event.klass})


def pause_queue(state: RunState, event: e.GatePaused) -> None:
    state.paused = event.why or f"paused{f' by {event.by}' if event.by else ''}"


def resume_queue(state: RunState) -> None:
    state.paused, state.halted, state.halted_by_infrastructure = "", "", False
    state.train.reopen()


def move_tip(state: RunState, event: e.TipMoved, at: float) -> None:
    """Whatever had shut the gate may be mended by it; who was refused for it is asked for again."""
    if state.train.landing is not None:
        raise IllegalStep("a landing is under way, whose answer tells where the target is")
    state.tip, state.halted = event.tip, ""
    state.lost = frozenset(event.lost)
    state.train.reopen()
    state.train.note_moved_tip()
    settle_phases(state, at)


def find_withdrawn_need(state: RunState, needs: tuple[str, ...]) -> str | None:
    """Return a need that will land neither by itself nor by a person's approval; None where there is none."""
    ended = (one for one in needs if (task := state.tasks.get(one)) is not None and task.phase in TERMINAL)
    return next((one for one in ended if state.tasks[one].phase not in ("landed", "needs_human")), None)


def delegate_entry(task: TaskState, event: e.EntryGiven, at: float) -> None:
    if event.number != task.given + 1:
        raise IllegalStep(f"giving {event.number} of '{task.id}' does not follow {task.given}")
    if task.landing_in_doubt:
        raise IllegalStep(f"'{task.id}' may have landed by this run's own train, and is not given to another")
    task.given, task.told, task.recalled = event.number, None, False
    if event.number == 1:
        task.given_on = event.tip
    task.verdict, task.certificates, task.detail = None, (), ""
    task.enter("given", at)


def take_reply(state: RunState, event: e.EntryTold, at: float) -> None:
    """Apply a queue's reply. `landed` ends the task here; a returned entry is handled by the next decision."""
    task, answer = state.step(event.task, "given"), event.answer
    if answer.number != task.given:
        raise IllegalStep(f"what is said of giving {answer.number} of '{task.id}' is not of {task.given}")
    state.tip, state.gate_away = event.tip, ""
    task.told, task.detail = answer, answer.why
    if answer.word == "landed":
        state.wave_review.has_landed("", state.number + 1)
        task.commit, task.landed_at, task.certificates = answer.commit, state.number + 1, answer.certificates
        task.troubles = 0
        task.enter("landed", at)


def place_in_train(state: RunState, event: e.Event) -> None:
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
            settle_phases(state, state.at)
