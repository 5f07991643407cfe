"""
The client's side of the Agent Client Protocol, around one prompt to an agent in the sandbox.

The client offers neither files nor terminals: the agent's own tools work in its sandbox, which is the wall. A request
for permission is judged by the policy, and what cannot be judged is refused; a yes is always for once.
"""

import asyncio
import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from forgepool.workers.agents.cli.acp_calls import judge_permission
from forgepool.workers.policy.layers import Policy
from forgepool.workers.policy.rule import Ground
from forgepool.workers.sandbox.run.dialogue import Dialogue
from forgepool.workers.sandbox.run.process import Command, CommandWatch, Ended, How

if TYPE_CHECKING:
    from acp.schema import PermissionOption, RequestPermissionResponse, ToolCallUpdate

REMARK = "forgepool/remark"
"""Method of a line that this side adds to what is recorded."""
_LOOK_S = 0.2
_MOST_UNREAD = 256 * 1024
"""Bytes of our messages that the agent has not read, above which nothing more is written."""
_MOST_UNANSWERED = 16
"""Requests of the agent that wait for their answers, at which no more are read."""
_MOST_ARGUMENTS = 500_000
"""Characters of a call's arguments; a call with more is refused, as a command that cannot be judged."""
_MOST_CALLS = 64
"""Calls of the agent that are remembered; a request that names an older one by its id alone is refused."""
_GOODBYE_S = 1.0
Hear = Callable[[bytes], None]


def converse(command: Command, *, stop: Callable[[], bool], hear: Hear, policy: Policy, ground: Ground) -> Ended:
    """
    Start the program, send it the prompt in the command's input file, and end it when it has answered.

    `hear` gets each line that it writes. The limits are those of `process.run`.
    """
    began = time.monotonic()
    prompt = command.stdin.read_text(encoding="utf-8") if command.stdin is not None else ""
    try:
        dialogue = Dialogue(command.argv, cwd=command.cwd, env=command.env, confined=command.confined)
    except (OSError, ValueError) as trouble:
        return Ended(how="not_started", tail=f"program {command.argv[0]!r}: {trouble}", log=command.log)
    watch = CommandWatch(timeout_s=command.timeout_s, idle_s=command.idle_s, folder=command.watch, stop=stop)
    line = AgentLine(dialogue=dialogue, hear=hear, watch=watch)
    answerer = PermissionAnswerer(policy=policy, ground=ground, remark=line.remark)
    how: How = "exit"
    try:
        how = asyncio.run(_talk(line, answerer, str(command.cwd), prompt))
    finally:
        status = dialogue.end(patience_s=_GOODBYE_S if how == "exit" else 0.0)
        if words := dialogue.last_words():
            line.remark(words)
    # It was ended by us once it had answered: that is its success, however it took its end.
    return Ended(how=how, status=0 if line.is_answered else status, seconds=time.monotonic() - began, log=command.log)


async def _talk(line: "AgentLine", answerer: "PermissionAnswerer", folder: str, prompt: str) -> How:
    """Lead the conversation; return how it ended: by itself, or at a limit."""
    await line.open()
    talking = asyncio.ensure_future(_prompt(line, answerer, folder, prompt))
    try:
        while True:
            await asyncio.wait({talking}, timeout=_LOOK_S)
            if talking.done():
                return "exit"
            if (reached := line.watch.find_reached()) is not None:
                return reached
    finally:
        talking.cancel()
        await asyncio.gather(talking, return_exceptions=True)
        await line.dialogue.hang_up()


async def _prompt(line: "AgentLine", answerer: "PermissionAnswerer", folder: str, prompt: str) -> None:
    from acp import PROTOCOL_VERSION, RequestError, text_block
    from acp.client.connection import ClientSideConnection

    agent = ClientSideConnection(answerer, line)  # type: ignore[arg-type]  # it offers no more than it has
    # What went wrong is in the lines that were heard: an error, or their end.
    with suppress(RequestError, ConnectionError, ValueError):
        await agent.initialize(protocol_version=PROTOCOL_VERSION)
        session = await agent.new_session(cwd=folder, mcp_servers=[])
        await agent.prompt(session_id=session.session_id, prompt=[text_block(prompt)])
        line.is_answered = True
    await agent.close()


