"""The change that the fate of a message makes: a worker took it, or its lease ended without an answer."""

from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.state.pending import Outstanding
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.steps.orders import lose_order
from forgepool.orchestrator.state.steps.reviews import lose_review
from forgepool.orchestrator.state.steps.train import lose_check, lose_landing
from forgepool.orchestrator.state.task import IllegalStep


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
