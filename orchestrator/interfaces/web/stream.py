"""
Streams of events to browsers and programs: the numbers of a journal, as server-sent events.

The id of an event is its number in the journal. A caller that comes back with `Last-Event-ID` gets what it missed, also
from a server that was started again meanwhile. One task looks at the journals that are watched, however many watch.
"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from forgepool.orchestrator.journal.store import JournalUnreadable, is_being_written, last_number, read_rows
from forgepool.orchestrator.reports.home import HomeView, journal_stamp
from forgepool.orchestrator.run.run_folder import runs_folder

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

MOST_STREAMS = 200
_LOOK_S = 0.05
_LOOKS_AT_ALL = 40
"""Looks at the journals of live runs for one at all of the home."""
_BEAT_S = 15.0
_SENT_WITHIN_S = 10.0
"""A reader that does not take an event for so long is hung up on."""
_MOST_EVENTS = 500
"""Events that are sent one by one; of more, the last alone is."""

Mark = Hashable
"""A value that changes when there is something new."""
EventRows = list[tuple[int, str]]
"""Events with their numbers, as they are sent."""


@dataclass(slots=True)
class Pulse:
    """Looks at what is watched, twenty times a second, and wakes those who watch it when it has changed."""

    marks: dict[Callable[[], Mark], Mark] = field(default_factory=dict)
    open: int = 0
    _watched: Counter[Callable[[], Mark]] = field(default_factory=Counter)
    _beat: asyncio.Condition = field(default_factory=asyncio.Condition)
    _looking: "asyncio.Task[None] | None" = None
    _read: "dict[Path, tuple[tuple[int, Mark], asyncio.Task[EventRows]]]" = field(default_factory=dict)
    """The last events that were read of each journal, and after which number at which mark."""

    @asynccontextmanager
    async def watch(self, look: Callable[[], Mark]) -> AsyncIterator[None]:
        if look not in self.marks:
            self.marks[look] = look()  # A first look that fails leaves nothing that is watched.
        self._watched[look] += 1
        try:
            if self._looking is None or self._looking.done():
                self._looking = asyncio.create_task(self._go_on())
            yield
        finally:
            self._watched[look] -= 1
            if not self._watched[look]:
                del self._watched[look], self.marks[look]

    async def changes(self, look: Callable[[], Mark], seen: Mark) -> Mark:
        """Return the mark once it is another than `seen`; after a while `seen` itself."""
        try:
            async with asyncio.timeout(_BEAT_S), self._beat:
                await self._beat.wait_for(lambda: self.marks[look] != seen)
        except TimeoutError:
            return seen
        return self.marks[look]

    async def events(self, folder: Path, last: int, mark: Mark) -> "EventRows":
        """Return the events after `last`. They are read once for all streams that ask at the same mark."""
        known = self._read.get(folder)
        if known is None or known[0] != (last, mark):
            reading = asyncio.create_task(asyncio.to_thread(_events_after, folder, last))
            known = self._read[folder] = ((last, mark), reading)
        return await asyncio.shield(known[1])

    def _look(self, look: Callable[[], Mark]) -> Mark:
        """Return the mark; the last one where a folder goes away during the look."""
        try:
            return look()
        except OSError:
            return self.marks[look]

    async def _go_on(self) -> None:
        while self._watched:
            changed = {look: mark for look in list(self._watched) if (mark := self._look(look)) != self.marks[look]}
            if changed:
                self.marks |= changed
                async with self._beat:
                    self._beat.notify_all()
            await asyncio.sleep(_LOOK_S)
        self._looking = None
        self._read.clear()


@dataclass(slots=True, eq=False)
class HomeMark:
    """The mark of all journals of a home: those of live runs at each look, the others now and then."""

    home: HomeView
    _looks: int = 0
    _all: dict[str, Mark] = field(default_factory=dict)
    _live: frozenset[str] = frozenset()

    def __call__(self) -> Mark:
        full = self._looks % _LOOKS_AT_ALL == 0
        self._looks += 1
        folder = runs_folder(self.home.settings)
        marks = {name: RunMark(folder / name)() for name in (self.home.names() if full else self._live)}
        self._all = marks if full else self._all | marks
        self._live = frozenset(name for name, mark in self._all.items() if isinstance(mark, tuple) and mark[0])
        return hash(tuple(self._all.items()))


@dataclass(frozen=True, slots=True)
class RunMark:
    """The mark of one run: whether it is live, its journal's stamp, and the size of a transcript that is followed."""

    folder: Path
    transcript: Path | None = None

    def __call__(self) -> Mark:
        size = self.transcript.stat().st_size if self.transcript is not None and self.transcript.is_file() else 0
        return (is_being_written(self.folder), *journal_stamp(self.folder), size)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventStream:
    """
    The answer to one caller: an ASGI application of its own, since it sees to slow readers.

    `folder` is the run's; None for the whole home, whose events tell only that something has changed.
    """

    pulse: Pulse
    look: Callable[[], Mark]
    folder: Path | None
    after: int | None
    """The number of the last event that the caller has; None for one that has read the page just now."""

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        leaves = asyncio.create_task(_gone(receive))
        serves = asyncio.create_task(self._serve(send))
        self.pulse.open += 1
        try:
            await asyncio.wait((leaves, serves), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.pulse.open -= 1
            for task in (leaves, serves):
                task.cancel()
            await asyncio.gather(leaves, serves, return_exceptions=True)

    async def _serve(self, send: "Send") -> None:
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})

        async def say(text: str) -> None:
            async with asyncio.timeout(_SENT_WITHIN_S):
                await send({"type": "http.response.body", "body": text.encode(), "more_body": True})

        async with self.pulse.watch(self.look):
            mark = self.pulse.marks[self.look]
            last = await self._start()
            await say(f"retry: 2000\nid: {last}\n\n" if self.folder else "retry: 2000\n\n")
            if self.after is not None:
                last = await self._tell(say, last, mark, always=self.folder is None)
            while True:
                before, mark = mark, await self.pulse.changes(self.look, mark)
                if mark == before:
                    await say(": still here\n\n")
                else:
                    last = await self._tell(say, last, mark, always=True)

    async def _start(self) -> int:
        if self.after is not None or self.folder is None:
            return self.after or 0
        return await asyncio.to_thread(last_number, self.folder)

    async def _tell(self, say: Callable[[str], Awaitable[None]], last: int, mark: Mark, *, always: bool) -> int:
        """Send the events after `last`; where there are none, that something else has changed."""
        rows = await self.pulse.events(self.folder, last, mark) if self.folder is not None else []
        if rows:
            await say("".join(f"id: {number}\ndata: {data}\n\n" for number, data in rows))
            return rows[-1][0]
        if always:
            await say("data: {}\n\n")
        return last


async def _gone(receive: "Receive") -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _events_after(folder: Path, last: int) -> EventRows:
    try:
        rows = list(islice(_each_event(folder, last), _MOST_EVENTS + 1))
        return rows if len(rows) <= _MOST_EVENTS else list(_each_event(folder, last_number(folder) - 1))[-1:]
    except JournalUnreadable:
        return []


def _each_event(folder: Path, last: int) -> Iterator[tuple[int, str]]:
    for row in read_rows(folder, after=last):
        kind = json.loads(row.body).get("kind", "")
        yield row.number, json.dumps({"number": row.number, "at": row.at, "kind": kind})
