"""The rules of a lead: from its transcript, which of its tools it may call now. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

from forgepool.workers.context.transcript.edit import NOTES
from forgepool.workers.context.transcript.entries import Answered, Entry, Finished, TurnSaid
from forgepool.workers.llm.messages import ToolCall
from forgepool.workers.schema.reports import LeadNote, LeadReply, NoteKind

RESULTS_TO_CHECKPOINT = 2
"""Results that a lead may collect before it must say what they change."""
_NEVER_REFUSED = ("checkpoint", "read_result")


@dataclass(slots=True, kw_only=True)
class LeadStanding:
    """The state of a lead's work, as read from its transcript."""

    notes: list[LeadNote] = field(default_factory=list)
    asked: int = 0
    """The highest number of a request or a reply."""
    unweighed: list[str] = field(default_factory=list)
    """Tasks collected since the last checkpoint."""
    briefed: bool = False
    """True when the last brief is newer than the last result."""
    open: tuple[str, ...] = ()
    """Tasks whose results are still to be collected, as of the last reply."""
    has_tasks: bool = False
    """True when its run has other tasks."""

    @property
    def framed(self) -> bool:
        return any(note.kind == "frame" for note in self.notes)

    def hear(self, reply: LeadReply) -> None:
        self.asked = max(self.asked, reply.number)
        self.unweighed += [result.task for result in reply.results]
        self.briefed = self.briefed and not reply.results
        self.open = reply.open
        self.has_tasks = self.has_tasks or bool(reply.open or reply.results)

    def note(self, note: LeadNote) -> None:
        self.notes.append(note)
        if note.kind == "checkpoint":
            self.unweighed = []
        self.briefed = self.briefed or note.kind == "brief"


def read_standing(entries: Sequence[Entry], replies: Sequence[LeadReply] = ()) -> LeadStanding:
    """
    Return the standing of a lead after these entries.

    `replies` are those of its order: their numbers are taken, and the one numbered 0 tells the plan it began with.
    """
    standing = LeadStanding(asked=max((reply.number for reply in replies), default=0))
    for reply in replies:
        if reply.number == 0:
            standing.hear(reply)
    calls: dict[str, ToolCall] = {}
    for entry in entries:
        match entry:
            case TurnSaid(turn=turn, reply=heard):
                calls |= {call.id: call for call in turn.calls if call.name in NOTES}
                if heard is not None:
                    standing.hear(heard)
            case Answered(result=result) if not result.is_error and result.call_id in calls:
                standing.note(_note(calls.pop(result.call_id), entry.at))
            case Finished(request=request) if request is not None:
                standing.asked = max(standing.asked, request.number)
            case _:
                pass
    return standing


def _note(call: ToolCall, at: float) -> LeadNote:
    parts = {name: tuple(map(str, said)) for name, said in call.arguments.items() if isinstance(said, list) and said}
    return LeadNote(kind=cast(NoteKind, call.name), at=at, parts=parts)


def find_refusal(tool: str, standing: LeadStanding) -> str | None:
    """Return why this tool may not be called now, with what comes first; None where it may."""
    if len(standing.unweighed) >= RESULTS_TO_CHECKPOINT and tool not in _NEVER_REFUSED:
        named = ", ".join(standing.unweighed)
        return f"{len(standing.unweighed)} results are collected ({named}); call `checkpoint` first"
    match tool:
        case "dispatch" if not standing.framed:
            return "there is no frame yet; call `frame` first"
        case "synthesize" if not standing.has_tasks:
            return "nothing is dispatched; end with `answer`"
        case "synthesize" if standing.open:
            return f"not collected yet: {', '.join(standing.open)}; collect them, or cancel what is not needed"
        case "synthesize" if not standing.briefed:
            return "there is no brief that is newer than the last result; call `brief` first"
        case "answer" if standing.has_tasks:
            return "the run has other tasks; end with `brief`, then `synthesize`"
        case _:
            return None
