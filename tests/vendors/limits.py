"""
The vendors' rate limits: token buckets for each key and model, their headers on every answer, and 429 with retry-after.

    limits = Buckets(requests=50, input=20_000, output=8_000)  # a minute each
    with VendorServer(limited(brain, limits)) as server: ...

Input is counted by the bytes of the request, four to a token, before the brain is asked; where the brain gives usage,
that counts instead in the end. Output counts once the answer is known, and a bucket of output in debt admits no call.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from vendors.answers import Answer, Brain, Fault, Say, Seen, Wire

_MINUTE_S = 60.0


@dataclass(slots=True)
class _Bucket:
    limit: float
    window_s: float
    level: float
    at: float

    def refill(self, now: float) -> None:
        self.level = min(self.limit, self.level + self.limit * (now - self.at) / self.window_s)
        self.at = now

    def missing_s(self, amount: float) -> float:
        """Return the seconds until it holds the amount."""
        return max(0.0, (min(amount, self.limit) - self.level) * self.window_s / self.limit)


@dataclass(slots=True, kw_only=True)
class Buckets:
    """Limits for each key and model; 0 is no limit of that kind."""

    requests: int = 0
    input: int = 0
    output: int = 0
    tokens: int = 0
    """Input and output together, as OpenAI limits them."""
    window_s: float = _MINUTE_S
    """Seconds in which an empty bucket is full again."""
    counts_cached: bool = False
    clock: Callable[[], float] = time.time
    admitted: int = 0
    refused: int = 0
    _buckets: dict[tuple[str, str], dict[str, _Bucket]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def admit(self, seen: Seen) -> Fault | None:
        """Take a call from the buckets; return the refusal where one of them does not hold it."""
        needs = {"requests": 1.0, "input": _guess(seen), "tokens": _guess(seen), "output": 1.0}
        with self._lock:
            buckets = self._of(seen)
            missing_s = max((bucket.missing_s(needs[unit]) for unit, bucket in buckets.items()), default=0.0)
            if missing_s > 0:
                self.refused += 1
                wait = {"retry-after-ms": f"{missing_s * 1000:.0f}", "retry-after": f"{missing_s:.3f}"}
                return Fault(kind="rate_limit", headers=self._headers(seen.wire, buckets) | wait)
            self.admitted += 1
            for unit, bucket in buckets.items():
                bucket.level -= needs[unit] if unit != "output" else 0.0
        return None

    def settle(self, seen: Seen, say: Say) -> Say:
        """Count an answer's usage, and return the answer with the headers that tell what is left."""
        with self._lock:
            buckets, used = self._of(seen), say.usage
            counted, output = _guess(seen), len(say.text) // 4 + 1
            if used is not None:
                counted, output = used.input - (0 if self.counts_cached else used.cached), used.output
            more = {"requests": 0.0, "input": counted - _guess(seen), "output": output}
            more["tokens"] = more["input"] + output
            for unit, bucket in buckets.items():
                bucket.level -= more[unit]
            return replace(say, headers={**say.headers, **self._headers(seen.wire, buckets)})

    def _of(self, seen: Seen) -> dict[str, _Bucket]:
        now = self.clock()
        limits = {"requests": self.requests, "input": self.input, "output": self.output, "tokens": self.tokens}
        made = {unit: _Bucket(limit, self.window_s, limit, now) for unit, limit in limits.items() if limit}
        buckets = self._buckets.setdefault((seen.key, seen.model), made)
        for bucket in buckets.values():
            bucket.refill(now)
        return buckets

    def _headers(self, wire: Wire, buckets: dict[str, _Bucket]) -> dict[str, str]:
        headers = {}
        for unit, bucket in buckets.items():
            name = unit if unit in ("requests", "tokens") else f"{unit}-tokens"
            left, full_s = max(0, int(bucket.level)), bucket.missing_s(bucket.limit)
            if wire == "anthropic":
                full_at = datetime.fromtimestamp(self.clock() + full_s, UTC).isoformat(timespec="milliseconds")
                told = {"limit": f"{bucket.limit}", "remaining": f"{left}", "reset": full_at.replace("+00:00", "Z")}
                headers |= {f"anthropic-ratelimit-{name}-{part}": value for part, value in told.items()}
            else:
                told = {"limit": f"{bucket.limit}", "remaining": f"{left}", "reset": f"{full_s * 1000:.0f}ms"}
                headers |= {f"x-ratelimit-{part}-{name}": value for part, value in told.items()}
        return headers


def _guess(seen: Seen) -> float:
    return len(seen.raw) // 4 + 1


def limited(brain: Brain, buckets: Buckets) -> Brain:
    """Return the brain behind these limits."""

    def admitted(seen: Seen) -> Answer:
        if (refusal := buckets.admit(seen)) is not None:
            return refusal
        answer = brain(seen)
        return buckets.settle(seen, answer) if isinstance(answer, Say) else answer

    return admitted
