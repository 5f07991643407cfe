"""
A program as the harness knows it: what it needs, how it is called, how it is read. One value for each.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from forgepool.workers.llm.messages import Part, ToolResult, Usage
from forgepool.workers.llm.provider import Trouble
from forgepool.workers.schema.orders import CliProgram, Limits


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


Secret = Callable[[str], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    """Variables a program is given for a vendor's models: keys, of which it needs one, and the server's address."""

    keys: tuple[str, ...]
    host: str
    """Where its models are, unless an address is given."""
    address: str = ""


ANTHROPIC = Vendor(keys=("ANTHROPIC_API_KEY",), host="api.anthropic.com", address="ANTHROPIC_BASE_URL")
OPENAI = Vendor(keys=("OPENAI_API_KEY",), host="api.openai.com", address="OPENAI_BASE_URL")
_GEMINI = Vendor(keys=("GEMINI_API_KEY",), host="generativelanguage.googleapis.com")
VENDORS: Mapping[str, Vendor] = {
    "anthropic": ANTHROPIC,
    "openai": OPENAI,
    "openrouter": Vendor(keys=("OPENROUTER_API_KEY",), host="openrouter.ai"),
    "gemini": _GEMINI,
    "google": _GEMINI,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramJob:
    """One run of a program."""

    executable: str
    model: str | None
    title: str
    worktree: Path
    home: Path
    tmp: Path
    prompt: Path
    """The file with what it is told."""
    limits: Limits
    given: Mapping[str, str]
    """The keys and addresses that are set on this host, of the vendor whose model it is."""
    confined: bool
    """Whether a sandbox of ours is around it; none of its own can then be set up inside."""

    @property
    def speaker(self) -> str:
        """Who answers, for programs that do not say which model does."""
        return self.model or Path(self.executable).name


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramInvocation:
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    """What it needs besides a command's usual environment, keys included."""
    stdin: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CliAgentProgram:
    name: CliProgram
    install: str
    """The command that installs it."""
    vendors: Callable[[str | None], tuple[Vendor, ...]]
    """By the model's name: whose keys it may be given. It needs one of them."""
    invoke: Callable[[ProgramJob], ProgramInvocation]
    reader: Callable[[ProgramJob], OutputReader]
    litter: str = ""
    """Files it leaves at the top of a worktree, by a pattern; those that were not there before are removed."""


def vendors_by_prefix(model: str | None) -> tuple[Vendor, ...]:
    """Of a model called `vendor/name`; of both usual vendors where the name does not tell."""
    if model is None:
        return (ANTHROPIC, OPENAI)
    prefix = model.partition("/")[0].lower()
    if prefix in VENDORS:
        return (VENDORS[prefix],)
    if "claude" in model.lower():
        return (ANTHROPIC,)
    return (OPENAI,)
