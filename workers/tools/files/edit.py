"""
`edit_file`: one exact text replaced by another, where there is no doubt which.
"""

from pydantic import Field

from forgepool.workers.tools.files.near import near_miss
from forgepool.workers.tools.files.text_file import read_text, require_encodable, show_text, write_text
from forgepool.workers.tools.refusal import ToolRefused
from forgepool.workers.tools.tool import Arguments, ToolAnswer, make_typed_tool
from forgepool.workers.tools.workplace import Workplace


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
