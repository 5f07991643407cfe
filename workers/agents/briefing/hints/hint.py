"""
A hint, and how hints become the section of a task card.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

THRESHOLD = 0.7
MOST = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint:
    path: str
    confidence: float
    """0 to 1. By rule it says which rule, not a probability."""
    reason: str
    source: str
    """What it was made from, as the section's first line names it."""


def best(hints: Iterable[Hint], tree: Collection[str]) -> tuple[Hint, ...]:
    """Those that are worth telling, exist and can be quoted: each path once, the surest first."""
    by_path: dict[str, Hint] = {}
    for hint in hints:
        known = by_path.get(hint.path)
        if (
            hint.path in tree
            and _plain(hint.path) == hint.path
            and hint.confidence >= THRESHOLD
            and (not known or known.confidence < hint.confidence)
        ):
            by_path[hint.path] = hint
    return tuple(sorted(by_path.values(), key=lambda hint: (-hint.confidence, hint.path))[:MOST])


def _plain(text: str) -> str:
    """On one line and without quotes of its own: a file's name may hold anything, orders to the reader too."""
    return "".join(each for each in text if each.isprintable() and each != "`")


def render_hints(hints: Sequence[Hint]) -> str:
    """The section of the card; empty without hints. The form of its lines is P-053's."""
    if not hints:
        return ""
    sources = ", ".join(dict.fromkeys(hint.source for hint in hints))
    return "\n".join(
        [
            "## File Hints",
            f"The following files are likely relevant to this task (generated from {sources}):",
            *(f"- `{hint.path}` (confidence: {hint.confidence:.2f}) — {_plain(hint.reason)}" for hint in hints),
        ]
    )
