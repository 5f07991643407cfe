"""
The tools of one attempt, as far as the policy and the task's skill permit them.

Other programs serve some of them: language servers, and the MCP servers its host is configured with. The same phase
gives the same tools every time, byte for byte: a provider's cache begins with them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from forgepool.workers.agents.briefing.system_prompt import Skill, narrow_tools
from forgepool.workers.agents.builtin.workflow import WorkflowPhase
from forgepool.workers.policy.layers import Policy, offerable
from forgepool.workers.sandbox.run.background import Background
from forgepool.workers.schema.confinement import Confinement
from forgepool.workers.schema.orders import PhaseName
from forgepool.workers.schema.reports import Evidence
from forgepool.workers.schema.settings import Settings, secret
from forgepool.workers.tools.commands.fetch import FETCH
from forgepool.workers.tools.commands.red_phase import RedPhase, confirm_red_phase_tool
from forgepool.workers.tools.config import read_tool_config
from forgepool.workers.tools.endings import ASK, COMPACT_TOOL, MayTouch, commit_plan_tool, finish_tool, report_tool
from forgepool.workers.tools.lsp.servers import LanguageServers
from forgepool.workers.tools.lsp.symbols import symbol_tools
from forgepool.workers.tools.mcp.servers import McpServers
from forgepool.workers.tools.mcp.tools import mcp_tools
from forgepool.workers.tools.tool import Tool
from forgepool.workers.tools.toolset import reading, working


@dataclass(slots=True, kw_only=True)
class Toolbox:
    background: Background
    may_touch: MayTouch
    unchanged: Callable[[], str | None]
    """Returns why there is nothing to commit yet, or None when there is something."""
    policy: Policy
    find_wrong: Callable[[Sequence[Evidence]], Sequence[str]]
    """Returns what is wrong with a report's citations."""
    reds: Mapping[str, RedPhase] = field(default_factory=dict)
    """Phases, by name, that finish only when a failing test was seen."""
    fetches: bool = False
    """True when the task may reach hosts."""
    leading: tuple[Tool, ...] = ()
    """The tools of a task that leads its run."""
    more: Mapping[PhaseName, tuple[Tool, ...]] = field(default_factory=dict)
    """Tools that other programs serve."""
    _made: dict[tuple[str, str, bool], tuple[Tool, ...]] = field(default_factory=dict)

    def tools(
        self, phase: WorkflowPhase, skill: Skill | None, family: str, *, compact: bool = False
    ) -> tuple[Tool, ...]:
        """
        Return a phase's tools, as far as its skill and its workflow permit them.

        `compact` adds the tool by which the agent asks for its context to be cleared.
        """
        key = (phase.name, family, compact)
        if key not in self._made:
            injected = skill is not None and skill.context_mode == "injected"
            more = (*((COMPACT_TOOL,) if compact else ()), *((FETCH,) if self.fetches else ()))
            ever = self._all(phase, family, (*more, *self.more.get(phase.kind, ())), injected)
            offered = offerable(ever, self.policy.during(phase.kind))
            self._made[key] = narrow_tools(offered, skill, phase.kind, phase.tools)
        return self._made[key]

    def _all(self, phase: WorkflowPhase, family: str, more: Sequence[Tool], injected: bool) -> tuple[Tool, ...]:
        if self.leading:
            return reading(more, self.leading)
        match phase.artifact:
            case "report":
                report = report_tool(self.find_wrong)
                return (report,) if injected else reading(more, (report, ASK))
            case "plan":
                return reading(more, (commit_plan_tool(self.may_touch, injected=injected), ASK))
            case "failing-test" | "change":
                seen = self.reds.get(phase.name)
                red = (confirm_red_phase_tool(seen),) if seen is not None else ()
                finish = finish_tool(lambda: self._unfinished(seen), injected=injected)
                return working(family, self.background, more, (*red, finish, ASK))

    def _unfinished(self, seen: RedPhase | None) -> str | None:
        if seen is not None and seen.confirmed is None:
            return "no failing test was seen yet; write one and call confirm_red_phase"
        return self.unchanged()


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    tools: Mapping[PhaseName, tuple[Tool, ...]]
    warnings: tuple[str, ...]
    """One sentence for each server that is left out."""


@contextmanager
def serve_tools(root: Path, env: Mapping[str, str], confined: Confinement, settings: Settings) -> Iterator[Served]:
    """
    Serve a worktree's tools by other programs until the end of the block; none of these programs outlives it.

    Raises:
        DocumentWrong: the host's tools.yaml is wrong.
    """
    config = read_tool_config(settings.tools_file)
    with (
        LanguageServers(root, env, confined, config.language_servers) as languages,
        McpServers(config.mcp_servers, root=root, env=env, lend=secret) as others,
    ):
        symbols = symbol_tools(languages)
        phases: tuple[PhaseName, ...] = ("plan", "execute")
        tools = {phase: (*symbols, *mcp_tools(others, phase)) for phase in phases}
        yield Served(tools=tools, warnings=(*languages.warnings, *others.warnings))
