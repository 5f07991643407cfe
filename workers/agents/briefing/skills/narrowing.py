"""
Which of a phase's tools a skill leaves. It never adds one, and never takes away those that end a conversation.
"""

from collections.abc import Sequence

from forgepool.workers.agents.briefing.skills.role import Skill
from forgepool.workers.schema.orders import PhaseName
from forgepool.workers.tools.tool import Tool

_HARNESS = {"confirm_red_phase"}
"""Asked for by the task, not by the role."""


def narrow_tools(tools: Sequence[Tool], skill: Skill | None, phase: PhaseName) -> tuple[Tool, ...]:
    """
    The phase's tools, in their order, as far as the skill's context mode and its `allowed-tools` let them through.

    `injected`: nothing to read or run with, in PLAN nothing but the ending; in EXECUTE what writes. `hybrid`: PLAN
    reads the repository's files and nothing else, no other program's tools among it; EXECUTE is not narrowed by it.
    """
    if skill is None:
        return tuple(tools)
    return tuple(tool for tool in tools if _always(tool) or (_fits(tool, skill, phase) and _allowed(tool, skill)))


def _always(tool: Tool) -> bool:
    return tool.kind == "end" or tool.name in _HARNESS


def _allowed(tool: Tool, skill: Skill) -> bool:
    return skill.allowed_tools is None or tool.name in skill.allowed_tools


def _fits(tool: Tool, skill: Skill, phase: PhaseName) -> bool:
    match skill.context_mode:
        case "autonomous":
            return True
        case "injected":
            return phase == "execute" and tool.kind == "write"
        case "hybrid":
            return phase == "execute" or (tool.kind == "read" and "__" not in tool.name)
