"""The MCP servers of one order: the configured ones that start, their tools, and why others are left out."""

import asyncio
import contextlib
import fnmatch
import shutil
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from pydantic import JsonValue

from forgepool.workers.sandbox.run.dialogue import Dialogue
from forgepool.workers.schema.confinement import OPEN
from forgepool.workers.schema.settings import missing_extra
from forgepool.workers.tools.asyncio_thread import AsyncioThread
from forgepool.workers.tools.config import McpServer

if TYPE_CHECKING:
    from mcp.client import Client, Transport
    from mcp.client._transport import TransportStreams
    from mcp.shared.message import SessionMessage
    from mcp.types import ContentBlock

Lend = Callable[[str], str | None]
"""Returns one of the worker's variables; None where it is not set."""

_START_S = 20.0
_GOODBYE_S = 2.0

_PAGES = 20


class ServerAway(Exception):
    """The server cannot be reached, or no longer; the sentence says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTool:
    """A tool as its server describes it."""

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
        Run the session from the introduction until `close`. It never raises: `find_wanted_tools` says what was
        wrong.
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
        """End `live`; called on the loop."""
        self._done.set()

    async def find_wanted_tools(self) -> tuple[ServerTool, ...]:
        """
        Return the wanted tools of the server.

        Raises:
            ServerAway: it cannot be reached, or does not answer.
        """
        await self._ready.wait()
        found: list[ServerTool] = []
        cursor: str | None = None
        for _ in range(_PAGES):
            page = await self._said(lambda client, at=cursor: client.list_tools(cursor=at))  # type: ignore[misc]  # a loop's variable
            wanted = (
                each for each in page.tools if any(fnmatch.fnmatchcase(each.name, glob) for glob in self.server.tools)
            )
            found += [_tool(each, self.server) for each in wanted]
            cursor = page.next_cursor
            if cursor is None:
                break
        return tuple(found)

    async def call(self, name: str, arguments: Mapping[str, JsonValue]) -> ServerAnswer:
        """
        Call a tool, and wait until it answers; the caller cancels it.

        Raises:
            ServerAway: it is gone, or refuses the call.
        """
        found = await self._said(lambda client: client.call_tool(name, dict(arguments)))
        return ServerAnswer(text="\n".join(map(_text, found.content)), is_error=found.is_error)

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
    """Return a text as it is, and the name of anything else."""
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
    """Return in one line what went wrong; of a group, the first."""
    while isinstance(trouble, BaseExceptionGroup):
        trouble = trouble.exceptions[0]
    return " ".join(str(trouble).split())[:300] or type(trouble).__name__


@contextlib.asynccontextmanager
async def over(dialogue: Dialogue) -> "AsyncIterator[TransportStreams]":
    """The transport for one session over a child's pipes. Whatever started the child ends it."""
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
    """Read a line; empty at the end, and where no line ends within the buffer: such a server is ignored."""
    try:
        return await reader.readline()
    except ValueError:
        return b""


def _message(line: bytes) -> "SessionMessage | Exception":
    """Parse a message. Anything else is returned as an error, since some servers write their log among messages."""
    from mcp.shared.message import SessionMessage
    from mcp.types import jsonrpc_message_adapter

    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as wrong:
        return wrong


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedTool:
    """A tool with its server and session."""

    server: McpServer
    tool: ServerTool
    session: Session


