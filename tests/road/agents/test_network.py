"""Network access in a run: a plan grants hosts to its tasks, and a person allows hosts to the repository's checks."""

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from kit import Machine, Repository, command, events_of, make_repository, write_plan

from forgepool.orchestrator.journal import events as e


@pytest.fixture
def site() -> Iterator[str]:
    """Yield `127.0.0.1:PORT` of a server that answers every path with the path."""

    class Answers(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            if self.path in ("/page", "/strange"):
                charset = "latin-1" if self.path == "/page" else "idna"
                self.send_header("Content-Type", f"text/html; charset={charset}")
            self.end_headers()
            page = "<head><style>p {}</style></head><p>Caf\xe9  rules</p><script>no()</script>".encode("latin-1")
            self.wfile.write(page + b" more" * 200 if self.path in ("/page", "/strange") else self.path.encode())

        def log_message(self, format: str, *words: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def _fetch(site: str, path: str) -> str:
    return f"python3 -c \"import urllib.request as u; print(u.urlopen('http://{site}/{path}', timeout=5).read())\""


@pytest.mark.slow
def test_a_task_reaches_the_hosts_its_plan_grants_and_no_other(
    ground: Path, machine: Machine, repository: Repository, site: str
) -> None:
    tasks = [
        {"id": "granted", "network": [site], "agent": command(f"{_fetch(site, 'a')} && echo x > g.txt")},
        {"id": "alone", "attempts": 1, "agent": command(f"{_fetch(site, 'b')} && echo x > n.txt")},
    ]
    plan = write_plan(ground, {"name": "net", "checks": {"there": "test -f README.md"}, "tasks": tasks})
    ended = machine.run("run", plan, "--repo", repository.path)
    assert ended.status == 1, ended.out + ended.err
    assert repository.landed("forgepool/net") == ["granted"], ended.out + ended.err


@pytest.mark.slow
@pytest.mark.parametrize("allowed", [True, False])
def test_a_check_reaches_the_hosts_that_the_person_allows(
    allowed: bool, ground: Path, machine: Machine, site: str
) -> None:
    """A repository's own list of hosts grants nothing."""
    rule = f"  - {{match: {{network: '{site}'}}, decision: {'allow' if allowed else 'prompt'}, reason: ours}}\n"
    (ground / "policy.yaml").write_text(f"version: 1\nrules:\n{rule}")
    machine.variables["FORGEPOOL_POLICY"] = str(ground / "policy.yaml")
    tasks = [{"id": "one", "agent": command("echo x > one.txt")}]
    said = json.dumps({"version": 1, "checks": {"net": {"run": _fetch(site, "c"), "network": [site]}}})
    repository = make_repository(ground / "gated", {"README.md": "read me\n", "forgepool.yaml": said})
    plan = write_plan(ground, {"name": "net", "tasks": tasks})
    ended = machine.run("run", plan, "--repo", repository.path)
    if allowed:
        assert ended.status == 0, ended.out + ended.err
    else:
        assert ended.status != 0 and repository.landed("forgepool/net") == []
        said = [answered.result.detail for answered in events_of(machine.journal(), e.CheckAnswered)]
        assert any("no rule of yours allows it" in each for each in said), said


@pytest.mark.slow
def test_an_agent_fetches_a_page_of_a_granted_host_and_no_other(
    ground: Path, machine: Machine, repository: Repository, site: str
) -> None:
    """The page's readable text is kept under a number, whatever its charset. A task without hosts has no such tool."""
    turns = [
        {"calls": [{"tool": "fetch", "url": f"http://{site}/page"}]},
        {"calls": [{"tool": "fetch", "url": f"http://{site}/strange"}]},
        {"calls": [{"tool": "fetch", "url": "http://other.example.org/page"}]},
        {"calls": [{"tool": "fetch", "url": "file:///etc/passwd"}]},
        {"calls": [{"tool": "write_file", "path": "a.txt", "content": "x\n"}]},
        {"calls": [{"tool": "finish", "summary": "written"}]},
    ]
    (ground / "script.yaml").write_text(json.dumps({"turns": turns}))
    tasks = [
        {"id": "granted", "network": [site], "agent": {"scripted": "script.yaml"}},
        {"id": "alone", "needs": ["granted"], "agent": {"scripted": "script.yaml"}},
    ]
    plan = write_plan(ground, {"name": "net", "checks": {"a": "test -f README.md"}, "review": "none", "tasks": tasks})
    machine.run("run", plan, "--repo", repository.path)
    told = machine.run("transcript", machine.runs()[0], "granted").out
    assert "ctx_001: text/html, 1,01" in told and "Caf\xe9 rules more more" in told, told
    assert "no()" not in told and "more characters: read_file or grep" in told
    assert "status 403: other.example.org:80 is not among the hosts" in told and "ctx_003" not in told, told
    assert "ctx_002: text/html" in told and "Caf\ufffd rules more" in told, told
    assert "'url' must match pattern" in told
    assert "no tool is called 'fetch'" in machine.run("transcript", machine.runs()[0], "alone").out
