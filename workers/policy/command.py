"""
Commands as rules name them: a program, the words that follow, and options in any spelling.

`begins` is the strict question, for rules that permit: the command starts exactly as written. `amounts` is the wide
one, for rules that restrain: options may be bundled, shortened or last, and words may be unknown.
"""

import fnmatch
import posixpath
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Literal, Self

from forgepool.workers.shell.language.script import Execution, ShellWord
from forgepool.workers.shell.programs.known_programs import (
    ALIKE,
    ANY_OPTION,
    ONE_DASH,
    TAKES_NUMBERS,
    TRUSTED,
    git_folders,
    git_words,
)

_MOST_VALUES = 16
"""Options that may or may not take the next word as their value; beyond so many, any reading is possible."""
Likeness = Literal["no", "maybe", "yes"]
"""`maybe` means that a word unknown before the run stands where the rule looks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramCall:
    """A program and its words, as rules see them."""

    names: tuple[str, ...]
    """Possible names of the program in small letters: its base name, the base name and path it resolves to."""
    trusted: str
    """
    The certain name: the name looked up on the PATH, or the resolved path, with `./` for a program of the worktree.
    """
    words: tuple[ShellWord, ...]
    """The words after the program, for git without the options before the subcommand."""
    all_words: tuple[ShellWord, ...]
    wrong: str = ""
    """The reason to refuse it under any rules: an option that could make it another program's command."""
    inside: bool = False
    """The program is a file in the worktree."""
    folders: tuple[ShellWord, ...] = ()
    """The folders of `git -C`, where git goes before all else."""

    @property
    def is_known(self) -> bool:
        """Report whether no word that the shell fills in can make it another command."""
        return all(word.static or self._is_tame(word) for word in self.all_words)

    def _is_tame(self, word: ShellWord) -> bool:
        """Report whether a word becomes numbers or names of files, and no option that matters."""
        if not word.filled or word.text.startswith("-"):
            return False
        return bool(word.text) or word.filled == "number" or self.trusted in ANY_OPTION


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandPattern:
    """The beginning of a command, such as `git push`, `rm -rf` or `python -m pytest`."""

    tokens: tuple[str, ...]
    without: tuple[str, ...] = ()
    """Options that exclude a command from a rule that permits it."""
    _words: tuple[str, ...] = field(default=(), repr=False)
    _options: tuple[str, ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, tokens: tuple[str, ...], without: tuple[str, ...] = ()) -> Self:
        """
        Raises:
            ValueError: there is no program; with the rest of a sentence.
        """
        if not tokens or not all(tokens) or tokens[0].startswith("-"):
            raise ValueError("must begin with a program, as in 'git push' or [git, push]")
        options = tuple(one for token in tokens[1:] if _is_option(token) for one in _each(token, tokens[0]))
        words = tuple(token for token in tokens[1:] if not _is_option(token))
        return cls(tokens=tokens, without=without, _words=words, _options=options)

    @property
    def program(self) -> str:
        return self.tokens[0]

    @property
    def rank(self) -> int:
        """Return how specific the pattern is."""
        return 1 + len(self._words) + len(self._options) - (self.program == "*")

    @property
    def _surely(self) -> str:
        inside = "/" in self.program and not self.program.startswith("/")
        return f"./{self.program.removeprefix('./')}" if inside else self.program

    def names_program(self, call: ProgramCall) -> bool:
        folded = self.program.removeprefix("./").casefold()
        if "*" in folded:
            return any(fnmatch.fnmatchcase(name, folded) for name in call.names)
        return folded in call.names

    def begins(self, call: ProgramCall) -> bool:
        """Report whether the command begins exactly like this in known words and has no option of `without`."""
        if call.trusted != self._surely and not (
            "*" in self.program and fnmatch.fnmatchcase(call.trusted, self._surely)
        ):
            return False
        said = call.words[: len(self.tokens) - 1]
        if tuple(word.text for word in said) != self.tokens[1:] or not all(word.static for word in said):
            return False
        return all(_has_option(option, call) == "no" for each in self.without for option in _each(each, self.program))

    def amounts(self, call: ProgramCall) -> Likeness:
        """Report whether the command is, or might be, this one in any spelling."""
        if not self.names_program(call):
            return "no"
        found = [_leads(self._words, call.words)] if self._words else []
        found += [_has_option(option, call) for option in self._options]
        return "no" if "no" in found else "maybe" if "maybe" in found else "yes"


