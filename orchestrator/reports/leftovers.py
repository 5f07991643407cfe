"""Finds what runs leave behind: their tasks' logs, and refs in their hubs."""

import os
import re
import shutil
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from forgepool.orchestrator.decisions.orders.kept_work import list_kept
from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.journal.store import Journal, JournalBusy, JournalUnreadable, Recorded, is_being_written
from forgepool.orchestrator.journal.surveys import find_change_time
from forgepool.orchestrator.run import run_folder
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import DONE
from forgepool.workers.schema.orders import WorkResult
from forgepool.workers.schema.settings import Settings
from forgepool.workers.workspace.refs import marker_ref, run_refs
from forgepool.workers.workspace.workspace import attempt_logs
from forgepool.worktrees.hub.mirror import Mirror, open_mirror
from forgepool.worktrees.hub.target import prune_run


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """A run of this host, with its folder and perhaps refs in its hub."""

    run: str
    hub: str
    folder: Path
    ended: float
    """Unix seconds of its last event."""
    busy: bool
    """True while a process writes its journal."""
    state: RunState


def list_leftovers(settings: Settings) -> Iterator[Leftover]:
    """List the runs and queues of this host, the latest first. Unreadable ones are skipped."""
    for name in run_folder.run_names(settings):
        try:
            kept = run_folder.open_run(settings, name, with_course=False)
            state, busy = kept.state(), is_being_written(kept.folder)
        except JournalUnreadable:
            continue
        hub = kept.options.hub
        yield Leftover(run=name, hub=hub, folder=kept.folder, ended=state.at, busy=busy, state=state)


def list_plan_texts(settings: Settings, *, before: float, but_of: Collection[str] = ()) -> list[Path]:
    """
    List plans that clients gave as texts, and folders of plannings, that are older than that Unix time.

    No run refers to them but those of these names.
    """
    options = [run_folder.runs_folder(settings) / name / "options.json" for name in run_folder.run_names(settings)]
    wanted = "\n".join(one.read_text(errors="replace") for one in options if one.parent.name not in but_of)
    kept = [one for one in run_folder.plan_texts(settings).glob("*") if one.suffix == ".yaml" or one.is_dir()]
    old = [one for one in kept if not one.is_symlink() and _last_change(one) < before]
    return [one for one in old if one.name not in wanted]


def _last_change(path: Path) -> float:
    below = (Path(folder, name) for folder, folders, files in os.walk(path) for name in (*folders, *files))
    return max(find_change_time(one) for one in (path, *below))


def folder_bytes(folder: Path) -> int:
    """Return the bytes that a folder's files take on the disk."""
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*") if not path.is_dir())


def reclaim(left: Leftover, settings: Settings, *, hub: bool) -> None:
    """
    Remove a run's folder, and before that all its refs in the hub where `hub` says so: a command that dies in between
    leaves a run that can be listed.

    Raises:
        JournalBusy: it has gone on since it was listed.
        GitFailed: the hub could not be asked.
    """
    journal = Journal(left.folder)
    try:
        if run_folder.open_run(settings, left.run, with_course=False).state().number != left.state.number:
            raise JournalBusy("it has gone on since it was listed")
        if hub:
            prune_run(mirror_of(left.hub, settings), left.run, keep_orders_of=())
        # Without its options it is no run any more, whenever the removal of the rest ends.
        (left.folder / "options.json").unlink()
        shutil.rmtree(left.folder, ignore_errors=True)
    finally:
        journal.close()


def mirror_of(hub: str, settings: Settings) -> Mirror:
    """Raises GitFailed."""
    return open_mirror(hub, settings.cache, credential_helper=settings.git_credential_helper)


def refs_left(mirror: Mirror, state: RunState, *, markers_too: bool = False) -> dict[str, list[str]]:
    """Map each task to its refs in the run's hub. Raises GitFailed."""
    found: dict[str, list[str]] = {}
    for ref in sorted(mirror.hub_refs(run_refs(state.run)).keys() - set(() if markers_too else markers(state))):
        parts = ref.split("/")
        found.setdefault(parts[4] if len(parts) > 4 else parts[-1], []).append(ref)
    return found


def markers(state: RunState) -> list[str]:
    """List the markers of tasks that tried to land. They may have landed, and must not land twice."""
    tried = [task.id for task in state.tasks.values() if task.landings and task.phase != "landed"]
    return [marker_ref(state.run, task) for task in tried]


