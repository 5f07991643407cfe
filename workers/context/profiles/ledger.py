"""
`ledger`: the task card, a ledger of what happened, the text of hot files, the latest turns; rebuilt wholesale, rarely.

A rebuild costs what is kept, at the price of writing it, and saves the reading of what is dropped in every later call:
so it waits until what would be dropped is so many times what would be kept. It does not wait where it is free, with a
cold cache, or where there is no choice, near the end of the window.

How much is kept follows from the conversation: an agent that often needs what it is no longer shown is left more, and
in the end everything; one that does not, less. The variants differ in how much loss they let happen.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from workers.context.deeds import Deed
from workers.context.edit import Edit
from workers.context.hot import Carrier, hot
from workers.context.ledger import condensed, lines
from workers.context.state import Moment, Proposal, State
from workers.llm.messages import Part, Text, user

_TITLE = "[the harness] What happened so far"
_FILES = "[the harness] Files you worked on lately, as you last saw them"
_GUARD, _EMERGENCY = 0.70, 0.90
"""Shares of the window: from the first on a rebuild does not wait for its price, from the second on little is kept."""
_CHARACTERS = 4
"""A token, where budgets are given in tokens."""
_OPENING = 2
_LEAST_GAIN = 0.10
_MOST_LEDGER = 0.25
"""Of the window; a longer ledger is condensed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """How much of a conversation a rebuild leaves."""

    turns: int
    """Of the model, with their results."""
    hot_turns: int
    """Files are hot that were touched in so many turns."""
    hot_tokens: int
    ratio: float
    """A rebuild waits until what it drops is so many times what it keeps."""


KEEPS = (
    Keep(turns=2, hot_turns=12, hot_tokens=500, ratio=2.0),
    Keep(turns=3, hot_turns=12, hot_tokens=500, ratio=2.5),
    Keep(turns=2, hot_turns=12, hot_tokens=3_000, ratio=2.0),
    Keep(turns=3, hot_turns=12, hot_tokens=3_000, ratio=2.5),
    Keep(turns=6, hot_turns=30, hot_tokens=8_000, ratio=2.5),
    Keep(turns=10, hot_turns=30, hot_tokens=20_000, ratio=3.0),
)
"""From the tightest to the widest."""
_LEAST = Keep(turns=2, hot_turns=4, hot_tokens=2_000, ratio=0.0)


@dataclass(slots=True, kw_only=True)
class Ledger:
    name: str = "ledger"
    most_lost: float = 0.08
    """The share of calls that may need something they are not shown; it steers how much is kept."""
    least_tokens: int = 4_000
    """A view smaller than this, without system prompt and tools, is not rebuilt: it would gain little."""
    keeps: Sequence[Keep] = KEEPS
    first: int = 1
    """Where the agent has not shown yet how far back it reaches."""
    _waits: tuple[Edit, int] | None = field(default=None, repr=False)
    """With that edit in force nothing is worth doing until the view has so many characters."""

    def propose(self, state: State, moment: Moment) -> Proposal | None:
        keep = self._keep(state, moment)
        if keep is None or len(state.deeds) <= keep.turns:
            return None
        size = state.shown_characters
        if not self._forced(state, moment) and size < self._least(state):
            return None
        cut = _cut(state, keep.turns)
        if cut <= state.edit.cut:
            return None
        young = sum(state.shown_sizes[1 + len(state.edit.head) :])
        recent = sum(state.sizes[cut:])
        if not self._forced(state, moment) and young - recent < keep.ratio * recent:
            return None
        edit = _edit(state, moment, keep, cut)
        head = sum(len(part.text) for part in _texts(edit))
        cached = sum(len(part.text) for part in _blocks(state.edit))
        kept = state.sizes[0] + head + recent
        least = _LEAST_GAIN * kept if self._forced(state, moment) else keep.ratio * (kept - state.sizes[0] - cached)
        if size < kept + least:
            self._waits = (state.edit, int(kept + least))
            return None
        return Proposal(edit=edit, why=_why(state, moment, size - kept))

    def _least(self, state: State) -> int:
        """Characters of a view below which nothing is done."""
        waits = self._waits[1] if self._waits and self._waits[0] is state.edit else 0
        return max(waits, self.least_tokens * _CHARACTERS)

    def _forced(self, state: State, moment: Moment) -> bool:
        return moment.cause in ("cold", "resume", "overflow", "switch", "wish", "phase") or state.share >= _GUARD

    def _keep(self, state: State, moment: Moment) -> Keep | None:
        """None where nothing is to be dropped any more: more was lost than may be."""
        if moment.cause == "overflow" or state.share >= _EMERGENCY:
            return _LEAST
        place = self._place(state)
        if place < len(self.keeps):
            return self.keeps[place]
        return self.keeps[-1] if state.share >= _GUARD else None

    def _place(self, state: State) -> int:
        """Among the keeps; beyond the last where too much was lost."""
        if not state.rebuilds:
            return self.first
        used = state.losses.hit / max(1.0, self.most_lost * state.losses.calls)
        return min(len(self.keeps), max(0, round(used * (len(self.keeps) - 1))))


