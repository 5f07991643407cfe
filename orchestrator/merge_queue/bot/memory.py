"""What the bot has given to the gate and told the forge: a small file in the gate's folder, whole or not there."""

import os
from dataclasses import dataclass
from pathlib import Path

import structlog
from pydantic import Field, ValidationError

from forgepool.orchestrator.merge_queue.forges.intake import StatusReport
from forgepool.orchestrator.merge_queue.forges.protocol import Reported
from forgepool.workers.schema.orders import Message

log = structlog.get_logger()


class Given(Message):
    """The newest entry of a change."""

    name: str
    head: str
    withdrawn: bool = False
    """By the bot itself, not by a person."""


class ToldForge(Message):
    state: Reported
    summary: str


class _Kept(Message):
    forge: str
    given: dict[int, Given] = Field(default_factory=dict)
    told: dict[str, ToldForge] = Field(default_factory=dict)
    """By commit, the status it was given last."""
    commented: tuple[str, ...] = ()
    """What was said in comments, or may have been."""


@dataclass(slots=True)
class Memory:
    """Of one gate and one forge; each change is kept before the call returns."""

    path: Path
    forge: str
    given: dict[int, Given]
    told: dict[str, StatusReport]
    commented: set[str]

    def give(self, number: int, given: Given) -> None:
        if self.given.get(number) != given:
            self.given[number] = given
            self._keep()

    def tell(self, report: StatusReport) -> None:
        self.told[report.commit] = report
        self._keep()

    def comment(self, what: str) -> None:
        self.commented.add(what)
        self._keep()

    def uncomment(self, what: str) -> None:
        self.commented.discard(what)
        self._keep()

    def _keep(self) -> None:
        told = {one: ToldForge(state=report.state, summary=report.summary) for one, report in self.told.items()}
        kept = _Kept(forge=self.forge, given=self.given, told=told, commented=tuple(sorted(self.commented)))
        draft = self.path.with_suffix(".draft")
        with draft.open("w", encoding="utf-8") as file:
            file.write(kept.encode())
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.path)


def load_memory(folder: Path, forge: str) -> Memory:
    """What there is of this forge; of another one, or of a file that cannot be read, nothing counts."""
    path = folder / "forge.json"
    kept = _Kept(forge=forge)
    try:
        found = _Kept.model_validate_json(path.read_text(encoding="utf-8"))
        kept = found if found.forge == forge else kept
    except FileNotFoundError:
        pass
    except (OSError, ValueError, ValidationError) as wrong:
        log.warning("forge.forgotten", path=str(path), why=str(wrong)[:200])
    told = {one: StatusReport(one, said.state, said.summary) for one, said in kept.told.items()}
    return Memory(path, forge, dict(kept.given), told, set(kept.commented))
