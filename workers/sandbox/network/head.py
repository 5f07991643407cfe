"""
What stands before a body in HTTP: read strictly, and written anew for whom it goes to.

Two readers of one message must not disagree where it ends or whom it is for. So what can be read in more ways than one
is refused, and the other side gets our own spelling of what was understood. Every message is the only one of its
connection: no second request can pass on the judgement of the first.
"""

import asyncio
import re
from asyncio import StreamReader, StreamWriter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from forgepool.workers.sandbox.network.hosts import host_name, split_port, write_in_full

Length = int | Literal["chunked", "rest"]
"""How a body's end is known: its bytes, its own marks, the end of the connection."""
Field = tuple[str, str]

_TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_REQUEST = re.compile(rf"({_TOKEN}) ([!-~]+) (HTTP/1\.[01])")
_STATUS = re.compile(r"HTTP/1\.[01] ([1-9][0-9]{2})(?: [^\r\n\0]*)?")
_FIELD = re.compile(rf"({_TOKEN}):[ \t]*([^\r\n\0]*?)[ \t]*")
_URL = re.compile(r"http://([^/?#]+)((?:[/?][^#]*)?)", re.IGNORECASE)
_BYTES = re.compile(r"[0-9]{1,18}")
_HTTP_PORT = 80
_NOT_PASSED_ON = {"connection", "keep-alive", "te", "trailer", "upgrade", "content-length", "transfer-encoding"}
_SWITCHES = 101
_WITHOUT_BODY = (204, 304)


