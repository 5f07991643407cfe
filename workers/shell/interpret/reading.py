"""What is known so far while a script, and those it runs, are read: one per question."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from forgepool.workers.shell.parse.script import Execution, Fact, ReadFile, Redirect, ShellWord, VariableAssignment
from forgepool.workers.shell.programs.effects import Dialect
from forgepool.workers.shell.scan.limits import MOST_BYTES_IN_ALL, check_number
from forgepool.workers.shell.scan.refusal import refuse

_RUNS_VALUES = frozenset(
    ["BASHOPTS", "BASH_ALIASES", "BASH_CMDS", "CDPATH", "POSIXLY_CORRECT", "PROMPT_COMMAND", "PS0", "PS4", "SHELLOPTS"]
)
"""Bash runs what they hold, or reads otherwise because of it."""
_COUNTERS = frozenset(["HISTCMD", "LINENO", "OPTIND", "RANDOM", "SECONDS", "SRANDOM", "EPOCHSECONDS"])
"""Numbers by themselves; what they are set to is evaluated."""
_NUMBERS = _COUNTERS | {"BASHPID", "COLUMNS", "EUID", "LINES", "PPID", "SHLVL", "UID"}
_ARRAYS = frozenset(["DIRSTACK", "FUNCNAME", "GROUPS", "MAPFILE", "PIPESTATUS"])
_NO_NUMBERS = frozenset(["_", "COPROC", "DIRSTACK", "FUNCNAME", "MAPFILE", "OLDPWD", "OPTARG", "PWD", "REPLY"])
"""Set by bash, to what a script can choose; and so is all that begins with BASH_."""


@dataclass(slots=True, kw_only=True)
class ScriptReading:
    """The facts, and what only the whole of them tells."""

    read_file: ReadFile | None
    facts: list[Fact] = field(default_factory=list)
    functions: set[str] = field(default_factory=set)
    changeable: bool = False
    """Something before this may have written files."""
    moved: bool = False
    """Some `cd` was seen."""
    _deferred_files: list[int] = field(default_factory=list)
    _bodies: list[tuple[int, int]] = field(default_factory=list)
    _evaluated: set[str] = field(default_factory=set)
    _loose: set[str] = field(default_factory=set)
    """Variables that may hold something other than a number."""
    _arrays: set[str] = field(default_factory=set)
    _declared: set[str] = field(default_factory=set)
    """Variables that `declare` and its kin set to something that may begin with a bracket."""
    _unknown: bool = False
    """Variables may have been set by a text that is not known."""
    _commands: int = 0
    _bytes: int = 0

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

    def note_array(self, name: str) -> None:
        self._arrays.add(name)

    def note_declared(self, name: str, value: ShellWord) -> None:
        if value.text.startswith("(") or not (value.static or value.text):
            self._declared.add(name)

    def evaluate(self, names: Sequence[str]) -> None:
        self._evaluated.update(names)

    def set_unknown(self) -> None:
        self._unknown = True

    def mark_opaque(self, index: int) -> None:
        fact = self.facts[index]
        assert isinstance(fact, Execution)
        self.facts[index] = replace(fact, opaque=True)

    def judge_later(self, index: int) -> None:
        """The command there runs a file; in a loop or function what comes behind it may write that file."""
        self._deferred_files.append(index)

    def defer(self, start: int) -> None:
        """The facts from there on are a function's: where it will run is not known yet."""
        self._bodies.append((start, len(self.facts)))

    def unplace(self, start: int) -> None:
        """The facts from there on may happen in another folder than was thought."""
        for index in range(start, len(self.facts)):
            self._unplace(index)

    def finish(self) -> tuple[Fact, ...]:
        """
        All facts.

        Raises:
            Refusal: arithmetic evaluates a variable that need not hold a number.
        """
        for name in sorted(self._evaluated):
            if self._may_run(name):
                refuse(
                    f"arithmetic runs commands that stand in a variable's value, and {name!r} need not hold a number",
                    f'compare it by [ "${name}" -gt 0 ], count with a loop over {{1..9}}, or let python3 do the sum',
                )
        for name in sorted(self._declared):
            if name in self._arrays | _ARRAYS or name.startswith("BASH_"):
                refuse(
                    f"a value in brackets that is declared for the array {name!r} is evaluated",
                    "assign to arrays by name=(...), and to other variables under other names",
                )
        if self.changeable:
            for index in self._deferred_files:
                self.mark_opaque(index)
        if self.moved:
            for start, end in self._bodies:
                for index in range(start, end):
                    self._unplace(index)
        return tuple(self.facts)

    def _may_run(self, name: str) -> bool:
        if name in self._loose or name in _NO_NUMBERS or name.startswith("BASH_"):
            return True
        return self._unknown and name not in _NUMBERS

    def _unplace(self, index: int) -> None:
        fact = self.facts[index]
        if isinstance(fact, Execution | Redirect) and fact.cwd is not None:
            self.facts[index] = replace(fact, cwd=None)


@dataclass(slots=True, kw_only=True)
class StatementPlace:
    """Where a statement stands: a copy for each subshell."""

    folder: Path | None
    dialect: Dialect = "bash"
    script: str | None = None
    """The file that is being read."""
    texts: int = 0
    """How many texts within texts."""
    wrapped: int = 0
    """How many wrappers around a command."""
    files: tuple[Path, ...] = ()
    stops_on_error: bool = False
    own: bool = field(default=True)
    """Not within a function, a branch or a loop."""

    def apart(self) -> "StatementPlace":
        return replace(self)
