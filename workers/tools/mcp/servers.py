"""
The MCP servers of one order: those configured that start, the tools they tell of, and why others are left out.
"""

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from pydantic import JsonValue

from forgepool.workers.sandbox.run.dialogue import Dialogue
from forgepool.workers.schema.confinement import OPEN
from forgepool.workers.schema.extras import missing_extra
from forgepool.workers.tools.asyncio_thread import AsyncioThread
from forgepool.workers.tools.config import McpServer
from forgepool.workers.tools.mcp.session import ServerAnswer, ServerAway, ServerTool, Session
from forgepool.workers.tools.mcp.stdio import over

if TYPE_CHECKING:
    from mcp.client import Transport
    from mcp.client._transport import TransportStreams

Lend = Callable[[str], str | None]
"""The value of one of the worker's variables; None where it has none of that name."""

_START_S = 20.0
_GOODBYE_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedTool:
    """A tool, and who has it."""

    server: McpServer
    tool: ServerTool
    session: Session


class McpServers:
    """Started with the block, all at once; at its end all of them are dead."""

    def __init__(self, servers: Sequence[McpServer], *, root: Path, env: Mapping[str, str], lend: Lend) -> None:
        """`env` is the complete environment of commands; `lend` is asked for the variables a server's entry names."""
        self._servers = servers
        self._root = root
        self._env = env
        self._lend = lend
        self._aside = AsyncioThread()
        self._dialogues: dict[str, Dialogue] = {}
        self._sessions: list[Session] = []
        self.tools: tuple[OfferedTool, ...] = ()
        self.warnings: tuple[str, ...] = ()
        """A sentence for each server that is left out."""

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
        """On the loop, to which it belongs from then on."""
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
        said = self._dialogues[name].last_words() if name in self._dialogues else ""
        return f" (it said: {said[:200]})" if said else ""

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
