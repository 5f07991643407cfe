"""`forgepool mcp`: the server on standard streams, or over HTTP."""

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from forgepool.orchestrator.run.hub import CannotRun
from forgepool.workers.schema.settings import Settings, missing_extra

_ASK_ABOVE_USD = 5.0
_DEFAULT_HTTP = "127.0.0.1:8330"


def register(app: typer.Typer) -> None:
    app.command()(mcp)


def mcp(
    may: Annotated[
        Literal["approve"] | None,
        typer.Option(
            "--may",
            help="Also offer to approve and reject candidates, in a person's name, and start plans with waivers.",
        ),
    ] = None,
    ask_above: Annotated[
        float,
        typer.Option(metavar="USD", min=0.0, help="Cap on the cost of a run above which a person has to agree."),
    ] = _ASK_ABOVE_USD,
    http: Annotated[
        str | None,
        typer.Option(
            "--http", metavar="HOST:PORT", help="Listen here, in place of the standard streams; loopback only."
        ),
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File with the token that requests over HTTP have to show.")
    ] = None,
) -> int:
    """
    Let agents and editors check, start and follow runs, and use merge queues, by the Model Context Protocol.

    The client starts it, and talks to it on standard input and output, unless --http is given.
    """
    if missing := missing_extra("mcp"):
        raise CannotRun(f"`forgepool mcp` needs an optional part of Forgepool: {missing}")
    is_stdio = http is None and token_file is None
    if is_stdio and sys.stdin.isatty():
        raise CannotRun(
            "standard input is a terminal; `forgepool mcp` is started by a client, which talks to it there, "
            "or listens with --http"
        )
    from forgepool.orchestrator.interfaces.mcp.offer import build_server

    settings = Settings()
    server = build_server(settings, may_approve=may == "approve", ask_above_usd=ask_above)
    if is_stdio:
        server.run()
        return 0
    from forgepool.orchestrator.interfaces.mcp.over_http import serve_http

    serve_http(server, http or _DEFAULT_HTTP, token_file, settings)
    return 0
