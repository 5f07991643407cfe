"""
Answers: one Redis stream per run, written by whoever did the work, read by the run's orchestrator.

A stream costs 0.7 ms from the end of a task to its reader, with one or a thousand tasks outstanding, and survives
a restart of the orchestrator. Celery's result backend is not used: polling it costs a hundred times the commands.
"""

import time
from collections.abc import Iterator
from typing import Literal, cast

from forgepool.workers.queue.broker import BrokerAway, Redis
from forgepool.workers.queue.leases import keep_s, key_of_done
from forgepool.workers.schema.orders import Message

_KEPT_ANSWERS = 20_000
_ANSWER_FOR_S = 900.0
"""Seconds a finished worker keeps trying to tell an unreachable Redis; the candidate is in the hub already."""


class MessageStarted(Message):
    """A worker has begun a message."""

    kind: Literal["started"] = "started"
    message_id: str
    token: str
    host: str
    pid: int


def _stream(run: str) -> str:
    return f"forgepool:answers:{run}"


def tell(client: Redis, run: str, note: Message) -> None:
    """Adds a note to the run's stream; one that is lost is not missed."""
    client.xadd(_stream(run), {"m": note.encode()}, maxlen=_KEPT_ANSWERS, approximate=True)


def answer(client: Redis, run: str, message_id: str, result: Message) -> None:
    """
    Adds the answer to a message and marks the message as done, both or neither.

    An unreachable Redis is waited for, a quarter of an hour at most; an answer not given is asked for again.

    Raises:
        BrokerAway: Redis stayed away all that time.
    """
    give_up = time.monotonic() + _ANSWER_FOR_S
    pause_s = 0.1
    while True:
        try:
            with client.pipeline(transaction=True) as both:
                both.xadd(_stream(run), {"m": result.encode()}, maxlen=_KEPT_ANSWERS, approximate=True)
                both.set(key_of_done(message_id), "1", ex=keep_s())
                both.execute()
            return
        except BrokerAway:
            if time.monotonic() > give_up:
                raise
            time.sleep(pause_s)
            pause_s = min(5.0, pause_s * 2)


def read(client: Redis, run: str, *, after: str, wait_s: float) -> Iterator[tuple[str, str]]:
    """
    Stream ids and texts of what was told after the id `after` ("0-0" for all), waiting up to `wait_s` for the
    first.
    """
    reply = client.xread({_stream(run): after}, count=1000, block=max(1, int(wait_s * 1000)))
    for _, entries in cast(list[tuple[str, list[tuple[str, dict[str, str]]]]], reply or []):
        for entry_id, fields in entries:
            yield entry_id, fields["m"]
