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
from io import FileIO
from pathlib import Path

from forgepool.workers.tools.refusal import ToolRefused
from forgepool.workers.tools.workplace import Workplace
from forgepool.worktrees.git.beneath import LISTED

MAX_BYTES = 10 * 1024 * 1024
_LOOK_BYTES = 8192
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def read_text(path: Path, asked: str, workplace: Workplace) -> str:
    """
    The text, line ends as they are. Bytes that are not UTF-8 become lone surrogates, which `write_text`
    turns back.

    Raises:
        Refused: there is no such file, or it is a folder, too large, binary, or no file at all.
    """
    try:
        with workplace.reading(path) as file:
            return _decoded(file, asked)
    except IsADirectoryError as trouble:
        raise ToolRefused(f"{asked}: is a folder; use glob to see what is in it") from trouble
    except (FileNotFoundError, NotADirectoryError) as trouble:
        raise ToolRefused(f"{asked}: no such file{_near(path, workplace)}") from trouble


def _decoded(file: FileIO, asked: str) -> str:
    found = os.fstat(file.fileno())
    if not stat.S_ISREG(found.st_mode):
        raise ToolRefused(f"{asked}: is not a file (a pipe, socket or device); only files can be read")
    if found.st_size > MAX_BYTES:
        raise ToolRefused(f"{asked}: {found.st_size:,} bytes are too many; use grep on it, or bash with head or sed -n")
    data = file.read(MAX_BYTES) or b""
    if b"\0" in data[:_LOOK_BYTES]:
        if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise ToolRefused(f"{asked}: is UTF-16 text, which tools do not edit; use bash with iconv")
        raise ToolRefused(f"{asked}: is binary ({len(data):,} bytes); use bash with a program that knows its form")
    return data.decode(errors="surrogateescape")


def write_text(path: Path, text: str, workplace: Workplace, *, mode: int | None = None) -> int:
    """
    Replaces a file's content as a whole; answers the number of bytes. Its permissions stay, unless others are given.

    The content comes in by renaming: a file that is hard-linked to somewhere outside stays as it is there.
    """
    try:
        data = text.encode(errors="surrogateescape")
    except UnicodeEncodeError as trouble:
        raise ToolRefused(f"{workplace.name(path)}: the text holds half a character; send it as UTF-8") from trouble
    write_bytes(path, data, workplace, mode=mode)
    return len(data)


def write_bytes(path: Path, data: bytes, workplace: Workplace, *, mode: int | None = None) -> None:
    """As `write_text`."""
    folder, below = workplace.open_parent(path)
    was = folder.state(below)
    if was is not None and not stat.S_ISREG(was.st_mode):
        raise ToolRefused(f"{workplace.name(path)}: is a folder or a device; give the path of a file")
    if mode is None and was is not None:
        mode = stat.S_IMODE(was.st_mode)
    with folder.folder(below.parent, make=True) as target:
        _put(data, mode, below.name, target, workplace)


def require_encodable(new: str, text: str, asked: str) -> None:
    """
    Whether a new piece can come into a text: two encodings in one file would spoil it.

    Raises:
        Refused: the text holds bytes that are no UTF-8, and the piece what only an encoding could say how to write.
    """
    if not new.isascii() and any("\udc80" <= each <= "\udcff" for each in text):
        raise ToolRefused(
            f"{asked}: is not UTF-8, and the new text is not ASCII: which bytes it would be is not known; "
            "use bash with a program that is told the encoding, such as python"
        )


def show_text(text: str) -> str:
    """The text as a model may see it: every character can be sent, line ends are plain."""
    plain = text.replace("\r\n", "\n").removeprefix("\ufeff")
    return plain.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _put(data: bytes, mode: int | None, name: str, target: int, workplace: Workplace) -> None:
    """
    First written aside, so that nobody finds half a file under the name.

    A command may meanwhile put something else under the draft's name: that comes in, which it could have done itself.
    """
    draft = f"write-{secrets.token_hex(8)}"
    with workplace.scratch.folder(Path()) as aside, FileIO(os.open(draft, _NEW, 0o666, dir_fd=aside), "r+b") as file:
        try:
            _write_all(file, data)
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            _move(draft, aside, file, name, target)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(draft, dir_fd=aside)


def _write_all(file: FileIO, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[file.write(left) or 0 :]


def _move(draft: str, aside: int, file: FileIO, name: str, target: int) -> None:
    try:
        os.replace(draft, name, src_dir_fd=aside, dst_dir_fd=target)
    except OSError as trouble:
        if trouble.errno != errno.EXDEV:
            raise
        _copy(file, name, target)


def _copy(source: FileIO, name: str, target: int) -> None:
    """To another file system. The name is taken anew, so that nothing is written through a hard link."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=target)
    source.seek(0)
    with FileIO(os.open(name, _NEW, dir_fd=target), "wb") as file:
        shutil.copyfileobj(source, file)
        os.fchmod(file.fileno(), stat.S_IMODE(os.fstat(source.fileno()).st_mode))


def _near(path: Path, workplace: Workplace) -> str:
    """Where else the model may look: a name like it in the folder, or the first folder that is missing."""
    above, below = workplace.open_parent(path.parent)
    try:
        with above.folder(below, flags=LISTED) as folder:
            names = [name for name in os.listdir(folder) if name != ".git"]  # noqa: PTH208 (a descriptor has no path)
    except OSError:
        return f", nor a folder {path.parent.name}; use glob to see what there is"
    meant = difflib.get_close_matches(path.name, names, n=1)
    return f"; did you mean {meant[0]}?" if meant else "; use glob to see what there is"
