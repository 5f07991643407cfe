"""
Masks, cuts and replacements: edits that shorten what a model has seen, on top of the edit in force.

They touch only results that the model has answered, and cut at a turn of the model. So no call loses its result, and
nothing unseen is hidden. A replacement puts one summary in place of everything before a cut.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from forgepool.workers.context.edits.state import (
    ContextState,
    EditProposal,
    Moment,
    SummaryQuestion,
    SummaryReply,
    nobody,
)
from forgepool.workers.context.shorten.new_results import bases, mend_edit
from forgepool.workers.context.transcript.actions import Deed
from forgepool.workers.context.transcript.edit import Edit, show_turns
from forgepool.workers.context.transcript.usage import Gauge, lengths
from forgepool.workers.llm.messages import Text, Turn, user

HARNESS = "[the harness]"
"""The beginning of messages on the user's side that no person wrote."""
FILES_TITLE = "## Files as they were read"
"""The beginning of the part of a first turn that holds files."""
SURVEY_TITLE = "## Survey of the repository"
"""The beginning of the part of a first turn that all tasks of a run have, before the task card."""


def begins_with_survey(turns: Sequence[Turn]) -> bool:
    """Tell whether the first part of the conversation is the run's survey, which the task card follows."""
    first = turns[0].parts[:1] if turns else ()
    return any(isinstance(part, Text) and part.text.startswith(SURVEY_TITLE) for part in first)


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


LABEL = f"{HARNESS} What follows stands in place of the earlier messages; the task card above stays as it is."
LEAST_MESSAGES = 6
_LEAST_HIDDEN = 2
_FORCED = frozenset({"overflow", "wish"})
_KEPT_IN_NEED = 2
"""Turns kept after an overflow: the last calls and their results."""
_STEPS = 20
"""The fraction of the trigger by which the view must grow before a fruitless attempt is repeated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    cut: int
    why: str
    """The reason as a clause."""
    attempt: str
    """A name for `EditProposal.once` after a fruitless attempt. It changes once the view has grown by a twentieth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """
    A threshold in tokens of the whole request.

    After a rebuild it acts again once so much was added as lies between `reset` and `trigger`, or half of the free
    window. So a rebuild that could not get below `reset` does not repeat before every call.
    """

    name: str
    trigger: float
    reset: float
    keep: int

    def due(self, state: ContextState, moment: Moment) -> Due | None:
        """
        Return the replacement now due. An overflow and the agent's own request need no threshold.

        It follows from the sizes in the state alone, so that another process decides the same.
        """
        forced = moment.cause in _FORCED
        taken = count_taken_tokens(state, state.shown_characters)
        if len(state.shown_sizes) < LEAST_MESSAGES or not (forced or self._over(state, taken)):
            return None
        place = boundary(state.turns, _KEPT_IN_NEED if moment.cause == "overflow" else self.keep)
        band = int(_STEPS * (taken - self.trigger) / self.trigger)
        attempt = f"{self.name} {moment.cause if forced else 'call'} {state.rebuilds}.{band}"
        if attempt in moment.fired or not self._worthwhile(state, place, forced=forced):
            return None
        return Due(cut=place, why=self._why(moment, taken), attempt=attempt)

    def _why(self, moment: Moment, taken: int) -> str:
        match moment.cause:
            case "overflow":
                return "the conversation did not fit into the model's window"
            case "wish":
                return "the agent wished it"
            case _:
                return f"a request takes about {taken:,} tokens, and {self.trigger:,.0f} are the limit"

    def _over(self, state: ContextState, taken: int) -> bool:
        if taken <= self.trigger:
            return False
        if state.edit.empty:
            return True
        # In most conversations every other turn is the assistant's, and what is kept begins with one.
        kept = 1 + len(state.edit.head) + self.keep + self.keep % 2
        after = count_taken_tokens(state, sum(state.shown_sizes[:kept]))
        enough = min(self.trigger - self.reset, (state.gauge.window_tokens - after) / 2)
        return taken - after >= enough

    def _worthwhile(self, state: ContextState, place: int, *, forced: bool) -> bool:
        hidden = place - state.edit.cut
        if hidden < _LEAST_HIDDEN:
            return False
        freed = sum(state.shown_sizes[1 : 1 + len(state.edit.head) + hidden])
        return forced or state.gauge.tokens(freed) >= self.trigger / _STEPS


def of_window(
    name: str, state: ContextState, *, trigger: float, reset: float, keep: int, trigger_tokens: int | None = None
) -> Threshold:
    """Return a threshold from shares of the window; `trigger_tokens` moves both in proportion."""
    above = float(trigger_tokens) if trigger_tokens is not None else trigger * state.gauge.window_tokens
    return Threshold(name=name, trigger=above, reset=above * reset / trigger, keep=keep)


def characters(gauge: Gauge, tokens: float) -> int:
    """Return about how many characters so many tokens have."""
    return int(tokens * 1_000_000 / max(1, gauge.tokens(1_000_000)))


def count_taken_tokens(state: ContextState, characters: int) -> int:
    """Estimate the tokens of a request with so many characters of history."""
    return state.gauge.tokens(state.gauge.fixed_characters + characters)


def boundary(turns: Sequence[Turn], keep: int) -> int:
    """
    Return the index of the assistant's turn from which everything is kept; at most 1 where nothing comes before it.

    These are the last `keep` turns, and the calls whose results they begin with.
    """
    place = len(turns) - max(keep, _KEPT_IN_NEED)
    while place > 1 and turns[place - 1].role == "assistant":
        place -= 1
    return place


def label_text(state: ContextState, text: str) -> str:
    """Return the harness's message in place of what is cut, with the folder of the whole results."""
    where = f" The whole result of step N: {state.archive}/step-N.txt." if state.archive else ""
    return f"{LABEL}{where}\n\n{text}"


def settle_replacement(
    state: ContextState,
    due: Due,
    text: str,
    *,
    why: str,
    replies: tuple[SummaryReply, ...] = (),
    first: tuple[Turn, ...] = (),
) -> EditProposal:
    """Propose the replacement after the turns `first`, or no change where it would not shorten the view."""
    edit = cut(state, due.cut, label_text(state, text))
    edit = edit.model_copy(update={"head": (*first, *edit.head)})
    if lengths(show_turns(state.turns, edit)) >= state.shown_characters:
        return keep_unchanged(state, due, "what would stand in place of the earlier messages is not shorter", replies)
    return EditProposal(edit=edit, why=f"{due.why}: {why}", replies=find_given_replies(replies))


def keep_unchanged(state: ContextState, due: Due, why: str, replies: tuple[SummaryReply, ...]) -> EditProposal:
    return EditProposal(
        edit=state.edit, why=f"{due.why}, but {why}", once=due.attempt, replies=find_given_replies(replies)
    )


def find_given_replies(replies: Iterable[SummaryReply]) -> tuple[SummaryReply, ...]:
    """Return the replies of models, leaving out those for which no model was set."""
    absent = nobody(SummaryQuestion(kind="prose", instruction=""))
    return tuple(reply for reply in replies if reply != absent)
