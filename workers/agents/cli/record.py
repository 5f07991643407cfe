"""
Records a program's output as it comes: cut into lines, freed of keys, read, written into the transcript, counted.

`judge_program` then decides how the run ended. Exit status 0 alone is no success: the program's last event must say
that it is done, and with words of its model.
"""

import dataclasses
import re
from collections import deque
from collections.abc import Iterable
from typing import TypeVar, assert_never

from pydantic import BaseModel

from forgepool.workers.agents.cli.output import clip_text, failure, one_line
from forgepool.workers.agents.cli.program import (
    Closed,
    Event,
    Hopeless,
    OutputReader,
    ProgramFailure,
    Remarked,
    Returned,
    Spoke,
    Used,
    UsedInAll,
)
from forgepool.workers.agents.contract import AgentAnswer
from forgepool.workers.context.transcript.entries import Answered, Entry, Noted, Transcript, TurnSaid, now
from forgepool.workers.context.transcript.usage import sum_usages
from forgepool.workers.llm.messages import ToolCall, Turn, Usage
from forgepool.workers.sandbox.run.process import Ended
from forgepool.workers.schema.orders import Limits, Spent
from forgepool.workers.workspace.checkpoints import Keeper

T = TypeVar("T")

_LEAST_SECRET = 6
"""Characters; anything shorter is no key, and removing it would spoil the text."""
_PLACEHOLDER = "[key]"


class Redaction:
    """Takes keys out of a program's output after it is decoded: JSON has more than one way to write a key."""

    def __init__(self, secrets: Iterable[str]) -> None:
        # White space between any two characters: a key that was broken over two lines is one all the same.
        words = [r"\s*".join(map(re.escape, secret)) for secret in secrets if len(secret) >= _LEAST_SECRET]
        self._keys = re.compile("|".join(words)) if words else None

    def text(self, text: str) -> str:
        return text if self._keys is None else self._keys.sub(_PLACEHOLDER, text)

    def of(self, value: T) -> T:
        """Return the same value, of any type, without keys in its texts."""
        return value if self._keys is None else self._of(value)  # type: ignore[return-value]  # of the same type

    def _of(self, value: object) -> object:
        match value:
            case str():
                return self.text(value)
            case dict():
                return {self._of(key): self._of(each) for key, each in value.items()}
            case list() | tuple():
                return type(value)(self._of(each) for each in value)
            case BaseModel():
                return value.model_copy(update={name: self._of(each) for name, each in value})
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            names = [field.name for field in dataclasses.fields(value)]
            return dataclasses.replace(value, **{name: self._of(getattr(value, name)) for name in names})
        return value


_MOST_LINE_BYTES = 16 * 1024 * 1024
_REMARKS = 40
_OPEN_ANSWERS = 20
"""Answers whose usage may still be corrected; that of older ones is final."""
_MOST_NOTES = 1_000
"""Remarks that are written into the transcript."""
_MOST_ENTRIES = 20_000
_MOST_BYTES = 128 * 1024 * 1024
_MOST_KEPT_BYTES = 8 * 1024 * 1024
"""The transcript that is kept in the hub while it grows; a longer one is kept when it is whole."""


