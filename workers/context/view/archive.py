"""
The archive of what a view drops: files in the agent's folder of outputs, byte for byte as they were.

A result has one file, named by its step, whether it was shortened when it entered or dropped later.
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
        Write whole results, and the calls with the text before them.

        Raises:
            ToolRefused, OSError: they cannot be kept, so nothing may be dropped.
        """
        for deed in deeds:
            self.result(deed.step, deed.whole)
            self._keep(f"step-{deed.step}.call.txt", describe_call(deed))

    def result(self, step: int, text: str) -> Path:
        """
        Write one whole result and return its path.

        Raises:
            ToolRefused, OSError: it cannot be kept.
        """
        return self._keep(f"step-{step}.txt", text)

    def _keep(self, name: str, text: str) -> Path:
        return self.workplace.keep(Path(_FOLDER, name), text.encode(errors="surrogatepass"))


def describe_call(deed: Deed) -> str:
    """Return a call with the text before it in readable form: texts as they are, other arguments as JSON."""
    parts = [deed.said, "", deed.call.name] if deed.said else [deed.call.name]
    for name, value in deed.call.arguments.items():
        parts.append(f"--- {name}\n{value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}")
    return "\n".join(parts) + "\n"


def find_dropped(deeds: Iterable[Deed], edit: Edit) -> list[Deed]:
    """Return the deeds whose call or result an edit changes or hides."""
    return [deed for deed in deeds if deed.turn < edit.cut or deed.step in edit.results or deed.step in edit.inputs]


@dataclass(slots=True)
class Storage:
    archive: Archive
    _stored: set[int] = field(default_factory=set)
    """Steps of the current conversation that this process has written."""

    def store(self, deeds: Iterable[Deed]) -> str | None:
        """Archive deeds. Return why that fails, so that nothing may be dropped; None where it works."""
        new = [deed for deed in deeds if deed.step not in self._stored]
        try:
            self.archive.write(new)
        except (ToolRefused, OSError) as trouble:
            return str(trouble)
        self._stored.update(deed.step for deed in new)
        return None

    def restore(self, deeds: Iterable[Deed], edit: Edit) -> str | None:
        """Archive, as `store` does, all deeds that were shortened or that the edit changes or hides."""
        found = list(deeds)
        shortened = [deed for deed in found if deed.result.text != deed.whole]
        return self.store([*find_dropped(found, edit), *shortened])

    def spill(self, step: int, text: str) -> str | None:
        """Archive a result that is about to be shortened and return its path; None where that fails."""
        try:
            return str(self.archive.result(step, text))
        except (ToolRefused, OSError):
            return None
