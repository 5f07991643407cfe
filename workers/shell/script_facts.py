"""The facts of a script as they are collected, and the place of each statement."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NoReturn

from forgepool.workers.shell.language.refusal import MOST_BYTES_IN_ALL, check_number, refuse
from forgepool.workers.shell.language.script import (
    Dialect,
    Execution,
    Fact,
    ReadFile,
    Redirect,
    ShellWord,
    VariableAssignment,
)
from forgepool.workers.shell.written_files import WrittenFiles

_RUNS_VALUES = frozenset(
    ["BASHOPTS", "BASH_ALIASES", "BASH_CMDS", "CDPATH", "POSIXLY_CORRECT", "PROMPT_COMMAND", "PS0", "PS4", "SHELLOPTS"]
)
"""Variables whose values bash runs, or that change how it reads."""
_COUNTERS = frozenset(["HISTCMD", "LINENO", "OPTIND", "RANDOM", "SECONDS", "SRANDOM", "EPOCHSECONDS"])
"""Variables that count by themselves; bash evaluates what they are set to."""
_NUMBERS = _COUNTERS | {"BASHPID", "COLUMNS", "EUID", "LINES", "PPID", "SHLVL", "UID"}
_ARRAYS = frozenset(["DIRSTACK", "FUNCNAME", "GROUPS", "MAPFILE", "PIPESTATUS"])
_NO_NUMBERS = frozenset(["_", "COPROC", "DIRSTACK", "FUNCNAME", "MAPFILE", "OLDPWD", "OPTARG", "PWD", "REPLY"])
"""Variables that bash sets to values a script can choose, as it does all that begin with BASH_."""


@dataclass(slots=True, kw_only=True)
class ScriptReading:
    """The facts so far, and what only all of them together tell."""

    read_file: ReadFile | None
    facts: list[Fact] = field(default_factory=list)
    functions: set[str] = field(default_factory=set)
    changeable: bool = False
    """An earlier command may have written files."""
    moved: bool = False
    """Some `cd` was seen."""
    written: WrittenFiles = field(init=False)
    _deferred_files: list[tuple[int, Path, bool]] = field(default_factory=list)
    _bodies: list[tuple[int, int]] = field(default_factory=list)
    evaluated: set[str] = field(default_factory=set)
    """Variables whose values arithmetic evaluates."""
    arrays: set[str] = field(default_factory=set)
    unknown: bool = False
    """Variables may have been set by an unknown text."""
    _loose: set[str] = field(default_factory=set)
    """Variables that may hold something other than a number."""
    _declared: set[str] = field(default_factory=set)
    """Variables that a declaring builtin sets to a value that may begin with a bracket."""
    _commands: int = 0
    _bytes: int = 0

    def __post_init__(self) -> None:
        self.written = WrittenFiles(read_file=self.read_file)

    def count_command(self) -> None:
        self._commands += 1
        check_number(self._commands)

    def count_bytes(self, number: int) -> None:
        self._bytes += number
        if self._bytes > MOST_BYTES_IN_ALL:
            refuse("it and the scripts it runs are too long", "run fewer scripts at once")

    def assign(self, name: str, value: ShellWord, *, numeric: bool) -> None:
        if name in _RUNS_VALUES:
            refuse(f"{name} changes what bash runs", f"leave {name} alone")
        if name in _COUNTERS and not numeric:
            refuse(f"bash evaluates what {name} is set to", f"set {name} to a number")
        self.facts.append(VariableAssignment(name=name, value=value))
        if not numeric:
            self._loose.add(name)

    def note_declared(self, name: str, value: ShellWord) -> None:
        if value.text.startswith("(") or not (value.static or value.text):
            self._declared.add(name)

    def mark_opaque(self, index: int) -> None:
        fact = self.facts[index]
        assert isinstance(fact, Execution)
        self.facts[index] = replace(fact, opaque=True)

    def judge_later(self, index: int, path: Path, *, by_shell: bool) -> None:
        """Note a command that runs a file: in a loop, function or pipe, a later command may write that file."""
        self._deferred_files.append((index, path, by_shell))

    def check_written(self, path: Path, *, by_shell: bool, later: bool = False) -> None:
        """
        Refuse to run a file that the script gives an unknown text, by a shell or where another program made it up.

        Raises:
            Refusal: it does. With `later`, any text counts as unknown.
        """
        texts = self.written.texts_of(path)
        unknown = texts is not None and (later or None in texts)
        if unknown and (by_shell or self.written.is_fetched(path)):
            refuse_written(path.name)

    def defer(self, start: int) -> None:
        """Note the facts from `start` on as a function's, whose folder is not known yet."""
        self._bodies.append((start, len(self.facts)))

    def unplace(self, start: int) -> None:
        """Forget the folders of the facts from `start` on."""
        for index in range(start, len(self.facts)):
            self._unplace(index)

    def finish(self) -> tuple[Fact, ...]:
        """
        Return all facts.

        Raises:
            Refusal: arithmetic evaluates a variable that need not hold a number.
        """
        for name in sorted(self.evaluated):
            if self._may_run(name):
                refuse(
                    f"arithmetic runs commands that stand in a variable's value, and {name!r} need not hold a number",
                    f'compare it by [ "${name}" -gt 0 ], count with a loop over {{1..9}}, or let python3 do the sum',
                )
        for name in sorted(self._declared):
            if name in self.arrays | _ARRAYS or name.startswith("BASH_"):
                refuse(
                    f"a value in brackets that is declared for the array {name!r} is evaluated",
                    "assign to arrays by name=(...), and to other variables under other names",
                )
        for index, path, by_shell in self._deferred_files if self.changeable else ():
            self.mark_opaque(index)
            self.check_written(path, by_shell=by_shell, later=True)
        if self.moved:
            for start, end in self._bodies:
                for index in range(start, end):
                    self._unplace(index)
        return tuple(self.facts)

    def _may_run(self, name: str) -> bool:
        if name in self._loose or name in _NO_NUMBERS or name.startswith("BASH_"):
            return True
        return self.unknown and name not in _NUMBERS

    def _unplace(self, index: int) -> None:
        fact = self.facts[index]
        if isinstance(fact, Execution | Redirect) and fact.cwd is not None:
            self.facts[index] = replace(fact, cwd=None)


@dataclass(slots=True, kw_only=True)
class StatementPlace:
    """The place of a statement; each subshell gets a copy."""

    folder: Path | None
    perhaps: tuple[Path, ...] = ()
    """The folders it may be where `folder` is not known, after `cd x;`; empty where it may be any."""
    dialect: Dialect = "bash"
    script: str | None = None
    """The file that is being read."""
    texts: int = 0
    """The number of texts within texts."""
    wrapped: int = 0
    """The number of wrappers around a command."""
    files: tuple[Path, ...] = ()
    stops_on_error: bool = False
    own: bool = field(default=True)
    """It stands in no function, branch, loop or pipe."""
    surely: bool = field(default=True)
    """It runs whatever the commands before it do, and before all that follow."""

    def apart(self) -> "StatementPlace":
        return replace(self)


def refuse_written(name: str) -> NoReturn:
    refuse(
        f"{name!r} is written by the same command, so what is in it when it runs is not known",
        "run it in a command of its own, once it is written",
    )
