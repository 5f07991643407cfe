"""The logs of a task: of its attempts, its checks and its reviews, in the order in which they were written."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.journal.store import Recorded
from forgepool.workers.workspace.workspace import attempt_logs

_AGENT = re.compile(r"(agent|acceptance)(?:-\d+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLog:
    """One log file of this host, or the folder of logs that another host has."""

    attempt: int
    name: str
    """`agent`, `acceptance-1`, `composed-test`; empty for a folder of another host."""
    path: Path
    host: str
    """The host that wrote it; empty where it is not known."""
    here: bool

    def is_of(self, check: str) -> bool:
        """Return true for the log of this check, or of its set-up; `agent` and `acceptance` are names as well."""
        if found := _AGENT.fullmatch(self.name):
            return check == found[1]
        stem = self.name.removesuffix(".setup")
        return stem == check or stem.endswith(f"-{check}")


def task_logs(run: Path, recorded: Sequence[Recorded], task: str) -> list[TaskLog]:
    """The logs of a task, the oldest first; `run` is the folder of its run on this host."""
    hosts = _hosts(recorded)
    return [log for attempt, folder in _folders(run, recorded, task) for log in _in(folder, attempt, hosts)]


def _folders(run: Path, recorded: Sequence[Recorded], task: str) -> Iterator[tuple[int, Path]]:
    """The folder of each message about the task, with the attempt that it was about."""
    attempt = 0
    for one in recorded:
        match one.event:
            case e.EntrySubmitted() as event if event.task == task:
                attempt = event.revision
            case e.OrderSent() as event if event.task == task:
                attempt = event.attempt
                yield attempt, attempt_logs(run, task, attempt)
            case e.CheckSent() as event if task in (event.car or (event.task,)):
                yield attempt, run / "logs" / "checks" / event.message_id
            case e.ReviewSent() as event if event.task == task:
                yield attempt, run / "logs" / "reviews" / event.message_id


def _hosts(recorded: Sequence[Recorded]) -> dict[str, str]:
    """By the name of a message, the host that answered it."""
    hosts: dict[str, str] = {}
    for one in recorded:
        match one.event:
            case e.OrderAnswered(task=task, result=result):
                hosts[f"{task}/{result.attempt}"] = result.host
            case e.CheckAnswered(result=result) | e.ReviewAnswered(result=result):
                hosts[result.request_id] = result.host
    return hosts


def _in(folder: Path, attempt: int, hosts: dict[str, str]) -> Iterator[TaskLog]:
    host = hosts.get(folder.name) or hosts.get(f"{folder.parent.name}/{folder.name}", "")
    files = [path for path in folder.glob("*.log") if path.is_file()] if folder.is_dir() else []
    for path in sorted(files, key=lambda path: path.stat().st_mtime):
        yield TaskLog(attempt=attempt, name=path.stem, path=path, host=host, here=True)
    if not files and host:
        yield TaskLog(attempt=attempt, name="", path=folder, host=host, here=False)
