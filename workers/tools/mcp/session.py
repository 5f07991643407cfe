"""
One MCP server that is being spoken to: its tools are listed once, then it is called.

All of it runs on the loop of an `Aside`, within one task that stays: what the protocol's library enters, the same task
has to leave.
"""

import asyncio
import fnmatch
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from forgepool.workers.tools.config import McpServer

if TYPE_CHECKING:
    from mcp.client import Client, Transport
    from mcp.types import ContentBlock

_PAGES = 20


class ServerAway(Exception):
    """The server cannot be spoken to, or not any more; the sentence says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTool:
    """A tool as its server tells of it."""

    name: str
    description: str
    schema: Mapping[str, JsonValue]
    reads_only: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAnswer:
    text: str
    is_error: bool


class Session:
    def __init__(self, server: McpServer, transport: "Callable[[], Transport]") -> None:
        self.server = server
        self._transport = transport
        self._client: Client | None = None
        self._ready = asyncio.Event()
        self._done = asyncio.Event()
        self._why = ""

    async def live(self) -> None:
        """
        The whole of it: from the introduction until `close`. Never raises: `find_wanted_tools` says what was wrong.
        """
        from mcp.client import Client

        try:
            async with Client(self._transport(), cache=None) as client:
                self._client = client
                self._ready.set()
                await self._done.wait()
        except Exception as trouble:
            self._why = _sentence(trouble)
        finally:
            self._client = None
            self._ready.set()

    def close(self) -> None:
        """On the loop: `live` comes to its end."""
        self._done.set()

    async def find_wanted_tools(self) -> tuple[ServerTool, ...]:
        """
        The tools that are wanted of it.

        Raises:
            ServerAway: it could not be reached, or does not tell.
        """
        await self._ready.wait()
        found: list[ServerTool] = []
        cursor: str | None = None
        for _ in range(_PAGES):
            page = await self._said(lambda client, at=cursor: client.list_tools(cursor=at))  # type: ignore[misc]  # a loop's variable
            found += [_tool(each, self.server) for each in page.tools if self._wants(each.name)]
            cursor = page.next_cursor
            if cursor is None:
                break
        return tuple(found)

    async def call(self, name: str, arguments: Mapping[str, JsonValue]) -> ServerAnswer:
        """
        Waits for as long as it takes: whoever asks cancels it.

        Raises:
            ServerAway: it is gone, or says that it cannot be called so.
        """
        found = await self._said(lambda client: client.call_tool(name, dict(arguments)))
        return ServerAnswer(text="\n".join(map(_text, found.content)), is_error=found.is_error)

    def _wants(self, name: str) -> bool:
        return any(fnmatch.fnmatchcase(name, glob) for glob in self.server.tools)

    async def _said(self, ask: "Callable[[Client], Any]") -> Any:
        if self._client is None:
            raise ServerAway(self._why or "it has ended")
        try:
            return await ask(self._client)
        except Exception as trouble:
            raise ServerAway(_sentence(trouble)) from trouble


def _tool(found: Any, server: McpServer) -> ServerTool:
    says_so = found.annotations is not None and found.annotations.read_only_hint is True
    return ServerTool(
        name=found.name,
        description=found.description or found.title or "",
        schema=found.input_schema,
        reads_only=server.read_only or says_so,
    )


def _text(block: "ContentBlock") -> str:
    """Texts as they are; what is no text is named."""
    match block.type:
        case "text":
            return block.text
        case "image" | "audio":
            return f"[{block.type} of type {block.mime_type}, not shown]"
        case "resource_link":
            return f"[{block.name}: {block.uri}]"
        case "resource":
            text = getattr(block.resource, "text", None)
            return text if isinstance(text, str) else f"[resource {block.resource.uri}, not text, not shown]"


def _sentence(trouble: BaseException) -> str:
    """What went wrong, in a line: of a group, its first."""
    while isinstance(trouble, BaseExceptionGroup):
        trouble = trouble.exceptions[0]
    return " ".join(str(trouble).split())[:300] or type(trouble).__name__
