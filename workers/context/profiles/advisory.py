"""
`advisory`: nothing is removed unless the agent asks for it with the tool `compact`; and then only noise.

Noise is what nobody needs to read again: confirmations, results that a later one has replaced, listings of what has
changed since. Data in use is none, however much of it there is. At a certain share of the window the agent is told how
full it is (`nudge`), and does what it thinks right.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from forgepool.workers.context.edits.masks import HARNESS, count_freed, mask_steps
from forgepool.workers.context.edits.pressure import Ladder, Pressure
from forgepool.workers.context.edits.state import ContextState, EditProposal, Moment, SummaryQuestion, SummaryReply
from forgepool.workers.context.profiles.shared.noise import noise
from forgepool.workers.context.profiles.shared.prose import strange
from forgepool.workers.context.transcript.edit import Edit
from forgepool.workers.context.transcript.exchanges import text_argument
from forgepool.workers.llm.messages import Text, Turn, user
from forgepool.workers.tools.endings import COMPACT

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
    """Once told, it is told again only after the share was below this."""
    least: float = 0.05
    """Of what is shown: noise that is not worth the rewriting of what follows it."""
    brief: bool = False
    """Whether a model is asked for a short account of where the work stands, too."""

    @property
    def name(self) -> str:
        return "advisory"

    def nudge(self, state: ContextState) -> str | None:
        """What is to be said to the agent now, once on the way up. That it was said is read from the conversation."""
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
                edit=state.edit, why=f"nothing is removed: {gain / max(1, size):.0%} of what is shown is noise"
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
        """A nudge that is still shown holds until a rebuild has made what led up to it small."""
        place = _nudged(state.turns, state.edit.cut)
        if place is None:
            return Pressure()
        end = 1 + len(state.edit.head) + place - state.edit.cut + 1 if place else 1
        share = state.gauge.share(sum(state.shown_sizes[:end]))
        return Pressure(level="nudge", armed=False) if share >= self.reset else Pressure()


def _nudged(turns: Sequence[Turn], cut: int) -> int | None:
    """The place of the newest turn still shown in which the agent was told."""
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
    """The brief, cut after a whole sentence where it is too long; or nothing, and what is wrong with the reply."""
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
    """At the end of what is told at the beginning, in place of an earlier brief."""
    kept = [turn for turn in edit.head if not turn.text.startswith(_BRIEF)]
    return edit.model_copy(update={"head": (*kept, user(Text(text=f"{_BRIEF}\n{told}")))})
