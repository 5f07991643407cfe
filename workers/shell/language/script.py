"""
Values: the facts of a script, and the effects of a command on what runs after it.

`Fact`, `Input` and `Effect` are closed: they have these kinds and no other. `policy` judges the facts.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellWord:
    """
    One word of a command as the program gets it, as far as the text tells.

    A word that is not static holds something that only bash knows when it gets there: a variable, the output of a
    command, a pattern for file names. Its `text` is then the literal prefix ("" where there is none).
    """

    text: str
    static: bool
    several: bool = False
    """It may become no word or many (`$x` without quotes, `*.py`, `"$@"`, `{a,b}`)."""
    written: str = field(default="", compare=False)
    """The word as the script has it, for messages."""
    filled: Literal["", "number", "files"] = field(default="", compare=False)
    """Nothing but a number such as `$?`, or names of files for a pattern, comes in where it is not static."""

    @property
    def shown(self) -> str:
        """The text where it is known, else the script's own words."""
        return self.text if self.static else self.written or self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """
    One simple command: a program, a builtin of the shell or a function defined in the script, with its words.

    `argv` is never empty and `argv[0]` always static and not empty.
    """

    argv: tuple[ShellWord, ...]
    cwd: Path | None
    """The folder it runs in; None where that is unknown (after `cd "$x"`, or a `cd` in one branch only)."""
    wrapper: bool = False
    """It only runs another command, which is among the facts too: `env`, `timeout`, `sudo`, `xargs`, `bash -c`."""
    opaque: bool = False
    """It runs a script file or a text whose commands are not among the facts."""
    script: str | None = None
    """The script file that holds this command; None for the command itself."""

    @property
    def shown(self) -> tuple[str, ...]:
        return tuple(word.shown for word in self.argv)


@dataclass(frozen=True, slots=True, kw_only=True)
class Redirect:
    """A file that the shell itself opens. Copied descriptors (`2>&1`) and heredocs are none."""

    mode: Literal["read", "write"]
    path: ShellWord
    cwd: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class VariableAssignment:
    """
    A variable that is set: by the shell, before a command, by `export`, `read` or a loop, or by `env` for a
    program.

    `unset NAME` is one too, with an empty static value.
    """

    name: str
    value: ShellWord


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A function definition. The commands of its body are facts whether it is called or not."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Arithmetic:
    """Arithmetic over numbers alone. Where a variable may smuggle in a command, the script is unparseable."""

    text: str


Fact: TypeAlias = Execution | Redirect | VariableAssignment | Definition | Arithmetic


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellScript:
    """
    Everything the text could run, in the order it is written.

    No facts (an empty text, comments alone) is no permission: a reader must never allow an empty script.
    """

    facts: tuple[Fact, ...]

    @property
    def executions(self) -> tuple[Execution, ...]:
        return tuple(fact for fact in self.facts if isinstance(fact, Execution))


@dataclass(frozen=True, slots=True, kw_only=True)
class Unparseable:
    """A script whose commands cannot be known, and which is therefore denied."""

    why: str
    """One clause about the text, without a full stop."""
    instead: str
    """How to write it so that it can be judged."""


ReadFile: TypeAlias = Callable[[Path], str | None]
"""
Returns a file's text by its absolute path; None where it is not text or outside the policy's view.

It may raise `FileNotFoundError`.
"""


STAYS = ShellWord(text="", static=True)
_UNKNOWN = ShellWord(text="", static=False)

Dialect: TypeAlias = Literal["bash", "sh", "zsh"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inherited:
    """Standard input that cannot be known."""

    fed: bool = False
    """Another program writes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StdinText:
    """Standard input that is a known text."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FromFile:
    """Standard input that is a file."""

    path: ShellWord


Input: TypeAlias = Inherited | StdinText | FromFile


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsCommand:
    """Another command is run. `folder` is where it runs: None is unknown, "" is the same folder."""

    argv: tuple[ShellWord, ...]
    folder: ShellWord | None = STAYS
    fed: bool = True
    """The other command has the same standard input."""
    external: bool = True
    """It must be a program, not a builtin or function of this shell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads:
    """A text is run as a script: in a shell of its own (`dialect`) or in this one (None), at once or `later`."""

    text: str
    dialect: Dialect | None = None
    later: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadsFile:
    """A file is run as a script. Where the file cannot be read, nothing more is known."""

    path: ShellWord
    dialect: Dialect | None = None
    """None: the file's first line says."""
    here: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadsInput:
    """Standard input is run as a script."""

    dialect: Dialect


@dataclass(frozen=True, slots=True, kw_only=True)
class Moves:
    """The folder changes; None: to an unknown one."""

    to: ShellWord | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sets:
    """A variable is set, to an unknown value unless one is given."""

    name: str
    value: ShellWord = _UNKNOWN
    numeric: bool = False
    array: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StopsOnError:
    """`set -e`: later commands run only if this one did not fail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluates:
    """A variable's value is evaluated, which is harmless for a number alone."""

    name: str


Effect: TypeAlias = Evaluates | RunsCommand | Reads | ReadsFile | ReadsInput | Moves | Sets | StopsOnError
