"""MCP servers' tools, with a real server over standard streams and over HTTP."""

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import JsonValue

from forgepool.workers.llm.messages import ToolCall
from forgepool.workers.sandbox import tree
from forgepool.workers.tools.commands.run import BASH
from forgepool.workers.tools.config import McpServer
from forgepool.workers.tools.mcp.servers import McpServers, OfferedTool, ServerTool, Session
from forgepool.workers.tools.mcp.tools import mcp_tools
from forgepool.workers.tools.tool import ToolAnswer, carry_out
from forgepool.workers.tools.workplace import Workplace

Begin = Callable[..., McpServers]
Call = Callable[..., ToolAnswer]

_PROGRAM = str(Path(__file__).with_name("mcp_server.py"))
_OVER_PIPES = McpServer(name="t", command=(sys.executable, _PROGRAM))


@pytest.fixture
def begin(place: Workplace) -> Iterator[Begin]:
    """Start an order's MCP servers from their entries; `lend` are the worker's variables."""
    with ExitStack() as ending:

        def servers(*entries: McpServer, lend: dict[str, str] | None = None) -> McpServers:
            return ending.enter_context(McpServers(entries, root=place.root, env=place.env, lend=(lend or {}).get))

        yield servers


@pytest.fixture
def call(place: Workplace) -> Call:
    """Call a tool as a model does in EXECUTE."""

    def called(servers: McpServers, tool: str, /, left_s: float = 60.0, **arguments: JsonValue) -> ToolAnswer:
        tools = (*mcp_tools(servers, "execute"), BASH)
        here = replace(place, left_s=lambda: left_s)
        return carry_out(ToolCall(id="1", name=tool, arguments=arguments), tools, here)

    return called


def test_a_servers_tools_are_called(begin: Begin, call: Call) -> None:
    """Texts arrive unchanged, the tool's own failures as errors, and pictures by name."""
    servers = begin(_OVER_PIPES)
    assert servers.warnings == ()
    assert call(servers, "mcp__t__repeat", text="ab", times=2) == ToolAnswer(text="abab")
    failed = call(servers, "mcp__t__fail")
    assert (failed.is_error, "no such page" in failed.text) == (True, True)
    assert call(servers, "mcp__t__picture").text == "a dot:\n[image of type image/png, not shown]"


def test_arguments_are_judged_before_the_server_sees_them(begin: Begin, call: Call) -> None:
    """If they do not fit the schema, the model is told the arguments that exist."""
    servers = begin(_OVER_PIPES)
    wrong = call(servers, "mcp__t__repeat", text="a", times="many")
    assert wrong.is_error
    assert wrong.text == "mcp__t__repeat: times: 'many' is not of type 'integer'. Its arguments are: text, times"
    assert "'text' is a required property" in call(servers, "mcp__t__repeat").text


def test_a_long_answer_is_cut_in_its_middle(begin: Begin, call: Call) -> None:
    """It says how much is missing."""
    text = call(begin(_OVER_PIPES), "mcp__t__repeat", text="0123456789", times=2000).text
    assert "[8,000 characters left out]" in text
    assert len(text) < 12_100


def test_a_server_sees_what_it_is_lent_and_nothing_else(begin: Begin, call: Call) -> None:
    """It sees only those of the worker's variables that its entry names."""
    entry = _OVER_PIPES.model_copy(update={"env": {"TOKEN": "AGENTS_TOKEN"}})
    servers = begin(entry, lend={"AGENTS_TOKEN": "for you", "OTHER": "not for you"})
    seen = call(servers, "mcp__t__environment").text
    assert "TOKEN=for you" in seen
    assert {each.partition("=")[0] for each in seen.replace("for you", "").split()} <= {
        "TOKEN",
        "FORGEPOOL_COMMAND",
        "LC_CTYPE",
    }


def test_a_phase_has_the_tools_it_is_given(begin: Begin) -> None:
    """PLAN has only read-only tools and those configured for it. `tools` selects tools by name."""
    both = _OVER_PIPES.model_copy(update={"phases": ("plan", "execute"), "tools": ("re*", "fail")})
    servers = begin(
        both,
        both.model_copy(update={"name": "trusted", "read_only": True}),
        both.model_copy(update={"name": "later", "phases": ("execute",)}),
    )
    assert {tool.name: tool.kind for tool in mcp_tools(servers, "plan")} == {
        "mcp__t__repeat": "read",
        "mcp__trusted__repeat": "read",
        "mcp__trusted__fail": "read",
    }
    assert {tool.name: tool.kind for tool in mcp_tools(servers, "execute")} == {
        "mcp__t__repeat": "read",
        "mcp__t__fail": "run",
        "mcp__trusted__repeat": "read",
        "mcp__trusted__fail": "read",
        "mcp__later__repeat": "read",
        "mcp__later__fail": "run",
    }


