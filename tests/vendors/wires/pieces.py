"""Pieces of a streamed answer."""

from collections.abc import Iterator
from dataclasses import dataclass

_PIECE_CHARACTERS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    data: bytes
    in_call: bool = False
    """True for a piece of a call's arguments, where a broken stream does the most harm."""


def chunks(text: str) -> Iterator[str]:
    """Yield the text in at least two pieces, if it has two characters."""
    step = max(1, min(_PIECE_CHARACTERS, (len(text) + 1) // 2))
    yield from (text[start : start + step] for start in range(0, len(text), step))


def first_half(pieces: list[Piece]) -> list[Piece]:
    """Return the pieces before the middle of the last call's arguments, or before the middle if there is no call."""
    inside = [number for number, piece in enumerate(pieces) if piece.in_call]
    return pieces[: inside[len(inside) // 2] if inside else len(pieces) // 2]
