"""
Where what a view drops can be read again: files in the agent's own folder of outputs, byte for byte as it was.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from forgepool.workers.context.transcript.actions import Deed
from forgepool.workers.context.transcript.edit import Edit
from forgepool.workers.tools.workplace import ToolRefused, Workplace

_FOLDER = "steps"


@dataclass(frozen=True, slots=True)
class Archive:
    workplace: Workplace

    @property
    def folder(self) -> str:
        return str(self.workplace.outputs / _FOLDER)

    def write(self, deeds: Iterable[Deed]) -> None:
        """
        Results as they were before anything was shortened, and what was said and called.

        Raises:
            Refused, OSError: they cannot be kept, so nothing may be dropped.
        """
        for deed in deeds:
            self.result(deed.step, deed.whole)
            self._keep(f"step-{deed.step}.call.txt", describe_call(deed))

    def result(self, step: int, text: str) -> Path:
        """
        The whole of one result, and where that is.

        Raises:
            Refused, OSError: it cannot be kept.
        """
        return self._keep(f"step-{step}.txt", text)

    def _keep(self, name: str, text: str) -> Path:
        return self.workplace.keep(Path(_FOLDER, name), text.encode(errors="surrogatepass"))


def describe_call(deed: Deed) -> str:
    """What was said and called, as a person reads it: texts as they are, everything else as JSON."""
    parts = [deed.said, "", deed.call.name] if deed.said else [deed.call.name]
    for name, value in deed.call.arguments.items():
        parts.append(f"--- {name}\n{value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}")
    return "\n".join(parts) + "\n"


def find_dropped(deeds: Iterable[Deed], edit: Edit) -> list[Deed]:
    """Those whose call or result is not shown as it was."""
    return [deed for deed in deeds if deed.turn < edit.cut or deed.step in edit.results or deed.step in edit.inputs]


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
