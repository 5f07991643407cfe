"""From a plan file to landed commits, by the commands a person types, with real worker processes."""

import hashlib
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kit import Machine, Ran, Repository, command, events_of, write_plan

from forgepool.orchestrator.journal import events as e

NothingLeft = Callable[[Path, Machine], None]

_NOT_BROKEN = "! grep -rq BROKEN --include=*.txt ."
_HAS_README = "test -f README.md"
_CHECKS = {"sound": _NOT_BROKEN, "readme": _HAS_README}
_BRANCH = "forgepool/road"


def _task(task: str, script: str, **more: Any) -> dict[str, Any]:
    return {"id": task, "agent": command(script), **more}


_TASKS = [
    _task("lib", "echo one > lib.txt", files=["lib.txt"], title="Write the library"),
    _task("app", "sed s/one/two/ lib.txt > app.txt", files=["app.txt"], needs=["lib"]),
    _task("note-a", "sleep 0.3; echo a >> notes.md", files=["notes.md"]),
    _task("note-b", "sleep 0.3; echo b >> notes.md", files=["*.md"]),
    _task(
        "returned",
        'grep -q "check .sound. exited" "$FORGEPOOL_REASONS" && echo mended > r.txt || echo BROKEN > r.txt',
        files=["r.txt"],
        attempts=2,
    ),
    _task("hopeless", "echo BROKEN > h.txt", files=["h.txt"], attempts=2),
    _task("after-hopeless", "echo x > ah.txt", files=["ah.txt"], needs=["hopeless"]),
    _task("wanders", "echo w > w.txt; echo extra > extra.txt", files=["w.txt"]),
    _task("unaccepted", "echo u > u.txt", files=["u.txt"], acceptance=["test -f nowhere"], attempts=1),
    _task("idle", "true", files=["i.txt"], unchanged="fail"),
]
_LANDED = {"lib", "app", "note-a", "note-b", "returned", "wanders"}


@pytest.fixture
def plan(ground: Path) -> Path:
    return write_plan(ground, {"name": "road", "checks": _CHECKS, "tasks": _TASKS})


@pytest.fixture
def untidy(repository: Repository) -> Repository:
    """
    Return a person's checkout with staged, unstaged, new and stashed changes, and hooks.

    It has no receiving hooks, because those belong to the hub and are meant to run.
    """
    work = repository.path
    (work / "src/a.txt").write_text("stashed\n")
    repository.git("stash", "-q")
    (work / "src/a.txt").write_text("staged\n")
    repository.git("add", "src/a.txt")
    (work / "src/b.txt").write_text("not staged\n")
    (work / "new.txt").write_text("new\n")
    for hook in (
        "pre-commit",
        "commit-msg",
        "post-commit",
        "post-checkout",
        "post-merge",
        "pre-push",
        "post-index-change",
    ):
        path = work / ".git/hooks" / hook
        path.write_text(f"#!/bin/sh\necho {hook} >> {work.parent}/hooks-ran\n")
        path.chmod(0o755)
    repository.git("config", "user.name", "A Person")
    return repository


def _belongings(repository: Repository) -> dict[str, tuple[int, bytes]]:
    """Return mode and content of each file of the person's, without those that a landing has to write."""
    grown = (".git/objects", ".git/refs/forgepool", ".git/refs/heads/forgepool", ".git/logs/refs/heads/forgepool")
    found = {}
    for folder, _, names in os.walk(repository.path):
        for path in (Path(folder) / name for name in names):
            name = str(path.relative_to(repository.path))
            if not name.startswith(grown):
                found[name] = (path.stat().st_mode, path.read_bytes())
    return found


@pytest.mark.slow
def test_a_plan_becomes_landed_commits(
    ground: Path, plan: Path, machine: Machine, untidy: Repository, nothing_left: NothingLeft
) -> None:
    before = _belongings(untidy)
    ended = machine.run("run", plan, "--repo", untidy.path, "--workers", "2")
    assert ended.status == 1, ended.out + ended.err
    assert _belongings(untidy) == before
    assert not (ground / "hooks-ran").exists()
    nothing_left(ground, machine)

    _assert_history(untidy, ground)
    _assert_outcomes(machine)
    _assert_certified(machine, untidy)
    _assert_answers(machine)


