"""
What happens on one connection of a proxy: what is asked for is judged, looked up, judged again, and carried.

The address that is connected to is the one that was judged: a name that means something else a moment later leads
nowhere else. Each exchange is told once, at its end.
"""

import asyncio
import contextlib
import os
import re
import socket
import struct
from asyncio import IncompleteReadError, LimitOverrunError, StreamReader, StreamWriter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus

from forgepool.workers.sandbox.network.head import (
    PIECE_BYTES,
    BadMessage,
    Plain,
    Tunnel,
    pass_all,
    pass_body,
    read_answer,
    read_request,
    refusal,
)
from forgepool.workers.sandbox.network.hosts import (
    Address,
    BadHost,
    Denied,
    HostRule,
    Permit,
    forbidden_address,
    permits,
    write_in_full,
)
from forgepool.workers.sandbox.network.stand_in import Access, StandIn
from forgepool.workers.sandbox.network.upstream import LookUp, Lookups, Upstream

_HEAD_BYTES = 32 * 1024
_HEAD_END = b"\r\n\r\n"
_ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
_ACCEPTED = re.compile(rb"HTTP/1\.[01] 2\d\d\b")
_FLUSH_S = 60.0
_LINGER_S = 1.0
_BROKEN = (OSError, IncompleteReadError, LimitOverrunError, BadMessage)
"""How a connection ends that did not end well: the other side's affair, not ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyRecord:
    """One decision, and what came of it."""

    host: str
    """Normalised; empty where nothing was understood."""
    port: int
    allowed: bool
    why: str
    """The refusal's sentence; the address that was reached; why none was."""
    sent_bytes: int = 0
    received_bytes: int = 0


