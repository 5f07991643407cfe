"""
Leases: at most one process works on a message at a time, and everybody can see that it lives.

A lease is a Redis key with the attempt's token and its holder, gone when it is not renewed. The sender's *fence*
ends a message for good: a fenced message is neither begun nor gone on with. `done` marks a message as answered.
Losing Redis loses leases, fences and marks; a holder then takes its lease again (nobody else can have been given
the message), so running work survives the loss.
"""

import json
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal, cast

from forgepool.workers.queue.broker import BrokerAway, Redis
from forgepool.workers.schema.orders import Message

_KEEP_S = 24 * 3600
"""Seconds a fence or a done mark is kept: longer than a message may lie in a queue."""

_CLAIM = """
if redis.call('exists', KEYS[2]) == 1 then return 'fenced' end
if redis.call('exists', KEYS[3]) == 1 then return 'done' end
if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 'claimed' end
return 'held'
"""

_RENEW = """
if redis.call('exists', KEYS[2]) == 1 then return 0 end
local held = redis.call('get', KEYS[1])
if held and held ~= ARGV[1] then return 0 end
if not held and redis.call('exists', KEYS[3]) == 1 then return 0 end
redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
"""

_RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"

Claim = Literal["claimed", "held", "done", "fenced"]


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a lease: read by the orchestrator for display, and by whoever must end the process."""

    token: str
    host: str
    pid: int

    def encode(self) -> str:
        return json.dumps({"token": self.token, "host": self.host, "pid": self.pid})

    @classmethod
    def decode(cls, text: str) -> "Holder":
        fields = json.loads(text)
        return cls(str(fields["token"]), str(fields["host"]), int(fields["pid"]))


@dataclass(slots=True, kw_only=True)
class Lease:
    """Held by one process for one message; `lost()` turns true once and for ever."""

    client: Redis
    message_id: str
    holder: Holder
    ttl_s: float
    _gone: threading.Event = field(default_factory=threading.Event)
    _released: threading.Event = field(default_factory=threading.Event)

    def is_lost(self) -> bool:
        return self._gone.is_set()

    def renew(self) -> None:
        """Tells Redis that the holder lives. An unreachable Redis takes nothing from the holder."""
        try:
            kept = self.client.eval(
                _RENEW, 3, *_keys(self.message_id), self.holder.encode(), str(int(self.ttl_s * 1000))
            )
        except BrokerAway:
            return
        if not kept:
            self._gone.set()

    def _keep(self) -> None:
        while not self._released.wait(self.ttl_s / 4) and not self.is_lost():
            self.renew()

    def release(self) -> None:
        """Gives the lease back, where Redis is there to take it; else it runs out by itself."""
        self._released.set()
        abandon(self.client, self.message_id, self.holder)


@contextmanager
def keep_lease(lease: Lease) -> Iterator[Lease]:
    """Renews the lease in a thread of its own, and gives it back at the end."""
    thread = threading.Thread(target=lease._keep, name="lease", daemon=True)
    thread.start()
    try:
        yield lease
    finally:
        lease.release()
        thread.join(timeout=lease.ttl_s)


def claim(client: Redis, message_id: str, *, token: str, host: str, ttl_s: float) -> Lease | Claim:
    """The lease on a message, or why it is not to be had."""
    holder = Holder(token, host, os.getpid())
    said = client.eval(_CLAIM, 3, *_keys(message_id), holder.encode(), str(int(ttl_s * 1000)))
    if said == "claimed":
        return Lease(client=client, message_id=message_id, holder=holder, ttl_s=ttl_s)
    return cast(Claim, said)


def fence(client: Redis, message_id: str) -> None:
    """Ends a message: whoever holds it stops within a quarter of the lease's life, nobody begins it again."""
    client.set(_keys(message_id)[1], "1", ex=_KEEP_S)


def abandon(client: Redis, message_id: str, holder: Holder) -> None:
    """Gives back the lease of a holder that is known to be dead, if it still stands."""
    try:
        client.eval(_RELEASE, 1, _keys(message_id)[0], holder.encode())
    except BrokerAway:
        return


def holders(client: Redis, message_ids: Sequence[str]) -> dict[str, Holder]:
    """Of these messages, those that somebody holds now."""
    if not message_ids:
        return {}
    values = cast(list[str | None], client.mget([_keys(one)[0] for one in message_ids]))
    return {one: Holder.decode(value) for one, value in zip(message_ids, values, strict=True) if value}


def key_of_done(message_id: str) -> str:
    return _keys(message_id)[2]


def keep_s() -> int:
    return _KEEP_S


def _keys(message_id: str) -> tuple[str, str, str]:
    """The message's lease, fence and done keys."""
    return (f"forgepool:lease:{message_id}", f"forgepool:fence:{message_id}", f"forgepool:done:{message_id}")


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
