"""
A queue without its loop: a real hub, a real journal written by this process, and the queue's own decisions.

`turn` does what the loop does between two turns: it takes in submissions and grants requests. The test gives the
results of checks and landings.
"""

import json
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forgepool.orchestrator.decisions.queue.intake import apply_request, take_in
from forgepool.orchestrator.decisions.queue.submissions import pattern, read_submissions
from forgepool.orchestrator.journal import inbox
from forgepool.orchestrator.journal.events import Event, LandingAnswered, RunStarted, TaskFailed, TipMoved
from forgepool.orchestrator.journal.store import Journal
from forgepool.orchestrator.merge_queue.serve.serve import QueuePost, take_post
from forgepool.orchestrator.reports.queue_board import QueueView
from forgepool.orchestrator.state.fold import apply
from forgepool.orchestrator.state.run import RunState
from forgepool.supervisor.messages.answers import Landing
from forgepool.workers.schema.orders import ReasonPack
from forgepool.workers.schema.settings import Settings
from forgepool.worktrees.git.git import CommitId
from forgepool.worktrees.hub.push import RefUpdate

GATE = "version: 1\nchecks:\n  test: test -f forgepool.yaml\n"
_WHO = ("-c", "user.name=ada", "-c", "user.email=ada@example.org")

TOKEN = "a-token-of-this-gate"


def git(folder: Path, *argv: str) -> str:
    plain = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "PATH": "/usr/local/bin:/usr/bin:/bin"}
    ran = subprocess.run(["git", *_WHO, *argv], cwd=folder, env=plain, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"git {argv}: {ran.stderr}"
    return ran.stdout.strip()


def hub_template(folder: Path) -> Path:
    """Make a bare hub with `main` and the branches `one`, `two` and `team/x` of one commit each."""
    work, hub = folder / "work", folder / "hub.git"
    work.mkdir()
    git(work, "init", "-q", "-b", "main")
    (work / "forgepool.yaml").write_text(GATE)
    (work / "CODEOWNERS").write_text("docs/ @grace\n")
    git(work, "add", "-A")
    git(work, "commit", "-q", "-m", "first")
    for branch, file in (("one", "one.txt"), ("two", "two.txt"), ("team/x", "docs/x.txt")):
        git(work, "checkout", "-q", "-b", branch, "main")
        (work / file).parent.mkdir(exist_ok=True)
        (work / file).write_text(f"{branch}\n")
        git(work, "add", "-A")
        git(work, "commit", "-q", "-m", f"Add {branch}")
    git(folder, "clone", "-q", "--bare", str(work), str(hub))
    git(hub, "symbolic-ref", "HEAD", "refs/heads/main")
    return hub


@dataclass
class KeptGate:
    folder: Path
    """The queue's own folder."""
    hub: Path
    post: QueuePost
    journal: Journal
    state: RunState

    @classmethod
    @contextmanager
    def opened(cls, place: Path, template: Path) -> "Iterator[KeptGate]":
        hub, folder = place / "hub.git", place / "g"
        shutil.copytree(template, hub)
        settings = Settings(home=place / "home", cache=place / "c")
        post = take_post(str(hub), "main", settings)
        journal = Journal(folder)
        gate = cls(folder, hub, post, journal, RunState.blank(()))
        tip = post.hub.heads["main"]
        gate.say(RunStarted(run="gate-main", plan_digest="", hub=str(hub), target="main", tip=tip, gate_file=True))
        try:
            yield gate
        finally:
            journal.close()

    def view(self) -> QueueView:
        return QueueView(self.folder)

    def head(self, ref: str) -> str:
        return git(self.hub, "rev-parse", ref)

    def refs(self) -> dict[str, CommitId]:
        return self.post.hub.mirror.hub_refs(pattern("main"))

    def say(self, *events: Event) -> None:
        for event in events:
            apply(self.state, event, number=self.state.number + 1, at=time.time())
            self.journal.append([event], at=time.time())

    def turn(self) -> None:
        """Take in submissions and then requests, as the loop does."""
        mirror = self.post.hub.mirror
        for one in read_submissions(mirror, "main", self.refs()):
            found = ("merge-base", "--is-ancestor", one.commit, self.state.tip)
            contained = mirror.git.run(*found, ok=(0, 1, 128)).status == 0
            self.say(*take_in(self.state, one, contained=contained))
            mirror.push([RefUpdate(ref=one.ref, new=None, expected=one.at)])
        for path, request in inbox.waiting(self.folder):
            self.say(*(apply_request(self.state, request) or []))
            path.unlink()

    def land(self, name: str) -> None:
        """Land the entry unchanged, by fast-forward."""
        commit = self.state.submitted[name].commit
        git(self.hub, "update-ref", "refs/heads/main", commit)
        done = Landing(request_id="", token="", outcome="landed", commit=commit)
        self.say(TipMoved(tip=commit), LandingAnswered(task=name, result=done))

    def give_back(self, name: str, why: str) -> None:
        revision = self.state.tasks[name].attempt
        self.say(TaskFailed(task=name, reason=ReasonPack(attempt=revision, kind="check_failed", summary=why)))


@dataclass(frozen=True)
class Caller:
    url: str

    def ask(self, method: str, path: str, body: Any = None, token: str | None = TOKEN) -> tuple[int, dict[str, Any]]:
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        asked = urllib.request.Request(f"{self.url}{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(asked) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, json.load(refused)
