"""The package's own client, over standard streams, against the real `forgepool acp`."""

import asyncio
import sys
import tempfile
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from acp import PROTOCOL_VERSION, RequestError, spawn_agent_process, text_block
from acp.client.connection import ClientSideConnection
from acp.schema import (
    AgentMessageChunk,
    AgentPlanUpdate,
    AllowedOutcome,
    DeniedOutcome,
    Implementation,
    PermissionOption,
    RequestPermissionResponse,
    ToolCallUpdate,
)
from kit import Machine

Chooser = Callable[[ToolCallUpdate], str]


@dataclass(slots=True)
class Editor:
    """What a person at an editor sees, and what they choose when asked."""

    choose: Chooser = lambda call: ""
    texts: list[str] = field(default_factory=list)
    plans: list[dict[str, str]] = field(default_factory=list)
    asked: list[ToolCallUpdate] = field(default_factory=list)
    updates: list[Any] = field(default_factory=list)

    @property
    def said(self) -> str:
        return "".join(self.texts)

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        self.updates.append(update)
        match update:
            case AgentPlanUpdate():
                self.plans.append(
                    {entry.content.partition(":")[0].split()[0]: entry.status for entry in update.entries}
                )
            case AgentMessageChunk():
                self.texts.append(update.content.text)

    async def request_permission(
        self, session_id: str, tool_call: ToolCallUpdate, options: list[PermissionOption], **kwargs: Any
    ) -> RequestPermissionResponse:
        self.asked.append(tool_call)
        if not (chosen := self.choose(tool_call)):
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        assert chosen in {option.option_id for option in options}
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=chosen))

    def on_connect(self, conn: Any) -> None:
        pass


@dataclass(slots=True)
class AcpCaller:
    editor: Editor
    agent: ClientSideConnection
    process: Process
    folder: str

    async def begin(self) -> str:
        return (await self.agent.new_session(cwd=self.folder)).session_id

    async def prompt(self, session: str, *blocks: Any) -> str:
        """Send a prompt; return the reason for which the turn ended."""
        sent = [text_block(block) if isinstance(block, str) else block for block in blocks]
        return (await self.agent.prompt(session_id=session, prompt=sent)).stop_reason

    async def told(self, session: str, *blocks: Any) -> str:
        """Send a prompt; return what the agent said in this turn."""
        before = len(self.editor.texts)
        assert await self.prompt(session, *blocks) == "end_turn"
        return "".join(self.editor.texts[before:])

    async def load(self, session: str) -> None:
        await self.agent.load_session(cwd=self.folder, session_id=session)

    async def refusal(self, session: str) -> str:
        try:
            await self.load(session)
        except RequestError as wrong:
            return str(wrong)
        raise AssertionError(f"{session} was loaded")

    async def until(self, is_so: Callable[[], bool], what: str) -> None:
        for _ in range(600):
            if is_so():
                return
            await asyncio.sleep(0.1)
        raise AssertionError(f"no {what}; it said: {self.editor.said}")


@asynccontextmanager
async def talking(
    machine: Machine, folder: str, *options: str, choose: Chooser = lambda call: ""
) -> AsyncIterator[AcpCaller]:
    """Start `forgepool acp`, shake hands, and end it."""
    env = {name: value for name, value in machine._environment().items() if name != "PYTHONPATH"}
    command = (sys.executable, "-P", "-m", "forgepool.orchestrator.cli", "acp", *options)
    editor = Editor(choose)
    with tempfile.TemporaryFile("w+") as log:
        spawned = spawn_agent_process(editor, *command, env=env, cwd=folder, transport_kwargs={"stderr": log})  # type: ignore[arg-type]  # it serves what it is asked
        async with spawned as (agent, process):
            info = Implementation(name="tests", version="1")
            answer = await agent.initialize(protocol_version=PROTOCOL_VERSION, client_info=info)
            assert answer.agent_capabilities is not None and answer.agent_capabilities.load_session
            yield AcpCaller(editor, agent, process, folder)
        log.seek(0)
        assert "Traceback" not in (said := log.read()), said
