"""The contract between an order and the agent that carries it out: an assignment in, an answer out."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter

from forgepool.workers.llm.provider import Trouble
from forgepool.workers.schema.confinement import Confinement
from forgepool.workers.schema.orders import ReasonPack, Spent, WorkOrder

_REASONS = TypeAdapter(tuple[ReasonPack, ...])

AgentEnding = Literal[
    "finished",
    "failed",
    "timeout",
    "idle",
    "stopped",
    "limits",
    "not_started",
    "refused",
    "asked",
    "queued",
    "no_change",
    "verify_failed",
    "out_of_scope",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """One attempt, with the places it may use. The folders exist."""

    order: WorkOrder
    worktree: Path
    home: Path
    tmp: Path
    """Private to the attempt and outside the worktree."""
    env: Mapping[str, str]
    """The complete environment of commands, from `workers.sandbox.environment.command_environment`."""
    log: Path
    transcript: Path
    confined: Confinement
    """What holds every command of the attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentAnswer:
    """
    How the agent ended. `finished` says that it says so: whether there is a change is for the harness to
    see.
    """

    ended: AgentEnding
    detail: str
    """One sentence."""
    log_tail: str = ""
    claimed_summary: str = ""
    spent: Spent = field(default_factory=Spent)
    models: tuple[str, ...] = ()
    """Who answered, where models did."""
    families: tuple[str, ...] = ()
    """Of all that had a hand in the work, those of attempts gone on with included; none where no model had."""
    planned: tuple[str, ...] = ()
    """Paths of the plan it committed to."""
    trouble: Trouble | None = None
    """Why a model gave no answer; only with `failed`."""
    resets_at: float | None = None
    """Unix seconds at which a usage limit ends."""
    includes: tuple[int, ...] = ()
    """Interrupted attempts that this one went on with; what they used is in `spent`."""
    resumable: bool = False
    """Whether another attempt may go on from what the hub keeps of this one."""


def task_variables(order: WorkOrder, reasons: Path) -> dict[str, str]:
    """Return the environment variables that tell an agent's commands about their task."""
    return {
        "FORGEPOOL_TASK": order.task,
        "FORGEPOOL_RUN": order.run,
        "FORGEPOOL_ATTEMPT": str(order.attempt),
        "FORGEPOOL_BASE": order.base,
        "FORGEPOOL_REASONS": str(reasons),
    }


def write_reasons(order: WorkOrder, folder: Path) -> Path:
    """Write the reasons why earlier attempts came back as a JSON list, which is empty for the first attempt."""
    path = folder / "reasons.json"
    path.write_bytes(_REASONS.dump_json(order.reasons, indent=1))
    return path
