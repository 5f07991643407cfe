"""
The trajectories of mini-swe-agent (`.traj.json`, both generations) and SWE-agent (`.traj`).

mini-swe-agent has commands in a fenced block or native tool calls; answers it refused for their form are left out. For
SWE-agent the recorded history is read where there is one, else the steps; demonstrations are left out, and it records
neither tokens nor times nor failed commands.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from pydantic import Field, JsonValue

from forgepool.workers.context.replay.formats.forms import (
    Content,
    File,
    Form,
    WireCall,
    WireUsage,
    call_named,
    fit_form,
    moment,
    read_call,
    text_of,
)
from forgepool.workers.context.replay.recording import Assembly, Recording, number_name, project_named
from forgepool.workers.llm.messages import Part, Text, ToolCall, Turn, Usage

_BLOCK = re.compile(r"```(?:bash|sh|mswea_bash_command)[ \t]*\n(.*?)\n```", re.DOTALL)
_STATUS = re.compile(r"\s*<returncode>(-?\d+)</returncode>")


class _Action(Form):
    command: str = ""


class _Response(Form):
    id: str | None = None
    model: str | None = None
    created: float | None = None
    usage: WireUsage | None = None


class _Extra(Form):
    actions: Sequence[_Action] | None = None
    response: _Response | None = None
    returncode: int | None = None
    timestamp: float | None = None
    interrupt_type: str | None = None


class _Item(Form):
    """An item of an answer over OpenAI's responses wire."""

    type: str = ""
    content: Content = None
    name: str = ""
    arguments: str | dict[str, JsonValue] | None = None
    call_id: str | None = None


class _Message(Form):
    role: str = ""
    type: str = ""
    object: str = ""
    content: Content = None
    output: str | Sequence[_Item] | None = None
    tool_calls: Sequence[WireCall] | None = None
    tool_call_id: str | None = None
    call_id: str | None = None
    model: str | None = None
    id: str | None = None
    usage: WireUsage | None = None
    timestamp: float | None = None
    noted: _Extra | None = Field(None, alias="extra")

    @property
    def extra(self) -> _Extra:
        return self.noted or _Extra()

    @property
    def text(self) -> str:
        return text_of(self.content)

    @property
    def at(self) -> float | None:
        created = self.extra.response.created if self.extra.response else None
        told = (self.extra.timestamp, self.timestamp, created)
        return next((at for one in told if (at := moment(one)) is not None), None)

    @property
    def failed(self) -> bool:
        if self.extra.returncode is not None:
            return self.extra.returncode != 0
        found = _STATUS.match(self.text)
        return found is not None and found[1] != "0"


class _Run(Form):
    messages: Sequence[_Message]
    instance_id: str | None = None


def read_mini_swe(file: File, value: object) -> list[Recording]:
    """
    Raises:
        BadRecording: `value` is not of the form.
    """
    run = fit_form(_Run, value, str(file.path), "a trajectory of mini-swe-agent")
    assembly, system = Assembly(), []
    for message in run.messages:
        if message.role == "exit":
            break
        if message.role == "system":
            system.append(message.text)
        else:
            _take(assembly, message)
    if not assembly.answered:
        return []
    project = project_named(run.instance_id or "", file.name)
    whole = "\n\n".join(system)
    return [assembly.recording(name=file.name, format="mini-swe-agent", project=project, system=whole)]


def _take(assembly: Assembly, message: _Message) -> None:
    if message.role == "assistant" or message.object == "response":
        assembly.answer(_turn(message), message.at)
    elif message.type == "function_call_output":
        text = message.output if isinstance(message.output, str) else ""
        assembly.result(text, call_id=message.call_id or "", is_error=message.failed, at=message.at)
    elif message.extra.interrupt_type or not assembly.answered:
        assembly.hear(message.text, message.at)
    else:
        assembly.result(message.text, call_id=message.tool_call_id or "", is_error=message.failed, at=message.at)


def _turn(message: _Message) -> Turn:
    response = message.extra.response or _Response()
    return Turn(
        role="assistant",
        parts=tuple(_parts(message)),
        id=message.id or response.id or "",
        model=message.model or response.model or "",
        usage=_usage(message.usage or response.usage or WireUsage()),
    )


def _parts(message: _Message) -> list[Part]:
    if message.tool_calls:
        return [*_said(message.text), *map(read_call, message.tool_calls)]
    if message.object == "response" and not isinstance(message.output, str):
        return [part for item in message.output or () for part in _item_parts(item)]
    return _fenced(message.text, [action.command for action in message.extra.actions or ()])


def _item_parts(item: _Item) -> list[Part]:
    if item.type == "function_call":
        return [call_named(item.name, item.arguments, item.call_id or "")]
    return _said(text_of(item.content)) if item.type == "message" else []


