"""
The normal form, one JSON object with a task and its steps (a step is a call and its result), and our own transcripts.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from pydantic import JsonValue

from forgepool.workers.context.replay.formats.forms import File, Form, fit_form, moment
from forgepool.workers.context.replay.recording import Assembly, BadRecording, Recording, number_name, project_named
from forgepool.workers.context.transcript.entries import (
    Answered,
    ConversationStarted,
    Entry,
    TranscriptWrong,
    TurnSaid,
    parse_transcript,
)
from forgepool.workers.llm.messages import Text, ToolCall, ToolResult, Turn, Usage


class _Usage(Form):
    prompt: int | None = None
    cached: int | None = None
    completion: int | None = None


class _Step(Form):
    assistant_text: str | None = None
    tool: str | None = None
    raw_tool: str | None = None
    input: JsonValue = None
    output: str | None = None
    is_error: bool | None = None
    turn: int | None = None
    """The number of the turn; None is a turn of its own."""
    user_text: str | None = None
    ts: float | None = None
    usage: _Usage | None = None

    @property
    def name(self) -> str:
        """Return the tool's name; empty where the step is no call."""
        return (self.tool or "") if self.raw_tool is None else self.raw_tool

    @property
    def arguments(self) -> dict[str, JsonValue]:
        if isinstance(self.input, dict):
            return self.input
        return {} if self.input is None else {"input": self.input}


class _Source(Form):
    source: str | None = None
    path: str | None = None


class _Run(Form):
    source: _Source | None = None
    task: str
    steps: Sequence[_Step]


def read_normal(file: File, value: object) -> list[Recording]:
    """
    Raises:
        BadRecording: `value` is not of the form.
    """
    run = fit_form(_Run, value, str(file.path), "a run in the normal form")
    assembly = Assembly()
    assembly.hear(run.task)
    for steps in _turns(run.steps):
        _take(assembly, steps, run.task)
    if not assembly.answered:
        return []
    source = run.source or _Source()
    origin = (source.source or "").rpartition(":")[2].replace("/", "__")
    project = project_named(file.name, source.path or "", origin or file.name)
    return [assembly.recording(name=file.name, format="normal", project=project)]


def _turns(steps: Sequence[_Step]) -> Iterator[dict[str, _Step]]:
    """Yield the steps of each turn by the id of their call."""
    for _, group in groupby(enumerate(steps), key=lambda each: (each[1].turn is None, each[1].turn or 0, _own(each))):
        yield {f"step-{number}": step for number, step in group}


def _own(each: tuple[int, _Step]) -> int:
    return each[0] if each[1].turn is None else 0


def _take(assembly: Assembly, steps: dict[str, _Step], task: str) -> None:
    for step in steps.values():
        if step.user_text and step.user_text != task:
            assembly.hear(step.user_text)
    texts = dict.fromkeys(step.assistant_text for step in steps.values() if (step.assistant_text or "").strip())
    said = [Text(text=text) for text in texts if text]
    calls = [ToolCall(id=name, name=step.name, arguments=step.arguments) for name, step in steps.items() if step.name]
    usage = next((_usage(step.usage) for step in steps.values() if step.usage), Usage(cost_usd=None))
    at = max((at for step in steps.values() if (at := moment(step.ts)) is not None), default=None)
    assembly.answer(Turn(role="assistant", parts=(*said, *calls), usage=usage), at)
    for name, step in steps.items():
        if step.output is not None and (step.name or step.output):
            assembly.result(step.output, call_id=name if step.name else "", is_error=bool(step.is_error))


def _usage(usage: _Usage) -> Usage:
    cached = usage.cached or 0
    return Usage(
        input_tokens=max(usage.prompt or 0, cached),
        cached_tokens=cached,
        output_tokens=usage.completion or 0,
        cost_usd=None,
    )


def read_own(file: File) -> list[Recording]:
    """
    Read our own transcript, one recording for each conversation, with whole results. An incomplete last line is left
    out.

    Raises:
        BadRecording: another line is not an entry.
    """
    try:
        entries = parse_transcript(file.data, str(file.path))
    except TranscriptWrong as wrong:
        raise BadRecording(str(wrong)) from wrong
    found = [
        recording for talk in _conversations(entries) if (recording := _own_recording(talk, file.name)) is not None
    ]
    return [replace(recording, name=number_name(file.name, number)) for number, recording in enumerate(found)]


def _conversations(entries: list[Entry]) -> list[list[Entry]]:
    found: list[list[Entry]] = [[]]
    for entry in entries:
        if isinstance(entry, ConversationStarted):
            found.append([])
        found[-1].append(entry)
    return found


def _own_recording(entries: list[Entry], name: str) -> Recording | None:
    """Assemble a recording; None where the model never answered."""
    assembly, system = Assembly(), ""
    for entry in entries:
        match entry:
            case ConversationStarted():
                system = "\n\n".join(text for text in entry.system if text.strip())
            case TurnSaid(turn=turn) if turn.role == "assistant":
                assembly.answer(turn, moment(entry.at))
            case TurnSaid(turn=turn):
                _hear(assembly, turn, moment(entry.at))
            case Answered(result=result, whole=whole):
                text = whole or result.text
                assembly.result(text, call_id=result.call_id, is_error=result.is_error, at=moment(entry.at))
            case _:
                pass
    if not assembly.answered:
        return None
    return assembly.recording(name=name, format="own", project=project_named(name), system=system)


def _hear(assembly: Assembly, turn: Turn, at: float | None) -> None:
    for part in turn.parts:
        match part:
            case Text(text=text):
                assembly.hear(text, at)
            case ToolResult():
                assembly.result(part.text, call_id=part.call_id, is_error=part.is_error, at=at)
            case _:
                pass
