"""
A running attempt asks the orchestrator for paths its task does not hold, and waits for the answer.

The question goes where answers go, into the run's stream; the orchestrator's answer is a key of its own, gone after a
day. Redis may lose either at any moment, so the question is asked again every few seconds: whoever has answered it
before answers the same. The orchestrator may take its time, while somebody else holds the paths.
"""

import time
from collections.abc import Callable, Sequence
from typing import Literal, cast

from workers.answers import tell
from workers.messages import Message, WorkOrder
from workers.wire import BrokerAway, Redis

_FIRST_LOOK_S, _LOOK_S = 0.02, 0.5
"""Most questions are answered at once; who must wait longer looks less often."""
_ASK_AGAIN_S = 2.0
_KEEP_S = 24 * 3600


class PathsAsked(Message):
    """May this order touch these paths, too?"""

    kind: Literal["paths_asked"] = "paths_asked"
    order_id: str
    token: str
    number: int
    """Of the asking: rises within an order; the same number is the same question."""
    paths: tuple[str, ...]


class PathsAnswer(Message):
    granted: bool
    why: str = ""
    """One sentence, where they are not granted."""


def ask_paths(
    client: Redis,
    order: WorkOrder,
    paths: Sequence[str],
    *,
    stop: Callable[[], bool],
    left_s: Callable[[], float],
) -> PathsAnswer:
    """
    Waits until the orchestrator has answered: at once, but for paths that others hold, and then within ten minutes.

    Paths the task holds already may be among them. Not granted, too, when `stop` turns true or no time is left
    meanwhile.
    """
    question = PathsAsked(
        order_id=order.order_id, token=order.token, number=time.time_ns() // 1_000_000, paths=tuple(paths)
    )
    ask_at = 0.0
    look_s = _FIRST_LOOK_S
    while not stop() and left_s() > 0:
        if time.monotonic() >= ask_at:
            ask_at = time.monotonic() + _ASK_AGAIN_S
            _ask(client, order, question)
        answer = _answer(client, question)
        if answer is not None:
            return answer
        time.sleep(look_s)
        look_s = min(_LOOK_S, look_s * 1.5)
    return PathsAnswer(granted=False, why="the attempt came to its end while it waited for these paths")


def reply(client: Redis, order_id: str, number: int, answer: PathsAnswer) -> None:
    """Answers a question; answered again, it says the same."""
    client.set(_key(order_id, number), answer.encode(), ex=_KEEP_S)


def _ask(client: Redis, order: WorkOrder, question: PathsAsked) -> None:
    try:
        tell(client, order.run, question)
    except BrokerAway:
        return


def _answer(client: Redis, question: PathsAsked) -> PathsAnswer | None:
    try:
        said = cast(str | None, client.get(_key(question.order_id, question.number)))
    except BrokerAway:
        return None
    return None if said is None else PathsAnswer.model_validate_json(said)


def _key(order_id: str, number: int) -> str:
    return f"forgepool:paths:{order_id}:{number}"
