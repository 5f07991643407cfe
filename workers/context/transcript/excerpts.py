"""
The text of files that were read already, for the context that has to change them: line by line as `read_file` gave it.

Only what is still so is quoted. What a file held before it was written is left out, and so is everything that was read
before anything was called that is not known to change no file. A transcript alone cannot tell what a command in the
background changes later, or that two names lead to one file: who can look at the files as they are gives `current`.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from forgepool.workers.context.transcript.entries import Entry
from forgepool.workers.context.transcript.exchanges import ToolExchange, exchanges, text_argument
from forgepool.workers.context.transcript.summary import paths_written, stretches
from forgepool.workers.shell.purpose.file_access import normal_path
from forgepool.workers.shell.purpose.programs import reads_only

_BUDGET_CHARACTERS = 24_000
_LINE = re.compile(r"^ *(\d+)\t.*$", re.MULTILINE)
_COMMANDS = {"bash", "bash_background"}
_CHANGING_NOTHING = {
    *("read_file", "glob", "grep", "find_symbol", "find_references", "diagnostics", "finish", "commit_plan", "ask"),
}
_NAMING_WHAT_IT_WRITES = {"write_file", "edit_file", "apply_patch"}
_CUT_CHARACTERS = 2_000
"""From which `read_file` may cut a line."""

Lines = Mapping[int, str]
"""Of one file: number to line, the number before it as it was shown."""


def excerpts(
    entries: Sequence[Entry],
    paths: Iterable[str],
    *,
    root: str = "",
    budget: int = _BUDGET_CHARACTERS,
    current: Callable[[str], str | None] | None = None,
) -> str:
    """
    The newest known lines of those of the paths that were read, in the order of the paths; empty where there are none.

    Of files that do not fit together each gets an equal share; what is left out is named. `current` has a file's
    present text, as `read_file` shows it, or None where there is none: lines that it does not hold any more are left
    out.
    """
    known = _known(exchanges(entries), root)
    wanted = {path: known[path] for path in dict.fromkeys(normal_path(each, root) for each in paths) if path in known}
    if current is not None:
        wanted = {path: _still_so(lines, current(path)) for path, lines in wanted.items()}
    wanted = {path: lines for path, lines in wanted.items() if lines}
    rooms = _rooms({path: len(_text(lines)) for path, lines in wanted.items()}, budget)
    return "\n".join(_excerpt(path, lines, rooms[path]) for path, lines in wanted.items())


def _known(done: Sequence[ToolExchange], root: str) -> dict[str, dict[int, str]]:
    known: dict[str, dict[int, str]] = {}
    for one in done:
        if one.call.name == "read_file" and one.worked:
            path = normal_path(text_argument(one.call.arguments, "path"), root)
            known.setdefault(path, {}).update(_lines(one.result.text))
        elif _may_write_anything(one):
            known.clear()
        for path in paths_written(one, root):
            known.pop(path, None)
    return {path: lines for path, lines in known.items() if lines}


def _may_write_anything(one: ToolExchange) -> bool:
    if one.call.name in _COMMANDS:
        return not reads_only(text_argument(one.call.arguments, "command"))
    if one.call.name in _NAMING_WHAT_IT_WRITES:
        return False
    return one.call.name not in _CHANGING_NOTHING


def _still_so(lines: Lines, text: str | None) -> dict[int, str]:
    present = [] if text is None else text.split("\n")
    return {
        number: line
        for number, line in lines.items()
        if number <= len(present) and _is_shown(line.partition("\t")[2], present[number - 1])
    }


def _is_shown(shown: str, line: str) -> bool:
    return shown == line or (len(line) > _CUT_CHARACTERS and shown.startswith(f"{line[:_CUT_CHARACTERS]} ["))


def _lines(text: str) -> dict[int, str]:
    return {int(found[1]): found[0] for found in _LINE.finditer(text)}


def _text(lines: Lines) -> str:
    """The lines in order; a gap where some were not read."""
    parts = ["\n".join(lines[number] for number in range(first, last + 1)) for first, last in stretches(lines)]
    return "\n   ...\n".join(parts)


def _rooms(sizes: Mapping[str, int], budget: int) -> dict[str, int]:
    """Characters for each: a small file leaves what it does not need to the larger ones."""
    rooms: dict[str, int] = {}
    for place, (path, size) in enumerate(sorted(sizes.items(), key=lambda each: each[1])):
        rooms[path] = min(size, budget // (len(sizes) - place))
        budget -= rooms[path]
    return rooms


def _excerpt(path: str, lines: Lines, room: int) -> str:
    kept = dict(lines)
    if len(_text(lines)) > room:
        kept = _fitting(lines, room)
    shown = ", ".join(f"{first}-{last}" for first, last in stretches(kept)) or "none"
    missing = stretches(set(lines) - set(kept))
    note = f"; also read, not repeated here: {', '.join(f'{a}-{b}' for a, b in missing)}" if missing else ""
    return f"### {path} (lines {shown}{note})\n{_text(kept)}\n"


def _fitting(lines: Lines, room: int) -> dict[int, str]:
    """The first lines that fit."""
    kept: dict[int, str] = {}
    for number in sorted(lines):
        room -= len(lines[number]) + 1
        if room < 0:
            break
        kept[number] = lines[number]
    return kept
