"""
The effects of events on a race: two attempts of one task, the first to pass the gate lands.

One attempt is in front: the task itself, with all that happens to its candidate. The other one works beside it, and is
kept apart in `RunState.racers`. It never stands in the train, so that a task cannot land twice. The first candidate
takes the front. Both hold the task's one lock.
"""

from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.plan.budget import SeenUse, Use, give_up_use, settle_use
from forgepool.orchestrator.state.review import Outstanding
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.steps.task_steps import answer_order, lose_order, send_order
from forgepool.orchestrator.state.task import IN_FLIGHT, IllegalStep, TaskState

_OF_ATTEMPT = (
    *("attempt", "base", "based_at", "resumes", "mends", "message", "holder", "sent_to"),
    *("result", "asks", "money", "context_share"),
)
"""The fields of a task that are about the attempt in front alone."""
_SHARED = ("uses", "extra", "works")
"""The fields that both attempts have in common."""


def begin_attempt(state: RunState, event: e.OrderSent, at: float) -> None:
    if event.races is None:
        send_order(state, state.step(event.task, "pending"), event, at)
        return
    task = state.step(event.task, "running")
    if task.id in state.racers or event.races != task.attempt or event.attempt != task.last_attempt + 1:
        raise IllegalStep(f"attempt {event.attempt} of '{task.id}' does not race {event.races}")
    use = Use(
        reserved_usd=event.reserved_usd,
        reserved_tokens=event.reserved_tokens,
        sent_at=event.issued_at,
        accounts=event.accounts,
    )
    order = Outstanding(
        message_id=event.message_id, token=event.token, kind="order", task=task.id, issued_at=event.issued_at
    )
    task.newest, task.races = event.attempt, True
    task.uses = task.uses | {event.attempt: use}
    state.racers[task.id] = TaskState(
        id=task.id,
        phase="running",
        attempt=event.attempt,
        base=event.base,
        based_at=state.number + 1,
        message=order,
        sent_to=event.host,
        rung=event.rung,
        replies=task.replies,
        profile=task.profile,
        since=at,
    )


def lose_attempt(state: RunState, message: Outstanding, event: e.MessageLost, at: float) -> None:
    """Lose an order. One beside another is not sent again: the other goes on."""
    racer = state.racers.get(message.task)
    if racer is not None and racer.message == message:
        _drop_racer(state, racer, event.used)
    else:
        lose_order(state.tasks[message.task], event, at)


def take_answer(state: RunState, event: e.OrderAnswered, at: float) -> None:
    """Take the answer of an attempt. A candidate takes the front, unless another is there already."""
    result, racer = event.result, state.racers.get(event.task)
    if racer is None or racer.attempt != result.attempt:
        answer_order(state, state.step(event.task, "running", "pending"), event, at)
        return
    task = state.tasks[event.task]
    if racer.message is None:
        raise IllegalStep(f"attempt {result.attempt} of '{task.id}' has answered")
    if result.outcome == "candidate" and task.phase == "running":
        _exchange(state, task, racer)
        answer_order(state, task, event, at)
        return
    task.works = task.works | e.list_kept(event)
    task.uses = settle_use(task.uses, result.attempt, result.spent, models=result.models, includes=result.includes)
    if result.outcome == "candidate":
        racer.phase, racer.message, racer.holder, racer.result = "candidate", None, "", result
    else:
        _forget_racer(state, racer)


def promote_racer(state: RunState, event: e.RacerPromoted, at: float) -> None:
    """Let the attempt beside the one that came back take its place: with its candidate, if it has one already."""
    task, racer = state.step(event.task, "pending"), _racer(state, event)
    if racer.attempt <= task.over:
        raise IllegalStep(f"attempt {racer.attempt} of '{task.id}' may not go on")
    holder, phase = racer.holder, racer.phase
    _exchange(state, task, racer)
    del state.racers[task.id]
    task.races, task.interrupted, task.interrupted_base, task.interrupted_paths = False, None, "", ()
    # The hub was asked before: what was in doubt has not landed.
    task.intended, task.verdict, task.certificates, task.kept, task.reviewed = (), None, (), False, False
    task.review.forget_candidate()
    task.troubles, task.limit_until, task.not_before = 0, 0.0, 0.0
    task.enter("candidate" if phase == "candidate" else "running", at)
    task.extra, task.holder = racer.extra, holder


def withdraw_racer(state: RunState, event: e.RacerWithdrawn) -> None:
    _drop_racer(state, _racer(state, event), event.used)


def end_race(state: RunState, task: TaskState) -> None:
    """End the race of a task that another plan replaces."""
    if (racer := state.racers.get(task.id)) is not None:
        _drop_racer(state, racer, None)


def find_at_work(state: RunState, task: str, attempt: int) -> TaskState:
    """Return the attempt under way of that number, or the one in front. Raises IllegalStep."""
    found = state.attempt_at(task, attempt) if task in state.tasks else state.step(task)
    return found if found.phase == "running" else state.step(task, "running")


def share(state: RunState, event: e.Event) -> None:
    """Keep what both attempts have in common the same, after an event about either."""
    granted = (event.task, event.attempt) if isinstance(event, e.PathsGranted | e.MoneyGranted) else None
    for racer in state.racers.values():
        task = state.tasks[racer.id]
        changed = racer if granted == (racer.id, racer.attempt) else task
        # A task that comes back holds nothing but what it declares, and the attempt beside it what it was granted.
        for name in _SHARED if changed is racer or task.phase in IN_FLIGHT else ("uses", "works"):
            value = getattr(changed, name)
            setattr(task, name, value)
            setattr(racer, name, value)


def _racer(state: RunState, event: e.RacerPromoted | e.RacerWithdrawn) -> TaskState:
    racer = state.racers.get(event.task)
    if racer is None or racer.attempt != event.attempt:
        raise IllegalStep(f"attempt {event.attempt} of '{event.task}' does not race")
    return racer


def _exchange(state: RunState, task: TaskState, racer: TaskState) -> None:
    for name in _OF_ATTEMPT:
        mine, other = getattr(task, name), getattr(racer, name)
        setattr(task, name, other)
        setattr(racer, name, mine)
    rung = racer.rung
    racer.rung = state.rungs.get(task.id, 1)
    state.climb(task.id, rung)


def _drop_racer(state: RunState, racer: TaskState, seen: SeenUse | None) -> None:
    task = state.tasks[racer.id]
    use = task.uses[racer.attempt]
    if use.spent is None:
        task.uses = task.uses | {racer.attempt: give_up_use(use, taken=bool(racer.holder), seen=seen)}
    _forget_racer(state, racer)


def _forget_racer(state: RunState, racer: TaskState) -> None:
    task = state.tasks[racer.id]
    task.withdrawn, task.races = (*task.withdrawn, racer.attempt), False
    del state.racers[racer.id]
