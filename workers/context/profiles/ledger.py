"""
`ledger`: shows the task card, a ledger of events, the text of hot files and the latest turns; it rebuilds rarely.

A rebuild costs the writing of what is kept and saves the reading of what is dropped at every later call. So it waits
until it drops a multiple of what it keeps. It does not wait with a cold cache, or near the end of the window.

The conversation decides how much is kept: an agent that often needs hidden text is left more, in the end everything.
The variants differ in the loss they allow.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from forgepool.workers.context.edits.state import ContextState, EditProposal, Moment
from forgepool.workers.context.profiles.ledger_head import CHARACTERS, count_cached, rebuilt
from forgepool.workers.context.transcript.edit import Edit
from forgepool.workers.context.transcript.usage import length, lengths

_GUARD, _EMERGENCY = 0.70, 0.90
"""Shares of the window: from the first on a rebuild ignores its price, from the second on little is kept."""
_LEAST_GAIN = 0.10
"""The share of the kept text that a forced rebuild must drop, except after an overflow."""
_FREE = frozenset({"cold", "switch", "wish", "overflow"})
"""Occasions on which a rebuild is free or unavoidable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """The amount of a conversation that a rebuild keeps."""

    turns: int
    """Turns of the model, with their results."""
    hot_turns: int
    """Turns in which a touched file counts as hot."""
    hot_tokens: int
    ratio: float
    """The multiple of the kept text that a rebuild must drop."""
    ledger_share: float = 0.25
    """The share of the window above which the ledger is condensed."""


KEEPS = (
    Keep(turns=2, hot_turns=12, hot_tokens=500, ratio=2.0),
    Keep(turns=3, hot_turns=12, hot_tokens=500, ratio=2.5),
    Keep(turns=2, hot_turns=12, hot_tokens=3_000, ratio=2.0),
    Keep(turns=3, hot_turns=12, hot_tokens=3_000, ratio=2.5),
    Keep(turns=6, hot_turns=30, hot_tokens=8_000, ratio=2.5),
    Keep(turns=10, hot_turns=30, hot_tokens=20_000, ratio=3.0),
)
"""From the tightest to the most generous."""
_LEAST = (
    Keep(turns=2, hot_turns=4, hot_tokens=2_000, ratio=0.0, ledger_share=0.15),
    Keep(turns=1, hot_turns=4, hot_tokens=0, ratio=0.0, ledger_share=0.08),
)


@dataclass(slots=True, kw_only=True)
class LedgerProfile:
    name: str = "ledger"
    most_lost: float = 0.08
    """The share of calls that may need hidden text; it steers how much is kept."""
    least_tokens: int = 4_000
    """The smallest view worth rebuilding, without system prompt and tools."""
    keeps: Sequence[Keep] = KEEPS
    first: int = 1
    """The index among `keeps` before the first rebuild."""
    _waits: tuple[Edit, Keep, bool, int] | None = field(default=None, repr=False)
    """
    The edit, keep and occasion for which nothing was worth doing below so many characters.

    It only saves time: without it, each call would find out again.
    """

    def propose(self, state: ContextState, moment: Moment) -> EditProposal | None:
        keep = self._keep(state, moment)
        is_forced = moment.cause in _FREE or state.share >= _GUARD
        if keep is None or self._rests(state, moment, keep, is_forced):
            return None
        cut = _cut(state, keep.turns)
        recent = sum(state.sizes[cut:])
        young = sum(state.shown_sizes[1 + len(state.edit.head) :])
        if cut < state.edit.cut or (not is_forced and young - recent < keep.ratio * recent):
            return None
        since = _cut(state, keep.hot_turns)
        edit = rebuilt(
            state, moment, cut=cut, hot_since=since, hot_tokens=keep.hot_tokens, ledger_share=keep.ledger_share
        )
        first = sum(map(length, state.turns[0].parts[: edit.opening]))
        kept = first + lengths(edit.head) + recent
        if is_forced:
            gain = 1 if moment.cause == "overflow" else int(_LEAST_GAIN * kept)
        else:
            gain = int(keep.ratio * (kept - first - count_cached(state.edit, edit)))
        if state.shown_characters < kept + gain:
            self._waits = (state.edit, keep, is_forced, kept + gain)
            return None
        return EditProposal(edit=edit, why=_why(state, moment, state.shown_characters - kept))

    def _rests(self, state: ContextState, moment: Moment, keep: Keep, is_forced: bool) -> bool:
        size = state.shown_characters
        if not is_forced and size < self.least_tokens * CHARACTERS:
            return True
        if moment.cause in _FREE or self._waits is None:
            return False
        edit, *known, least = self._waits
        return edit is state.edit and known == [keep, is_forced] and size < least

    def _keep(self, state: ContextState, moment: Moment) -> Keep | None:
        """Return how much to keep; None to drop nothing, because too much was missed."""
        if moment.cause == "overflow" or state.share >= _EMERGENCY:
            recent = sum(state.sizes[_cut(state, _LEAST[0].turns) :])
            return _LEAST[0] if state.gauge.share(state.sizes[0] + recent) < _GUARD else _LEAST[1]
        place = self._place(state)
        if place < len(self.keeps):
            return self.keeps[place]
        return self.keeps[-1] if state.share >= _GUARD else None

    def _place(self, state: ContextState) -> int:
        """Return the index among `keeps`, beyond the last where too much was missed."""
        if not state.rebuilds:
            return self.first
        used = state.losses.hit / max(1.0, self.most_lost * state.losses.calls)
        return min(len(self.keeps), max(0, round(used * (len(self.keeps) - 1))))


def _cut(state: ContextState, turns: int) -> int:
    """Return the index of the first of the model's last turns to show."""
    for place in range(len(state.turns) - 1, 0, -1):
        if state.turns[place].role == "assistant":
            turns -= 1
            if turns == 0:
                return place
    return 1


def _why(state: ContextState, moment: Moment, freed: int) -> str:
    reasons = {
        "cold": "the cache was cold",
        "overflow": "the window was full",
        "wish": "the agent wished it",
        "switch": "the profile was changed",
    }
    is_full = state.share >= _GUARD
    due = f"{state.share:.0%} of the window was taken" if is_full else "what is dropped outweighs what is kept"
    return f"{reasons.get(moment.cause, due)}: about {state.gauge.tokens(freed):,} tokens dropped"


def variant(name: str) -> LedgerProfile:
    """Return a variant by its name."""
    match name:
        case "ledger-cheap":
            return LedgerProfile(name=name, most_lost=0.16, first=0)
        case "ledger-safe":
            return LedgerProfile(name=name, most_lost=0.03, first=3)
        case _:
            return LedgerProfile(name=name)
