"""
`grep`: lines of files that match, the files that matter most first, as much as a conversation can bear.
"""

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pydantic import Field

from forgepool.workers.sandbox.run.output import nameless_log, read_log
from forgepool.workers.sandbox.run.process import Command, run
from forgepool.workers.tools.files.listing import glob_pattern, show_name
from forgepool.workers.tools.tool import Arguments, ToolAnswer, make_typed_tool
from forgepool.workers.tools.workplace import ToolRefused, Workplace
from forgepool.worktrees.git.git import Git, GitFailed

_TIMEOUT_S = 30.0
_KEEP_BYTES = 32 * 1024 * 1024

_NOWHERE = Path("/nonexistent")
"""In the place of a repository, where none is asked."""
_COUNT = re.compile(rb"([^\0]+)\0(\d+)\n")
_GIT_LINE = re.compile(rb"(?:--\n)?([^\0]+)\0(\d+)\0(?:(\d+)\0)?([^\n]*)(?:\n|$)")
_RG_LINE = re.compile(rb"(?:--\n)?([^\0]+)\0(\d+)(?::(\d+):|-)([^\n]*)(?:\n|$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    pattern: str
    literal: bool
    ignore_case: bool
    where: Path
    """A folder or a file."""


class MatchedLine(NamedTuple):
    """A line of a file that is shown for a match in it or near it."""

    number: int
    column: int | None
    """Where the match begins, in bytes from 1; None for a line that only stands near one."""
    text: str


@dataclass(frozen=True, slots=True)
class Ripgrep:
    program: str
    workplace: Workplace

    def counts(self, query: Query) -> Mapping[Path, int]:
        """How many lines match, for each file that has any."""
        found = _COUNT.findall(self._ask(query, "--count", "--", str(query.where)))
        return {_path(name): int(count) for name, count in found}

    def lines(
        self, query: Query, files: Sequence[Path], *, each: int, context: int
    ) -> Mapping[Path, list[MatchedLine]]:
        """The first `each` matching lines of these files, with so many lines around them."""
        words = ("--line-number", "--column", "--no-heading", "-m", str(each), "-C", str(context))
        return _lines(_RG_LINE, self._ask(query, *words, "--", *map(str, files)), query.where)

    def _ask(self, query: Query, *words: str) -> bytes:
        kind = ("--fixed-strings",) if query.literal else ("--engine", "auto")
        case = ("--ignore-case",) if query.ignore_case else ("--case-sensitive",)
        usual = ("--no-config", "--no-messages", "--color", "never", "--hidden", "--glob", "!.git")
        form = ("--null", "--with-filename")
        with nameless_log() as log:
            ended = run(
                Command(
                    argv=(self.program, *usual, *form, *kind, *case, "-e", query.pattern, *words),
                    cwd=self.workplace.root,
                    env=self.workplace.env,
                    log=Path(os.devnull),
                    log_file=log,
                    timeout_s=_patience_s(self.workplace),
                    keep_bytes=_KEEP_BYTES,
                    confined=self.workplace.confined,
                ),
                stop=self.workplace.stop,
            )
            said = read_log(log, _KEEP_BYTES) if ended.how == "exit" else b""
        if ended.how != "exit":
            raise ToolRefused(f"the search was ended after {ended.seconds:.0f} s; narrow the path or the glob")
        if ended.status not in (0, 1) and b"\0" not in said:
            raise ToolRefused(_complaint(query, said.decode(errors="replace")))
        return said


@dataclass(frozen=True, slots=True)
class GitGrep:
    workplace: Workplace

    def counts(self, query: Query) -> Mapping[Path, int]:
        found = _COUNT.findall(self._ask(query, (), "--count"))
        return {self._place(query) / _path(name): int(count) for name, count in found}

    def lines(
        self, query: Query, files: Sequence[Path], *, each: int, context: int
    ) -> Mapping[Path, list[MatchedLine]]:
        words = ("--line-number", "--column", "-m", str(each), "-C", str(context))
        return _lines(_GIT_LINE, self._ask(query, files, *words), self._place(query))

    def _place(self, query: Query) -> Path:
        """
        Where names are told from, and beyond which git opens nothing: the worktree, or the folder outside it that is
        lent. Not the folder that is searched, which a command may by now have replaced by a link.
        """
        return self.workplace.open_parent(query.where)[0].path

    def _ask(self, query: Query, files: Sequence[Path], *words: str) -> bytes:
        place = self._place(query)
        git = self.workplace.git
        known = git is not None and place == self.workplace.root and not query.where.is_file()
        which = ("--untracked", "--exclude-standard") if known else ("--no-index", "--no-exclude-standard")
        paths = [path.relative_to(place).as_posix() for path in files or (query.where,)]
        case = ("--ignore-case",) if query.ignore_case else ()
        usual = ("-z", "-I", "--no-color", "--no-textconv", "--full-name", "--threads=2", *which, *case)
        if git is None or not known:
            git = Git(git_dir=_NOWHERE, work_tree=place)
        for kind in ("-F",) if query.literal else ("-P", "-E"):
            try:
                argv = ("grep", *usual, kind, *words, "-e", query.pattern, "--", *paths)
                return git.run(*argv, ok=(0, 1), timeout_s=_patience_s(self.workplace)).stdout
            except GitFailed as failed:
                if kind == "-P" and "USE_LIBPCRE" in failed.stderr:
                    continue  # this git was built without it
                raise ToolRefused(_complaint(query, failed.stderr)) from failed
        return b""


def searcher(workplace: Workplace) -> Ripgrep | GitGrep:
    """What the host has; a command's own PATH decides, as it does for commands."""
    found = shutil.which("rg", path=workplace.env.get("PATH"))
    return GitGrep(workplace) if found is None else Ripgrep(found, workplace)


def _lines(form: re.Pattern[bytes], said: bytes, place: Path) -> Mapping[Path, list[MatchedLine]]:
    found: dict[Path, list[MatchedLine]] = {}
    for name, number, column, text in form.findall(said):
        line = MatchedLine(int(number), int(column) if column else None, text.decode(errors="replace").rstrip("\r"))
        found.setdefault(place / _path(name), []).append(line)
    return found


def _path(name: bytes) -> Path:
    return Path(name.decode(errors="surrogateescape"))


def _patience_s(workplace: Workplace) -> float:
    return max(0.1, min(_TIMEOUT_S, workplace.left_s()))


def _complaint(query: Query, said: str) -> str:
    """In one line, what the program has against the pattern; or against searching at all."""
    lines = [line.strip() for line in said.splitlines() if line.strip()] or ["no reason given"]
    telling = next((line for line in lines if line.startswith(("error:", "fatal:", "Timeout:"))), lines[0])
    about_pattern = "-e option" in said or "parse error" in said
    reason = re.sub(r"^(?:error|fatal): (?:-e option, '.*': )?", "", telling)
    return f"{query.pattern!r}: {reason}; " + ("give a regular expression" if about_pattern else "narrow the path")


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
