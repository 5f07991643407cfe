"""A plan with mistakes is corrected and run again: nothing lands twice, and every outcome is true."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from kit import Machine, Ran, Repository, command, events_of, write_plan

from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.run.run_folder import open_run
from forgepool.workers.schema.settings import Settings

pytestmark = pytest.mark.slow

_BRANCH = "forgepool/again"
_APPENDS = {"id": "appends", "files": ["log.txt"], "agent": command("echo once >> log.txt")}
_IDLE = {"id": "idle", "files": ["idle.txt"], "agent": command("true"), "acceptance": ["test -f README.md"]}
_NEEDS_IDLE = {"id": "needs-idle", "needs": ["idle"], "files": ["n.txt"], "agent": command("echo n > n.txt")}
_MISTAKEN = {"id": "mistaken", "files": ["m.txt"], "agent": command("cat m.txt")}
_MENDED = _MISTAKEN | {"agent": command("echo m > m.txt")}
_AFTER = {"id": "after", "needs": ["mistaken"], "files": ["log.txt"], "agent": command("echo after >> log.txt")}
_HOPELESS = {"id": "hopeless", "files": ["h.txt"], "agent": command("echo BROKEN > h.txt")}
_NEW = {"id": "new", "files": ["new.txt"], "agent": command("echo new > new.txt")}
_FIRST = [_APPENDS, _IDLE, _NEEDS_IDLE, _MISTAKEN, _AFTER, _HOPELESS]
_CORRECTED = [_APPENDS, _IDLE, _NEEDS_IDLE, _MENDED, _AFTER, _NEW]


def _plan(ground: Path, tasks: list[dict[str, Any]], **more: Any) -> Path:
    checks = {"sound": "! grep -rq BROKEN --include=*.txt ."}
    return write_plan(ground, {"name": "again", "checks": checks, "tasks": tasks, **more})


def _outcomes(ran: Ran) -> dict[str, str]:
    return {task["task"]: task["phase"] for task in ran.answer["tasks"]}


def _first(ground: Path, machine: Machine, repository: Repository) -> str:
    ended = machine.run("run", _plan(ground, _FIRST), "--repo", repository.path, "--workers", "2", "--json")
    assert ended.status == 1, ended.out + ended.err
    assert _outcomes(ended) == {
        "appends": "landed",
        "idle": "no_changes",
        "needs-idle": "landed",
        "mistaken": "failed",
        "after": "blocked",
        "hopeless": "failed",
    }
    assert "idle: no changes (command exited 0)" in ended.err
    assert {task["task"]: task["attempts"] for task in ended.answer["tasks"]}["hopeless"] == 1
    return machine.runs()[0]


def test_a_corrected_plan_run_again_lands_what_is_new_and_nothing_twice(
    ground: Path, machine: Machine, repository: Repository
) -> None:
    first = _first(ground, machine, repository)
    again = machine.run("run", _plan(ground, _CORRECTED), "--repo", repository.path, "--workers", "2")
    assert again.status == 0, again.out + again.err
    landed = {repository.trailer(one, "Forgepool-Task"): one for one in repository.commits(_BRANCH)}
    assert f"appends: already there, landed as {landed['appends'][:12]} by run {first}" in again.out
    (second,) = set(machine.runs()) - {first}
    told = machine.run("status", second, "--json")
    assert told.answer["outcome"] == "done"
    assert _outcomes(told) == {
        "appends": "already_there",
        "idle": "no_changes",
        "needs-idle": "already_there",
        "mistaken": "landed",
        "after": "landed",
        "new": "landed",
    }
    assert repository.file(_BRANCH, "log.txt") == "once\nafter"
    assert sorted(repository.landed(_BRANCH)) == ["after", "appends", "mistaken", "needs-idle", "new"]
    assert "6 of 6 done: 3 landed, 1 had no changes, 2 already there" in again.out

    left = machine.run("clean", "--hub", "--older", "0.001s")
    assert first in left.out and "hopeless" in left.out, "the refs of what failed are listed"
    assert repository.refs("refs/forgepool") and set(machine.runs()) == {first, second}, "and nothing is removed"
    assert "removed: 2 folders" in machine.run("clean", "--hub", "--older", "0.001s", "--yes").out
    assert repository.refs("refs/forgepool") == [] and machine.runs() == []


def test_what_landed_and_was_reverted_is_done_again_and_all_is_with_again(
    ground: Path, machine: Machine, repository: Repository
) -> None:
    tasks = [_APPENDS, _NEW]
    plan = _plan(ground, tasks)
    assert machine.run("run", plan, "--repo", repository.path).status == 0
    commit = next(one for one in repository.commits(_BRANCH) if repository.trailer(one, "Forgepool-Task") == "new")
    folder = ground / "person"
    subprocess.run(["git", "clone", "-q", "-b", _BRANCH, repository.path, folder], check=True)
    person = Repository(path=folder)
    person.git("revert", "--no-edit", "-m", "1", commit)
    person.git("push", "-q", "origin", _BRANCH)
    again = machine.run("run", plan, "--repo", repository.path, "--json")
    assert _outcomes(again) == {"appends": "already_there", "new": "landed"}
    assert repository.file(_BRANCH, "new.txt") == "new"
    wanted = machine.run("run", plan, "--repo", repository.path, "--again", "--json")
    assert _outcomes(wanted) == {"appends": "landed", "new": "no_changes"}
    assert repository.file(_BRANCH, "log.txt") == "once\nonce"


def test_a_corrected_plan_given_to_the_run_keeps_what_is_unchanged_and_does_the_rest(
    ground: Path, machine: Machine, repository: Repository
) -> None:
    run = _first(ground, machine, repository)
    changed = _APPENDS | {"agent": command("echo twice >> log.txt")}
    refused = machine.run("resume", run, "--plan", _plan(ground, [changed, *_CORRECTED[1:]]))
    assert refused.status == 2 and "task 'appends' has landed as" in refused.err, refused.out + refused.err
    for more in ({"name": "other"}, {"target": "elsewhere"}):
        refused = machine.run("resume", run, "--plan", _plan(ground, _CORRECTED, **more))
        (key,) = more
        assert refused.status == 2 and f"the plan's {key} is" in refused.err

    before = len(machine.journal(run))
    resumed = machine.run("resume", run, "--plan", _plan(ground, _CORRECTED))
    assert resumed.status == 0, resumed.out + resumed.err
    (revised,) = events_of(machine.journal(run), e.PlanRevised)
    assert (revised.added, revised.removed) == (("new",), ("hopeless",))
    assert (revised.afresh, revised.reopened) == (("mistaken",), ("after",))
    orders = [one.event for one in machine.journal(run)[before:] if isinstance(one.event, e.OrderSent)]
    assert sorted((one.task, one.attempt) for one in orders) == [("after", 1), ("mistaken", 2), ("new", 1)]
    assert repository.file(_BRANCH, "log.txt") == "once\nafter"
    assert "6 of 6 done: 5 landed, 1 had no changes" in resumed.out

    kept = open_run(Settings(home=machine.home, cache=machine.cache), run)
    assert [task.id for task in kept.plan.tasks] == [task["id"] for task in _CORRECTED]
    same = machine.run("resume", run, "--plan", _plan(ground, _CORRECTED))
    assert same.status == 0 and "already has the plan" in same.out
