"""
What every view must be, whatever profile made it: the conversation's first words, each call with its one result, and
everything the model has not yet seen.
"""

from collections.abc import Iterator, Sequence

from forgepool.workers.context.transcript.edit import Edit, show_turns
from forgepool.workers.llm.messages import Turn


def wrong(turns: Sequence[Turn], edit: Edit, lengthened: frozenset[int] = frozenset()) -> str | None:
    """
    Why the conversation cannot be shown with this edit, in a sentence; None where it can.

    `lengthened`: steps whose results are shown whole instead of as they were born, which hides nothing from anybody.
    """
    return next(_faults(turns, edit, lengthened), None)


def _faults(turns: Sequence[Turn], edit: Edit, lengthened: frozenset[int]) -> Iterator[str]:
    last = _last_of_model(turns)
    if not 1 <= edit.cut <= max(1, last):
        yield "it would cut away the model's last turn, or the task"
        return
    if edit.cut > 1 and turns[edit.cut].role != "assistant":
        yield "what follows the cut does not begin with a turn of the model"
    view = show_turns(turns, edit)
    if view[0].role != "user" or view[0].parts[:1] != turns[0].parts[:1]:
        yield "it does not begin with the task card"
    seen = sum(len(turn.calls) for turn in turns[:last])
    changed = {*edit.results.keys() - lengthened, *edit.inputs}
    if any(step > seen for step in changed) or (not last and not edit.empty):
        yield "it would change what the model has not yet seen"
    yield from _unpaired(view)


def _unpaired(view: Sequence[Turn]) -> Iterator[str]:
    waiting: list[str] = []
    for turn in view:
        if turn.role == "assistant":
            yield from _unanswered(waiting)
            waiting = [call.id for call in turn.calls]
            continue
        for result in turn.results:
            if result.call_id not in waiting:
                yield f"the result of {result.call_id} has no call before it"
            else:
                waiting.remove(result.call_id)
    yield from _unanswered(waiting)


def _unanswered(calls: Sequence[str]) -> Iterator[str]:
    if calls:
        yield f"the call {calls[0]} has no result"


def _last_of_model(turns: Sequence[Turn]) -> int:
    return next((place for place in range(len(turns) - 1, -1, -1) if turns[place].role == "assistant"), 0)
