"""
A command's output within bounds: the beginning on disk as it comes, the end in a small ring.

The log is complete up to its limit and can be followed while the command runs. Past the limit the beginning stays, the
last mebibyte is added when the command ends, and a line between them says how much is missing. A full disk loses log,
never the command.
"""

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Self

_RING_BYTES = 1024 * 1024
EXCERPT_BYTES = 16 * 1024
_NOTE_BYTES = 80


def live_bytes(keep_bytes: int) -> int:
    """Return how much of a log with this limit is on disk before the command has ended."""
    return keep_bytes - min(_RING_BYTES, keep_bytes // 2)


@contextlib.contextmanager
def nameless_log() -> Iterator[int]:
    """Yield a log file without a name, so that no command can replace it; removed after the block."""
    with tempfile.TemporaryFile(buffering=0) as file:
        yield file.fileno()


def open_log(log: Path) -> int:
    """
    Create or empty a log file and return its descriptor.

    Read the output through this descriptor: the command may have put something else under the name.

    Raises:
        OSError: the file cannot be written, or the name belongs to a link, a pipe or a device.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(log, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise OSError(0, "is a pipe or a device", str(log))
        os.ftruncate(file, 0)
    except BaseException:
        os.close(file)
        raise
    return file


def read_log(file: int, most_bytes: int, *, after: int = 0) -> bytes:
    """Return at most so many bytes of a log after an offset; a command may make it grow for ever."""
    found = bytearray()
    while len(found) < most_bytes and (data := os.pread(file, most_bytes - len(found), after + len(found))):
        found += data
    return bytes(found)


class CommandLog:
    """An open log. Feed it with `take`; read `head` and `tail` after `close`."""

    def __init__(self, log: Path, keep_bytes: int, file: int | None = None) -> None:
        """
        Open the log; an open and empty `file` is used in place of the named one.

        Raises:
            OSError: the log cannot be written.
        """
        self._file = open_log(log) if file is None else os.dup(file)
        self._room = live_bytes(keep_bytes)
        self._ring_bytes = keep_bytes - self._room
        self._ring = bytearray()
        self._written = 0
        self.total = 0
        self.dropped = 0
        self.head = ""
        """The first 16 KiB, as far as `tail` does not contain them: the two never repeat a byte."""
        self.tail = ""
        """The last 16 KiB, or all of a shorter output."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def take(self, data: bytes) -> None:
        self.total += len(data)
        direct = data[: self._room]
        if direct:
            self._room -= len(direct)
            kept = self._append(direct)
            data = data[kept:]
        if data:
            self._ring += data
            if len(self._ring) > 2 * self._ring_bytes + len(data):
                del self._ring[: len(self._ring) - self._ring_bytes]

    def close(self) -> None:
        """Complete the log and the excerpts; a second call does nothing."""
        if self._file < 0:
            return
        self._settle_excerpts()
        self._settle_log()
        os.close(self._file)
        self._file = -1

    def _settle_excerpts(self) -> None:
        """Read both from the log and the ring, before the note about missing bytes comes between them."""
        end = bytes(self._ring[-EXCERPT_BYTES:])
        missing = self.total - self._written - len(self._ring)
        if len(end) < EXCERPT_BYTES and missing == 0:
            start = max(0, self._written - (EXCERPT_BYTES - len(end)))
            end = self._read(self._written - start, start) + end
        beginning = self._read(min(EXCERPT_BYTES, self.total - len(end)), 0)
        self.head, self.tail = beginning.decode(errors="replace"), end.decode(errors="replace")

    def _settle_log(self) -> None:
        rest = bytes(self._ring[-self._ring_bytes :]) if self._ring_bytes else b""
        self.dropped = self.total - self._written - len(rest)
        if self.dropped:
            # The note takes the place of output, so that the bound holds to the byte.
            self.dropped += min(_NOTE_BYTES, len(rest))
            rest = rest[_NOTE_BYTES:]
            note = f"\n[forgepool: {self.dropped:,} bytes are missing here]\n".encode()[:_NOTE_BYTES]
            rest = note + rest if rest else b""
        if rest:
            kept = self._append(rest)
            self.dropped += len(rest) - kept

    def _append(self, data: bytes) -> int:
        """Return how many bytes the disk took. After a failure no more is written: the rest counts as dropped."""
        done = 0
        try:
            while done < len(data):
                done += os.write(self._file, data[done:])
        except OSError:
            self._room = 0
        self._written += done
        return done

    def _read(self, size: int, offset: int) -> bytes:
        with contextlib.suppress(OSError):
            return os.pread(self._file, max(0, size), offset)
        return b""