Tell = Callable[[ProxyRecord], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyLimits:
    """What one proxy bears."""

    connections: int = 128
    """At once; who comes then is refused, not kept waiting."""
    head_s: float = 30.0
    """For a client to say what it wants."""
    connect_s: float = 10.0
    """For a name to be looked up, and for each address to answer."""
    idle_s: float = 900.0
    """Without a byte in either direction; a model may think for long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stream:
    reader: StreamReader
    writer: StreamWriter


@dataclass(frozen=True, slots=True, kw_only=True)
class _Way:
    permit: Permit
    stream: _Stream
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _NoWay:
    status: HTTPStatus
    why: str


class _Traffic:
    """Counts bytes, and puts the end off as long as there are any."""

    def __init__(self, end: asyncio.Timeout, idle_s: float) -> None:
        self.sent_bytes = 0
        self.received_bytes = 0
        self._end = end
        self._idle_s = idle_s

    def count_sent(self, size_bytes: int) -> None:
        self.sent_bytes += size_bytes
        self._put_off()

    def count_received(self, size_bytes: int) -> None:
        self.received_bytes += size_bytes
        self._put_off()

    def _put_off(self) -> None:
        if not self._end.expired():
            self._end.reschedule(asyncio.get_running_loop().time() + self._idle_s)


Carry = Callable[[_Stream, _Stream, _Traffic], Awaitable[None]]
"""Client, host, and who counts."""


class Exchanges:
    """The exchanges of one proxy."""

    def __init__(
        self,
        rules: Sequence[HostRule],
        tell: Tell,
        limits: ProxyLimits,
        look_up: LookUp,
        access: Access | None = None,
        stand_in: StandIn | None = None,
    ) -> None:
        self._rules = rules
        self._access = access or Access()
        self._stand_in = stand_in
        self._tell = tell
        self._limits = limits
        self._lookups = Lookups(look_up)

    async def proxy(self, connection: socket.socket) -> None:
        """Serves a client that knows it speaks to a proxy."""
        async with self._stream(connection) as client:
            try:
                request = await self._request(client)
            except (BadMessage, BadHost) as bad:
                self._tell(ProxyRecord(host="", port=0, allowed=False, why=str(bad)))
                await _refuse(client, HTTPStatus.BAD_REQUEST, str(bad))
                return
            if request is not None:
                refused = await self._exchange(client, request.host, request.port, self._carrying(request), request)
                if refused is not None:
                    await _refuse(client, refused.status, refused.why)

    async def forward(self, connection: socket.socket, host: str, port: int) -> None:
        """Serves a client that believes it speaks to the host itself; a refusal ends its connection."""
        async with self._stream(connection) as client:
            await self._exchange(client, host, port, _both_ways)

    def _carrying(self, request: Tunnel | Plain) -> Carry:
        if isinstance(request, Tunnel):
            return _tunnel
        upstream = self._upstream(request)
        request = self._access.with_authorization(request)
        return _plain(request if upstream is None else replace(request, head=upstream.plain_head(request)))

    def _upstream(self, request: Tunnel | Plain) -> Upstream | None:
        return self._access.proxies.to(request.host, request.port, secure=isinstance(request, Tunnel))

    def turn_away(self, connection: socket.socket) -> None:
        """Answers a client that comes when there are too many, at once."""
        why = f"more than {self._limits.connections} connections at once; close some and try again"
        self._tell(ProxyRecord(host="", port=0, allowed=False, why=why))
        with contextlib.suppress(OSError):
            connection.send(refusal(HTTPStatus.SERVICE_UNAVAILABLE, why))

    async def _request(self, client: _Stream) -> Tunnel | Plain | None:
        """None where the client left, or said nothing for long."""
        try:
            async with asyncio.timeout(self._limits.head_s):
                return read_request(await client.reader.readuntil(_HEAD_END))
        except LimitOverrunError:
            raise BadMessage(f"more than {_HEAD_BYTES} bytes before the body; send fewer header lines") from None
        except (OSError, IncompleteReadError):
            return None

    async def _exchange(
        self, client: _Stream, host: str, port: int, carry: Carry, request: Tunnel | Plain | None = None
    ) -> _NoWay | None:
        way = await self._way(host, port, request)
        if isinstance(way, _NoWay):
            self._tell(ProxyRecord(host=host, port=port, allowed=way.status != HTTPStatus.FORBIDDEN, why=way.why))
            return way
        with contextlib.suppress(TimeoutError):
            await self._carry(client, way, carry)
        return None

    async def _carry(self, client: _Stream, way: _Way, carry: Carry) -> None:
        async with _closing(way.stream), asyncio.timeout(self._limits.idle_s) as end:
            traffic = _Traffic(end, self._limits.idle_s)
            try:
                await carry(client, way.stream, traffic)
            except _BROKEN:
                _reset(client)
            finally:
                self._tell(_carried(way, traffic))

    async def _way(self, host: str, port: int, request: Tunnel | Plain | None) -> _Way | _NoWay:
        permit = permits(self._rules, host, port)
        if isinstance(permit, Denied):
            return _NoWay(status=HTTPStatus.FORBIDDEN, why=permit.why)
        try:
            if isinstance(request, Tunnel) and self._stand_in and (permit.host, port) in self._stand_in.hosts:
                reader, writer = await asyncio.open_unix_connection(self._stand_in.socket, limit=_HEAD_BYTES)
                return _Way(permit=permit, stream=_Stream(reader=reader, writer=writer), at="its stand-in")
            if request is not None and (upstream := self._upstream(request)) is not None:
                return await self._through(upstream, permit, tunnel=isinstance(request, Tunnel))
        except (*_BROKEN, TimeoutError) as trouble:
            return _unreachable(permit, trouble if isinstance(trouble, OSError) else OSError(str(trouble)))
        try:
            async with asyncio.timeout(self._limits.connect_s):
                addresses = await self._lookups.addresses(permit.host)
        except OSError as trouble:
            return _unreachable(permit, trouble)
        refusals = [denied for each in addresses if (denied := forbidden_address(permit, each))]
        if refusals:
            # One such address makes the name suspect: nobody needs a host that is half here, half there.
            return _NoWay(status=HTTPStatus.FORBIDDEN, why=refusals[0].why)
        return await self._connect(permit, addresses)

    async def _through(self, upstream: Upstream, permit: Permit, *, tunnel: bool) -> _Way | _NoWay:
        """By the host's own proxy, which looks the name up."""
        async with asyncio.timeout(self._limits.connect_s):
            reader, writer = await asyncio.open_connection(
                upstream.host, upstream.port, ssl=upstream.tls or None, limit=_HEAD_BYTES
            )
        way = _Way(permit=permit, stream=_Stream(reader=reader, writer=writer), at=f"by {upstream.host}")
        if not tunnel:
            return way
        try:
            async with asyncio.timeout(self._limits.head_s):
                writer.write(upstream.tunnel_head(permit.host, permit.port))
                first, *_ = (await reader.readuntil(_HEAD_END)).split(b"\r\n")
        except BaseException:
            writer.transport.abort()
            raise
        if _ACCEPTED.match(first):
            return way
        writer.transport.abort()
        said = first[:200].decode("ascii", "replace")
        return _NoWay(status=HTTPStatus.BAD_GATEWAY, why=f"{permit.host}: the proxy {upstream.host} answers {said}")

    async def _connect(self, permit: Permit, addresses: Sequence[Address]) -> _Way | _NoWay:
        trouble = OSError("its name has no address")
        for address in addresses:
            try:
                async with asyncio.timeout(self._limits.connect_s):
                    reader, writer = await asyncio.open_connection(str(address), permit.port, limit=_HEAD_BYTES)
                return _Way(permit=permit, stream=_Stream(reader=reader, writer=writer), at=str(address))
            except OSError as failed:
                trouble = failed
        return _unreachable(permit, trouble)

    @contextlib.asynccontextmanager
    async def _stream(self, connection: socket.socket) -> AsyncIterator[_Stream]:
        reader, writer = await asyncio.open_connection(sock=connection, limit=_HEAD_BYTES)
        stream = _Stream(reader=reader, writer=writer)
        async with _closing(stream):
            yield stream


def _carried(way: _Way, traffic: _Traffic) -> ProxyRecord:
    return ProxyRecord(
        host=way.permit.host,
        port=way.permit.port,
        allowed=True,
        why=f"at {way.at}",
        sent_bytes=traffic.sent_bytes,
        received_bytes=traffic.received_bytes,
    )


def _unreachable(permit: Permit, trouble: OSError) -> _NoWay:
    reason = os.strerror(trouble.errno) if trouble.errno else str(trouble) or "it does not answer"
    return _NoWay(status=HTTPStatus.BAD_GATEWAY, why=f"{write_in_full(permit.host, permit.port)}: {reason}")


async def _tunnel(client: _Stream, host: _Stream, traffic: _Traffic) -> None:
    client.writer.write(_ESTABLISHED)
    await _both_ways(client, host, traffic)


async def _both_ways(client: _Stream, host: _Stream, traffic: _Traffic) -> None:
    await _together(
        pass_all(client.reader, host.writer, traffic.count_sent),
        pass_all(host.reader, client.writer, traffic.count_received),
    )


def _plain(request: Plain) -> Carry:
    async def carry(client: _Stream, host: _Stream, traffic: _Traffic) -> None:
        host.writer.write(request.head)
        traffic.count_sent(len(request.head))
        sending = asyncio.create_task(_send(client, host, request, traffic))
        try:
            await _receive(client, host, request.method, traffic)
            return
        except _BROKEN:
            if traffic.received_bytes:
                raise
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
        await _refuse(client, HTTPStatus.BAD_GATEWAY, f"{request.host}: no answer of HTTP/1.1")

    return carry


async def _send(client: _Stream, host: _Stream, request: Plain, traffic: _Traffic) -> None:
    """A host may answer before it has read all, and then close; half a request it must not take for a whole one."""
    try:
        await pass_body(client.reader, host.writer, request.body, traffic.count_sent)
    except (IncompleteReadError, LimitOverrunError, BadMessage):
        host.writer.transport.abort()
    except OSError:
        return


async def _receive(client: _Stream, host: _Stream, method: str, traffic: _Traffic) -> None:
    while True:
        answer = read_answer(await host.reader.readuntil(_HEAD_END), method=method)
        client.writer.write(answer.head)
        traffic.count_received(len(answer.head))
        if not answer.interim:
            await pass_body(host.reader, client.writer, answer.body, traffic.count_received)
            return


async def _refuse(client: _Stream, status: HTTPStatus, why: str) -> None:
    """Reads on for a moment: a socket closed with bytes unread takes back what it has sent."""
    with contextlib.suppress(OSError):
        client.writer.write(refusal(status, why))
        client.writer.write_eof()
        async with asyncio.timeout(_LINGER_S):
            while await client.reader.read(PIECE_BYTES):
                pass


def _reset(stream: _Stream) -> None:
    """An end that no reader can take for a good one: an ordinary close would say that this was all."""
    with contextlib.suppress(OSError):
        at_once = struct.pack("ii", 1, 0)
        stream.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
    stream.writer.transport.abort()


async def _together(*works: Coroutine[None, None, None]) -> None:
    """All of them; the first that fails ends the others."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@contextlib.asynccontextmanager
async def _closing(stream: _Stream) -> AsyncIterator[None]:
    """What was written still goes out, unless the whole proxy is being closed."""
    try:
        yield
        stream.writer.close()
        with contextlib.suppress(OSError):
            async with asyncio.timeout(_FLUSH_S):
                await stream.writer.wait_closed()
    finally:
        stream.writer.transport.abort()
