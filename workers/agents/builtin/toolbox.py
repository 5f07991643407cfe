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
    red: RedPhase | None = None
    """Set when a failing test must have been seen before the work can be finished."""
    skill: Skill | None = None
    fetches: bool = False
    """True when the task may reach hosts."""
    find_wrong: Callable[[Sequence[Evidence]], Sequence[str]] | None = None
    """Set for a task that answers: returns what is wrong with a report's citations."""
    leading: tuple[Tool, ...] = ()
    """The tools of a task that leads its run."""
    more: Mapping[PhaseName, tuple[Tool, ...]] = field(default_factory=dict)
    """Tools that other programs serve."""
    _made: dict[tuple[PhaseName, str, bool], tuple[Tool, ...]] = field(default_factory=dict)

    def tools(self, phase: PhaseName, family: str, *, compact: bool = False) -> tuple[Tool, ...]:
        """Return a phase's tools. `compact` adds the tool by which the agent asks for its context to be cleared."""
        key = (phase, family, compact)
        if key not in self._made:
            offered = offerable(self._all(phase, family, compact), self.policy.during(phase))
            self._made[key] = narrow_tools(offered, self.skill, phase)
        return self._made[key]

    def _all(self, phase: PhaseName, family: str, compact: bool) -> tuple[Tool, ...]:
        more = (*((COMPACT_TOOL,) if compact else ()), *((FETCH,) if self.fetches else ()), *self.more.get(phase, ()))
        if self.leading:
            return reading(more, self.leading)
        if self.find_wrong is not None:
            report = report_tool(self.find_wrong)
            return (report,) if self._injected else reading(more, (report, ASK))
        if phase == "plan":
            return reading(more, (commit_plan_tool(self.may_touch, injected=self._injected), ASK))
        red = (confirm_red_phase_tool(self.red),) if self.red is not None else ()
        finish = finish_tool(self._unfinished, injected=self._injected)
        return working(family, self.background, more, (*red, finish, ASK))

    @property
    def _injected(self) -> bool:
        return self.skill is not None and self.skill.context_mode == "injected"

    def _unfinished(self) -> str | None:
        if self.red is not None and self.red.confirmed is None:
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
