"""Commands and their effects to facts: what a command runs is run in turn."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from forgepool.workers.shell.language.refusal import MOST_BYTES_IN_ALL, Refusal, check_depth, check_number, refuse
from forgepool.workers.shell.language.script import (
    Dialect,
    Effect,
    Evaluates,
    Execution,
    Fact,
    FromFile,
    Inherited,
    Input,
    Moves,
    ReadFile,
    Reads,
    ReadsFile,
    ReadsInput,
    Redirect,
    RunsCommand,
    Sets,
    ShellWord,
    StdinText,
    StopsOnError,
    VariableAssignment,
)
from forgepool.workers.shell.programs.effects import effects_of, may_write
from forgepool.workers.shell.programs.shells import dialect_of, find_commands

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


_MOST_TEXTS = 10
_MOST_FILES = 6


class Performer(ABC):
    """Runs commands in the mind; texts they run are read by `walk`, which builds on it."""

    def __init__(self, reading: ScriptReading) -> None:
        self.reading = reading

    @abstractmethod
    def read(self, text: str, place: StatementPlace) -> None:
        """The facts of a text that is run there."""

    def execute(
        self, argv: tuple[ShellWord, ...], place: StatementPlace, given: Input, *, external: bool = False
    ) -> None:
        """
        The facts of one command.

        Raises:
            Refusal: what it runs is not known.
        """
        self.reading.count_command()
        _check_program(argv[0])
        name = argv[0].text
        effects = effects_of(argv, external=external)
        wraps = any(isinstance(effect, RunsCommand | Reads | ReadsInput) for effect in effects)
        index = len(self.reading.facts)
        called = not external and name in self.reading.functions
        self.reading.facts.append(Execution(argv=argv, cwd=place.folder, wrapper=wraps or called, script=place.script))
        for effect in effects:
            self._perform(effect, place, given, index)
        if may_write(name) and not wraps:
            self.reading.changeable = True

    def _perform(self, effect: Effect, place: StatementPlace, given: Input, index: int) -> None:
        match effect:
            case RunsCommand():
                self._run(effect, place, given)
            case Reads():
                self._read_text(effect, place)
            case ReadsFile(path=path, dialect=dialect, here=here):
                self._read_file(path, dialect, place if here else place.apart(), index)
            case ReadsInput(dialect=dialect):
                self._read_input(dialect, place.apart(), given, index)
            case Moves(to=to):
                place.folder = _join(place.folder, to)
                self.reading.moved = True
            case Evaluates(name=name):
                self.reading.evaluate([name])
            case Sets(name=name, value=value, numeric=numeric, array=array):
                self.reading.assign(name, value, numeric=numeric)
                if array:
                    self.reading.note_array(name)
            case StopsOnError():
                place.stops_on_error = place.own

    def _run(self, runs: RunsCommand, place: StatementPlace, given: Input) -> None:
        there = place.apart() if runs.external else place
        check_depth(place.wrapped)
        there.wrapped += 1
        if runs.folder is None or runs.folder.text:
            there.folder = _join(place.folder, runs.folder)
        self.execute(runs.argv, there, given if runs.fed else Inherited(), external=runs.external)
        there.wrapped -= 1

    def _read_text(self, reads: Reads, place: StatementPlace) -> None:
        there = place if reads.dialect is None and not reads.later else place.apart()
        there.dialect = reads.dialect or place.dialect
        start = len(self.reading.facts)
        self._read_deeper(reads.text, there)
        if reads.later:
            self.reading.defer(start)

    def _read_deeper(self, text: str, place: StatementPlace) -> None:
        if place.texts >= _MOST_TEXTS:
            refuse("texts are run within texts too often", "run the inner command itself")
        place.texts += 1
        self.read(text, place)
        place.texts -= 1

    def _read_input(self, dialect: Dialect, place: StatementPlace, given: Input, index: int) -> None:
        match given:
            case StdinText(text=text):
                place.dialect = dialect
                self._read_deeper(text, place)
            case FromFile(path=path) if path.static:
                self._read_file(path, dialect, place, index)
            case _:
                refuse(
                    "a shell reads its commands from an input that is not known beforehand",
                    "give the commands to the tool itself, or put them into a file with the file tools and run that",
                )

    # -- script files

    def _read_file(self, word: ShellWord, dialect: Dialect | None, place: StatementPlace, index: int) -> None:
        """The facts of a script, into `place`; opaque where it cannot be read, or may be written before it runs."""
        path = _join(place.folder, word)
        if word.text.startswith(("/dev/", "/proc/")):
            refuse("a script is read from what is no file", "give the commands to the tool itself")
        if path is not None and path in place.files:
            return
        text = self._script_text(path, place)
        language = dialect or (None if text is None else dialect_of(text))
        if text is None or path is None or language is None:
            self._leave_opaque(place, index)
            return
        if self.reading.changeable:
            self.reading.mark_opaque(index)
        elif not place.own:
            self.reading.judge_later(index)
        self._read_script(text, path, language, place, index)

    def _script_text(self, path: Path | None, place: StatementPlace) -> str | None:
        if path is None or self.reading.read_file is None or len(place.files) >= _MOST_FILES:
            return None
        return self.reading.read_file(path)

    def _read_script(self, text: str, path: Path, dialect: Dialect, place: StatementPlace, index: int) -> None:
        """Of a script that cannot be parsed, such as ./gradlew, what can be made out; the rest is opaque."""
        before = replace(place)
        place.dialect, place.script, place.files = dialect, str(path), (*place.files, path)
        try:
            self._read_deeper(text, place)
        except Refusal:
            # As wrappers: rules that name them restrain, and none has to permit what is only made out.
            self.reading.facts.extend(
                Execution(argv=argv, cwd=None, wrapper=True, script=str(path)) for argv in find_commands(text)
            )
            self._leave_opaque(place, index)
        place.dialect, place.script, place.files = before.dialect, before.script, before.files
        place.texts = before.texts

    def _leave_opaque(self, place: StatementPlace, index: int) -> None:
        self.reading.mark_opaque(index)
        self.reading.changeable = True
        self.reading.set_unknown()
        place.folder = None


def _check_program(program: ShellWord) -> None:
    if not program.static or not program.text:
        refuse(
            f"which program {program.shown or 'an empty word'!r} is, is not known beforehand",
            "write the program's name out, without variables, patterns and substitutions",
        )
    if "=" in program.text:
        refuse(
            f"the command {program.shown!r} looks like an assignment", "let assignments come first: NAME=value program"
        )


def _join(folder: Path | None, to: ShellWord | None) -> Path | None:
    """The path from there; None where it is not known."""
    if to is None or not to.static or not to.text:
        return None
    if to.text.startswith("/"):
        return Path(to.text)
    return None if folder is None else folder / to.text
