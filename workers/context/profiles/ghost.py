"""
`ghost`: masks everything before the current turn when the window is nearly full. If that is not enough, a model
summarises it under five headings.

It differs from the publication where that fails. No placeholder is longer than its result. The current turn of an agent
working alone is its latest exchanges. A failed summary is not requested again before every call.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from forgepool.workers.context.edits.ledger import by_person, files
from forgepool.workers.context.edits.masks import (
    HARNESS,
    before,
    count_freed,
    cut,
    find_answered_turn,
    find_needed,
    mask_steps,
    size,
    text_of,
)
from forgepool.workers.context.edits.prose import OVERRIDES, honest, list_endings, strange, words
from forgepool.workers.context.edits.state import ContextState, EditProposal, Moment, SummaryQuestion, SummaryReply
from forgepool.workers.context.transcript.actions import Deed
from forgepool.workers.context.transcript.edit import Edit, show_turns
from forgepool.workers.context.transcript.usage import length, lengths
from forgepool.workers.llm.messages import Part, Text, ToolCall, ToolResult, Turn

_MEANINGS = {
    "Task": "what the person asked for, with every condition that was set",
    "Decisions": "what was chosen, and why",
    "State": "what is done, what is under way, what is left to do",
    "Files": "the path of every file that was read, created or changed",
    "Context": "names, preferences, findings and other details that the work still needs",
}
_HEADING = re.compile(
    rf"^ {{0,3}}#{{1,6}}[ \t]*\**({'|'.join(_MEANINGS)})\**:?\**[ \t]*$", re.MULTILINE | re.IGNORECASE
)
_WORD = re.compile(r"\w")
_LABEL = (
    f"{HARNESS} State of the work. A model wrote this summary of what came before this point; its files, and what "
    "follows its last section, are what the harness saw."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sections:
    task: str
    decisions: str
    state: str
    files: str
    context: str

    @property
    def used(self) -> str:
        """Return the parts of the model's answer that are used."""
        return "\n".join((self.task, self.decisions, self.state, self.context))

    def render_sections(self, state: ContextState, place: int) -> str:
        """Render the head that replaces everything before a turn. The model's list of files is not used."""
        deeds = state.deeds[: before(state, place)]
        claimed = map(honest, (self.task, self.decisions, self.state, self.context))
        bodies = [*claimed]
        bodies.insert(len(bodies) - 1, files(deeds))
        told = [f"## {heading}\n{body}" for heading, body in zip(_MEANINGS, bodies, strict=True)]
        planned = ["A plan was committed."] if state.plan else []
        if known := [*planned, *list_endings(state, place), *words(state, place)]:
            told.append("\n".join([OVERRIDES, *known]))
        if state.archive:
            told.append(f"The whole results of what was dropped are in {state.archive}.")
        return "\n\n".join([_LABEL, *told])


def instruction(more: str) -> str:
    added = f"\n\n{more}" if more else ""
    meanings = "\n".join(f"## {heading}\n({meaning})" for heading, meaning in _MEANINGS.items())
    return (
        "An agent will go on with the work below without seeing it again. Sum it up for that agent, in the third "
        "person and in the past tense. Use exactly these five headings, each once and on a line of its own; write "
        f"under every one of them, however little there is to say, and write nothing else:\n\n{meanings}{added}"
    )


def sections(text: str) -> Sections | str:
    """Read the five sections; or return the fault, as the end of a sentence about the summary."""
    pieces = _HEADING.split(text)
    found = {name.lower(): body.strip() for name, body in zip(pieces[1::2], pieces[2::2], strict=True)}
    if len(pieces) > 1 + 2 * len(found):
        return "it has a heading twice"
    for heading in _MEANINGS:
        if not _WORD.search(found.get(heading.lower(), "")):
            return f"its section '{heading}' is missing or empty"
    return Sections(**found)


