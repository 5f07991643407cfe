"""The command line's frame: which commands there are, and how any failure becomes one sentence and an exit status."""

import sys
from importlib.metadata import version
from typing import Annotated

import typer
from typer._click.exceptions import NoArgsIsHelpError, UsageError  # typer carries its own click

from forgepool.orchestrator.cli.commands import START, AllCommands, usage_sentence
from forgepool.orchestrator.cli.output.say import complain, hush, say
from forgepool.worktrees.errors import InfrastructureError, UserError

WRONG, INFRASTRUCTURE, INTERRUPTED = 2, 3, 130

app = typer.Typer(
    name="forgepool",
    cls=AllCommands,
    help="Runs a plan of coding tasks in parallel, and lands only what passes its checks.",
    context_settings={"help_option_names": ["-h", "--help"]},
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _tell_version(asked: bool) -> None:
    if asked:
        say(f"forgepool {version('forgepool')}")
        raise typer.Exit


@app.callback()
def _forgepool(
    context: typer.Context,
    asked: Annotated[
        bool, typer.Option("--version", "-V", callback=_tell_version, is_eager=True, help="Say which version this is.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        say(START)
        return
    from forgepool.workers.schema.logs import log_to_stderr

    log_to_stderr()


def main() -> None:
    """Runs the command line and exits with its status."""
    sys.exit(_status())


def _status() -> int:
    try:
        returned = app(standalone_mode=False, prog_name="forgepool")
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
    """Print one sentence for what a command has raised; return the exit status."""
    match failure:
        case NoArgsIsHelpError():
            sys.stderr.write(f"{failure.message}\n")
            return WRONG
        case UsageError():
            return complain(usage_sentence(failure), WRONG)
        case UserError():
            return complain(str(failure), WRONG)
        case InfrastructureError():
            return complain(str(failure), INFRASTRUCTURE)
        case _:
            from forgepool.orchestrator.cli.output.failures import sentence_and_status

            return complain(*sentence_and_status(failure))