def _assert_history(repository: Repository, ground: Path) -> None:
    commits = repository.commits(_BRANCH)
    landed = repository.landed(_BRANCH)
    assert sorted(landed) == sorted(_LANDED)
    assert landed.index("lib") < landed.index("app")
    for commit, task in zip(commits, landed, strict=True):
        assert repository.is_green(commit, list(_CHECKS.values()), ground)
        parents = repository.git("rev-list", "--parents", "-1", commit).split()[1:]
        assert len(parents) == 2, "one merge for each task"
        assert repository.trailer(parents[1], "Forgepool-Task") == task
        assert repository.trailer(commit, "Forgepool-Agent") == "command"
        assert repository.trailer(commit, "Forgepool-Attempt") == ("2" if task == "returned" else "1")
    titles = repository.git("log", "--first-parent", "--format=%s", f"main..{_BRANCH}").splitlines()
    assert "Write the library" in titles
    assert repository.file(_BRANCH, "app.txt") == "two"
    assert sorted(repository.file(_BRANCH, "notes.md").split()) == ["a", "b"]
    assert repository.file(_BRANCH, "r.txt") == "mended"
    assert repository.file(_BRANCH, "extra.txt") == "extra"
    changed = set(repository.git("diff", "--name-only", "main", _BRANCH).split())
    assert changed == {"lib.txt", "app.txt", "notes.md", "r.txt", "w.txt", "extra.txt"}


def _task_of(event: e.Event) -> str:
    return getattr(event, "task", "")


def _together(event: e.Event) -> tuple[str, ...]:
    """Return all entries of a landing."""
    return event.entries if isinstance(event, e.LandingAnswered) else ()


def _assert_outcomes(machine: Machine) -> None:
    recorded = machine.journal()
    reasons = [
        (one.event.task, type(one.event).__name__, one.event.reason.kind)
        for one in recorded
        if isinstance(one.event, e.TaskReturned | e.TaskFailed)
    ]
    assert sorted(reasons) == [
        ("hopeless", "TaskFailed", "check_failed"),
        ("hopeless", "TaskReturned", "check_failed"),
        ("idle", "TaskFailed", "no_change"),
        ("returned", "TaskReturned", "check_failed"),
        ("unaccepted", "TaskFailed", "verify_failed"),
    ]
    assert [(one.task, one.by) for one in events_of(recorded, e.TaskBlocked)] == [("after-hopeless", "hopeless")]
    assert [(one.task, one.paths) for one in events_of(recorded, e.LockExtended)] == [("wanders", ("extra.txt",))]
    note_a, note_b = (
        {one.event.kind: one.number for one in recorded if task in (_task_of(one.event), *_together(one.event))}
        for task in ("note-a", "note-b")
    )
    assert note_a["landing.answered"] < note_b["order.sent"] or note_b["landing.answered"] < note_a["order.sent"]


def _assert_certified(machine: Machine, repository: Repository) -> None:
    """
    Assert that each landing had certificates for its tree, and that each task's commit is the one its landing intended.
    """
    landings = events_of(machine.journal(), e.LandingIntended)
    intended = {task: at for one in landings for task, at in zip(one.entries, one.commits, strict=True)}
    assert set(intended) == _LANDED
    assert [intended[task] for task in repository.landed(_BRANCH)] == repository.commits(_BRANCH)
    for one in landings:
        tree = repository.git("rev-parse", f"{one.commit}^{{tree}}")
        assert {(proof.check, proof.tree) for proof in one.certificates} == {("sound", tree), ("readme", tree)}
    run = machine.runs()[0]
    answered = events_of(machine.journal(), e.OrderAnswered)
    kept = [
        f"refs/forgepool/{run}/{'orders' if one.result.commit else 'unverified'}/{one.task}/{one.result.attempt}"
        for one in answered
        if (one.result.commit or one.result.unverified) and one.task not in _LANDED
    ]
    assert f"refs/forgepool/{run}/unverified/unaccepted/1" in kept
    assert sorted(repository.refs("refs/forgepool")) == sorted(kept)


