"""The contract between an order and the agent that carries it out: an assignment in, an answer out."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import TypeAdapter

from forgepool.workers.llm.provider import Trouble
from forgepool.workers.schema.confinement import Confinement
from forgepool.workers.schema.orders import ReasonPack, Spent, WorkOrder
from forgepool.workers.schema.reports import LeadSaid, Report

if TYPE_CHECKING:
    from forgepool.workers.workspace.mending import Mending

_REASONS = TypeAdapter(tuple[ReasonPack, ...])

AgentEnding = Literal[
    "finished",
    "reported",
    "failed",
    "timeout",
    "idle",
    "stopped",
    "limits",
    "not_started",
    "refused",
    "asked",
    "queued",
    "waiting",
    "no_change",
    "verify_failed",
    "out_of_scope",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """One attempt, with the folders it may use, which exist."""

    order: WorkOrder
    worktree: Path
    mending: "Mending | None" = None
    """The earlier attempt's change that the worktree begins with."""
    home: Path
    tmp: Path
    """Private to the attempt and outside the worktree."""
    env: Mapping[str, str]
    """The complete environment of its commands."""
    log: Path
    transcript: Path
    confined: Confinement
    """The sandbox around every command of the attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentAnswer:
    """The end of the agent's work. `finished` is the agent's claim: the harness checks whether there is a change."""

    ended: AgentEnding
    detail: str
    """One sentence."""
    log_tail: str = ""
    claimed_summary: str = ""
    spent: Spent = field(default_factory=Spent)
    models: tuple[str, ...] = ()
    """The models that answered, if any did."""
    families: tuple[str, ...] = ()
    """The families of all models that took part, also in earlier attempts that this one resumed."""
    planned: tuple[str, ...] = ()
    """The paths of the plan it committed to."""
    missing: tuple[str, ...] = ()
    """Gaps in what it was given, as it says."""
    nothing_to_do: bool = False
    """With `no_change`: it committed a plan without files, with the reason."""
    report: Report | None = None
    """Set exactly with `reported`."""
    trouble: Trouble | None = None
    """The reason why a model gave no answer; only with `failed`."""
    resets_at: float | None = None
    """The end of a usage limit, in Unix seconds."""
    waited_s: float = 0.0
    """Seconds of waiting for accounts' rate limits, which count against no limit."""
    includes: tuple[int, ...] = ()
    """The interrupted attempts that this one resumed; `spent` includes their usage."""
    lead: LeadSaid | None = None
    """The request and the notes of a lead."""
    resumable: bool = False
    """True when another attempt may resume from the files that the hub keeps of this one."""


def task_variables(order: WorkOrder, folder: Path) -> dict[str, str]:
    """
    Return the environment variables that tell an agent's commands about their task.

    Writes the reasons why earlier attempts came back into the folder, as a JSON list.
    """
    reasons = folder / "reasons.json"
    reasons.write_bytes(_REASONS.dump_json(order.reasons, indent=1))
    return {
        "FORGEPOOL_TASK": order.task,
        "FORGEPOOL_RUN": order.run,
        "FORGEPOOL_ATTEMPT": str(order.attempt),
        "FORGEPOOL_BASE": order.base,
        "FORGEPOOL_REASONS": str(reasons),
    }
