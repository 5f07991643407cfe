"""
A text file as tools handle it: its bytes survive an edit of some of them, whatever its encoding and line
ends.
"""

import codecs
import contextlib
import difflib
import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

from workers.tools.refusal import Refused
from workers.tools.workplace import Workplace

MAX_BYTES = 10 * 1024 * 1024
_LOOK_BYTES = 8192


def read_text(path: Path, asked: str) -> str:
    """
    The text, line ends as they are. Bytes that are not UTF-8 become lone surrogates, which `write_text`
    turns back.

    Raises:
        Refused: there is no such file, or it is a folder, too large, binary, or no file at all.
    """
    try:
        with opened(path) as file:
            return _decoded(file, asked)
    except IsADirectoryError as trouble:
        raise Refused(f"{asked}: is a folder; use glob to see what is in it") from trouble
    except (FileNotFoundError, NotADirectoryError) as trouble:
        raise Refused(f"{asked}: no such file{_near(path)}") from trouble


def _decoded(file: FileIO, asked: str) -> str:
    found = os.fstat(file.fileno())
    if not stat.S_ISREG(found.st_mode):
        raise Refused(f"{asked}: is not a file (a pipe, socket or device); only files can be read")
    if found.st_size > MAX_BYTES:
        raise Refused(f"{asked}: {found.st_size:,} bytes are too many; use grep on it, or bash with head or sed -n")
    data = file.read(MAX_BYTES) or b""
    if b"\0" in data[:_LOOK_BYTES]:
        if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise Refused(f"{asked}: is UTF-16 text, which tools do not edit; use bash with iconv")
        raise Refused(f"{asked}: is binary ({len(data):,} bytes); use bash with a program that knows its form")
    return data.decode(errors="surrogateescape")


@contextlib.contextmanager
def opened(path: Path) -> Iterator[FileIO]:
    """
    A file to be read: the one that is there, never what a link leads to, and without waiting for a pipe's other end.

    `path` is a real one, with all links followed. A folder that a command has replaced by a link since then is not
    entered: each is opened from the one above it.

    Raises:
        OSError: there is none, or a link stands in the way.
    """
    with _folder(path.parent) as folder:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(path.name or ".", flags, dir_fd=folder)
        # FileIO itself would not open a folder; whoever reads says what is wrong with one.
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        with FileIO(descriptor, "rb") as file:
            yield file


@contextlib.contextmanager
def _folder(path: Path) -> Iterator[int]:
    flags = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    at = os.open(path.anchor, flags)
    try:
        for part in path.parts[1:]:
            above, at = at, os.open(part, flags, dir_fd=at)
            os.close(above)
        yield at
    finally:
        os.close(at)


def write_text(path: Path, text: str, workplace: Workplace) -> int:
    """
    Replaces a file's content as a whole, its permissions kept; answers the number of bytes.

    The content comes in by renaming: a file that is hard-linked to somewhere outside stays as it is there.
    """
    try:
        data = text.encode(errors="surrogateescape")
    except UnicodeEncodeError as trouble:
        raise Refused(f"{workplace.name(path)}: the text holds half a character; send it as UTF-8") from trouble
    if path.exists() and not path.is_file():
        raise Refused(f"{workplace.name(path)}: is a folder or a device; give the path of a file")
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = workplace.scratch / f"write-{secrets.token_hex(8)}"
    try:
        fresh.write_bytes(data)
        if path.exists():
            fresh.chmod(stat.S_IMODE(path.stat().st_mode))
        _move(fresh, path)
    finally:
        fresh.unlink(missing_ok=True)
    return len(data)


def require_encodable(new: str, text: str, asked: str) -> None:
    """
    Whether a new piece can come into a text: two encodings in one file would spoil it.

    Raises:
        Refused: the text holds bytes that are no UTF-8, and the piece what only an encoding could say how to write.
    """
    if not new.isascii() and any("\udc80" <= each <= "\udcff" for each in text):
        raise Refused(
            f"{asked}: is not UTF-8, and the new text is not ASCII: which bytes it would be is not known; "
            "use bash with a program that is told the encoding, such as python"
        )


def shown(text: str) -> str:
    """The text as a model may see it: every character can be sent, line ends are plain."""
    plain = text.replace("\r\n", "\n").removeprefix("\ufeff")
    return plain.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _move(fresh: Path, path: Path) -> None:
    with _folder(path.parent) as folder:
        try:
            os.replace(fresh, path.name, dst_dir_fd=folder)
        except OSError as trouble:
            if trouble.errno != errno.EXDEV:
                raise
            _copy(fresh, path.name, folder)


def _copy(fresh: Path, name: str, folder: int) -> None:
    """To another file system. The name is taken anew, so that nothing is written through a hard link."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with fresh.open("rb") as source, FileIO(os.open(name, flags, dir_fd=folder), "wb") as target:
        shutil.copyfileobj(source, target)
        os.fchmod(target.fileno(), stat.S_IMODE(os.fstat(source.fileno()).st_mode))


def _near(path: Path) -> str:
    """Where else the model may look: a name like it in the folder, or the first folder that is missing."""
    folder = path.parent
    if not folder.is_dir():
        return f", nor a folder {folder.name}; use glob to see what there is"
    names = [entry.name for entry in folder.iterdir() if entry.name != ".git"]
    meant = difflib.get_close_matches(path.name, names, n=1)
    return f"; did you mean {meant[0]}?" if meant else "; use glob to see what there is"