def _assert_answers(machine: Machine) -> None:
    run = machine.runs()[0]
    status = _answer(machine, "status", run, "--json")
    assert status["outcome"] == "incomplete"
    phases = {one["task"]: one["phase"] for one in status["tasks"]}
    assert {task for task, phase in phases.items() if phase == "landed"} == _LANDED
    assert (phases["hopeless"], phases["after-hopeless"], phases["idle"]) == ("failed", "blocked", "failed")
    assert {one["task"]: one["attempts"] for one in status["tasks"]}["returned"] == 2

    events = machine.run("events", run, "--json").out.splitlines()
    assert len(events) == len(machine.journal())
    assert events[0].startswith('{"number": 1, ') and '"run.ended"' in events[-1]

    report = machine.run("report", run).out
    assert f"6 of 10 tasks landed on {_BRANCH}" in report
    assert "here: " in report and "needs 'hopeless'" in report and "see it again: git fetch" in report
    (listed,) = _answer(machine, "runs", "--json")
    assert (listed["run"], listed["outcome"], listed["landed"]) == (run, "incomplete", "6/10")
    assert machine.run("resume", run).status == 1, "an ended run stays as it ended"
    assert len(machine.journal()) == len(events)


def _answer(machine: Machine, *argv: str | Path) -> Any:
    ran = machine.run(*argv)
    assert ran.status == 0, ran.err
    return ran.answer


def test_check_and_dry_run_show_the_plan_and_start_nothing(plan: Path, machine: Machine, untidy: Repository) -> None:
    before = _belongings(untidy)
    shown = _answer(machine, "check", plan, "--repo", untidy.path, "--json")
    assert (shown["tasks"], shown["target"], shown["problems"]) == (10, _BRANCH, [])
    assert shown["order"].index("lib") < shown["order"].index("app")
    assert ["note-a", "note-b"] in [sorted(one["tasks"]) for one in shown["conflicts"]]
    dry: Ran = machine.run("run", plan, "--repo", untidy.path, "--dry-run", "--json")
    assert (dry.status, dry.answer) == (0, shown)
    assert _belongings(untidy) == before
    assert (machine.runs(), untidy.refs("refs/forgepool"), untidy.refs("refs/heads")) == ([], [], ["refs/heads/main"])


@pytest.mark.slow
def test_a_strict_squashed_plan_keeps_out_what_strays(
    ground: Path, machine: Machine, repository: Repository, nothing_left: NothingLeft
) -> None:
    tasks = [
        _task("stays", "echo s > s.txt", files=["s.txt"]),
        _task("strays", "echo t > t.txt; echo more >> s.txt", files=["t.txt"], attempts=1),
    ]
    told = {"name": "road", "checks": _CHECKS, "scope": "strict", "landing": "squash", "tasks": tasks}
    ended = machine.run("run", write_plan(ground, told), "--repo", repository.path, "--workers", "2")
    assert ended.status == 1, ended.out + ended.err
    assert repository.landed(_BRANCH) == ["stays"]
    (commit,) = repository.commits(_BRANCH)
    assert len(repository.git("rev-list", "--parents", "-1", commit).split()) == 2, "one plain commit"
    (failed,) = events_of(machine.journal(), e.TaskFailed)
    assert (failed.task, failed.reason.kind, failed.reason.paths) == ("strays", "out_of_scope", ("s.txt",))
    assert repository.file(_BRANCH, "s.txt") == "s"
    nothing_left(ground, machine)


@pytest.mark.slow
def test_the_end_of_a_run_packs_what_lies_loose(ground: Path, machine: Machine, repository: Repository) -> None:
    """A run leaves loose objects for each task in the hub. What no ref needs keeps its time for a `gc`."""
    hub = repository.path / ".git"
    names = []
    for number in range(510):
        content = b"blob 3\0%03d" % number
        names.append(hashlib.sha1(content).hexdigest())
        (hub / "objects" / names[-1][:2]).mkdir(exist_ok=True)
        (hub / "objects" / names[-1][:2] / names[-1][2:]).write_bytes(zlib.compress(content))
    told = {"name": "road", "checks": _CHECKS, "tasks": [_task("stays", "echo s > s.txt", files=["s.txt"])]}
    assert machine.run("run", write_plan(ground, told), "--repo", repository.path, "--workers", "1").status == 0
    assert len(list(hub.glob("objects/??/*"))) < 20
    assert list(hub.glob("objects/pack/*.mtimes"))
    assert repository.git("cat-file", "-p", names[-1]) == "509"
    assert repository.landed(_BRANCH) == ["stays"]
