"""
What changed between two texts, as a unified diff from which the newer can be made out of the older, byte for byte.

Lines end at "\\n" alone; the text behind the last one is a line too, so that nothing of a last line's end is lost.
"""

from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher

CONTEXT = 2
"""Unchanged lines around a change."""
MOST_LINES = 2_000
"""On either side, between what both begin and end with: beyond them the comparison is not worth its time."""


def difference(old: str, new: str, limit: int) -> str | None:
    """
    The hunks, without names of files; empty for equal texts.

    None where they would have more than `limit` characters, or the texts are too long to compare. Refusing is cheap:
    what cannot be shared is counted before anything is compared.
    """
    before, after = old.split("\n"), new.split("\n")
    if _least(before, after) > limit:
        return None
    at, cut = _alike(before, after)
    before, after = before[at : len(before) - cut], after[at : len(after) - cut]
    if max(len(before), len(after)) > MOST_LINES:
        return None
    text = "\n".join(_hunks(before, after, at))
    return text if len(text) <= limit else None


def _least(before: Sequence[str], after: Sequence[str]) -> int:
    """Characters of lines that are on one side only, with the sign and the end of each: no diff has fewer."""
    old, new = Counter(before), Counter(after)
    alone = (old - new) + (new - old)
    return max(0, sum((len(line) + 2) * times for line, times in alone.items()) - 1)


def _alike(before: Sequence[str], after: Sequence[str]) -> tuple[int, int]:
    """How many lines both begin and end with, less those shown around a change."""
    shorter = min(len(before), len(after))
    at = 0
    while at < shorter and before[at] == after[at]:
        at += 1
    cut = 0
    while cut < shorter - at and before[-1 - cut] == after[-1 - cut]:
        cut += 1
    return max(0, at - CONTEXT), max(0, cut - CONTEXT)


def _hunks(before: Sequence[str], after: Sequence[str], at: int) -> list[str]:
    lines: list[str] = []
    for group in SequenceMatcher(None, before, after).get_grouped_opcodes(CONTEXT):
        _, old_first, _, new_first, _ = group[0]
        _, _, old_end, _, new_end = group[-1]
        lines.append(f"@@ -{_range(old_first, old_end, at)} +{_range(new_first, new_end, at)} @@")
        for kind, old_from, old_to, new_from, new_to in group:
            if kind == "equal":
                lines += [f" {line}" for line in before[old_from:old_to]]
                continue
            lines += [f"-{line}" for line in before[old_from:old_to]]
            lines += [f"+{line}" for line in after[new_from:new_to]]
    return lines


def _range(first: int, end: int, at: int) -> str:
    """From 1, the length left out where it is one. There is always a line: a text has one, and a change its context."""
    return str(at + first + 1) if end - first == 1 else f"{at + first + 1},{end - first}"
