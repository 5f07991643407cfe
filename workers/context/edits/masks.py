"""
Masks and cuts: the edits by which profiles shorten what a model has seen, made over the edit in force.

Only results that the model has answered to are ever touched, and a cut falls on a turn of the model's: no call loses
its result, and nothing unseen is hidden.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from forgepool.workers.context.edits.state import ContextState
from forgepool.workers.context.shorten.new_results import bases, mend_edit
from forgepool.workers.context.transcript.actions import Deed
from forgepool.workers.context.transcript.edit import Edit, show_turns
from forgepool.workers.context.transcript.usage import lengths
from forgepool.workers.llm.messages import Text, Turn, user

HARNESS = "[the harness]"
"""Begins whatever is said on the user's side by no person."""
FILES_TITLE = "## Files as they were read"
"""Begins the part of a first turn that holds texts of files."""


def find_answered_turn(turns: Sequence[Turn]) -> int:
    """The place of the model's last turn; 0 where it has none."""
    return next((place for place in range(len(turns) - 1, 0, -1) if turns[place].role == "assistant"), 0)


def find_seen(state: ContextState, *, keep: int = 0) -> Sequence[Deed]:
    """Those still shown whose results the model has answered to, oldest first, without the newest `keep` of all."""
    first = bisect_left(state.deeds, state.edit.cut, key=_turn)
    end = min(len(state.deeds) - keep, before(state, find_answered_turn(state.turns)))
    return state.deeds[first : max(first, end)]


def before(state: ContextState, place: int) -> int:
    """How many deeds have their calls in turns before a place; the step of the last of them."""
    return bisect_left(state.deeds, place, key=_turn)


def text_of(state: ContextState, deed: Deed) -> str:
    """What is shown now of its result."""
    return state.edit.results.get(deed.step, deed.result.text)


def mask_steps(
    state: ContextState, texts: Mapping[int, str], inputs: Mapping[int, Mapping[str, JsonValue]] | None = None
) -> Edit:
    """
    The edit in force, and these texts and arguments by step; the newest are its mappings' last.

    A result that refers to a masked one is not made whole for that: it is as old, and as little needed.
    """
    kept = {step: text for step, text in state.edit.results.items() if step not in texts}
    first = min(texts, default=len(state.deeds))
    left = {
        deed.step: deed.result.text
        for deed in state.deeds[first:]
        if deed.step not in kept and any(step in texts for step in bases(deed))
    }
    return state.edit.model_copy(
        update={"results": {**kept, **left, **texts}, "inputs": {**state.edit.inputs, **(inputs or {})}}
    )


def count_freed(state: ContextState, texts: Mapping[int, str]) -> int:
    """Characters by which these texts are shorter than what is shown now."""
    return sum(len(text_of(state, state.deeds[step - 1])) - len(text) for step, text in texts.items())


def cut(state: ContextState, place: int, *said: str) -> Edit:
    """
    From the model's turn at `place` on all stays as it is shown now; before it the task card, and what the harness
    says.
    """
    last = before(state, place)
    return Edit(
        cut=place,
        opening=state.edit.opening,
        head=(user(*(Text(text=text) for text in said)),),
        results={step: text for step, text in state.edit.results.items() if step > last},
        inputs={step: given for step, given in state.edit.inputs.items() if step > last},
    )


def size(state: ContextState, edit: Edit) -> int:
    """Characters of the view with an edit in force, and whole what refers to what it drops."""
    return lengths(show_turns(state.turns, mend_edit(edit, state.deeds)))


def find_needed(state: ContextState, old: Sequence[Deed]) -> set[int]:
    """Steps to which results newer than all of `old` refer: they are not to be masked."""
    return {step for deed in state.deeds[old[-1].step :] for step in bases(deed)} if old else set()


def _turn(deed: Deed) -> int:
    return deed.turn
