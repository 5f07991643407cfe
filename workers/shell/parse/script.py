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
