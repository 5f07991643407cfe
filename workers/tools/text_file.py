"""
A text file as tools handle it: its bytes survive an edit of some of them, whatever its encoding and line
ends.
"""

import codecs
import contextlib
import difflib
import secrets
import shutil
import stat
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
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError) as trouble:
        raise Refused(f"{asked}: no such file{_near(path)}") from trouble
    if stat.S_ISDIR(found.st_mode):
        raise Refused(f"{asked}: is a folder; use glob to see what is in it")
    if not stat.S_ISREG(found.st_mode):
        raise Refused(f"{asked}: is not a file (a pipe, socket or device); only files can be read")
    if found.st_size > MAX_BYTES:
        raise Refused(f"{asked}: {found.st_size:,} bytes are too many; use grep on it, or bash with head or sed -n")
    data = path.read_bytes()
    if b"\0" in data[:_LOOK_BYTES]:
        if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise Refused(f"{asked}: is UTF-16 text, which tools do not edit; use bash with iconv")
        raise Refused(f"{asked}: is binary ({len(data):,} bytes); use bash with a program that knows its form")
    return data.decode(errors="surrogateescape")


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
    fresh = workplace.tmp / f"write-{secrets.token_hex(8)}"
    try:
        fresh.write_bytes(data)
        if path.exists():
            fresh.chmod(stat.S_IMODE(path.stat().st_mode))
        _move(fresh, path)
    finally:
        fresh.unlink(missing_ok=True)
    return len(data)


def shown(text: str) -> str:
    """The text as a model may see it: every character can be sent, line ends are plain."""
    plain = text.replace("\r\n", "\n").removeprefix("\ufeff")
    return plain.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _move(fresh: Path, path: Path) -> None:
    try:
        fresh.replace(path)
    except OSError:
        # Another file system. The name is taken anew, so that nothing is written through a hard link.
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
        shutil.copy(fresh, path)


def _near(path: Path) -> str:
    """Where else the model may look: a name like it in the folder, or the first folder that is missing."""
    folder = path.parent
    if not folder.is_dir():
        return f", nor a folder {folder.name}; use glob to see what there is"
    names = [entry.name for entry in folder.iterdir() if entry.name != ".git"]
    meant = difflib.get_close_matches(path.name, names, n=1)
    return f"; did you mean {meant[0]}?" if meant else "; use glob to see what there is"
