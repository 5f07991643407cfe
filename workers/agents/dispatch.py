"""Run the agent that an order names. Only that agent's modules are imported; a shell command is run right here."""

from collections.abc import Callable
from typing import assert_never

from forgepool.workers.agents.contract import AgentAnswer, AgentEnding, Assignment, task_variables
from forgepool.workers.sandbox.run.process import Command, Ended, run, shell
from forgepool.workers.schema.orders import AcpAgent, BuiltinAgent, CliAgent, CommandAgent, ScriptedAgent, Spent
from forgepool.workers.workspace.workspace import Workspace


def perform(assignment: Assignment, workspace: Workspace, *, stop: Callable[[], bool]) -> AgentAnswer:
    """Run the order's agent in the worktree. When this returns, no process that it started is alive."""
    match assignment.order.agent:
        case CommandAgent(run=script):
            return perform_command(assignment, script, stop=stop)
        case ScriptedAgent(script=script):
            from forgepool.workers.agents.builtin.agent import perform_scripted

            return perform_scripted(assignment, workspace, script, stop=stop)
        case BuiltinAgent() as agent:
            from forgepool.workers.agents.builtin.agent import perform_builtin

            return perform_builtin(assignment, workspace, agent, stop=stop)
        case CliAgent() | AcpAgent() as agent:
            from forgepool.workers.agents.cli.performing import perform_in_fleet

            return perform_in_fleet(assignment, workspace, agent, stop=stop)
        case other:
            assert_never(other)


def perform_command(assignment: Assignment, script: str, *, stop: Callable[[], bool]) -> AgentAnswer:
    """Run a shell command as the agent; it has finished when it exits with 0."""
    limits = assignment.order.limits
    ended = run(
        Command(
            argv=shell(script),
            cwd=assignment.worktree,
            env={**assignment.env, **task_variables(assignment.order, assignment.tmp)},
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


def _judged(ended: Ended) -> tuple[AgentEnding, str]:
    match ended.how:
        case "exit":
            return _judged_status(ended.status)
        case "timeout":
            return "timeout", f"the command did not end within {ended.seconds:.0f} s"
        case "idle":
            detail = f"the command was silent and changed nothing for too long; ended after {ended.seconds:.0f} s"
            return "idle", detail
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
