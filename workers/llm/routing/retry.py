"""
The one place where a question is asked again: waits, and tries the same model once more while that makes sense.

Only troubles that pass by themselves are waited for. How long follows from the vendor's word where it gave one, and
from doubling, jittered pauses where not. What the vendor wants waited for longer than `longest_wait_s` is not waited
for here: whoever has other models to ask decides. The kits' own retries are off.
"""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from forgepool.workers.llm.messages import Turn
from forgepool.workers.llm.provider import PASSING, Hear, ModelFailed, ModelRequest, Provider, ProviderTry, deaf

_SLICE_S = 0.2
"""Seconds between two questions whether to stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long, and how often."""

    attempts: int = 6
    total_s: float = 600.0
    """Seconds after the first try began, after which no other begins."""
    first_wait_s: float = 1.0
    """Doubled with each further wait."""
    longest_wait_s: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Time:
    """The clock (Unix seconds), sleep and chance: arguments, so that hours can be tried out in no time."""

    clock: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    chance: Callable[[], float] = random.random
    """A number from 0 to 1."""


def goes_on(failure: ModelFailed) -> bool:
    """Nothing speaks against another try."""
    return True


@dataclass(slots=True, kw_only=True)
class Retrying:
    """A provider that asks another one, which asks once."""

    provider: Provider
    model: str
    account: str
    """Both are for what is told of tries."""
    patience: Patience = field(default_factory=Patience)
    time: Time = field(default_factory=Time)
    worth_it: Callable[[ModelFailed], bool] = goes_on
    """Told of every failed try, and asked whether another one is wanted by anybody."""

    def ask(self, request: ModelRequest, *, stop: Callable[[], bool], hear: Hear = deaf) -> Turn:
        began = self.time.clock()
        attempt = 0
        while True:
            attempt += 1
            tried_at = self.time.clock()
            try:
                return self.provider.ask(request, stop=stop, hear=hear)
            except ModelFailed as failure:
                if failure.trouble == "stopped":
                    raise
                now = self.time.clock()
                _date(failure, now)
                wait_s = self._wait_s(failure, attempt, now - began) if self.worth_it(failure) else None
                hear(self._told(failure, now - tried_at, wait_s))
                if wait_s is None:
                    raise
                wait(wait_s, stop=stop, sleep=self.time.sleep)

    def _wait_s(self, failure: ModelFailed, attempt: int, spent_s: float) -> float | None:
        """Seconds until the next try; None where there is to be none."""
        wait_s = pause_s(failure, attempt, self.patience, self.time.chance())
        over = attempt >= self.patience.attempts or wait_s is None or spent_s + wait_s > self.patience.total_s
        return None if over else wait_s

    def _told(self, failure: ModelFailed, seconds: float, wait_s: float | None) -> ProviderTry:
        return ProviderTry(
            model=self.model,
            account=self.account,
            trouble=failure.trouble,
            said=str(failure),
            status=failure.status,
            seconds=seconds,
            wait_s=wait_s,
            usage=failure.usage,
        )


def pause_s(failure: ModelFailed, attempt: int, patience: Patience, chance: float) -> float | None:
    """
    Seconds to wait after the try with this number, from 1; None where waiting is no use, or would be too long.

    Without the vendor's word: half of a doubling pause, and up to as much again by chance, so that those who failed
    together do not come back together. With it: that long, but never less than the first pause (some say 0 as long as
    the trouble lasts), and up to a tenth of it more.
    """
    if failure.trouble not in PASSING:
        return None
    if failure.retry_after_s is not None:
        if failure.retry_after_s > patience.longest_wait_s:
            return None
        return max(failure.retry_after_s, patience.first_wait_s) * (1 + chance / 10)
    # Not 2**attempt alone: a float ends somewhere.
    doubled = min(patience.longest_wait_s, patience.first_wait_s * 2.0 ** min(attempt - 1, 30))
    return doubled * (1 + chance) / 2


def wait(seconds: float, *, stop: Callable[[], bool], sleep: Callable[[float], None]) -> None:
    """
    Sleeps so long, in pieces.

    Raises:
        ModelFailed: the asker gave up meanwhile.
    """
    left_s = seconds
    while left_s > 0:
        if stop():
            raise ModelFailed("stopped while waiting to ask again", trouble="stopped")
        piece_s = min(left_s, _SLICE_S)
        sleep(piece_s)
        left_s -= piece_s


def _date(failure: ModelFailed, now: float) -> None:
    """Notes when the trouble is over, wherever the vendor said in how many seconds."""
    if failure.resets_at is None and failure.retry_after_s is not None:
        failure.resets_at = now + failure.retry_after_s
