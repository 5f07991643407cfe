"""
A running attempt asks the orchestrator for paths its task does not hold, and is answered at once.

The question goes where answers go, into the run's stream; the orchestrator's answer is a key of its own, gone after a
day. Redis may lose either at any moment, so the question is asked again every few seconds: whoever has answered it
before answers the same. Nobody waits here for paths that somebody else holds: they are `queued`, the attempt ends, and
its task begins again, with these paths, when they are free.
"""

import secrets
import time
from collections.abc import Callable, Sequence
from typing import Literal, cast

from forgepool.workers.queue.broker import BrokerAway, Redis
from forgepool.workers.queue.replies import tell
from forgepool.workers.schema.orders import Message, WorkOrder

_FIRST_LOOK_S, _LOOK_S = 0.02, 0.5
"""An orchestrator is seldom away; who must wait for it looks less often."""
_ASK_AGAIN_S = 2.0
_KEEP_S = 24 * 3600
_NUMBER_BITS = 53
"""What every reader of JSON takes for a whole number."""


class PathRequest(Message):
    """May this order touch these paths, too?"""

    kind: Literal["paths_asked"] = "paths_asked"
    order_id: str
    token: str
    number: int
    """Of the asking: the same number is the same question, whichever host asks it again; no order is in it."""
    paths: tuple[str, ...]


class PathsAnswer(Message):
    verdict: Literal["granted", "queued", "refused"]
    """`queued`: somebody holds some of them, or reads them; the task gets them at its next start."""
    why: str = ""
    """One sentence, where they are not granted."""

    @property
    def granted(self) -> bool:
        return self.verdict == "granted"


def ask_paths(
    client: Redis,
    order: WorkOrder,
    paths: Sequence[str],
    *,
    stop: Callable[[], bool],
    left_s: Callable[[], float],
) -> PathsAnswer:
    """
    What the orchestrator says. It answers at once; who waits longer waits for an orchestrator or a Redis that is away.

    Paths the task holds already may be among them. Refused, too, when `stop` turns true or no time is left meanwhile.
    """
    # By chance, not by the clock: an order delivered again may be asking on a host whose clock is behind.
    question = PathRequest(
        order_id=order.order_id, token=order.token, number=secrets.randbits(_NUMBER_BITS), paths=tuple(paths)
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
    return PathsAnswer(verdict="refused", why="the attempt came to its end before anybody answered")


def reply(client: Redis, order_id: str, number: int, answer: PathsAnswer) -> None:
    """Answers a question; answered again, it says the same."""
    client.set(_key(order_id, number), answer.encode(), ex=_KEEP_S)


def _ask(client: Redis, order: WorkOrder, question: PathRequest) -> None:
    try:
        tell(client, order.run, question)
    except BrokerAway:
        return


def _answer(client: Redis, question: PathRequest) -> PathsAnswer | None:
    try:
        said = cast(str | None, client.get(_key(question.order_id, question.number)))
    except BrokerAway:
        return None
    return None if said is None else PathsAnswer.model_validate_json(said)


def _key(order_id: str, number: int) -> str:
    return f"forgepool:paths:{order_id}:{number}"
