"""A run goes on at another machine from its journal's copy in the hub, and only one machine at a time may land."""

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from kit import Machine, Repository, Started, command, wait_until, write_plan
from processes import kill_all

from forgepool.workers.workspace.refs import journal_ref

NewMachine = Callable[..., Machine]
_BRANCH = "forgepool/moved"


@pytest.fixture
def plan(ground: Path) -> Path:
    """The last of its tasks waits until the test lets it go."""
    waits = f"until test -e {ground}/go; do sleep 0.05; done; cat assets.txt > c.txt"
    tasks = [
        {"id": "first", "files": ["a.txt"], "agent": command("echo a >> a.txt")},
        {"id": "second", "files": ["b.txt"], "agent": command("echo b >> b.txt")},
        {
            "id": "third",
            "files": ["c.txt"],
            "needs": ["first", "second"],
            "agent": command(waits.replace("assets.txt", '"$FORGEPOOL_ASSETS/note.txt"')),
        },
    ]
    (ground / "note.txt").write_text("noted\n")
    told = {"name": "moved", "checks": {"readme": "test -f README.md"}, "assets": ["note.txt"], "tasks": tasks}
    return write_plan(ground, told)


def _begin(machine: Machine, plan: Path, repository: Repository) -> tuple[Started, str]:
    """Starts the run, and waits until all but the last task have landed and the last is at work."""
    started = machine.start("run", plan, "--repo", repository.path, "--sandbox", "off")
    machine.wait_for("message.taken", task="third")
    return started, machine.the_run()


def _assert_landed_once(repository: Repository) -> None:
    assert Counter(repository.landed(_BRANCH)) == {"first": 1, "second": 1, "third": 1}
    assert [repository.file(_BRANCH, f"{name}.txt") for name in "abc"] == ["a", "b", "noted"]
    assert repository.refs("refs/forgepool") == []


@pytest.mark.slow
def test_a_run_whose_machine_is_gone_is_resumed_at_another(
    ground: Path, new_machine: NewMachine, plan: Path, repository: Repository
) -> None:
    lost, other = new_machine("lost"), new_machine("other")
    lost.variables["FORGEPOOL_LEASE_TTL_S"] = "1"
    started, run = _begin(lost, plan, repository)
    kill_all(lost.folder)
    started.process.wait()
    shutil.rmtree(lost.folder)
    (ground / "go").touch()

    unknown = other.run("resume", run)
    assert unknown.status == 2 and "--repo URL" in unknown.err
    ended = other.run("resume", run[:8], "--repo", repository.path, "--sandbox", "off")
    assert ended.status == 0, ended.out + ended.err
    assert f"lost holds run {run}; it is taken over if lost does not renew its lease within 10 s" in ended.err
    _assert_landed_once(repository)
    assert {one.event.kind for one in other.journal()} >= {"run.started", "run.resumed", "run.ended"}


@pytest.mark.slow
def test_of_two_orchestrators_the_one_that_lost_the_lease_stops_and_lands_nothing(
    ground: Path, new_machine: NewMachine, plan: Path, repository: Repository
) -> None:
    """The first would renew its lease only after an hour: it is its landing that asks who holds the run."""
    first, second = new_machine("one"), new_machine("two")
    first.variables["FORGEPOOL_LEASE_TTL_S"] = "1200"
    former, run = _begin(first, plan, repository)
    taker = second.start("resume", run, "--repo", repository.path, "--take-over", "--sandbox", "off")
    second.wait_for("run.resumed")
    (ground / "go").touch()
    stopped, ended = former.ended(), taker.ended()
    assert stopped.status == 3, stopped.out + stopped.err
    (said,) = stopped.err.splitlines()
    assert said.startswith(f"forgepool: run {run} was taken over by two, and this machine sends nothing more for it")
    assert [one.event.task for one in first.journal() if one.event.kind == "landing.answered"] != ["third"]
    assert ended.status == 0, ended.out + ended.err
    _assert_landed_once(repository)

    back = first.run("resume", run)
    assert back.status == 3 and "has ended on another machine" in back.err, back.err


@pytest.mark.soak
@pytest.mark.slow
def test_a_live_orchestrator_keeps_its_run_and_one_that_stopped_lets_it_go_at_once(
    ground: Path, new_machine: NewMachine, plan: Path, repository: Repository
) -> None:
    first, second = new_machine("one"), new_machine("two")
    first.variables["FORGEPOOL_LEASE_TTL_S"] = "1"
    former, run = _begin(first, plan, repository)
    refused = second.run("resume", run, "--repo", repository.path)
    assert refused.status == 2 and "is being run by one, which has just renewed its lease" in refused.err
    assert second.runs() == [] and former.running()

    former.process.terminate()
    assert former.ended().status == 130
    third = new_machine("three")
    third.run("resume", run, "--repo", repository.path, "--plan", ground / "no.yaml")
    cleaned = first.run("clean", run, "--hub", "--older", "1s", "--yes")
    assert "three has taken it over" in cleaned.out and repository.refs(journal_ref(run)) != []
    (ground / "go").touch()
    ended = second.run("resume", run, "--repo", repository.path.as_uri(), "--sandbox", "off")
    assert ended.status == 0, ended.out + ended.err
    assert "holds run" not in ended.err and "was taken over from three" in ended.err
    _assert_landed_once(repository)


@pytest.mark.soak
@pytest.mark.slow
def test_a_word_of_a_person_is_copied_at_once(ground: Path, machine: Machine, repository: Repository) -> None:
    """No other ref of the hub tells it again. The lease would be renewed only after an hour."""
    machine.variables["FORGEPOOL_LEASE_TTL_S"] = "1200"
    tasks = [{"id": name, "files": [name], "agent": command("sleep 300")} for name in ("one", "other")]
    machine.start(
        "run", write_plan(ground, {"name": "words", "checks": "none", "tasks": tasks}), "--repo", repository.path
    )
    machine.wait_for("message.taken", task="one")
    run = machine.the_run()
    asked = machine.run("cancel", run, "one")
    assert asked.status == 0, asked.err
    wait_until(lambda: "task.cancelled" in repository.git("log", "--format=%B", journal_ref(run)), "a copy")
