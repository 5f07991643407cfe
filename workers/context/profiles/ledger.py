"""
`ledger`: shows the task card, a ledger of events, the text of hot files and the latest turns; it rebuilds rarely.

A rebuild costs the writing of what is kept and saves the reading of what is dropped at every later call. So it waits
until it drops a multiple of what it keeps. It does not wait with a cold cache, or near the end of the window.

The conversation decides how much is kept: an agent that often needs hidden text is left more, in the end everything.
The variants differ in the loss they allow. A block of the ledger stays the same bytes in later rebuilds, so that a
provider's cache keeps it, until the ledger is condensed. Hot files are shown as last seen, or as they are now where
that is outdated.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from forgepool.workers.context.edits.ledger import condense_lines, lines
from forgepool.workers.context.edits.masks import FILES_TITLE, HARNESS, before, begins_with_survey
from forgepool.workers.context.edits.state import ContextState, EditProposal, Moment
from forgepool.workers.context.transcript.actions import Deed
from forgepool.workers.context.transcript.edit import Edit
from forgepool.workers.context.transcript.usage import length, lengths
from forgepool.workers.llm.messages import Text, user
from forgepool.workers.shell.purpose.file_access import Read, Write, touches

_TEXTS = ("content", "command", "file_text")
"""Arguments that hold a file's whole text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Carrier:
    step: int
    path: str
    label: str
    text: str


def hot(
    deeds: Sequence[Deed],
    *,
    dropped: int,
    touched_since: int,
    also: Iterable[str] = (),
    room: int,
    current: Callable[[str], str | None],
) -> list[Carrier]:
    """
    Return the texts of hot files among the first `dropped` deeds, oldest first, within `room` characters.

    Hot are files touched from the turn `touched_since` on, and those in `also`. A later text replaces an earlier one of
    the same lines. `current` supplies the text of files for which nothing fresh was shown.
    """
    touched = _touched(deeds, touched_since) | set(also)
    found: list[Carrier] = []
    shown: dict[str, list[Read]] = {}
    written: dict[str, Write] = {}
    for deed in reversed(deeds):
        for read, text in _carried(deed):
            covered = shown.get(read.path, [])
            if read.path not in touched or _covers(covered, read):
                continue
            if any(touches(write, read.path) for write in written.values()):
                continue
            shown[read.path] = [*covered, read]
            if deed.step <= dropped:
                found.append(Carrier(step=deed.step, path=read.path, label=_label(read), text=text))
        # Of a command that failed it is not known how far it came.
        written |= {write.path: write for write in deed.writes}
    found += _as_they_are(touched - shown.keys(), deeds, current)
    return sorted(_fitting(found, room), key=_step)


def _touched(deeds: Sequence[Deed], since: int) -> set[str]:
    paths: set[str] = set()
    for deed in reversed(deeds):
        if deed.turn < since:
            break
        paths.update(_paths(deed))
    return paths


def _as_they_are(
    paths: Iterable[str], deeds: Sequence[Deed], current: Callable[[str], str | None]
) -> Iterator[Carrier]:
    steps = {path: deed.step for deed in deeds for path in _paths(deed)}
    for path in sorted(paths):
        text = current(path)
        if text is not None:
            yield Carrier(step=steps.get(path, 0), path=path, label=f"{path}, as it is now", text=text)


def _fitting(found: Iterable[Carrier], room: int) -> Iterator[Carrier]:
    """Yield the newest texts that fit; one that does not fit leaves room for smaller ones."""
    for each in sorted(found, key=_step, reverse=True):
        if len(each.text) <= room:
            room -= len(each.text)
            yield each


def _carried(deed: Deed) -> Iterator[tuple[Read, str]]:
    """Yield the text of a file where the call or its result holds it."""
    if deed.failed:
        return
    if deed.action == "read" and len(deed.reads) == 1:
        yield deed.reads[0], deed.whole
    text = next((value for name in _TEXTS if isinstance(value := deed.call.arguments.get(name), str)), None)
    whole = [write for write in deed.writes if write.how == "create" and write.characters is not None]
    others = [write for write in deed.writes if write not in whole]
    if text is not None and len(whole) == 1 and not any(touches(write, whole[0].path) for write in others):
        yield Read(path=whole[0].path), text


def _paths(deed: Deed) -> Iterator[str]:
    yield from (read.path for read in deed.reads)
    yield from (write.path for write in deed.writes)


