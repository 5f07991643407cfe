"""
Values: a script's tokens, and the tree that bash's grammar makes of them.

A **region** is the script itself, or what stands between `$(`, `<(` or `>(` and its `)`. A word's **parts** are literal
text and **holes**, which bash fills when it gets there. `scanner` makes the tokens, `parser` the tree. `Statement` is
closed: it has these kinds and no other.
"""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

REDIRECTING = frozenset(["<", ">", ">>", ">|", ">&", "<&", "<>", "<<", "<<-", "<<<", "&>", "&>>", ">&-", "<&-"])
"""Operators that a file, a text or nothing follows, and after which the command goes on."""


def name_set(names: str) -> frozenset[str]:
    """Return the names that stand between blanks."""
    return frozenset(names.split())


RESERVED = name_set("! { } if then elif else fi do done for while until case esac select function time coproc [[ ]]")


@dataclass(frozen=True, slots=True, kw_only=True)
class WordPiece:
    """Literal text, escapes and quotes resolved."""

    text: str
    quoted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Hole:
    """A part of a word that bash fills. `name` is a variable's; `inner` holds the words of `${x:-...}`."""

    kind: Literal["variable", "command", "process", "number"]
    quoted: bool
    start: int
    end: int
    name: str = ""
    every: bool = False
    """It becomes one word for each element or argument, also in quotes."""
    region: "Region | None" = None
    inner: "tuple[Parts, ...]" = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Elements:
    """The `(a b c)` of `name=(a b c)`."""

    words: "tuple[Parts, ...]"


Part: TypeAlias = WordPiece | Hole | Elements
Parts: TypeAlias = tuple[Part, ...]


@dataclass(slots=True, kw_only=True)
class HeredocBody:
    """A heredoc's lines, filled in when the scanner reaches them."""

    delimiter: bytes
    quoted: bool
    tabs_stripped: bool
    parts: Parts = ()
    start: int = -1
    end: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """
    One token. `raw` is its text in the script; a newline's is the newline alone, without the heredocs after it.

    A `test` is a whole `[[ ... ]]` with its words as `operands`; a `sum` is a whole `(( ... ))`.
    """

    kind: Literal["word", "operator", "number", "newline", "test", "sum"]
    start: int
    end: int
    raw: str
    parts: Parts = ()
    operands: "tuple[Token, ...]" = ()
    body: HeredocBody | None = None


@dataclass(slots=True, kw_only=True)
class Region:
    start: int
    end: int = -1
    tokens: list[Token] = field(default_factory=list)


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