def remove_refs(mirror: Mirror, state: RunState, *, but_for: tuple[str, ...] = ()) -> int:
    """Remove the run's refs from its hub, except the work of these tasks; return their count. Raises GitFailed."""
    return prune_run(mirror, state.run, keep_orders_of=but_for, keep=markers(state))


def list_kept_tasks(state: RunState) -> tuple[str, ...]:
    """List the tasks whose work is kept after the run's end: those that did not land, and losers of races."""
    every = (*state.tasks.values(), *state.removed.values())
    return tuple(task.id for task in every if task.phase not in DONE or any(list_kept(state, task)))


_AGENT = re.compile(r"(agent|acceptance)(?:-\d+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLog:
    """One log file of this host, or the folder of logs that another host has."""

    attempt: int
    name: str
    """`agent`, `acceptance-1`, `composed-test`; empty for a folder of another host."""
    path: Path
    """The path on its host. Where the answer named none, it begins with what FORGEPOOL_HOME is there."""
    host: str
    """The host that wrote it; empty where unknown."""
    here: bool

    def is_of(self, check: str) -> bool:
        """True for a log of this check or its set-up; `agent` and `acceptance` count as names."""
        if found := _AGENT.fullmatch(self.name):
            return check == found[1]
        stem = self.name.removesuffix(".setup")
        return stem == check or stem.endswith(f"-{check}")


def task_logs(run: Path, recorded: Iterable[Recorded], task: str) -> list[TaskLog]:
    """List the logs of a task, the oldest first. `run` is the run's folder on this host."""
    return LogIndex(run, recorded).logs(task)


class LogIndex:
    """The log folders of all tasks of a run, found in one pass over its events."""

    def __init__(self, run: Path, recorded: Iterable[Recorded]) -> None:
        self._run = run
        self._folders: dict[str, list[tuple[int, Path]]] = {}
        self._attempts: dict[str, int] = {}
        self._answers: dict[str, tuple[str, str]] = {}
        """By message, the host that answered it, and a log there if the answer names one."""
        for record in recorded:
            self._note(record.event)

    def logs(self, task: str) -> list[TaskLog]:
        """List the logs of a task, the oldest first."""
        return [
            log
            for attempt, folder in self._folders.get(task, ())
            for log in _in(self._run, folder, attempt, self._answers)
        ]

    def _note(self, event: e.Event) -> None:
        match event:
            case e.EntrySubmitted():
                self._attempts[event.task] = event.revision
            case e.OrderSent():
                self._note_order(event)
            case e.CheckSent():
                for task in event.car or (event.task,):
                    self._add(task, self._run / "logs" / "checks" / event.message_id)
            case e.ReviewSent():
                self._add(event.task, self._run / "logs" / "reviews" / event.message_id)
            case e.OrderAnswered():
                self._note_answer(event.task, event.result)
            case e.RacerPromoted():
                self._attempts[event.task] = event.attempt
            case e.CheckAnswered(result=result):
                log = next((each.log for each in result.failures if each.log), "")
                self._answers[result.request_id] = result.host, log
            case e.ReviewAnswered(result=review):
                self._answers[review.request_id] = review.host, ""
            case _:
                pass

    def _note_order(self, event: e.OrderSent) -> None:
        if event.races is None:
            self._attempts[event.task] = event.attempt
        folder = attempt_logs(self._run, event.task, event.attempt)
        self._folders.setdefault(event.task, []).append((event.attempt, folder))

    def _note_answer(self, task: str, result: WorkResult) -> None:
        if result.outcome == "candidate" and f"{task}/{self._attempts.get(task)}" not in self._answers:
            self._attempts[task] = result.attempt  # Of two that race, the first candidate takes the front.
        self._answers[f"{task}/{result.attempt}"] = result.host, result.log

    def _add(self, task: str, folder: Path) -> None:
        self._folders.setdefault(task, []).append((self._attempts.get(task, 0), folder))


def _in(run: Path, folder: Path, attempt: int, answers: dict[str, tuple[str, str]]) -> Iterator[TaskLog]:
    host, log = answers.get(folder.name) or answers.get(f"{folder.parent.name}/{folder.name}", ("", ""))
    files = [path for path in folder.glob("*.log") if path.is_file()] if folder.is_dir() else []
    for path in sorted(files, key=lambda path: path.stat().st_mtime):
        yield TaskLog(attempt=attempt, name=path.stem, path=path, host=host, here=True)
    if not files and host:
        there = Path("FORGEPOOL_HOME/runs", run.name, folder.relative_to(run))
        yield TaskLog(attempt=attempt, name="", path=Path(log).parent if log else there, host=host, here=False)
