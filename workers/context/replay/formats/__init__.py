"""Files of recorded runs by several agents, recognised by their contents."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from forgepool.workers.context.replay.formats.claude_code import read_claude_code
from forgepool.workers.context.replay.formats.forms import File, parse_json
from forgepool.workers.context.replay.formats.mini_swe import read_mini_swe, read_swe_agent
from forgepool.workers.context.replay.formats.normal import read_normal, read_own
from forgepool.workers.context.replay.recording import BadRecording, Recording

_RIGHT = (
    "a transcript of Forgepool, the normal form, a session of Claude Code (.jsonl), or a trajectory of mini-swe-agent "
    "(.traj.json) or SWE-agent (.traj)"
)


def read_recordings(path: Path) -> list[Recording]:
    """
    Read the conversations of a file, at least one, each with an answer of the model.

    Raises:
        BadRecording: it cannot be read, is of no form known here, is broken, or holds no such conversation.
    """
    try:
        file = File(path, path.read_bytes())
    except OSError as wrong:
        raise BadRecording(f"{path}: cannot be read: {(wrong.strerror or 'unknown').lower()}") from wrong
    try:
        found = _read(file)
    except RecursionError as wrong:
        raise BadRecording(f"{file.path}: nested too deeply; right would be {_RIGHT}") from wrong
    if not found:
        raise BadRecording(f"{file.path}: no model answers in it; right would be a run with at least one answer")
    return found


def _read(file: File) -> list[Recording]:
    """Choose the format by the first line, or by the whole document where the line is no JSON value."""
    head, _, rest = file.data.lstrip().partition(b"\n")
    try:
        first = parse_json(head)
    except ValueError:
        return _read_document(file, _document(file))
    match first:
        case {"kind": str(), "at": int() | float()}:
            return read_own(file)
        case {"type": str()}:
            return read_claude_code(file)
        case _ if rest.strip():
            raise BadRecording(f"{file.path}:2: more than one value; right would be {_RIGHT}")
        case _:
            return _read_document(file, first)


def _document(file: File) -> object:
    if not file.data.strip():
        raise BadRecording(f"{file.path}: empty; right would be {_RIGHT}")
    try:
        return parse_json(file.data)
    except json.JSONDecodeError as wrong:
        raise BadRecording(f"{file.path}:{wrong.lineno}: not JSON; right would be {_RIGHT}") from wrong
    except ValueError as wrong:
        raise BadRecording(f"{file.path}: not JSON; right would be {_RIGHT}") from wrong


def _read_document(file: File, value: object) -> list[Recording]:
    reader: Callable[[File, object], list[Recording]]
    match value:
        case {"task": _, "steps": _}:
            reader = read_normal
        case {"messages": _, "trajectory_format": _} | {"messages": _, "info": _}:
            reader = read_mini_swe
        case {"trajectory": _} | {"history": _} | {"attempts": _}:
            reader = read_swe_agent
        case _:
            keys = ", ".join(sorted(map(str, value))[:5]) if isinstance(value, Mapping) else type(value).__name__
            raise BadRecording(f"{file.path}: of no form known here ({keys}); right would be {_RIGHT}")
    return reader(file, value)
