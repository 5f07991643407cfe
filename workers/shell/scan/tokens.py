"""
What bash's lexer makes of a script: regions of tokens, words in parts. Values only; `scanner` makes them.

A **region** is the script itself or what stands between `$(`, `<(` or `>(` and its `)`. A word's **parts** are literal
text and holes: a **hole** is filled by bash when it gets there.
"""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

REDIRECTING = frozenset(["<", ">", ">>", ">|", ">&", "<&", "<>", "<<", "<<-", "<<<", "&>", "&>>", ">&-", "<&-"])
"""The operators that are followed by a file, a text or nothing, and leave the command going on."""

_RESERVED = "! { } if then elif else fi do done for while until case esac select function time coproc [[ ]]"
RESERVED = frozenset(_RESERVED.split())


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
