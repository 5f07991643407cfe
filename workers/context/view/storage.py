"""
The storing of what is dropped: before it is, and again by whoever goes on with the conversation on another host.

A result has one file, named by its step, whether it was shortened when it entered or dropped later.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from forgepool.workers.context.history.actions import Deed
from forgepool.workers.context.transcript.edit import Edit
from forgepool.workers.context.view.archive import Archive, find_dropped
from forgepool.workers.tools.workplace import ToolRefused


@dataclass(slots=True)
class Storage:
    archive: Archive
    _stored: set[int] = field(default_factory=set)
    """Steps of the conversation under way that this process has written."""

    def store(self, deeds: Iterable[Deed]) -> str | None:
        """Why they cannot be kept, so that nothing may be dropped; None where they are."""
        new = [deed for deed in deeds if deed.step not in self._stored]
        try:
            self.archive.write(new)
        except (ToolRefused, OSError) as trouble:
            return str(trouble)
        self._stored.update(deed.step for deed in new)
        return None

    def restore(self, deeds: Iterable[Deed], edit: Edit) -> str | None:
        """All that is not shown as it was, or was shortened when it entered; as `store`."""
        found = list(deeds)
        shortened = [deed for deed in found if deed.result.text != deed.whole]
        return self.store([*find_dropped(found, edit), *shortened])

    def spill(self, step: int, text: str) -> str | None:
        """Where the whole text of a result is that is about to enter shortened; None where it could not be kept."""
        try:
            return str(self.archive.result(step, text))
        except (ToolRefused, OSError):
            return None
