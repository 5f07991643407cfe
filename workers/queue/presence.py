"""Presence: which worker processes live, what they listen to, and how much they can do at once."""

import json
from typing import cast

from forgepool.workers.queue.broker import Redis
from forgepool.workers.schema.orders import Message

TTL_S = 15.0


class Present(Message):
    """One worker process as it announces itself."""

    host: str
    pid: int
    queues: tuple[str, ...]
    concurrency: int
    since: float


def announce(client: Redis, present: Present) -> None:
    client.set(_key(present), present.encode(), px=int(TTL_S * 1000))


def withdraw(client: Redis, present: Present) -> None:
    client.delete(_key(present))


def present(client: Redis) -> tuple[Present, ...]:
    """All that have announced themselves lately, by host and process id."""
    keys = sorted(cast(list[str], list(client.scan_iter(match="forgepool:worker:*", count=1000))))
    if not keys:
        return ()
    values = cast(list[str | None], client.mget(keys))
    return tuple(Present.model_validate(json.loads(value)) for value in values if value)


def slots(workers: tuple[Present, ...], queue: str, *, beside: str | None = None) -> int:
    """
    How many messages of a queue can be worked on at once.

    Who also listens to the queue `beside`, whose messages are few and short, keeps one place free for these, if it has
    several.
    """
    free = [worker.concurrency - (beside in worker.queues) for worker in workers if queue in worker.queues]
    return sum(max(1, one) for one in free)


def _key(present: Present) -> str:
    """One host process stands over several workers, each with queues of its own."""
    return f"forgepool:worker:{present.host}:{present.pid}:{','.join(present.queues)}"
