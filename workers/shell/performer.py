"""Turns commands and their effects into facts; what a command runs is run in turn."""

from abc import ABC, abstractmethod
from dataclasses import replace
from os.path import normpath
from pathlib import Path

from forgepool.workers.shell.language.refusal import Refusal, check_depth, refuse
from forgepool.workers.shell.language.script import (
    Dialect,
    Effect,
    Evaluates,
    Execution,
    FromFile,
    Inherited,
    Input,
    Moves,
    Reads,
    ReadsFile,
    ReadsInput,
    RunsCommand,
    Sets,
    ShellWord,
    StdinText,
    StopsOnError,
)
from forgepool.workers.shell.programs.effects import effects_of, may_write
from forgepool.workers.shell.programs.shells import dialect_of, find_commands, find_interpreted
from forgepool.workers.shell.script_facts import ScriptReading, StatementPlace, refuse_written
from forgepool.workers.shell.written_files import Texts

_INTO_A_FILE = "give the commands to the tool itself, or put them into a file with the file tools and run that"
_MOST_TEXTS = 10
_MOST_FILES = 6

_WRITES_NOTHING = frozenset(("test", "[", "cd", "export", "set", "true", ":"))


class Performer(ABC):
    """
    Collects the facts of commands without running them. `ScriptWalk`, which builds on it, reads the texts they run.
    """

    def __init__(self, reading: ScriptReading) -> None:
        self.reading = reading

    @abstractmethod
    def read(self, text: str, place: StatementPlace) -> None:
        """Add the facts of a text that is run there."""

    def execute(
        self, argv: tuple[ShellWord, ...], place: StatementPlace, given: Input, *, external: bool = False
    ) -> None:
        """
        Add the facts of one command.

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
        self._check_interpreted(argv, place, given)
        if may_write(name) and not wraps:
            self.reading.changeable = True
            self.reading.written.note_command(argv, place.folder)

    def _check_interpreted(self, argv: tuple[ShellWord, ...], place: StatementPlace, given: Input) -> None:
        """Refuse what an interpreter is given to run where another program made it up in the same script."""
        word = find_interpreted(argv)
        if word is not None and word.text == "-":
            if isinstance(given, Inherited) and given.fed:
                refuse(f"{argv[0].text} reads its program from an input that is not known beforehand", _INTO_A_FILE)
            word = given.path if isinstance(given, FromFile) else None
        if word is not None and word.written.startswith("<("):
            refuse(f"{argv[0].text} runs what another command prints", _INTO_A_FILE)
        path = join_folder(place.folder, word)
        if word is not None and path is not None and self.reading.written.is_fetched(path):
            refuse_written(word.text)

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
                place.folder, place.perhaps = join_folder(place.folder, to), ()
                self.reading.moved = True
            case Evaluates(name=name):
                self.reading.evaluated.add(name)
            case Sets(name=name, value=value, numeric=numeric, array=array):
                self.reading.assign(name, value, numeric=numeric)
                if array:
                    self.reading.arrays.add(name)
            case StopsOnError():
                place.stops_on_error = place.own

    def _run(self, runs: RunsCommand, place: StatementPlace, given: Input) -> None:
        there = place.apart() if runs.external else place
        check_depth(place.wrapped)
        there.wrapped += 1
        if runs.folder is None or runs.folder.text:
            there.folder = join_folder(place.folder, runs.folder)
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
                refuse("a shell reads its commands from an input that is not known beforehand", _INTO_A_FILE)

    # -- script files

    def _read_file(self, word: ShellWord, dialect: Dialect | None, place: StatementPlace, index: int) -> None:
        """Add the facts of a script file; it is opaque where it cannot be read or may be written before it runs."""
        path = join_folder(place.folder, word)
        if word.text.startswith(("/dev/", "/proc/")):
            refuse("a script is read from what is no file", "give the commands to the tool itself")
        if path is None:
            self._read_perhaps(word, dialect, place, index)
        elif path not in place.files:
            self._read_path(path, word, dialect, place, index)

    def _read_path(
        self, path: Path, word: ShellWord, dialect: Dialect | None, place: StatementPlace, index: int
    ) -> None:
        texts, by_shell = self.reading.written.texts_of(path), dialect is not None
        if texts is not None:
            self.reading.check_written(path, by_shell=by_shell)
            if self._read_written(texts, path, dialect, place, index):
                return
        try:
            text = self._script_text(path, place)
        except FileNotFoundError:
            text = None
            if by_shell:
                self._refuse_absent(word, place, index)
        language = dialect or (None if text is None else dialect_of(text))
        if text is None or language is None:
            self._leave_opaque(place, index)
            return
        if self.reading.changeable:
            self.reading.mark_opaque(index)
        if not place.own:
            self.reading.judge_later(index, path, by_shell=by_shell)
        self._read_script(text, path, language, place, index)

    def _read_perhaps(self, word: ShellWord, dialect: Dialect | None, place: StatementPlace, index: int) -> None:
        """Add the facts of a script file in each folder that it may lie in; it is opaque as well."""
        paths = [folder / word.text for folder in place.perhaps if word.static]
        found = [path for path in paths if self._is_there(path, place)]
        if paths and not found and dialect is not None:
            self._refuse_absent(word, place, index)
        for path in found:
            self._read_path(path, word, dialect, place, index)
        self._leave_opaque(place, index)

    def _is_there(self, path: Path, place: StatementPlace) -> bool:
        try:
            self._script_text(path, place)
        except FileNotFoundError:
            return self.reading.written.texts_of(path) is not None
        return True

    def _read_written(
        self, texts: Texts, path: Path, dialect: Dialect | None, place: StatementPlace, index: int
    ) -> bool:
        """Add the facts of a file that this script has written. Return whether they are all there is to know."""
        known = [(text, dialect or dialect_of(text)) for text in texts if text is not None]
        if len(known) < len(texts) or not all(language for _, language in known):
            return False
        self.reading.mark_opaque(index)
        before = replace(place)
        for text, language in known:
            place.dialect, place.script, place.files = language or "bash", str(path), (*before.files, path)
            self._read_deeper(text, place)
        place.dialect, place.script, place.files = before.dialect, before.script, before.files
        return True

    def _script_text(self, path: Path, place: StatementPlace) -> str | None:
        if self.reading.read_file is None or len(place.files) >= _MOST_FILES:
            return None
        return self.reading.read_file(path)

    def _read_script(self, text: str, path: Path, dialect: Dialect, place: StatementPlace, index: int) -> None:
        """
        Add a script's facts. Of one that cannot be parsed, such as ./gradlew, add what looks like commands; the
        rest is opaque.
        """
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

    def _refuse_absent(self, word: ShellWord, place: StatementPlace, index: int) -> None:
        """
        Refuse a script that is not there, unless it activates a virtual environment, which may come into being first.

        One that the command looks for, as in `[ -f .env ] && . .env`, does not run where nothing before can write it.
        In a loop, a later command can.
        """
        before = [fact.argv for fact in self.reading.facts[:index] if isinstance(fact, Execution)] if place.own else []
        asked = {normpath(other.text) for argv in before if argv[0].text in ("test", "[") for other in argv[1:]}
        looked_for = normpath(word.text) in asked and all(argv[0].text in _WRITES_NOTHING for argv in before)
        if not looked_for and word.text.rpartition("/")[2] != "activate":
            refuse(
                f"there is no file {word.text!r}, so what would run is not known",
                "look with ls; write it with the file tools, and run it in a command of its own",
            )

    def _leave_opaque(self, place: StatementPlace, index: int) -> None:
        self.reading.mark_opaque(index)
        self.reading.changeable = True
        self.reading.unknown = True
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


def join_folder(folder: Path | None, to: ShellWord | None) -> Path | None:
    """Return the path from a folder; None where it is unknown."""
    if to is None or not to.static or not to.text:
        return None
    if to.text.startswith("/"):
        return Path(to.text)
    return None if folder is None else folder / to.text
