"""
A scripted agent that speaks the Agent Client Protocol: a stand-in for a real one, on the package's own agent classes.

It does what the words in its arguments say: `write` asks for permission and writes a file, `outside` asks for what the
policy refuses, `mend` mends at its next attempt what it leaves, `refuse`, `die`, `hang` and `locked` end in their own
ways. Copied into a repository, it is the program of a task.
"""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from acp import PROTOCOL_VERSION, RequestError, run_agent
from acp.helpers import start_tool_call, update_agent_message_text, update_tool_call
from acp.schema import (
    AllowedOutcome,
    InitializeResponse,
    NewSessionResponse,
    PermissionOption,
    PromptResponse,
    ToolCallLocation,
    ToolCallUpdate,
    Usage,
)

OPTIONS = [
    PermissionOption(option_id="always", name="Always", kind="allow_always"),
    PermissionOption(option_id="yes", name="Yes", kind="allow_once"),
    PermissionOption(option_id="no", name="No", kind="reject_once"),
]


class ScriptedAcpAgent:
    def on_connect(self, conn: Any) -> None:
        self.client = conn

    async def initialize(self, protocol_version: int, client_capabilities: Any = None, **_: Any) -> InitializeResponse:
        assert client_capabilities is None or not client_capabilities.terminal
        return InitializeResponse(protocol_version=PROTOCOL_VERSION)

    async def new_session(self, cwd: str, **_: Any) -> NewSessionResponse:
        if "locked" in sys.argv:
            raise RequestError.auth_required()
        self.folder = Path(cwd)
        return NewSessionResponse(session_id="s-1")

    async def prompt(self, prompt: list[Any], session_id: str, **_: Any) -> PromptResponse:
        card = prompt[0].text
        for word in sys.argv[1:]:
            match word:
                case "write":
                    await self.ask("w", "edit", self.folder / "new.txt")
                    (self.folder / "new.txt").write_text("new\n" if "new.txt" in card else "no card\n")
                    await self.tell(update_tool_call("w", status="completed"))
                case "outside":
                    await self.ask("o", "edit", Path("/etc/passwd"))
                    await self.ask("r", "execute", command="git push --force")
                    await self.ask("f", "fetch")
                case "mend":
                    self.mend(begun="Your worktree begins with the change" in card)
                case "refuse":
                    return PromptResponse(stop_reason="refusal")
                case "die":
                    os._exit(3)
                case "hang":
                    await asyncio.sleep(600)
        for piece in ("All ", "done."):
            await self.tell(update_agent_message_text(piece))
        return PromptResponse(stop_reason="end_turn", usage=Usage(total_tokens=12, input_tokens=10, output_tokens=2))

    def mend(self, *, begun: bool) -> None:
        """Leave a finding and a file that is not the task's; in a worktree that begins with these, mend both."""
        file, stray = self.folder / "sum.py", self.folder / "stray.txt"
        if begun:
            file.write_text(file.read_text().replace("  # TODO: refunds", ""))
            stray.unlink()
        else:
            file.write_text("def total(items):\n    return sum(items)  # TODO: refunds\n")
            stray.write_text("not asked for\n")

    async def ask(self, call: str, kind: Any, path: Path | None = None, command: str = "") -> None:
        """Ask for permission; tell what was chosen."""
        where = [ToolCallLocation(path=str(path))] if path is not None else None
        raw = {"command": command} if command else None
        await self.tell(start_tool_call(call, f"{kind} {path or command}", kind=kind, locations=where, raw_input=raw))
        asked = ToolCallUpdate(tool_call_id=call)
        answer = await self.client.request_permission(session_id="s-1", tool_call=asked, options=OPTIONS)
        chosen = answer.outcome.option_id if isinstance(answer.outcome, AllowedOutcome) else "none"
        await self.tell(update_agent_message_text(f"{call}={chosen} "))

    async def tell(self, update: Any) -> None:
        await self.client.session_update(session_id="s-1", update=update)


if __name__ == "__main__":
    asyncio.run(run_agent(ScriptedAcpAgent()))  # type: ignore[arg-type]  # it has what is asked of it
