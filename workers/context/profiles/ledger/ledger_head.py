"""
What the profile `ledger` shows of the turns it drops: the ledger, in one block for each rebuild, and the hot files.

The blocks of one rebuild are the same bytes in the next, so that a provider's cache keeps them; only where they have
outgrown their share of the window are they written anew, condensed.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import takewhile

from forgepool.workers.context.edits.hot import Carrier, hot
from forgepool.workers.context.edits.ledger import condense_lines, lines
from forgepool.workers.context.edits.masks import FILES_TITLE, HARNESS
from forgepool.workers.context.edits.state import ContextState, Moment
from forgepool.workers.context.history.actions import Deed
from forgepool.workers.context.transcript.edit import Edit
from forgepool.workers.llm.messages import Text, user

CHARACTERS = 4
"""A token, where budgets are given in tokens."""
_TITLE = f"{HARNESS} What happened so far"
_CONDENSED = f"{_TITLE}, in short"
_FILES = f"{HARNESS} Files you worked on lately, as you last saw them"
_OPENING = 2
_MOST_HOT = 0.10
"""Of the window."""
_LEAST_LEDGER = 1_200
"""Tokens, however small the window is."""
_SHORT, _NEW = 0.6, 0.2
"""Of the ledger's room: what a condensed one takes, and the most that new lines beside it do."""


def rebuilt(
    state: ContextState, moment: Moment, *, cut: int, hot_since: int, hot_tokens: int, ledger_share: float
) -> Edit:
    """
    The edit that shows the turns from the place `cut` on, after a ledger of about so much of the window at most; and,
    of files touched from the place `hot_since` on, texts of at most so many tokens.
    """
    room = max(_LEAST_LEDGER, int(ledger_share * state.gauge.window_tokens))
    blocks = _ledger(state, cut, room)
    carriers = _hot(state, moment, cut, hot_since, hot_tokens)
    texts = [f"=== {each.label} (step {each.step})\n{each.text}" for each in carriers]
    parts = [*blocks, Text(text="\n\n".join([f"{_FILES}:", *texts]))] if texts else blocks
    head = (user(*parts),) if parts else ()
    return Edit(cut=cut, opening=_opening(state), head=head, lasting=len(blocks))


def _opening(state: ContextState) -> int | None:
    """The card and the plan. Texts of files behind them, where nothing else is, are old by now: what matters is hot."""
    parts = state.turns[0].parts
    texts = parts[_OPENING] if len(parts) == _OPENING + 1 else None
    if state.planned and isinstance(texts, Text) and texts.text.startswith(FILES_TITLE):
        return _OPENING
    return state.edit.opening


def _ledger(state: ContextState, cut: int, room: int) -> list[Text]:
    """The blocks there are, and one for what has been cut since; condensed where they have more than so many tokens."""
    blocks = _blocks(state.edit)
    before = state.edit.cut if blocks else 1
    new = _of_turns(state.deeds, before, cut)
    told = _block(_title(state, _TITLE, new), lines(state.turns, new, before, cut))
    if state.gauge.tokens(_size([*blocks, *told])) <= room:
        return [*blocks, *told]
    # What is new stays as it is, where that is not too long by itself; what is condensed leaves room for more lines,
    # or it would be written anew at each rebuild.
    last, rest = (before, told) if blocks and state.gauge.tokens(_size(told)) <= room * _NEW else (cut, [])
    old = _of_turns(state.deeds, 1, last)
    short = int(room * _SHORT * state.gauge.characters_a_token)
    return [*_block(_title(state, _CONDENSED, old), condense_lines(state.turns, old, last, room=short)), *rest]


def _size(blocks: Sequence[Text]) -> int:
    return sum(len(block.text) for block in blocks)


def _block(title: str, told: Iterable[str]) -> list[Text]:
    found = list(told)
    return [Text(text="\n".join([title, *found]))] if found else []


def _title(state: ContextState, title: str, deeds: Sequence[Deed]) -> str:
    steps = f", steps {deeds[0].step} to {deeds[-1].step}" if deeds else ""
    where = f" (the whole result of each step: {state.archive}/step-N.txt)" if state.archive else ""
    return f"{title}{steps}{where}:"


def _blocks(edit: Edit) -> list[Text]:
    parts = edit.head[0].parts if edit.head else ()
    return [part for part in parts if isinstance(part, Text) and part.text.startswith(_TITLE)]


def count_cached(before: Edit, after: Edit) -> int:
    """Characters of the ledger that stay the same bytes."""
    pairs = zip(_blocks(before), _blocks(after), strict=False)
    return _size([one for one, _ in takewhile(lambda pair: pair[0] == pair[1], pairs)])


def _of_turns(deeds: Sequence[Deed], first: int, last: int) -> Sequence[Deed]:
    """Those of the turns at places `first` up to, not including, `last`."""
    return deeds[bisect_left(deeds, first, key=_turn) : bisect_left(deeds, last, key=_turn)]


def _turn(deed: Deed) -> int:
    return deed.turn


def _hot(state: ContextState, moment: Moment, cut: int, since: int, tokens: int) -> list[Carrier]:
    return hot(
        state.deeds,
        dropped=bisect_left(state.deeds, cut, key=_turn),
        touched_since=since,
        also=state.planned,
        room=min(tokens, int(_MOST_HOT * state.gauge.window_tokens)) * CHARACTERS,
        current=moment.current,
    )
