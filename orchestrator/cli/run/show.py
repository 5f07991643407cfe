"""Commands that show runs: `runs`, `status`, `events`, `report`, `logs`, `transcript`, `record`."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from forgepool.orchestrator.cli.output.progress import tell_table, tell_use
from forgepool.orchestrator.cli.output.say import complain, printable, say, say_json
from forgepool.orchestrator.cli.output.terminal import out, print_table, say_output
from forgepool.orchestrator.cli.run.requests import Task, find_run_with
from forgepool.orchestrator.cli.run.run import Json, Run
from forgepool.orchestrator.decisions.reasons import count_of
from forgepool.orchestrator.journal.store import JournalUnreadable, Recorded, is_being_written, read
from forgepool.orchestrator.reports.event_text import sentence
from forgepool.orchestrator.reports.leftovers import TaskLog, task_logs
from forgepool.orchestrator.reports.report import report_lines
from forgepool.orchestrator.reports.status import standing
from forgepool.orchestrator.run import run_folder
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.orchestrator.run.run_folder import KeptRun
from forgepool.orchestrator.state.task import DONE
from forgepool.workers.agents.render_transcript import NarratedLine, lines
from forgepool.workers.context.transcript.entries import Entry, TurnSaid, parse_transcript
from forgepool.workers.context.transcript.exchanges import as_script
from forgepool.workers.schema.settings import Settings
from forgepool.workers.workspace.workspace import TRANSCRIPT, attempt_logs

_FOLLOW_S = 0.3
OptionalRun = Annotated[str | None, typer.Argument(help="The run's name, or its beginning; default: the latest run.")]

NOTHING_THERE = 1
_LOOK_S = 0.3
_STYLES = {"phase": "bold cyan", "model": "bold", "call": "green", "error": "red", "note": "yellow", "quiet": "dim"}


def register(app: typer.Typer) -> None:
    app.command("runs")(list_runs)
    app.command()(status)
    app.command()(events)
    app.command()(report)
    app.command()(logs)
    app.command()(transcript)
    app.command()(record)


def list_runs(as_json: Json = False) -> None:
    """List the runs of this host, the latest first."""
    settings = Settings()
    rows = [_row(settings, name) for name in run_folder.run_names(settings)]
    if as_json:
        keys = ("run", "outcome", "landed", "done", "target", "hub")
        say_json([dict(zip(keys, row, strict=True)) for row in rows])
    elif rows:
        print_table(("run", "outcome", "done", "target", "hub"), [(*row[:2], *row[3:]) for row in rows])
    else:
        say("there are no runs yet; `forgepool run PLAN` starts one")


def _row(settings: Settings, run: str) -> tuple[str, str, str, str, str, str]:
    """Describe one run; an unreadable one does not hide the others."""
    try:
        kept = run_folder.open_run(settings, run)
        now = standing(kept.course, kept.state(), now=time.time(), live=is_being_written(kept.folder))
    except JournalUnreadable as problem:
        complain(str(problem), 0)
        return (run, "unreadable", "", "", "", "")
    landed, done = (sum(task.phase in phases for task in now.tasks) for phases in (("landed",), DONE))
    return (run, now.outcome, f"{landed}/{len(now.tasks)}", f"{done}/{len(now.tasks)}", now.target, kept.options.hub)


def status(run: OptionalRun = None, as_json: Json = False) -> None:
    """Show how a run stands: every task, its phase, and what it waits for."""
    kept = run_folder.find(Settings(), run)
    now = standing(kept.course, kept.state(), now=time.time(), live=is_being_written(kept.folder))
    if as_json:
        say_json(now.as_json())
        return
    say(f"run {now.run}: {now.outcome}, target {now.target} at {now.tip[:12]}")
    tell_table(now)
    if now.shut:
        say(f"landing is paused: {now.shut}")
    tell_use(now)
    if kept.plan_file_changed():
        say(f"note: {kept.options.plan_file} has changed since; the run keeps its old plan")


def events(
    run: Run,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Keep printing new events until the run stops.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show what has happened in a run, from its journal."""
    kept = run_folder.find(Settings(), run)
    last = _tell_events(kept, 0, as_json=as_json)
    while follow and is_being_written(kept.folder):
        time.sleep(_FOLLOW_S)
        last = _tell_events(kept, last, as_json=as_json)
    _tell_events(kept, last, as_json=as_json)


