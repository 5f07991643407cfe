"""
The replacement of a conversation's beginning by a summary: when it is due, and its edit.

The summary is the harness's message after the task card, and what remains begins with an assistant's turn. So the sides
alternate, and no call loses its result.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from forgepool.workers.context.edits.masks import HARNESS, cut
from forgepool.workers.context.edits.state import (
    ContextState,
    EditProposal,
    Moment,
    SummaryQuestion,
    SummaryReply,
    nobody,
)
from forgepool.workers.context.transcript.edit import show_turns
from forgepool.workers.context.transcript.usage import Gauge, lengths
from forgepool.workers.llm.messages import Turn

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
