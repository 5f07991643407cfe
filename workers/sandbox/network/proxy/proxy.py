"""
The way out of a sandbox: an HTTP proxy that reaches the hosts of an allow-list and nothing else.

It runs in a thread of the harness and opens no port of its own: it serves listening sockets that were opened inside
commands' network namespaces (`netns`). What it understands: CONNECT, and whole http:// addresses, one request to a
connection. It looks into nothing that is encrypted, and adds nothing: no credentials, no header.
An allowed host that takes uploads takes anything a command can read.

`hosts` and `addresses` judge, `exchange` carries one connection, `head` reads and writes HTTP, `stream` moves bytes,
`lookup` resolves names.
"""

import asyncio
import errno
import socket
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from types import TracebackType
from typing import Any, Self

import structlog

from forgepool.workers.sandbox.network.hosts import Denied, HostRule, permits
from forgepool.workers.sandbox.network.lookup import LookUp, ask_system
from forgepool.workers.sandbox.network.proxy.exchange import Exchanges, ProxyLimits, Tell
from forgepool.workers.sandbox.network.proxy.stand_in import Access, StandIn

_PASSING = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.ECONNABORTED, errno.EPROTO, errno.EPERM}
_PAUSE_S = 0.05

Attend = Callable[[socket.socket], Awaitable[None]]

log = structlog.get_logger()


def proxy_variables(port: int) -> dict[str, str]:
    """The environment by which programs find a proxy on their own loopback; that itself they reach without one."""
    url = f"http://127.0.0.1:{port}"
    there = dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), url) | {"no_proxy": "localhost,127.0.0.1,::1"}
    # Node takes no notice of the others without the last.
    return there | {name.upper(): value for name, value in there.items()} | {"NODE_USE_ENV_PROXY": "1"}


class Proxy:
    """A filtering proxy. At the end of the block, or after `close`, its sockets and its thread are gone."""

    def __init__(
        self,
        rules: Sequence[HostRule],
        *,
        told: Tell,
        limits: ProxyLimits | None = None,
        look_up: LookUp = ask_system,
        access: Access | None = None,
        stand_in: StandIn | None = None,
    ) -> None:
        """
        `told` is called in the proxy's thread, once for each decision, at the end of its connection; it must not wait
        for long, nor call the proxy. `look_up` is called in a thread of its own.
        """
        self._rules = rules
        self._limits = limits or ProxyLimits()
        self._exchanges = Exchanges(rules, told, self._limits, look_up, access, stand_in)
        self._served: dict[socket.socket, asyncio.Task[None]] = {}
        self._open = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def serve(self, listener: socket.socket) -> None:
        """Clients of this listening socket may ask for any host of the list. The socket is the proxy's from now on."""
        self._wait(self._begin(listener, self._exchanges.proxy))

    def forward(self, listener: socket.socket, host: str, port: int) -> None:
        """
        Clients of this listening socket are led to this host, which the list must allow, and know of no proxy.

        Raises:
            ValueError: the list does not allow it; the socket stays the caller's.
        """
        permit = permits(self._rules, host, port)
        if isinstance(permit, Denied):
            raise ValueError(permit.why)
        self._wait(self._begin(listener, lambda client: self._exchanges.forward(client, permit.host, port)))

    def release(self, listener: socket.socket) -> None:
        """
        Closes a listening socket and the connections made to it; at once where it is not served.

        A socket keeps its network namespace alive, so a command's are released when it has ended.
        """
        self._wait(self._end([listener]))

    def close(self) -> None:
        """
        Ends all connections, without waiting for anybody.

        Only a name that is still being looked up keeps its thread, until the system's resolver has answered.
        """
        if self._loop.is_closed():
            return
        self._wait(self._end(list(self._served)))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _wait(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _begin(self, listener: socket.socket, attend: Attend) -> None:
        self._served[listener] = asyncio.create_task(self._serve(listener, attend))

    async def _end(self, listeners: Sequence[socket.socket]) -> None:
        tasks = [task for each in listeners if (task := self._served.pop(each, None))]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for each in listeners:
            each.close()

    async def _serve(self, listener: socket.socket, attend: Attend) -> None:
        listener.setblocking(False)
        async with asyncio.TaskGroup() as connections:
            while True:
                try:
                    connection, _ = await self._loop.sock_accept(listener)
                except OSError as trouble:
                    if trouble.errno not in _PASSING:
                        log.exception("proxy.listener")
                        return
                    await asyncio.sleep(_PAUSE_S)
                else:
                    connections.create_task(self._attend(connection, attend))

    async def _attend(self, connection: socket.socket, attend: Attend) -> None:
        self._open += 1
        try:
            with connection:
                if self._open > self._limits.connections:
                    self._exchanges.turn_away(connection)
                else:
                    await attend(connection)
        except Exception:
            log.exception("proxy.connection")
        finally:
            self._open -= 1
