"""
SWE-agent's `.traj`: the history as the model was sent it where the file has one, else the steps of the trajectory; one
recording for each attempt where there were several.

Demonstrations are left out. Neither tokens nor times are recorded by turn, nor whether a command failed.
"""

from collections.abc import Sequence
from dataclasses import replace

from forgepool.workers.context.replay.assembly import Assembly
from forgepool.workers.context.replay.formats.forms import Content, File, Form, WireCall, fit_form, read_call, text_of
from forgepool.workers.context.replay.recording import Recording, number_name, project_named
from forgepool.workers.llm.messages import Part, Text, ToolCall, Turn

_FEWEST = 0.5
"""Of the trajectory's steps, the share that a history must have to be taken for whole: requeries are never in it."""


class _Said(Form):
    """An entry of a history, or of what a step's model was sent."""

    role: str
    content: Content = None
    thought: str | None = None
    action: str | None = None
    is_demo: bool | None = None
    tool_calls: Sequence[WireCall] | None = None
    tool_call_ids: Sequence[str] | None = None


class _Step(Form):
    action: str | None = None
    observation: Content = None
    response: str | None = None
    thought: str | None = None
    tool_calls: Sequence[WireCall] | None = None
    query: Sequence[_Said] | None = None
    messages: Sequence[_Said] | None = None


class _Attempt(Form):
    history: Sequence[_Said] | None = None
    trajectory: Sequence[_Step] | None = None


class _Run(_Attempt):
    attempts: Sequence[_Attempt] | None = None


def read(file: File, value: object) -> list[Recording]:
    """
    Raises:
        BadRecording: `value` is not of the form.
    """
    run = fit_form(_Run, value, str(file.path), "a trajectory of SWE-agent")
    found = [_recording(attempt, file.name) for attempt in run.attempts or [run]]
    kept = [recording for recording in found if recording is not None]
    return [replace(recording, name=number_name(file.name, number)) for number, recording in enumerate(kept)]


def _recording(attempt: _Attempt, name: str) -> Recording | None:
    assembly = Assembly()
    history = [said for said in attempt.history or () if not said.is_demo]
    steps = attempt.trajectory or ()
    if sum(said.role == "assistant" for said in history) >= max(1, _FEWEST * len(steps)):
        opening: Sequence[_Said] = history
        for said in history:
            _take(assembly, said)
    else:
        opening = _opening(steps)
        for said in opening:
            _take(assembly, said)
        for step in steps:
            _step(assembly, step)
    if not assembly.answered:
        return None
    system = "\n\n".join(text_of(said.content) for said in opening if said.role == "system")
    return assembly.recording(name=name, format="swe-agent", project=project_named(name), system=system)


def _opening(steps: Sequence[_Step]) -> list[_Said]:
    """What the model was sent with the first step, before it said anything."""
    sent = (steps[0].query or steps[0].messages or ()) if steps else ()
    first = next((place for place, said in enumerate(sent) if said.role == "assistant" and not said.is_demo), len(sent))
    return [said for said in sent[:first] if not said.is_demo]


def _take(assembly: Assembly, said: _Said) -> None:
    text = text_of(said.content)
    if said.role == "assistant":
        assembly.answer(_turn(text, said.thought, said.action, said.tool_calls))
    elif said.role != "system" and not assembly.answered:
        assembly.hear(text)
    elif said.role != "system":
        for call_id in said.tool_call_ids or [""]:
            assembly.result(text, call_id=call_id)


def _step(assembly: Assembly, step: _Step) -> None:
    assembly.answer(_turn(step.response or "", step.thought, step.action, step.tool_calls))
    assembly.result(text_of(step.observation))


def _turn(content: str, thought: str | None, action: str | None, calls: Sequence[WireCall] | None) -> Turn:
    """Text and action: a call over the wire where there is one, else a command, which `content` then repeats."""
    parts: list[Part] = []
    if calls:
        parts = list(map(read_call, calls))
    elif action and action.strip():
        content = thought if thought is not None else content
        parts = [ToolCall(id="", name="bash", arguments={"command": action})]
    said = [Text(text=content)] if content.strip() else []
    return Turn(role="assistant", parts=(*said, *parts))
