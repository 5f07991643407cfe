"""
How often the agent needed what it was not shown: names in its calls that an earlier result had, and the view did not.

A fold over the conversation, under the edits that were in force. Profiles steer by it: an agent that reaches far back
is left more of its context than one that does not.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from forgepool.workers.context.history.names import input_text, names, part_text
from forgepool.workers.context.transcript.edit import Edit
from forgepool.workers.llm.messages import Turn


@dataclass(slots=True)
class Losses:
    calls: int = 0
    """Turns of the model that needed something an earlier result had shown."""
    hit: int = 0
    """Of these, those that needed something the view did not show."""
    _sources: set[str] = field(default_factory=set)
    _newest: dict[str, int] = field(default_factory=dict)
    """By name: the place of the newest turn that holds it."""
    _head: frozenset[str] = frozenset()
    _cut: int = 1

    def take(self, place: int, turn: Turn) -> None:
        """A turn as it came; of a user's turn in pieces, each piece."""
        if turn.role == "assistant":
            self._judge(turn)
        for part in turn.parts:
            found = names(part_text(part))
            self._newest.update(dict.fromkeys(found, place))
        for result in turn.results:
            self._sources |= names(result.text)

    def take_edit(self, edit: Edit, turns: Sequence[Turn]) -> None:
        """From here on another edit is in force. Masks inside what is shown are overlooked."""
        opening = turns[0].parts[: edit.opening] if turns else ()
        shown = [*opening, *(part for turn in edit.head for part in turn.parts)]
        self._head = frozenset().union(*(names(part_text(part)) for part in shown))
        self._cut = edit.cut

    def _judge(self, turn: Turn) -> None:
        needed = [name for call in turn.calls for name in names(input_text(call)) if name in self._sources]
        if needed:
            self.calls += 1
            self.hit += any(self._newest[name] < self._cut and name not in self._head for name in needed)
