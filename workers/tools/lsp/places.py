"""
Lines and columns of a text as language servers count them, and changes of a text made with them. Pure.

A column counts UTF-16 units: what lies outside the basic plane is two.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

_LINE_END = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, slots=True, order=True)
class Spot:
    """Between two characters; both numbers from 0."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class TextChange:
    """What is between two spots becomes another text."""

    start: Spot
    end: Spot
    text: str


def units(text: str) -> int:
    """The text's length as servers count it."""
    return len(text) + sum(character > "\uffff" for character in text)


def lines_of(text: str) -> list[str]:
    return _LINE_END.split(text)


def columns_of(line: str, symbol: str) -> list[int]:
    """Where in a line a name begins; not where it is a part of a longer one."""
    whole = re.compile(rf"(?<![\w$]){re.escape(symbol)}(?![\w$])")
    return [units(line[: found.start()]) for found in whole.finditer(line)]


def plain_name(symbol: str) -> str:
    """Of a name with its owners (`Shop.open`, `shop::open`), the last part."""
    return re.split(r"\.|::|#", symbol.removesuffix("()"))[-1]


def apply_changes(text: str, changes: Iterable[TextChange]) -> str:
    """
    The text after all changes, whose spots are those of the text before.

    Raises:
        ValueError: two of them overlap.
    """
    starts = [0, *(found.end() for found in _LINE_END.finditer(text))]
    lines = lines_of(text)
    out: list[str] = []
    at = 0
    ordered = sorted(changes, key=lambda change: (change.start, change.end))
    for change in ordered:
        begin, end = (_offset(spot, starts, lines, text) for spot in (change.start, change.end))
        if begin < at or end < begin:
            raise ValueError("two changes overlap")
        out += [text[at:begin], change.text]
        at = end
    return "".join([*out, text[at:]])


def _offset(spot: Spot, starts: list[int], lines: list[str], text: str) -> int:
    """A spot beyond a line's end is the line's end, beyond the text's, the text's: the protocol has it so."""
    if spot.line >= len(lines):
        return len(text)
    line = lines[spot.line]
    if line.isascii():
        return starts[spot.line] + min(spot.column, len(line))
    seen = 0
    for index, character in enumerate(line):
        if seen >= spot.column:
            return starts[spot.line] + index
        seen += 1 + (character > "\uffff")
    return starts[spot.line] + len(line)
