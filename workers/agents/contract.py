"""
The one seam between an order and whoever does it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, assert_never

from forgepool.workers.llm.provider import Trouble
from forgepool.workers.schema.confinement import Confinement
from forgepool.workers.schema.orders import BuiltinAgent, CliAgent, CommandAgent, ScriptedAgent, Spent, WorkOrder

if TYPE_CHECKING:
    from forgepool.workers.workspace.workspace import Bench

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
    """The complete environment of commands, from `workers.sandbox.order.environment.command_environment`."""
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


def perform(assignment: Assignment, bench: "Bench", *, stop: Callable[[], bool]) -> AgentAnswer:
    """Has the order's agent work in the worktree. When this returns, nothing that it started is alive."""
    match assignment.order.agent:
        case CommandAgent(run=script):
            from forgepool.workers.agents.command import perform_command

            return perform_command(assignment, script, stop=stop)
        case ScriptedAgent(script=script):
            from forgepool.workers.agents.builtin.agent import perform_scripted

            return perform_scripted(assignment, bench, script, stop=stop)
        case BuiltinAgent() as agent:
            from forgepool.workers.agents.builtin.agent import perform_builtin

            return perform_builtin(assignment, bench, agent, stop=stop)
        case CliAgent() as agent:
            from forgepool.workers.agents.cli.fleet import perform_in_fleet

            return perform_in_fleet(assignment, bench, agent, stop=stop)
        case other:
            assert_never(other)
