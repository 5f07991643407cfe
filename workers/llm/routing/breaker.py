"""
The circuit breaker: accounts and models that no worker should ask for now, known to all workers on all hosts.

Two things shut a model off. A *limit* ends at a time that the vendor states or that is guessed. A usage limit is the
account's and shuts all its models; any other is the model's own. *Failures* in a row, of all workers together, shut a
model off for half a minute, then twice as long, up to ten minutes. After each pause one worker tries, and its result
counts for all.

The breaker is a courtesy, never a gate. Where Redis is away or answers oddly, each worker goes by what it saw itself,
and nothing waits for Redis. Each worker uses its own clock, so pauses differ by as much as the hosts' clocks. The rules
are functions over values; Redis only keeps the value, changed by compare-and-swap.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from pydantic import ValidationError

from forgepool.workers.llm.provider import ModelFailed, Trouble
from forgepool.workers.queue.broker import BrokerAway, Redis, RedisTrouble
from forgepool.workers.schema.orders import Message

FAILURES: frozenset[Trouble] = frozenset(("server", "overloaded", "connection", "silence", "truncated"))
"""Failures that, in a row, mean that a model is out of order."""
ALIVE: frozenset[Trouble] = frozenset(("rate_limit", "usage_limit", "authentication", "bad_request", "overflow"))
"""Failures that only a model in working order causes."""
MOST_FAILURES = 5
WINDOW_S = 300.0
"""Seconds without a failure after which earlier ones are forgotten."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 30.0, 600.0
PROBE_S = 120.0
"""Seconds that one try after a pause blocks all others, if it is never reported."""
GUESSED_LIMIT_S = 900.0
"""Seconds of a usage limit whose end the vendor did not state."""

SHORT_S = 60.0
"""Seconds up to which a limit is not shared: the worker that met it just waits."""

_SWAP = """
local found = redis.call('get', KEYS[1])
if (found or '') ~= ARGV[1] then return found or '' end
redis.call('set', KEYS[1], ARGV[2], 'PX', ARGV[3])
return false
"""
_LATER = """
local found = redis.call('get', KEYS[1])
if found then
  local read, known = pcall(cjson.decode, found)
  if read and type(known) == 'table' and (tonumber(known['until']) or 0) >= tonumber(ARGV[2]) then return found end
end
redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[3])
return false
"""
_SWAPS = 5
_KEEP_S = 3600
_AWAY_S = 30.0

M = TypeVar("M", bound=Message)
Pair = tuple[str, str]
"""An account and a model."""


class Limit(Message):
    """A limit: until when, and why, no worker may ask."""

    until: float
    why: str
    trouble: Trouble


class Health(Message):
    """A model's failures in a row, and the pauses after them."""

    failures: int = 0
    last: float = 0.0
    """The Unix time of the latest failure."""
    pauses: int = 0
    """The pauses in a row, without an answer since the first."""
    shut_until: float = 0.0
    probe_until: float = 0.0
    """The Unix time until which a worker is trying."""
    why: str = ""
    trouble: Trouble = "server"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shut:
    """The model may not be asked before the Unix time `until`."""

    until: float
    why: str
    trouble: Trouble


@dataclass(frozen=True, slots=True)
class Probe:
    """One worker alone may ask, after it has claimed the try."""


@dataclass(frozen=True, slots=True)
class Free:
    """Every worker may ask."""


Verdict = Shut | Probe | Free


def judge_health(limits: Iterable[Limit], health: Health, now: float) -> Verdict:
    """Judge whether a model may be asked now; of several obstacles the one that lasts longest counts."""
    shut = [Shut(until=limit.until, why=limit.why, trouble=limit.trouble) for limit in limits if limit.until > now]
    until = max(health.shut_until, health.probe_until)
    if health.pauses and until > now:
        shut.append(Shut(until=until, why=health.why, trouble=health.trouble))
    if shut:
        return max(shut, key=lambda limit: limit.until)
    return Probe() if health.pauses else Free()


def after_failure(health: Health, now: float, trouble: Trouble, why: str) -> Health:
    """Return the health after one more failure. Tries that began before a pause do not make it longer."""
    if health.pauses and health.shut_until > now:
        return health
    if not health.pauses and now - health.last > WINDOW_S:
        health = Health()
    failures = health.failures + 1
    seen = health.model_copy(update={"failures": failures, "last": now, "why": why, "trouble": trouble})
    if not health.pauses and failures < MOST_FAILURES:
        return seen
    pause_s = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(health.pauses, 30))
    shut = {"pauses": health.pauses + 1, "shut_until": now + pause_s, "probe_until": 0.0}
    return seen.model_copy(update=shut)


def claim_try(health: Health, now: float) -> Health | None:
    """Return the health with a claimed try; None where another worker was faster, or nothing is to be tried."""
    if not health.pauses or max(health.shut_until, health.probe_until) > now:
        return None
    return health.model_copy(update={"probe_until": now + PROBE_S})


def release_try(health: Health, until: float) -> Health | None:
    """Return the health without the try that was claimed until then; None where another try is under way."""
    return health.model_copy(update={"probe_until": 0.0}) if health.probe_until == until else None