_MASK = "[tool_result: "
_INPUT_CHARACTERS = 50_000
_OUTPUT_TOKENS = 2_048
_OUTPUT_CHARACTERS = 8 * _OUTPUT_TOKENS
_LEAST_CHARACTERS = 1_000
"""Characters below which a summary is not worth a request."""
_APART = 16
"""Turns between two requests, whatever their result; an overflow does not wait."""
_ASKED = re.compile(r"ghost: summary at turn (\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ghost:
    threshold: float = 0.85
    mask_preview_chars: int = 100
    """Bytes of the preview, in spite of the published name; no character is cut in two."""
    instructions: str = ""
    """Text added to the model's instruction."""
    boundary: Literal["loop", "turn"] = "loop"
    """The part never touched: the latest exchanges, or everything since a person's last message."""
    keep: int = 4
    """Exchanges kept by `loop`."""

    @property
    def name(self) -> str:
        return "ghost"

    def propose(self, state: ContextState, moment: Moment) -> EditProposal | None:
        forced = moment.cause == "overflow"
        if not forced and state.share <= self.threshold:
            return None
        place = self._place(state)
        edit, gain = self._masked(state, place)
        share = state.gauge.share(state.shown_characters - gain)
        why = f"masked what came before turn {place + 1}: {state.share:.0%} of the window, {share:.0%} now"
        once = _name(moment, place)
        if (not forced and share <= self.threshold) or not once or not _worth_asking(state, edit, place):
            return EditProposal(edit=edit, why=why) if gain > 0 else None
        reply = moment.ask(self._question(state, edit, place, once))
        summary, fault = _read(state, edit, place, reply)
        if summary is None:
            why = f"{why if gain > 0 else 'nothing is left to mask'}; no summary: {fault}"
            return EditProposal(edit=edit, why=why, once=once, replies=(reply,))
        why = f"what came before turn {place + 1} is summed up"
        return EditProposal(edit=summary, why=why, once=once, replies=(reply,))

    def _place(self, state: ContextState) -> int:
        """
        Return the index of the first turn of the model that stays; a message of a person keeps the results before it.
        """
        last = find_answered_turn(state.turns)
        kept = 1
        if self.boundary == "loop" and self.keep <= len(state.deeds):
            kept = min(last, state.deeds[-self.keep].turn) if self.keep else last
        spoken = (place for place in range(last + 1, kept + 1, -1) if _person_speaks(state.turns, place))
        return max(1, kept, min(last, next(spoken, 1) - 1))

    def _masked(self, state: ContextState, place: int) -> tuple[Edit, int]:
        """Mask old results and arguments. Return the edit and the characters it frees."""
        old = _old(state, place)
        spared = find_needed(state, old)
        texts = {deed.step: text for deed in old if deed.step not in spared and (text := self._shorter(state, deed))}
        calls = [deed.call for deed in old if deed.step not in state.edit.inputs and deed.call.arguments]
        steps = [deed.step for deed in old if deed.step not in state.edit.inputs and deed.call.arguments]
        gain = count_freed(state, texts) + sum(length(call) - len(call.name) for call in calls)
        if not texts and not steps:
            return state.edit, 0
        return mask_steps(state, texts, {step: {} for step in steps}), gain

    def _shorter(self, state: ContextState, deed: Deed) -> str:
        """Return the placeholder of a result; empty where it would not be shorter."""
        shown_now = text_of(state, deed)
        if len(shown_now) <= len(_MASK) or (deed.step in state.edit.results and shown_now.startswith(_MASK)):
            return ""
        error = " (error)" if deed.result.is_error else ""
        preview = deed.result.text.encode()[: self.mask_preview_chars].decode(errors="ignore")
        text = f"{_MASK}{deed.call.name}{error} — {preview} (truncated)]"
        return text if len(text) < len(shown_now) else ""

    def _question(self, state: ContextState, edit: Edit, place: int, once: str) -> SummaryQuestion:
        return SummaryQuestion(
            kind="sections",
            instruction=instruction(self.instructions),
            text="\n\n".join(_told(show_turns(state.turns[:place], edit)))[-_INPUT_CHARACTERS:],
            max_output_tokens=_OUTPUT_TOKENS,
            once=once,
        )


def _person_speaks(turns: Sequence[Turn], place: int) -> bool:
    if not 0 < place < len(turns) or turns[place].role != "user":
        return False
    return any(isinstance(part, Text) and by_person(part.text) for part in turns[place].parts)


def _old(state: ContextState, place: int) -> Sequence[Deed]:
    first, end = (bisect_left(state.deeds, at, key=lambda deed: deed.turn) for at in (state.edit.cut, place))
    return state.deeds[first : max(first, end)]


def _name(moment: Moment, place: int) -> str:
    """Name the request for a summary up to a turn; empty where one was made shortly before."""
    if moment.cause == "overflow":
        name = f"ghost: summary at turn {place}, overflow"
        return "" if name in moment.fired else name
    asked = [int(found[1]) for each in moment.fired if (found := _ASKED.match(each))]
    return "" if any(at <= place < at + _APART for at in asked) else f"ghost: summary at turn {place}"


def _worth_asking(state: ContextState, edit: Edit, place: int) -> bool:
    return place > edit.cut and lengths(show_turns(state.turns[:place], edit)[1:]) >= _LEAST_CHARACTERS


def _read(state: ContextState, edit: Edit, place: int, reply: SummaryReply) -> tuple[Edit | None, str]:
    """Return the edit made from a reply, or None and its fault."""
    if not reply.text.strip():
        return None, reply.why_not or "the model gave an empty answer"
    found = sections(reply.text)
    if not isinstance(found, Sections):
        return None, found
    if len(reply.text) > _OUTPUT_CHARACTERS:
        return None, "it is longer than it may be"
    if (wrong := strange(found.used, state)) is not None:
        return None, wrong
    summary = cut(state, place, found.render_sections(state, place))
    if size(state, summary) >= size(state, edit):
        return None, "it is longer than what it would replace"
    return summary, ""


def _told(turns: Sequence[Turn]) -> Iterator[str]:
    for turn in turns:
        for part in turn.parts:
            if text := _part(part, turn.role):
                yield text


def _part(part: Part, role: str) -> str:
    match part:
        case Text(text=text):
            return f"{role}: {text}"
        case ToolCall(name=name, arguments=arguments):
            return f"call: {name} {dict(arguments)}" if arguments else f"call: {name}"
        case ToolResult(text=text):
            return f"result: {text}"
        case _:
            return ""
