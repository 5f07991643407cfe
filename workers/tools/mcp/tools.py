"""
Tools of MCP servers as tools of ours: named after their server, judged by its schema before it is asked.
"""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pydantic import JsonValue

from forgepool.workers.llm.provider import ToolOffer
from forgepool.workers.schema.orders import PhaseName
from forgepool.workers.tools.mcp.servers import McpServers, OfferedTool, ServerAway
from forgepool.workers.tools.tool import Tool, ToolAnswer
from forgepool.workers.tools.workplace import ToolRefused, Workplace

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

_CALL_S = 120.0
_SHOWN_CHARACTERS = 12_000
_DESCRIPTION_CHARACTERS = 2_000
_NAME_CHARACTERS = 64
"""What models' vendors take for a tool's name."""


def mcp_tools(servers: McpServers, phase: PhaseName) -> tuple[Tool, ...]:
    """The tools configured for a phase; for PLAN, those among them that change nothing."""
    offered = [each for each in servers.tools if phase in each.server.phases]
    found: dict[str, Tool] = {}
    for each in offered:
        if phase == "execute" or each.tool.reads_only:
            tool = _tool(servers, each)
            found.setdefault(tool.name, tool)
    return tuple(found.values())


def _tool(servers: McpServers, offered: OfferedTool) -> Tool:
    def call(arguments: Mapping[str, JsonValue], workplace: Workplace) -> ToolAnswer:
        _require_fitting(offered, arguments)
        within_s = max(0.1, min(_CALL_S, workplace.left_s()))
        try:
            said = servers.call(offered, arguments, within_s=within_s, stop=workplace.stop)
        except TimeoutError as late:
            raise ToolRefused(f"{name}: no answer in {within_s:.0f} s; ask for less, or go on without it") from late
        except ServerAway as away:
            raise ToolRefused(f"{name}: {away}") from away
        return ToolAnswer(text=_capped(said.text or "[no output]"), is_error=said.is_error)

    name = _name(offered)
    description = offered.tool.description[:_DESCRIPTION_CHARACTERS]
    offer = ToolOffer(name=name, description=description, schema=offered.tool.schema)
    return Tool(offer=offer, kind="read" if offered.tool.reads_only else "run", call=call)


def _name(offered: OfferedTool) -> str:
    plain = "".join(each if each.isascii() and (each.isalnum() or each in "_-") else "_" for each in offered.tool.name)
    return f"mcp__{offered.server.name}__{plain}"[:_NAME_CHARACTERS]


def _require_fitting(offered: OfferedTool, arguments: Mapping[str, JsonValue]) -> None:
    from jsonschema.exceptions import SchemaError, best_match
    from referencing.exceptions import Unresolvable

    try:
        wrong = best_match(_validator(offered.tool.schema).iter_errors(dict(arguments)))
    except (SchemaError, Unresolvable, RecursionError) as broken:
        raise ToolRefused(f"{_name(offered)}: its own schema cannot be used; go on without it") from broken
    if wrong is not None:
        where = ".".join(map(str, wrong.absolute_path))
        known = ", ".join(offered.tool.schema.get("properties") or ()) or "none"  # type: ignore[arg-type]
        raise ToolRefused(
            f"{_name(offered)}: {f'{where}: ' if where else ''}{wrong.message[:300]}. Its arguments are: {known}"
        )


def _validator(schema: Mapping[str, JsonValue]) -> "Validator":
    from jsonschema.validators import Draft202012Validator, validator_for
    from referencing import Registry

    plain = json.loads(json.dumps(schema))
    kind = validator_for(plain, default=Draft202012Validator)
    kind.check_schema(plain)
    # A registry of its own, empty: nothing a schema refers to is fetched from anywhere.
    return kind(plain, registry=Registry())


def _capped(text: str) -> str:
    if len(text) <= _SHOWN_CHARACTERS:
        return text
    half = _SHOWN_CHARACTERS // 2
    return f"{text[:half]}\n[{len(text) - 2 * half:,} characters left out]\n{text[-half:]}"
