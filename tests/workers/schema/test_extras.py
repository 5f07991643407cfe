"""An installation without an optional part says so in one sentence, and does everything else."""

import importlib.util
from pathlib import Path

import pytest
from plans import course, task

from forgepool.orchestrator.cli.run.pages_beside import serve_pages
from forgepool.orchestrator.interfaces.acp.command import acp
from forgepool.orchestrator.interfaces.export.command import export
from forgepool.orchestrator.interfaces.mcp.command import mcp
from forgepool.orchestrator.interfaces.watch.command import watch
from forgepool.orchestrator.interfaces.web.serve import serve
from forgepool.orchestrator.launch.doctor import examine
from forgepool.orchestrator.launch.prerequisites import check_agents
from forgepool.orchestrator.merge_queue.http_server import api_beside
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.workers.schema import extras
from forgepool.workers.schema.confinement import OPEN
from forgepool.workers.schema.orders import AcpAgent
from forgepool.workers.schema.settings import EXTRAS, Extra, Settings, missing_extra
from forgepool.workers.tools.config import LanguageServer, McpServer
from forgepool.workers.tools.lsp.servers import LanguageServers
from forgepool.workers.tools.mcp.servers import McpServers


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the packages of all optional parts, as in a plain installation."""
    absent = {package for packages in extras._PACKAGES.values() for package in packages}
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name in absent else importlib.util.find_spec(name))


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_installed_part_is_not_missing(extra: Extra) -> None:
    assert missing_extra(extra) is None


@pytest.mark.parametrize("extra", EXTRAS)
def test_the_sentence_names_the_command(bare: None, extra: Extra) -> None:
    assert f"pip install 'forgepool[{extra}]'" in str(missing_extra(extra))


def test_the_http_api_is_refused_before_anything_starts(bare: None) -> None:
    with pytest.raises(CannotRun, match=r"--http .*forgepool\[http\]"):
        api_beside("127.0.0.1:0", None, "main", Settings(), print)


def test_the_pages_are_refused_before_anything_starts(bare: None) -> None:
    with pytest.raises(
        CannotRun,
        match=r"`forgepool serve` .*no starlette and uvicorn and jinja2 and prometheus_client here.*forgepool\[http\]",
    ):
        serve()


def test_the_pages_beside_a_run_are_refused_before_it_starts(bare: None) -> None:
    with (
        pytest.raises(CannotRun, match=r"--serve needs .*forgepool\[http\]"),
        serve_pages(Settings(), wanted=True, tell=print),
    ):
        pass


def test_mcp_servers_are_left_out(bare: None, tmp_path: Path) -> None:
    with McpServers([McpServer(name="t", command=("true",))], root=tmp_path, env={}, lend=lambda _: None) as servers:
        assert servers.tools == ()
        assert "MCP server t is left out" in servers.warnings[0] and "forgepool[mcp]" in servers.warnings[0]


def test_language_servers_are_left_out(bare: None, tmp_path: Path) -> None:
    (tmp_path / "a.toy").write_text("")
    toy = LanguageServer(name="toy", command=("toy-server",), files={".toy": "toy"})
    with LanguageServers(tmp_path, {}, OPEN, (toy,), lambda _: "/bin/true") as servers:
        assert servers.running == ()
        assert servers.warnings[0].startswith("language server toy is left out") and "[lsp]" in servers.warnings[0]


def test_the_mcp_server_is_refused_before_anything_starts(bare: None) -> None:
    with pytest.raises(CannotRun, match=r"`forgepool mcp` needs .*forgepool\[mcp\]"):
        mcp()


def test_an_export_is_refused_before_a_run_is_read(bare: None) -> None:
    with pytest.raises(CannotRun, match=r"`forgepool export` needs .*forgepool\[otel\]"):
        export("r-1", file=Path("spans.json"))


def test_the_editors_agent_is_refused_before_anything_starts(bare: None) -> None:
    with pytest.raises(CannotRun, match=r"`forgepool acp` needs .*forgepool\[acp\]"):
        acp()


def test_a_run_whose_agent_needs_a_missing_part_is_refused(bare: None) -> None:
    plan = course(task("a", agent=AcpAgent(run="true --acp"))).plan
    with pytest.raises(CannotRun, match=r"task 'a' has an agent that speaks .*forgepool\[acp\]"):
        check_agents(plan, Settings(broker_url=None))


def test_the_screens_are_refused_before_anything_starts(bare: None) -> None:
    with pytest.raises(CannotRun, match=r"`forgepool watch` needs .*forgepool\[watch\]"):
        watch()


def test_doctor_lists_what_is_missing(bare: None) -> None:
    (finding,) = (each for each in examine(Settings(), None) if each.what == "optional parts")
    assert finding.verdict == "note" and all(f"forgepool[{extra}]" in finding.found for extra in EXTRAS)
