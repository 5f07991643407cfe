"""
Objects of a repository, read through one standing `git cat-file` for each repository in place of a git process a read.

A reader belongs to the process that started it: a forked one starts its own. It ends with its process, or when
`close_readers` says so. After an interrupted exchange, or when its repository was removed and made again, a new one is
started.
"""

import atexit
import os
import re
import select
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import IO, NamedTuple

from forgepool.worktrees.git.git import Git, GitFailed, start_git

_MOST_READERS = 4
_PATIENCE_S = 600
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


def close_readers() -> None:
    """End this process' readers; a later read starts a new one."""
    with _lock:
        while _readers:
            _readers.popitem()[1].close()


Answer = tuple[ObjectFacts | None, bytes]


class _Reader:
    """A standing `git cat-file`; its caller holds the lock."""

    def __init__(self, git_dir: Path) -> None:
        self.place = _place(git_dir)
        self.busy = False
        """An exchange began and has not ended: what it left in the pipe would be taken for the next answer."""
        self._process = start_git(_ARGV, git_dir, {"GIT_DIR": str(git_dir)}, stdin=True, stderr=False)

    def is_usable(self, git_dir: Path) -> bool:
        return not self.busy and self._process.poll() is None and self.place == _place(git_dir)

    def ask(self, command: str, name: str) -> Answer:
        """
        Send one command and read its answer.

        Raises:
            OSError, EOFError: the process has ended, or does not answer.
        """
        given, taken = self._process.stdin, self._process.stdout
        assert given is not None
        assert taken is not None
        self.busy = True
        given.write(_request(command, name))
        given.flush()
        if not select.select([taken], [], [], _PATIENCE_S)[0]:
            raise EOFError
        answer = _read_answer(taken, command, name)
        self.busy = False
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
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()


_lock = threading.Lock()
_readers: dict[Path, _Reader] = {}
"""The least recently used one first."""


def _ask(git: Git, command: str, name: str) -> Answer:
    with _lock:
        try:
            return _reader(git.git_dir).ask(command, name)
        except (OSError, EOFError, GitFailed):
            # It ended, perhaps of this very name. A process of its own answers, or says why there is no answer.
            output = git.run(*_ARGV, stdin=_request(command, name)).stdout
            return _read_answer(BytesIO(output), command, name)


def _reader(git_dir: Path) -> _Reader:
    reader = _readers.pop(git_dir, None)
    if reader is not None and not reader.is_usable(git_dir):
        reader.close()
        reader = None
    if reader is None:
        while len(_readers) >= _MOST_READERS:
            _readers.pop(next(iter(_readers))).close()
        reader = _Reader(git_dir)
    _readers[git_dir] = reader
    return reader


def _request(command: str, name: str) -> bytes:
    if "\0" in name:
        raise GitFailed(_ARGV, 0, f"fatal: {name!r} holds a NUL")
    return f"{command} ".encode() + os.fsencode(name) + b"\0"


def _read_answer(stream: IO[bytes], command: str, name: str) -> Answer:
    line = stream.readline()
    if not line:
        raise EOFError
    found = _FACTS.fullmatch(line)
    if found is None:
        # `NAME missing`, or `ambiguous`: as many lines more as the name has.
        for _ in range(name.count("\n")):
            stream.readline()
        return None, b""
    facts = ObjectFacts(found[1].decode(), found[2].decode(), int(found[3]))
    content = stream.read(facts.size + 1)[:-1] if command == "contents" else b""
    if command == "contents" and len(content) < facts.size:
        raise EOFError
    return facts, content


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
