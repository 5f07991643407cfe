"""
Leases and presence: at most one process works on a message, and every process can see which workers live.

A lease is a Redis key with the attempt's token and its holder; it expires unless it is renewed. The sender's *fence*
ends a message for good: a fenced message is neither begun nor continued. `done` marks a message as answered. If Redis
loses them, a holder takes its lease again (no other process can have the message), so running work survives the loss.
"""

import json
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, TypeVar, cast

import structlog
from pydantic import Field

from forgepool.workers.queue.broker import PROTOCOL, BrokerAway, Redis
from forgepool.workers.schema.orders import Message

T = TypeVar("T")
log = structlog.get_logger()

_KEEP_S = 24 * 3600
"""Seconds a fence or a done mark is kept: longer than a message may lie in a queue."""
_HEARS_S = 0.5
"""Longest seconds until a holder hears of a fence: the loser of a race costs money as long as it works."""

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
    """The holder of a lease. The orchestrator shows it, and ends its process by it."""

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
    """A lease that one process holds for one message. Once it is lost, it stays lost."""

    client: Redis
    message_id: str
    holder: Holder
    ttl_s: float
    _gone: threading.Event = field(default_factory=threading.Event)
    _released: threading.Event = field(default_factory=threading.Event)

    def is_lost(self) -> bool:
        return self._gone.is_set()

    def renew(self) -> None:
        """Tell Redis that the holder lives. An unreachable Redis takes nothing from the holder."""
        try:
            kept = self.client.eval(
                _RENEW, 3, *_keys(self.message_id), self.holder.encode(), str(int(self.ttl_s * 1000))
            )
        except BrokerAway:
            return
        if not kept:
            self._gone.set()

    def _keep(self) -> None:
        while not self._released.wait(min(self.ttl_s / 4, _HEARS_S)) and not self.is_lost():
            self.renew()

    def release(self) -> None:
        """Give the lease back; if Redis is away, it expires by itself."""
        self._released.set()
        abandon(self.client, self.message_id, self.holder)


@contextmanager
def keep_lease(lease: Lease) -> Iterator[Lease]:
    """Renew the lease in its own thread, and give it back at the end."""
    thread = threading.Thread(target=lease._keep, name="lease", daemon=True)
    thread.start()
    try:
        yield lease
    finally:
        lease.release()
        thread.join(timeout=lease.ttl_s)


def claim(client: Redis, message_id: str, *, token: str, host: str, ttl_s: float) -> Lease | Claim:
    """Take the lease on a message, or return why that is not possible."""
    holder = Holder(token, host, os.getpid())
    outcome = client.eval(_CLAIM, 3, *_keys(message_id), holder.encode(), str(int(ttl_s * 1000)))
    if outcome == "claimed":
        return Lease(client=client, message_id=message_id, holder=holder, ttl_s=ttl_s)
    return cast(Claim, outcome)


def fence(client: Redis, message_id: str) -> None:
    """End a message for good. Its holder hears of it within half a second, and no worker begins it again."""
    client.set(_keys(message_id)[1], "1", ex=_KEEP_S)


def is_ended(client: Redis, message_id: str) -> bool:
    """Tell whether a message is fenced or answered, by whichever orchestrator sent it: no worker begins it again."""
    return int(client.exists(*_keys(message_id)[1:])) > 0


def abandon(client: Redis, message_id: str, holder: Holder) -> None:
    """Give back the lease of a dead holder, if it still stands."""
    try:
        client.eval(_RELEASE, 1, _keys(message_id)[0], holder.encode())
    except BrokerAway:
        return


def holders(client: Redis, message_ids: Sequence[str]) -> dict[str, Holder]:
    """Return the holders of those messages that are held now."""
    if not message_ids:
        return {}
    keys = {_keys(message_id)[0]: message_id for message_id in message_ids}
    return {keys[key]: holder for key, holder in _decoded(client, list(keys), Holder.decode).items()}


def all_holders(client: Redis) -> tuple[Holder, ...]:
    """Return the holders of all messages."""
    keys = list(client.scan_iter(match="forgepool:lease:*", count=1000))
    return tuple(_decoded(client, keys, Holder.decode).values()) if keys else ()


