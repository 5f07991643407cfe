"""An asyncio loop in its own thread, for libraries that need one. Questions to it have a time limit."""

import asyncio
import concurrent.futures
import contextlib
import threading
import time
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

T = TypeVar("T")

_LOOK_S = 0.2


class AsyncioThread:
    """Runs the thread from the first question to the end of the block."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._loop is None or self._thread is None:
            return
        with contextlib.suppress(RuntimeError):  # it has ended by itself
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop = self._thread = None

    def begin(self, work: Coroutine[Any, Any, T]) -> "concurrent.futures.Future[T]":
        """Start work that goes on by itself."""
        return asyncio.run_coroutine_threadsafe(work, self._started())

    def answer(self, work: Coroutine[Any, Any, T], *, within_s: float, stop: Callable[[], bool] = lambda: False) -> T:
        """
        Return the work's result. The work is cancelled when it takes too long or `stop()` says so.

        Raises:
            TimeoutError: it was cancelled. Whatever the work raises is raised too.
        """
        deadline = time.monotonic() + within_s
        future = self.begin(work)
        while not future.done():
            left_s = deadline - time.monotonic()
            if left_s <= 0 or stop():
                future.cancel()
                raise TimeoutError
            concurrent.futures.wait([future], timeout=min(_LOOK_S, left_s))
        return future.result()

    def _started(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=_run, args=[self._loop], name="aside", daemon=True)
            self._thread.start()
        return self._loop


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