@dataclass(slots=True, kw_only=True)
class AgentLine:
    """The messages to and from the program, each a line; the package's connection uses it as its transport."""

    dialogue: Dialogue
    hear: Hear
    watch: CommandWatch
    is_answered: bool = False
    _unanswered: int = 0
    _reader: asyncio.StreamReader | None = None
    _writer: asyncio.WriteTransport | None = None

    async def open(self) -> None:
        self._reader, self._writer = await self.dialogue.connect()

    def remark(self, text: str) -> None:
        self.hear(json.dumps({"method": REMARK, "params": {"text": text}}).encode() + b"\n")

    async def send(self, message: dict[str, Any]) -> None:
        try:
            if self._writer is None or self._writer.is_closing():
                raise ConnectionError("the agent has ended")
            self._writer.write(json.dumps(message).encode() + b"\n")
            while self._writer.get_write_buffer_size() > _MOST_UNREAD and not self._writer.is_closing():
                await asyncio.sleep(_LOOK_S)
        finally:
            self._unanswered -= "method" not in message

    async def receive(self) -> dict[str, Any] | None:
        """Return its next message; None at the end, or where no line ends within the buffer."""
        assert self._reader is not None, "it is opened first"
        # The tasks of the messages before run first: an agent that floods us waits for its answers.
        await asyncio.sleep(0)
        while True:
            while self._unanswered >= _MOST_UNANSWERED:
                await asyncio.sleep(_LOOK_S)
            try:
                data = await self._reader.readline()
            except ValueError:
                return None
            if not data:
                return None
            self.watch.active()
            self.hear(data if data.endswith(b"\n") else data + b"\n")
            with suppress(ValueError, RecursionError):
                if isinstance(message := json.loads(data), dict):
                    self._unanswered += message.get("method") is not None and "id" in message
                    return message

    async def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


@dataclass(slots=True, kw_only=True)
class PermissionAnswerer:
    """Answers the agent's requests: the client that the agent sees."""

    policy: Policy
    ground: Ground
    remark: Callable[[str], None]
    _calls: dict[str, Any] = field(default_factory=dict)
    """The calls that were told before, by their ids: a request may name no more than the id."""

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        if getattr(update, "session_update", "") in ("tool_call", "tool_call_update"):
            self._calls[update.tool_call_id] = _join(self._calls.pop(update.tool_call_id, None), update)
            if len(self._calls) > _MOST_CALLS:
                del self._calls[next(iter(self._calls))]

    async def request_permission(
        self, session_id: str, tool_call: "ToolCallUpdate", options: "list[PermissionOption]", **kwargs: Any
    ) -> "RequestPermissionResponse":
        from acp import RequestError
        from acp.schema import AllowedOutcome, RequestPermissionResponse

        judged = judge_permission(self.policy, self.ground, _join(self._calls.get(tool_call.tool_call_id), tool_call))
        allowed = judged.decision in ("allow", "audit")
        self.remark(f"permission for {tool_call.title or tool_call.tool_call_id}: {judged.decision}, {judged.reason}")
        # A yes for always is none of ours, and the outcome `cancelled` would say that the whole turn is.
        wanted = (*(["allow_once"] if allowed else []), "reject_once", "reject_always")
        chosen = next((option for kind in wanted for option in options if option.kind == kind), None)
        if chosen is None:
            raise RequestError(-32602, "not permitted; offer an option to allow once, or to reject")
        if allowed and chosen.kind != "allow_once":
            self.remark("it was refused: no option was to allow once")
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=chosen.option_id))

    async def create_terminal(self, **kwargs: Any) -> Any:
        """Refuse: without this method the package answers with nothing, as if there were a terminal."""
        from acp import RequestError

        raise RequestError.method_not_found("terminal")

    terminal_output = release_terminal = wait_for_terminal_exit = kill_terminal = create_terminal

    def on_connect(self, conn: object) -> None:
        pass


def _join(before: dict[str, Any] | None, update: Any) -> dict[str, Any]:
    """Return what is known of a call: an update has only what is new."""
    raw = update.raw_input
    new = {
        "kind": update.kind,
        "raw_input": raw if len(str(raw)) < _MOST_ARGUMENTS else {"command": "..."},
        "locations": [each.path for each in update.locations or ()],
        "content": [each.path for each in update.content or () if hasattr(each, "path")],
    }
    return (before or {}) | {name: value for name, value in new.items() if value}
