"""
The HTTP API of a queue, in a thread of the queue's process: address, token, routes, body limits.

It takes the ways of the command line: answers come from the journal, a submission is a push to the hub, a request is
left in the queue's inbox. So it can do nothing that could not be done beside it.

Why does no answer tell what became of a request? The queue reads its inbox at its next turn; the answer says that the
request is kept. Why no TLS, users or rights? A proxy in front does that better. One token opens everything.
"""

import hmac
import ipaddress
import json
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import structlog

from forgepool.orchestrator.decisions.queue.submissions import entry_name
from forgepool.orchestrator.journal.inbox import PersonRequest as Wish
from forgepool.orchestrator.journal.store import JournalUnreadable
from forgepool.orchestrator.merge_queue.http_desk import (
    MOST_LISTED,
    BadBody,
    Class,
    Desk,
    HttpAnswer,
    Pause,
    RequestRefused,
    SubmissionBody,
    WordBody,
    read_body,
)
from forgepool.orchestrator.merge_queue.serve.serve import Beside
from forgepool.orchestrator.reports.queue_board import QueueView
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.orchestrator.run.run_folder import KeptRun
from forgepool.workers.schema.settings import Settings, missing_extra
from forgepool.worktrees.git.git import GitFailed
from forgepool.worktrees.hub.mirror import Mirror, MissingCommit

SHORTEST_TOKEN = 16
_MOST_CALLS = 64
_ENDS_WITHIN_S, _SENT_WITHIN_S = 3, 20.0

log = structlog.get_logger()
MOST_BYTES = 65_536
"""The longest accepted body."""
_LISTED = 200
_TOO_LONG = f"the body is longer than {MOST_BYTES} bytes; push commits to the hub, and send only their names here"


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def address(text: str) -> Address:
    """Parse `HOST:PORT`, or `[HOST]:PORT` for IPv6. Raises CannotRun."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isascii() or not port.isdecimal() or int(port) > 65_535:
        raise CannotRun(f"--http '{text}' is not HOST:PORT; for callers on this machine only, use 127.0.0.1:8321")
    return Address(host=host, port=int(port))


def api_token(settings: Settings, file: Path | None, *, option: str = "--http") -> str:
    """Return the API's token. Raises CannotRun where there is none, or a guessable one."""
    where = "FORGEPOOL_GATE_API_TOKEN" if file is None else str(file)
    token = settings.gate_api_token.get_secret_value().strip() if settings.gate_api_token else ""
    if file is not None:
        try:
            token = file.read_text(encoding="utf-8").strip()
        except (OSError, ValueError) as unread:
            raise CannotRun(f"{file} cannot be read; name the file with the API's token") from unread
    if not token:
        raise CannotRun(f"{option} needs a token; set FORGEPOOL_GATE_API_TOKEN, or name a file with --token-file")
    if len(token) < SHORTEST_TOKEN or not (token.isascii() and token.isprintable()) or " " in token:
        raise CannotRun(
            f"the token in {where} is too weak: it needs at least {SHORTEST_TOKEN} ASCII characters without spaces; "
            "make one with: openssl rand -hex 24"
        )
    return token


def bind_socket(where: Address) -> socket.socket:
    """Return a listening socket; callers wait until it is served. Raises CannotRun."""
    family = socket.AF_INET6 if ":" in where.host else socket.AF_INET
    try:
        return socket.create_server((where.host, where.port), family=family, backlog=_MOST_CALLS)
    except OSError as taken:
        said = taken.strerror or str(taken)
        raise CannotRun(f"the server cannot listen at {where}: {said}; give another address with --http") from taken


def api_beside(
    http: str, token_file: Path | None, target: str, settings: Settings, tell: Callable[[str], None]
) -> Beside:
    """Listen at once, so that an address in use is reported before anything starts."""
    if missing := missing_extra("http"):
        raise CannotRun(f"--http needs an optional part of Forgepool: {missing}")
    where, token = address(http), api_token(settings, token_file)
    listening = bind_socket(where)
    where = Address(host=where.host, port=listening.getsockname()[1])
    if not where.is_loopback:
        tell(f"the API at {where} is plain HTTP that other hosts can reach, token included; put a TLS proxy in front")
    tell(f"the API is at http://{where}; docs/reference/gate_api.md describes it")

    def beside(kept: KeptRun, mirror: Mirror) -> AbstractContextManager[None]:
        return serving(Desk(view=QueueView(kept.folder), mirror=mirror, target=target), token, listening)

    return beside