def report(run: OptionalRun = None, as_json: Json = False) -> None:
    """Show what a run did: what landed with which proof, what did not and why, and who did what."""
    kept = run_folder.find(Settings(), run)
    state, recorded = kept.replay()
    if as_json:
        now = standing(kept.course, state, now=time.time(), live=is_being_written(kept.folder))
        say_json(now.as_json())
        return
    for line in report_lines(kept, state, recorded):
        say(line)


def logs(
    run: Run,
    task: Task,
    check: Annotated[
        str | None,
        typer.Option(
            "--check", metavar="NAME", help="Print the logs of this check; `agent` and `acceptance` are also names."
        ),
    ] = None,
    attempt: Annotated[int | None, typer.Option(min=1, help="Only this attempt; default: all.")] = None,
) -> int:
    """Print the log of a task's command, acceptance, checks or review; several are listed instead."""
    kept = find_run_with(run, task)
    state, recorded = kept.replay()
    found = task_logs(kept.folder, recorded, task)
    found = [log for log in found if attempt in (None, log.attempt) and (check is None or log.is_of(check))]
    here = [log for log in found if log.here]
    if check is not None and here:
        here = [log for log in here if log.path.parent == here[-1].path.parent]
    if len(here) == 1 or (here and check is not None):
        _print_logs(here)
    elif here:
        print_table(("attempt", "log", "path"), [(str(log.attempt), log.name, str(log.path)) for log in here])
        say(f"print one with: forgepool logs {state.run} {task} --check NAME --attempt N")
    for log in found:
        if not log.here:
            say(f"attempt {log.attempt}: logs are on host {log.host}, in {log.path}")
    told = state.tasks[task].told
    if told is not None:
        say(f"its checks ran in the merge queue: forgepool logs {told.gate} {told.entry}")
    if not found and told is None:
        return complain(_no_logs(kept, recorded, task), 1)
    return 0


def _no_logs(kept: run_folder.KeptRun, recorded: Sequence[Recorded], task: str) -> str:
    known = dict.fromkeys(f"{log.name} (attempt {log.attempt})" for log in task_logs(kept.folder, recorded, task))
    there = f"it has: {', '.join(known)}" if known else "it has none yet"
    return f"task '{task}' has no such log; {there}"


def _print_logs(found: Sequence[TaskLog]) -> None:
    for log in found:
        if len(found) > 1:
            say(f"==> {log.name}, attempt {log.attempt}: {log.path} <==")
        with log.path.open(encoding="utf-8", errors="replace", newline="\n") as lines:
            for line in lines:
                say_output(line.rstrip("\n"))


def _tell_events(kept: run_folder.KeptRun, after: int, *, as_json: bool) -> int:
    last = after
    for one in read(kept.folder, after=after):
        last = one.number
        if as_json:
            say_json({"number": one.number, "at": one.at, **one.event.model_dump(mode="json")})
        else:
            _tell_event(one, kept.options.run)
    return last


def _tell_event(one: Recorded, run: str) -> None:
    said = sentence(one.event, run=run)
    if said is not None:
        say(f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(one.at))} {printable(said)}")


Attempt = Annotated[int | None, typer.Option(min=1, help="One attempt; default: the latest with a transcript.")]


