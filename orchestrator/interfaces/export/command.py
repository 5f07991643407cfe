"""`forgepool export`: a run as a trace, for OpenTelemetry."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from forgepool.orchestrator.cli.output.say import printable, say, tell_slow
from forgepool.orchestrator.cli.run.options import Run
from forgepool.orchestrator.run import run_folder
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.workers.schema.capabilities import missing_extra
from forgepool.workers.schema.settings import Settings
from forgepool.worktrees.errors import UserError
from forgepool.worktrees.git.git import without_password

if TYPE_CHECKING:
    from forgepool.orchestrator.interfaces.export.traces import TraceStep


def register(app: typer.Typer) -> None:
    app.command()(export)


def export(
    run: Run,
    otlp: Annotated[
        str | None,
        typer.Option("--otlp", metavar="URL", help="Send it to this collector, such as http://localhost:4318."),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", metavar="FILE", help="Write it to this file, in OTLP's JSON.")
    ] = None,
) -> None:
    """Export a run as a trace: its tasks, attempts, orders, checks, reviews and landings, with costs and failures."""
    if missing := missing_extra("otel"):
        raise CannotRun(f"`forgepool export` needs an optional part of Forgepool: {missing}")
    if otlp is None and file is None:
        raise UserError("`forgepool export` needs a place; add --otlp URL or --file FILE")
    from forgepool.orchestrator.interfaces.export.otlp import make_spans, send_spans, write_spans
    from forgepool.orchestrator.interfaces.export.traces import trace_run
    from forgepool.workers.schema.logs import trace_id_of

    kept = run_folder.find(Settings(), run)
    state, recorded = kept.replay()
    steps = trace_run(kept.course, state, recorded)
    steps += [call for order in steps if order.kind == "order" for call in _calls_of(kept, order)]
    spans = list(make_spans(state.run, steps, state.at))
    if not spans:
        raise UserError(f"run {kept.options.run} has no event yet; export it once it has begun")
    if file is not None:
        write_spans(spans, file)
    if otlp is not None:
        with tell_slow(f"sending the spans to {printable(without_password(otlp))}"):
            send_spans(spans, otlp)
    say(f"run {state.run}: {len(spans)} spans in trace {trace_id_of(state.run)}")


def _calls_of(kept: run_folder.KeptRun, order: "TraceStep") -> "Iterator[TraceStep]":
    """Yield the calls of models and tools of a conversation that Forgepool leads, where this home has it."""
    from forgepool.orchestrator.interfaces.export.traces import trace_conversation
    from forgepool.workers.context.transcript.entries import TranscriptWrong, read_transcript
    from forgepool.workers.workspace.workspace import TRANSCRIPT, attempt_logs

    task, attempt = str(order.facts["task"]), str(order.facts["message"]).rpartition(".")[2]
    try:
        entries = read_transcript(attempt_logs(kept.folder, task, int(attempt)) / TRANSCRIPT)
    except (TranscriptWrong, OSError):  # That of another program's agent has another form.
        return
    yield from trace_conversation(order, entries)
