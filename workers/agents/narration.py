"""
A transcript as text that a person reads.
"""

import json
from collections.abc import Iterable
from typing import assert_never

from workers.llm.messages import Text, ToolCall, ToolResult, Turn
from workers.transcript import Answered, Entry, Finished, Said, Started


def narrated(entries: Iterable[Entry]) -> str:
    return "".join(f"{_narrate(entry)}\n" for entry in entries)


def _narrate(entry: Entry) -> str:
    match entry:
        case Started():
            return f"=== {entry.order_id}, model: {entry.model}, tools: {', '.join(entry.tools)}"
        case Said(turn=turn):
            return _turn(turn)
        case Answered(result=result):
            return _indented("! " if result.is_error else "< ", result.text)
        case Finished():
            return f"=== {entry.ended}: {entry.detail} ({entry.spent.turns} turns, {entry.spent.seconds:.1f} s)"
        case other:
            assert_never(other)


def _turn(turn: Turn) -> str:
    speaker = turn.model or turn.role
    lines = [f"--- {speaker}"]
    for part in turn.parts:
        match part:
            case Text(text=text):
                lines.append(text)
            case ToolCall(name=name, arguments=arguments):
                lines.append(f"> {name} {json.dumps(dict(arguments), ensure_ascii=False)}")
            case ToolResult(text=text, is_error=is_error):
                lines.append(_indented("! " if is_error else "< ", text))
            case other:
                assert_never(other)
    return "\n".join(lines)


def _indented(mark: str, text: str) -> str:
    return "\n".join(f"{mark}{line}" for line in text.split("\n"))
