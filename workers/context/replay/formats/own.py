"""
Our own transcripts: one recording for each conversation of an order, results as they were before they were shortened.
"""

from dataclasses import replace

from forgepool.workers.context.replay.assembly import Assembly
from forgepool.workers.context.replay.formats.forms import File, moment
from forgepool.workers.context.replay.recording import BadRecording, Recording, number_name, project_named
from forgepool.workers.context.transcript.entries import (
    Answered,
    ConversationStarted,
    Entry,
    TranscriptWrong,
    TurnSaid,
    parse_transcript,
)
from forgepool.workers.llm.messages import Text, ToolResult, Turn


def read(file: File) -> list[Recording]:
    """
    A last line without its end is left out, as `read_transcript` does.

    Raises:
        BadRecording: another line is not an entry.
    """
    try:
        entries = parse_transcript(file.data, str(file.path))
    except TranscriptWrong as wrong:
        raise BadRecording(str(wrong)) from wrong
    found = [recording for talk in _conversations(entries) if (recording := _recording(talk, file.name)) is not None]
    return [replace(recording, name=number_name(file.name, number)) for number, recording in enumerate(found)]


def _conversations(entries: list[Entry]) -> list[list[Entry]]:
    found: list[list[Entry]] = [[]]
    for entry in entries:
        if isinstance(entry, ConversationStarted):
            found.append([])
        found[-1].append(entry)
    return found


def _recording(entries: list[Entry], name: str) -> Recording | None:
    """None where the model never answered."""
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
