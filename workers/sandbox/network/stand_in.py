"""
Stands in for package indexes that want a password, so that no command ever holds one.

A command's TLS ends here, under a certificate of an authority that is made for this one outlet. The request goes on to
the index, verified against the host's own authorities, with the password in it. Reading is all that a command can do
so: no request but GET and HEAD is passed on. Redirections to other hosts are the command's own to follow, without a
password.
"""

import contextlib
import http.client
import http.server
import re
import socketserver
import ssl
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote

from forgepool.workers.sandbox.network.head import Plain
from forgepool.workers.sandbox.network.hosts import BadHost, host_name, split_port
from forgepool.workers.sandbox.network.upstream import Proxies

_TIMEOUT_S = 120.0
_PIECE_BYTES = 64 * 1024
_HOP_BY_HOP = frozenset(
    ("connection", "keep-alive", "te", "trailer", "upgrade", "transfer-encoding", "host", "authorization", "expect")
)
_PORT = 443
_SEPARATOR = re.compile(r"[/\\]")
_IGNORED = re.compile(r"[\s\0]|;.*", re.DOTALL)
_MOST_DECODINGS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """The password for one host, below a path."""

    host: str
    """Normalised."""
    port: int
    path: str = "/"
    authorization: str = field(repr=False)
    """The value of the header."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How this host reaches packages, beside knowing where they are."""

    keys: tuple[Key, ...] = ()
    proxies: Proxies = field(default_factory=Proxies)
    roots: str = ""
    """The certificates of all authorities that it trusts, as PEM."""

    def authorization(self, host: str, port: int, path: str) -> str | None:
        """
        Return the header for a request; of several keys that of the longest path.

        A path that an index may read as another one gets none. Paths are compared by whole segments.
        """
        if is_ambiguous(path):
            return None
        asked = f"{path.partition('?')[0]}/"
        fitting = [
            key
            for key in self.keys
            if (key.host, key.port) == (host, port) and asked.startswith(f"{key.path.rstrip('/')}/")
        ]
        return max(fitting, key=lambda key: len(key.path)).authorization if fitting else None

    def with_authorization(self, request: Plain) -> Plain:
        """The same request without TLS, with the password in place of whatever the command says."""
        first, *fields = request.head.removesuffix(b"\r\n\r\n").split(b"\r\n")
        said = self.authorization(request.host, request.port, first.split(b" ")[1].decode("latin-1"))
        if said is None or request.method not in ("GET", "HEAD"):
            return request
        kept = [line for line in fields if not line.lower().startswith(b"authorization:")]
        head = b"\r\n".join((first, *kept, f"Authorization: {said}".encode("latin-1"), b"", b""))
        return replace(request, head=head)

    @property
    def guarded(self) -> frozenset[tuple[str, int]]:
        return frozenset((key.host, key.port) for key in self.keys)


def is_ambiguous(target: str) -> bool:
    """
    Tell whether a request's path has `.` or `..` in it, written in any way that some server reads as one.

    Such a path leads out of the folder that it begins with. Clients resolve these themselves before they ask.
    """
    path = target.partition("?")[0]
    for _ in range(_MOST_DECODINGS):
        if any(_IGNORED.sub("", each) in (".", "..") for each in _SEPARATOR.split(path)):
            return True
        decoded = unquote(path)
        if decoded == path:
            return False
        path = decoded
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class StandIn:
    """Where it listens, and the authority that commands have to trust."""

    socket: Path
    authority: str
    hosts: frozenset[tuple[str, int]]


@contextmanager
def standing_in(access: Access) -> Iterator[StandIn | None]:
    """Serves until the block ends; nothing where no index wants a password."""
    if not access.keys:
        yield None
        return
    # The folder is this user's alone, and no sandbox shows it: whoever reached the socket would use the passwords.
    with tempfile.TemporaryDirectory(prefix="forgepool-index-") as folder:
        # Imported here: cryptography takes a tenth of a second, and few processes need it.
        from forgepool.workers.sandbox.network.authority import certificates

        authority, chain = certificates(access.guarded, Path(folder))
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(chain)
        place = Path(folder) / "socket"
        with _Server(str(place), type("_Bound", (_Requests,), {"access": access})) as server:
            server.tls = tls
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
            thread.start()
            try:
                yield StandIn(socket=place, authority=authority, hosts=access.guarded)
            finally:
                server.shutdown()
                thread.join()


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    block_on_close = False
    tls: ssl.SSLContext

    def get_request(self) -> tuple[Any, Any]:
        connection, address = super().get_request()
        # The handshake comes with the first read, in the connection's own thread.
        return self.tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False), address

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that breaks off is the command's affair."""


class _Requests(http.server.BaseHTTPRequestHandler):
    access: ClassVar[Access]
    timeout = _TIMEOUT_S
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.close_connection = True
        place = self._place()
        if place is None:
            self.send_error(421, "no index of this host has that name")
            return
        host, port = place
        if is_ambiguous(self.path):
            self.send_error(400, "the path has . or .. in it; ask for the path that it leads to")
            return
        try:
            with contextlib.closing(_connection(self.access, host, port)) as connection:
                self._pass_on(connection, host, port)
        except (OSError, http.client.HTTPException) as trouble:
            self.send_error(502, _words(host, trouble))

    do_HEAD = do_GET  # noqa: N815 - the standard library's name

    def _place(self) -> tuple[str, int] | None:
        with contextlib.suppress(BadHost):
            written, port = split_port(self.headers.get("Host", ""))
            place = (host_name(written), port or _PORT)
            return place if place in self.access.guarded else None
        return None

    def _pass_on(self, connection: http.client.HTTPConnection, host: str, port: int) -> None:
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _HOP_BY_HOP}
        if (said := self.access.authorization(host, port, self.path)) is not None:
            headers["Authorization"] = said
        connection.request(self.command, self.path, headers=headers)
        answer = connection.getresponse()
        self.send_response_only(answer.status, answer.reason)
        for name, value in answer.getheaders():
            if name.lower() not in _HOP_BY_HOP:
                self.send_header(name, value)
        self.send_header("Connection", "close")
        self.end_headers()
        while piece := answer.read(_PIECE_BYTES):
            self.wfile.write(piece)

    def log_message(self, format: str, *words: object) -> None: ...


def _connection(access: Access, host: str, port: int) -> http.client.HTTPSConnection:
    tls = ssl.create_default_context(cadata=access.roots or None)
    upstream = access.proxies.to(host, port, secure=True)
    if upstream is None:
        return http.client.HTTPSConnection(host, port, context=tls, timeout=_TIMEOUT_S)
    if upstream.tls:
        # The standard library would send the proxy's password in clear.
        raise OSError("a proxy that is reached by TLS does not lead to an index with a password; name it by http://")
    found = http.client.HTTPSConnection(upstream.host, upstream.port, context=tls, timeout=_TIMEOUT_S)
    found.set_tunnel(host, port, headers=upstream.headers)
    return found


def _words(host: str, trouble: Exception) -> str:
    reason = getattr(trouble, "verify_message", "") or getattr(trouble, "strerror", "") or str(trouble)
    return f"{host}: {reason}".encode("ascii", "replace").decode().replace("\n", " ")
