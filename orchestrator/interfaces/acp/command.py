"""`forgepool acp`: the agent on standard streams."""

import asyncio
from typing import Annotated, Literal

import typer

from forgepool.orchestrator.run.hub import CannotRun
from forgepool.workers.schema.settings import Settings, missing_extra

_ASK_ABOVE_USD = 5.0


def register(app: typer.Typer) -> None:
    app.command()(acp)


def acp(
    may: Annotated[
        Literal["approve"] | None,
        typer.Option("--may", help="Ask the person at the editor to approve candidates; start plans with waivers."),
    ] = None,
    ask_above: Annotated[
        float,
        typer.Option(metavar="USD", min=0.0, help="Cap on the cost of a run above which the person is asked first."),
    ] = _ASK_ABOVE_USD,
) -> int:
    """
    Run plans from an editor, by the Agent Client Protocol.

    The editor starts it, and talks to it on standard input and output.
    """
    if missing := missing_extra("acp"):
        raise CannotRun(f"`forgepool acp` needs an optional part of Forgepool: {missing}")
    from forgepool.orchestrator.interfaces.acp.pipes import serve_editor

    asyncio.run(serve_editor(Settings(), may_approve=may == "approve", ask_above_usd=ask_above))
    return 0
