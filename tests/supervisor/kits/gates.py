"""A supervisor's host with its hub, and short functions that make requests to it."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from repositories import Hub, git

from forgepool.supervisor.gate.check_entry import examine
from forgepool.supervisor.gate.land import land
from forgepool.supervisor.messages.answers import CheckResult, Landing
from forgepool.supervisor.messages.requests import CheckRequest, EntryRef, LandRequest
from forgepool.workers.policy.gate_file.document import RULES, CheckDefinition
from forgepool.workers.schema.settings import Settings
from forgepool.worktrees.hub.mirror import Mirror, open_mirror

UNSCANNED = tuple(sorted(RULES.keys() - {"test-removed", "test-skipped"}))
"""All rules of the scans except those whose waiver also lets tests vanish from a run."""


def check(run: str, name: str = "test", **said: Any) -> CheckDefinition:
    """Return a check. `true` is waived as a command that cannot fail."""
    return CheckDefinition(name=name, run=run, **({"waive": ("cannot_fail",)} if run == "true" else {}) | said)


def never() -> bool:
    return False


class Gate:
    """One host with its hub, cache and home."""

    def __init__(self, hub: Hub, folder: Path) -> None:
        self.hub, self.folder = hub, folder
        self.settings = Settings(home=folder / "home", cache=folder / "cache", host="here")

    def unconfined(self) -> None:
        """Run checks without a sandbox from now on, so that they may write outside their checkout."""
        self.settings = self.settings.model_copy(update={"sandbox": "off"})

    @property
    def mirror(self) -> Mirror:
        """Return the host's clone of the hub."""
        return open_mirror(str(self.hub.path), self.settings.cache)

    def entry(
        self,
        task: str,
        files: Mapping[str, str | None],
        *,
        on: str = "main",
        attempt: int = 1,
        scanned: bool = False,
    ) -> EntryRef:
        """
        Make a candidate in the hub, on a branch or a commit. Unless it is `scanned`, all scan rules in UNSCANNED are
        waived.
        """
        branch = f"work-{task}-{attempt}"
        git(self.hub.path, "branch", "-f", "forked-here", on)
        commit = self.hub.commit(files, branch=branch, start="forked-here")
        message = f"{task}\n\nForgepool-Task: {task}\n"
        ref = f"refs/heads/{branch}"
        waive = () if scanned else UNSCANNED
        return EntryRef(task=task, attempt=attempt, commit=commit, ref=ref, message=message, waive=waive)

    def request(self, entry: EntryRef, *checks: CheckDefinition, **said: Any) -> CheckRequest:
        fields: dict[str, Any] = {
            "request_id": f"r.{entry.task}.{entry.attempt}.check-1",
            "token": "t",
            "run": "r",
            "hub": str(self.hub.path),
            "target": "main",
            "base": self.hub.tip(),
            "entries": (entry,),
            "plan_checks": checks,
            "issued_at": 1.0,
            "start_by": 2.0,
        }
        return CheckRequest(**(fields | said))

    def examine(
        self, request: CheckRequest, *, stop: Callable[[], bool] = never, doubt: Callable[[], None] = lambda: None
    ) -> CheckResult:
        return examine(request, self.settings, stop=stop, doubt=doubt)

    def landing(self, request: CheckRequest, found: CheckResult, **said: Any) -> LandRequest:
        fields = request.model_dump(exclude={"decisive", "diagnose"}) | {
            "request_id": request.request_id.replace("check", "land"),
            "commit": found.commit,
            "tree": found.tree,
            "certificates": found.certificates,
        }
        return LandRequest.model_validate(fields | said)

    def land(self, request: LandRequest, *, stop: Callable[[], bool] = never) -> Landing:
        return land(request, self.settings, stop=stop)

    def let_in(self, entry: EntryRef, *checks: CheckDefinition) -> str:
        """Examine the entry and land it, and return the commit it landed as."""
        request = self.request(entry, *checks)
        found = self.examine(request)
        assert found.verdict == "green", found
        landed = self.land(self.landing(request, found))
        assert landed.outcome == "landed", landed
        return landed.commit or ""