def test_a_server_that_does_not_start_is_left_out_with_a_warning(begin: Begin) -> None:
    """The others work, and the transcript can say why this one does not."""
    servers = begin(
        McpServer(name="absent", command=("no-such-program-here",)),
        McpServer(name="broken", command=("sh", "-c", "echo no licence >&2; exit 1")),
        McpServer(name="unpaid", command=("cat",), env={"KEY": "NO_SUCH_VARIABLE"}),
        McpServer(name="far", url="http://127.0.0.1:9/mcp"),
        _OVER_PIPES,
    )
    absent, broken, unpaid, far = servers.warnings
    assert absent == "MCP server absent is left out: program 'no-such-program-here' is not on the commands' PATH"
    assert broken.startswith("MCP server broken is left out: ") and broken.endswith("(it said: no licence)")
    assert "the worker's variable NO_SUCH_VARIABLE is not set" in unpaid
    assert far.startswith("MCP server far is left out: ")
    assert {each.server.name for each in servers.tools} == {"t"}


def test_a_server_that_dies_or_hangs_is_an_error_in_a_line(begin: Begin, call: Call) -> None:
    """A call has a time limit, and the conversation continues."""
    servers = begin(_OVER_PIPES)
    began = time.monotonic()
    hung = call(servers, "mcp__t__hang", left_s=0.3)
    assert (hung.is_error, "no answer in 0 s" in hung.text) == (True, True)
    assert time.monotonic() - began < 10
    assert call(servers, "mcp__t__repeat", text="still here").text == "still here"
    for tool in ("die", "whoami"):
        gone = call(servers, f"mcp__t__{tool}")
        assert gone.is_error
        assert gone.text.startswith(f"mcp__t__{tool}: ")
        assert "\n" not in gone.text


def test_a_server_survives_commands_and_dies_with_the_order(place: Workplace, call: Call) -> None:
    """The end of a command does not end it."""
    with McpServers([_OVER_PIPES], root=place.root, env=place.env, lend={}.get) as servers:
        pid = int(call(servers, "mcp__t__whoami").text)
        assert not call(servers, "bash", command="sleep 600 & (setsid sleep 600 &)").is_error
        assert call(servers, "mcp__t__whoami").text == str(pid)
    assert not tree.alive(pid)


def test_a_schema_fetches_nothing(begin: Begin, call: Call) -> None:
    """A reference to another address is not fetched. The tool cannot be used, and the model is told."""
    with socket.create_server(("127.0.0.1", 0)) as elsewhere:
        elsewhere.settimeout(0.05)
        schema: dict[str, JsonValue] = {"$ref": f"http://127.0.0.1:{elsewhere.getsockname()[1]}/schema.json"}
        servers = begin()
        tool = ServerTool(name="look", description="", schema=schema, reads_only=True)
        session = Session(_OVER_PIPES, lambda: pytest.fail("it is not to be called"))
        servers.tools = (OfferedTool(server=_OVER_PIPES, tool=tool, session=session),)
        refused = call(servers, "mcp__t__look", text="a")
        with pytest.raises(TimeoutError):
            elsewhere.accept()
    assert refused == ToolAnswer(text="mcp__t__look: its own schema cannot be used; go on without it", is_error=True)


@pytest.fixture
def address() -> Iterator[str]:
    """Yield the address of a server over HTTP."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    env = {"PATH": os.environ["PATH"]}
    with subprocess.Popen([sys.executable, _PROGRAM, str(port)], env=env, stderr=subprocess.DEVNULL) as process:
        end = time.monotonic() + 30
        while time.monotonic() < end:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
        yield f"http://127.0.0.1:{port}/mcp"
        process.kill()


def test_a_server_at_an_address_is_called(begin: Begin, call: Call, address: str) -> None:
    """Over HTTP the tools are the same, and each request has the headers its entry names."""
    servers = begin(McpServer(name="h", url=address, headers={"X-Pass": "PASS"}), lend={"PASS": "let me in"})
    assert servers.warnings == ()
    assert call(servers, "mcp__h__repeat", text="ab", times=2).text == "abab"
    assert call(servers, "mcp__h__header", name="x-pass").text == "let me in"
