"""
`forge`: three levels without a model. Gentle shortens long outputs, moderate replaces file reads by the definitions
found in them, aggressive replaces the whole conversation by its facts.

A level does everything at once and then rests until the share falls below `reset` or a higher level is reached; acting
step by step would rewrite the provider's cache at each call. The texts a level leaves tell that it has acted, even
after a restart.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from forgepool.workers.context.edits.ledger import failures, files, find_said, outcomes
from forgepool.workers.context.edits.masks import (
    HARNESS,
    before,
    count_freed,
    cut,
    find_answered_turn,
    find_needed,
    find_seen,
    mask_steps,
    size,
    text_of,
)
from forgepool.workers.context.edits.state import ContextState, EditProposal, Ladder, Moment, Pressure
from forgepool.workers.context.transcript.actions import Deed
from forgepool.workers.context.transcript.edit import Edit
from forgepool.workers.context.transcript.names import find_definitions
from forgepool.workers.llm.messages import Text
from forgepool.workers.shell.purpose.file_access import Read

_MARK = re.compile(r"\[forge: (gentle|moderate|aggressive), (\d+)% left\]\Z")
_MARK_END = "% left]"
_MARK_CHARACTERS = 32
"""The longest mark, with its separator."""
_ENDS_LINES = 20
"""Lines kept at each end of a shortened output."""
_LINE_CHARACTERS = 200
_MOST_SYMBOLS = 12
_MOST_READS = 6
_WORTH = 0.25
"""The share of the window that the aggressive level must free. As the highest level, it does not rest."""
_CARRIED_CHARACTERS = 8_000
_CARRIED = f"{HARNESS} What was told here before:"
_LABEL = f"{HARNESS} State of the work, from what the harness saw; it takes the place of the conversation before."


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgeProfile:
    gentle: float = 0.40
    moderate: float = 0.70
    aggressive: float = 0.90
    reset: float = 0.40
    keep: int = 5
    """The newest results, which no level touches."""
    most_lines: int = 500
    """Lines beyond which an output is shortened."""

    @property
    def name(self) -> str:
        return "forge"

    def propose(self, state: ContextState, moment: Moment) -> EditProposal | None:
        if moment.cause == "overflow":
            return self._whole(state, least=0.0) or self._parts(state, "moderate")
        share = state.share
        if share < self.gentle:
            return None
        if share >= self.aggressive and (proposal := self._whole(state, least=_WORTH)):
            return proposal
        pressure = self._ladder.after(_before(state.edit, self.reset), share)
        return self._parts(state, pressure.level) if pressure.fires else None

    @property
    def _ladder(self) -> Ladder:
        rungs = (("gentle", self.gentle), ("moderate", self.moderate), ("aggressive", self.aggressive))
        return Ladder(rungs=rungs, reset=self.reset)

    def _parts(self, state: ContextState, level: str) -> EditProposal | None:
        """Propose the gentle level, or both gentle and moderate."""
        level = "gentle" if level == "gentle" else "moderate"
        old = find_seen(state, keep=self.keep)
        spared = find_needed(state, old)
        old = [deed for deed in old if deed.step not in spared]
        texts = _outputs(state, old, self.most_lines)
        if level == "moderate":
            texts |= _reads(state, old)
        if not texts:
            return None
        gain = count_freed(state, texts) - _MARK_CHARACTERS * len(texts)
        left = state.gauge.share(state.shown_characters - gain)
        marked = {step: f"{text} {_mark(level, left)}" for step, text in texts.items()}
        why = f"{level}: shortened {len(texts)} results, {state.share:.0%} of the window before, {left:.0%} now"
        return EditProposal(edit=mask_steps(state, marked), why=why)

    def _whole(self, state: ContextState, *, least: float) -> EditProposal | None:
        """Propose the aggressive level; None where it frees too little."""
        place = min(find_answered_turn(state.turns), _kept(state, self.keep))
        if place <= state.edit.cut:
            return None
        body, carried = _body(state, place), _carried(state.edit)
        edit = cut(state, place, body, *carried)
        left_characters = size(state, edit) + _MARK_CHARACTERS * (1 + len(edit.results))
        gain = state.shown_characters - left_characters
        if state.gauge.tokens(gain) <= least * state.gauge.window_tokens:
            return None
        left = state.gauge.share(left_characters)
        mark = _mark("aggressive", left)
        edit = cut(state, place, f"{body}\n{mark}", *carried)
        edit = edit.model_copy(update={"results": {step: _MARK.sub(mark, text) for step, text in edit.results.items()}})
        why = (
            f"aggressive: facts in place of what came before turn {place + 1}, {state.share:.0%} before, {left:.0%} now"
        )
        return EditProposal(edit=edit, why=why)


def _mark(level: str, left: float) -> str:
    return f"[forge: {level}, {int(left * 100)}% left]"


def _before(edit: Edit, reset: float) -> Pressure:
    """Return the level that acted last, by its newest mark."""
    told = [part.text for turn in edit.head[:1] for part in turn.parts[:1] if isinstance(part, Text)]
    newest = (text for text in (*[*edit.results.values()][::-1], *told) if text.endswith(_MARK_END))
    found = next((mark for text in newest if (mark := _MARK.search(text))), None)
    if found is None or int(found[2]) < round(reset * 100):
        return Pressure()
    return Pressure(level=found[1], armed=False)


def _outputs(state: ContextState, old: Sequence[Deed], most_lines: int) -> dict[int, str]:
    texts = {}
    for deed in old:
        text = text_of(state, deed)
        if len(text) <= most_lines or _is_read(deed) or text.count("\n") < most_lines:
            continue
        lines = text.splitlines()
        if len(lines) > most_lines and len(short := _ends(lines)) + _MARK_CHARACTERS < len(text):
            texts[deed.step] = short
    return texts


def _ends(lines: Sequence[str]) -> str:
    left = lines[_ENDS_LINES:-_ENDS_LINES]
    note = f"[{len(left):,} of {len(lines):,} lines left out, {sum(map(len, left)):,} characters]"
    kept = [*lines[:_ENDS_LINES], note, *lines[-_ENDS_LINES:]]
    return "\n".join(line if len(line) <= _LINE_CHARACTERS else f"{line[:_LINE_CHARACTERS]}..." for line in kept)


def _reads(state: ContextState, old: Sequence[Deed]) -> dict[int, str]:
    texts = {}
    for deed in old:
        text = text_of(state, deed)
        if not _is_read(deed) or _MARK.search(text):
            continue
        symbols = find_definitions(deed.whole)
        more = len(symbols) - _MOST_SYMBOLS
        found = ", ".join(symbols[:_MOST_SYMBOLS]) or "no definitions"
        also = f" and {more} more" if more > 0 else ""
        lines = len(deed.whole.splitlines())
        short = f"[read {_where(deed)}, found {found}{also}; {lines:,} lines]"
        if len(short) + _MARK_CHARACTERS < len(text):
            texts[deed.step] = short
    return texts


def _is_read(deed: Deed) -> bool:
    return deed.action == "read" and bool(deed.reads)


def _where(deed: Deed) -> str:
    more = f" and {len(deed.reads) - _MOST_READS} more" if len(deed.reads) > _MOST_READS else ""
    return f"{', '.join(map(_lines, deed.reads[:_MOST_READS]))}{more}"


def _lines(read: Read) -> str:
    return read.path if read.whole else f"{read.path}:{read.first or 1}-{read.last or ''}"


def _kept(state: ContextState, keep: int) -> int:
    """Return the index of the turn that holds the oldest of the newest calls."""
    if keep == 0:
        return len(state.turns)
    return state.deeds[-keep].turn if len(state.deeds) >= keep else 1


def _body(state: ContextState, place: int) -> str:
    deeds = state.deeds[: before(state, place)]
    sections = {
        "What persons said since the task was given": [*find_said(state.turns[1:place])],
        "The committed plan": [state.plan] if state.plan else [],
        "Files": [files(deeds)],
        "Tests and builds, as each ended when it was last run": outcomes(deeds),
        "What failed lately": failures(deeds),
        "The whole results of what was dropped are in": [state.archive] if state.archive else [],
    }
    told = [f"## {heading}\n" + "\n".join(lines) for heading, lines in sections.items() if lines]
    return "\n\n".join([f"{_LABEL} {len(deeds)} calls were made.", *told])


def _carried(edit: Edit) -> list[str]:
    """Return what another profile put in the head, or what was carried over already."""
    texts = [part.text for turn in edit.head for part in turn.parts if isinstance(part, Text)]
    if texts and texts[0].startswith(_LABEL):
        return [text for text in texts[1:] if text.startswith(_CARRIED)]
    told = "\n\n".join(texts)[:_CARRIED_CHARACTERS]
    return [f"{_CARRIED}\n{told}"] if told else []
