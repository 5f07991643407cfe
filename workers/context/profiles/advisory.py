"""
`advisory`: removes only noise, and only when the agent asks for it with the tool `compact`.

Noise is confirmations, results that a later one replaces, and outdated listings; never data in use, however large. From
a certain share of the window on, the agent is told how full it is (`nudge`).
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from forgepool.workers.context.edits.masks import HARNESS, count_freed, find_seen, mask_steps, text_of
from forgepool.workers.context.edits.prose import strange
from forgepool.workers.context.edits.state import (
    ContextState,
    EditProposal,
    Ladder,
    Moment,
    Pressure,
    SummaryQuestion,
    SummaryReply,
)
from forgepool.workers.context.shorten.new_results import bases
from forgepool.workers.context.transcript.actions import Deed
from forgepool.workers.context.transcript.edit import Edit
from forgepool.workers.context.transcript.exchanges import text_argument
from forgepool.workers.llm.messages import Text, Turn, user
from forgepool.workers.shell.purpose.file_access import Read
from forgepool.workers.tools.endings import COMPACT

_DONE = "[done]"
_OUTDATED = "[a listing; files were created, moved or deleted since]"
_LISTINGS = {"glob", "list", "ls", "list_dir", "list_files"}
_LISTING_COMMAND = re.compile(r"(?:ls|tree|find|fd|git ls-files)\b[^|;&<>$`\n]*")
_ASIDE = {"description", "timeout", "timeout_s"}
"""Arguments that do not change what a call does."""
_ENDING_EITHER_WAY = ("test", "build", "run")
"""Actions whose failure is an outcome as well, and replaces an earlier one."""


@dataclass(slots=True)
class _Later:
    """The deeds after a deed, which may have made it noise. Deeds are taken newest first."""

    calls: dict[str, int] = field(default_factory=dict)
    """The newest step of each call."""
    reads: dict[str, list[tuple[Read, int]]] = field(default_factory=dict)
    """Reads of each path, newest first."""
    moved: bool = False
    """Files were created, moved or deleted."""

    def take(self, deed: Deed, *, in_full: bool) -> None:
        self.moved = self.moved or any(write.how != "edit" for write in deed.writes)
        if not in_full or (deed.failed and deed.action not in _ENDING_EITHER_WAY) or _told_nothing(deed):
            return
        self.calls.setdefault(_called(deed), deed.step)
        if deed.action == "read":
            for read in deed.reads:
                self.reads.setdefault(read.path, []).append((read, deed.step))

    def replaces(self, deed: Deed) -> str:
        """Return the text to show for a deed; empty where it is no noise."""
        if _confirms(deed):
            return _DONE
        if deed.action in ("write", "end"):
            return ""
        step = self.calls.get(_called(deed)) or self._read_again(deed)
        if step is not None:
            return f"[superseded by step {step}]"
        return _OUTDATED if self.moved and _lists(deed) else ""

    def _read_again(self, deed: Deed) -> int | None:
        """Return the newest of the steps that together read again all it read."""
        if deed.action != "read" or not deed.reads:
            return None
        steps = [self._covering(read) for read in deed.reads]
        return max((step for step in steps if step is not None), default=None) if None not in steps else None

    def _covering(self, read: Read) -> int | None:
        return next((step for other, step in self.reads.get(read.path, ()) if _covers(other, read)), None)


def noise(state: ContextState) -> dict[int, str]:
    """Return the texts, by step, to show in place of noise, each shorter than the text shown now."""
    spared = {step for deed in state.deeds for step in bases(deed)}
    candidates = {deed.step for deed in find_seen(state)} - spared
    later = _Later()
    found: dict[int, str] = {}
    for deed in reversed(state.deeds):
        text = later.replaces(deed) if deed.step in candidates else ""
        if text and len(text) < len(text_of(state, deed)):
            found[deed.step] = text
        later.take(deed, in_full=deed.step not in state.edit.results and deed.result.text == deed.whole)
    return found


def _confirms(deed: Deed) -> bool:
    """Report whether a result only confirms the call. The output of a command is data, whatever it says."""
    if deed.failed or deed.result.is_error:
        return False
    return deed.call.name == COMPACT or (deed.action == "write" and not deed.command and not deed.reads)


def _told_nothing(deed: Deed) -> bool:
    """Report whether a call was refused or never run, so that an earlier result of it still holds."""
    return deed.result.is_error and deed.status is None


def _lists(deed: Deed) -> bool:
    if deed.command:
        return _LISTING_COMMAND.fullmatch(deed.command.strip()) is not None
    return deed.call.name in _LISTINGS


def _covers(other: Read, read: Read) -> bool:
    """Report whether one read covers another. A read without lines may show one page only."""
    if read.part or other.part:
        return False
    if read.whole or other.whole:
        return read.whole and other.whole
    return (other.first or 1) <= (read.first or 1) and _last(other) >= _last(read)


def _last(read: Read) -> float:
    return float("inf") if read.last is None else read.last


def _called(deed: Deed) -> str:
    given = {key: value for key, value in deed.call.arguments.items() if key not in _ASIDE}
    return f"{deed.call.name} {json.dumps(given, sort_keys=True)}"


_NUDGE = f"{HARNESS} The context is"
_BRIEF = f"{HARNESS} Where the work stands, as a model summed it up when the agent asked for it:"
_BRIEF_WORDS = 150
_BRIEF_CHARACTERS = 2_000
_BRIEF_TOKENS = 400
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Advisory:
    threshold: float = 0.50
    """The share of the window from which the agent is told."""
    reset: float = 0.40
    """The share below which the agent may be told again."""
    least: float = 0.05
    """The smallest share of noise that is worth rewriting what follows it."""
    brief: bool = False
    """Ask a model for a short account of the work as well."""

    @property
    def name(self) -> str:
        return "advisory"

    def nudge(self, state: ContextState) -> str | None:
        """
        Return the message to send now, if any: one each time the share rises. The conversation tells whether it was
        sent.
        """
        share = state.share
        if share < self.threshold:
            return None
        ladder = Ladder(rungs=(("nudge", self.threshold),), reset=self.reset)
        if not ladder.after(self._before(state), share).fires:
            return None
        return (
            f"{_NUDGE} {share:.0%} full. Nothing is removed unless you ask for it: if much of what lies behind you is "
            f"machinery and not data, and you are not in the middle of an analysis, call `{COMPACT}`."
        )

    def propose(self, state: ContextState, moment: Moment) -> EditProposal | None:
        if moment.cause != "wish":
            return None
        texts = noise(state)
        gain, size = count_freed(state, texts), state.shown_characters
        if gain <= self.least * size:
            return EditProposal(
                edit=state.edit, why=f"nothing is removed: {gain / max(1, size):.0%} of the view is noise"
            )
        edit = mask_steps(state, texts)
        why = f"{len(texts)} results that were noise are removed, {gain / size:.0%} of what was shown"
        if not self.brief:
            return EditProposal(edit=edit, why=why)
        reply = moment.ask(_question(state))
        told, fault = _brief(reply)
        if told and (wrong := strange(told, state)) is not None:
            told, fault = "", wrong
        if told and len(_BRIEF) + len(told) >= gain:
            told, fault = "", "it is longer than what was removed"
        if not told:
            return EditProposal(edit=edit, why=f"{why}; no brief: {fault}", replies=(reply,))
        return EditProposal(edit=_with_brief(edit, told), why=f"{why}; with a brief", replies=(reply,))

    def _before(self, state: ContextState) -> Pressure:
        """Return the pressure before this call: a shown nudge holds until a rebuild shrinks what came before it."""
        place = _nudged(state.turns, state.edit.cut)
        if place is None:
            return Pressure()
        end = 1 + len(state.edit.head) + place - state.edit.cut + 1 if place else 1
        share = state.gauge.share(sum(state.shown_sizes[:end]))
        return Pressure(level="nudge", armed=False) if share >= self.reset else Pressure()


def _nudged(turns: Sequence[Turn], cut: int) -> int | None:
    places: list[int] = [*range(len(turns) - 1, cut - 1, -1), 0]
    for place in places:
        turn = turns[place]
        if turn.role == "user" and any(isinstance(each, Text) and each.text.startswith(_NUDGE) for each in turn.parts):
            return place
    return None


def _question(state: ContextState) -> SummaryQuestion:
    reasons = (
        text_argument(deed.call.arguments, "reason") for deed in reversed(state.deeds) if deed.call.name == COMPACT
    )
    reason = next(reasons, "")
    return SummaryQuestion(
        kind="brief",
        instruction=(
            "Say where the work stands, for the agent that goes on with it: what is known, what was decided and why, "
            f"what is still open. 50 to 100 words, never more than {_BRIEF_WORDS}, in plain sentences, nothing else."
            + (f" The agent asked for it with this reason: {reason}" if reason else "")
        ),
        max_output_tokens=_BRIEF_TOKENS,
    )


def _brief(reply: SummaryReply) -> tuple[str, str]:
    """Return the brief, cut to whole sentences, or nothing and the fault of the reply."""
    kept: list[str] = []
    for sentence in _SENTENCE_END.split(reply.text.strip()):
        if sum(len(each.split()) for each in [*kept, sentence]) > _BRIEF_WORDS:
            break
        kept.append(sentence)
    text = " ".join(kept)
    if not text:
        return "", reply.why_not or ("it is one sentence too long" if reply.text.strip() else "the answer is empty")
    return (text, "") if len(text) <= _BRIEF_CHARACTERS else ("", "its words are too long to be any")


def _with_brief(edit: Edit, told: str) -> Edit:
    """Put the brief at the end of the head, in place of an earlier one."""
    kept = [turn for turn in edit.head if not turn.text.startswith(_BRIEF)]
    return edit.model_copy(update={"head": (*kept, user(Text(text=f"{_BRIEF}\n{told}")))})
