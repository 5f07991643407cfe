"""Commands and their effects to facts: what a command runs is run in turn."""

from abc import ABC, abstractmethod
from dataclasses import replace
from pathlib import Path

from forgepool.workers.shell.interpret.reading import ScriptReading, StatementPlace
from forgepool.workers.shell.parse.script import Execution, ShellWord
from forgepool.workers.shell.programs.effects import (
    Dialect,
    Effect,
    Evaluates,
    FromFile,
    Inherited,
    Input,
    Moves,
    Reads,
    ReadsFile,
    ReadsInput,
    RunsCommand,
    Sets,
    StdinText,
    StopsOnError,
)
from forgepool.workers.shell.programs.programs import effects_of, may_write
from forgepool.workers.shell.programs.scripts import dialect_of, find_commands
from forgepool.workers.shell.scan.limits import check_depth
from forgepool.workers.shell.scan.refusal import Refusal, refuse

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
