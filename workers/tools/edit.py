"""
`edit_file`: one exact text replaced by another, where there is no doubt which.
"""

import difflib

from pydantic import Field

from workers.tools.refusal import Refused
from workers.tools.text_file import read_text, shown, write_text
from workers.tools.tool import Answer, Arguments, Tool
from workers.tools.workplace import Workplace

_NEAR_LINES = 20_000


class EditFile(Arguments):
    path: str
    old: str = Field(description="the exact text, white space and all; without line numbers")
    new: str
    count: int | None = Field(default=None, ge=1, description="how often the text occurs, if more than once")


def edit_file(arguments: EditFile, workplace: Workplace) -> Answer:
    path = workplace.path(arguments.path)
    text = read_text(path, arguments.path)
    old, new = _as_the_file_has_it(text, arguments.old, arguments.new)
    lines = _places(text, old)
    _require_clear(arguments, text, lines)
    write_text(path, text.replace(old, new), workplace)
    where = f"line {lines[0]}" if len(lines) == 1 else f"lines {_listed(lines)}"
    places = "1 place" if len(lines) == 1 else f"{len(lines)} places"
    return Answer(text=f"OK: replaced {places} in {workplace.name(path)}, {where} (iter {workplace.iteration})")


def _as_the_file_has_it(text: str, old: str, new: str) -> tuple[str, str]:
    """A model writes plain line ends; in a file with CR LF they mean those."""
    if "\r\n" not in text or (old and old in text and "\n" not in new):
        return old, new
    if old in text and "\r\n" in old:
        return old, new
    return _with_crlf(old), _with_crlf(new)


def _with_crlf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def _places(text: str, old: str) -> list[int]:
    """The line each occurrence begins on."""
    found: list[int] = []
    at = text.find(old) if old else -1
    line, counted = 1, 0
    while at >= 0:
        line += text.count("\n", counted, at)
        counted = at
        found.append(line)
        at = text.find(old, at + len(old))
    return found


def _require_clear(arguments: EditFile, text: str, lines: list[int]) -> None:
    path = arguments.path
    if not arguments.old:
        raise Refused(f"{path}: the old text is empty; give the text to replace, or use write_file")
    if arguments.old == arguments.new:
        raise Refused(f"{path}: old and new text are the same; nothing to do")
    if not lines:
        raise Refused(f"{path}: the old text is not in it{_near_miss(shown(text), shown(arguments.old))}")
    if arguments.count is None and len(lines) > 1:
        raise Refused(
            f"{path}: the old text occurs {len(lines)} times (lines {_listed(lines)}); "
            f"give more of what is around it, or count={len(lines)} to replace all"
        )
    if arguments.count is not None and arguments.count != len(lines):
        raise Refused(f"{path}: the old text occurs {len(lines)} times (lines {_listed(lines)}), not {arguments.count}")


def _near_miss(text: str, old: str) -> str:
    """
    What the model probably meant: the same lines with other white space, or the line most like its first.
    """
    wanted = [line.strip() for line in old.strip("\n").split("\n")]
    lines = text.split("\n")[:_NEAR_LINES]
    stripped = [line.strip() for line in lines]
    for at in range(len(lines) - len(wanted) + 1):
        if stripped[at : at + len(wanted)] == wanted:
            return f"; at line {at + 1} it differs in white space only: {lines[at]!r}"
    first = next((line for line in wanted if line), "")
    near = difflib.get_close_matches(first, [line for line in stripped if line], n=1, cutoff=0.7)
    if not near:
        return "; read the file again"
    at = stripped.index(near[0])
    return f"; the nearest line is {at + 1}: {lines[at][:200]!r}"


def _listed(lines: list[int]) -> str:
    return ", ".join(map(str, lines[:10])) + (", ..." if len(lines) > 10 else "")


EDIT_FILE = Tool(
    name="edit_file",
    description="Replaces an exact text in a file. The text must occur once, or as often as `count` says.",
    arguments=EditFile,
    function=edit_file,
)
