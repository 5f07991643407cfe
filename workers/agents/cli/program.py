"""A command line agent as the harness sees it: its needs, its call, and the events that its output is read into."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from forgepool.workers.llm.messages import Part, ToolResult, Usage
from forgepool.workers.llm.provider import Trouble
from forgepool.workers.sandbox.run.process import Command, Ended, run
from forgepool.workers.schema.orders import Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoke:
    """The model's answer, or a piece of it."""

    parts: tuple[Part, ...]
    turn: str = ""
    """The program's id of the answer, the same for all its pieces. Without one, an answer ends when a tool does."""
    model: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Returned:
    """The result of a call."""

    result: ToolResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """The usage of one answer; the last one reported for an answer counts."""

    usage: Usage
    turn: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedInAll:
    """The usage of everything so far, which replaces all that was reported before."""

    usage: Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Remarked:
    """A message beside the conversation: a warning, a question asked again."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramFailure:
    """The reason why there is no work, in the program's words."""

    said: str
    ended: Literal["failed", "refused", "limits"] = "failed"
    trouble: Trouble | None = None
    resets_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """The program's statement that it is done, or why not. The last one counts, and only if no answer follows it."""

    summary: str = ""
    failure: ProgramFailure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hopeless:
    """The program keeps trying what cannot succeed, and may be ended at once."""

    failure: ProgramFailure


Event = Spoke | Returned | Used | UsedInAll | Remarked | Closed | Hopeless

SPEECHLESS = ProgramFailure(said="it ended without a last word, as when its model refuses or answers nothing")


class OutputReader(Protocol):
    """Reads the output of one run. It never raises, whatever a line holds, and leaves out what it does not know."""

    def read(self, line: str) -> Iterable[Event]: ...


class Runner(Protocol):
    """Runs a program to its end, within the command's limits."""

    def __call__(self, command: Command, *, stop: Callable[[], bool], hear: Callable[[bytes], None]) -> Ended: ...


Secret = Callable[[str], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    """The variables a program gets for a vendor's models: keys (it needs one) and the server's address."""

    keys: tuple[str, ...]
    host: str
    """The models' server, unless an address is given."""
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
    """The file with the prompt."""
    limits: Limits
    given: Mapping[str, str]
    """The keys and addresses set on this host for the model's vendor."""
    confined: bool
    """True inside Forgepool's sandbox, where the program cannot set up its own."""

    @property
    def speaker(self) -> str:
        """The name of the answering model, for programs that do not report it."""
        return self.model or Path(self.executable).name


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramInvocation:
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables on top of a command's usual environment, keys included."""
    stdin: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CliAgentProgram:
    name: str
    install: str
    """The command that installs it."""
    vendors: Callable[[str | None], tuple[Vendor, ...]]
    """Returns the vendors whose keys the program may get, by the model's name. It needs one of the keys."""
    invoke: Callable[[ProgramJob], ProgramInvocation]
    reader: Callable[[ProgramJob], OutputReader]
    runner: Runner = run
    """Runs it; by default it gets its prompt as its input, and ends."""
    litter: str = ""
    """A pattern of files it leaves at the top of a worktree; those that were not there before are removed."""


def vendors_by_prefix(model: str | None) -> tuple[Vendor, ...]:
    """Return the vendor of a model called `vendor/name`; without a model, both usual vendors."""
    if model is None:
        return (ANTHROPIC, OPENAI)
    prefix = model.partition("/")[0].lower()
    if prefix in VENDORS:
        return (VENDORS[prefix],)
    if "claude" in model.lower():
        return (ANTHROPIC,)
    return (OPENAI,)
