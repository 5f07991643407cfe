"""The command line's frame: which commands there are, and how any failure becomes one sentence and an exit status."""

import os
import sqlite3
import sys

import typer
from pydantic import ValidationError
from typer._click.exceptions import ClickException as UsageError  # typer carries its own click

from orchestrator.cli import asking, checking, demo, hosts, running
from orchestrator.cli.say import complain
from orchestrator.embedded import NoRedis
from orchestrator.journal import JournalBusy, JournalUnreadable
from orchestrator.runs import NoSuchRun
from orchestrator.session import CannotReach, CannotRun
from workers.documents import DocumentWrong
from workers.settings import mistake_in_settings
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
for module in (demo, running, asking, checking, hosts):
    module.register(app)


def main() -> None:
    """Runs the command line and exits with its status."""
    sys.exit(_status())


def _status() -> int:
    try:
        returned = app(standalone_mode=False)
    except typer.Exit as ended:
        return ended.exit_code
    except UsageError as usage:
        return complain(f"{usage.format_message()} (see `forgepool --help`)", WRONG)
    except (typer.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except (DocumentWrong, CannotRun, HubUnusable, NoSuchRun, JournalBusy) as wrong:
        return complain(str(wrong), WRONG)
    except (NoRedis, BrokerRefused, CannotReach, TargetRefused, JournalUnreadable) as trouble:
        return complain(str(trouble), INFRASTRUCTURE)
    except (GitFailed, MissingCommit, *BrokerAway) as trouble:
        return complain(str(trouble), INFRASTRUCTURE)
    except ValidationError as wrong:
        mistake = mistake_in_settings(wrong)
        if mistake is None:
            raise
        return complain(mistake, WRONG)
    except (sqlite3.Error, OSError) as trouble:
        return _of_this_machine(trouble)
    return returned if isinstance(returned, int) else 0


def _of_this_machine(trouble: sqlite3.Error | OSError) -> int:
    """A disk, a file, a pipe: told without an error number, and with the file first."""
    if isinstance(trouble, BrokenPipeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    said = str(trouble)
    if isinstance(trouble, OSError) and trouble.strerror:
        said = f"{trouble.filename}: {trouble.strerror}" if trouble.filename else trouble.strerror
    return complain(f"{said}; what was journaled is safe: mend it, then `forgepool resume`", INFRASTRUCTURE)
