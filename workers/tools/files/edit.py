"""
`edit_file`: one exact text replaced by another, where there is no doubt which.
"""

import difflib
from collections import Counter
from collections.abc import Sequence

from pydantic import Field

from forgepool.workers.tools.files.text_file import read_text, require_encodable, show_text, write_text
from forgepool.workers.tools.tool import Arguments, ToolAnswer, make_typed_tool
from forgepool.workers.tools.workplace import ToolRefused, Workplace

_MOST_LINES = 20_000
_MOST_CHARACTERS = 1_000_000
_MOST_COMPARED = 2_000
_MOST_PLACES = 50
"""Of one line; what stands in more places (`}`) says nothing of where."""
_COMPARED_CHARACTERS = 400
_SHOWN_CHARACTERS = 160
_LIKE = 0.7


def near_miss(text: str, old: str) -> str:
    """The end of a sentence, for the model: the region most like the wanted text, and how the two differ."""
    wanted = _trimmed(old[:_MOST_CHARACTERS].split("\n"))
    lines = text[:_MOST_CHARACTERS].split("\n")[:_MOST_LINES]
    at = closest(lines, wanted)
    if at is None:
        return "; read the file again" + _unreadable(old)
    there = lines[at : at + len(wanted)]
    where = f"line {at + 1}" if len(wanted) == 1 else f"lines {at + 1}-{at + len(there)}"
    return f"; nearest is {where}: {difference(there, wanted, at + 1)}{_unreadable(old)}"


def closest(lines: Sequence[str], wanted: Sequence[str]) -> int | None:
    """The index at which most of the wanted lines stand in their places, white space aside; None when none is like."""
    places: dict[str, list[int]] = {}
    for at, line in enumerate(lines):
        places.setdefault(line.strip(), []).append(at)
    votes = Counter(
        at - offset
        for offset, line in enumerate(wanted)
        if line.strip()
        for at in places.get(line.strip(), ())[:_MOST_PLACES]
    )
    starts = {start: count for start, count in votes.items() if start >= 0}
    if starts:
        return min(starts, key=lambda start: (-starts[start], start))
    return _alike(places, wanted)


def difference(there: Sequence[str], wanted: Sequence[str], first: int) -> str:
    """The first line in which two regions differ, and in what; `first` is the number of the first line there."""
    for offset, line in enumerate(wanted):
        if offset >= len(there):
            return f"the file ends after line {first + len(there) - 1}"
        if there[offset] != line:
            return _line_difference(there[offset], line, first + offset)
    return "they are the same but for line ends"


def _line_difference(there: str, wanted: str, number: int) -> str:
    if there.rstrip() == wanted.rstrip():
        return f"line {number} differs in white space at its end only; it is {_quoted(there)}"
    if there.strip() == wanted.strip():
        kind = "tabs and blanks" if _tabbed(there) != _tabbed(wanted) else "indentation"
        return f"line {number} differs in {kind} only; it is {_quoted(there)}"
    if "".join(there.split()) == "".join(wanted.split()):
        return f"line {number} differs in white space only; it is {_quoted(there)}"
    return f"line {number} is {_quoted(there)}, you gave {_quoted(wanted)}"


def _alike(places: dict[str, list[int]], wanted: Sequence[str]) -> int | None:
    """Where a line like the longest of the wanted ones stands."""
    offset = max(range(len(wanted)), key=lambda index: len(wanted[index].strip()), default=0)
    if not wanted or not (longest := wanted[offset].strip()) or len(longest) > _COMPARED_CHARACTERS:
        return None
    short = [line for line in places if 0 < len(line) <= _COMPARED_CHARACTERS]
    # Those of like length first: no other can be alike, and comparing takes time.
    short = sorted(short, key=lambda line: abs(len(line) - len(longest)))[:_MOST_COMPARED]
    near = difflib.get_close_matches(longest, short, n=1, cutoff=_LIKE)
    return max(0, places[near[0]][0] - offset) if near else None


def _unreadable(old: str) -> str:
    if "�" not in old:
        return ""
    return "; the file holds bytes that are no UTF-8, shown as �: give text without them"


