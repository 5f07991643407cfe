"""
Agents that speak the Agent Client Protocol: their output is read line by line, like that of other programs.

`acp_conversation` is the other side. Read here is what the protocol fixes; what is only usual (a call's arguments) is
kept as it comes.
"""

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from forgepool.workers.agents.cli.acp_conversation import REMARK, converse
from forgepool.workers.agents.cli.output import (
    MOST_CHARACTERS,
    Json,
    at,
    clip_object,
    clip_text,
    cost,
    count_at,
    failure,
    json_object,
    number_at,
    object_at,
    objects_at,
    text_at,
)
from forgepool.workers.agents.cli.program import (
    ANTHROPIC,
    OPENAI,
    SPEECHLESS,
    VENDORS,
    CliAgentProgram,
    Closed,
    Event,
    ProgramFailure,
    ProgramInvocation,
    ProgramJob,
    Remarked,
    Returned,
    Spoke,
    UsedInAll,
    Vendor,
)
from forgepool.workers.llm.messages import Text, ToolCall, ToolResult, Usage
from forgepool.workers.policy.layers import Policy
from forgepool.workers.policy.rule import Ground
from forgepool.workers.schema.orders import AcpAgent

_VENDORS: Mapping[str, tuple[Vendor, ...]] = {
    "gemini": (VENDORS["gemini"],),
    "claude-agent-acp": (ANTHROPIC,),
    "claude-code-acp": (ANTHROPIC,),
    "codex-acp": (OPENAI,),
    "opencode": (ANTHROPIC, OPENAI),
}
"""The programs that get a vendor's key. No other gets one: its command stands in the plan."""
_AUTHENTICATION = -32000
_ENDINGS = {
    "max_tokens": ProgramFailure(said="its model's last answer was cut off at its length limit"),
    "max_turn_requests": ProgramFailure(said="it reached its limit of requests", ended="limits"),
    "cancelled": ProgramFailure(said="it says that its turn was cancelled"),
}


def vendors_of(program: str) -> tuple[Vendor, ...]:
    """Return the vendors whose keys a program may get; none for a program that is not known."""
    return _VENDORS.get(program, ())


def acp_program(agent: AcpAgent, policy: Policy, worktree: Path) -> CliAgentProgram:
    """Return the plan's program; its requests for permission are judged by the policy."""
    ground = Ground(root=worktree.resolve(), home=Path.home())
    return CliAgentProgram(
        name=agent.program,
        install="its documentation says how",
        vendors=lambda model: vendors_of(agent.program),
        invoke=partial(_invoke, agent.run),
        reader=AcpReader,
        runner=partial(converse, policy=policy.during("execute"), ground=ground),
    )


def _invoke(run: str, job: ProgramJob) -> ProgramInvocation:
    return ProgramInvocation(argv=(job.executable, *shlex.split(run)[1:]), env=job.given, stdin=job.prompt)


class AcpReader:
    """Reads the agent's messages. Texts come in small pieces, and are one answer until a call interrupts them."""

    def __init__(self, job: ProgramJob) -> None:
        self._speaker = job.speaker
        self._text = ""
        self._left_out = 0
        self._last_words = ""
        self._usage = Usage(cost_usd=None)

    def read(self, line: str) -> Iterable[Event]:
        message = json_object(line)
        if message is None:
            return (Remarked(text=line),)
        match text_at(message, "method"):
            case "session/update":
                return self._update(object_at(message, "params", "update"))
            case "":
                return self._reply(message)
            case method if method == REMARK:
                return (Remarked(text=text_at(message, "params", "text")),)
        return ()

    def _update(self, update: Json) -> Iterator[Event]:
        match text_at(update, "sessionUpdate"):
            case "agent_message_chunk":
                self._add(text_at(update, "content", "text"))
            case "tool_call":
                yield from self._said()
                name = text_at(update, "kind") or text_at(update, "title") or "tool"
                arguments = clip_object(object_at(update, "rawInput") or {"title": text_at(update, "title")})
                call = ToolCall(id=text_at(update, "toolCallId"), name=name, arguments=arguments)
                yield Spoke(parts=(call,), model=self._speaker)
                yield from self._result(update)
            case "tool_call_update":
                yield from self._result(update)
            case "usage_update" if text_at(update, "cost", "currency") == "USD":
                self._usage = self._usage.model_copy(update={"cost_usd": cost(number_at(update, "cost", "amount"))})
                yield UsedInAll(usage=self._usage)

    def _result(self, update: Json) -> Iterator[Event]:
        if (status := text_at(update, "status")) not in ("completed", "failed"):
            return
        found = (
            text_at(each, "content", "text") or f"{text_at(each, 'type')} {text_at(each, 'path')}".strip()
            for each in objects_at(update, "content")
        )
        text = clip_text("\n".join(found))
        call = text_at(update, "toolCallId")
        yield Returned(result=ToolResult(call_id=call, text=text, is_error=status == "failed"))

    def _add(self, piece: str) -> None:
        """Keep a piece of an answer, up to the length of a text; pieces may be many and without end."""
        if len(self._text) <= MOST_CHARACTERS:
            self._text += piece
        else:
            self._left_out += len(piece)

    def _said(self) -> Iterator[Event]:
        if self._text.strip():
            more = f"\n[{self._left_out:,} further characters are left out]" if self._left_out else ""
            self._last_words = f"{clip_text(self._text)}{more}"
            yield Spoke(parts=(Text(text=self._last_words),), model=self._speaker)
        self._text, self._left_out = "", 0

    def _reply(self, message: Json) -> Iterator[Event]:
        """Read the answer to one of our requests: that to the prompt ends the work, and an error ends it early."""
        if error := object_at(message, "error"):
            said = text_at(error, "data", "details") or text_at(error, "message") or "no reason given"
            why = failure(said)
            if number_at(error, "code") == _AUTHENTICATION:
                why = replace(why, trouble="authentication")
            yield Closed(failure=why)
            return
        reason = text_at(message, "result", "stopReason")
        if not reason:
            return
        yield from self._said()
        if at(message, "result", "usage") is not None:
            yield UsedInAll(usage=self._used(object_at(message, "result", "usage")))
        yield self._closed(reason)

    def _closed(self, reason: str) -> Closed:
        if reason == "end_turn":
            return Closed(summary=self._last_words) if self._last_words else Closed(failure=SPEECHLESS)
        if reason == "refusal":
            return Closed(failure=ProgramFailure(said=self._last_words or "its model refused", ended="refused"))
        return Closed(failure=_ENDINGS.get(reason) or ProgramFailure(said=f"its turn ended by '{reason}'"))

    def _used(self, usage: Json) -> Usage:
        cached, written = count_at(usage, "cachedReadTokens"), count_at(usage, "cachedWriteTokens")
        return Usage(
            input_tokens=count_at(usage, "inputTokens") + cached + written,
            cached_tokens=cached,
            written_tokens=written,
            output_tokens=count_at(usage, "outputTokens"),
            cost_usd=self._usage.cost_usd,
        )
