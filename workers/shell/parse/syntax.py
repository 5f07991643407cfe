"""
The tree of a script: what bash's own grammar makes of the tokens. Values only; `parser` makes them.

Closed: `Statement` has these kinds and no other.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from forgepool.workers.shell.scan.tokens import Token


@dataclass(frozen=True, slots=True, kw_only=True)
class Redirection:
    """`2> file`: `descriptor` is the number before it, if any; a heredoc's text is `operator.body`."""

    descriptor: str
    operator: Token
    target: Token | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Simple:
    """`A=1 program words > file`."""

    assignments: tuple[Token, ...]
    words: tuple[Token, ...]
    redirections: tuple[Redirection, ...]
    timed: tuple[Token, ...] = ()
    """`time` and its `-p`, before the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bare:
    """`[[ ... ]]` or `(( ... ))`."""

    token: Token


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    parts: "tuple[Statement, ...]"


@dataclass(frozen=True, slots=True, kw_only=True)
class AndOrList:
    """`a && b || c`; operator `operators[i]` stands before `parts[i + 1]`."""

    parts: "tuple[Statement, ...]"
    operators: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sequence:
    """Statements one after the other; `background[i]` where `&` ends the i-th."""

    parts: "tuple[Statement, ...]"
    background: tuple[bool, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compound:
    """
    `{ }`, `( )`, `if`, `case`, `for`, `while`, `until`, with redirections.

    `parts` in the order they are written; `words` are loops' values, a case's subject and its patterns.
    """

    kind: Literal["{", "(", "if", "case", "for", "while"]
    parts: "tuple[Sequence, ...]"
    words: tuple[Token, ...] = ()
    variable: str = ""
    redirections: tuple[Redirection, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    name: str
    body: "Statement"


Statement: TypeAlias = Simple | Bare | Pipeline | AndOrList | Sequence | Compound | Function
