"""Runs as processes of their own, which outlive the server that started them."""

import os
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from forgepool.orchestrator.journal.events import RunResumed, RunStarted
from forgepool.orchestrator.journal.store import JournalUnreadable, find_writer, read
from forgepool.orchestrator.plan.document import Plan, plan_digest
from forgepool.orchestrator.run import run_folder
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.workers.sandbox.own_processes import Service, start_detached
from forgepool.workers.schema.settings import Settings, whole_environment

_BEGINS_WITHIN_S = 45.0
"""Seconds for a run to check its plan and machine and to begin; after that the caller is told that it has not yet."""
_LOOK_S = 0.05
_SAID = "forgepool: "


@dataclass(slots=True)
class RunLauncher:
    """Starts `forgepool run` and `forgepool resume`."""

    settings: Settings
    face: str
    """The command that starts them, in the names of their logs."""
    _started: list[Service] = field(default_factory=list)

    def log(self, run: str) -> Path:
        """Return the file with the output of a run's processes."""
        return self.settings.home / "logs" / f"{self.face}-{run}.log"

    def begin(self, run: str, plan: Path, checked: Plan, repo: str, *options: str) -> bool:
        """
        Start a run; tell whether it has begun, or is still checking its plan and this machine.

        `checked` is the plan as it was read; a file that has changed since is refused.

        Raises:
            CannotRun: it ended before it began; the sentence is its own.
        """
        named = ("--name", run, "--plan-digest", plan_digest(checked))
        process = self._start(run, "run", str(plan.absolute()), "--repo", repo, *named, *options)
        return self._goes_on(run, process, after=0)

    def resume(self, run: str, *options: str, after: int) -> bool:
        """Continue a run whose last event has the number `after`; as `begin`."""
        return self._goes_on(run, self._start(run, "resume", run, *options), after=after)

    def stop(self, run: str) -> None:
        """Stop a run's process now, as the second Ctrl-C does. Finished work is kept, and `resume` continues it."""
        pid = find_writer(run_folder.runs_folder(self.settings) / run)
        if pid is not None and pid != os.getpid():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGTERM)

    def _goes_on(self, run: str, process: Service, *, after: int) -> bool:
        until = time.monotonic() + _BEGINS_WITHIN_S
        while time.monotonic() < until:
            ended = not process.running()
            if self._has_begun(run, after):
                return True
            if ended:
                raise CannotRun(self._last_words(run))
            time.sleep(_LOOK_S)
        return False

    def _start(self, run: str, *argv: str) -> Service:
        self._started = [each for each in self._started if each.running()]
        # -P: the folder at hand may be a repository, whose modules must not be taken for ours.
        command = (sys.executable, "-P", "-m", "forgepool.orchestrator.cli", *argv)
        process = start_detached(f"run {run}", command, env=whole_environment(), log=self.log(run))
        self._started.append(process)
        return process

    def _has_begun(self, run: str, after: int) -> bool:
        try:
            events = read(run_folder.runs_folder(self.settings) / run, after=after)
            return any(isinstance(one.event, RunStarted | RunResumed) for one in events)
        except JournalUnreadable:
            return False

    def _last_words(self, run: str) -> str:
        """Return the sentence with which it ended."""
        lines = self.log(run).read_text(errors="replace").strip().splitlines()
        told = [line.removeprefix(_SAID) for line in lines if line.startswith(_SAID)]
        return told[-1] if told else f"the run ended before it began; {self.log(run)} has its output"
