"""The server over HTTP, for clients of this machine that do not start it themselves. Every request shows the token."""

import hmac
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from mcp.server.transport_security import TransportSecuritySettings

from forgepool.orchestrator.cli.output.say import say
from forgepool.orchestrator.interfaces.mcp.mcp_server import ForgepoolServer
from forgepool.orchestrator.merge_queue.http_server import Address, address, api_token, bind_socket, small_server
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.workers.schema.settings import Settings

AsgiApp = Callable[[Any, Any, Any], Awaitable[None]]
_MOST_CALLS = 64
_REFUSAL = b"this server needs the token of its --token-file, as: Authorization: Bearer TOKEN\n"


def serve_http(server: ForgepoolServer, http: str, token_file: Path | None, settings: Settings) -> None:
    """Answer until a signal ends it. Raises CannotRun for an address of other hosts, and without a good token."""
    where = address(http)
    if not where.is_loopback:
        raise CannotRun(f"--http {where} can be reached by other hosts; use an address of this one: 127.0.0.1:8330")
    if token_file is None:
        raise CannotRun("--http needs a token; name the file that holds it with --token-file")
    token = api_token(settings, token_file)
    listening = bind_socket(where)
    where = Address(host=where.host, port=listening.getsockname()[1])
    names = [f"{name}:{where.port}" for name in ("localhost", "127.0.0.1", "[::1]")]
    # A page of an attacker's name that resolves to this address (DNS rebinding) sends that name.
    hosts = TransportSecuritySettings(
        allowed_hosts=[*names, str(where)], allowed_origins=[f"http://{name}" for name in names]
    )
    app = demand_token(server.streamable_http_app(transport_security=hosts), token)
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    say(f"forgepool mcp is at http://{where}/mcp, until Ctrl-C")
    small_server(app, most_calls=_MOST_CALLS).run(sockets=[listening])


def demand_token(app: AsgiApp, token: str) -> AsgiApp:
    """Wrap an application: requests without the token are refused before anything of them is read."""

    async def guard(scope: Any, receive: Any, send: Any) -> None:
        given = dict(scope.get("headers", ())).get(b"authorization", b"")
        if scope["type"] == "http" and not hmac.compare_digest(given, b"Bearer " + token.encode()):
            headers = [(b"content-type", b"text/plain"), (b"www-authenticate", b"Bearer")]
            await send({"type": "http.response.start", "status": 401, "headers": headers})
            await send({"type": "http.response.body", "body": _REFUSAL})
            return
        await app(scope, receive, send)

    return guard
