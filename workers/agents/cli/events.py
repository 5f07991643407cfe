"""
What programs tell of themselves while they work, in one form, whoever tells it. Each program's reader makes these.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Protocol

from forgepool.workers.llm.messages import Part, ToolResult, Usage
from forgepool.workers.llm.provider import Trouble


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoke:
    """A piece of the model's answer, or all of it."""

    parts: tuple[Part, ...]
    turn: str = ""
    """The program's name for the answer, the same for all its pieces. Without one, an answer ends when a tool does."""
    model: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Returned:
    """What came of a call."""

    result: ToolResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """What one answer used; of several for the same answer the last counts."""

    usage: Usage
    turn: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedInAll:
    """What everything so far used: counts in place of all that was told before."""

    usage: Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Remarked:
    """Something about the work that is no part of the conversation: a warning, a question asked again."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramFailure:
    """Why there is no work, in the program's words."""

    said: str
    ended: Literal["failed", "refused", "limits"] = "failed"
    trouble: Trouble | None = None
    resets_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """The program says that it is done, or why not. The last one counts, and only if nothing is said after it."""

    summary: str = ""
    failure: ProgramFailure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hopeless:
    """The program goes on trying what cannot succeed for a long time: it may be ended at once."""

    failure: ProgramFailure


Event = Spoke | Returned | Used | UsedInAll | Remarked | Closed | Hopeless

SPEECHLESS = ProgramFailure(said="it ended without a last word, as when its model refuses or answers nothing")


class OutputReader(Protocol):
    """Reads one run of a program. Whatever a line holds, it raises nothing: what it does not know it leaves out."""

    def read(self, line: str) -> Iterable[Event]: ...
