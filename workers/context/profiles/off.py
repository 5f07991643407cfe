"""
`off`: the conversation grows until it does not fit, and then ends.
"""

from dataclasses import dataclass

from forgepool.workers.context.edits.state import ContextState, Moment


@dataclass(frozen=True, slots=True, kw_only=True)
class Off:
    @property
    def name(self) -> str:
        return "off"

    def propose(self, state: ContextState, moment: Moment) -> None:
        """Nothing, whatever happens."""
