"""
Masks and cuts: edits that shorten what a model has seen, on top of the edit in force.

They touch only results that the model has answered, and cut at a turn of the model. So no call loses its result, and
nothing unseen is hidden.
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
"""The beginning of messages on the user's side that no person wrote."""
FILES_TITLE = "## Files as they were read"
"""The beginning of the part of a first turn that holds files."""


def find_answered_turn(turns: Sequence[Turn]) -> int:
    """Return the index of the model's last turn; 0 where it has none."""
    return next((place for place in range(len(turns) - 1, 0, -1) if turns[place].role == "assistant"), 0)


def find_seen(state: ContextState, *, keep: int = 0) -> Sequence[Deed]:
    """
    Return the shown deeds whose results the model has answered, oldest first, without the newest `keep` deeds of all.
    """
    first = bisect_left(state.deeds, state.edit.cut, key=_turn)
    end = min(len(state.deeds) - keep, before(state, find_answered_turn(state.turns)))
    return state.deeds[first : max(first, end)]


def before(state: ContextState, place: int) -> int:
    """Return how many deeds come before a turn, which is also the step of the last of them."""
    return bisect_left(state.deeds, place, key=_turn)


def text_of(state: ContextState, deed: Deed) -> str:
    """Return the text now shown for a deed's result."""
    return state.edit.results.get(deed.step, deed.result.text)


def mask_steps(
    state: ContextState, texts: Mapping[int, str], inputs: Mapping[int, Mapping[str, JsonValue]] | None = None
) -> Edit:
    """
    Add these texts and arguments, by step, to the edit in force.

    A result that refers to a masked one is not restored: it is as old, and as little needed.
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
    """Return how many characters these texts save."""
    return sum(len(text_of(state, state.deeds[step - 1])) - len(text) for step, text in texts.items())


def cut(state: ContextState, place: int, *said: str) -> Edit:
    """
    Cut everything before the model's turn at `place`, except the task card, and put the harness's words in its place.
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
    """Return the characters an edit shows, including whole results that referred to something it drops."""
    return lengths(show_turns(state.turns, mend_edit(edit, state.deeds)))


def find_needed(state: ContextState, old: Sequence[Deed]) -> set[int]:
    """Return the steps that results newer than `old` refer to, which must not be masked."""
    return {step for deed in state.deeds[old[-1].step :] for step in bases(deed)} if old else set()


def _turn(deed: Deed) -> int:
    return deed.turn
