"""
Who is not to be asked for now: what one worker has learnt of an account or a model, known to all of them on all hosts.

Two things shut a model off. A *limit* has a time at which it ends, stated by the vendor or guessed: a usage limit is
the account's and shuts all its models, any other is the model's own; when the time has come, all may ask again. And
*failures* in a row, of all workers together and without one answer between them: these shut it off for half a minute,
then twice as long, and so on up to ten; after each pause one worker tries, and its luck is everybody's.

It is a courtesy, never a gate: where Redis is away, or says what nobody expects, each worker goes by what it saw
itself, and nothing waits for Redis. Times are by each worker's own clock: hosts whose clocks differ differ in their
pauses by as much. The rules are functions over values; Redis only keeps the value, changed by compare-and-swap.
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
"""Troubles that, in a row, say that a model is out of order."""
ALIVE: frozenset[Trouble] = frozenset(("rate_limit", "usage_limit", "authentication", "bad_request", "overflow"))
"""Troubles that only a model in working order makes."""
MOST_FAILURES = 5
WINDOW_S = 300.0
"""Seconds without a failure after which earlier ones are forgotten."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 30.0, 600.0
PROBE_S = 120.0
"""Seconds that one try after a pause keeps all others waiting, should nothing be heard of it."""
GUESSED_LIMIT_S = 900.0
"""Length of a usage limit of which the vendor did not say when it ends."""

SHORT_S = 60.0
"""A limit no longer than this is waited for by whoever met it, and nobody else's concern."""

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
    """Until when, and why, nobody is to ask."""

    until: float
    why: str
    trouble: Trouble


class Health(Message):
    """Failures in a row, and what followed from them."""

    failures: int = 0
    last: float = 0.0
    """Unix seconds of the latest failure."""
    pauses: int = 0
    """In a row, without an answer since the first."""
    shut_until: float = 0.0
    probe_until: float = 0.0
    """While this is to come, somebody is trying."""
    why: str = ""
    trouble: Trouble = "server"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shut:
    """Not to be asked before `until`, Unix seconds."""

    until: float
    why: str
    trouble: Trouble


@dataclass(frozen=True, slots=True)
class Probe:
    """To be asked by one alone, who has to claim it."""


@dataclass(frozen=True, slots=True)
class Free:
    """To be asked by anybody."""


Verdict = Shut | Probe | Free


def judge_health(limits: Iterable[Limit], health: Health, now: float) -> Verdict:
    """What may be done at this moment; of several reasons against it the one that lasts longest."""
    shut = [Shut(until=one.until, why=one.why, trouble=one.trouble) for one in limits if one.until > now]
    until = max(health.shut_until, health.probe_until)
    if health.pauses and until > now:
        shut.append(Shut(until=until, why=health.why, trouble=health.trouble))
    if shut:
        return max(shut, key=lambda one: one.until)
    return Probe() if health.pauses else Free()


def after_failure(health: Health, now: float, trouble: Trouble, why: str) -> Health:
    """One more failure. What was under way when the pause began does not make it longer."""
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
    """The same, with a try under way; None where somebody else was faster, or there is nothing to try."""
    if not health.pauses or max(health.shut_until, health.probe_until) > now:
        return None
    return health.model_copy(update={"probe_until": now + PROBE_S})


def release_try(health: Health, until: float) -> Health | None:
    """The same, without the try that was claimed until then; None where that is not the one under way."""
    return health.model_copy(update={"probe_until": 0.0}) if health.probe_until == until else None


