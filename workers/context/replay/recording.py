"""Recordings: one recorded conversation in the form all readers give, and its assembly."""

import re
from dataclasses import dataclass, field
from typing import Literal

from forgepool.workers.llm.messages import Part, Text, ToolCall, ToolResult, Turn, user
from forgepool.worktrees.errors import UserError

Format = Literal["own", "normal", "claude-code", "mini-swe-agent", "swe-agent"]

_INSTANCE = re.compile(r"(?P<project>[^/]+__[^/]+?)-\d+(?:\.[^/]*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    name: str
    """The file's name, with `#2`, `#3` or `#side1` where it holds several conversations."""
    format: Format
    project: str
    """The repository the agent worked on, or else a name from the file's name."""
    system: str
    """The system prompt; empty where it is unknown."""
    turns: tuple[Turn, ...]
    """
    Alternating turns. The first is the user's and begins with the task; at least one is the model's.

    Call ids are unique, and each call has its one result in the next turn. Unknown usage is zero and its cost None.
    """
    times: tuple[float | None, ...]
    """Unix seconds at which each turn was complete; None where unknown."""


class BadRecording(UserError):
    """A file without a readable recording; the message is one sentence for the user."""


def project_named(*names: str) -> str:
    """
    Return the repository of the first benchmark instance among the names (`django__django` for
    `x/django__django-11138.json`), or else the last name up to its first dot.
    """
    for name in names:
        if found := _INSTANCE.fullmatch(name.rpartition("/")[2]):
            return found["project"]
    return names[-1].partition(".")[0] or names[-1]


def number_name(name: str, number: int) -> str:
    """Return the name of a file's conversation by its number, from 0."""
    return name if number == 0 else f"{name}#{number + 1}"


NO_TASK = "(the task was not recorded)"
NO_RESULT = "(no result was recorded)"
NOTHING = "(nothing was recorded)"
"""The text of a turn for which the file has none."""


@dataclass(slots=True)
class _Side:
    turn: Turn
    parts: list[Part] = field(default_factory=list)
    at: float | None = None
    recorded: set[str] = field(default_factory=set)
    """Call ids in the file."""

    @property
    def whole(self) -> Turn:
        parts = tuple(self.parts) or (Text(text=NOTHING),)
        calls = self.turn.stop == "end" and any(isinstance(part, ToolCall) for part in parts)
        return self.turn.model_copy(update={"parts": parts, "stop": "calls" if calls else self.turn.stop})


@dataclass(slots=True, kw_only=True)
class _Outcome:
    result: ToolResult
    at: float | None = None


class Assembly:
    """Assembles a recording from events in order; results may come late."""

    def __init__(self) -> None:
        self._sides: list[_Side] = []
        self._newest: dict[str, str] = {}
        """The newest call of each id in the file."""
        self._called: set[str] = set()
        self._outcomes: dict[str, _Outcome] = {}

    @property
    def answered(self) -> bool:
        """Report whether the model has answered."""
        return any(side.turn.role == "assistant" for side in self._sides)

    def hear(self, text: str, at: float | None = None) -> None:
        """Take a text of the user's side. Blank texts are left out."""
        if not text.strip():
            return
        if not self._sides or self._sides[-1].turn.role != "user":
            self._sides.append(_Side(user()))
        self._sides[-1].parts.append(Text(text=text))
        self._sides[-1].at = _later(self._sides[-1].at, at)

    def answer(self, turn: Turn, at: float | None = None, *, more: bool = False) -> None:
        """
        Take an answer of the model, or with `more` another piece of its newest answer.

        Repeated parts of pieces are left out. The usage with the most output counts, since early pieces of a stream
        lack some.
        """
        side = self._newest_answer() if more else None
        if side is None:
            side = _Side(turn)
            self._sides.append(side)
        elif turn.usage.output_tokens >= side.turn.usage.output_tokens:
            side.turn = side.turn.model_copy(update={"usage": turn.usage})
        for part in turn.parts:
            self._add(side, part, more)
        side.at = _later(side.at, at)

    def result(self, text: str, *, call_id: str = "", is_error: bool = False, at: float | None = None) -> None:
        """
        Take the result of the newest call with this id; without an id, of the oldest call of the newest answer without
        a result.

        A second result, and one of an unknown call, are left out. Without an id and a waiting call it is a text of the
        user.
        """
        ours = self._newest.get(call_id) if call_id else next(iter(self._waiting()), None)
        if ours is not None:
            result = ToolResult(call_id=ours, text=text, is_error=is_error)
            self._outcomes.setdefault(ours, _Outcome(result=result, at=at))
        elif not call_id:
            self.hear(text, at)

    def recording(self, *, name: str, format: Format, project: str, system: str = "") -> Recording:
        turns: list[Turn] = []
        times: list[float | None] = []

        def put(turn: Turn, at: float | None) -> None:
            turns.append(turn)
            times.append(at)

        if self._sides and self._sides[0].turn.role == "assistant":
            put(user(Text(text=NO_TASK)), None)
        for side in self._sides:
            if side.turn.role == "user":
                put(*self._reply(turns, side))
                continue
            if turns[-1].role == "assistant":
                put(*self._reply(turns, _Side(user())))
            put(side.whole, side.at)
        if turns and turns[-1].calls:
            put(*self._reply(turns, _Side(user())))
        return Recording(
            name=name, format=format, project=project, system=system, turns=tuple(turns), times=tuple(times)
        )

    def _add(self, side: _Side, part: Part, more: bool) -> None:
        if isinstance(part, ToolCall):
            if not (more and part.id in side.recorded):
                side.recorded.add(part.id)
                side.parts.append(self._named(part))
        elif not (more and part in side.parts):
            side.parts.append(part)

    def _named(self, call: ToolCall) -> ToolCall:
        ours, number = call.id, len(self._called)
        while not ours or ours in self._called:
            number += 1
            ours = f"{call.id or 'call'}~{number}"
        self._called.add(ours)
        self._newest[call.id] = ours
        return call.model_copy(update={"id": ours})

    def _newest_answer(self) -> _Side | None:
        return next((side for side in reversed(self._sides) if side.turn.role == "assistant"), None)

    def _waiting(self) -> list[str]:
        newest = self._newest_answer()
        calls = newest.whole.calls if newest else ()
        return [call.id for call in calls if call.id not in self._outcomes]

    def _reply(self, turns: list[Turn], side: _Side) -> tuple[Turn, float | None]:
        """Return the user's turn after the last of `turns`: results in the order of its calls, then texts."""
        at, results = side.at, []
        for call in turns[-1].calls if turns else ():
            missing = _Outcome(result=ToolResult(call_id=call.id, text=NO_RESULT, is_error=True))
            outcome = self._outcomes.get(call.id, missing)
            results.append(outcome.result)
            at = _later(at, outcome.at)
        return _Side(side.turn, [*results, *side.parts]).whole, at


def _later(one: float | None, other: float | None) -> float | None:
    return max((at for at in (one, other) if at is not None), default=None)
