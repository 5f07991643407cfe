"""Work of failed attempts is kept, and findings of the gate's scans are mended before the work leaves its worker."""

import json
import os
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
from cli_kit import RECORDINGS
from kit import Machine, Repository, command, events_of, make_repository, wait_until, write_plan

from forgepool.orchestrator.journal import events as e

pytestmark = pytest.mark.slow

_BRANCH = "forgepool/kept"
_CHECKS = {"sound": "! grep -rq BROKEN --include=*.txt ."}
_SCRIPT = """
turns:
  - calls:
      - {tool: write_file, path: t.py, content: "def total(items):\\n    return sum(items)  # TODO: refunds\\n"}
      - {tool: finish, summary: written}
  - calls:
      - {tool: write_file, path: t.py, content: "def total(items):\\n    return sum(items)\\n"}
      - {tool: finish, summary: mended}
"""


def _plan(ground: Path, *tasks: dict[str, Any]) -> Path:
    return write_plan(ground, {"name": "kept", "checks": _CHECKS, "review": "none", "tasks": [*tasks]})


def test_a_finding_is_mended_within_the_attempt(ground: Path, machine: Machine, repository: Repository) -> None:
    """One attempt and two turns in place of two attempts: the gate returns nothing."""
    (ground / "script.yaml").write_text(_SCRIPT)
    task = {"id": "t", "files": ["t.py"], "agent": {"scripted": "script.yaml"}, "attempts": 3}
    ended = machine.run("run", _plan(ground, task), "--repo", repository.path, "--workers", "1", "--json")
    assert ended.status == 0, ended.out + ended.err
    (told,) = ended.answer["tasks"]
    assert (told["phase"], told["attempts"], told["kept"]) == ("landed", 1, [])
    assert repository.file(_BRANCH, "t.py") == "def total(items):\n    return sum(items)"
    assert not [*events_of(machine.journal(), e.TaskReturned)]
    (answer,) = events_of(machine.journal(), e.OrderAnswered)
    assert answer.result.spent.turns == 2
    assert repository.refs("refs/forgepool") == []


def test_work_that_failed_is_kept_and_lands_by_no_road(ground: Path, machine: Machine, repository: Repository) -> None:
    red = {"id": "red", "files": ["r.txt"], "agent": command("echo made > r.txt"), "acceptance": ["false"]}
    slow = {"id": "slow", "files": ["s.txt"], "agent": command("echo made > s.txt; sleep 60")}
    good = {"id": "good", "files": ["g.txt"], "agent": command("echo g > g.txt")}
    limits = {"attempts": 1}
    plan = _plan(ground, red | limits, slow | limits | {"limits": {"wall_s": 2}}, good | limits)
    ended = machine.run("run", plan, "--repo", repository.path, "--workers", "2", "--json")
    assert ended.status == 1, ended.out + ended.err
    run = machine.runs()[0]
    kept = {task["task"]: task["kept"] for task in ended.answer["tasks"]}
    refs = {name: f"refs/forgepool/{run}/unverified/{name}/1" for name in ("red", "slow")}
    assert {name: [one["ref"] for one in ones] for name, ones in kept.items()} == {
        **{name: [ref] for name, ref in refs.items()},
        "good": [],
    }
    assert set(repository.refs("refs/forgepool")) >= {*refs.values()}
    assert repository.git("show", f"{refs['slow']}^{{commit}}:s.txt") == "made"
    report = machine.run("report", run).out
    assert f"kept: attempt 1, unverified: {refs['red']}" in report

    refused = machine.run("approve", run, "red", "--by", "Ada")
    assert refused.status != 0 and "candidate" in refused.err, refused.err
    again = machine.run("retry", run, "red")
    assert again.status == 1, again.out + again.err
    assert repository.landed(_BRANCH) == ["good"]
    assert sorted(one for one in repository.refs("refs/forgepool") if "/red/" in one) == [
        refs["red"],
        f"refs/forgepool/{run}/unverified/red/2",
    ]
    assert not [one for one in events_of(machine.journal(), e.CheckSent) if one.task != "good"]
    left = machine.run("clean", run, "--hub", "--yes")
    assert left.status == 0 and repository.refs("refs/forgepool") == [], left.out + left.err


