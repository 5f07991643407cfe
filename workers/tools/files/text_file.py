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

from pydantic import Field

from forgepool.workers.tools.tool import Arguments, ToolAnswer, make_typed_tool
from forgepool.workers.tools.workplace import ToolRefused, Workplace
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


_PAGE_CHARACTERS = 48_000
_LINE_CHARACTERS = 2_000


class ReadFile(Arguments):
    path: str = Field(description="below the worktree, or absolute for a file that an answer has named so")
    start: int = Field(default=1, ge=1, description="first line, from 1")
    lines: int = Field(default=2000, ge=1, description="how many lines")


def read_file(arguments: ReadFile, workplace: Workplace) -> ToolAnswer:
    text = read_text(workplace.readable_path(arguments.path), arguments.path, workplace)
    lines = show_text(text).split("\n")
    if lines[-1] == "":
        lines.pop()
    if not lines:
        return ToolAnswer(text=f"{arguments.path} is empty")
    if arguments.start > len(lines):
        message = f"{arguments.path}: has {len(lines)} lines; start at {len(lines)} or before"
        return ToolAnswer(text=message, is_error=True)
    page = _page(lines[arguments.start - 1 : arguments.start - 1 + arguments.lines], arguments.start)
    after = arguments.start + len(page)
    note = f"[{arguments.path}: lines {arguments.start}-{after - 1} of {len(lines)}"
    note += f"; go on with start={after}]" if after <= len(lines) else "]"
    if "\r\n" in text:
        note += "\n[its lines end in CR LF; edit_file keeps that]"
    return ToolAnswer(text="\n".join([*page, note]))


def _page(lines: list[str], first: int) -> list[str]:
    """As many numbered lines as fit, at least one."""
    page: list[str] = []
    room = _PAGE_CHARACTERS
    for number, line in enumerate(lines, start=first):
        cut = line
        if len(line) > _LINE_CHARACTERS:
            cut = f"{line[:_LINE_CHARACTERS]} [{len(line) - _LINE_CHARACTERS:,} more characters]"
        numbered = f"{number:6}\t{cut}"
        room -= len(numbered) + 1
        if page and room < 0:
            break
        page.append(numbered)
    return page


READ_FILE = make_typed_tool(
    "read_file",
    "Reads a text file, a page of lines at a time. Every line comes with its number and a tab before it.",
    ReadFile,
    read_file,
    kind="read",
)


class WriteFile(Arguments):
    path: str = Field(description="of the file, below the worktree")
    content: str = Field(description="all of the file's new content")


def write_file(arguments: WriteFile, workplace: Workplace) -> ToolAnswer:
    path = workplace.path(arguments.path)
    size = write_text(path, arguments.content, workplace)
    return ToolAnswer(text=receipt(size, workplace.name(path), workplace.iteration))


def receipt(size: int, name: str, iteration: int) -> str:
    """What stands in the conversation for a written file. The form is fixed: views recognise it."""
    return f"OK: wrote {size:,} bytes to {name} (iter {iteration})"


WRITE_FILE = make_typed_tool(
    "write_file",
    "Creates a file or replaces all of its content. Folders are made as needed.",
    WriteFile,
    write_file,
    kind="write",
)
