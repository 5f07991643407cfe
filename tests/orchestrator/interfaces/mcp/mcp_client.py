"""The package's official client, over standard streams, against the real `forgepool mcp`."""

import asyncio
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from kit import Machine
from mcp import Client, StdioServerParameters
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.types import CallToolResult, ElicitRequestParams, ElicitResult, Implementation, Request, Result
from pydantic import ConfigDict, Field

Era = Literal["auto", "legacy"]
"""The handshake-less protocol, and the one that begins with `initialize`."""
T = TypeVar("T")
CLIENT = Implementation(name="tests", version="1")


@dataclass(frozen=True, slots=True)
class Said:
    """The result of a call."""

    answer: dict[str, Any]
    wrong: str
    """The sentence of a tool error; empty where there is none."""
    size: int
    """Bytes of the whole result on the wire."""


@dataclass(frozen=True, slots=True)
class McpCaller:
    client: Client

    async def ask(self, tool: str, **arguments: Any) -> Said:
        result = await self.client.call_tool(tool, arguments)
        text = "".join(block.text for block in result.content if block.type == "text")
        size = len(result.model_dump_json(by_alias=True, exclude_none=True).encode())
        return Said(result.structured_content or {}, text if result.is_error else "", size)

    async def answer(self, tool: str, **arguments: Any) -> dict[str, Any]:
        said = await self.ask(tool, **arguments)
        assert not said.wrong, f"{tool}: {said.wrong}"
        return said.answer

    async def refusal(self, tool: str, **arguments: Any) -> str:
        said = await self.ask(tool, **arguments)
        assert said.wrong, f"{tool} answered: {said.answer}"
        return said.wrong

    async def ended(self, run: str, *, within_s: float = 90.0) -> dict[str, Any]:
        """Return the status once no process runs the run."""
        for _ in range(int(within_s * 5)):
            status = await self.answer("status", run=run)
            if not status["live"]:
                return status
            await asyncio.sleep(0.2)
        raise AssertionError(f"{run} still runs: {status}")


Elicitor = Callable[[ElicitRequestParams], ElicitResult]


def talk(
    machine: Machine,
    work: Callable[[McpCaller], Awaitable[T]],
    *options: str,
    era: Era = "auto",
    elicitor: Elicitor | None = None,
    info: Implementation = CLIENT,
    extensions: Sequence[ClientExtension] = (),
) -> T:
    """Start `forgepool mcp` in the machine's folder, do the work over it, and end it."""
    machine.tmp.mkdir(parents=True, exist_ok=True)

    async def elicit(context: object, params: ElicitRequestParams) -> ElicitResult:
        assert elicitor is not None
        return elicitor(params)

    async def begin() -> T:
        with tempfile.TemporaryFile("w+") as log:
            transport = stdio_client(server_of(machine, *options), errlog=log)
            asks = None if elicitor is None else elicit
            async with Client(
                transport, mode=era, client_info=info, cache=None, elicitation_callback=asks, extensions=extensions
            ) as client:
                done = await work(McpCaller(client))
            log.seek(0)
            assert "Traceback" not in log.read()
            return done

    return asyncio.run(begin())


_DECLINED = {"action": "decline", "content": {"answer": "an answer that was not given"}}


class TaskHandle(Result):
    """The extension's answer in place of a tool's result."""

    model_config = ConfigDict(extra="allow")
    result_type: Literal["task"] = Field("task", alias="resultType")
    task_id: str = Field(alias="taskId")


class AnyTask(Result):
    model_config = ConfigDict(extra="allow")


class TasksClient(ClientExtension):
    """Follows a task to its end, and gives one answer to all that it asks, after it has declined once."""

    identifier = "io.modelcontextprotocol/tasks"

    def __init__(self, answer: str) -> None:
        self.answer = answer
        self.seen: list[dict[str, Any]] = []

    def claims(self) -> Sequence[ResultClaim[TaskHandle]]:
        return (ResultClaim(result_type="task", model=TaskHandle, resolve=self.follow),)

    async def follow(self, handle: TaskHandle, ctx: ClaimContext) -> CallToolResult:
        async def ask(method: str, **params: Any) -> dict[str, Any]:
            request = Request[dict[str, Any], str](method=method, params={"taskId": handle.task_id, **params})
            return (await ctx.session.send_request(request, AnyTask)).model_dump(by_alias=True)

        for _ in range(450):
            task = await ask("tasks/get")
            if not self.seen or self.seen[-1]["status"] != task["status"]:
                self.seen.append(task)
            if task["status"] in ("completed", "cancelled"):
                return CallToolResult.model_validate(task.get("result") or {"content": []})
            if asked := task.get("inputRequests"):
                await ask("tasks/update", inputResponses=dict.fromkeys(asked, _DECLINED))
                given = {"action": "accept", "content": {"answer": self.answer}}
                await ask("tasks/update", inputResponses={**dict.fromkeys(asked, given), "unknown": given})
            await asyncio.sleep(0.2)
        raise AssertionError(f"the task does not end: {self.seen[-1]}")


def call_over_http(url: str, token: str, work: Callable[[McpCaller], Awaitable[T]]) -> T:
    """Do the work over a server that listens already."""

    async def begin() -> T:
        async with (
            create_mcp_http_client(headers={"authorization": f"Bearer {token}"}) as http,
            Client(streamable_http_client(url, http_client=http), client_info=CLIENT, cache=None) as client,
        ):
            return await work(McpCaller(client))

    return asyncio.run(begin())


def server_of(machine: Machine, *options: str) -> StdioServerParameters:
    env = {name: value for name, value in machine._environment().items() if name != "PYTHONPATH"}
    return StdioServerParameters(
        command=sys.executable,
        args=["-P", "-m", "forgepool.orchestrator.cli", "mcp", *options],
        env=env,
        cwd=machine.folder,
    )


def main() -> None:
    """Start the plan that is named, print the name of its run, and wait: a client that a test kills."""
    folder, plan, repo = map(Path, sys.argv[1:4])
    machine = Machine(folder=folder, name=os.environ["FORGEPOOL_HOST"])

    async def begin(caller: McpCaller) -> None:
        sys.stdout.write(f"{(await caller.answer('run_plan', plan=str(plan), repo=str(repo)))['run']}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()

    talk(machine, begin)


if __name__ == "__main__":
    main()
