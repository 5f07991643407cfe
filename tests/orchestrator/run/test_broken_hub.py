"""A real run with real workers whose hub refuses candidates stops with a reason, or continues once the hub works."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from forgepool.orchestrator.journal.store import read
from forgepool.worktrees.git.git import Git

_RUN = """
import sys, time
from pathlib import Path

from plans import course, task

from forgepool.orchestrator.journal.events import RunResumed, RunStarted
from forgepool.orchestrator.journal.store import Journal
from forgepool.orchestrator.launch.session import begin, transport
from forgepool.orchestrator.run.hub import open_hub
from forgepool.orchestrator.run.loop import Loop
from forgepool.orchestrator.run.sending import Wishes
from forgepool.orchestrator.run.transport import Link
from forgepool.orchestrator.state.run import RunState
from forgepool.workers.queue.broker import connect
from forgepool.workers.schema.orders import CommandAgent
from forgepool.workers.schema.settings import Settings
from forgepool.worktrees.git.git import CommitId

folder, heals = Path(sys.argv[1]), sys.argv[2] == "heals"
settings = Settings(home=folder / "home", cache=folder / "cache", broker_url=None)
hub = open_hub(str(folder / "hub.git"), settings)
ends = {f"t{at}": f"echo {at} > f{at}.txt" for at in range(6)}
of = course(*(task(one, files=None, agent=CommandAgent(run=how)) for one, how in ends.items()))
of = type(of)(of.plan.model_copy(update={"target": "main"}), {})
began, broken = time.time(), folder / "hub.git" / "broken"
state, journal = RunState.blank(of.tasks), Journal(folder / "run")

def listen(state, recorded):
    streak = state.streaks.get("order")
    if heals and streak is not None and streak.is_open:
        broken.unlink(missing_ok=True)

def turn(link, parts, resumed):
    # Two minutes of trouble in a few seconds.
    clock = lambda: began + 25 * (time.time() - began)
    loop = Loop(
        course=of, state=state, journal=journal, folder=folder / "run", mirror=hub.mirror, link=link, parts=parts,
        wishes=Wishes(), listener=listen, clock=clock,
    )
    return loop.run(resumed=resumed)

tip = hub.heads["main"]
hub.mirror.ensure(CommitId(tip), refs=("refs/heads/main",))
start = RunStarted(run="broken-1", plan_digest="", hub=hub.facts.url, target="main", tip=tip)
begin(state, journal, start, listener=listen)
(folder / "logs").mkdir()
with transport(settings, folder / "logs", workers=2, reviews=0, trials=1) as (url, parts):
    link = Link(connect(url), "broken-1", settings.lease_ttl_s)
    print(turn(link, parts, False))
    if not heals:
        broken.unlink()
        begin(state, journal, RunResumed(tip=state.tip), listener=listen)
        print(turn(link, parts, True))
"""

_HOOK = """#!/bin/sh
test ! -e broken || { echo "no space left in $PWD/$$" >&2; exit 1; }
"""


@pytest.fixture
def folder(tmp_path: Path, redis_program: str) -> Path:
    hub = Git(git_dir=tmp_path / "hub.git")
    hub.run("init", "--quiet", "--bare", str(hub.git_dir))
    me = {name: "t" for name in ("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL")}
    first = hub.text("commit-tree", "-m", "one", hub.text("mktree", stdin=b""), env=me)
    hub.run("update-ref", "refs/heads/main", first)
    # By the copy of a run's journal workers tell the run's hub from another repository; this run copies none.
    hub.run("update-ref", "refs/forgepool/broken-1/journal", first)
    hub.run("symbolic-ref", "HEAD", "refs/heads/main")
    hook = tmp_path / "hub.git" / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(_HOOK)
    hook.chmod(0o755)
    (tmp_path / "hub.git" / "broken").touch()
    return tmp_path


def run(folder: Path, how: str) -> tuple[list[str], list[str]]:
    """Return how the run ended, each time, and the kinds of its events."""
    # A separate process, because a run ends all processes it leaves behind.
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "kits")}
    done = subprocess.run(
        [sys.executable, "-c", _RUN, folder, how], env=env, check=True, capture_output=True, text=True, timeout=240
    )
    return done.stdout.split(), [one.event.kind for one in read(folder / "run")]


def test_a_hub_that_takes_nothing_stops_the_run_after_a_few_orders_and_a_resume_lands_all(folder: Path) -> None:
    endings, kinds = run(folder, "lasts")
    assert endings == ["halted", "ended"]
    before = kinds[: kinds.index("gate.halted")]
    assert before.count("order.sent") <= 2 + 10, "twelve for each of six tasks would be 72"
    (halted,) = [one.event for one in read(folder / "run") if one.event.kind == "gate.halted"]
    assert "the hub refuses candidates" in halted.why and halted.why.endswith("forgepool resume broken-1")
    assert "task.parked" not in kinds and kinds[-1] == "run.ended"
    assert [one.event for one in read(folder / "run")][-1].landed == 6


def test_a_hub_that_is_well_again_stops_no_run(folder: Path) -> None:
    endings, kinds = run(folder, "heals")
    assert endings == ["ended"] and "gate.halted" not in kinds and "task.parked" not in kinds
    assert [one.event for one in read(folder / "run")][-1].landed == 6
