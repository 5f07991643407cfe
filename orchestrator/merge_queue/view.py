"""A gate as its journal has it, for those that look often: each event is read and taken in once."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from forgepool.orchestrator.journal.events import EntryRefused
from forgepool.orchestrator.journal.store import JournalUnreadable, read
from forgepool.orchestrator.state.fold import apply
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import IllegalStep

T = TypeVar("T")
_MOST_REFUSED = 1000


class QueueView:
    """Reads only, and may be asked by several threads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.Lock()
        self._state = RunState.blank(())
        self._refused: dict[str, EntryRefused] = {}

    def look(self, ask: Callable[[RunState], T]) -> T:
        """
        What is asked of the state as it is now; it must not be kept, nor changed.

        Raises:
            JournalUnreadable: there is no journal that could be read.
        """
        with self._lock:
            self._go_on()
            return ask(self._state)

    def refusal(self, name: str) -> EntryRefused | None:
        """Why what was last submitted under the name was not taken in; None where it was, or is long ago."""
        with self._lock:
            self._go_on()
            return self._refused.get(name)

    def _go_on(self) -> None:
        for one in read(self.folder, after=self._state.number):
            try:
                apply(self._state, one.event, number=one.number, at=one.at)
            except IllegalStep as impossible:
                self._state, self._refused = RunState.blank(()), {}
                raise JournalUnreadable(
                    f"{self.folder / 'journal.db'} tells what cannot be: {impossible}"
                ) from impossible
            match one.event:
                case EntryRefused() as refused:
                    self._refused.pop(refused.name, None)
                    self._refused[refused.name] = refused
                case event:
                    self._refused.pop(getattr(event, "task", ""), None)
            if len(self._refused) > _MOST_REFUSED:
                del self._refused[next(iter(self._refused))]