def _trimmed(lines: list[str]) -> list[str]:
    """Without the empty lines at both ends, which say nothing of the place."""
    full = [at for at, line in enumerate(lines) if line.strip()]
    return lines[full[0] : full[-1] + 1] if full else []


def _tabbed(line: str) -> bool:
    return "\t" in line[: len(line) - len(line.lstrip())]


def _quoted(line: str) -> str:
    return repr(line if len(line) <= _SHOWN_CHARACTERS else f"{line[:_SHOWN_CHARACTERS]}...")


class EditFile(Arguments):
    path: str = Field(description="of the file, below the worktree")
    old: str = Field(description="the exact text, white space and all; without line numbers")
    new: str = Field(description="what takes its place")
    count: int | None = Field(default=None, ge=1, description="how often the text occurs, if more than once")


def edit_file(arguments: EditFile, workplace: Workplace) -> ToolAnswer:
    path = workplace.path(arguments.path)
    text = read_text(path, arguments.path, workplace)
    old, new = _as_the_file_has_it(text, arguments.old, arguments.new)
    lines = _places(text, old)
    _require_clear(arguments, text, lines)
    if old == new:
        raise ToolRefused(f"{arguments.path}: old and new text differ in line ends only, which are kept; nothing to do")
    require_encodable(new, text, arguments.path)
    write_text(path, text.replace(old, new), workplace)
    where = f"line {lines[0]}" if len(lines) == 1 else f"lines {_listed(lines)}"
    places = "1 place" if len(lines) == 1 else f"{len(lines)} places"
    return ToolAnswer(text=f"OK: replaced {places} in {workplace.name(path)}, {where} (iter {workplace.iteration})")


def _as_the_file_has_it(text: str, old: str, new: str) -> tuple[str, str]:
    """A model writes whatever line ends it likes; it means those that the file has at that place."""
    plain = _with_lf(old)
    if "\n" not in plain:
        mostly_crlf = 2 * text.count("\r\n") > text.count("\n")
        return old, _with_crlf(new) if mostly_crlf else new
    if _with_crlf(plain) in text:
        return _with_crlf(plain), _with_crlf(new)
    return (plain, _with_lf(new)) if plain in text else (old, new)


def _with_lf(text: str) -> str:
    return text.replace("\r\n", "\n")


def _with_crlf(text: str) -> str:
    return _with_lf(text).replace("\n", "\r\n")


def _places(text: str, old: str) -> list[int]:
    """The line each occurrence begins on."""
    found: list[int] = []
    at = text.find(old) if old else -1
    line, counted = 1, 0
    while at >= 0:
        line += text.count("\n", counted, at)
        counted = at
        found.append(line)
        at = text.find(old, at + 1)
    return found


def _require_clear(arguments: EditFile, text: str, lines: list[int]) -> None:
    path = arguments.path
    if not arguments.old:
        raise ToolRefused(f"{path}: the old text is empty; give the text to replace, or use write_file")
    if arguments.old == arguments.new:
        raise ToolRefused(f"{path}: old and new text are the same; nothing to do")
    if not lines:
        raise ToolRefused(f"{path}: the old text is not in it{_why_not(text, arguments.old)}")
    if arguments.count is None and len(lines) > 1:
        raise ToolRefused(
            f"{path}: the old text occurs {len(lines)} times (lines {_listed(lines)}); "
            f"give more of what is around it, or count={len(lines)} to replace all"
        )
    if arguments.count is not None and arguments.count != len(lines):
        raise ToolRefused(
            f"{path}: the old text occurs {len(lines)} times (lines {_listed(lines)}), not {arguments.count}"
        )


def _why_not(text: str, old: str) -> str:
    if "\n" in old and _with_lf(old) in _with_lf(text):
        return "; there it spans lines of both kinds of end, CR LF and LF: edit them one by one"
    return near_miss(show_text(text), show_text(old))


def _listed(lines: list[int]) -> str:
    return ", ".join(map(str, lines[:10])) + (", ..." if len(lines) > 10 else "")


EDIT_FILE = make_typed_tool(
    "edit_file",
    "Replaces an exact text in a file. The text must occur once, or as often as `count` says. Line ends are kept.",
    EditFile,
    edit_file,
    kind="write",
)
