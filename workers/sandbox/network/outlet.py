"""
The network outlet of one order or check: a proxy with an allow-list, on a port of each command's own loopback.

It logs what it lets through and what it refuses.
"""

import asyncio
import errno
import socket
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

import structlog

from forgepool.workers.sandbox.network.exchange import Exchanges, ProxyLimits, ProxyRecord, Tell
from forgepool.workers.sandbox.network.hosts import Denied, HostRule, literal, permits, read_rules
from forgepool.workers.sandbox.network.stand_in import Access, StandIn, serve_stand_in
from forgepool.workers.sandbox.network.upstream import LookUp, ask_system

_PASSING = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.ECONNABORTED, errno.EPROTO, errno.EPERM}
_PAUSE_S = 0.05

Attend = Callable[[socket.socket], Awaitable[None]]


def proxy_variables(port: int) -> dict[str, str]:
    """Return the variables by which programs find a proxy on their loopback, and reach that loopback without one."""
    url = f"http://127.0.0.1:{port}"
    there = dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), url) | {"no_proxy": "localhost,127.0.0.1,::1"}
    # Node takes no notice of the others without the last.
    return there | {name.upper(): value for name, value in there.items()} | {"NODE_USE_ENV_PROXY": "1"}


class Proxy:
    """A filtering proxy. Its sockets and its thread are gone after the block or `close`."""

    def __init__(
        self,
        rules: Sequence[HostRule],
        *,
        report: Tell,
        limits: ProxyLimits | None = None,
        look_up: LookUp = ask_system,
        access: Access | None = None,
        stand_in: StandIn | None = None,
    ) -> None:
        """
        Start the proxy's thread.

        `report` is called there once per decision, at the end of the connection; it must neither block nor call the
        proxy. `look_up` is called in a thread of its own.
        """
        self._rules = rules
        self._limits = limits or ProxyLimits()
        self._exchanges = Exchanges(rules, report, self._limits, look_up, access, stand_in)
        self._served: dict[socket.socket, asyncio.Task[None]] = {}
        self._open = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def serve(self, listener: socket.socket) -> None:
        """Serve a listening socket, which the proxy owns from now on. Its clients may ask for any host of the list."""
        self._wait(self._begin(listener, self._exchanges.proxy))

    def forward(self, listener: socket.socket, host: str, port: int) -> None:
        """
        Connect the clients of this listening socket directly to a host of the list; they need not know about proxies.

        Raises:
            ValueError: the list does not allow the host; the socket stays the caller's.
        """
        permit = permits(self._rules, host, port)
        if isinstance(permit, Denied):
            raise ValueError(permit.why)
        self._wait(self._begin(listener, lambda client: self._exchanges.forward(client, permit.host, port)))

    def release(self, listener: socket.socket) -> None:
        """
        Close a listening socket and its connections, or just the socket if it is not served.

        A socket keeps its network namespace alive, so a command's sockets are released when it has ended.
        """
        self._wait(self._end([listener]))

    def close(self) -> None:
        """
        End all connections at once.

        Only the thread of a running name lookup stays, until the system's resolver has answered.
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


_PORT = 3128
_TRUST = (
    *("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT", "NODE_EXTRA_CA_CERTS", "NPM_CONFIG_CAFILE"),
    *("CARGO_HTTP_CAINFO", "GIT_SSL_CAINFO"),
)
log = structlog.get_logger()


class ProxyOutlet:
    """
    Serves the proxy's port, and a port for each host of this machine's own loopback on the list.

    Many programs ignore proxy settings for such servers (a model's, for instance).
    """

    def __init__(self, proxy: Proxy, rules: Sequence[HostRule]) -> None:
        self._proxy = proxy
        inner = {rule.port: rule.host for rule in rules if rule.port is not None and _is_loopback(rule)}
        self._forwards = tuple((host, port) for port, host in inner.items() if port != _PORT)

    @property
    def ports(self) -> tuple[int, ...]:
        return (_PORT, *(port for _, port in self._forwards))

    def serve(self, listeners: Sequence[socket.socket]) -> None:
        first, *others = listeners
        self._proxy.serve(first)
        for listener, (host, port) in zip(others, self._forwards, strict=True):
            self._proxy.forward(listener, host, port)

    def release(self, listeners: Sequence[socket.socket]) -> None:
        for listener in listeners:
            self._proxy.release(listener)


@contextmanager
def open_outlet(
    hosts: Sequence[str], access: Access | None = None, tmp: Path | None = None
) -> Iterator[tuple[ProxyOutlet | None, dict[str, str]]]:
    """
    Yield the outlet and the variables by which programs find it; None without hosts.

    With `access`, hosts are reached as this host reaches them, and certificates for the commands are written into
    `tmp`.

    Raises:
        BadHost: one of them is no host.
    """
    rules = read_rules(hosts)
    if not rules:
        yield None, {}
        return
    if access is None:
        with Proxy(rules, report=_log_record) as proxy:
            yield ProxyOutlet(proxy, rules), proxy_variables(_PORT)
        return
    with (
        serve_stand_in(access) as stand_in,
        Proxy(rules, report=_log_record, access=access, stand_in=stand_in) as proxy,
    ):
        yield ProxyOutlet(proxy, rules), proxy_variables(_PORT) | _trust(access, stand_in, tmp)


def _trust(access: Access, stand_in: StandIn | None, tmp: Path | None) -> dict[str, str]:
    """Return the variables by which programs find the certificates to trust."""
    roots = access.roots + (stand_in.authority if stand_in is not None else "")
    if tmp is None or not roots:
        return {}
    bundle = tmp / "authorities.pem"
    bundle.write_text(roots)
    return dict.fromkeys(_TRUST, str(bundle))


def _is_loopback(rule: HostRule) -> bool:
    if rule.host == "localhost":
        return True
    with suppress(ValueError):
        found = literal(rule.host)
        return found is not None and found.is_loopback
    return False


def _log_record(record: ProxyRecord) -> None:
    if record.allowed:
        facts = {"host": record.host, "port": record.port, "why": record.why}
        log.info("network.reached", **facts, sent_bytes=record.sent_bytes, received_bytes=record.received_bytes)
    else:
        _log_refusal(record.host, record.port, record.why)


@lru_cache(maxsize=1024)
def _log_refusal(host: str, port: int, why: str) -> None:
    """Log a refusal once in this process: pip alone asks seven times, and the command is told each time."""
    log.warning("network.refused", host=host, port=port, why=why)
