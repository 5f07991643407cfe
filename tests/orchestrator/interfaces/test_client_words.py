"""A client says a word at the moment in which its run ends: the run goes on, as after a word that came later."""

import sqlite3
import time
from pathlib import Path

import pytest
from kit import Machine, Repository, command, wait_until, write_plan

from forgepool.orchestrator.interfaces.clients.detached import RunLauncher
from forgepool.orchestrator.interfaces.clients.words import say_word
from forgepool.orchestrator.journal.events import RunEnded
from forgepool.orchestrator.journal.store import Journal, is_being_written
from forgepool.orchestrator.reports.home import HomeView, RunView
from forgepool.orchestrator.run import run_folder
from forgepool.workers.schema.settings import Settings


class _EndingHome(HomeView):
    """A home whose run ends just before a client's second look at it."""

    def view(self, name: str) -> RunView:
        journal = Journal(self.folder(name))
        journal.append([RunEnded(landed=0, not_landed=1)], at=time.time())
        journal.close()
        return super().view(name)


@pytest.mark.slow
def test_a_run_that_ends_while_a_client_speaks_goes_on(
    tmp_path: Path, machine: Machine, hub: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    deed = {"id": "a", "agent": command(f"test -e {tmp_path}/go && echo a > a.txt"), "files": ["a.txt"], "attempts": 1}
    plan = write_plan(machine.folder, {"name": "p", "checks": "none", "tasks": [deed]})
    assert machine.run("run", plan, "--repo", hub.path, "--workers", "1").status == 1
    for name, value in machine._environment().items():
        monkeypatch.setenv(name, value)
    settings, run = Settings(), machine.the_run()
    kept = run_folder.find(settings, run)
    with sqlite3.connect(kept.folder / "journal.db") as journal:
        journal.execute("DELETE FROM events WHERE number = (SELECT max(number) FROM events)")
    journal.close()
    assert not kept.state().finished
    launcher = RunLauncher(settings, "mcp")
    said = say_word(_EndingHome(settings), launcher, kept, "retry", "a", by="Ada")
    assert said.resumed and not said.trouble, said
    (process,) = launcher._started
    wait_until(lambda: not process.running(), "the end of the run that goes on")
    assert kept.state().finished and not is_being_written(kept.folder)