class Record:
    """The record of one run. `hear` takes pieces of any size; `end` is called once, after the last."""

    def __init__(
        self,
        transcript: Transcript,
        reader: OutputReader,
        limits: Limits,
        redaction: Redaction,
        keeper: Keeper | None = None,
    ) -> None:
        self._transcript, self._reader, self._limits = transcript, reader, limits
        self._redaction, self._keeper = redaction, keeper or Keeper()
        self._notes = self._entries = 0
        self._line = bytearray()
        self._skipping = False
        self._uses: dict[str, Usage] = {}
        self._settled = Usage()
        self._in_all: Usage | None = None
        self._turn: str | None = None
        self._called_at: dict[str, float] = {}
        self.turns = 0
        self.models: list[str] = []
        self.remarks: deque[str] = deque(maxlen=_REMARKS)
        self.closed: Closed | None = None
        self.over: str | None = None
        """The limit that was passed, as the end of a sentence."""
        self.hopeless: ProgramFailure | None = None

    def hear(self, data: bytes) -> None:
        *whole, rest = data.split(b"\n")
        for line in whole:
            self._keep(line)
            self._end_line()
        self._keep(rest)

    def end(self) -> None:
        """Read the rest of the output, even without the end of its line."""
        self._end_line()

    @property
    def enough(self) -> bool:
        """True when the program should be ended: it is over a limit, or tries in vain."""
        return self.over is not None or self.hopeless is not None

    def sum_spent(self, seconds: float) -> Spent:
        """Return the usage. It is zero where no model has answered; the cost is unknown where none was reported."""
        usage = self._in_all if self._in_all is not None else sum_usages([self._settled, *self._uses.values()])
        cost = usage.cost_usd if self._in_all is not None or self._uses else None if self.turns else 0.0
        return Spent(
            seconds=seconds,
            turns=self.turns,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cached_tokens=usage.cached_tokens,
            cost_usd=cost,
        )

    def _keep(self, data: bytes) -> None:
        if len(self._line) + len(data) > _MOST_LINE_BYTES:
            self._line.clear()
            self._skipping = True
        if not self._skipping:
            self._line += data

    def _end_line(self) -> None:
        if self._skipping:
            self._skipping = False
            return self._take(Remarked(text=f"a line of more than {_MOST_LINE_BYTES:,} bytes was left out"))
        line = self._line.decode(errors="replace").rstrip("\r")
        self._line.clear()
        # Keys are also taken out before it is read: a reader cuts long texts, and might cut a key in two.
        for event in self._reader.read(self._redaction.text(line)):
            self._take(self._redaction.of(event))
        return None

    def _take(self, event: Event) -> None:
        match event:
            case Spoke():
                self._spoke(event)
            case Returned(result=result):
                self.closed = self._turn = None
                began = self._called_at.pop(result.call_id, now())
                answered = Answered(at=now(), iteration=max(1, self.turns), seconds=now() - began, result=result)
                self._append(answered)
            case Used(usage=usage, turn=turn):
                self._uses[turn] = usage
                if len(self._uses) > _OPEN_ANSWERS:
                    oldest = next(iter(self._uses))
                    self._settled = sum_usages([self._settled, self._uses.pop(oldest)])
            case UsedInAll(usage=usage):
                self._in_all = usage
            case Remarked(text=text):
                self._remark(text)
            case Closed():
                self.closed = event
            case Hopeless(failure=failure):
                self.hopeless = failure
        self.over = self.over or self._passed()

    def _spoke(self, event: Spoke) -> None:
        self.closed = None
        if self._turn is None or (event.turn and event.turn != self._turn):
            self.turns += 1
            if self._transcript.size < _MOST_KEPT_BYTES:
                self._keeper.keep(changed=False)
        self._turn = event.turn or self._turn or ""
        if event.model and event.model not in self.models:
            self.models.append(event.model)
        self._called_at |= {part.id: now() for part in event.parts if isinstance(part, ToolCall)}
        # The cost of this piece is reported later, or never; the whole is in `Finished`.
        turn = Turn(role="assistant", parts=event.parts, id=event.turn, model=event.model, usage=Usage(cost_usd=None))
        self._append(TurnSaid(at=now(), turn=turn))

    def _remark(self, text: str) -> None:
        if not text.strip():
            return
        self.remarks.append(clip_text(text))
        self._notes += 1
        if self._notes < _MOST_NOTES:
            self._append(Noted(at=now(), text=clip_text(text)))
        elif self._notes == _MOST_NOTES:
            self._append(Noted(at=now(), text=f"{_MOST_NOTES:,} remarks: further ones are left out"))

    def _append(self, entry: Entry) -> None:
        self._entries += 1
        if self._entries > _MOST_ENTRIES or self._transcript.size > _MOST_BYTES:
            self.over = self.over or "said more than a transcript can hold"
        else:
            self._transcript.append(entry)

    def _passed(self) -> str | None:
        """Return the passed limit of models' usage; only usage reported while the program runs can be limited."""
        limits, spent = self._limits, self.sum_spent(0.0)
        if self.closed is not None and self.closed.failure is None:
            return None
        if limits.turns is not None and self.turns > limits.turns:
            return f"used its {limits.turns} turns without finishing"
        if limits.tokens is not None and spent.tokens > limits.tokens:
            return f"used more than its {limits.tokens:,} tokens"
        if limits.cost_usd is not None and (spent.cost_usd or 0.0) > limits.cost_usd:
            return f"cost more than its {limits.cost_usd:g} USD"
        return None


