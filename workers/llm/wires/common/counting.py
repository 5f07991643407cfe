"""
How many tokens an answer took: as its vendor says, and guessed from characters where it says nothing or nonsense.

Limits in tokens and money must hold with every server, and one that counts nothing would be free.
"""

import json
from dataclasses import dataclass, replace

from forgepool.workers.llm.messages import Usage

TOKEN_CHARACTERS = 4
_MOST_TOKENS = 10_000_000
"""Beyond any window; who says more cannot count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorCounts:
    """A vendor's counts, as far as it gave any that can be; `input` is all of the input."""

    input: int | None = None
    cached: int | None = None
    written: int | None = None
    written_1h: int | None = None
    output: int | None = None
    reasoning: int | None = None


def count(said: object, name: str) -> int | None:
    """One count out of a vendor's usage; None for what is not there, negative, absurd or no number."""
    number = getattr(said, name, None)
    if isinstance(number, bool) or not isinstance(number, int | float):
        return None
    return int(number) if 0 <= number <= _MOST_TOKENS else None


def guess_input(sent: object) -> int:
    """Of a request's body."""
    return len(json.dumps(sent, ensure_ascii=False)) // TOKEN_CHARACTERS + 1


def settle_counts(told: VendorCounts, *, sent: object, said_characters: int) -> Usage:
    """What is taken to be true. No request is without input, and nothing that was said without output."""
    shown = told.input or guess_input(sent)
    told = told if (told.cached or 0) + (told.written or 0) <= shown else replace(told, cached=0, written=0)
    guess = said_characters // TOKEN_CHARACTERS + 1 if said_characters else 0
    output = told.output or guess
    written = told.written or 0
    return Usage(
        input_tokens=shown,
        cached_tokens=told.cached or 0,
        written_tokens=written,
        written_1h_tokens=min(told.written_1h or 0, written),
        output_tokens=output,
        reasoning_tokens=min(told.reasoning or 0, output),
        cost_usd=None,
    )
