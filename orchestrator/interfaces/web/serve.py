"""`forgepool attention` and `forgepool serve`: everything that needs a person, in the terminal and in a browser."""

import logging
import socket
import sys
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from forgepool.orchestrator.cli.output.say import complain, printable, say, say_json
from forgepool.orchestrator.cli.run.options import JsonList
from forgepool.orchestrator.reports.home import HomeView
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.workers.schema.settings import Settings, missing_extra

if TYPE_CHECKING:
    from forgepool.orchestrator.interfaces.web.access import WebAccess
    from forgepool.orchestrator.merge_queue.http_server import Address

_HOST, _PORT = "127.0.83.20" if sys.platform == "linux" else "127.0.0.1", 8320
"""
Browsers share cookies among all ports of a host, so pages of an agent's own server at 127.0.0.1 would get an
operator's. Linux answers at every address of this machine that begins with 127.
"""
_MOST_CALLS = 300
"""Connections and streams at once."""
_SENT_WITHIN_S = 20.0


def register(app: typer.Typer) -> None:
    app.command("attention")(list_attention)
    app.command()(serve)


def list_attention(as_json: JsonList = False) -> None:
    """List everything that needs a person, in all runs and queues of this home, with the command that ends each."""
    from dataclasses import asdict

    rows = HomeView(Settings()).attention()
    if as_json:
        say_json([asdict(row) for row in rows])
    elif not rows:
        say("nothing needs you")
    for row in () if as_json else rows:
        about = f"{row.name} of {row.run}" if row.task else row.run
        say(f"{row.cause}: {printable(about)}: {printable(row.sentence)}\n    {printable(row.command)}")


def serve(
    http: Annotated[
        str | None,
        typer.Option(
            "--http",
            metavar="HOST:PORT",
            help=f"Where to listen; default: port {_PORT} of this machine alone, or a free one.",
        ),
    ] = None,
    name: Annotated[
        list[str] | None,
        typer.Option("--name", metavar="HOST", help="A further host name by which browsers reach it; repeatable."),
    ] = None,
    tokens: Annotated[bool, typer.Option("--tokens", help="Also print the two tokens for programs.")] = False,
) -> int:
    """Show all runs and queues of this home in a browser, and take actions there, until Ctrl-C."""
    if missing := missing_extra("http"):
        raise CannotRun(f"`forgepool serve` needs an optional part of Forgepool: {missing}")
    from forgepool.orchestrator.interfaces.web.access import ROLES, WebAccess, read_key

    settings = Settings()
    where, listening = _listen(http)
    access = WebAccess(
        key=read_key(settings.home),
        names=frozenset({"localhost", where.host.lower(), *(one.lower() for one in name or ())}),
        is_loopback=where.is_loopback,
        cookie=f"forgepool-{where.port}",
    )
    _tell_links(access, where)
    for role in ROLES if tokens else ():
        say(f"token for a program that {'may act' if role == 'operator' else 'only looks'}: {access.token(role)}")
    _answer(HomeView(settings), access, listening)
    return 0


def _answer(home: HomeView, access: "WebAccess", listening: socket.socket) -> None:
    """Answer until a signal ends it."""
    from forgepool.orchestrator.interfaces.web.app import web_app
    from forgepool.orchestrator.merge_queue.http_server import protocol_in_time, small_server

    # Its complaints are about callers that hung up; our own log has what is wrong here.
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    http = protocol_in_time(_SENT_WITHIN_S)
    server = small_server(web_app(home, access), most_calls=_MOST_CALLS, http=http, lifespan="off")
    server.run(sockets=[listening])


def _listen(http: str | None) -> "tuple[Address, socket.socket]":
    """Return the address and its socket. Without a wish it is the usual port, or any where that is taken."""
    from forgepool.orchestrator.merge_queue.http_server import Address, address, bind_socket

    if http is not None:
        where = address(http)
        return _bound(where, bind_socket(where))
    for where in (Address(host=_HOST, port=_PORT), Address(host=_HOST, port=0)):
        with suppress(CannotRun):
            return _bound(where, bind_socket(where))
    where = Address(host="127.0.0.1", port=0)  # A machine without that address.
    return _bound(where, bind_socket(where))


def _bound(where: "Address", listening: socket.socket) -> "tuple[Address, socket.socket]":
    return replace(where, port=listening.getsockname()[1]), listening


def _tell_links(access: "WebAccess", where: "Address") -> None:
    say(f"forgepool is at http://{where}, until Ctrl-C. Each link opens once, within 15 minutes:")
    say(f"  to act:        http://{where}/enter?code={access.new_link('operator')}")
    say(f"  only to look:  http://{where}/enter?code={access.new_link('viewer')}")
    if not where.is_loopback:
        complain("other hosts can reach this address, and it is plain HTTP: put a TLS proxy in front", 0)