def _covers(shown: Iterable[Read], read: Read) -> bool:
    return any(one.whole or _within(read, one) for one in shown)


def _within(read: Read, other: Read) -> bool:
    if read.part or other.part or read.whole or (read.last is None and other.last is not None):
        return False
    return (other.first or 1) <= (read.first or 1) and (other.last is None or (read.last or 0) <= other.last)


def _label(read: Read) -> str:
    if read.whole:
        return read.path
    return f"part of {read.path}" if read.part else f"{read.path}, lines {read.first or 1} to {read.last or 'the end'}"


def _step(carrier: Carrier) -> int:
    return carrier.step


CHARACTERS = 4
"""Characters per token of a budget."""
_TITLE = f"{HARNESS} What happened so far"
_CONDENSED = f"{_TITLE}, in short"
_FILES = f"{HARNESS} Files you worked on lately, as you last saw them"
_OPENING = 2
_MOST_HOT = 0.10
"""The share of the window for hot files."""
_LEAST_LEDGER = 1_200
"""The smallest room of a ledger in tokens, in any window."""
_SHORT, _NEW = 0.6, 0.2
"""Shares of the ledger's room for a condensed ledger, and for new lines beside it."""


def rebuilt(
    state: ContextState, moment: Moment, *, cut: int, hot_since: int, hot_tokens: int, ledger_share: float
) -> Edit:
    """
    Return the edit that shows a ledger, hot files, and the turns from `cut` on.

    The ledger takes about `ledger_share` of the window. Files touched from the turn `hot_since` on take at most
    `hot_tokens`.
    """
    room = max(_LEAST_LEDGER, int(ledger_share * state.gauge.window_tokens))
    blocks = _ledger(state, cut, room)
    carriers = _hot(state, moment, cut, hot_since, hot_tokens)
    texts = [f"=== {each.label} (step {each.step})\n{each.text}" for each in carriers]
    parts = [*blocks, Text(text="\n\n".join([f"{_FILES}:", *texts]))] if texts else blocks
    head = (user(*parts),) if parts else ()
    return Edit(cut=cut, opening=_opening(state), head=head, lasting=len(blocks))


def _opening(state: ContextState) -> int | None:
    """Return how many opening parts stay: survey, card and plan. Files shown after them are outdated by now."""
    parts, stay = state.turns[0].parts, _OPENING + begins_with_survey(state.turns)
    texts = parts[stay] if len(parts) == stay + 1 else None
    if state.planned and isinstance(texts, Text) and texts.text.startswith(FILES_TITLE):
        return stay
    return state.edit.opening


def _ledger(state: ContextState, cut: int, room: int) -> list[Text]:
    """Return the ledger's blocks with one for the newly cut turns, condensed where they exceed the room."""
    blocks = _blocks(state.edit)
    first = state.edit.cut if blocks else 1
    new = _of_turns(state.deeds, first, cut)
    told = _block(_title(state, _TITLE, new), lines(state.turns, new, first, cut))
    if state.gauge.tokens(_size([*blocks, *told])) <= room:
        return [*blocks, *told]
    # What is new stays as it is, where that is not too long by itself; what is condensed leaves room for more lines,
    # or it would be written anew at each rebuild.
    last, rest = (first, told) if blocks and state.gauge.tokens(_size(told)) <= room * _NEW else (cut, [])
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


def count_cached(old: Edit, new: Edit) -> int:
    """Count the characters of the ledger that stay the same bytes."""
    pairs = zip(_blocks(old), _blocks(new), strict=False)
    return _size([one for one, _ in takewhile(lambda pair: pair[0] == pair[1], pairs)])


def _of_turns(deeds: Sequence[Deed], first: int, last: int) -> Sequence[Deed]:
    """Return the deeds of the turns from `first` up to, not including, `last`."""
    start, end = (bisect_left(deeds, place, key=lambda deed: deed.turn) for place in (first, last))
    return deeds[start:end]


def _hot(state: ContextState, moment: Moment, cut: int, since: int, tokens: int) -> list[Carrier]:
    return hot(
        state.deeds,
        dropped=before(state, cut),
        touched_since=since,
        also=state.planned,
        room=min(tokens, int(_MOST_HOT * state.gauge.window_tokens)) * CHARACTERS,
        current=moment.current,
    )


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
