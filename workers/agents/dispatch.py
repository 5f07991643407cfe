"""Choose the agent that an order names, and import only that one."""

from collections.abc import Callable
from typing import assert_never

from forgepool.workers.agents.contract import AgentAnswer, Assignment
from forgepool.workers.schema.orders import BuiltinAgent, CliAgent, CommandAgent, ScriptedAgent
from forgepool.workers.workspace.workspace import Workspace


def perform(assignment: Assignment, bench: Workspace, *, stop: Callable[[], bool]) -> AgentAnswer:
    """Run the order's agent in the worktree. When this returns, no process that it started is alive."""
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
