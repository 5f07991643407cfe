"""
The two programs that search files, asked in the same way: ripgrep where there is one, else git.

Both leave out what git ignores, binary files and git's own folder, unless a file is named.
"""

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from forgepool.workers.sandbox.run.output import nameless_log, read_log
from forgepool.workers.sandbox.run.process import Command, run
from forgepool.workers.tools.refusal import ToolRefused
from forgepool.workers.tools.workplace import Workplace
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
