"""
A home of real runs, and the real server of `forgepool serve` over it.

One run of commands and scripted agents leaves every kind of ending: landed, failed, blocked, a question, a candidate
that waits for approval. Its texts are hostile: a title, a log and a transcript with a script and terminal sequences.
"""

import http.client
import json
import re
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode

from kit import Machine, Started, command, make_repository, wait_until, write_plan

from forgepool.orchestrator.interfaces.web.access import Role, WebAccess, read_key

HOSTILE = "<script>document.title='taken'</script>"
SEQUENCE = "\x1b]0;taken\x07\x1b[31mred\x1b[0m"
QUESTION = f"Tabs or spaces? {HOSTILE}"
_ASKS = [
    {"say": f"I have to know {HOSTILE}", "calls": [{"tool": "ask", "question": QUESTION}]},
    {"attempt": 2, "calls": [{"tool": "finish", "summary": "known"}]},
]
_WRITES = [
    {"phase": "plan", "calls": [{"tool": "commit_plan", "plan": "write it", "files_to_modify": ["docs.txt"]}]},
    {"phase": "execute", "calls": [{"tool": "write_file", "path": "docs.txt", "content": "docs\n"}]},
    {"phase": "execute", "calls": [{"tool": "finish", "summary": "written"}]},
]
ASKS_AND_WRITES = [
    {"calls": [{"tool": "ask", "question": "Tabs or spaces?"}]},
    {"when": {"shown_contains": "tabs"}, "calls": [{"tool": "write_file", "path": "asks.txt", "content": "tabs\n"}]},
    {"calls": [{"tool": "finish", "summary": "written"}]},
]
"""The turns of an agent that asks, and writes a file when it has been answered `tabs`."""


def build_home(folder: Path) -> tuple[Machine, str]:
    """Run a plan whose tasks end in every way; return the machine, and the run's name."""
    hub = make_repository(folder / "hub", {"README.md": "hello\n"})
    machine = Machine(folder=folder / "m", name="host-1")
    machine.folder.mkdir()
    for name, turns in (("asks", _ASKS), ("writes", _WRITES)):
        (machine.folder / f"{name}.yaml").write_text(json.dumps({"turns": turns}))
    plan = write_plan(
        machine.folder,
        {
            "name": "web",
            "target": "web",
            "checks": [{"name": "readme", "run": "test -f README.md"}],
            "review": "person",
            "tasks": [
                {"id": "lands", "title": HOSTILE, "agent": command("echo done > done.txt"), "files": ["done.txt"]},
                {
                    "id": "fails",
                    "agent": command(
                        f"printf '%s\\n' \"{HOSTILE}\"; printf '\\033]0;taken\\007\\033[31mred\\033[0m\\n'; false"
                    ),
                    "files": ["never.txt"],
                    "attempts": 1,
                },
                {"id": "blocked", "needs": ["fails"], "agent": command("true"), "files": ["b.txt"]},
                {"id": "asks", "agent": {"scripted": "asks.yaml"}, "files": ["asks.txt"]},
                {"id": "writes", "agent": {"scripted": "writes.yaml"}, "files": ["docs.txt"]},
            ],
        },
    )
    machine.run("run", plan, "--repo", hub.path, "--workers", "2")
    return machine, machine.the_run()


EVIL_BRANCH = "evil/<script>x</script>"


def build_queue(machine: Machine) -> str:
    """Let a queue land a branch and return another, whose name is hostile; return the queue's name."""
    hub = make_repository(machine.folder / "queue-hub", {"forgepool.yaml": _GATE})
    for branch, file in (("good", "good.txt"), (EVIL_BRANCH, "bad.txt")):
        hub.git("checkout", "-q", "-b", branch, "main")
        (hub.path / file).write_text("x\n")
        hub.git("add", "-A")
        hub.git("commit", "-q", "-m", f"Add {file}")
    hub.git("checkout", "-q", "--detach", "main")
    serving = machine.start("queue", "serve", "--repo", hub.path, "--target", "main")
    for branch in ("good", EVIL_BRANCH):
        ran = machine.run("queue", "submit", branch, "--repo", hub.path, "--hub", hub.path, "--target", "main")
        assert ran.status == 0, ran
    name = wait_until(lambda: next((one for one in machine.runs() if one.startswith("gate-")), None), "the queue")

    def has_ended() -> bool:
        assert serving.running(), serving.said()
        kinds = [one.event.kind for one in machine.journal(name)]
        return "task.failed" in kinds and "landing.answered" in kinds

    wait_until(has_ended, "the end of both entries")
    serving.process.send_signal(signal.SIGTERM)
    serving.ended(within_s=30)
    return name


