"""Threads beside a queue's loop: neither does the loop end them, nor do they block it."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from forge_server import REPOSITORY, TOKEN, ForgeServer, pull
from kept_gate import Caller, KeptGate, git

from forgepool.orchestrator.journal.events import GatePaused, GateResumed
from forgepool.orchestrator.journal.store import JournalUnreadable
from forgepool.orchestrator.launch.embedded import ChildProcesses, mirror_aside
from forgepool.orchestrator.reports.queue_board import QueueView

API_TOKEN = "a-token-of-this-gate"


def test_orphans_are_not_sought_while_git_runs_in_another_thread(gate: KeptGate, tmp_path: Path) -> None:
    """A child of another thread looks like an orphan from its start until it is reaped."""
    aside, fifo = ChildProcesses(), tmp_path / "fifo"
    os.mkfifo(fifo)
    mirror = mirror_aside(gate.post.hub.mirror, aside)
    with aside.alone() as alone:
        assert alone
    running = threading.Thread(target=mirror.git.run, args=("-c", f"alias.wait=!cat {fifo}", "wait"))
    running.start()
    with fifo.open("w"), aside.alone() as alone:  # opened as soon as git reads it
        assert not alone
    running.join()
    with aside.alone() as alone:
        assert alone
    assert mirror.hub_refs("refs/heads/main") == gate.post.hub.mirror.hub_refs("refs/heads/main")


def test_a_view_goes_on_where_it_was_and_says_where_there_is_nothing(gate: KeptGate, tmp_path: Path) -> None:
    view = gate.view()
    gate.say(GatePaused(why="lunch"))
    assert view.look(lambda state: (state.paused, state.number)) == ("lunch", 2)
    gate.say(GateResumed())
    assert view.look(lambda state: (state.paused, state.number)) == ("", 3)
    try:
        QueueView(tmp_path).look(lambda state: state.tip)
    except JournalUnreadable as unread:
        assert "holds no journal" in str(unread)
    else:
        raise AssertionError("there is none")


@contextmanager
def served(hub: Path, *argv: str) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Start `forgepool queue serve`, and return the file with its output."""
    with tempfile.TemporaryDirectory(prefix="fp-") as folder:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "FORGEPOOL_"))}
        env = kept | {"FORGEPOOL_HOME": f"{folder}/home", "FORGEPOOL_CACHE": f"{folder}/c"}
        env |= {"FORGEPOOL_GITHUB_TOKEN": TOKEN, "FORGEPOOL_GATE_API_TOKEN": API_TOKEN}
        said = Path(folder) / "said"
        words = [sys.executable, "-m", "forgepool.orchestrator.cli", "gate", "serve", "--repo", str(hub), *argv]
        with said.open("w") as out, subprocess.Popen(words, env=env, stdout=out, stderr=out, text=True) as gate:
            try:
                yield gate, said
            finally:
                gate.send_signal(signal.SIGTERM)
                gate.wait()


def test_a_change_lands_by_a_gate_that_is_served(template: Path, tmp_path: Path, redis_program: str) -> None:
    """From a label to `success`, with the API running. The threads end with the queue."""
    hub = tmp_path / "hub.git"
    git(tmp_path, "clone", "-q", "--bare", str(template), str(hub))
    head = git(hub, "rev-parse", "one")
    git(hub, "update-ref", "refs/pull/7/head", head)
    with ForgeServer() as forge:
        forge.pulls[7] = pull(7, head)
        options = ("--http", "127.0.0.1:0", "--forge", f"github:{REPOSITORY}", "--forge-url", forge.url, "--every", "1")
        with served(hub, *options) as (gate, said):
            while not (done := [one for one in forge.sent() if one.get("state") in ("success", "failure")]):
                assert gate.poll() is None and "is paused" not in said.read_text(), said.read_text()
                threading.Event().wait(0.05)
            url = next(word for word in said.read_text().split() if word.startswith("http://127")).rstrip(";")
            api = Caller(url)
            status, entry = api.ask("GET", "/entries/pr-7", token=API_TOKEN)
            assert api.ask("POST", "/entries", {"commit": git(hub, "rev-parse", "two")}, token=API_TOKEN)[0] == 202
        assert gate.returncode in (0, 130), said.read_text()
    landed = git(hub, "rev-parse", "main")
    assert done[0] == {"state": "success", "context": "forgepool/gate", "description": f"landed as {landed[:12]}"}
    assert (status, entry["state"], entry["landed_as"]) == (200, "landed", landed)
    assert git(hub, "merge-base", "main", head) == head


def test_an_api_without_a_token_is_refused_before_anything_begins(template: Path) -> None:
    argv = [sys.executable, "-m", "forgepool.orchestrator.cli", "gate", "serve", "--repo", str(template)]
    argv += ["--http", "127.0.0.1:0"]
    with tempfile.TemporaryDirectory(prefix="fp-") as folder:
        env = {"PATH": os.environ["PATH"], "FORGEPOOL_HOME": f"{folder}/h"}
        env |= {"FORGEPOOL_CACHE": f"{folder}/c"}
        ran = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
        assert not (Path(folder) / "h").exists()
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == (
        "forgepool: --http needs a token; set FORGEPOOL_GATE_API_TOKEN, or name a file with --token-file\n"
    )
