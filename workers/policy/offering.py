"""
Which tools a model is offered at all: none that the policy denies whatever it is called with.
"""

from collections.abc import Sequence

from forgepool.workers.policy.layers import Policy
from forgepool.workers.policy.matching import may_permit, on_tool
from forgepool.workers.policy.rules.rule import PolicyRule
from forgepool.workers.tools.tool import Tool


def offerable(tools: Sequence[Tool], policy: Policy) -> tuple[Tool, ...]:
    """
    In their order. `policy` is that of a phase. Tools that end a conversation always are: it has to end.
    """
    return tuple(tool for tool in tools if tool.kind == "end" or not is_denied_outright(policy, tool.name))


def is_denied_outright(policy: Policy, tool: str) -> bool:
    """A layer denies the tool as such, and nothing in that layer permits some of what it does."""
    person = policy.person if any(True for _ in on_tool(policy.person, tool)) else (*policy.person, *policy.built_in)
    layers = (person, policy.repository, policy.plan, policy.phase)
    return any(_denies(layer, tool) for layer in layers)


def _denies(layer: Sequence[PolicyRule], tool: str) -> bool:
    strictest = max(on_tool(layer, tool), key=lambda match: (match.rank, match.rule.decision == "deny"), default=None)
    if strictest is None or strictest.rule.decision != "deny":
        return False
    return not any(may_permit(rule, tool) for rule in layer)
