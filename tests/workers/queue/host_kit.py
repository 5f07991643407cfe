"""A host with a hub that carries out orders, for tests of any code that does so."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from repositories import git, write

from forgepool.workers.context.transcript.entries import Entry, read_transcript
from forgepool.workers.order.run_order import carry_out
from forgepool.workers.schema.orders import WorkOrder, WorkResult
from forgepool.workers.schema.settings import Settings

FILES = {"a": "1\n", "b": "1\n"}


class Host:
    def __init__(self, folder: Path, files: Mapping[str, str | None] = FILES) -> None:
        self.folder, self.hub, work = folder, folder / "hub.git", folder / "person"
        git(folder, "init", "-q", "-b", "main", str(work))
        write(work, files)
        git(work, "add", "-A")
        git(work, "commit", "-q", "-m", "first")
        git(folder, "clone", "-q", "--bare", str(work), str(self.hub))
        self.base = git(self.hub, "rev-parse", "main")
        self.settings = Settings(home=folder / "home", cache=folder / "cache", host="here")

    def order(self, **said: Any) -> WorkOrder:
        attempt = said.get("attempt", 1)
        usual: dict[str, Any] = {
            "order_id": f"r.t.{attempt}",
            "token": "tok",
            "run": "r",
            "task": "t",
            "attempt": attempt,
            "hub": str(self.hub),
            "target": "main",
            "base": self.base,
            "title": "Change a",
            "issued_at": 1000.0,
            "start_by": 2000.0,
        }
        return WorkOrder(**(usual | said))

    def unconfined(self) -> None:
        """Run commands without a sandbox from now on."""
        self.settings = self.settings.model_copy(update={"sandbox": "off"})

    def carry_out(self, *, stop: Callable[[], bool] = lambda: False, **said: Any) -> WorkResult:
        return carry_out(self.order(**said), self.settings, stop=stop)

    def transcript(self, attempt: int = 1) -> list[Entry]:
        return read_transcript(self.settings.home / f"runs/r/logs/orders/t/{attempt}/transcript.jsonl")

    def hub_refs(self) -> str:
        return git(self.hub, "for-each-ref", "--format=%(refname)")

    def content(self, commit: str | None, path: str) -> str:
        return git(self.hub, "show", f"{commit}:{path}")
