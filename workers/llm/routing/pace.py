"""
The pace of an account: all workers together stay within its rate limits, and wait in turn instead of being refused.

Redis keeps one state for each account, which `pace.lua` changes: token buckets for each model (requests, input,
output), by what the vendor's answers tell; a pause after a refusal, which is only ever made longer; and how many calls
may be in flight. A worker asks before each call with an estimate, which the answer's usage corrects. Where it is not
its turn it is told when to ask again. Runs are served in turn, each with the same share.

It is a courtesy, as the breaker is. Where Redis is away, each worker goes by what it saw itself.
"""

import json
import random
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Literal
from uuid import uuid4

import structlog

from forgepool.workers.llm.messages import Turn, Usage
from forgepool.workers.llm.provider import (
    Delta,
    Hear,
    LlmEvent,
    ModelFailed,
    ModelRequest,
    Provider,
    RateLimits,
    Waited,
    deaf,
)
from forgepool.workers.llm.routing.breaker import SHORT_S, Breaker
from forgepool.workers.queue.broker import Redis

log = structlog.get_logger()

LONGEST_WAIT_S = 600.0
"""Seconds that a call waits for its turn, before the next candidate is asked."""
_SLICE_S = 0.1
_LOOK_S = 1.0
"""Seconds after which a waiting call looks again at the latest: others may have used less than was expected."""
_JITTER = 0.1
_MINUTE_S = 60.0
_REFUSED_S = 2.0
"""Seconds of a pause whose length the vendor did not state, where Redis is away."""
_CHARACTERS_PER_TOKEN = 4
_ANY_OUTPUT = 1_000_000

Ended = Literal["answered", "refused", "failed"]


@cache
def _script() -> str:
    return Path(__file__).with_name("pace.lua").read_text(encoding="utf-8")


@dataclass(slots=True, kw_only=True)
class AccountPace:
    """The pace of all accounts, as one worker keeps to it for one run."""

    breaker: Breaker
    """Its connection to Redis is used, and its memory of whether Redis is away."""
    run: str = ""
    sleep: Callable[[float], None] = time.sleep
    _own: dict[str, float] = field(default_factory=dict)
    """By account, the monotonic time before which this worker would not ask, by what it saw itself."""

    def ask(self, account: str, wanted: "PacedCall") -> tuple[float, float] | None:
        """
        Ask for a call's turn. Return the seconds after which to ask again, 0 for its turn, and those for which the
        whole account pauses; None where Redis is away.
        """
        told = self._change(
            account,
            {
                "op": "ask",
                "id": wanted.id,
                "run": self.run,
                "model": wanted.model,
                "input": wanted.input_tokens,
                "most": wanted.most_output,
            },
        )
        return None if told is None else (told[0] / 1000, told[1] / 1000)

    def own_wait_s(self, account: str) -> float:
        """Return the seconds to wait by what this worker saw itself."""
        return max(0.0, self._own.get(account, 0.0) - time.monotonic())

    def hear(self, account: str, wanted: "PacedCall", limits: RateLimits | None) -> None:
        """Take in the limits that the beginning of an answer tells."""
        self._note(account, limits)
        self._change(account, {"op": "hear", "id": wanted.id, "model": wanted.model, "limits": _as_plain(limits)})

    def finish(self, account: str, wanted: "PacedCall", ended: Ended, used: Usage, failure: ModelFailed | None) -> None:
        """Correct the estimate of a call by what it used, and take in a refusal."""
        limits = failure.limits if failure is not None else None
        self._note(account, limits)
        call: dict[str, object] = {
            "op": "done",
            "id": wanted.id,
            "model": wanted.model,
            "ended": ended,
            "input": wanted.count_input(used),
            "output": used.output_tokens,
        }
        if limits is not None:
            call["limits"] = _as_plain(limits)
        if ended == "refused" and failure is not None:
            pause_s = _pause_s(failure)
            self._put_off(account, _REFUSED_S if pause_s is None else pause_s)
            if pause_s is not None:
                call["pause"] = round(pause_s * 1000)
        self._change(account, call)

    def leave(self, account: str, wanted: "PacedCall") -> None:
        """Give up the place in the line."""
        self._change(account, {"op": "leave", "id": wanted.id})

    def _note(self, account: str, limits: RateLimits | None) -> None:
        for allowance in limits.allowances.values() if limits is not None else ():
            if allowance.remaining < 1:
                self._put_off(account, min(_MINUTE_S, allowance.reset_s or 0.0))

    def _put_off(self, account: str, seconds: float) -> None:
        self._own[account] = max(self._own.get(account, 0.0), time.monotonic() + seconds)

    def _change(self, account: str, call: Mapping[str, object]) -> list[int] | None:
        found = self.breaker.ask_redis(partial(_changed, account=account, call=json.dumps(call)))
        return found if isinstance(found, list) and len(found) == 2 else None


def find_pauses(client: Redis, accounts: Iterable[str]) -> dict[str, float]:
    """Return the seconds for which accounts pause after a refusal, for those that do."""
    names = tuple(accounts)
    with client.pipeline(transaction=False) as pipeline:
        pipeline.time()
        pipeline.mget([_key(name) for name in names])
        (seconds, micros), states = pipeline.execute()
    left = {name: _cool(state) / 1000 - seconds - micros / 1e6 for name, state in zip(names, states, strict=True)}
    return {name: left_s for name, left_s in left.items() if left_s > 0}


def _cool(state: str | None) -> float:
    try:
        return float(json.loads(state or "{}")["cool"])
    except (ValueError, LookupError, TypeError):
        return 0.0


