"""The command line's frame: which commands there are, and how any failure becomes one sentence and an exit status."""

import os
import sqlite3
import sys
import time
import traceback
from importlib.metadata import version
from typing import Annotated

import typer
from pydantic import ValidationError
from typer._click.exceptions import ClickException as UsageError  # typer carries its own click

from orchestrator.cli import (
    asking,
    checking,
    context,
    conversing,
    demo,
    gate,
    hosts,
    init,
    models,
    policy,
    requesting,
    running,
    sandbox,
    simulating,
)
from orchestrator.cli.say import complain, hush, say
from orchestrator.embedded import NoRedis
from orchestrator.hub import CannotRun
from orchestrator.journal import JournalBusy, JournalUnreadable
from orchestrator.refusals import CannotReach
from orchestrator.runs import NoSuchRun
from workers.context.profiles.registry import UnknownProfile
from workers.context.replay.recording import BadRecording
from workers.logs import log_to_stderr
from workers.mistakes import DocumentWrong
from workers.policy.network import HostsRefused
from workers.sandbox.layers import NoSandbox
from workers.settings import Settings, mistake_in_settings
from workers.transcript import TranscriptWrong
from workers.wire import BrokerAway, BrokerRefused
from worktrees.git import GitFailed
from worktrees.hub import HubUnusable
from worktrees.mirror import MissingCommit
from worktrees.target import TargetRefused

WRONG, INFRASTRUCTURE, INTERRUPTED = 2, 3, 130

app = typer.Typer(
    name="forgepool",
    help="Runs a plan of coding tasks in parallel, and lands only what is green. "
    "Exit status: 0 all landed, 1 something did not land, 2 wrong usage or plan, 3 infrastructure, "
    "130 interrupted and resumable.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for module in (demo, running, asking, conversing, requesting, checking, init, gate):
    module.register(app)
for module in (hosts, models, policy, sandbox, context, simulating):
    module.register(app)


def _tell_version(asked: bool) -> None:
    if asked:
        say(f"forgepool {version('forgepool')}")
        raise typer.Exit


@app.callback()
def _forgepool(
    asked: Annotated[
        bool, typer.Option("--version", callback=_tell_version, is_eager=True, help="Say which version this is.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Runs the command line and exits with its status."""
    log_to_stderr()
    sys.exit(_status())


def _status() -> int:
    try:
        returned = app(standalone_mode=False)
    except typer.Exit as ended:
        return ended.exit_code
    except (typer.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except BrokenPipeError:
        hush()
        return 0
    except Exception as failure:
        return _complain_of(failure)
    return returned if isinstance(returned, int) else 0


def _complain_of(failure: Exception) -> int:
    """One sentence for whatever a command has raised, and its status; for what nobody foresaw, where to read of it."""
    match failure:
        case UsageError():
            return complain(f"{failure.format_message()} (see `forgepool --help`)", WRONG)
        case (
            DocumentWrong()
            | CannotRun()
            | HubUnusable()
            | NoSuchRun()
            | HostsRefused()
            | JournalBusy()
            | TranscriptWrong()
            | BadRecording()
            | UnknownProfile()
        ):
            return complain(str(failure), WRONG)
        case ValidationError() if mistake := mistake_in_settings(failure):
            return complain(mistake, WRONG)
        case NoRedis() | BrokerRefused() | CannotReach() | TargetRefused() | JournalUnreadable() | NoSandbox():
            return complain(str(failure), INFRASTRUCTURE)
        case GitFailed() | MissingCommit():
            return complain(str(failure), INFRASTRUCTURE)
        case sqlite3.Error() | OSError():
            return complain(_of_this_machine(failure), INFRASTRUCTURE)
        case _ if isinstance(failure, BrokerAway):
            return complain(str(failure), INFRASTRUCTURE)
        case _:
            return complain(f"something unforeseen happened; {_kept_traceback()}", INFRASTRUCTURE)


def _kept_traceback() -> str:
    """A bug of ours is no matter for a terminal: its traceback goes to a file, and the sentence says where."""
    folder = Settings().home / "logs"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"crash-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
        path.write_text(traceback.format_exc())
    except OSError:
        return f"it cannot be written to {folder}: {traceback.format_exc().strip().splitlines()[-1]}"
    return f"{path} has the details; what was journaled is safe, `forgepool resume` goes on from there"


def _of_this_machine(trouble: sqlite3.Error | OSError) -> str:
    """A disk, a file: told without an error number, and with the file first."""
    said = str(trouble)
    if isinstance(trouble, OSError) and trouble.strerror:
        said = f"{trouble.filename}: {trouble.strerror}" if trouble.filename else trouble.strerror
    return f"{said}; what was journaled is safe: mend it, then `forgepool resume`"