@dataclass(slots=True, kw_only=True)
class Breaker:
    """The breaker that all workers on one Redis share; without a Redis it is this process's own."""

    client: Redis | None
    clock: Callable[[], float] = time.time
    _own: dict[str, str] = field(default_factory=dict)
    """The values this process last knew, for when Redis is away."""
    _claims: dict[Pair, float] = field(default_factory=dict)
    """The end of each claim of this process, by which it recognises its own."""
    _away_until: float = 0.0

    def look(self, wanted: Iterable[Pair]) -> dict[Pair, Verdict]:
        """Judge each pair, with one question to Redis for all of them."""
        pairs = tuple(dict.fromkeys(wanted))
        keys = [key for pair in pairs for key in _keys(*pair)]
        found = self.ask_redis(lambda client: client.mget(keys)) if keys else None
        if isinstance(found, list):
            self._own.update(zip(keys, (str(text or "") for text in found), strict=True))
        return {pair: self._verdict(pair) for pair in pairs}

    def claim(self, pair: Pair) -> bool:
        """Claim the try of a `Probe`; return whether it is the caller's, who must then report the result."""
        now = self.clock()
        if not self._change(_keys(*pair)[2], lambda health: claim_try(health, now)):
            return False
        self._claims[pair] = now + PROBE_S
        return True

    def give_back(self, pair: Pair) -> None:
        """End a claimed try that says nothing about the model's health; another worker may try."""
        until = self._claims.pop(pair, None)
        if until is not None:
            self._change(_keys(*pair)[2], lambda health: release_try(health, until))

    def note(self, pair: Pair, failure: ModelFailed) -> None:
        """Record what a failed try shows; most failures show nothing."""
        account_limit, model_limit, health = _keys(*pair)
        now, trouble = self.clock(), failure.trouble
        if trouble == "usage_limit":
            self._limit(account_limit, failure, now)
        elif failure.resets_at is not None and failure.resets_at > now + SHORT_S:
            self._limit(model_limit, failure, now)
        if trouble in FAILURES:
            self._change(health, lambda known: after_failure(known, now, trouble, str(failure)))
        elif trouble in ALIVE:
            self.praise(pair)

    def praise(self, pair: Pair) -> None:
        """Forget earlier failures after an answer. Limits stay, for an answer says nothing of the next call."""
        key = _keys(*pair)[2]
        self._claims.pop(pair, None)
        self._own.pop(key, None)
        self.ask_redis(lambda client: client.delete(key))

    def _verdict(self, pair: Pair) -> Verdict:
        account_limit, model_limit, health = (self._own.get(key, "") for key in _keys(*pair))
        limits = [limit for text in (account_limit, model_limit) if (limit := _decoded(Limit, text)) is not None]
        return judge_health(limits, _decoded(Health, health) or Health(), self.clock())

    def _limit(self, key: str, failure: ModelFailed, now: float) -> None:
        """Set a limit; of two, the later holds. A limit without an end in the future gets a guessed one."""
        stated = failure.resets_at
        until = stated if stated is not None and stated > now else now + GUESSED_LIMIT_S
        limit = Limit(until=until, why=str(failure), trouble=failure.trouble)
        known = _decoded(Limit, self._own.get(key, ""))
        if known is None or known.until < until:
            self._own[key] = limit.encode()
        found = self.ask_redis(partial(_later, key=key, limit=limit, lasts_ms=int((until - now) * 1000) + 1))
        if found is not None:
            self._own[key] = str(found)

    def _change(self, key: str, rule: Callable[[Health], Health | None]) -> bool:
        """Apply a rule to the shared health by compare-and-swap; return whether it changed something."""
        for _ in range(_SWAPS):
            text = self._own.get(key, "")
            changed = rule(_decoded(Health, text) or Health())
            if changed is None:
                return False
            truth = self.ask_redis(partial(_swapped, key=key, old=text, new=changed.encode()))
            self._own[key] = changed.encode() if truth is None else str(truth)
            if truth is None:
                return True
        return False

    def ask_redis(self, question: Callable[[Redis], object]) -> object:
        """Ask Redis; return None where there is none. A Redis that was away is not asked for a while."""
        if self.client is None or self.clock() < self._away_until:
            return None
        try:
            return question(self.client)
        except (*BrokerAway, RedisTrouble, ValueError):
            self._away_until = self.clock() + _AWAY_S
            return None


def _later(client: Redis, *, key: str, limit: Limit, lasts_ms: int) -> object:
    """Store a limit; return None, or the stored one that lasts longer."""
    return client.eval(_LATER, 1, key, limit.encode(), repr(limit.until), str(lasts_ms))


def _swapped(client: Redis, *, key: str, old: str, new: str) -> object:
    """Replace the old value; return None, or the value that was there instead."""
    return client.eval(_SWAP, 1, key, old, new, str(_KEEP_S * 1000))


def _keys(account: str, model: str) -> tuple[str, str, str]:
    """Return the keys of the account's limit, the model's limit and the model's failures."""
    return (
        f"forgepool:breaker:account:{account}",
        f"forgepool:breaker:model:{account}:{model}",
        f"forgepool:breaker:failures:{account}:{model}",
    )


def _decoded(model: type[M], text: str) -> M | None:
    """Decode a value; one that another version of this program wrote counts as none."""
    try:
        return model.model_validate_json(text) if text else None
    except ValidationError:
        return None
