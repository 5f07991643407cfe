"""
Objects of a repository, read through one standing `git cat-file` for each repository in place of a git process a read,
and written without git.

A reader belongs to the process that started it: a forked one starts its own. It ends with its process, or when
`close_readers` says so. After an interrupted exchange, or when its repository was removed and made again, a new one is
started.
"""

import atexit
import hashlib
import os
import re
import secrets
import select
import threading
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple

from forgepool.worktrees.git.git import DEVNULL, PIPE, Git, GitFailed, start_git

_MOST_READERS = 4
_PATIENCE_S = 600
_FAST = 1
"""Git's own level of compression for objects in files of their own."""
_ARGV = ("cat-file", "--batch-command", "-z")
_FACTS = re.compile(rb"([0-9a-f]{40}(?:[0-9a-f]{24})?) ([a-z]+) (\d+)\n")


class ObjectFacts(NamedTuple):
    """The full id, the kind (`commit`, `tree`, `blob`, `tag`) and the size in bytes of an object."""

    id: str
    kind: str
    size: int


def find_object(git: Git, name: str) -> ObjectFacts | None:
    """
    Find the object of a name (an id, `COMMIT^{tree}`, `COMMIT:PATH`); None where there is none.

    Raises:
        GitFailed: the repository cannot be read, or git refuses the name.
    """
    return next(find_objects(git, [name]))


def find_objects(git: Git, names: Iterable[str]) -> Iterator[ObjectFacts | None]:
    """Find the object of each name, in order; None where there is none."""
    for name in names:
        yield _ask(git, "info", name)[0]


def read_object(git: Git, name: str) -> tuple[ObjectFacts, bytes]:
    """
    Return the object of a name and its bytes.

    Raises:
        GitFailed: there is no such object, or the repository cannot be read.
    """
    facts, content = _ask(git, "contents", name)
    if facts is None:
        raise GitFailed(_ARGV, 0, f"fatal: there is no object {name!r}")
    return facts, content


def read_blob(git: Git, name: str) -> bytes:
    """
    Return the bytes of a file's content.

    Raises:
        GitFailed: there is no such object, it is no blob, or the repository cannot be read.
    """
    facts, content = read_object(git, name)
    if facts.kind != "blob":
        raise GitFailed(_ARGV, 0, f"fatal: {name!r} is a {facts.kind} and not a blob")
    return content


def write_object(git: Git, kind: Literal["blob", "commit", "tag"], content: bytes, *, like: str) -> str:
    """
    Write an object as git does, in a file of its own, and return its id, of the kind of the id `like`.

    Raises:
        GitFailed: the file cannot be written.
    """
    whole = b"%s %d\0" % (kind.encode(), len(content)) + content
    digest = hashlib.sha1 if len(like) == 40 else hashlib.sha256
    name = digest(whole, usedforsecurity=False).hexdigest()
    try:
        put_object(git.git_dir / "objects" / name[:2] / name[2:], zlib.compress(whole, _FAST))
    except OSError as trouble:
        why = f"fatal: {trouble.filename or git.git_dir}: {trouble.strerror}"
        raise GitFailed(("hash-object", "-w"), 128, why) from trouble
    return name


def put_object(place: Path, packed: bytes, *, sync: bool = False) -> None:
    """
    Put the compressed bytes of an object at its place: whole or not at all, and as young as one just made.

    With `sync` they survive a loss of power.
    """
    aside = place.parent / f"tmp_obj_{secrets.token_hex(8)}"
    try:
        with os.fdopen(_create(aside), "wb") as file:
            file.write(packed)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        # One that is there already is replaced: a cleaning might hold it for old.
        aside.replace(place)
    finally:
        aside.unlink(missing_ok=True)


def _create(file: Path) -> int:
    """Create the file and its folder, which a `git prune-packed` removes while it is empty."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    file.parent.mkdir(exist_ok=True)
    with suppress(FileNotFoundError):
        return os.open(file, flags, 0o444)
    file.parent.mkdir(exist_ok=True)
    return os.open(file, flags, 0o444)


def close_readers() -> None:
    """End this process' readers; a later read starts a new one."""
    with _lock:
        while _readers:
            _readers.popitem()[1].close()


Answer = tuple[ObjectFacts | None, bytes]


