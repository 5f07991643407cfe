"""
The names of spans and attributes: the one place that knows OpenTelemetry's semantic conventions.

Those of `cicd.*`, `vcs.*` and `gen_ai.*` are in development and may be renamed; then this module changes alone. What
they have no name for is called `forgepool.*`.
"""

from collections.abc import Mapping
from typing import Literal

StepKind = Literal["run", "task", "attempt", "order", "check", "review", "landing", "chat", "tool"]
StepResult = Literal["success", "failure", "error", "cancellation", "skip"]
"""Values of `cicd.pipeline.result` and `cicd.pipeline.task.run.result`."""
Fact = Literal[
    "plan",
    "run",
    "hub",
    "target",
    "base",
    "commit",
    "task",
    "title",
    "attempt",
    "message",
    "worker",
    "outcome",
    "together",
    "agent",
    "tool",
    "model",
    "input_tokens",
    "output_tokens",
    "cached_tokens",
    "cost_usd",
]

NAMES: Mapping[StepKind, str] = {
    "run": "RUN {plan}",
    "task": "{task}",
    "attempt": "attempt {attempt}",
    "order": "invoke_agent {agent}",
    "check": "check",
    "review": "review",
    "landing": "land",
    "chat": "chat {model}",
    "tool": "execute_tool {tool}",
}
ATTRIBUTES: Mapping[Fact, str] = {
    "plan": "cicd.pipeline.name",
    "run": "cicd.pipeline.run.id",
    "hub": "vcs.repository.url.full",
    "target": "vcs.ref.base.name",
    "base": "vcs.ref.base.revision",
    "commit": "vcs.ref.head.revision",
    "task": "cicd.pipeline.task.name",
    "title": "forgepool.task.title",
    "attempt": "forgepool.attempt",
    "message": "cicd.pipeline.task.run.id",
    "worker": "cicd.worker.name",
    "outcome": "forgepool.outcome",
    "together": "forgepool.together",
    "agent": "gen_ai.agent.name",
    "tool": "gen_ai.tool.name",
    "model": "gen_ai.response.model",
    "input_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
    "cached_tokens": "gen_ai.usage.cache_read.input_tokens",
    "cost_usd": "forgepool.cost_usd",
}
FIXED: Mapping[StepKind, Mapping[str, str]] = {
    "run": {"cicd.pipeline.action.name": "RUN"},
    "task": {},
    "attempt": {},
    "order": {"gen_ai.operation.name": "invoke_agent"},
    "check": {"cicd.pipeline.task.type": "test"},
    "review": {"gen_ai.operation.name": "invoke_agent"},
    "landing": {"cicd.pipeline.task.type": "deploy"},
    "chat": {"gen_ai.operation.name": "chat"},
    "tool": {"gen_ai.operation.name": "execute_tool"},
}
"""Attributes that all spans of a kind have."""
ERROR_TYPE = "error.type"

_RESULTS: Mapping[str, StepResult] = {
    "answered": "success",
    "candidate": "success",
    "needs_human": "skip",
    "green": "success",
    "passed": "success",
    "landed": "success",
    "no_changes": "success",
    "reported": "success",
    "already_there": "success",
    "stale": "cancellation",
    "apart": "cancellation",
    "moved": "cancellation",
    "untested": "cancellation",
    "cancelled": "cancellation",
    "blocked": "skip",
    "infrastructure": "error",
    "not_configured": "error",
    "unreachable": "error",
    "void": "error",
    "lost": "error",
}


def result_of(outcome: str) -> StepResult:
    """Return the conventions' word for an outcome, a verdict or the phase in which a task ended."""
    return _RESULTS.get(outcome, "failure")


def result_key(kind: StepKind) -> str:
    return "cicd.pipeline.result" if kind == "run" else "cicd.pipeline.task.run.result"
