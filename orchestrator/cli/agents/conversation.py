"""Commands that show the conversation of an agent: `transcript`, `record`."""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from forgepool.orchestrator.cli.output.say import complain, printable, say
from forgepool.orchestrator.cli.output.terminal import out
from forgepool.orchestrator.cli.run.options import Run, Task, find_task
from forgepool.orchestrator.decisions.reasons import count_of
from forgepool.orchestrator.journal.store import is_being_written
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.orchestrator.run.run_folder import KeptRun
from forgepool.workers.agents.render_transcript import NarratedLine, lines
from forgepool.workers.context.transcript.entries import Entry, TurnSaid, parse_transcript
from forgepool.workers.context.transcript.exchanges import as_script
from forgepool.workers.schema.settings import Settings
from forgepool.workers.workspace.workspace import TRANSCRIPT, attempt_logs
from forgepool.worktrees.git.git import GitFailed

NOTHING_THERE = 1
_LOOK_S, _ASK_HUB_S = 0.3, 3.0
_STYLES = {"phase": "bold cyan", "model": "bold", "call": "green", "error": "red", "note": "yellow", "quiet": "dim"}
Attempt = Annotated[int | None, typer.Option(min=1, help="One attempt; default: the latest with a transcript.")]


def register(app: typer.Typer) -> None:
    app.command()(transcript)
    app.command()(record)


def transcript(
    run: Run,
    task: Task,
    attempt: Attempt = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep printing until the run stops.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Show texts and results in full.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the stored entries, one JSON object a line.")] = False,
) -> int:
    """Show an agent's conversation: its text, its tool calls, and their results."""
    kept, name = find_task(run, task)
    source = find_transcript(kept, name, attempt)
    shown = _Shown(source, full=full, as_json=as_json)
    shown.tell(source.read())
    while follow and is_being_written(kept.folder):
        time.sleep(_LOOK_S if source.path is not None else _ASK_HUB_S)
        shown.tell(source.read())
    return 0 if shown.anything else _nothing_said(source)


def record(run: Run, task: Task, attempt: Attempt = None) -> int:
    """Print an agent's conversation as a script that the scripted model can replay."""
    kept, name = find_task(run, task)
    source = find_transcript(kept, name, attempt)
    entries = source.entries(source.read())
    if not any(isinstance(entry, TurnSaid) and entry.turn.role == "assistant" for entry in entries):
        return _nothing_said(source)
    say(as_script(entries).rstrip("\n"))
    return 0


def _nothing_said(source: "TranscriptSource") -> int:
    return complain(f"{source.name} has no turn of a model: the agent said nothing in that attempt", NOTHING_THERE)


@dataclass(frozen=True, slots=True)
class TranscriptSource:
    """A transcript: a file on this host, or what the hub has of it."""

    name: str
    path: Path | None
    fetch: Callable[[], bytes] = bytes

    def read(self) -> bytes:
        return self.path.read_bytes() if self.path is not None else self.fetch()

    def entries(self, data: bytes) -> list[Entry]:
        """Parse the complete lines. Raises TranscriptWrong."""
        return parse_transcript(data, self.name)


@dataclass(slots=True)
class _Shown:
    """Prints a transcript, and remembers how much of it was shown."""

    source: TranscriptSource
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


def find_transcript(kept: KeptRun, task: str, attempt: int | None) -> TranscriptSource:
    """
    Return the transcript: this host's file, else the copy in the hub.

    Raises:
        CannotRun: there is none.
    """
    state = kept.state()
    sent = state.tasks[task].last_attempt
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


def _places(kept: KeptRun, task: str, attempt: int) -> Iterator[TranscriptSource]:
    path = attempt_logs(kept.folder, task, attempt) / TRANSCRIPT
    if path.is_file():
        yield TranscriptSource(str(path), path)
    elif kept.course.tasks[task].agent.kind != "command":
        # The order ran on another host, so this one has no file.
        from forgepool.orchestrator.run.hub import open_hub
        from forgepool.workers.workspace.checkpoints import read_progress

        hub = open_hub(kept.options.hub, Settings())
        found = read_progress(hub.mirror, kept.options.run, task, attempt)
        if found is None:
            return
        known = found.transcript

        def fetch() -> bytes:
            nonlocal known
            with suppress(GitFailed):  # What was read stays, and the hub is asked again.
                newer = read_progress(hub.mirror, kept.options.run, task, attempt)
                # At the task's end the transcript comes to this host, and leaves the hub.
                known = path.read_bytes() if path.is_file() else newer.transcript if newer is not None else known
            return known

        yield TranscriptSource(f"the hub's copy of attempt {attempt}", None, fetch)
