"""
The tree of a script: what bash's own grammar makes of the tokens. Values only; `parser` makes them.

Closed: `Statement` has these kinds and no other.
"""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

REDIRECTING = frozenset(["<", ">", ">>", ">|", ">&", "<&", "<>", "<<", "<<-", "<<<", "&>", "&>>", ">&-", "<&-"])
"""The operators that are followed by a file, a text or nothing, and leave the command going on."""


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
    """`name` is of a variable; `inner` what a command, `${x:-...}` or an array's brackets hold."""

    kind: Literal["variable", "command", "process", "number"]
    quoted: bool
    start: int
    end: int
    name: str = ""
    every: bool = False
    """All elements of an array, or all arguments: a word each, also in quotes."""
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
    """A heredoc's lines, known once the scanner has come to them."""

    delimiter: bytes
    quoted: bool
    tabs_stripped: bool
    parts: Parts = ()
    start: int = -1
    end: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """
    `raw` is what stands in the script; for a newline the newline alone, whatever heredocs follow it.

    A `test` is a whole `[[ ... ]]`, of the words `operands`; a `sum` a whole `(( ... ))`.
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
