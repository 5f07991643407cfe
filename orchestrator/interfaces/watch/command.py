"""`forgepool watch`: the command, and what it needs of a terminal."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from forgepool.orchestrator.cli.run.options import complete_run
from forgepool.orchestrator.run import run_folder
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.workers.schema.capabilities import missing_extra
from forgepool.workers.schema.settings import Settings

_Run = Annotated[
    str | None,
    typer.Argument(
        metavar="[RUN|URL]",
        help="The run's name, or its beginning, or the URL of `forgepool serve` on another machine (its token in "
        "FORGEPOOL_WATCH_TOKEN); default: all.",
        autocompletion=complete_run,
    ),
]


def register(app: typer.Typer) -> None:
    app.command()(watch)


def watch(run: _Run = None) -> int:
    """Show all runs and queues of this home, or another one, in the terminal, follow them, and take actions there."""
    if missing := missing_extra("watch"):
        raise CannotRun(f"`forgepool watch` needs an optional part of Forgepool: {missing}")
    settings = Settings()
    is_url = run is not None and run.startswith(("http://", "https://"))
    name = run_folder.find(settings, run).options.run if run is not None and not is_url else ""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise CannotRun(
            "`forgepool watch` needs a terminal; without one, `forgepool attention` lists what needs you, "
            "`forgepool status` shows a run, and `forgepool events RUN --follow` follows it"
        )
    from forgepool.orchestrator.interfaces.watch.screens import WatchApp
    from forgepool.orchestrator.interfaces.watch.source import OwnHome, open_other
    from forgepool.orchestrator.reports.home import HomeView

    with TemporaryDirectory(prefix="forgepool-watch-") as copy:
        other = open_other(run or "", settings, Path(copy)) if is_url else None
        # Without the mouse, the terminal's own selection copies commands as everywhere else.
        failure = WatchApp(other or OwnHome(home=HomeView(settings)), name).run(mouse=False)
        if other is not None:
            other.close()
    if failure is not None:
        raise failure
    return 0
