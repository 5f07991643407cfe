"""
Comparators: `clear`, `compact` and `condenser`, the published strategies of other agents.

`clear` blanks old results in batches. `compact` has a model summarise all but the last turns. `condenser` (OpenHands)
replaces the middle by one summary beyond 80 items, which are calls, results and messages. Here the task card is its
first item, and results stay with their calls. After an overflow only the card and the last exchange remain.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from forgepool.workers.context.edits.masks import (
    Due,
    boundary,
    characters,
    count_freed,
    find_needed,
    find_seen,
    keep_unchanged,
    mask_steps,
    of_window,
    settle_replacement,
    text_of,
)
from forgepool.workers.context.edits.prose import refusal, whole, with_facts
from forgepool.workers.context.edits.state import (
    Cause,
    ContextState,
    EditProposal,
    Moment,
    SummaryQuestion,
    SummaryReply,
)
from forgepool.workers.context.transcript.edit import show_turns
from forgepool.workers.llm.messages import ToolCall, Turn

_OUTPUT_TOKENS = 4_096
_TEXT_SHARE = 0.9
"""The share of the window that a model is given to summarise."""
_TRIES = 5
_SMALLER = 0.8
"""The size of each further attempt after an overflow, relative to the one before."""
_WHY = {"overflow": "the conversation did not fit into the model's window", "wish": "the agent wished it"}
_APART = 8
"""Items between two fruitless attempts."""
_FORGET = (
    "Below are messages of an agent's conversation, which will be forgotten; an earlier summary may be among them, and "
    "is to be carried on. Sum them up under these headings, leaving out those with nothing to say: USER_CONTEXT (what "
    "is wanted), TASK_TRACKING, COMPLETED, PENDING, CODE_STATE (files, functions), TESTS (failing ones by name), "
    "CHANGES, DEPS, VERSION_CONTROL. Exact paths and names, as short as can be."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Condenser:
    max_items: int = 80
    keep_first: int = 3
    """OpenHands keeps four, including the system prompt, which is no item here."""

    @property
    def name(self) -> str:
        return "condenser"

    def propose(self, state: ContextState, moment: Moment) -> EditProposal | None:
        due = self._due(state, moment)
        if due is None:
            return None
        kept = () if moment.cause == "overflow" else _first_kept(state.turns[: due.cut], self.keep_first)
        forgotten = show_turns(state.turns[: due.cut], state.edit)[1:]
        if tuple(forgotten[: len(kept)]) == kept:
            forgotten = forgotten[len(kept) :]
        replies, fault = _asked(state, moment, due, forgotten)
        if fault is not None:
            return keep_unchanged(state, due, fault, replies)
        why = f"{len(forgotten)} messages are forgotten, and summed up by a model"
        text = with_facts(replies[-1].text, state, due.cut)
        return settle_replacement(state, due, text, why=why, replies=replies, first=kept)

    def _due(self, state: ContextState, moment: Moment) -> Due | None:
        forced = moment.cause in ("overflow", "wish")
        shown_turns = len(state.shown_sizes)
        # Every turn is an item at least: most calls need no counting.
        if not forced and shown_turns <= self.max_items and _view_items(state) <= self.max_items:
            return None
        attempt = f"condenser {moment.cause if forced else 'call'} {state.rebuilds}.{shown_turns // _APART}"
        if attempt in moment.fired:
            return None
        place = self._place(state, moment.cause)
        if place - state.edit.cut < 2:
            return None
        return Due(
            cut=place, why=_WHY.get(moment.cause, f"there are more than {self.max_items} items"), attempt=attempt
        )

    def _place(self, state: ContextState, cause: Cause) -> int:
        """
        Return the first turn to keep: half the limit remains, less the first items and the summary; by request half of
        all.
        """
        half = (_view_items(state) if cause == "wish" else self.max_items) // 2
        room = 0 if cause == "overflow" else half - self.keep_first - 1
        place = len(state.turns)
        while place > state.edit.cut and (room := room - items(state.turns[place - 1])) >= 0:
            place -= 1
        return boundary(state.turns, len(state.turns) - place)


def items(turn: Turn) -> int:
    """Count a turn's items: the calls of the model, or the results and texts of the user's side."""
    if turn.role == "assistant":
        return sum(isinstance(part, ToolCall) for part in turn.parts) or 1
    return len(turn.parts) or 1


def _first_kept(turns: Sequence[Turn], most: int) -> tuple[Turn, ...]:
    """Return the exchanges after the first turn that fit into `most` items, which include that turn."""
    end, left = 1, most - 1
    while end + 1 < len(turns) and (turns[end].role, turns[end + 1].role) == ("assistant", "user"):
        left -= items(turns[end]) + items(turns[end + 1])
        if left < 0:
            break
        end += 2
    return tuple(turns[1:end])


def _asked(
    state: ContextState, moment: Moment, due: Due, forgotten: Sequence[Turn]
) -> tuple[tuple[SummaryReply, ...], str | None]:
    """Ask a model for the summary and judge its replies. After an overflow it retries with less text."""
    room = characters(state.gauge, _TEXT_SHARE * state.gauge.window_tokens)
    replies: tuple[SummaryReply, ...] = ()
    fault: str | None = None
    for tried in range(_TRIES if moment.cause == "overflow" else 1):
        question = SummaryQuestion(
            kind="prose",
            instruction=_FORGET,
            text=whole(forgotten, room),
            max_output_tokens=_OUTPUT_TOKENS,
            once=f"{due.attempt}, try {tried + 1}",
        )
        replies = (*replies, moment.ask(question))
        fault = refusal(replies[-1], question, state)
        if fault is None:
            break
        room = int(room * _SMALLER)
    return replies, fault


def _view_items(state: ContextState) -> int:
    return 1 + sum(map(items, state.edit.head)) + sum(map(items, state.turns[state.edit.cut :]))


CLEARED = "[Old tool result content cleared]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Clear:
    trigger_tokens: int = 100_000
    """Tokens of the whole next request."""
    keep: int = 3
    """The newest results, which stay."""
    at_least_tokens: int = 5_000
    """The fewest tokens worth clearing."""

    @property
    def name(self) -> str:
        return "clear"

    def propose(self, state: ContextState, moment: Moment) -> EditProposal | None:
        """Clear old results above the token limit, on any occasion."""
        tokens = state.gauge.tokens(state.gauge.fixed_characters + state.shown_characters)
        if tokens <= self.trigger_tokens:
            return None
        texts = self._texts(state)
        clearing = state.gauge.tokens(count_freed(state, texts))
        if not texts or clearing < self.at_least_tokens:
            return None
        why = f"cleared {len(texts)} results, about {clearing:,} of {tokens:,} tokens"
        return EditProposal(edit=mask_steps(state, texts), why=why)

    def _texts(self, state: ContextState) -> dict[int, str]:
        old = find_seen(state, keep=self.keep)
        spared = find_needed(state, old)
        return {
            deed.step: CLEARED for deed in old if len(text_of(state, deed)) > len(CLEARED) and deed.step not in spared
        }


_COMPACT_TOKENS = 8_192
_RESET = 0.5
"""The share of the trigger below which it may act again."""
_COMPACT = (
    "The harness asks, not the user: write a summary of this conversation for the agent that continues from the "
    "task card, your summary and the last messages alone. What is done, to which files; what was decided and why; what "
    "the user wants beyond the card; what failed and how; what remains, next step first. Exact paths, names and "
    "messages. Call no tool."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compact:
    trigger_tokens: int = 100_000
    """Tokens of the whole request."""
    keep_turns: int = 4

    @property
    def name(self) -> str:
        return "compact"

    def propose(self, state: ContextState, moment: Moment) -> EditProposal | None:
        threshold = of_window(
            self.name, state, trigger=1.0, reset=_RESET, keep=self.keep_turns, trigger_tokens=self.trigger_tokens
        )
        due = threshold.due(state, moment)
        if due is None:
            return None
        question = SummaryQuestion(
            kind="prose", instruction=_COMPACT, max_output_tokens=_COMPACT_TOKENS, once=due.attempt
        )
        reply = moment.ask(question)
        if (wrong := refusal(reply, question, state)) is not None:
            return keep_unchanged(state, due, wrong, (reply,))
        text = with_facts(reply.text, state, due.cut)
        why = f"a model summarised {due.cut - state.edit.cut} messages after their cached beginning"
        return settle_replacement(state, due, text, why=why, replies=(reply,))