@dataclass(slots=True, kw_only=True)
class Breaker:
    """What is shut off, as all workers on this Redis know it; without a Redis, as this process does."""

    client: Redis | None
    clock: Callable[[], float] = time.time
    _own: dict[str, str] = field(default_factory=dict)
    """What this process last knew, for when Redis is away."""
    _claims: dict[Pair, float] = field(default_factory=dict)
    """Until when what this process claimed is its own: the mark by which it knows it again."""
    _away_until: float = 0.0

    def look(self, wanted: Iterable[Pair]) -> dict[Pair, Verdict]:
        """What may be done with each of these: one question to Redis for all of them."""
        pairs = tuple(dict.fromkeys(wanted))
        keys = [key for pair in pairs for key in _keys(*pair)]
        found = self._asked(lambda client: client.mget(keys)) if keys else None
        if isinstance(found, list):
            self._own.update(zip(keys, (str(text or "") for text in found), strict=True))
        return {pair: self._verdict(pair) for pair in pairs}

    def claim(self, pair: Pair) -> bool:
        """Whether it is for the caller to try what it just saw to be a `Probe`; to be told what came of it."""
        now = self.clock()
        if not self._change(_keys(*pair)[2], lambda health: claim_try(health, now)):
            return False
        self._claims[pair] = now + PROBE_S
        return True

    def give_back(self, pair: Pair) -> None:
        """A try that was claimed ended without a word on the model's health; somebody else may make one."""
        until = self._claims.pop(pair, None)
        if until is not None:
            self._change(_keys(*pair)[2], lambda health: release_try(health, until))

    def note(self, pair: Pair, failure: ModelFailed) -> None:
        """Draws the conclusion from a failed try; most have none."""
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
        """It answered: what failed before is forgotten. Limits stay, for an answer says nothing of the next call."""
        key = _keys(*pair)[2]
        self._claims.pop(pair, None)
        self._own.pop(key, None)
        self._asked(lambda client: client.delete(key))

    def _verdict(self, pair: Pair) -> Verdict:
        account_limit, model_limit, health = (self._own.get(key, "") for key in _keys(*pair))
        limits = [limit for text in (account_limit, model_limit) if (limit := _decoded(Limit, text)) is not None]
        return judge_health(limits, _decoded(Health, health) or Health(), self.clock())

    def _limit(self, key: str, failure: ModelFailed, now: float) -> None:
        """Of two limits the later holds. One without an end that is still to come is guessed."""
        stated = failure.resets_at
        until = stated if stated is not None and stated > now else now + GUESSED_LIMIT_S
        limit = Limit(until=until, why=str(failure), trouble=failure.trouble)
        known = _decoded(Limit, self._own.get(key, ""))
        if known is None or known.until < until:
            self._own[key] = limit.encode()
        found = self._asked(partial(_later, key=key, limit=limit, lasts_ms=int((until - now) * 1000) + 1))
        if found is not None:
            self._own[key] = str(found)

    def _change(self, key: str, rule: Callable[[Health], Health | None]) -> bool:
        """Whether the rule has something to say to what is known in truth, which others change at the same time."""
        for _ in range(_SWAPS):
            text = self._own.get(key, "")
            changed = rule(_decoded(Health, text) or Health())
            if changed is None:
                return False
            truth = self._asked(partial(_swapped, key=key, old=text, new=changed.encode()))
            self._own[key] = changed.encode() if truth is None else str(truth)
            if truth is None:
                return True
        return False

    def _asked(self, question: Callable[[Redis], object]) -> object:
        """What Redis says; None also where there is none to ask. One that was away is let alone for a while."""
        if self.client is None or self.clock() < self._away_until:
            return None
        try:
            return question(self.client)
        except (*BrokerAway, RedisTrouble, ValueError):
            self._away_until = self.clock() + _AWAY_S
            return None


def _later(client: Redis, *, key: str, limit: Limit, lasts_ms: int) -> object:
    """None where the limit now stands; else the one that lasts longer."""
    return client.eval(_LATER, 1, key, limit.encode(), repr(limit.until), str(lasts_ms))


def _swapped(client: Redis, *, key: str, old: str, new: str) -> object:
    """None where the old value was there and is changed; else what was there."""
    return client.eval(_SWAP, 1, key, old, new, str(_KEEP_S * 1000))


def _keys(account: str, model: str) -> tuple[str, str, str]:
    """The account's limit, the model's limit, the model's failures."""
    return (
        f"forgepool:breaker:account:{account}",
        f"forgepool:breaker:model:{account}:{model}",
        f"forgepool:breaker:failures:{account}:{model}",
    )


def _decoded(model: type[M], text: str) -> M | None:
    """What another version of this program wrote counts as nothing."""
    try:
        return model.model_validate_json(text) if text else None
    except ValidationError:
        return None
