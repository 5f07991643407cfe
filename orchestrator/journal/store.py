"""
The journal: a run's append-only events in SQLite, and the lock that makes its writer the only one.

What `append` has returned from survives the loss of power (WAL, `synchronous=FULL`). Events of one call are kept
all or none. Readers may look at any time; a second writer is refused.
"""

import fcntl
import json
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple

from forgepool.orchestrator.journal.events import EVENT, Event
from forgepool.worktrees.errors import InfrastructureError, UserError

_LOOKS_LAST_S = 0.5
"""A reader holds the lock for microseconds, to see whether there is a writer; a writer waits that out."""
VERSION = 1
"""The version of the event format. A journal of a later one is refused, not misread."""


class JournalBusy(UserError):
    """Another orchestrator writes this journal. One sentence."""


class JournalUnreadable(InfrastructureError):
    """The journal is not one, or of a later version. One sentence."""


class StoredEvent(NamedTuple):
    """An event as it is stored."""

    number: int
    at: float
    """Unix seconds."""
    version: int
    body: str
    """JSON."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """An event as it stands in the journal."""

    number: int
    at: float
    """Unix seconds."""
    event: Event


class Journal:
    """
    The writer of a run's journal.

    Raises:
        JournalBusy: another process writes it.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = _lock(folder)
        self._connection = sqlite3.connect(folder / "journal.db", isolation_level=None)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=FULL")
        self._connection.execute(
            "CREATE TABLE IF NOT EXISTS events"
            " (number INTEGER PRIMARY KEY, at REAL NOT NULL, version INTEGER NOT NULL, body TEXT NOT NULL)"
        )

    def append(self, events: Sequence[Event], *, at: float) -> list[Recorded]:
        """Keeps the events, as of `at` (Unix seconds), durably before it returns."""
        recorded = []
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            for event in events:
                row = self._connection.execute(
                    "INSERT INTO events (at, version, body) VALUES (?, ?, ?)", (at, VERSION, event.encode())
                )
                recorded.append(Recorded(row.lastrowid or 0, at, event))
            self._connection.execute("COMMIT")
        except BaseException:
            # On a full disk SQLite has rolled back already, and would hide that reason behind a complaint of its own.
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise
        return recorded

    def adopt(self, rows: Sequence["StoredEvent"]) -> None:
        """Keep events as another machine's journal has them; this one has those before them, or none."""
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany("INSERT INTO events (number, at, version, body) VALUES (?, ?, ?, ?)", rows)
        self._connection.execute("COMMIT")

    def close(self) -> None:
        self._connection.close()
        self._lock.close()


def read(folder: Path, *, after: int = 0, about: str = "") -> Iterator[Recorded]:
    """
    The events of a run, oldest first; a run being written may be read. With `about`, those whose text has this name.

    Raises:
        JournalUnreadable: there is none, or it is of a later version.
    """
    path = folder / "journal.db"
    try:
        for row in read_rows(folder, after=after):
            if about and about not in row.body:
                continue
            if row.version > VERSION:
                raise JournalUnreadable(f"{path} was written by a later Forgepool; use that one to read it")
            yield Recorded(row.number, row.at, EVENT.validate_json(row.body))
    except (sqlite3.DatabaseError, ValueError) as problem:
        said = str(problem).strip().splitlines()
        first = ", ".join(line.strip() for line in said[1:3]) if len(said) > 1 else str(problem)
        raise JournalUnreadable(f"{path} cannot be read as a journal: {first}") from problem


def read_rows(folder: Path, *, after: int = 0) -> Iterator[StoredEvent]:
    """The same events as they are stored, of any version. Raises JournalUnreadable where there are none."""
    path = folder / "journal.db"
    if not path.is_file():
        raise JournalUnreadable(f"{folder} holds no journal; `forgepool runs` lists the runs there are")
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        words = "SELECT number, at, version, body FROM events WHERE number > ? ORDER BY number"
        yield from map(StoredEvent._make, connection.execute(words, (after,)))
    finally:
        connection.close()


def read_kinds(folder: Path, *kinds: str) -> list[Event]:
    """Return the events of these kinds alone. Raises JournalUnreadable as `read` does, except where there is none."""
    path = folder / "journal.db"
    if not path.is_file():
        return []
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        # An event's text begins with its kind.
        found = " OR ".join("body GLOB ?" for _ in kinds)
        beginnings = [f'{{"kind":"{kind}"*' for kind in kinds]
        rows = connection.execute(f"SELECT body FROM events WHERE {found} ORDER BY number", beginnings).fetchall()
        return [EVENT.validate_json(body) for (body,) in rows]
    except (sqlite3.DatabaseError, ValueError) as problem:
        raise JournalUnreadable(f"{path} cannot be read as a journal: {problem}") from problem
    finally:
        connection.close()


def last_number(folder: Path) -> int:
    """Return the number of the last event; 0 where there is no event, or no journal."""
    path = folder / "journal.db"
    if not path.is_file():
        return 0
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return int(connection.execute("SELECT coalesce(max(number), 0) FROM events").fetchone()[0])
    finally:
        connection.close()


def is_being_written(folder: Path) -> bool:
    """Tell whether an orchestrator holds this run now. The look blocks no writer and no other reader."""
    try:
        with (folder / "journal.lock").open() as seen:
            fcntl.flock(seen, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def find_writer(folder: Path) -> int | None:
    """Return the process that holds this run now; None where none does."""
    if not is_being_written(folder):
        return None
    try:
        return int((folder / "journal.lock").read_text())
    except (OSError, ValueError):
        return None


def _lock(folder: Path) -> IO[str]:
    held = (folder / "journal.lock").open("a+")
    give_up = time.monotonic() + _LOOKS_LAST_S
    while not _taken(held):
        if time.monotonic() > give_up:
            held.seek(0)
            writer = held.read().strip() or "?"
            held.close()
            raise JournalBusy(
                f"run {folder.name} is being run by process {writer}; `forgepool status {folder.name}` shows it"
            )
        time.sleep(0.005)
    held.truncate(0)
    held.write(json.dumps(os.getpid()))
    held.flush()
    return held


def _taken(held: IO[str]) -> bool:
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