class McpServers:
    """The servers, all started with the block; all are dead at its end."""

    def __init__(self, servers: Sequence[McpServer], *, root: Path, env: Mapping[str, str], lend: Lend) -> None:
        """`env` is the complete environment of commands; `lend` gives the variables that a server's entry names."""
        self._servers = servers
        self._root = root
        self._env = env
        self._lend = lend
        self._aside = AsyncioThread()
        self._dialogues: dict[str, Dialogue] = {}
        self._sessions: list[Session] = []
        self.tools: tuple[OfferedTool, ...] = ()
        self.warnings: tuple[str, ...] = ()
        """One sentence for each server that is left out."""

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as failing:
            failing.callback(self._end)
            begun = [self._begun(server) for server in self._servers]
            found = [self._listed(each) for each in begun]
            failing.pop_all()
        self.tools = tuple(tool for each in found if not isinstance(each, str) for tool in each)
        self.warnings = tuple(each for each in found if isinstance(each, str))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def call(
        self, offered: OfferedTool, arguments: Mapping[str, JsonValue], *, within_s: float, stop: Callable[[], bool]
    ) -> ServerAnswer:
        """
        Raises:
            ServerAway: the server is gone, or says that it cannot be called so.
            TimeoutError: it took too long.
        """
        work = offered.session.call(offered.tool.name, arguments)
        return self._aside.answer(work, within_s=within_s, stop=stop)

    def _begun(self, server: McpServer) -> Session | str:
        if missing := missing_extra("mcp"):
            return f"MCP server {server.name} is left out: {missing}"
        try:
            session = self._aside.answer(self._made(server, self._transport(server)), within_s=_START_S)
        except (ServerAway, OSError, ValueError) as trouble:
            return f"MCP server {server.name} is left out: {trouble}"
        self._aside.begin(session.live())
        self._sessions.append(session)
        return session

    async def _made(self, server: McpServer, transport: "Callable[[], Transport]") -> Session:
        """Make the session on the loop, to which it belongs from then on."""
        return Session(server, transport)

    def _listed(self, session: Session | str) -> list[OfferedTool] | str:
        if isinstance(session, str):
            return session
        name = session.server.name
        try:
            found = self._aside.answer(session.find_wanted_tools(), within_s=_START_S)
        except TimeoutError:
            return f"MCP server {name} is left out: it told of no tools in {_START_S:.0f} s{self._last_words(name)}"
        except ServerAway as away:
            return f"MCP server {name} is left out: {away}{self._last_words(name)}"
        return [OfferedTool(server=session.server, tool=each, session=session) for each in found]

    def _last_words(self, name: str) -> str:
        words = self._dialogues[name].last_words() if name in self._dialogues else ""
        return f" (it said: {words[:200]})" if words else ""

    def _transport(self, server: McpServer) -> "Callable[[], Transport]":
        if server.url is not None:
            url, headers = server.url, dict(self._lent(server.headers))
            return lambda: _http(url, headers)
        argv = server.command or ()
        program = shutil.which(argv[0], path=self._env.get("PATH"))
        if program is None:
            raise ServerAway(f"program {argv[0]!r} is not on the commands' PATH")
        env = {**self._env, **dict(self._lent(server.env))}
        # The person's own program, named in their tools.yaml: it may need their network and their files.
        dialogue = Dialogue((program, *argv[1:]), cwd=self._root, env=env, confined=OPEN)
        self._dialogues[server.name] = dialogue
        return lambda: over(dialogue)

    def _lent(self, wanted: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        for theirs, ours in wanted.items():
            value = self._lend(ours)
            if value is None:
                raise ServerAway(f"the worker's variable {ours} is not set; set it, or take it out of tools.yaml")
            yield theirs, value

    def _end(self) -> None:
        with contextlib.ExitStack() as ending:
            ending.callback(self._aside.__exit__, None, None, None)
            for dialogue in self._dialogues.values():
                ending.callback(dialogue.end)
            if self._sessions:
                with contextlib.suppress(TimeoutError):
                    self._aside.answer(self._closed(), within_s=_GOODBYE_S)
        self._sessions.clear()
        self._dialogues.clear()

    async def _closed(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for each in self._sessions:
            each.close()
        await asyncio.wait(others, timeout=_GOODBYE_S)


@contextlib.asynccontextmanager
async def _http(url: str, headers: Mapping[str, str]) -> "AsyncIterator[TransportStreams]":
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    async with (
        httpx2.AsyncClient(headers=dict(headers), timeout=httpx2.Timeout(30.0, read=300.0)) as client,
        streamable_http_client(url, http_client=client) as streams,
    ):
        yield streams
