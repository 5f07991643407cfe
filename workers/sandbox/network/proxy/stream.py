"""Bytes from one connection to another: all of them, or one body of HTTP and nothing after it."""

import asyncio
import re
from asyncio import StreamReader, StreamWriter
from collections.abc import Callable

from forgepool.workers.sandbox.network.proxy.head import BadMessage, Length

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
