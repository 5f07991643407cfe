"""`forgepool watch`: the command, and what it needs of a terminal."""

import sys
from typing import Annotated

import typer

from forgepool.orchestrator.cli.run.options import complete_run
from forgepool.orchestrator.run import run_folder
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.workers.schema.settings import Settings, missing_extra

_Run = Annotated[
    str | None,
    typer.Argument(help="The run's name, or its beginning; default: all.", autocompletion=complete_run),
]


def register(app: typer.Typer) -> None:
    app.command()(watch)


def watch(run: _Run = None) -> int:
    """Show all runs and queues of this home in the terminal, follow them, and take actions there."""
    if missing := missing_extra("watch"):
        raise CannotRun(f"`forgepool watch` needs an optional part of Forgepool: {missing}")
    settings = Settings()
    name = run_folder.find(settings, run).options.run if run is not None else ""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise CannotRun(
            "`forgepool watch` needs a terminal; without one, `forgepool attention` lists what needs you, "
            "`forgepool status` shows a run, and `forgepool events RUN --follow` follows it"
        )
    from forgepool.orchestrator.interfaces.watch.screens import WatchApp
    from forgepool.orchestrator.reports.home import HomeView

    # Without the mouse, the terminal's own selection copies commands as everywhere else.
    failure = WatchApp(HomeView(settings), name).run(mouse=False)
    if failure is not None:
        raise failure
    return 0
