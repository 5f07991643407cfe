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

from forgepool.workers.context.transcript.edit import Edit
from forgepool.workers.llm.messages import ToolResult, Turn, Usage
from forgepool.workers.llm.provider import Trouble
from forgepool.workers.schema.orders import Message, PhaseName, Spent
from forgepool.workers.schema.policy_rules import Decision
from forgepool.worktrees.errors import UserError


class ConversationStarted(Message):
    """A conversation begins; entries before it belong to an earlier one about the same order."""

    kind: Literal["started"] = "started"
    at: float
    order_id: str
    model: str
    """Who is asked first; `scripted` where a person wrote the answers."""
    system: tuple[str, ...]
    tools: tuple[str, ...]
    phase: PhaseName = "execute"


class TurnSaid(Message):
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
    """As the model is told it."""
    whole: str = ""
    """All of its text, where the model was told something shorter."""
    shortened: str = ""
    """How, in a word."""


class CallJudged(Message):
    """What the policy said of a tool's call, before anything was carried out."""

    kind: Literal["judged"] = "judged"
    at: float
    call_id: str
    tool: str
    decision: Decision
    rule: str | None
    reason: str
    commands: tuple[tuple[str, ...], ...] | None = None
    """Those found in a script; None where there was none, or they could not be known."""


class QuestionTried(Message):
    """A question that brought no turn, and how long is waited before the next one; None where there is none."""

    kind: Literal["tried"] = "tried"
    at: float
    model: str
    account: str
    trouble: Trouble
    said: str
    status: int | None = None
    seconds: float
    wait_s: float | None = None
    usage: Usage = Usage()
    """What it cost all the same, as far as it is known."""


class Finished(Message):
    """The conversation ended in an orderly way; one without this was interrupted. It may be gone on with."""

    kind: Literal["finished"] = "finished"
    at: float
    ended: str
    detail: str
    summary: str = ""
    """What the model claims to have done."""
    spent: Spent
    """Of the whole attempt so far."""


class PlanCommitted(Message):
    """The plan by which EXECUTE works."""

    kind: Literal["committed"] = "committed"
    at: float
    plan: str
    files: tuple[str, ...]
    synthetic: bool = False
    """Made by the harness from what was explored, because the model did not come to one."""


class Verified(Message):
    """What the harness found when it looked at the work that was said to be done."""

    kind: Literal["verified"] = "verified"
    at: float
    ok: bool
    detail: str
    """One sentence; names the command that was red."""
    output: str = ""
    """The end of what it printed."""
    fingerprint: str = ""
    """Equal for failures that differ in line numbers, times and addresses only; empty when all is well."""
    outside: tuple[str, ...] = ()
    """Changed paths that the task does not own and was not given."""


class Noted(Message):
    """Something the harness did or saw beside the conversation."""

    kind: Literal["noted"] = "noted"
    at: float
    text: str
    usage: Usage = Usage()
    """Of a question to a model beside the conversation."""


class Profiled(Message):
    """From here on the conversation is shown by this profile."""

    kind: Literal["profiled"] = "profiled"
    at: float
    profile: str
    by: str = ""
    """Who wanted it; empty where it is what the task began with."""


class Summoned(Message):
    """A model is about to be asked for something that a profile does once in a task."""

    kind: Literal["summoned"] = "summoned"
    at: float
    once: str


class Rebuilt(Message):
    """
    What the model is shown was rebuilt: from here on the conversation is shown with this edit.

    Without an edit nothing is changed: models were asked for one, and nothing came of it.
    """

    kind: Literal["rebuilt"] = "rebuilt"
    at: float
    profile: str
    cause: str
    why: str
    edit: Edit | None
    once: str = ""
    before_tokens: int
    """Of the next request, with system prompt and tools, as they were estimated."""
    after_tokens: int
    window_tokens: int
    dropped: tuple[int, ...] = ()
    """Steps whose results are not shown whole any more."""
    archive: str = ""
    """The folder where they can be read: `step-N.txt` is a result, `step-N.call.txt` what was said and called."""
    calls: int = 0
    """Models asked for it."""
    usage: Usage = Usage()
    """Of these."""


class CheckpointKept(Message):
    """Everything before this, and the files as they were then, is in the hub or on its way there."""

    kind: Literal["kept"] = "kept"
    at: float


class Resumed(Message):
    """Another process goes on where the entries before this end."""

    kind: Literal["resumed"] = "resumed"
    at: float
    order_id: str
    lost: Spent = Spent()
    """What was used after those entries, by turns that are asked for again."""
    counted: tuple[int, ...] = ()
    """The attempts that these were, besides this one."""


Entry = (
    ConversationStarted
    | TurnSaid
    | Answered
    | CallJudged
    | QuestionTried
    | Finished
    | PlanCommitted
    | Verified
    | Noted
    | Profiled
    | Summoned
    | Rebuilt
    | CheckpointKept
    | Resumed
)
_ENTRY: TypeAdapter[Entry] = TypeAdapter(Annotated[Entry, Field(discriminator="kind")])


class TranscriptWrong(UserError):
    """A line that no interruption explains: the file was changed by somebody else."""


class Transcript:
    """A transcript open for appending. One writer at a time: the one who has the order's lease."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        _forget_torn_line(self._file)
        self.path = path
        self.entries = read_transcript(path)
        self._talk = Conversation()
        for entry in self.entries:
            self._talk.take(entry)

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The conversation under way, as a model is shown it."""
        return self._talk.turns

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return os.fstat(self._file).st_size

    def beginning(self, size: int) -> bytes:
        """The first so many bytes, of this very file: another may have been put in its place."""
        return os.pread(self._file, size, 0)

    def append(self, entry: Entry) -> None:
        data = entry.model_dump_json().encode() + b"\n"
        while data:
            data = data[os.write(self._file, data) :]
        self.entries.append(entry)
        self._talk.take(entry)

    def close(self) -> None:
        os.close(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Conversation:
    """The turns since the last start; what the user's side says in a row is one turn, results first."""

    def __init__(self) -> None:
        self._turns: list[Turn] = []

    @property
    def turns(self) -> tuple[Turn, ...]:
        return tuple(self._turns)

    def take(self, entry: Entry) -> None:
        match entry:
            case ConversationStarted():
                self._turns = []
            case Answered(result=result):
                self._add(Turn(role="user", parts=(result,)))
            case TurnSaid(turn=turn):
                self._add(turn)
            case _:
                pass

    def _add(self, turn: Turn) -> None:
        last = self._turns[-1] if self._turns else None
        if turn.role == "user" and last is not None and last.role == "user":
            self._turns[-1] = last.model_copy(update={"parts": (*last.parts, *turn.parts)})
        else:
            self._turns.append(turn)


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
    return parse_transcript(data, str(path))


def parse_transcript(data: bytes, name: str) -> list[Entry]:
    """As `read_transcript`, of the bytes of one; `name` is for the sentence."""
    return [_entry(name, number, line) for number, line in enumerate(data.split(b"\n")[:-1], start=1)]


def conversation(entries: Iterable[Entry]) -> tuple[Turn, ...]:
    """The turns since the last start, as a model is shown them."""
    talk = Conversation()
    for entry in entries:
        talk.take(entry)
    return talk.turns


def now() -> float:
    return time.time()


def _entry(name: str, number: int, line: bytes) -> Entry:
    try:
        return _ENTRY.validate_json(line)
    except ValidationError as wrong:
        raise TranscriptWrong(f"{name}:{number}: not an entry of a transcript; restore the file") from wrong


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