_GATE = "version: 1\nchecks:\n  good: test ! -e bad.txt\n"


@dataclass(frozen=True, kw_only=True)
class RealHome:
    machine: Machine
    run: str
    queue: str
    hub: Path
    """The repository of the run."""

    @property
    def queue_hub(self) -> Path:
        return self.hub.parent / "m" / "queue-hub"

    @property
    def entries(self) -> list[str]:
        """The names of the queue's entries."""
        found = (one.event for one in self.machine.journal(self.queue))
        return [event.task for event in found if event.kind == "entry.submitted"]


@dataclass(frozen=True, kw_only=True)
class Reply:
    status: int
    text: str
    headers: Mapping[str, str] = field(repr=False)

    @property
    def cookie(self) -> str:
        """The cookie that it sets, as a browser sends it back."""
        return self.headers.get("set-cookie", "").partition(";")[0]


@dataclass(kw_only=True)
class WebServer:
    """A `forgepool serve` that runs."""

    machine: Machine
    started: Started
    port: int
    links: Mapping[str, str]
    tokens: Mapping[str, str]

    def ask(self, method: str, path: str, *, body: str = "", token: str = "", **headers: str) -> Reply:
        """Send one request as it stands; underscores in names of headers become hyphens."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if token:
            sent["authorization"] = f"Bearer {token}"
        connection.request(method, path, body or None, sent)
        answer = connection.getresponse()
        found = {name.lower(): value for name, value in answer.getheaders()}
        text = answer.read().decode()
        connection.close()
        return Reply(status=answer.status, text=text, headers=found)

    def get(self, path: str) -> Reply:
        """Look as a viewer."""
        return self.ask("GET", path, token=self.tokens["viewer"])

    def enter(self, role: str) -> str:
        """Use the link of a role; return the cookie."""
        return self.ask("GET", self.links[role]).cookie

    def cookie(self, role: Role) -> str:
        """Return the value of a new cookie, as another link of that role would give it."""
        access = WebAccess(key=read_key(self.machine.home), names=frozenset(), is_loopback=True, cookie="")
        return access.use_link(access.new_link(role)) or ""

    def post(self, run: str, fields: Mapping[str, str], **headers: str) -> Reply:
        """Send a form about a run as a browser does."""
        return self.post_to(f"/runs/{run}/act", fields, **headers)

    def post_to(self, path: str, fields: Mapping[str, str], **headers: str) -> Reply:
        sent = {"content_type": "application/x-www-form-urlencoded", **headers}
        return self.ask("POST", path, body=urlencode(fields), **sent)

    def stop(self) -> None:
        self.started.process.send_signal(signal.SIGTERM)
        self.started.ended(within_s=20)


@contextmanager
def serving(machine: Machine, port: int = 0, *argv: str) -> Iterator[WebServer]:
    """Run `forgepool serve` over the machine's home."""
    started = machine.start("serve", "--http", f"127.0.0.1:{port}", "--tokens", *argv)

    def find_links() -> list[tuple[str, str]] | None:
        assert started.running(), started.said()
        said = started.out.read_text()
        return re.findall(r"http://127.0.0.1:(\d+)(/enter\?code=\S+)", said) if "may act" in said else None

    links = wait_until(find_links, "the links of `forgepool serve`")
    found = dict(re.findall(r"for a program that ([\w ]+): (\w+)", started.out.read_text()))
    server = WebServer(
        machine=machine,
        started=started,
        port=int(links[0][0]),
        links={"operator": links[0][1], "viewer": links[1][1]},
        tokens={"viewer": found["only looks"], "operator": found["may act"]},
    )
    try:
        yield server
    finally:
        if started.running():
            server.stop()
