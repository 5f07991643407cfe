"""
An edit: what a model is shown in place of the beginning of its conversation, from one rebuild to the next.
"""

from collections.abc import Mapping, Sequence

from pydantic import Field, JsonValue

from forgepool.workers.llm.messages import Part, ToolCall, ToolResult, Turn
from forgepool.workers.schema.orders import Message


class Edit(Message):
    """
    Turns are named by their place in the conversation, exchanges by their step: the number of the call in the
    conversation, from 1.
    """

    cut: int = 1
    """The place of the first turn that is still shown, an assistant's, beside the first turn of all."""
    opening: int | None = None
    """How many parts of the first turn are still shown; None is all of them. The first part is the task card."""
    head: tuple[Turn, ...] = ()
    """Shown after the first turn, in place of those cut out."""
    lasting: int = 0
    """How many parts of the head's first turn will be in the next head, too: a cache may keep what ends there."""
    results: Mapping[int, str] = Field(default_factory=dict)
    """By step: what is shown in place of a result's text."""
    inputs: Mapping[int, Mapping[str, JsonValue]] = Field(default_factory=dict)
    """By step: what is shown in place of a call's arguments."""

    @property
    def empty(self) -> bool:
        return self == _NONE


_NONE = Edit()


def show_turns(turns: Sequence[Turn], edit: Edit) -> list[Turn]:
    """The conversation with the edit in force. Pure; linear in what is shown and in the calls of what is cut."""
    if not turns:
        return []
    first = turns[0] if edit.opening is None else turns[0].model_copy(update={"parts": turns[0].parts[: edit.opening]})
    step = sum(len(turn.calls) for turn in turns[: edit.cut])
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
    One turn with the edit's texts and arguments; the turn itself where these are none of it. `steps` has the newest
    step of each call id up to this turn.
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
        case ToolCall(id=call_id) if (step := steps.get(call_id, 0)) in edit.inputs:
            return part.model_copy(update={"arguments": edit.inputs[step]})
        case _:
            return part