def _cut(state: State, turns: int) -> int:
    """The place of the model's turn from which so many of its turns are shown."""
    for place in range(len(state.turns) - 1, 0, -1):
        if state.turns[place].role == "assistant":
            turns -= 1
            if turns == 0:
                return place
    return 1


def _edit(state: State, moment: Moment, keep: Keep, cut: int) -> Edit:
    parts: list[Part] = [*_ledger(state, cut)]
    lasting = len(parts)
    carriers = _hot(state, moment, keep, cut)
    if carriers:
        texts = "\n\n".join(
            f"=== {each.label} (step {each.step})\n{each.text}"
            for each in carriers
        )
        parts.append(Text(text=f"{_FILES}:\n\n{texts}"))
    return Edit(cut=cut, opening=_opening(state), head=(user(*parts),), lasting=lasting)


def _opening(state: State) -> int | None:
    """The card and the plan. Texts of files behind them are old by now: those that still matter are hot."""
    return min(_OPENING, len(state.turns[0].parts)) if state.planned else state.edit.opening


def _ledger(state: State, cut: int) -> Iterator[Text]:
    """The blocks there are, and one for what has been cut since."""
    blocks = _blocks(state.edit)
    before = state.edit.cut if blocks else 1
    new = [deed for deed in _since(state.deeds, before) if deed.turn < cut]
    if blocks and sum(len(block.text) for block in blocks) > _MOST_LEDGER * state.gauge.window_tokens * _CHARACTERS:
        blocks = []
        old = [deed for deed in state.deeds if deed.turn < before]
        yield Text(text="\n".join([_title(state, old), *condensed(old)]))
    yield from blocks
    told = [*lines(state.turns, new, before, cut)]
    if told:
        yield Text(text="\n".join([_title(state, new), *told]))


def _title(state: State, deeds: Sequence[Deed]) -> str:
    steps = f", steps {deeds[0].step} to {deeds[-1].step}" if deeds else ""
    where = f" (the whole result of each step: {state.archive}/step-N.txt)" if state.archive else ""
    return f"{_TITLE}{steps}{where}:"


def _blocks(edit: Edit) -> list[Text]:
    parts = edit.head[0].parts if edit.head else ()
    return [part for part in parts if isinstance(part, Text) and part.text.startswith(_TITLE)]


def _since(deeds: Sequence[Deed], place: int) -> list[Deed]:
    found = []
    for deed in reversed(deeds):
        if deed.turn < place:
            break
        found.append(deed)
    return found[::-1]


def _hot(state: State, moment: Moment, keep: Keep, cut: int) -> list[Carrier]:
    dropped = sum(1 for deed in state.deeds if deed.turn < cut)
    since = _cut(state, keep.hot_turns)
    room = keep.hot_tokens * _CHARACTERS
    return hot(state.deeds, dropped=dropped, touched_since=since, also=state.planned, room=room, current=moment.current)


def _texts(edit: Edit) -> Iterator[Text]:
    for turn in edit.head:
        yield from (part for part in turn.parts if isinstance(part, Text))


def _why(state: State, moment: Moment, freed: int) -> str:
    reason = {"cold": "the cache was cold", "overflow": "the window was full"}.get(
        moment.cause, "what was dropped outweighs what is kept"
    )
    return f"{reason}: about {state.gauge.tokens(freed):,} tokens dropped"


def variant(name: str) -> Ledger:
    """`ledger` is `ledger-balanced`."""
    match name:
        case "ledger-cheap":
            return Ledger(name=name, most_lost=0.16, first=0)
        case "ledger-safe":
            return Ledger(name=name, most_lost=0.03, first=3)
        case _:
            return Ledger(name=name)