class _Reader:
    """A standing `git cat-file`; its caller holds the lock. No buffer on this side holds what a fork could repeat."""

    def __init__(self, git_dir: Path) -> None:
        self.place = _place(git_dir)
        self.busy = False
        """An exchange began and has not ended: what it left in the pipe would be taken for the next answer."""
        # Not in the repository itself: it would look like a git at work, in whose presence no stale lock is removed.
        self._process = start_git(_ARGV, Path("/"), {"GIT_DIR": str(git_dir.resolve())}, stdin=PIPE, stderr=DEVNULL)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests, self._answers = self._process.stdin, self._process.stdout
        self._poll = select.poll()
        self._poll.register(self._answers.fileno(), select.POLLIN)

    def is_usable(self, git_dir: Path) -> bool:
        return not self.busy and self._process.poll() is None and self.place == _place(git_dir)

    def ask(self, command: str, request: bytes) -> Answer:
        """
        Send one request and read its answer.

        Raises:
            OSError, EOFError: the process has ended, or does not answer.
        """
        self.busy = True
        while request:
            request = request[self._requests.write(request) :]
        taken = bytearray()
        while (found := _parsed(taken, command)) is None:
            ready = self._poll.poll(1000 * _PATIENCE_S)
            if not ready or not (piece := os.read(self._answers.fileno(), 1 << 20)):
                raise EOFError
            taken += piece
        answer, length = found
        self.busy = length != len(taken)
        return answer

    def close(self) -> None:
        self._process.kill()
        self._close_pipes()
        self._process.wait()

    def disown(self) -> None:
        """Let go of the parent's reader in a forked process, which would keep it alive."""
        self._close_pipes()
        self._process.returncode = 0

    def _close_pipes(self) -> None:
        for stream in (self._requests, self._answers):
            with suppress(OSError):
                stream.close()


_lock = threading.Lock()
_readers: dict[Path, _Reader] = {}


def _ask(git: Git, command: str, name: str) -> Answer:
    if "\0" in name:
        raise GitFailed(_ARGV, 0, f"fatal: {name!r} holds a NUL")
    request = f"{command} ".encode() + os.fsencode(name) + b"\0"
    if "\n" not in name:  # git repeats the name of a missing object: behind a newline it could look like an answer
        with _lock, suppress(OSError, EOFError):
            answer = _reader(git.git_dir).ask(command, request)
            # One malformed object may mislead a process about others: that a commit is missing is asked once more.
            if answer[0] is not None or "^{" not in name:
                return answer
    # The reader died, perhaps of this name, or is not to be asked. A new process answers, or fails with the reason.
    output = Git(git_dir=git.git_dir).run(*_ARGV, stdin=request).stdout
    found = _parsed(output, command)
    return found[0] if found is not None and found[1] == len(output) else (None, b"")


def _reader(git_dir: Path) -> _Reader:
    reader = _readers.get(git_dir)
    if reader is not None and not reader.is_usable(git_dir):
        reader.close()
        del _readers[git_dir]
        reader = None
    if reader is None:
        while len(_readers) >= _MOST_READERS:
            oldest = next(iter(_readers))
            _readers[oldest].close()
            del _readers[oldest]
        _readers[git_dir] = reader = _Reader(git_dir)
    return reader


def _parsed(taken: bytes | bytearray, command: str) -> tuple[Answer, int] | None:
    """Return the answer that the bytes begin with, and its length; None while it is not whole."""
    start = taken.find(b"\n") + 1
    if start == 0:
        return None
    found = _FACTS.fullmatch(taken, 0, start)
    if found is None:  # `NAME missing`, or `ambiguous`
        return (None, b""), start
    facts = ObjectFacts(found[1].decode(), found[2].decode(), int(found[3]))
    end = start + facts.size
    if command == "info":
        return (facts, b""), start
    return ((facts, bytes(taken[start:end])), end + 1) if len(taken) > end else None


def _place(git_dir: Path) -> tuple[int, int]:
    try:
        found = git_dir.stat()
    except OSError:
        return 0, 0
    return found.st_dev, found.st_ino


def _begin_anew() -> None:
    """In a forked process."""
    global _lock
    _lock = threading.Lock()
    while _readers:
        _readers.popitem()[1].disown()


os.register_at_fork(after_in_child=_begin_anew)
atexit.register(close_readers)