def _changed(client: Redis, *, account: str, call: str) -> object:
    return client.eval(_script(), 1, _key(account), call)


def _key(account: str) -> str:
    return f"forgepool:pace:{account}"


def _as_plain(limits: RateLimits | None) -> dict[str, dict[str, float]]:
    told: dict[str, dict[str, float]] = {}
    for unit, allowance in limits.allowances.items() if limits is not None else ():
        told[unit] = {"limit": allowance.limit, "remaining": allowance.remaining}
        if allowance.reset_s is not None:
            told[unit]["reset"] = allowance.reset_s * 1000
    return told


def _pause_s(failure: ModelFailed) -> float | None:
    if failure.retry_after_s is not None:
        return failure.retry_after_s
    return None if failure.resets_at is None else max(0.0, failure.resets_at - time.time())


@dataclass(frozen=True, slots=True, kw_only=True)
class PacedCall:
    """A call with its estimate."""

    model: str
    input_tokens: int
    most_output: int
    counts_cached: bool
    id: str = field(default_factory=lambda: uuid4().hex)

    def count_input(self, used: Usage) -> int:
        """Return the input that counts against the limits."""
        return used.input_tokens if self.counts_cached else used.input_tokens - used.cached_tokens


@dataclass(slots=True, kw_only=True)
class Paced:
    """A provider that waits for its turn before it asks another one."""

    provider: Provider
    pace: AccountPace
    account: str
    model: str
    """The account's name for it."""
    counts_cached: bool = True
    """Input that is read from a cache counts against the account's limits."""
    _last: tuple[int, Usage] | None = None
    """The characters of the last request, and its usage: the next one extends it."""

    def ask(self, request: ModelRequest, *, stop: Callable[[], bool], hear: Hear = deaf) -> Turn:
        characters = _count_characters(request)
        wanted = PacedCall(
            model=self.model,
            input_tokens=self._estimate(characters),
            most_output=request.max_output_tokens or _ANY_OUTPUT,
            counts_cached=self.counts_cached,
        )
        self._wait(wanted, stop, hear)
        ended: Ended = "failed"
        used, failure = Usage(), None
        try:
            turn = self.provider.ask(request, stop=stop, hear=_Listener(self, wanted, hear).hear)
            ended, used = "answered", turn.usage
            self._last = characters, used
            return turn
        except ModelFailed as failed:
            failure, used = failed, failed.usage
            ended = "refused" if failed.trouble == "rate_limit" else "failed"
            raise
        finally:
            self.pace.finish(self.account, wanted, ended, used, failure)

    def _estimate(self, characters: int) -> int:
        """Estimate the input that will count: by the last request, which this one extends, where there is one."""
        if self._last is None:
            return characters // _CHARACTERS_PER_TOKEN + 1
        before, used = self._last
        more = max(0, characters - before) // _CHARACTERS_PER_TOKEN
        # What was read from the cache or written to it will be read from it.
        return more + (used.input_tokens if self.counts_cached else used.fresh_tokens) + 1

    def _wait(self, wanted: PacedCall, stop: Callable[[], bool], hear: Hear) -> None:
        """
        Wait for the call's turn.

        Raises:
            ModelFailed: `stopped`, or `unavailable` where the account pauses for long, or its turn does not come.
        """
        waited_s = 0.0
        try:
            while True:
                told = self.pace.ask(self.account, wanted)
                wait_s, pause_s = (self.pace.own_wait_s(self.account), 0.0) if told is None else told
                if wait_s <= 0:
                    break
                if pause_s > SHORT_S or waited_s > LONGEST_WAIT_S:
                    raise self._gave_up(max(wait_s, pause_s))
                # A pause is told exactly, and all wait for it: they do not come back together.
                wait_s = pause_s if pause_s else min(wait_s, _LOOK_S)
                waited_s += self._sleep(wait_s * (1 + _JITTER * random.random()), stop, hear)
        except ModelFailed:
            self.pace.leave(self.account, wanted)
            raise
        if waited_s >= _LOOK_S:
            log.info("pace.waited", account=self.account, model=self.model, seconds=round(waited_s, 1))

    def _sleep(self, seconds: float, stop: Callable[[], bool], hear: Hear) -> float:
        ends_at = time.monotonic() + seconds
        while (left_s := ends_at - time.monotonic()) > 0:
            piece_s = min(left_s, _SLICE_S)
            self.pace.sleep(piece_s)
            hear(Waited(seconds=piece_s))
            if stop():
                raise ModelFailed("stopped while waiting for the account's rate limit", trouble="stopped")
        return seconds

    def _gave_up(self, seconds: float) -> ModelFailed:
        return ModelFailed(
            f"account '{self.account}' is at its rate limit; wait for {seconds:.0f} s or use another account",
            trouble="unavailable",
            resets_at=time.time() + seconds,
        )


@dataclass(slots=True)
class _Listener:
    """Hears an answer's events, and tells the pace of its limits once."""

    paced: Paced
    wanted: PacedCall
    tell: Hear
    _told: bool = False

    def hear(self, event: LlmEvent) -> None:
        limits = event if isinstance(event, RateLimits) else None
        if not self._told and (limits is not None or isinstance(event, Delta)):
            self._told = True
            self.paced.pace.hear(self.paced.account, self.wanted, limits)
        if limits is None:
            self.tell(event)


def _count_characters(request: ModelRequest) -> int:
    tools = sum(len(tool.name) + len(tool.description) + len(json.dumps(dict(tool.schema))) for tool in request.tools)
    turns = sum(len(part.model_dump_json()) for turn in request.turns for part in turn.parts)
    return tools + turns + sum(map(len, request.system))
