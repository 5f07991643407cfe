"""Listeners outside the sandbox: on every kind of socket within reach, and at terminals."""

import contextlib
import os
import pty
import selectors
import socket
import threading
import tty
from collections.abc import Callable
from pathlib import Path
from typing import Self

_LOOPBACK = "127.0.0.1"
_POLL_S = 0.02


class Listeners:
    """Listeners, and what they were told. The one called `agent` answers with its secret."""

    def __init__(self, folder: Path, shared: str, secret: bytes) -> None:
        self._secret = secret
        self._selector = selectors.DefaultSelector()
        self._told = b""
        self._open = contextlib.ExitStack()
        self._over = threading.Event()
        self.ports: dict[str, int] = {}
        self.sockets: dict[str, str] = {}
        self.terminals: dict[str, str] = {}
        self._internet("tcp", socket.AF_INET, socket.SOCK_STREAM, _LOOPBACK)
        self._internet("udp", socket.AF_INET, socket.SOCK_DGRAM, _LOOPBACK)
        self._internet("tcp6", socket.AF_INET6, socket.SOCK_STREAM, "::1")
        self._internet("udp6", socket.AF_INET6, socket.SOCK_DGRAM, "::1")
        for name, kind in (("stream", socket.SOCK_STREAM), ("datagram", socket.SOCK_DGRAM)):
            self._unix(name, kind, str(folder / f"{name}.sock"))
        self._unix("agent", socket.SOCK_STREAM, str(folder / "agent.sock"))
        self._unix("abstract", socket.SOCK_STREAM, f"\0{shared}")
        self._unix("abstract datagram", socket.SOCK_DGRAM, f"\0{shared}.datagram")
        self.ports["free"] = self._free_port()

    def terminal(self, name: str) -> None:
        """Open a terminal that belongs to no session yet."""
        ours, theirs = pty.openpty()
        tty.setraw(theirs)
        self.terminals[name] = os.ttyname(theirs)
        for each in (ours, theirs):
            os.set_blocking(each, False)
            self._open.callback(os.close, each)
        self._selector.register(theirs, selectors.EVENT_READ, lambda: self._take(os.read(theirs, 1000)))

    def __enter__(self) -> Self:
        for work in (self._listen, self._connect):
            thread = threading.Thread(target=work, daemon=True)
            thread.start()
            self._open.callback(thread.join)
        self._open.callback(self._over.set)
        return self

    def __exit__(self, *raised: object) -> None:
        self._open.close()

    def heard(self) -> str:
        """Return all that was said to any of them before this call."""
        mark = os.urandom(8).hex()
        self._say_to_all(mark)
        while self._told.count(mark.encode()) < self._count:
            self._over.wait(_POLL_S)
        return self._told.decode(errors="replace")

    def _say_to_all(self, mark: str) -> None:
        self._count = 0
        for listener in [key.fileobj for key in self._selector.get_map().values()]:
            if not isinstance(listener, socket.socket) or listener not in self._listening:
                continue
            with socket.socket(listener.family, listener.type) as speaking:
                speaking.connect(listener.getsockname())
                speaking.sendall(mark.encode())
                self._count += 1

    _count = 0
    _listening: tuple[socket.socket, ...] = ()

    def _internet(self, name: str, family: int, kind: int, host: str) -> None:
        try:
            listener = self._opened(family, kind, (host, 0))
        except OSError:
            self.ports[name] = 9  # no server's: there is no IPv6 here
            return
        self.ports[name] = listener.getsockname()[1]

    def _unix(self, name: str, kind: int, place: str) -> None:
        self.sockets[name] = place.removeprefix("\0")
        self._opened(socket.AF_UNIX, kind, place)

    def _opened(self, family: int, kind: int, where: object) -> socket.socket:
        listener = socket.socket(family, kind)
        self._open.callback(listener.close)
        listener.bind(where)  # type: ignore[arg-type]  # as its family has it
        listener.setblocking(False)
        react: Callable[[], None] = lambda: self._take(listener.recv(1000))  # noqa: E731 - one of two
        if kind == socket.SOCK_STREAM:
            listener.listen(64)
            react = lambda: self._accept(listener)  # noqa: E731 - as above
        self._selector.register(listener, selectors.EVENT_READ, react)
        self._listening += (listener,)
        return listener

    def _accept(self, listener: socket.socket) -> None:
        connection, _ = listener.accept()
        connection.settimeout(0.2)
        self._selector.register(connection, selectors.EVENT_READ, lambda: self._converse(connection))

    def _converse(self, connection: socket.socket) -> None:
        said = b""
        with contextlib.suppress(OSError):
            said = connection.recv(1000)
            self._take(said)
            connection.sendall(self._secret)
        self._selector.unregister(connection)
        connection.close()

    def _take(self, said: bytes) -> None:
        self._told += said

    def _listen(self) -> None:
        while not self._over.is_set():
            for key, _ in self._selector.select(_POLL_S):
                with contextlib.suppress(OSError):
                    key.data()

    def _connect(self) -> None:
        """Connect to the free port, like a client that takes the listener there for a server of the host."""
        while not self._over.wait(_POLL_S):
            with contextlib.suppress(OSError), socket.create_connection((_LOOPBACK, self.ports["free"]), 1) as server:
                server.settimeout(1)
                self._take(server.recv(1000))

    def _free_port(self) -> int:
        with socket.socket() as asking:
            asking.bind((_LOOPBACK, 0))
            port: int = asking.getsockname()[1]
            return port