def judge_program(program: str, ended: Ended, record: Record, *, keys: tuple[str, ...]) -> AgentAnswer:
    """Decide how a run ended: it has finished when its exit status and its last event say so."""
    match ended.how:
        case "exit":
            return _exited(program, ended.status, record, keys)
        case "timeout":
            return AgentAnswer(ended="timeout", detail=f"{program} did not end within {ended.seconds:.0f} s")
        case "idle":
            detail = f"{program} was silent and changed nothing for too long; ended after {ended.seconds:.0f} s"
            return AgentAnswer(ended="idle", detail=_with_last(detail, record))
        case "stopped":
            return _stopped(program, record, keys)
        case "not_started":
            return AgentAnswer(ended="not_started", detail=f"{program} was not started: {ended.tail}")
        case other:
            assert_never(other)


def _stopped(program: str, record: Record, keys: tuple[str, ...]) -> AgentAnswer:
    """Say why it was stopped: it tried in vain, passed a limit, or the attempt was stopped."""
    if record.hopeless is not None:
        return _failed(program, record.hopeless, keys)
    if record.over is not None:
        return AgentAnswer(ended="limits", detail=f"{program} {record.over}")
    return AgentAnswer(ended="stopped", detail=f"{program} was stopped")


def _exited(program: str, status: int | None, record: Record, keys: tuple[str, ...]) -> AgentAnswer:
    if record.closed is None:
        return _without_end(program, status, record, keys)
    if record.closed.failure is not None:
        return _failed(program, record.closed.failure, keys)
    if status != 0:
        return AgentAnswer(ended="failed", detail=f"{program} said that it was done, and then {_said(status)}")
    return AgentAnswer(ended="finished", detail=f"{program} finished", claimed_summary=record.closed.summary)


def _without_end(program: str, status: int | None, record: Record, keys: tuple[str, ...]) -> AgentAnswer:
    """Judge a program that died or could not begin, by its last remarks."""
    why = failure(" ".join(list(record.remarks)[-5:]))
    if why.trouble == "authentication":
        return _failed(program, why, keys)
    detail = _with_last(f"{program} {_said(status)} and did not say how its work ended", record)
    return AgentAnswer(ended="failed", detail=detail, trouble=why.trouble, resets_at=why.resets_at)


def _failed(program: str, why: ProgramFailure, keys: tuple[str, ...]) -> AgentAnswer:
    detail = f"{program}: {one_line(why.said)}"
    if why.trouble == "authentication":
        detail += f"; set {' or '.join(keys)} to a key that is accepted, where the worker runs"
    return AgentAnswer(ended=why.ended, detail=detail, trouble=why.trouble, resets_at=why.resets_at)


def _with_last(detail: str, record: Record) -> str:
    return f"{detail}; it last said: {one_line(record.remarks[-1])}" if record.remarks else detail


def _said(status: int | None) -> str:
    if status is None:
        return "ended with a status that could not be read"
    return f"ended with status {status}" if status >= 0 else f"was ended by signal {-status}"
