"""
What a shell script was found to do: the facts in it, or that it cannot be known.

Values only. How they are found is in the neighbours; what they are worth is the policy's affair.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellWord:
    """
    One word of a command as the program will be given it, as far as that is known beforehand.

    A word that is not static has something in it that only bash knows when it comes there: a variable, the output of
    a command, a pattern for file names. Its `text` is then the literal prefix before that ("" where there is none).
    """

    text: str
    static: bool
    several: bool = False
    """Not one word for sure: it may become none or many (`$x` without quotes, `*.py`, `"$@"`, `{a,b}`)."""
    written: str = field(default="", compare=False)
    """As the script has it, to be shown to people."""

    @property
    def shown(self) -> str:
        """The text where it is known, else what the script says."""
        return self.text if self.static else self.written or self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """
    One simple command: a program, a builtin of the shell or a function defined in the script, with its words.

    `argv` is never empty and `argv[0]` always static and not empty.
    """

    argv: tuple[ShellWord, ...]
    cwd: Path | None
    """Where it runs; None where that is not known (after `cd "$x"`, or a `cd` that only some branch takes)."""
    wrapper: bool = False
    """It only runs another one, which is among the facts too: `env`, `timeout`, `sudo`, `xargs`, `bash -c`..."""
    opaque: bool = False
    """It runs a program or script by its path, or a text, whose commands are not among the facts."""
    script: str | None = None
    """The script file whose text this was found in; None for the command itself."""

    @property
    def shown(self) -> tuple[str, ...]:
        return tuple(word.shown for word in self.argv)


@dataclass(frozen=True, slots=True, kw_only=True)
class Redirect:
    """A file opened by the shell itself. Copies of descriptors (`2>&1`) and text given in the script are none."""

    mode: Literal["read", "write"]
    path: ShellWord
    cwd: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class VariableAssignment:
    """
    A variable set: by the shell, before a command, by `export`, `read` or a loop, or by `env` for a program.

    `unset NAME` is one too, with an empty static value.
    """

    name: str
    value: ShellWord


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A function defined. The commands of its body are among the facts, whether it is called or not."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Arithmetic:
    """Arithmetic that holds numbers alone; where variables may smuggle commands in, the script is unparseable."""

    text: str


Fact: TypeAlias = Execution | Redirect | VariableAssignment | Definition | Arithmetic


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellScript:
    """
    Everything the text could run, in the order it is written.

    No facts (an empty text, comments alone) is no permission: who reads them must never allow an empty Script.
    """

    facts: tuple[Fact, ...]

    @property
    def executions(self) -> tuple[Execution, ...]:
        return tuple(fact for fact in self.facts if isinstance(fact, Execution))


@dataclass(frozen=True, slots=True, kw_only=True)
class Unparseable:
    """What the text would run cannot be known: to be denied."""

    why: str
    """One sentence without a full stop, about the text."""
    instead: str
    """How to write it so that it can be judged."""


ReadFile: TypeAlias = Callable[[Path], str | None]
"""The text of a file at an absolute path; None where it is absent, not text, or none of the policy's business."""


STAYS = ShellWord(text="", static=True)
_UNKNOWN = ShellWord(text="", static=False)

Dialect: TypeAlias = Literal["bash", "sh", "zsh"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inherited:
    """Standard input comes from nobody knows where."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StdinText:
    """Standard input is this text."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FromFile:
    """Standard input is this file."""

    path: ShellWord


Input: TypeAlias = Inherited | StdinText | FromFile


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsCommand:
    """It runs another command; `folder` where it goes first (None: not known, "" for staying)."""

    argv: tuple[ShellWord, ...]
    folder: ShellWord | None = STAYS
    fed: bool = True
    """The other one has its standard input."""
    external: bool = True
    """A program, not a builtin or function of this shell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads:
    """It runs a text as a script: in a shell of its own (`dialect`), or in this one (None), at once or `later`."""

    text: str
    dialect: Dialect | None = None
    later: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadsFile:
    """It runs a file as a script; where the file cannot be read, that is all that is known."""

    path: ShellWord
    dialect: Dialect | None = None
    """None: its first line says."""
    here: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadsInput:
    """It runs its standard input as a script."""

    dialect: Dialect


@dataclass(frozen=True, slots=True, kw_only=True)
class Moves:
    """It changes the folder; None: to one that is not known."""

    to: ShellWord | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sets:
    """It sets a variable to a value that is not known, where none is given."""

    name: str
    value: ShellWord = _UNKNOWN
    numeric: bool = False
    array: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StopsOnError:
    """`set -e`: what follows runs only if this did not fail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluates:
    """It evaluates the variable's value, which is harmless for a number alone."""

    name: str


Effect: TypeAlias = Evaluates | RunsCommand | Reads | ReadsFile | ReadsInput | Moves | Sets | StopsOnError
