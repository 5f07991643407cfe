"""
Other programs that serve an attempt's tools: language servers, and the MCP servers its host is configured with.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from forgepool.workers.schema.confinement import Confinement
from forgepool.workers.schema.orders import PhaseName
from forgepool.workers.schema.settings import Settings, secret
from forgepool.workers.tools.config import read_tool_config
from forgepool.workers.tools.lsp.servers import LanguageServers
from forgepool.workers.tools.lsp.symbols import symbol_tools
from forgepool.workers.tools.mcp.servers import McpServers
from forgepool.workers.tools.mcp.tools import mcp_tools
from forgepool.workers.tools.tool import Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    tools: Mapping[PhaseName, tuple[Tool, ...]]
    warnings: tuple[str, ...]
    """A sentence for each server that is left out."""


@contextmanager
def serve_tools(root: Path, env: Mapping[str, str], confined: Confinement, settings: Settings) -> Iterator[Served]:
    """
    What is served for a worktree, until the end of the block; then all of those programs are dead.

    Raises:
        DocumentWrong: the host's tools.yaml is written wrongly.
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
