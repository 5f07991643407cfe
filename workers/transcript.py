"""
Everything that happened in an agent's conversation: JSON lines, only ever appended to, in the file after
each.

Whoever kills the process, what was said before is there to be read; a line it was in the middle of is not
counted. What a model is shown of this is decided elsewhere.
"""

import os
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Annotated, Literal, Self

from pydantic import Field, TypeAdapter, ValidationError

from workers.llm.messages import ToolResult, Turn
from workers.messages import Message, Spent


class Started(Message):
    """A conversation begins; entries before it belong to an earlier one about the same order."""

    kind: Literal["started"] = "started"
    at: float
    order_id: str
    model: str
    """Who is asked; `scripted` where a person wrote the answers."""
    system: tuple[str, ...]
    tools: tuple[str, ...]


class Said(Message):
    """A turn of either side that is not a tool's result."""

    kind: Literal["said"] = "said"
    at: float
    turn: Turn


class Answered(Message):
    """What a tool answered, written as soon as it had."""

    kind: Literal["answered"] = "answered"
    at: float
    iteration: int
    """The number of the model's turn that called it, from 1."""
    seconds: float
    result: ToolResult


class Finished(Message):
    """The conversation ended in an orderly way; one without this was interrupted."""

    kind: Literal["finished"] = "finished"
    at: float
    ended: str
    detail: str
    spent: Spent


Entry = Started | Said | Answered | Finished
_ENTRY: TypeAdapter[Entry] = TypeAdapter(Annotated[Entry, Field(discriminator="kind")])


class TranscriptWrong(Exception):
    """A line that no interruption explains: the file was changed by somebody else."""


class Transcript:
    """A transcript open for appending. One writer at a time: the one who has the order's lease."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        _forget_torn_line(self._file)

    def append(self, entry: Entry) -> None:
        data = entry.model_dump_json().encode() + b"\n"
        while data:
            data = data[os.write(self._file, data) :]

    def close(self) -> None:
        os.close(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_transcript(path: Path) -> list[Entry]:
    """
    Every entry, oldest first; none when there is no file. A last line without its end is ignored.

    Raises:
        TranscriptWrong: another line is not an entry.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    return [_entry(path, number, line) for number, line in enumerate(data.split(b"\n")[:-1], start=1)]


def conversation(entries: Iterable[Entry]) -> tuple[Turn, ...]:
    """The turns since the last start, results joined to the user's turns that a model is shown them in."""
    turns: list[Turn] = []
    results: list[ToolResult] = []
    for entry in entries:
        match entry:
            case Started():
                turns, results = [], []
            case Answered(result=result):
                results.append(result)
            case Said(turn=turn):
                if results:
                    turns.append(Turn(role="user", parts=tuple(results)))
                    results = []
                turns.append(turn)
            case Finished():
                pass
    if results:
        turns.append(Turn(role="user", parts=tuple(results)))
    return tuple(turns)


def now() -> float:
    return time.time()


def _entry(path: Path, number: int, line: bytes) -> Entry:
    try:
        return _ENTRY.validate_json(line)
    except ValidationError as wrong:
        raise TranscriptWrong(f"{path}:{number}: not an entry of a transcript; restore the file") from wrong


def _forget_torn_line(file: int) -> None:
    """Cuts off what a killed writer left of a line: whoever appended to it would spoil two entries."""
    size = os.fstat(file).st_size
    end = size
    while end:
        start = max(0, end - 65536)
        found = os.pread(file, end - start, start).rfind(b"\n")
        if found >= 0:
            end = start + found + 1
            break
        end = start
    if end != size:
        os.ftruncate(file, end)
