"""
A program as the harness knows it: what it needs, how it is called, how it is read. One value for each.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from forgepool.workers.agents.cli.events import OutputReader
from forgepool.workers.schema.orders import CliProgram, Limits

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
