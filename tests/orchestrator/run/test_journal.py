"""Appended events are complete, in order and readable by all; only one process may append."""

import fcntl
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from plans import answered, sent

from forgepool.orchestrator.journal.events import PartRestarted, RunPaused
from forgepool.orchestrator.journal.store import (
    VERSION,
    Journal,
    JournalBusy,
    JournalUnreadable,
    is_being_written,
    read,
)

_APPENDS = """
import os, sys
from pathlib import Path
from forgepool.orchestrator.journal.events import RunPaused
from forgepool.orchestrator.journal.store import Journal
journal = Journal(Path(sys.argv[1]))
journal.append([RunPaused(why="kept")], at=1.0)
print("kept", flush=True)
os.kill(os.getpid(), 9)
"""


def test_events_are_read_as_they_were_appended(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    first = journal.append([sent("a"), answered("a", paths=["x"])], at=1.5)
    second = journal.append([RunPaused(why='"quotes"\nand lines')], at=2.5)
    assert [one.number for one in (*first, *second)] == [1, 2, 3]
    assert list(read(tmp_path)) == [*first, *second], "also while it is being written"
    assert list(read(tmp_path, after=2)) == second
    journal.close()
    assert list(read(tmp_path)) == [*first, *second]


def test_appending_goes_on_where_an_earlier_writer_ended(tmp_path: Path) -> None:
    for _ in range(2):
        journal = Journal(tmp_path)
        journal.append([RunPaused(why="again")], at=1.0)
        journal.close()
    assert [one.number for one in read(tmp_path)] == [1, 2]


def test_a_second_writer_is_refused_and_told_of_the_first(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    with pytest.raises(JournalBusy, match=f"is being run by process {os.getpid()}"):
        Journal(tmp_path)
    assert is_being_written(tmp_path)
    journal.append([RunPaused(why="still the writer")], at=1.0)
    journal.close()
    assert not is_being_written(tmp_path)
    Journal(tmp_path).close()


def test_looking_whether_a_journal_is_written_stands_in_nobodys_way(tmp_path: Path) -> None:
    """Looking blocks neither a writer that starts nor another reader."""
    Journal(tmp_path).close()
    over = threading.Event()
    seen: list[bool] = []

    def look() -> None:
        while not over.is_set():
            seen.append(is_being_written(tmp_path))

    looking = [threading.Thread(target=look) for _ in range(2)]
    for thread in looking:
        thread.start()
    try:
        for _ in range(200):
            Journal(tmp_path).close()
            (tmp_path / "journal.lock").write_text("the last writer")
            is_being_written(tmp_path)
            assert (tmp_path / "journal.lock").read_text() == "the last writer"
    finally:
        over.set()
        for thread in looking:
            thread.join()
    assert seen


def test_readers_do_not_take_one_another_for_the_writer(tmp_path: Path) -> None:
    assert not is_being_written(tmp_path), "there never was one"
    Journal(tmp_path).close()
    with (tmp_path / "journal.lock").open() as looked_at:
        fcntl.flock(looked_at, fcntl.LOCK_SH)
        assert not is_being_written(tmp_path)
        letting_go = threading.Timer(0.1, fcntl.flock, (looked_at, fcntl.LOCK_UN))
        letting_go.start()
        Journal(tmp_path).close()
        letting_go.join()


def test_what_append_returned_from_outlives_the_writer_and_its_lock_does_not(tmp_path: Path) -> None:
    ran = subprocess.run([sys.executable, "-c", _APPENDS, str(tmp_path)], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (-signal.SIGKILL, "kept\n"), ran.stderr
    assert [one.event for one in read(tmp_path)] == [RunPaused(why="kept")]
    Journal(tmp_path).close()


def test_events_of_one_call_are_kept_all_or_none(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.append([RunPaused(why="first")], at=1.0)
    broken = RunPaused.model_construct(why="\ud800")
    with pytest.raises(ValueError):
        journal.append([PartRestarted(part="redis"), broken], at=2.0)
    assert [one.number for one in read(tmp_path)] == [1]
    journal.append([RunPaused(why="second")], at=3.0)
    assert [one.number for one in read(tmp_path)] == [1, 2]
    journal.close()


def rewritten(folder: Path, statement: str) -> None:
    journal = Journal(folder)
    journal.append([RunPaused(why="x")], at=1.0)
    journal.close()
    connection = sqlite3.connect(folder / "journal.db")
    connection.execute(statement)
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        (f"UPDATE events SET version = {VERSION + 1}", "written by a later Forgepool"),
        ('UPDATE events SET body = \'{"kind": "nonsense"}\'', "cannot be read as a journal"),
        ("UPDATE events SET body = substr(body, 1, 9)", "cannot be read as a journal"),
        ("DROP TABLE events", "cannot be read as a journal"),
    ],
)
def test_a_journal_that_is_not_ours_to_read_is_refused_and_not_misread(
    tmp_path: Path, statement: str, said: str
) -> None:
    rewritten(tmp_path, statement)
    with pytest.raises(JournalUnreadable, match=said):
        list(read(tmp_path))


@pytest.mark.parametrize("content", [b"", b"no database at all" * 100, b"SQLite format 3\x00" + b"\x00" * 500])
def test_a_foreign_or_torn_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "journal.db").write_bytes(content)
    with pytest.raises(JournalUnreadable, match="cannot be read as a journal"):
        list(read(tmp_path))


def test_a_folder_without_a_journal_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(JournalUnreadable, match="holds no journal"):
        list(read(tmp_path))