def make_call(execution: Execution, root: Path) -> ProgramCall:
    """Describe an execution as rules see it. `root` is the resolved worktree."""
    program = execution.argv[0].text
    names, trusted, inside = _names(program, execution.cwd, root)
    words, wrong = execution.argv[1:], ""
    folders: tuple[ShellWord, ...] = ()
    if (part := names[0].removeprefix("git-")) != names[0]:
        # A program of git's own, `git-push`, is that subcommand.
        names, words = (*names, "git"), (ShellWord(text=part, static=True), *words)
    elif "git" in names:
        folders = tuple(git_folders(words))
        words, wrong = git_words(words)
    return ProgramCall(
        names=names,
        trusted=trusted,
        words=words,
        all_words=execution.argv[1:],
        wrong=wrong,
        inside=inside,
        folders=folders,
    )


def _names(program: str, cwd: Path | None, root: Path) -> tuple[tuple[str, ...], str, bool]:
    if "/" not in program:
        return (program.casefold(),), program, False
    return _names_of_path(program, cwd or root, root)


@lru_cache(maxsize=4096)
def _names_of_path(program: str, cwd: Path, root: Path) -> tuple[tuple[str, ...], str, bool]:
    written = cwd / program
    try:
        real = written.resolve()
    except (OSError, RuntimeError):
        real = written
    # By every name: a link called `ls` that leads to git is both, and so is a `./git` of the worktree's own.
    names = [posixpath.basename(program), real.name, str(real)]
    inside = real.is_relative_to(root)
    if inside:
        names.append(real.relative_to(root).as_posix())
    if inside:
        trusted = f"./{names[-1]}"
    else:
        known = str(real.parent) in TRUSTED and str(written.parent) in TRUSTED
        trusted = posixpath.basename(program) if known else str(real)
    return tuple(dict.fromkeys(name.casefold() for name in names)), trusted, inside


def _leads(wanted: tuple[str, ...], words: tuple[ShellWord, ...]) -> Likeness:
    """Report whether the first words other than options are these. Each option may take one word as its value."""
    places = {(0, 0)}
    """Pairs of wanted words found and words taken as values, one for each reading of the words so far."""
    options, found, ended = 0, "no", False
    for word in words:
        if word.static and not ended and word.text.startswith("-"):
            ended = word.text == "--"
            options += "=" not in word.text and not ended
            continue
        if options > _MOST_VALUES or (not word.static and any(_may_be(word, wanted[at]) for at, _ in places)):
            found = "maybe"
        places = _after(wanted, places, word, min(options, _MOST_VALUES))
        if any(at == len(wanted) for at, _ in places):
            return "yes"
        if not places:
            break
    return "maybe" if found == "maybe" else "no"


def _after(
    wanted: tuple[str, ...], places: set[tuple[int, int]], word: ShellWord, options: int
) -> set[tuple[int, int]]:
    matched = {(at + 1, values) for at, values in places if word.static and word.text == wanted[at]}
    return matched | {(at, values + 1) for at, values in places if values < options}


def _may_be(word: ShellWord, text: str) -> bool:
    """Report whether an unknown word may become this word, several words that include it, or an option before it."""
    return text.startswith(word.text) or word.text.startswith("-")


def _is_option(text: str) -> bool:
    return len(text) > 1 and text[0] == "-"


def _each(token: str, program: str) -> tuple[str, ...]:
    """Return the options in a word; `-rf` holds two."""
    if token.startswith("--") or program in ONE_DASH or len(token) == 2:
        return (token,)
    return tuple(f"-{letter}" for letter in token[1:])


def _has_option(option: str, call: ProgramCall) -> Likeness:
    """Report whether a command has an option: bundled, in full, shortened, or after `--`."""
    wanted = {option, *_alike(option, call.names)}
    bundles = not any(name in ONE_DASH for name in call.names)
    found: Likeness = "no"
    for word in call.all_words:
        if word.static and word.text == "--":
            break
        if not word.static:
            unknown = word.text.startswith("-") or (not word.text and TAKES_NUMBERS.isdisjoint(call.names))
            found = "maybe" if unknown else found
            if not word.text.startswith("-"):
                continue
        if _is_option(word.text) and any(_says(word.text, one, bundles=bundles) for one in wanted):
            return "yes"
    if found == "no" and any(word.static and word.text == option for word in call.all_words):
        return "yes"  # behind `--`, as in `kill -- -1`: whatever it is there, it is what the rule names
    return found


def _alike(option: str, names: Iterable[str]) -> set[str]:
    return {one for name in names for group in ALIKE.get(name, ()) if option in group for one in group}


def _says(text: str, option: str, *, bundles: bool) -> bool:
    name, equals, _ = text.partition("=")
    if option.startswith("--"):
        wanted, wants, _ = option.partition("=")
        if wants and equals and text != option:
            return False
        return name.startswith("--") and len(name) > 2 and wanted.startswith(name)
    if text == option or name == option:
        return True
    return bundles and len(option) == 2 and not text.startswith("--") and option[1] in text[1:]
