"""
`off`: the conversation grows until it does not fit, and then ends.
"""

from dataclasses import dataclass

from forgepool.workers.context.edits.state import Moment, State


@dataclass(frozen=True, slots=True, kw_only=True)
class Off:
    @property
    def name(self) -> str:
        return "off"

    def propose(self, state: State, moment: Moment) -> None:
        """Nothing, whatever happens."""