def _decoded(client: Redis, keys: Sequence[str], decode: Callable[[str], T]) -> dict[str, T]:
    """Return the values of those keys that have one. A value that cannot be decoded is removed, and logged."""
    found: dict[str, T] = {}
    for key, value in zip(keys, cast(list[str | None], client.mget(keys)), strict=True):
        if value is None:
            continue
        try:
            found[key] = decode(value)
        except (ValueError, KeyError, TypeError, OverflowError):
            log.warning("key.unreadable", key=key, value=value[:200])
            client.delete(key)
    return found


def key_of_done(message_id: str) -> str:
    return _keys(message_id)[2]


def keep_s() -> int:
    return _KEEP_S


def _keys(message_id: str) -> tuple[str, str, str]:
    """Return the message's lease, fence and done keys."""
    return (f"forgepool:lease:{message_id}", f"forgepool:fence:{message_id}", f"forgepool:done:{message_id}")


TTL_S = 15.0


class HostFacts(Message):
    """The facts that a host has proven about itself at its start."""

    version: str = ""
    can: tuple[str, ...] | None = None
    """The words of `schema.capabilities` that hold for it; None where it has proven nothing, and may be sent all."""
    git: str = ""
    programs: dict[str, str] = Field(default_factory=dict)
    """The versions of command-line agents."""
    clock_off_s: float = 0.0
    """Seconds by which its clock is ahead of that of Redis."""
    free_disk_mb: int | None = None
    memory_mb: int | None = None


class Present(Message):
    """One worker process as it announces itself."""

    host: str
    pid: int
    queues: tuple[str, ...]
    concurrency: int
    since: float
    protocol: int = 0
    """The version of the messages it reads; 0 for workers that do not tell."""
    facts: HostFacts = HostFacts()
    drained: bool = False
    """It finishes the work that it has, and takes nothing new."""


def announce(client: Redis, present: Present) -> None:
    client.set(_key(present), present.encode(), px=int(TTL_S * 1000))


def withdraw(client: Redis, present: Present) -> None:
    client.delete(_key(present))


def present(client: Redis) -> tuple[Present, ...]:
    """Return all workers that announced themselves lately, by host and process id."""
    keys = sorted(cast(list[str], list(client.scan_iter(match="forgepool:worker:*", count=1000))))
    if not keys:
        return ()
    return tuple(_decoded(client, keys, partial(Present.model_validate_json, extra="ignore")).values())


def slots(workers: tuple[Present, ...], queue: str, *, beside: str | None = None) -> int:
    """
    Return how many messages of a queue can be worked on at once.

    A worker that also serves the queue `beside`, whose messages are few and short, keeps one place free for it if
    it has several.
    """
    serving = (worker for worker in workers if queue in worker.queues and not worker.drained)
    free = [worker.concurrency - (beside in worker.queues) for worker in serving]
    return sum(max(1, places) for places in free)


_SPOKEN_S = 30


def announce_protocol(client: Redis) -> None:
    """Tell that a run writes messages of our version; to be repeated within half a minute."""
    client.set(f"forgepool:protocol:{PROTOCOL}", "1", ex=_SPOKEN_S)


def list_protocols(client: Redis) -> frozenset[int]:
    """Return the versions of messages that runs write now."""
    names = cast(list[str], list(client.scan_iter(match="forgepool:protocol:*", count=1000)))
    return frozenset(int(number) for name in names if (number := name.rpartition(":")[2]).isdecimal())


def drain(client: Redis, host: str) -> None:
    """Have a host finish what it has, and take nothing new."""
    client.set(_key_of_drain(host), "1")


def readmit(client: Redis, host: str) -> None:
    """Let a drained host take messages again."""
    client.delete(_key_of_drain(host))


def is_drained(client: Redis, host: str) -> bool:
    return client.exists(_key_of_drain(host)) == 1


def _key_of_drain(host: str) -> str:
    return f"forgepool:drained:{host}"


def _key(present: Present) -> str:
    """Return a worker's key. One host process has several workers, each with its own queues."""
    return f"forgepool:worker:{present.host}:{present.pid}:{','.join(present.queues)}"
