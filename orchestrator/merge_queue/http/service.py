"""The API in a thread of the gate's process: its address, its token, its beginning and its end."""

import ipaddress
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from forgepool.orchestrator.merge_queue.http.desk import Desk
from forgepool.orchestrator.merge_queue.serve.serve import Beside
from forgepool.orchestrator.merge_queue.view import QueueView
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.orchestrator.run.run_folder import KeptRun
from forgepool.workers.schema.extras import missing_extra
from forgepool.workers.schema.settings import Settings
from forgepool.worktrees.hub.mirror import Mirror

SHORTEST_TOKEN = 16
_MOST_CALLS = 64
_ENDS_WITHIN_S = 3


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
    """`HOST:PORT`, or `[HOST]:PORT` of IPv6. Raises CannotRun."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isascii() or not port.isdecimal() or int(port) > 65_535:
        raise CannotRun(f"--http '{text}' is no HOST:PORT; for callers of this machine alone say 127.0.0.1:8321")
    return Address(host=host, port=int(port))


def api_token(settings: Settings, file: Path | None, *, option: str = "--http") -> str:
    """Raises CannotRun where there is none, or one that could be guessed."""
    where = "FORGEPOOL_GATE_API_TOKEN" if file is None else str(file)
    token = settings.gate_api_token.get_secret_value().strip() if settings.gate_api_token else ""
    if file is not None:
        try:
            token = file.read_text(encoding="utf-8").strip()
        except (OSError, ValueError) as unread:
            raise CannotRun(f"{file} cannot be read; give the file that has the API's token") from unread
    if not token:
        raise CannotRun(f"{option} wants a token; set FORGEPOOL_GATE_API_TOKEN, or name a file with --token-file")
    if len(token) < SHORTEST_TOKEN or not (token.isascii() and token.isprintable()) or " " in token:
        raise CannotRun(
            f"the token in {where} is none: it wants at least {SHORTEST_TOKEN} characters of ASCII without spaces; "
            "make one with: openssl rand -hex 24"
        )
    return token


def bind_socket(where: Address) -> socket.socket:
    """A socket that listens there; who connects waits until it is served. Raises CannotRun."""
    family = socket.AF_INET6 if ":" in where.host else socket.AF_INET
    try:
        return socket.create_server((where.host, where.port), family=family, backlog=_MOST_CALLS)
    except OSError as taken:
        said = taken.strerror or str(taken)
        raise CannotRun(f"the API cannot listen at {where}: {said}; give another address with --http") from taken


def api_beside(
    http: str, token_file: Path | None, target: str, settings: Settings, tell: Callable[[str], None]
) -> Beside:
    """Listens at once, so that an address that is taken is told before anything is started."""
    if missing := missing_extra("http"):
        raise CannotRun(f"--http needs the HTTP API: {missing}")
    where, token = address(http), api_token(settings, token_file)
    listening = bind_socket(where)
    where = Address(host=where.host, port=listening.getsockname()[1])
    if not where.is_loopback:
        tell(f"the API at {where} is plain HTTP that others can reach, token and all: put a proxy with TLS before it")
    tell(f"the API is at http://{where}; docs/reference/gate_api.md has its words")

    def beside(kept: KeptRun, mirror: Mirror) -> AbstractContextManager[None]:
        return serving(Desk(view=QueueView(kept.folder), mirror=mirror, target=target), token, listening)

    return beside


@contextmanager
def serving(desk: Desk, token: str, listening: socket.socket) -> Iterator[None]:
    """Serves from a thread, which has no say in this process's signals and none in its end."""
    import uvicorn

    from forgepool.orchestrator.merge_queue.http.app import gate_app

    config = uvicorn.Config(
        gate_app(desk, token),
        loop="asyncio",
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=_MOST_CALLS,
        timeout_graceful_shutdown=_ENDS_WITHIN_S,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listening],), name="gate-api", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join(_ENDS_WITHIN_S + 2)
        listening.close()
