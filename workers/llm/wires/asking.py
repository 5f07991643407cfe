"""
One try over any wire: the stream is read to its end, and every failure becomes one `ModelFailed`.

This is what the adapters share: stopping, time limits, token counts, call ids that are unique, and no key in any
message. The wires know what the events mean. The stream is read in a thread of its own. The caller's thread waits for
events and calls `stop` itself, so no callback ever runs in another thread.
"""

import json
import queue
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, Protocol, TypeVar
from uuid import uuid4

from forgepool.workers.llm.messages import Part, Text, ToolCall, Turn, Usage
from forgepool.workers.llm.provider import Delta, Endpoint, Hear, ModelFailed, ModelRequest, RateLimits
from forgepool.workers.llm.wires import faults
from forgepool.workers.llm.wires.normal_forms import VendorCounts, settle_counts
from forgepool.workers.llm.wires.rate_limits import read_rate_limits

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
    """The time limits of a try: in all, and without a part of the answer. A server may send signs of life for ever."""

    called: str
    longest_s: float
    quiet_s: float
    clock: Callable[[], float] = time.monotonic
    _began: float = field(init=False)
    _last: float = field(init=False)

    def __post_init__(self) -> None:
        self._began = self._last = self.clock()

    def content(self) -> None:
        """Note that a part of the answer came."""
        self._last = self.clock()

    def check(self) -> None:
        """
        Check both time limits.

        Raises:
            ModelFailed: `silence`, when either is over.
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


def attend(
    opened: Callable[[], Stream[E]],
    stop: Callable[[], bool],
    *,
    watch: StreamWatch | None = None,
    broke: Callable[[Exception], Exception] = lambda error: error,
) -> Generator[E, None, None]:
    """
    Yield the stream's events until it ends.

    Raises:
        ModelFailed: `stopped`, or what `watch` raises.
        Exception: what `broke` makes of a failure to open or read the stream.
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


T = TypeVar("T")
E_contra = TypeVar("E_contra", contravariant=True)


class AnswerStream(Protocol[E_contra]):
    """An answer as its events arrive."""

    @property
    def told(self) -> VendorCounts: ...

    def take(self, event: E_contra, hear: Callable[[Delta], None]) -> bool:
        """Take an event, and return whether it is part of the answer; signs of life are not."""

    def turn(self) -> Turn:
        """
        Return the turn, without its usage, which `Try` adds.

        Raises:
            ModelFailed: the answer has no good end.
        """


@dataclass(slots=True, kw_only=True)
class Try(Generic[E]):
    endpoint: Endpoint
    request: ModelRequest
    sent: dict[str, Any]
    """The request's body, from which tokens are guessed where the vendor counts none."""
    answer: AnswerStream[E]
    _begun: bool = False
    _characters: int = 0
    _limits: RateLimits | None = None
    _watch: StreamWatch = field(init=False)

    def __post_init__(self) -> None:
        self._watch = StreamWatch(
            called=self.endpoint.called, longest_s=self.endpoint.longest_s, quiet_s=self.endpoint.quiet_s
        )

    def run(self, opened: Callable[[], Stream[E]], *, stop: Callable[[], bool], hear: Hear) -> Turn:
        try:
            listened = partial(self._listened, opened)
            with closing(attend(listened, stop, watch=self._watch, broke=self._broke)) as events:
                for event in events:
                    if not self._begun and self._limits is not None:
                        hear(self._limits)
                    self._begun = True
                    for piece in self._guarded(partial(self._pieces, event)):
                        hear(piece)
            return self._guarded(self._turn)
        except ModelFailed as failure:
            failure.usage = self._so_far(failure)
            raise

    def _listened(self, opened: Callable[[], Stream[E]]) -> Stream[E]:
        """Open the stream, in the thread that reads it, and read the limits in the headers of the answer."""
        stream = opened()
        headers = getattr(getattr(stream, "response", None), "headers", None)
        self._limits = read_rate_limits(headers, time.time()) if headers else None
        return stream

    def _pieces(self, event: E) -> list[Delta]:
        pieces: list[Delta] = []
        if self.answer.take(event, pieces.append):
            self._watch.content()
        self._characters += sum(len(piece.text) for piece in pieces)
        return pieces

    def _turn(self) -> Turn:
        turn = with_own_ids(self.answer.turn(), {call.id for earlier in self.request.turns for call in earlier.calls})
        characters = max(self._characters, sum(map(_characters, turn.parts)))
        return turn.model_copy(
            update={"usage": settle_counts(self.answer.told, sent=self.sent, said_characters=characters)}
        )

    def _guarded(self, read: Callable[[], T]) -> T:
        try:
            return read()
        except ModelFailed:
            raise
        # A server may send anything at any place; what cannot be read ends this try and nothing else.
        except Exception as error:
            failure = self._broke(error)
        # Outside of the `except`, so that no chain shows what the sentence leaves out.
        raise failure

    def _broke(self, error: Exception) -> ModelFailed:
        return faults.from_kit(error, self.endpoint.called, hidden=self.endpoint.api_key)

    def _so_far(self, failure: ModelFailed) -> Usage:
        """Return the charged usage of a failed try: none, where no answer had begun."""
        if not self._begun and failure.trouble != "silence":
            return Usage()
        return settle_counts(self.answer.told, sent=self.sent, said_characters=self._characters)


def with_own_ids(turn: Turn, taken: Iterable[str]) -> Turn:
    """Give every call an id that no other call has."""
    known = set(taken)
    parts: list[Part] = []
    for part in turn.parts:
        if isinstance(part, ToolCall):
            if not part.id or part.id in known:
                part = part.model_copy(update={"id": f"call_{uuid4().hex[:24]}"})
            known.add(part.id)
        parts.append(part)
    return turn.model_copy(update={"parts": tuple(parts)})


def _characters(part: Part) -> int:
    match part:
        case Text(text=text):
            return len(text)
        case ToolCall(arguments=arguments, malformed=malformed):
            return len(malformed if malformed is not None else json.dumps(dict(arguments), ensure_ascii=False))
        case _:
            return 0
