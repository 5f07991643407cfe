"""
The transcript of an agent's conversation: a file of JSON lines that is only appended to, one entry after each event.

A killed process loses at most the line it was writing, which is not counted. What a model is shown is decided
elsewhere.
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
from forgepool.workers.schema.reports import LeadReply, LeadRequest, Report
from forgepool.worktrees.errors import UserError


class ConversationStarted(Message):
    """The start of a conversation. Entries before it belong to an earlier one for the same order."""

    kind: Literal["started"] = "started"
    at: float
    order_id: str
    model: str
    """The first model asked; `scripted` where a person wrote the answers."""
    system: tuple[str, ...]
    tools: tuple[str, ...]
    phase: PhaseName = "execute"
    name: str = Field(default="", exclude_if=lambda name: not name)
    """The phase's name in its workflow, where it is another than `phase`."""
    files: str = Field(default="", exclude_if=lambda tree: not tree)
    """The tree of the files as a phase began that may be undone; the hub has it while the phase lasts."""

    @property
    def phase_name(self) -> str:
        return self.name or self.phase


class TurnSaid(Message):
    """A turn of either side other than a tool's result."""

    kind: Literal["said"] = "said"
    at: float
    turn: Turn
    reply: LeadReply | None = None
    """The orchestrator's reply that the turn tells a lead, without its text."""


class Answered(Message):
    """A tool's result, written as soon as it arrives."""

    kind: Literal["answered"] = "answered"
    at: float
    iteration: int
    """The number of the model's turn that made the call, from 1."""
    seconds: float
    result: ToolResult
    """The result as the model sees it."""
    whole: str = ""
    """The whole text, where the model sees a shorter one."""
    shortened: str = ""
    """The way it was shortened, in a word."""


class CallJudged(Message):
    """The policy's judgement of a tool's call, made before the call runs."""

    kind: Literal["judged"] = "judged"
    at: float
    call_id: str
    tool: str
    decision: Decision
    rule: str | None
    reason: str
    commands: tuple[tuple[str, ...], ...] | None = None
    """Commands found in a script; None where there are none or they are unknown."""


class QuestionTried(Message):
    """A request to a model that brought no turn, and the wait before the next one; None where there is none."""

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
    """The usage it caused, as far as known."""


class Finished(Message):
    """The orderly end of a conversation. One without this entry was interrupted and may be continued."""

    kind: Literal["finished"] = "finished"
    at: float
    ended: str
    detail: str
    summary: str = ""
    """The model's own summary."""
    spent: Spent
    """The usage of the whole attempt so far."""
    request: LeadRequest | None = None
    """The request by which a lead's conversation rests."""


class PlanCommitted(Message):
    """The plan that EXECUTE follows."""

    kind: Literal["committed"] = "committed"
    at: float
    plan: str
    files: tuple[str, ...]
    synthetic: bool = False
    """The harness made the plan, because the model committed none."""


class ReportGiven(Message):
    """The report that ends a task which answers."""

    kind: Literal["reported"] = "reported"
    at: float
    report: Report


class Verified(Message):
    """The harness's check of work that the agent called done."""

    kind: Literal["verified"] = "verified"
    at: float
    ok: bool
    detail: str
    """One sentence that names the failed command."""
    output: str = ""
    """The end of the command's output."""
    fingerprint: str = ""
    """A fingerprint equal for failures that differ only in line numbers, times and addresses; empty for a pass."""
    outside: tuple[str, ...] = ()
    """Changed paths that the task does not own and was not granted."""
    by_checks: bool = False
    """Nothing but checks of the target was red."""


class Undone(Message):
    """The end of a phase that failed and may: the files are again as they were when it began."""

    kind: Literal["undone"] = "undone"
    at: float
    why: str


class Noted(Message):
    """A note of something the harness did or saw outside the conversation."""

    kind: Literal["noted"] = "noted"
    at: float
    text: str
    usage: Usage = Usage()
    """The usage of a model request outside the conversation."""


class Profiled(Message):
    """The context profile in force from here on."""

    kind: Literal["profiled"] = "profiled"
    at: float
    profile: str
    by: str = ""
    """The person who chose it; empty for the task's first profile."""


class Summoned(Message):
    """An announcement that a model will be asked for something a profile does once in a task."""

    kind: Literal["summoned"] = "summoned"
    at: float
    once: str


class Rebuilt(Message):
    """
    A rebuild: from here on the conversation is shown with this edit.

    Without an edit nothing changes: models were asked for one without success.
    """

    kind: Literal["rebuilt"] = "rebuilt"
    at: float
    profile: str
    cause: str
    why: str
    edit: Edit | None
    once: str = ""
    before_tokens: int
    """Estimated tokens of the next request, including system prompt and tools."""
    after_tokens: int
    window_tokens: int
    dropped: tuple[int, ...] = ()
    """Steps whose results are no longer shown in full."""
    archive: str = ""
    """The folder of dropped texts: `step-N.txt` is a result, `step-N.call.txt` the call and the text before it."""
    calls: int = 0
    """Models asked for the rebuild."""
    usage: Usage = Usage()
    """The usage of these requests."""


class CheckpointKept(Message):
    """A checkpoint: everything before this entry, with the files of that moment, is in the hub or on its way there."""

    kind: Literal["kept"] = "kept"
    at: float


class Resumed(Message):
    """The point where another process continues the conversation."""

    kind: Literal["resumed"] = "resumed"
    at: float
    order_id: str
    lost: Spent = Spent()
    """Usage after the last entry, by turns that are asked for again."""
    counted: tuple[int, ...] = ()
    """The other attempts that the lost usage belongs to."""


Entry = (
    ConversationStarted
    | TurnSaid
    | Answered
    | CallJudged
    | QuestionTried
    | Finished
    | PlanCommitted
    | ReportGiven
    | Verified
    | Undone
    | Noted
    | Profiled
    | Summoned
    | Rebuilt
    | CheckpointKept
    | Resumed
)
_ENTRY: TypeAdapter[Entry] = TypeAdapter(Annotated[Entry, Field(discriminator="kind")])


class TranscriptWrong(UserError):
    """A transcript with a line that no interruption explains: something else changed the file."""


class Transcript:
    """A transcript open for appending. Only the holder of the order's lease writes to it."""

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
        """Return the current conversation as a model is shown it."""
        return self._talk.turns

    @property
    def models(self) -> tuple[str, ...]:
        """Return the models that answered in any conversation, in the order of their first answers."""
        said = (entry.turn.model for entry in self.entries if isinstance(entry, TurnSaid))
        return tuple(dict.fromkeys(model for model in said if model))

    @property
    def size(self) -> int:
        """Return the bytes written so far."""
        return os.fstat(self._file).st_size

    def beginning(self, size: int) -> bytes:
        """Return the first bytes of this very file, even if another has replaced it on disk."""
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
    """The turns since the last start. Consecutive messages of the user's side form one turn, results first."""

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
    Read every entry, oldest first; none where the file is missing. An incomplete last line is ignored.

    Raises:
        TranscriptWrong: another line is not an entry.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    return parse_transcript(data, str(path))


def parse_transcript(data: bytes, name: str) -> list[Entry]:
    """Read the entries in the bytes of a transcript. Errors call it `name`."""
    return [_entry(name, number, line) for number, line in enumerate(data.split(b"\n")[:-1], start=1)]


def conversation(entries: Iterable[Entry]) -> tuple[Turn, ...]:
    """Return the turns since the last start as a model is shown them."""
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
    """Cut off an incomplete last line. An entry appended to it would spoil both."""
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
