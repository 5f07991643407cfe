"""A real MCP server with tools for tests: `mcp_server.py` over standard streams, `mcp_server.py PORT` over HTTP."""

import asyncio
import os
import sys

from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations

server = MCPServer("tests")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def repeat(text: str, times: int = 1) -> str:
    """Repeat a text."""
    return text * times


@server.tool()
def environment() -> str:
    return " ".join(sorted(f"{name}={value}" for name, value in os.environ.items() if name != "PATH"))


@server.tool()
def header(name: str, context: Context) -> str:
    return str((context.headers or {}).get(name))


@server.tool()
def fail() -> str:
    raise ToolError("no such page")


@server.tool()
def picture() -> list[str | Image]:
    return ["a dot:", Image(data=b"\x89PNG", format="png")]


@server.tool()
async def hang() -> None:
    await asyncio.Event().wait()


@server.tool()
def die() -> None:
    sys.stderr.write("out of ideas\n")
    sys.stderr.flush()
    os._exit(3)


@server.tool()
def whoami() -> str:
    return str(os.getpid())


if len(sys.argv) > 1:
    server.run("streamable-http", port=int(sys.argv[1]))
else:
    server.run()
