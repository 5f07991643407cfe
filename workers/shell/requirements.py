"""
Finds programs, Python modules and files that a shell command cannot do without.

Only requirements that the text makes certain are named. Commands behind `||`, in a branch or a loop are left out, and
so are words with a variable. The search ends at a command that may install something or change PATH. A command that the
parser refuses needs nothing.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from forgepool.workers.shell.language.parser import Parser
from forgepool.workers.shell.language.refusal import Refusal, encode
from forgepool.workers.shell.language.scanner import Scanner
from forgepool.workers.shell.language.syntax import AndOrList, Function, Pipeline, Sequence, Simple, Statement
from forgepool.workers.shell.language.words import read_word
from forgepool.workers.shell.programs.builtins import BUILTINS

_INTERPRETER = re.compile(r"(?:python|pypy)[\d.]*|node|ruby|perl|php|lua|Rscript|sh|bash|dash|zsh|ksh")
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*")
_MODULE = re.compile(r"[A-Za-z_]\w*")
_HARMLESS = frozenset(
    re.findall(
        r"\S+",
        "[ cat cd chmod cp date diff echo find grep head ls mkdir mv printf pwd rm sed set sleep sort tail tee test "
        "touch tr true uniq wc black flake8 isort mypy pytest ruff",
    )
)
"""Programs after which PATH and the installed programs are as before."""
_IN_EVERY_SHELL = frozenset(("[", "cd", "echo", "false", "printf", "pwd", "test", "true"))


@dataclass(frozen=True, slots=True)
class ShellRequirement:
    """A program on PATH, a module for the interpreter `by`, or a file of the work tree."""

    kind: Literal["program", "module", "file"]
    name: str
    by: str = ""


def requirements_of(script: str) -> tuple[ShellRequirement, ...]:
    """Return what the command needs for sure, in the order in which it is needed."""
    try:
        sequence = Parser(Scanner(encode(script)).read()).parse()
    except (Refusal, RecursionError):
        return ()
    found: dict[ShellRequirement, None] = {}
    elsewhere = False
    for simple in _certain(sequence):
        words = _static_words(simple)
        if words is None or simple.assignments:
            break
        found |= dict.fromkeys(
            requirement for requirement in _of_words(words) if requirement.kind != "file" or not elsewhere
        )
        elsewhere = elsewhere or words[:1] == ["cd"]
        if words and words[0] not in _HARMLESS:
            break
    # A file that is named twice may be made by the command itself.
    return tuple(
        requirement for requirement in found if requirement.kind != "file" or script.count(requirement.name) == 1
    )


def _certain(statement: Statement) -> Iterator[Simple]:
    """Yield the simple commands that run one after another, up to the first uncertain one."""
    match statement:
        case Simple():
            yield statement
        case Pipeline(parts=parts):
            yield from (part for part in parts if isinstance(part, Simple))
        case AndOrList(parts=parts, operators=operators) if "||" not in operators:
            yield from _one_after_another(parts)
        case Sequence(parts=parts):
            yield from _one_after_another(parts)
        case _:
            return


def _one_after_another(parts: tuple[Statement, ...]) -> Iterator[Simple]:
    for part in parts:
        if not isinstance(part, Simple | Pipeline | AndOrList) or isinstance(part, Function):
            return
        yield from _certain(part)
        if isinstance(part, AndOrList) and "||" in part.operators:
            return


def _static_words(simple: Simple) -> list[str] | None:
    """Return the words; None where one of the first three is not known before the command runs."""
    words = [read_word(token) for token in simple.words]
    if not all(word.static for word in words[:3]):
        return None
    return [word.text if word.static else "" for word in words]


def _of_words(words: list[str]) -> Iterator[ShellRequirement]:
    if not words or words[0] in BUILTINS or words[0] in _IN_EVERY_SHELL:
        return
    program, rest = words[0], words[1:]
    yield ShellRequirement("file" if "/" in program else "program", program)
    if not _INTERPRETER.fullmatch(program):
        return
    if _PYTHON.fullmatch(program) and rest[:1] == ["-m"] and len(rest) > 1:
        module = rest[1].partition(".")[0]
        if _MODULE.fullmatch(module):
            yield ShellRequirement("module", module, program)
    elif rest and not rest[0].startswith("-") and rest[0]:
        yield ShellRequirement("file", rest[0])
