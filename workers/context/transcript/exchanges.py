"""
A transcript as what was asked for and what came of it: each tool call beside its one result.

Facts for whoever judges a conversation. Nothing here says what they mean, and nothing of it is taken from a view: what
a model is shown may lack half of it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from forgepool.workers.context.transcript.entries import Answered, ConversationStarted, Entry, TurnSaid
from forgepool.workers.llm.messages import ToolCall, ToolResult


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolExchange:
    iteration: int
    """The number of the model's turn it belongs to, from 1, counted over the entries given."""
    call: ToolCall
    result: ToolResult
    """As the tool gave it, whatever shorter the model was told."""

    @property
    def worked(self) -> bool:
        return not self.result.is_error


def exchanges(entries: Iterable[Entry]) -> list[ToolExchange]:
    """Oldest first. A call that was never answered, because the worker was killed, is none."""
    found: list[ToolExchange] = []
    iteration = 0
    waiting: dict[str, ToolCall] = {}
    for entry in entries:
        if isinstance(entry, TurnSaid) and entry.turn.role == "assistant":
            iteration += 1
            waiting = {call.id: call for call in entry.turn.calls}
        elif isinstance(entry, Answered) and (call := waiting.pop(entry.result.call_id, None)) is not None:
            found.append(ToolExchange(iteration=iteration, call=call, result=_whole(entry)))
    return found


def _whole(entry: Answered) -> ToolResult:
    return entry.result.model_copy(update={"text": entry.whole}) if entry.whole else entry.result


def iterations(entries: Iterable[Entry]) -> int:
    """How often the model has answered."""
    return sum(isinstance(entry, TurnSaid) and entry.turn.role == "assistant" for entry in entries)


def under_way(entries: Sequence[Entry]) -> Sequence[Entry]:
    """What was said since the conversation under way began."""
    for at in range(len(entries) - 1, -1, -1):
        if isinstance(entries[at], ConversationStarted):
            return entries[at:]
    return entries


def text_argument(arguments: Mapping[str, object], name: str) -> str:
    """An argument as text; empty where the model sent none, or something else."""
    value = arguments.get(name)
    return value if isinstance(value, str) else ""
