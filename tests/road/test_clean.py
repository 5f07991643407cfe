"""`forgepool clean` reclaims the folders and refs of ended runs, and leaves those that are still needed."""

import os
import time
from pathlib import Path

import pytest
from kit import Machine, Repository, command, write_plan

_NOW = ("--older", "0.001s")


def _plan(ground: Path, name: str, *scripts: str) -> Path:
    tasks = [{"id": f"t{n}", "files": [f"{name}{n}.txt"], "agent": command(each)} for n, each in enumerate(scripts)]
    (ground / name).mkdir()
    return write_plan(ground / name, {"name": name, "checks": {"readme": "test -f README.md"}, "tasks": tasks})


@pytest.mark.slow
def test_a_runs_folder_and_refs_are_reclaimed_unless_somebody_needs_them(
    ground: Path, machine: Machine, repository: Repository
) -> None:
    where = ("--repo", repository.path, "--workers", "1")
    assert machine.run("run", _plan(ground, "whole", "echo 1 > whole0.txt"), *where).status == 0
    (whole,) = machine.runs()
    refused = ["echo 1 > README.md; rm README.md; echo 2 > half0.txt"]
    machine.run("run", _plan(ground, "half", *refused), *where)
    (half,) = set(machine.runs()) - {whole}
    assert repository.refs(f"refs/forgepool/{half}/orders/t0")

    assert "no ended run" in machine.run("clean", "--hub", "--yes").out, "both are young"
    assert "no ended run" in machine.run("clean", "--hub", "--older", "1h", "--yes").out
    listed = machine.run("clean", *_NOW)
    assert f"kept: {half}: the hub has its work; --hub removes both" in listed.out
    assert "would remove 1 folder with" in listed.out and "--yes removes it" in listed.out
    assert sorted(machine.runs()) == sorted([whole, half])
    assert "removed: 1 folder" in machine.run("clean", *_NOW, "--yes").out
    assert machine.runs() == [half]
    ended = machine.run("clean", half, "--hub", "--yes")
    assert "and 1 ref" in ended.out and (machine.runs(), repository.refs("refs/forgepool")) == ([], [])

    started = machine.start("run", _plan(ground, "long", "echo 1 > long0.txt", "sleep 600"), *where)
    machine.wait_for("landing.answered", task="t0")
    (long,) = machine.runs()
    assert f"kept: {long}: it is running" in machine.run("clean", long, *_NOW, "--hub", "--yes").out
    started.kill()
    assert "no ended run" in machine.run("clean", *_NOW, "--hub", "--yes").out, "it can be resumed"
    kept = machine.run("clean", long, "--hub", "--yes").out
    assert f"kept: {long}: it can be resumed, and its last event is younger than 14 days" in kept
    assert machine.runs() == [long] and repository.refs(f"refs/forgepool/{long}")
    gone = machine.run("clean", long, *_NOW, "--hub", "--yes")
    assert gone.status == 0 and (machine.runs(), repository.refs("refs/forgepool")) == ([], []), gone.out


@pytest.mark.slow
def test_a_run_whose_hub_is_away_keeps_its_folder(ground: Path, machine: Machine, repository: Repository) -> None:
    machine.run("run", _plan(ground, "half", "exit 3"), "--repo", repository.path, "--workers", "1")
    aside = repository.path.rename(ground / "aside")
    away = machine.run("clean", *_NOW, "--hub", "--yes")
    assert (away.status, len(machine.runs())) == (3, 1)
    assert "its hub cannot be reached" in away.out
    aside.rename(repository.path)
    assert machine.run("clean", *_NOW, "--hub", "--yes").status == 0
    assert machine.runs() == []


@pytest.mark.slow
def test_a_run_that_left_nothing_in_the_hub_needs_no_word_about_it(
    ground: Path, machine: Machine, repository: Repository
) -> None:
    machine.run("run", _plan(ground, "half", "exit 3"), "--repo", repository.path, "--workers", "1")
    aside = repository.path.rename(ground / "aside")
    assert "the hub cannot be reached, and may have its work" in machine.run("clean", *_NOW, "--yes").out
    aside.rename(repository.path)
    assert "removed: 1 folder" in machine.run("clean", *_NOW, "--yes").out and machine.runs() == []
    wrong = machine.run("clean", "--older", "0s")
    assert wrong.status == 2 and "give a duration of more than zero, such as 12h or 7d" in wrong.err


@pytest.mark.slow
def test_a_plan_that_a_client_gave_as_text_goes_when_no_run_refers_to_it(
    ground: Path, machine: Machine, repository: Repository
) -> None:
    plan = _plan(ground, "half", "echo 1 > README.md; rm README.md; echo 2 > half0.txt")
    texts = machine.home / "plans"
    texts.mkdir(parents=True)
    used, unused = texts / "used.yaml", texts / "unused.yaml"
    planning = texts / "zones-20261128-120000"
    planning.mkdir()
    (planning / "planner.jsonl").write_text("{}")
    for text in (used, unused):
        text.write_bytes(plan.read_bytes())
    machine.run("run", used, "--repo", repository.path, "--workers", "1")
    assert "no ended run" in machine.run("clean", "--yes").out and unused.exists(), "it is young"
    assert "plan" not in machine.run("clean", *_NOW).out, "one written within the hour may be under way"
    for path in (used, unused, planning / "planner.jsonl", planning):
        os.utime(path, (time.time() - 7200,) * 2)
    (planning / "gone").symlink_to(ground / "absent")
    assert "would remove 1 plan that a client gave or a model wrote" in machine.run("clean", *_NOW).out
    (planning / "gone").unlink()
    os.utime(planning, (time.time() - 7200,) * 2)
    told = "would remove 2 plans that a client gave or a model wrote, and no run uses; --yes removes them"
    assert told in machine.run("clean", *_NOW).out
    listed = machine.run("clean", *_NOW, "--json").answer
    assert {"plan": str(planning), "removed": False} in listed and unused.exists() and planning.exists()
    machine.run("clean", *_NOW, "--yes")
    assert (used.exists(), unused.exists(), len(machine.runs())) == (True, False, 1), "the run's work did not land"
    assert not planning.exists()
    machine.run("clean", *_NOW, "--hub", "--yes")
    assert (used.exists(), machine.runs()) == (False, [])
