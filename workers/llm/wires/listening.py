"""
Reading a stream that may fall silent, without being deaf to whoever asks to stop.

The stream is opened and read in a thread of its own; the asker's thread waits for what it reads, and asks `stop` itself
meanwhile, so that neither `stop` nor what is done with an event is ever called from another thread.
"""

import queue
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from forgepool.workers.llm.provider import ModelFailed

_ASK_S = 0.1

E = TypeVar("E")
T_co = TypeVar("T_co", covariant=True)


class Stream(Protocol[T_co]):
    """Events, as the vendors' kits give them."""

    def __iter__(self) -> Iterator[T_co]: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class _Over:
    """The end of a stream, and what ended it."""

    error: Exception | None = None


@dataclass(slots=True, kw_only=True)
class StreamWatch:
    """
    How long a try may last, and how long without bringing anything: a server that only shows signs of life is never
    silent on the line.
    """

    called: str
    longest_s: float
    quiet_s: float
    clock: Callable[[], float] = time.monotonic
    _began: float = field(init=False)
    _last: float = field(init=False)

    def __post_init__(self) -> None:
        self._began = self._last = self.clock()

    def content(self) -> None:
        """Something came that is part of the answer."""
        self._last = self.clock()

    def check(self) -> None:
        """
        Raises:
            ModelFailed: `silence`, when either time is over.
        """
        now = self.clock()
        if now - self._began > self.longest_s:
            raise ModelFailed(
                f"model '{self.called}' was still answering after {self.longest_s:g} s; ask for less at once",
                trouble="silence",
            )
        if now - self._last > self.quiet_s:
            raise ModelFailed(
                f"model '{self.called}' sent signs of life and nothing else for {self.quiet_s:g} s; ask again",
                trouble="silence",
            )


def as_it_is(error: Exception) -> Exception:
    return error


def attend(
    opened: Callable[[], Stream[E]],
    stop: Callable[[], bool],
    *,
    watch: StreamWatch | None = None,
    broke: Callable[[Exception], Exception] = as_it_is,
) -> Generator[E, None, None]:
    """
    Everything the stream brings, until it ends.

    Raises:
        ModelFailed: `stopped`, or what `watch` says.
        Exception: what `broke` makes of whatever opening or reading the stream raises.
    """
    heard: queue.SimpleQueue[E | _Over] = queue.SimpleQueue()
    given_up = threading.Event()
    # A read that blocks cannot be taken back: given up, the thread ends at the next byte or at the stream's own time
    # limit, and never keeps the process.
    threading.Thread(target=_read, args=(opened, heard, given_up), name="model stream", daemon=True).start()
    try:
        yield from _until_over(heard, stop, watch, broke)
    finally:
        given_up.set()


def _read(opened: Callable[[], Stream[E]], heard: "queue.SimpleQueue[E | _Over]", given_up: threading.Event) -> None:
    try:
        with closing(opened()) as stream:
            for event in stream:
                if given_up.is_set():
                    return
                heard.put(event)
    # The asker raises it, in a thread where somebody listens.
    except Exception as error:
        heard.put(_Over(error))
    else:
        heard.put(_Over())


def _until_over(
    heard: "queue.SimpleQueue[E | _Over]",
    stop: Callable[[], bool],
    watch: StreamWatch | None,
    broke: Callable[[Exception], Exception],
) -> Iterator[E]:
    asked = 0.0
    while True:
        if (now := time.monotonic()) - asked >= _ASK_S:
            asked = now
            if stop():
                raise ModelFailed("the model was still answering when its asker gave up", trouble="stopped")
            if watch is not None:
                watch.check()
        try:
            event = heard.get(timeout=_ASK_S)
        except queue.Empty:
            continue
        if isinstance(event, _Over):
            if event.error is not None:
                raise broke(event.error)
            return
        yield event
