"""
Compaction by a model on the live prefix: asked at the end of the conversation as it is shown, so that all before the
question is read from the provider's cache.

As Codex does it, what stays is the summary and the user's own words, the newest within 20,000 tokens; and, beside
these, the last turns.
"""

from dataclasses import dataclass

from forgepool.workers.context.edits.state import ContextState, EditProposal, Moment, SummaryQuestion
from forgepool.workers.context.profiles.shared.prose import refusal, with_facts
from forgepool.workers.context.profiles.shared.replacement import keep_unchanged, of_window, settle_replacement

_OUTPUT_TOKENS = 8_192
_RESET = 0.5
"""Of the trigger."""
_COMPACT = (
    "The harness asks, not the user: write a summary of this conversation for whoever goes on with the task from the "
    "task card, your summary and the last messages alone. What is done, to which files; what was decided and why; what "
    "the user wants beyond the card; what failed and how; what remains, next step first. Exact paths, names and "
    "messages. Call no tool."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compact:
    trigger_tokens: int = 100_000
    """Of all that a request takes."""
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
            kind="prose", instruction=_COMPACT, max_output_tokens=_OUTPUT_TOKENS, once=due.attempt
        )
        reply = moment.ask(question)
        if (wrong := refusal(reply, question, state)) is not None:
            return keep_unchanged(state, due, wrong, (reply,))
        text = with_facts(reply.text, state, due.cut)
        why = f"a model summarised {due.cut - state.edit.cut} messages after their cached beginning"
        return settle_replacement(state, due, text, why=why, replies=(reply,))