class BadMessage(ValueError):
    """What was written is not HTTP as it can be passed on; says what would be right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tunnel:
    """CONNECT: bytes both ways."""

    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain:
    """One request over HTTP without TLS."""

    host: str
    port: int
    method: str
    head: bytes
    """As the host is to get it."""
    body: Length


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseHead:
    """What a host says before the body."""

    interim: bool
    """Another answer follows (100 Continue)."""
    head: bytes
    """As the client is to get it."""
    body: Length


def read_request(head: bytes) -> Tunnel | Plain:
    """
    A request, from its first byte through the empty line.

    Raises:
        BadMessage, BadHost: it is not to be carried out.
    """
    first, fields = _lines(head)
    found = _REQUEST.fullmatch(first)
    if found is None:
        raise BadMessage("not a request of HTTP/1.1; this is an HTTP proxy")
    method, target, version = found.groups()
    if method == "CONNECT":
        host, port = split_port(target)
        if port is None:
            raise BadMessage("CONNECT without a port; write CONNECT host:443")
        return Tunnel(host=host_name(host), port=port)
    return _plain(method, target, version, fields)


def _plain(method: str, target: str, version: str, fields: list[Field]) -> Plain:
    url = _URL.fullmatch(target)
    if url is None:
        raise BadMessage("no whole http:// address in the request; other kinds of address go through CONNECT")
    authority, path = url.groups()
    if "@" in authority:  # no host has one; the sentence about a bad host would repeat the password
        raise BadMessage("a name or a password before the host; write the address without them")
    written, port = split_port(authority)
    host = host_name(written)
    body = _length(fields)
    if body == "chunked" and version == "HTTP/1.0":
        raise BadMessage("a chunked body in HTTP/1.0; send it as HTTP/1.1")
    line = f"{method} {path if path.startswith('/') else f'/{path}'} {version}"
    to_host = ("Host", write_in_full(host, port if port != _HTTP_PORT else None))
    return Plain(
        host=host,
        port=port or _HTTP_PORT,
        method=method,
        head=_written(line, [to_host, *(each for each in fields if each[0].lower() != "host")], body),
        body=0 if body == "rest" else body,
    )


def read_answer(head: bytes, *, method: str) -> ResponseHead:
    """
    What a host answers to a request of this method.

    Raises:
        BadMessage: it is not HTTP as a client is to get it.
    """
    first, fields = _lines(head)
    found = _STATUS.fullmatch(first)
    if found is None or int(found[1]) == _SWITCHES:
        raise BadMessage("no answer of HTTP/1.1; ask a host that speaks it")
    status, length = int(found[1]), _length(fields)
    bare = method == "HEAD" or status in _WITHOUT_BODY or status < 200
    return ResponseHead(interim=status < 200, head=_written(first, fields, length), body=0 if bare else length)


def refusal(status: int, sentence: str) -> bytes:
    """A whole answer. Most clients show no more than its first line, so the sentence stands there too."""
    text = sentence.encode("ascii", "replace")
    framing = b"Content-Type: text/plain\r\nContent-Length: %d\r\nConnection: close" % (len(text) + 1)
    return b"HTTP/1.1 %d %s\r\n%s\r\n\r\n%s\n" % (status, text, framing, text)


def _lines(head: bytes) -> tuple[str, list[Field]]:
    first, *rest = head.removesuffix(b"\r\n\r\n").decode("latin-1").split("\r\n")
    found = [_FIELD.fullmatch(line) for line in rest]
    if not all(found):
        raise BadMessage("a header line that is none; write `Name: value`, each on one line")
    return first, [(each[1], each[2]) for each in found if each]


def _length(fields: list[Field]) -> Length:
    """
    Raises:
        BadMessage: it is said twice, or in a way not everybody reads alike.
    """
    lengths = _values(fields, "content-length")
    encodings = _values(fields, "transfer-encoding")
    if len(lengths) + len(encodings) > 1:
        raise BadMessage("the body's length twice; say it once, by Content-Length or by Transfer-Encoding")
    if not all(_BYTES.fullmatch(each) for each in lengths) or any(each.lower() != "chunked" for each in encodings):
        raise BadMessage("a body whose length cannot be known; use Content-Length, or Transfer-Encoding: chunked")
    if encodings:
        return "chunked"
    return int(lengths[0]) if lengths else "rest"


def _written(first: str, fields: list[Field], length: Length) -> bytes:
    named = {name.strip().lower() for value in _values(fields, "connection") for name in value.split(",")}
    kept = [each for each in fields if not _of_one_connection(each[0].lower(), named - {"host"})]
    lines = [first, *(f"{name}: {value}" for name, value in [*kept, *_framing(length), ("Connection", "close")])]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def _framing(length: Length) -> list[Field]:
    if length == "rest":
        return []
    return [("Transfer-Encoding", "chunked") if length == "chunked" else ("Content-Length", str(length))]


def _of_one_connection(name: str, named: set[str]) -> bool:
    return name in _NOT_PASSED_ON or name in named or name.startswith("proxy-")


def _values(fields: list[Field], wanted: str) -> list[str]:
    return [value for name, value in fields if name.lower() == wanted]


PIECE_BYTES = 64 * 1024
_SIZE = re.compile(rb"([0-9a-fA-F]{1,15})(?:[ \t]*;[^\r\n]*)?\r\n")
_TRAILERS = 100

Moved = Callable[[int], None]
"""Told of every piece that has been passed on."""


async def pass_all(source: StreamReader, sink: StreamWriter, moved: Moved) -> None:
    """Until the source has no more; then the sink is told so, and may still answer."""
    while piece := await source.read(PIECE_BYTES):
        await _pass(piece, sink, moved)
    if sink.can_write_eof():
        sink.write_eof()


async def pass_body(source: StreamReader, sink: StreamWriter, length: Length, moved: Moved) -> None:
    """
    One body.

    Raises:
        BadMessage: its marks mean nothing.
        asyncio.IncompleteReadError: it ended before its end.
    """
    if length == "rest":
        while piece := await source.read(PIECE_BYTES):
            await _pass(piece, sink, moved)
    elif length == "chunked":
        await _pass_chunks(source, sink, moved)
    else:
        await _pass_bytes(source, sink, length, moved)


async def _pass_chunks(source: StreamReader, sink: StreamWriter, moved: Moved) -> None:
    """Marks are written anew; what may follow the last one (extensions, trailers) is dropped."""
    while size_bytes := await _chunk_size(source):
        await _pass(b"%x\r\n" % size_bytes, sink, moved)
        await _pass_bytes(source, sink, size_bytes, moved)
        if await source.readexactly(2) != b"\r\n":
            raise BadMessage("a chunk longer than it says; send it as it is")
        await _pass(b"\r\n", sink, moved)
    for _ in range(_TRAILERS):
        if await source.readuntil(b"\r\n") == b"\r\n":
            await _pass(b"0\r\n\r\n", sink, moved)
            return
    raise BadMessage("no end after the last chunk; end it with an empty line")


async def _chunk_size(source: StreamReader) -> int:
    found = _SIZE.fullmatch(await source.readuntil(b"\r\n"))
    if found is None:
        raise BadMessage("a chunk without its size; write the size in hexadecimal digits")
    return int(found[1], 16)


async def _pass_bytes(source: StreamReader, sink: StreamWriter, left_bytes: int, moved: Moved) -> None:
    while left_bytes:
        piece = await source.read(min(PIECE_BYTES, left_bytes))
        if not piece:
            raise asyncio.IncompleteReadError(b"", left_bytes)
        left_bytes -= len(piece)
        await _pass(piece, sink, moved)


async def _pass(piece: bytes, sink: StreamWriter, moved: Moved) -> None:
    sink.write(piece)
    await sink.drain()
    moved(len(piece))
