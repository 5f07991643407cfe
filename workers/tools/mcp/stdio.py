"""
A child's pipes as the two streams an MCP session wants: one message a line.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from forgepool.workers.sandbox.run.dialogue import Dialogue

if TYPE_CHECKING:
    from mcp.client import Transport
    from mcp.client._transport import TransportStreams
    from mcp.shared.message import SessionMessage


def over(dialogue: Dialogue) -> "Transport":
    """For one session, in whose block the child is spoken to; the child itself is ended by who started it."""
    return _streams(dialogue)


@asynccontextmanager
async def _streams(dialogue: Dialogue) -> "AsyncIterator[TransportStreams]":
    import anyio
    from mcp.shared.message import SessionMessage

    reader, writer = await dialogue.connect()
    heard, hearing = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    speaking, spoken = anyio.create_memory_object_stream[SessionMessage](0)

    async def listen() -> None:
        async with heard:
            while line := await _line(reader):
                await heard.send(_message(line))

    async def speak() -> None:
        async with spoken:
            async for each in spoken:
                writer.write(each.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")

    async with anyio.create_task_group() as tasks, hearing, speaking:
        tasks.start_soon(listen)
        tasks.start_soon(speak)
        try:
            yield hearing, speaking
        finally:
            tasks.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await dialogue.hang_up()


async def _line(reader: asyncio.StreamReader) -> bytes:
    """Empty at the end, and where no line ends within what is held in memory: such a server is not listened to."""
    try:
        return await reader.readline()
    except ValueError:
        return b""


def _message(line: bytes) -> "SessionMessage | Exception":
    """What is no message is told as such; some servers write their log among them."""
    from mcp.shared.message import SessionMessage
    from mcp.types import jsonrpc_message_adapter

    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as wrong:
        return wrong
