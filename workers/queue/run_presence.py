"""
Presence of runs: each tells the others on its Redis what it has under way and could start. Advisory.

A run's key expires unless the run writes it again, so a run that has died holds nothing. Unlike the presence of
workers, it is signed where there is a key: it keeps a message that has waited long from being stale.
"""

import time
from collections.abc import Mapping
from typing import cast

import structlog
from pydantic import Field, ValidationError

from forgepool.workers.queue.broker import BrokerAway, Redis, ask_key
from forgepool.workers.queue.signing import NotSigned, sign, verify
from forgepool.workers.schema.orders import Message

log = structlog.get_logger()

LIFE_S = 15.0
"""Seconds for which a run counts as alive after it has written its key."""
_ALL = "forgepool:runs"
_BELIEVED_S = 3600.0
"""A copy of a key that is older proves nothing: anyone in Redis could have written it again. Clocks may differ."""


class RunPresence(Message):
    """A run as it announces itself."""

    run: str
    hub: str
    target: str
    weight: int = Field(default=1, ge=1)
    running: int = Field(default=0, ge=0)
    """Order slots that it uses."""
    waiting: int = Field(default=0, ge=0)
    """Further orders that it would start now if it had the slots."""
    paths: tuple[str, ...] = ()
    """Globs of the tasks that it has in flight."""
    at: float = 0.0
    """Unix seconds, by the run's clock."""


def announce_run(client: Redis, presence: RunPresence) -> None:
    """Write the run's key; to be repeated within `LIFE_S`."""
    key, now = _key(presence.run), presence.model_copy(update={"at": time.time()})
    client.set(key, sign(now.encode(), key), px=int(LIFE_S * 1000))
    ask_key(client, _ALL, "set", lambda names: client.sadd(names, presence.run))


def withdraw_run(client: Redis, run: str) -> None:
    client.delete(_key(run))
    ask_key(client, _ALL, "set", lambda names: client.srem(names, run))


def list_runs(client: Redis) -> tuple[RunPresence, ...]:
    """Return the runs that announced themselves lately, by name. What cannot be read is left out, or removed."""
    names = sorted(ask_key(client, _ALL, "set", client.smembers) or ())
    if not names:
        return ()
    values = _values(client, names)
    if gone := [name for name in names if values[name] is None]:
        client.srem(_ALL, *gone)
    found = (_read(client, name, value) for name, value in values.items() if value is not None)
    return tuple(presence for presence in found if presence is not None)


def is_run_alive(client: Redis, run: str) -> bool:
    """Tell whether the run still announces itself; False where Redis cannot be asked."""
    try:
        value = _values(client, [run])[run]
        presence = None if value is None else _read(client, run, value)
    except BrokerAway:
        return False
    return presence is not None and abs(time.time() - presence.at) < _BELIEVED_S


def _values(client: Redis, names: list[str]) -> Mapping[str, str | None]:
    values = cast(list[str | None], client.mget([_key(name) for name in names]))
    return dict(zip(names, values, strict=True))


def _read(client: Redis, run: str, value: str) -> RunPresence | None:
    """Return a presence. One of a run with another key is left to itself, and junk is removed."""
    key = _key(run)
    try:
        return RunPresence.model_validate_json(verify(value, key), extra="ignore")
    except NotSigned:
        return None
    except ValidationError:
        log.warning("key.unreadable", key=key, value=value[:200])
        client.delete(key)
        return None


def _key(run: str) -> str:
    return f"forgepool:run:{run}"
