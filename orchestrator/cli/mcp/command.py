"""`forgepool mcp`: the server on standard streams, or over HTTP."""

from typing import Annotated, Literal

import typer

from forgepool.orchestrator.run.hub import CannotRun
from forgepool.workers.schema.extras import missing_extra
from forgepool.workers.schema.settings import Settings

_ASK_ABOVE_USD = 5.0


def register(app: typer.Typer) -> None:
    app.command()(mcp)


def mcp(
    may: Annotated[
        Literal["approve"] | None,
        typer.Option("--may", help="Also offer to approve and reject candidates, in a person's name."),
    ] = None,
    ask_above: Annotated[
        float,
        typer.Option(metavar="USD", min=0.0, help="Cap on the cost of a run above which a person has to agree."),
    ] = _ASK_ABOVE_USD,
) -> int:
    """
    Let agents and editors check, start and follow runs, and use merge queues, by the Model Context Protocol.

    They talk to it on standard input and output, so it is they who start it.
    """
    if missing := missing_extra("mcp"):
        raise CannotRun(f"`forgepool mcp` needs an optional part of Forgepool: {missing}")
    from forgepool.orchestrator.cli.mcp.offer import build_server

    build_server(Settings(), may_approve=may == "approve", ask_above_usd=ask_above).run()
    return 0
