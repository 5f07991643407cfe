"""
A shell command as an agent: its exit status is its word, and zero is the only good one.
"""

from collections.abc import Callable
from pathlib import Path
from typing import assert_never

from pydantic import TypeAdapter

from forgepool.workers.agents.contract import AgentAnswer, AgentEnding, Assignment
from forgepool.workers.sandbox.run.process import Command, Ended, run, shell
from forgepool.workers.schema.orders import ReasonPack, Spent, WorkOrder

_REASONS = TypeAdapter(tuple[ReasonPack, ...])


def perform_command(assignment: Assignment, script: str, *, stop: Callable[[], bool]) -> AgentAnswer:
    limits = assignment.order.limits
    reasons = write_reasons(assignment.order, assignment.tmp)
    ended = run(
        Command(
            argv=shell(script),
            cwd=assignment.worktree,
            env={**assignment.env, **task_variables(assignment.order, reasons)},
            log=assignment.log,
            timeout_s=limits.wall_s,
            idle_s=limits.idle_s,
            keep_bytes=limits.output_bytes,
            confined=assignment.confined,
            watch=assignment.worktree,
        ),
        stop=stop,
    )
    ending, detail = _judged(ended)
    return AgentAnswer(ended=ending, detail=detail, log_tail=ended.excerpt, spent=Spent(seconds=ended.seconds))


def task_variables(order: WorkOrder, reasons: Path) -> dict[str, str]:
    """What a command may want to know of its task."""
    return {
        "FORGEPOOL_TASK": order.task,
        "FORGEPOOL_RUN": order.run,
        "FORGEPOOL_ATTEMPT": str(order.attempt),
        "FORGEPOOL_BASE": order.base,
        "FORGEPOOL_REASONS": str(reasons),
    }


def write_reasons(order: WorkOrder, folder: Path) -> Path:
    """The reasons why earlier attempts came back, as a JSON list; an empty one for the first attempt."""
    path = folder / "reasons.json"
    path.write_bytes(_REASONS.dump_json(order.reasons, indent=1))
    return path


def _judged(ended: Ended) -> tuple[AgentEnding, str]:
    match ended.how:
        case "exit":
            return _judged_status(ended.status)
        case "timeout":
            return "timeout", f"the command did not end within {ended.seconds:.0f} s"
        case "idle":
            return (
                "idle",
                f"the command was silent and changed nothing for too long; ended after {ended.seconds:.0f} s",
            )
        case "stopped":
            return "stopped", "the command was stopped"
        case "not_started":
            return "not_started", f"the command was not started: {ended.tail}"
        case other:
            assert_never(other)


def _judged_status(status: int | None) -> tuple[AgentEnding, str]:
    if status == 0:
        return "finished", "the command ended with status 0"
    if status is None:
        return "failed", "the command ended with a status that could not be read"
    if status < 0:
        return "failed", f"the command was ended by signal {-status}"
    return "failed", f"the command ended with status {status}"
