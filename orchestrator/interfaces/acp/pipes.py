"""
Standard input and output as the line to the editor: a message each line. A line that is no message is dropped.

The package's own transport passes any JSON on, and ends at what is no object.
"""

import asyncio
import json
import logging
import os
import stat
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TextIO, cast

from acp import run_agent
from acp.interfaces import Agent

from forgepool.orchestrator.interfaces.acp.agent import ForgepoolAgent
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.workers.schema.settings import Settings

_MOST_BYTES = 50 * 1024 * 1024


@dataclass(slots=True)
class EditorPipes:
    """The package's `Transport`."""

    _reader: asyncio.StreamReader
    _writer: asyncio.StreamWriter

    async def send(self, message: dict[str, Any]) -> None:
        self._writer.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")
        await self._writer.drain()

    async def receive(self) -> dict[str, Any] | None:
        while True:
            try:
                line = await self._reader.readline()
            except ValueError:
                continue  # It was longer than the buffer, and is dropped; its rest is no message.
            if not line:
                return None
            if (message := _message(line)) is not None:
                return message

    async def close(self) -> None:
        self._writer.close()


def _message(line: bytes) -> dict[str, Any] | None:
    with suppress(ValueError, RecursionError):
        found = json.loads(line)
        if isinstance(found, dict) and isinstance(found.get("id"), str | int | float | None):
            return found if isinstance(found.get("error"), dict | None) else None
    return None


def _is_pipe(stream: TextIO) -> bool:
    mode = os.fstat(stream.fileno()).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stream.isatty()


async def serve_editor(settings: Settings, *, may_approve: bool, ask_above_usd: float) -> None:
    """
    Answer the editor on standard input and output, until it closes them.

    Raises:
        CannotRun: they are no pipes.
    """
    from acp.stdio import stdio_streams

    if not all(map(_is_pipe, (sys.stdin, sys.stdout))):
        raise CannotRun(
            "standard input and output are no pipes; `forgepool acp` is started by an editor, which talks to it there"
        )
    # The package logs a traceback for each message that it cannot take.
    logging.disable(logging.CRITICAL)
    reader, writer = await stdio_streams(limit=_MOST_BYTES)
    # Nothing but the protocol may reach the editor.
    sys.stdout = sys.stderr
    agent = ForgepoolAgent(settings, may_approve=may_approve, ask_above_usd=ask_above_usd)
    await run_agent(cast(Agent, agent), EditorPipes(reader, writer))
