"""The server, and the one place where an exception becomes a sentence for the client."""

import json
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

from mcp.server.extension import Extension
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import MCPError
from mcp.types import CallToolResult, InputRequiredResult, TextContent
from pydantic import ValidationError

from forgepool.orchestrator.cli.app import sentence_and_status
from forgepool.orchestrator.interfaces.clients.results import MOST_TEXT, PAGE, clean, clean_value
from forgepool.workers.llm.routing.table import unknown
from forgepool.worktrees.errors import cut_long_words


class ForgepoolServer(MCPServer[Any]):
    """The package's server, whose failures are the command line's sentences, and whose answers are cut."""

    def __init__(self, *, ask_above_usd: float, instructions: str, extensions: Sequence[Extension] = ()) -> None:
        super().__init__(
            "forgepool",
            title="Forgepool",
            instructions=instructions,
            version=version("forgepool"),
            log_level="CRITICAL",
            extensions=extensions,
        )
        self.ask_above_usd = ask_above_usd
        """The cap on the cost of a run above which a person is asked."""

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        try:
            await self._check_names(name, arguments)
            result = await super().call_tool(name, arguments, context)
        except MCPError:
            raise
        except ToolError as wrong:
            return CallToolResult(content=[_text(_sentence(wrong, name))], is_error=True)
        if isinstance(result, InputRequiredResult):
            return result
        most = PAGE if name in ("report", "transcript", "diff") else MOST_TEXT
        return result_of(result.structured_content or {}, most)

    async def _check_names(self, name: str, arguments: Mapping[str, object]) -> None:
        """Raise ToolError for a tool or an argument that does not exist; the package ignores the latter."""
        tools = {tool.name: tool.input_schema for tool in await self.list_tools()}
        if name not in tools:
            raise ToolError(unknown("tool", clean(name)[:80], tools))
        known = tools[name].get("properties", {})
        for given in arguments:
            if given not in known:
                raise ToolError(f"{name}: {unknown('argument', clean(given)[:80], known)}")


def result_of(answer: Mapping[str, object], most: int = MOST_TEXT) -> CallToolResult:
    """Return an answer as a tool's result: clean, cut, as data and as text."""
    value = {key: clean_value(each, most) for key, each in answer.items()}
    return CallToolResult(content=[_text(json.dumps(value, ensure_ascii=False))], structured_content=value)


def _text(text: str) -> TextContent:
    return TextContent(type="text", text=text)


def _sentence(wrong: ToolError, tool: str) -> str:
    """Return what the command line says of a failure."""
    cause = wrong.__cause__
    if isinstance(cause, ValidationError):
        missing = [str(error["loc"][-1]) for error in cause.errors() if error["type"] == "missing"]
        if missing:
            return f"{tool} lacks the argument {' and '.join(map(repr, missing))}; give it"
        error = cause.errors()[0]
        return clean(f"{tool}: the argument '{error['loc'][0]}' is wrong: {error['msg'].removeprefix('Value error, ')}")
    if isinstance(cause, Exception) and not isinstance(cause, ToolError):
        return clean(cut_long_words(sentence_and_status(cause)[0]))[:4000]
    return clean(str(cause or wrong))[:4000]