@contextmanager
def serving(
    desk: Desk, token: str, listening: socket.socket, *, sent_within_s: float = _SENT_WITHIN_S
) -> Iterator[None]:
    """
    Serve from a thread that handles none of this process's signals.

    A caller that takes longer than `sent_within_s` to send a request is hung up on: it holds one of few places.
    """
    http = protocol_in_time(sent_within_s)
    server = small_server(
        gate_app(desk, token),
        most_calls=_MOST_CALLS,
        loop="asyncio",
        http=http,
        lifespan="off",
        timeout_graceful_shutdown=_ENDS_WITHIN_S,
    )
    thread = threading.Thread(target=server.run, args=([listening],), name="gate-api", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join(_ENDS_WITHIN_S + 2)
        listening.close()


def small_server(app: Any, *, most_calls: int, **options: Any) -> "uvicorn.Server":
    """Return a server that tells callers nothing about itself, and serves at most so many of them at once."""
    import uvicorn

    plain: dict[str, Any] = {
        "ws": "none",
        "log_config": None,
        "access_log": False,
        "server_header": False,
        "proxy_headers": False,
        "limit_concurrency": most_calls,
        "timeout_graceful_shutdown": 1,
    }
    return uvicorn.Server(uvicorn.Config(app, **plain | options))


def protocol_in_time(within_s: float) -> "type[asyncio.Protocol]":
    """Return uvicorn's protocol with a time for a whole request, which uvicorn does not limit."""
    import asyncio

    import h11
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Hurried(H11Protocol):
        late: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
            super().connection_made(transport)
            self.late = self.loop.call_later(within_s, transport.close)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            is_sending = self.conn.their_state in (h11.IDLE, h11.SEND_BODY)
            if self.late is not None and not is_sending:
                self.late.cancel()
                self.late = None
            elif self.late is None and is_sending:
                self.late = self.loop.call_later(within_s, self.transport.close)

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            if self.late is not None:
                self.late.cancel()

    return Hurried


if TYPE_CHECKING:
    import asyncio

    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpCall:
    """The data of one call."""

    name: str = ""
    """Name of the entry, if the path has one."""
    limit: str = ""
    body: bytes = field(default=b"", repr=False)


Act = Callable[[HttpCall], HttpAnswer]
EntryWord = Literal["cancel", "retry", "hold", "release"]


def gate_app(desk: Desk, token: str) -> "Starlette":
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.routing import Route

    endpoints: list[tuple[str, str, Act]] = [
        ("GET", "/status", lambda call: desk.status()),
        ("GET", "/entries", partial(_entries, desk)),
        ("POST", "/entries", lambda call: desk.submit(read_body(SubmissionBody, call.body))),
        ("GET", "/entries/{name:path}", lambda call: desk.entry(call.name)),
        ("DELETE", "/entries/{name:path}", partial(_entry_word, desk, "cancel")),
        ("POST", "/entries/{name:path}/retry", partial(_entry_word, desk, "retry")),
        ("POST", "/entries/{name:path}/hold", partial(_entry_word, desk, "hold")),
        ("POST", "/entries/{name:path}/release", partial(_entry_word, desk, "release")),
        ("PUT", "/entries/{name:path}/class", partial(_reclass, desk)),
        ("POST", "/pause", partial(_pause, desk)),
        ("POST", "/resume", partial(_resume, desk)),
    ]
    routes = [Route(path, _guarded(act, token), methods=[method]) for method, path, act in endpoints]
    routes.append(Route("/health", _health, methods=["GET"]))
    made = Starlette(routes=routes, exception_handlers={HTTPException: _elsewhere, Exception: _broken})
    made.router.redirect_slashes = False
    return made


def _entries(desk: Desk, call: HttpCall) -> HttpAnswer:
    limit = call.limit or str(_LISTED)
    if not limit.isdecimal() or len(limit) > 9 or not 1 <= int(limit) <= MOST_LISTED:
        raise RequestRefused(422, f"'{limit[:20]}' is not a limit; give a number from 1 to {MOST_LISTED}")
    return desk.entries(int(limit))


def _entry_word(desk: Desk, do: EntryWord, call: HttpCall) -> HttpAnswer:
    return desk.word(Wish(do=do, task=call.name, by=read_body(WordBody, call.body).by))


def _reclass(desk: Desk, call: HttpCall) -> HttpAnswer:
    said = read_body(Class, call.body)
    return desk.word(Wish(do="reclass", task=call.name, text=said.klass, by=said.by))


def _pause(desk: Desk, call: HttpCall) -> HttpAnswer:
    said = read_body(Pause, call.body)
    return desk.word(Wish(do="pause", text=said.why, by=said.by))


def _resume(desk: Desk, call: HttpCall) -> HttpAnswer:
    return desk.word(Wish(do="go", by=read_body(WordBody, call.body).by))


def _guarded(act: Act, token: str) -> Callable[["Request"], Awaitable["Response"]]:
    """Wrap an endpoint: check the token before the body is read."""

    async def answer(request: "Request") -> "Response":
        from starlette.concurrency import run_in_threadpool

        if request.path_params.get("name") == "":
            return await _elsewhere(request, Exception())
        try:
            _admit(request, token)
            call = HttpCall(
                name=entry_name(request.path_params["name"]) if "name" in request.path_params else "",
                limit=request.query_params.get("limit", ""),
                body=await read_whole_body(request),
            )
            given = await run_in_threadpool(_acted, act, call)
        except RequestRefused as refused:
            return _said(refused.status, str(refused))
        return _json(given.status, given.body)

    return answer


def _acted(act: Act, call: HttpCall) -> HttpAnswer:
    try:
        return act(call)
    except BadBody as wrong:
        raise RequestRefused(422, str(wrong)) from wrong
    except (GitFailed, MissingCommit) as away:
        raise RequestRefused(503, f"the hub cannot be reached now: {away}; try again") from away
    except JournalUnreadable as unread:
        raise RequestRefused(503, str(unread)) from unread


def _admit(request: "Request", token: str) -> None:
    kind, _, given = request.headers.get("authorization", "").partition(" ")
    if not given:
        raise RequestRefused(401, "a token is required; send it as: Authorization: Bearer TOKEN")
    is_right = hmac.compare_digest(given.strip().encode("latin-1", "replace"), token.encode("latin-1", "replace"))
    if not is_right or kind.lower() != "bearer":
        raise RequestRefused(401, "the token is wrong; send this queue's as: Authorization: Bearer TOKEN")


async def read_whole_body(request: "Request") -> bytes:
    """Read the body. Raises RequestRefused as soon as it is too long."""
    said = request.headers.get("content-length", "")
    if said.isdecimal() and (len(said) > 9 or int(said) > MOST_BYTES):
        raise RequestRefused(413, _TOO_LONG)
    found = bytearray()
    async for part in request.stream():
        found += part
        if len(found) > MOST_BYTES:
            raise RequestRefused(413, _TOO_LONG)
    return bytes(found)


async def _health(request: "Request") -> "Response":
    return _said(200, "the queue's API is up")


async def _elsewhere(request: "Request", wrong: Exception) -> "Response":
    status = getattr(wrong, "status_code", 404)
    asked = f"{request.method} {request.url.path[:100]}"
    if status == 405:
        return _said(405, f"{asked} is not allowed; see docs/reference/gate_api.md")
    return _said(status, f"there is nothing at {asked}; see docs/reference/gate_api.md")


async def _broken(request: "Request", trouble: Exception) -> "Response":
    log.error("api.broken", path=request.url.path, why=repr(trouble))
    return _said(500, "the queue could not answer that; its log says why")


def _said(status: int, sentence: str) -> "Response":
    return _json(status, {"said": sentence})


def _json(status: int, body: object) -> "Response":
    from starlette.responses import Response

    headers = {"cache-control": "no-store"} | ({"www-authenticate": "Bearer"} if status == 401 else {})
    return Response(json.dumps(body) + "\n", status, headers, "application/json")