def test_the_work_of_a_cancelled_attempt_is_kept(ground: Path, machine: Machine, repository: Repository) -> None:
    """Its worker is told to stop. No answer of it is waited for, and the run, which has nothing else, ends after it."""
    slow = {"id": "slow", "files": ["s.txt"], "agent": command("echo made > s.txt; echo ready; sleep 60")}
    started = machine.start("run", _plan(ground, slow), "--repo", repository.path, "--workers", "2")
    run = machine.the_run()
    log = machine.home / "runs" / run / "logs/orders/slow/1/agent.log"
    wait_until(lambda: log.exists() and "ready" in log.read_text(), "the agent's word")
    assert machine.run("cancel", run, "slow").status == 0
    machine.wait_for("work.kept", task="slow")
    ended = started.ended()
    assert ended.status == 1 and "slow: the files of attempt 1 are kept, unverified" in ended.out, ended.out + ended.err
    ref = f"refs/forgepool/{run}/unverified/slow/1"
    assert repository.git("show", f"{ref}^{{commit}}:s.txt") == "made"
    assert f"kept: attempt 1, unverified: {ref}" in machine.run("report", run).out


def test_work_that_did_not_land_is_salvaged_on_the_tip(ground: Path, machine: Machine, repository: Repository) -> None:
    """It comes as a branch, a worktree or a patch. The run, the target and what is there already stay as they are."""
    red = {"id": "red", "files": ["r.txt"], "agent": command("echo made > r.txt"), "acceptance": ["grep -q good r.txt"]}
    good = {"id": "good", "needs": [], "files": ["g.txt"], "agent": command("echo g > g.txt")}
    plan = _plan(ground, red | {"attempts": 1}, good)
    assert machine.run("run", plan, "--repo", repository.path, "--workers", "2").status == 1
    run, clone = machine.runs()[0], ["--repo", str(repository.path)]
    before, refs = machine.journal(), repository.refs("refs")

    def refused(*words: str) -> str:
        said = machine.run("salvage", run, *words)
        assert (said.status, said.out, said.err.count("\n")) == (2, "", 1), said
        return said.err

    ref = f"refs/forgepool/{run}/unverified/red/1"
    listed = machine.run("salvage", run)
    assert listed.out == f"red: attempt 1, unverified: {ref}\nto look at one: forgepool salvage {run} TASK\n", listed
    shown = machine.run("salvage", run, "red").out
    tip = repository.git("rev-parse", _BRANCH)
    for words in (
        ref,
        f"on {_BRANCH} at {tip[:12]}: 1 file\n    A r.txt\n",
        "its acceptance: grep -q good r.txt",
        "why: ",
    ):
        assert words in shown
    assert "no task is named" in refused("--branch", "mine")
    assert "only work that did not land" in refused("good")
    assert "give one of" in refused("red", "--branch", "mine", "--patch", "-")
    assert "attempt 2 of task 'red' has left no files; attempts that have: 1" in refused("red", "--attempt", "2")
    assert repository.refs("refs") == refs

    made = machine.run("salvage", run, "red", "--branch", "mine", *clone)
    clone_of = f"--target {_BRANCH} --repo {repository.path} --hub {repository.path}/.git"
    assert made.status == 0 and f"forgepool queue submit mine {clone_of} --agent command\n" in made.out, (
        made.out + made.err
    )
    assert repository.git("rev-parse", "mine^") == tip and repository.file("mine", "r.txt") == "made"
    assert "has a branch 'mine' already" in refused("red", "--branch", "mine", *clone)
    assert "is no name for a branch" in refused("red", "--branch", "a..b", *clone)
    folder = ground / "worktree"
    assert machine.run("salvage", run, "red", "--to", folder, *clone).status == 0
    assert {path.name for path in folder.iterdir()} >= {"r.txt", "g.txt"}
    assert "is not an empty folder" in refused("red", "--to", str(folder), *clone)
    patch = machine.run("salvage", run, "red", "--patch", "-").out
    assert patch.startswith("diff --git a/r.txt b/r.txt") and "g.txt" not in patch
    assert machine.run("salvage", run, "red", "--patch", ground / "p").status == 0
    assert (ground / "p").read_text() == patch
    assert "give another file" in refused("red", "--patch", str(ground / "p"))
    other = make_repository(ground / "other", {"a": "b"})
    assert "lacks the commits" in refused("red", "--branch", "mine", "--repo", str(other.path))

    repository.git("checkout", "-q", _BRANCH)
    (repository.path / "r.txt").write_text("theirs\n")
    repository.git("add", "-A")
    repository.git("commit", "-q", "-m", "theirs")
    clashed = machine.run("salvage", run, "red", "--branch", "as-made", *clone)
    assert clashed.status == 0 and f"it conflicts with {_BRANCH} in r.txt" in clashed.out, clashed.err
    assert repository.git("rev-parse", "as-made") == repository.git("rev-parse", f"{ref}^{{commit}}")
    assert machine.journal() == before


