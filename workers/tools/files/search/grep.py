"""
`grep`: lines of files that match, the files that matter most first, as much as a conversation can bear.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import Field

from forgepool.workers.tools.files.search.globs import glob_pattern
from forgepool.workers.tools.files.search.listing import show_name
from forgepool.workers.tools.files.search.search import MatchedLine, Query, searcher
from forgepool.workers.tools.refusal import ToolRefused
from forgepool.workers.tools.tool import Arguments, ToolAnswer, make_typed_tool
from forgepool.workers.tools.workplace import Workplace

_MOST_FILES = 20
_MOST_MATCHES = 100
_FEWEST_EACH = 5
_MOST_CHARACTERS = 20_000
_LINE_CHARACTERS = 240
_BEFORE_MATCH = 60
_NAMED = 10
_WORD = re.compile(r"(?<!\\)[^\W\d]\w{2,}|(?<=\\[bB])\w{3,}")
_MOST_WORDS = 20


class Grep(Arguments):
    pattern: str = Field(min_length=1, description="a regular expression, matched within a line")
    path: str = Field(default=".", description="the folder or file to search")
    glob: str | None = Field(default=None, description="search only files like this, such as **/*.py or src/{a,b}*.ts")
    context: int = Field(default=0, ge=0, le=20, description="lines to show before and after each match")
    ignore_case: bool = Field(default=False, description="take capital and small letters for the same")
    literal: bool = Field(default=False, description="take the pattern as plain text")


def grep(arguments: Grep, workplace: Workplace) -> ToolAnswer:
    where = workplace.readable_path(arguments.path)
    if not where.exists():
        raise ToolRefused(f"{arguments.path}: no such file or folder; use glob to see what there is")
    if "\0" in arguments.pattern:
        raise ToolRefused("the pattern holds a NUL character, which no line of text does; leave it out")
    if "\n" in arguments.pattern:
        raise ToolRefused("the pattern spans lines, and lines are searched one by one; search for one of them")
    search = searcher(workplace)
    query = Query(pattern=arguments.pattern, literal=arguments.literal, ignore_case=arguments.ignore_case, where=where)
    counts = _within(search.counts(query), where, arguments.glob)
    if not counts:
        return ToolAnswer(text=_nothing(arguments))
    ranked = _ranked(counts, arguments, workplace)
    top = ranked[:_MOST_FILES]
    each = max(_FEWEST_EACH, _MOST_MATCHES // len(top))
    lines = search.lines(query, top, each=each, context=arguments.context)
    return ToolAnswer(text=_rendered(ranked, counts, lines, workplace))


def _within(counts: Mapping[Path, int], where: Path, glob: str | None) -> Mapping[Path, int]:
    if glob is None or where.is_file():
        return counts
    wanted = glob_pattern(glob if "/" in glob else f"**/{glob}")
    return {path: count for path, count in counts.items() if wanted.matches(path.relative_to(where).as_posix())}


def _ranked(counts: Mapping[Path, int], arguments: Grep, workplace: Workplace) -> list[Path]:
    """
    Files whose very name has a word of the pattern, then those with the most matches; names settle the rest.

    The pattern itself is matched by a program that can be ended, never here.
    """
    words = [arguments.pattern] if arguments.literal else _WORD.findall(arguments.pattern)
    wanted = {word.casefold() for word in words[:_MOST_WORDS]}
    names = {path: workplace.name(path) for path in counts}
    named = {path for path, name in names.items() if any(word in name.casefold() for word in wanted)}
    return sorted(counts, key=lambda path: (path not in named, -counts[path], names[path]))


def _rendered(
    ranked: Sequence[Path], counts: Mapping[Path, int], lines: Mapping[Path, list[MatchedLine]], workplace: Workplace
) -> str:
    blocks: list[str] = []
    left_out: dict[str, int] = {}
    room = _MOST_CHARACTERS
    for path in ranked:
        name = show_name(workplace.name(path))
        block, told = _block(name, counts[path], lines.get(path, []), room)
        if told:
            blocks.append(block)
            room -= len(block)
        if counts[path] > told:
            left_out[name] = counts[path] - told
    return "\n".join([*blocks, *_note(left_out)])


def _block(name: str, count: int, lines: Sequence[MatchedLine], room: int) -> tuple[str, int]:
    """One file's lines, as far as there is room, and how many matches they hold."""
    out = [f"{name} ({count} {'match' if count == 1 else 'matches'})"]
    told, before = 0, None
    for line in lines:
        if before is not None and line.number > before + 1 and any(each.column is None for each in lines):
            out.append("  --")
        mark = "-" if line.column is None else ":"
        out.append(f"{line.number:6}{mark} {_cut(line)}")
        room -= len(out[-1]) + 1
        if room < 0:
            break
        told += line.column is not None
        before = line.number
    return "\n".join(out), told


def _cut(line: MatchedLine) -> str:
    """A long line by its match: minified files have nothing else."""
    text = line.text
    if len(text) <= _LINE_CHARACTERS:
        return text
    start = max(0, min((line.column or 1) - _BEFORE_MATCH, len(text) - _LINE_CHARACTERS))
    cut = text[start : start + _LINE_CHARACTERS]
    return f"{'...' if start else ''}{cut}... [line of {len(text):,} characters]"


def _note(left_out: Mapping[str, int]) -> list[str]:
    if not left_out:
        return []
    named = ", ".join(f"{name} {count}" for name, count in list(left_out.items())[:_NAMED])
    more = ", ..." if len(left_out) > _NAMED else ""
    files = "1 file" if len(left_out) == 1 else f"{len(left_out)} files"
    total = sum(left_out.values())
    return [f"[{total} more in {files}: {named}{more}; narrow the pattern, the path or the glob]"]


def _nothing(arguments: Grep) -> str:
    among = f" in files like {arguments.glob}" if arguments.glob else ""
    return f"no line below {arguments.path} matches {arguments.pattern}{among} (files that git ignores are left out)"


GREP = make_typed_tool(
    "grep",
    "Searches files for lines that match a regular expression. Shows the files that matter most first, with line "
    "numbers; says what it left out. Files that git ignores are not searched, unless one is given as path.",
    Grep,
    grep,
    kind="read",
)
