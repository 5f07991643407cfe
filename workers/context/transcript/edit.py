"""Edits: what a model is shown in place of the beginning of its conversation, from one rebuild to the next."""

import json
from collections.abc import Mapping, Sequence

from pydantic import Field, JsonValue

from forgepool.workers.llm.messages import Part, Text, ToolCall, ToolResult, Turn
from forgepool.workers.schema.orders import Message


class Edit(Message):
    """An edit. It names turns by their index and exchanges by their step, the number of the call from 1."""

    cut: int = 1
    """The index of the first turn that is still shown after turn 0, an assistant's turn."""
    opening: int | None = None
    """Parts of the first turn still shown; None shows all. The first part is the task card."""
    head: tuple[Turn, ...] = ()
    """The turns that replace those cut out."""
    lasting: int = 0
    """Parts of the head's first turn that the next head will repeat, so that a cache may keep them."""
    results: Mapping[int, str] = Field(default_factory=dict)
    """Replacements for the texts of results, by step."""
    inputs: Mapping[int, Mapping[str, JsonValue]] = Field(default_factory=dict)
    """Replacements for the arguments of calls, by step."""

    @property
    def empty(self) -> bool:
        return self == _NONE


_NONE = Edit()


NOTES = ("frame", "checkpoint", "brief")
"""Tools of a lead whose calls are shown as long as its conversation lasts, like the task card."""


def show_turns(turns: Sequence[Turn], edit: Edit) -> list[Turn]:
    """
    Return the conversation as the edit shows it, in time linear in the shown turns and the cut calls.

    The notes of a lead that are cut out stand at the end of the first turn.
    """
    if not turns:
        return []
    cut = [call for turn in turns[: edit.cut] for call in turn.calls]
    notes = tuple(Text(text=f"Your `{call.name}`: {_as_text(call)}") for call in cut if call.name in NOTES)
    first = turns[0] if edit.opening is None else turns[0].model_copy(update={"parts": turns[0].parts[: edit.opening]})
    if notes:
        first = first.model_copy(update={"parts": (*first.parts, *notes)})
    step = len(cut)
    steps: dict[str, int] = {}
    found = [first, *edit.head]
    for turn in turns[edit.cut :]:
        for call in turn.calls:
            step += 1
            steps[call.id] = step
        found.append(replace_turn(turn, edit, steps))
    return found


def replace_turn(turn: Turn, edit: Edit, steps: Mapping[str, int]) -> Turn:
    """
    Return a turn with the edit's replacements, or the turn itself where there are none.

    `steps` holds the newest step of each call id up to this turn.
    """
    if not edit.results and not edit.inputs:
        return turn
    parts = [_replaced(part, edit, steps) for part in turn.parts]
    if all(new is part for new, part in zip(parts, turn.parts, strict=True)):
        return turn
    return turn.model_copy(update={"parts": tuple(parts)})


def _replaced(part: Part, edit: Edit, steps: Mapping[str, int]) -> Part:
    match part:
        case ToolResult(call_id=call_id) if (step := steps.get(call_id, 0)) in edit.results:
            return part.model_copy(update={"text": edit.results[step]})
        case ToolCall(id=call_id, name=name) if (step := steps.get(call_id, 0)) in edit.inputs and name not in NOTES:
            return part.model_copy(update={"arguments": edit.inputs[step]})
        case _:
            return part


def _as_text(call: ToolCall) -> str:
    return json.dumps(dict(call.arguments), ensure_ascii=False)