def _fenced(text: str, actions: Sequence[str]) -> list[Part]:
    """Return a command in its single fenced block, or the commands the file says were run."""
    blocks = [found for found in _BLOCK.finditer(text) if not actions or found[1].strip() in actions]
    commands = actions or ([blocks[0][1].strip()] if len(blocks) == 1 else [])
    if not commands:
        return _said(text)
    for block in reversed(blocks):
        text = text[: block.start()] + text[block.end() :]
    return [*_said(text.strip()), *(ToolCall(id="", name="bash", arguments={"command": each}) for each in commands)]


def _said(text: str) -> list[Part]:
    return [Text(text=text)] if text.strip() else []


def _usage(usage: WireUsage) -> Usage:
    read, thought = usage.prompt_details or usage.input_details, usage.completion_details or usage.output_details
    return Usage(
        input_tokens=usage.prompt_tokens or usage.input_tokens or 0,
        cached_tokens=(read.cached_tokens or 0) if read else 0,
        written_tokens=usage.cache_creation_input_tokens or 0,
        output_tokens=usage.completion_tokens or usage.output_tokens or 0,
        reasoning_tokens=(thought.reasoning_tokens or 0) if thought else 0,
        cost_usd=None,
    )


_FEWEST = 0.5
"""The share of the steps that a complete history has at least; requeries are never in it."""


class _Said(Form):
    """An entry of a history or of a request."""

    role: str
    content: Content = None
    thought: str | None = None
    action: str | None = None
    is_demo: bool | None = None
    tool_calls: Sequence[WireCall] | None = None
    tool_call_ids: Sequence[str] | None = None


class _AgentStep(Form):
    action: str | None = None
    observation: Content = None
    response: str | None = None
    thought: str | None = None
    tool_calls: Sequence[WireCall] | None = None
    query: Sequence[_Said] | None = None
    messages: Sequence[_Said] | None = None


class _Attempt(Form):
    history: Sequence[_Said] | None = None
    trajectory: Sequence[_AgentStep] | None = None


class _AgentRun(_Attempt):
    attempts: Sequence[_Attempt] | None = None


def read_swe_agent(file: File, value: object) -> list[Recording]:
    """
    Raises:
        BadRecording: `value` is not of the form.
    """
    run = fit_form(_AgentRun, value, str(file.path), "a trajectory of SWE-agent")
    found = [_recording(attempt, file.name) for attempt in run.attempts or [run]]
    kept = [recording for recording in found if recording is not None]
    return [replace(recording, name=number_name(file.name, number)) for number, recording in enumerate(kept)]


def _recording(attempt: _Attempt, name: str) -> Recording | None:
    assembly = Assembly()
    history = [entry for entry in attempt.history or () if not entry.is_demo]
    steps = attempt.trajectory or ()
    if sum(entry.role == "assistant" for entry in history) >= max(1, _FEWEST * len(steps)):
        opening: Sequence[_Said] = history
        for entry in history:
            _take_said(assembly, entry)
    else:
        opening = _opening(steps)
        for entry in opening:
            _take_said(assembly, entry)
        for step in steps:
            _step(assembly, step)
    if not assembly.answered:
        return None
    system = "\n\n".join(text_of(entry.content) for entry in opening if entry.role == "system")
    return assembly.recording(name=name, format="swe-agent", project=project_named(name), system=system)


def _opening(steps: Sequence[_AgentStep]) -> list[_Said]:
    """Return what the model was sent before its first answer."""
    sent = (steps[0].query or steps[0].messages or ()) if steps else ()
    first = next(
        (place for place, entry in enumerate(sent) if entry.role == "assistant" and not entry.is_demo), len(sent)
    )
    return [entry for entry in sent[:first] if not entry.is_demo]


def _take_said(assembly: Assembly, entry: _Said) -> None:
    text = text_of(entry.content)
    if entry.role == "assistant":
        assembly.answer(_agent_turn(text, entry.thought, entry.action, entry.tool_calls))
    elif entry.role != "system" and not assembly.answered:
        assembly.hear(text)
    elif entry.role != "system":
        for call_id in entry.tool_call_ids or [""]:
            assembly.result(text, call_id=call_id)


def _step(assembly: Assembly, step: _AgentStep) -> None:
    assembly.answer(_agent_turn(step.response or "", step.thought, step.action, step.tool_calls))
    assembly.result(text_of(step.observation))


def _agent_turn(content: str, thought: str | None, action: str | None, calls: Sequence[WireCall] | None) -> Turn:
    """Return a turn of text and action: native calls, or a command that `content` then repeats."""
    parts: list[Part] = []
    if calls:
        parts = list(map(read_call, calls))
    elif action and action.strip():
        content = thought if thought is not None else content
        parts = [ToolCall(id="", name="bash", arguments={"command": action})]
    entry = [Text(text=content)] if content.strip() else []
    return Turn(role="assistant", parts=(*entry, *parts))
