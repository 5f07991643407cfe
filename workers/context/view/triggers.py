"""
Why a profile is asked before a call to the model: what has happened in a conversation since the model answered last.

A fold over its entries, so that another process finds the same. The clock alone is not in them.
"""

from dataclasses import dataclass

from forgepool.workers.context.edits.state import Cause
from forgepool.workers.context.transcript.entries import ConversationStarted, Entry, Rebuilt, TurnSaid
from forgepool.workers.context.view.view import ContextView
from forgepool.workers.llm.messages import Turn
from forgepool.workers.tools.commands.red_phase import CONFIRM
from forgepool.workers.tools.endings import COMPACT

CACHE_LIVES_S = 300.0
"""How long a provider keeps a prompt in its cache that nobody asks for."""


@dataclass(slots=True, kw_only=True)
class Causes:
    unseen: bool = False
    """Whether the model that is asked next has had no part in the conversation: no cache of its has any of it."""
    switched: bool = False
    """Whether a person chose another profile, and the model has not answered to that."""
    rebuilt: bool = False
    """Whether what is shown was rebuilt since the model answered last."""
    overflowed: bool = False
    """Whether it was rebuilt because it did not fit, and the model has not answered in full since."""
    _answered_at: float = 0.0

    def take(self, entry: Entry) -> None:
        match entry:
            case ConversationStarted():
                self.unseen = self.switched = self.rebuilt = self.overflowed = False
            case TurnSaid(turn=turn) if turn.role == "assistant":
                self._answered(turn, entry.at)
            case Rebuilt(edit=edit, cause=cause):
                self.rebuilt = self.rebuilt or edit is not None
                self.overflowed = self.overflowed or cause == "overflow"
            case _:
                pass

    def cause(self, view: ContextView, *, at: float) -> Cause:
        called = _called_last(view)
        if CONFIRM in called:
            return "red"
        if self.switched:
            return "switch"
        if COMPACT in called:
            return "wish"
        return "cold" if self.unseen or at > self._answered_at + CACHE_LIVES_S else "call"

    def _answered(self, turn: Turn, at: float) -> None:
        self._answered_at = at
        self.unseen = self.switched = self.rebuilt = False
        self.overflowed = self.overflowed and turn.stop == "overflow"


def _called_last(view: ContextView) -> frozenset[str]:
    """The tools that the model's last turn called, and that did as they were told."""
    turns = view.turns
    last = next((place for place in range(len(turns) - 1, -1, -1) if turns[place].role == "assistant"), 0)
    found = set()
    for deed in reversed(view.deeds):
        if deed.turn != last:
            break
        if not deed.result.is_error:
            found.add(deed.call.name)
    return frozenset(found)
