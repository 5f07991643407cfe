"""For the proxy's tests: a host that sends exactly the given bytes, and a simple client."""

import contextlib
import socket
import socketserver
import threading
from collections.abc import Sequence
from ipaddress import ip_address
from typing import Self

from forgepool.workers.sandbox.network.exchange import ProxyLimits, ProxyRecord
from forgepool.workers.sandbox.network.hosts import Address, read_rules
from forgepool.workers.sandbox.network.outlet import Proxy
from forgepool.workers.sandbox.network.upstream import LookUp, ask_system

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
PATIENCE_S = 10.0


class Web:
    """A host on this machine's loopback. It answers once it has received all of `until`."""

    def __init__(self, answer: bytes = OK, *, until: bytes = b"\r\n\r\n", keeps_open: bool = False) -> None:
        web = self
        self.heard: list[bytes] = []
        """The bytes of each connection, the latest last."""
        self.over: list[int] = []
        """Connections that have ended."""

        class Connection(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                index = len(web.heard)
                web.heard.append(b"")
                with contextlib.suppress(ConnectionResetError):
                    self.converse(index)
                web.over.append(index)

            def converse(self, index: int) -> None:
                answered = False
                while piece := self.request.recv(65536):
                    web.heard[index] += piece
                    if not answered and until in web.heard[index]:
                        self.request.sendall(answer)
                        answered = True
                        if not keeps_open:
                            return

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Connection)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()
        self.port: int = self._server.server_address[1]

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ending: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class Way:
    """A proxy on this machine's loopback, and its records."""

    def __init__(
        self, patterns: Sequence[str], *, limits: ProxyLimits | None = None, look_up: LookUp = ask_system
    ) -> None:
        self.told: list[ProxyRecord] = []
        self.proxy = Proxy(read_rules(patterns), report=self.told.append, limits=limits, look_up=look_up)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self.listener.getsockname()
        self.proxy.serve(self.listener)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ending: object) -> None:
        self.proxy.close()

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, timeout=PATIENCE_S)

    def ask(self, said: bytes) -> bytes:
        """Send these bytes, and return all that is answered until the proxy closes."""
        with self.connect() as client:
            client.sendall(said)
            return everything(client)

    def tunnel(self, place: str) -> socket.socket:
        client = self.connect()
        client.sendall(f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n\r\n".encode())
        answer = client.recv(4096)
        assert answer.startswith(b"HTTP/1.1 200 "), answer
        return client

    def last(self) -> ProxyRecord:
        """Return the last record after all connections have ended."""
        self.proxy.close()
        return self.told[-1]


def everything(client: socket.socket) -> bytes:
    said = b""
    while piece := client.recv(65536):
        said += piece
    return said


def addresses(*texts: str) -> tuple[Address, ...]:
    return tuple(ip_address(text) for text in texts)
