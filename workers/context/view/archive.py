"""
Where what a view drops can be read again: files in the agent's own folder of outputs, byte for byte as it was.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from forgepool.workers.context.history.actions import Deed
from forgepool.workers.context.transcript.edit import Edit
from forgepool.workers.tools.workplace import Workplace

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
