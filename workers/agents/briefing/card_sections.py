"""
The sections of a task card, and which of them are told in short where a model's window has no room for all.

The task's own words, its limits, and the reasons why attempts came back are never shortened. What is shortened says so
itself, and where the whole of it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from forgepool.workers.context.transcript.usage import USUAL

AIM, MOST = 0.40, 0.70
"""Shares of the window: for an opening in which something can be shortened, and for any opening."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CardSection:
    """A part of the card, whole and in short."""

    name: str
    """A person's words for it."""
    forms: tuple[str, ...]
    """Its text, whole first, then ever shorter. A section with one form is never shortened."""
    rank: int = 0
    """Sections of the lowest rank are shortened first, among them the longest; each once before any is twice."""
    close: bool = False
    """It follows the section before it without an empty line."""


class CardTooLarge(Exception):
    """Its own words fill too much of the window; the sentence says which, and the way out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCard:
    sections: tuple[CardSection, ...] = ()

    @property
    def whole(self) -> str:
        return self._joined([0] * len(self.sections))

    def within(self, characters: int) -> tuple[str, tuple[str, ...]]:
        """Return the card, shortened to this length where it can be, and the names of the shortened sections."""
        chosen = [0] * len(self.sections)
        left = len(self.whole) - characters
        steps = sorted(
            (number, one.rank, -len(one.forms[0]), at)
            for at, one in enumerate(self.sections)
            for number in range(len(one.forms) - 1)
        )
        for number, _, _, at in steps:
            if left <= 0:
                break
            forms, chosen[at] = self.sections[at].forms, number + 1
            left -= len(forms[number]) - len(forms[number + 1])
        return self._joined(chosen), tuple(one.name for one, at in zip(self.sections, chosen, strict=True) if at)

    def fit(self, window_tokens: int, model: str, *, beside: int) -> tuple[str, tuple[str, ...]]:
        """
        Return the card for a model, and the names of the sections that are shortened.

        `beside` counts the characters of what is sent with the card: system prompt, tools, the rest of the opening.

        Raises:
            CardTooLarge: it would fill more than 0.70 of the window, however much is shortened.
        """
        text, shortened = self.within(int(window_tokens * USUAL * AIM) - beside)
        tokens = int((len(text) + beside) / USUAL)
        if tokens > window_tokens * MOST:
            largest = max(self.sections, key=lambda one: len(one.forms[-1]))
            raise CardTooLarge(
                f"the task's first message is about {tokens:,} tokens, shortened as far as it can be, and model "
                f"'{model}' has a window of {window_tokens:,}; most of it is {largest.name} (about "
                f"{int(len(largest.forms[-1]) / USUAL):,} tokens): shorten that, or name a model with a larger window"
            )
        return text, shortened

    def _joined(self, chosen: Sequence[int]) -> str:
        text = ""
        for one, at in zip(self.sections, chosen, strict=True):
            text += ("" if not text else "\n" if one.close else "\n\n") + one.forms[at]
        return f"{text}\n" if text else ""