def test_the_work_of_any_attempt_of_a_program_is_salvaged_and_submitted(
    ground: Path, machine: Machine, repository: Repository
) -> None:
    """Two attempts fail. Another commit brings what the second made. The printed commands are run as they stand."""
    folder = machine.folder / "bin"
    folder.mkdir()
    shutil.copy(RECORDINGS / "claude" / "claude-success.jsonl", folder / "said")
    change = 'if [ "$FORGEPOOL_ATTEMPT" = 2 ]; then printf "a\\n" > n.txt; else echo made > r.txt; fi'
    (folder / "claude").write_text(f"#!/bin/sh\ncat >/dev/null\n{change}\ncat '{folder}/said'\n")
    (folder / "claude").chmod(0o755)
    machine.variables |= {"PATH": f"{folder}:{os.environ['PATH']}", "ANTHROPIC_API_KEY": "road-key"}
    red = {"id": "red", "files": ["*.txt"], "agent": {"cli": "claude"}, "acceptance": ["false"], "attempts": 2}
    good = {"id": "good", "files": ["g.md"], "agent": command("echo g > g.md"), "priority": 1}
    assert machine.run("run", _plan(ground, red, good), "--repo", repository.path, "--workers", "1").status == 1
    run, clone = machine.runs()[0], ["--repo", str(repository.path)]
    assert "n.txt" in machine.run("salvage", run, "red").out
    repository.git("checkout", "-q", _BRANCH)
    (repository.path / "n.txt").write_text("a\n")
    repository.git("add", "-A")
    repository.git("commit", "-q", "-m", "theirs")
    for name, more in (("newest", []), ("first", ["--attempt", "1"])):
        made = machine.run("salvage", run, "red", "--branch", name, *more, *clone)
        assert made.status == 0 and f"branch {name}: red, attempt 1" in made.out, made.out + made.err
        assert repository.file(name, "r.txt") == "made"
        program, *words = shlex.split(made.out.partition("submit it: ")[2])
        assert program == "forgepool" and words[-4:] == ["--agent", "claude", "--family", "claude"], words
        submitted = machine.run(*words)
        assert submitted.status == 0, submitted.err
        assert repository.refs(f"refs/forgepool/for/{_BRANCH}/{name}")
    second = machine.run("salvage", run, "red", "--attempt", "2", "--patch", "-")
    assert (second.status, second.out) == (0, ""), second


def test_work_with_a_secret_is_salvaged_on_its_host_alone(
    ground: Path, machine: Machine, repository: Repository
) -> None:
    """It can be had as a worktree or a patch, with a warning, and not as a branch of the hub."""
    token = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"
    leaks = {"id": "leaks", "files": ["s.txt"], "agent": command(f"echo {token} > s.txt"), "acceptance": ["false"]}
    assert machine.run("run", _plan(ground, leaks | {"attempts": 1}), "--repo", repository.path).status == 1
    run = machine.runs()[0]
    branch = machine.run("salvage", run, "leaks", "--branch", "mine", "--repo", repository.path)
    assert branch.status == 2 and "is the hub, and this work was not pushed there" in branch.err, branch
    assert repository.refs("refs/heads/mine") == []
    patch = machine.run("salvage", run, "leaks", "--patch", "-")
    assert token in patch.out and "it was not pushed to the hub: s.txt:1 looks like" in patch.err, patch
    assert machine.run("salvage", run, "leaks", "--to", ground / "w", "--repo", repository.path).status == 0
    assert (ground / "w" / "s.txt").read_text() == f"{token}\n"


def test_no_checkpoint_of_work_with_a_secret_stays_in_the_hub(
    ground: Path, machine: Machine, repository: Repository
) -> None:
    token = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"
    turns = [
        {"calls": [{"tool": "write_file", "path": "s.txt", "content": f"{token}\n"}]},
        *({"calls": [{"tool": "finish", "summary": "done"}]} for _ in range(5)),
    ]
    (ground / "leaks.yaml").write_text(json.dumps({"turns": turns}))
    leaks = {"id": "leaks", "files": ["s.txt"], "agent": {"scripted": "leaks.yaml"}, "attempts": 1}
    ended = machine.run("run", _plan(ground, leaks), "--repo", repository.path)
    assert ended.status == 1, ended.out + ended.err
    assert "looks like" in machine.run("report", machine.runs()[0]).out
    assert repository.git("log", "--all", "-S", token, "--format=%H") == ""
