"""
`clear`: the oldest tool results are cleared in batches, as `clear_tool_uses` and its kin do it.

What was cleared stays cleared. Without `at_least_tokens` every call beyond the trigger would clear one more result, and
rewrite all that follows it in the provider's cache.
"""

from dataclasses import dataclass

from forgepool.workers.context.edits.masks import count_freed, find_needed, find_seen, mask_steps, text_of
from forgepool.workers.context.edits.state import ContextState, EditProposal, Moment

CLEARED = "[Old tool result content cleared]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Clear:
    trigger_tokens: int = 100_000
    """Of all of the next request."""
    keep: int = 3
    """The newest results, seen or not."""
    at_least_tokens: int = 5_000
    """What has to be freed at once; nothing is cleared where there is less."""

    @property
    def name(self) -> str:
        return "clear"

    def propose(self, state: ContextState, moment: Moment) -> EditProposal | None:
        """Whyever it is asked, it looks at tokens only; on an overflow too."""
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
