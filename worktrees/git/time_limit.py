"""A time limit for all git processes that a block of code starts, one after the other."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_ends_at: ContextVar[float] = ContextVar("ends_at", default=math.inf)


@contextmanager
def limit_git(seconds: float) -> Iterator[None]:
    """Let no git that is started in the block run beyond its first so many seconds; it fails with GitFailed."""
    former = _ends_at.set(min(_ends_at.get(), time.monotonic() + seconds))
    try:
        yield
    finally:
        _ends_at.reset(former)


def cut_to_limit(timeout_s: float) -> float:
    """Return the seconds that a git process may take, at most so many."""
    return min(timeout_s, max(0.1, _ends_at.get() - time.monotonic()))
