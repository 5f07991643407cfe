"""
What a command does besides being run, as far as it concerns what else will run. Values only.

Closed: `Effect` has these kinds and no other.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from forgepool.workers.shell.parse.script import ShellWord

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