def transcript(
    run: Run,
    task: Task,
    attempt: Attempt = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep printing until the run stops.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Show texts and results in full.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the stored entries, one JSON object a line.")] = False,
) -> int:
    """Show an agent's conversation: its text, its tool calls, and their results."""
    kept = find_run_with(run, task)
    source = _source(kept, task, attempt)
    shown = _Shown(source, full=full, as_json=as_json)
    shown.tell(source.read())
    while follow and is_being_written(kept.folder):
        time.sleep(_LOOK_S)
        shown.tell(source.read())
    return 0 if shown.anything else _nothing_said(source)


def record(run: Run, task: Task, attempt: Attempt = None) -> int:
    """Print an agent's conversation as a script that the scripted model can replay."""
    kept = find_run_with(run, task)
    source = _source(kept, task, attempt)
    entries = source.entries(source.read())
    if not any(isinstance(entry, TurnSaid) and entry.turn.role == "assistant" for entry in entries):
        return _nothing_said(source)
    say(as_script(entries).rstrip("\n"))
    return 0


def _nothing_said(source: "_Source") -> int:
    return complain(f"{source.name} has no turn of a model: the agent said nothing in that attempt", NOTHING_THERE)


@dataclass(frozen=True, slots=True)
class _Source:
    """A transcript: a file on this host, or a copy from the hub."""

    name: str
    path: Path | None
    copy: bytes = b""

    def read(self) -> bytes:
        return self.path.read_bytes() if self.path is not None else self.copy

    def entries(self, data: bytes) -> list[Entry]:
        """Parse the complete lines. Raises TranscriptWrong."""
        return parse_transcript(data, self.name)


@dataclass(slots=True)
class _Shown:
    """Prints a transcript, and remembers how much of it was shown."""

    source: _Source
    full: bool
    as_json: bool
    _entries: int = 0

    @property
    def anything(self) -> bool:
        return self._entries > 0

    def tell(self, data: bytes) -> None:
        raw = data.split(b"\n")[:-1]
        entries = self.source.entries(data)
        if self.as_json:
            for line in raw[self._entries :]:
                say(line.decode())
        else:
            said = list(lines(entries, most_lines=None if self.full else 12, skip=self._entries))
            _print(said)
        self._entries = len(raw)


def _print(said: list[NarratedLine]) -> None:
    console = out()
    for line in said:
        console.print(printable(line.text), style=_STYLES.get(line.kind), markup=False)


def _source(kept: KeptRun, task: str, attempt: int | None) -> _Source:
    """
    Return the transcript: this host's file, else the copy in the hub.

    Raises:
        CannotRun: there is none.
    """
    state = kept.state()
    sent = state.tasks[task].attempt
    if attempt is not None and attempt > sent:
        raise CannotRun(f"task '{task}' of run {kept.options.run} has had only {count_of(sent, 'attempt')}")
    for number in [attempt] if attempt is not None else range(sent, 0, -1):
        for source in _places(kept, task, number):
            return source
    which = f"attempt {attempt} of task '{task}'" if attempt is not None else f"task '{task}'"
    agent = kept.course.tasks[task].agent.kind
    raise CannotRun(
        f"{which} of run {kept.options.run} has no transcript, here or in the hub; its agent is '{agent}'"
        + (", which has no conversation" if agent == "command" else "")
    )


def _places(kept: KeptRun, task: str, attempt: int) -> Iterator[_Source]:
    path = attempt_logs(kept.folder, task, attempt) / TRANSCRIPT
    if path.is_file():
        yield _Source(str(path), path)
    elif kept.course.tasks[task].agent.kind != "command":
        # The order ran on another host, so this one has no file.
        from forgepool.orchestrator.run.hub import open_hub
        from forgepool.workers.workspace.checkpoints import read_progress

        hub = open_hub(kept.options.hub, Settings())
        progress = read_progress(hub.mirror, kept.options.run, task, attempt)
        if progress is not None:
            yield _Source(f"the hub's copy of attempt {attempt}", None, progress.transcript)
