"""A person's actions on a live run: Ctrl-C once and twice, cancel, retry, resume, and an edited plan."""

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kit import Machine, Repository, Started, command, events_of, wait_until, write_plan
from processes import Found, in_role

from forgepool.orchestrator.journal import events as e

NothingLeft = Callable[[Path, Machine], None]
_BRANCH = "forgepool/told"


@pytest.fixture
def gate(ground: Path) -> Path:
    """Return the file that held tasks wait for."""
    return ground / "gate"


@pytest.fixture
def machine(machine: Machine) -> Machine:
    """Run without a sandbox, because the tasks use files outside their folder."""
    machine.variables["FORGEPOOL_SANDBOX"] = "off"
    return machine


def _held(ground: Path, gate: Path, task: str, **more: Any) -> dict[str, Any]:
    """Return a task that writes a file when it begins and then waits for the gate."""
    script = f"touch {ground}/began-{task}; until test -e {gate}; do sleep 0.05; done; echo {task} > {task}.txt"
    return {"id": task, "files": [f"{task}.txt"], "agent": command(script), **more}


def _start(ground: Path, machine: Machine, repository: Repository, tasks: list[dict[str, Any]]) -> tuple[Started, Path]:
    plan = write_plan(ground, {"name": "told", "checks": {"readme": "test -f README.md"}, "tasks": tasks})
    return machine.start("run", plan, "--repo", repository.path, "--workers", "1"), plan


def _began(ground: Path, task: str) -> None:
    wait_until((ground / f"began-{task}").exists, f"{task} at work")


def _resumed(machine: Machine, repository: Repository, *landed: str) -> str:
    """Resume the run, assert that exactly these tasks have landed, and return its standard error."""
    ended = machine.run("resume", machine.the_run())
    assert ended.status == 0, ended.out + ended.err
    assert sorted(repository.landed(_BRANCH)) == sorted(landed)
    return ended.err


@pytest.mark.slow
def test_one_interrupt_lets_running_work_finish_and_starts_nothing(
    ground: Path, gate: Path, machine: Machine, repository: Repository, nothing_left: NothingLeft
) -> None:
    tasks = [_held(ground, gate, "a"), _held(ground, gate, "b")]
    under_way, _ = _start(ground, machine, repository, tasks)
    _began(ground, "a")
    under_way.process.send_signal(signal.SIGINT)
    wait_until(lambda: "starting nothing new" in under_way.err.read_text(), "the sentence")
    gate.touch()
    ended = under_way.ended()
    assert ended.status == 130
    recorded = machine.journal()
    assert [one.task for one in events_of(recorded, e.OrderSent)] == ["a"]
    assert [one.result.outcome for one in events_of(recorded, e.OrderAnswered)] == ["candidate"]
    assert recorded[-1].event == e.RunPaused(why="interrupted")
    assert f"forgepool resume {machine.the_run()}" in ended.out
    nothing_left(ground, machine)

    _resumed(machine, repository, "a", "b")
    assert [one.task for one in events_of(machine.journal(), e.OrderSent)] == ["a", "b"], "finished work is kept"
    nothing_left(ground, machine)


@pytest.mark.slow
def test_two_interrupts_stop_at_once(
    ground: Path, gate: Path, machine: Machine, repository: Repository, nothing_left: NothingLeft
) -> None:
    under_way, _ = _start(ground, machine, repository, [_held(ground, gate, "a"), _held(ground, gate, "b")])
    _began(ground, "a")
    under_way.process.send_signal(signal.SIGINT)
    wait_until(lambda: "starting nothing new" in under_way.err.read_text(), "the sentence")
    under_way.process.send_signal(signal.SIGINT)
    assert under_way.ended(within_s=15).status == 130
    nothing_left(ground, machine)

    gate.touch()
    _resumed(machine, repository, "a", "b")
    nothing_left(ground, machine)


def _asleep(ground: Path) -> list[Found]:
    return [one for one in in_role(ground, "other") if "sleep" in one.argv]


@pytest.mark.slow
def test_cancel_ends_the_whole_process_tree_of_a_running_task(
    ground: Path, gate: Path, machine: Machine, repository: Repository, nothing_left: NothingLeft
) -> None:
    script = f"setsid sleep 1000 & (sleep 1000 &) ; touch {ground}/began-long; sleep 1000"
    tasks: list[dict[str, Any]] = [
        {"id": "long", "files": ["l.txt"], "agent": command(script)},
        {"id": "after", "files": ["m.txt"], "needs": ["long"], "agent": command("echo x > m.txt")},
        {"id": "other", "files": ["o.txt"], "priority": -1, "agent": command("echo o > o.txt")},
    ]
    under_way, _ = _start(ground, machine, repository, tasks)
    _began(ground, "long")
    wait_until(lambda: len(_asleep(ground)) == 3, "three processes asleep")
    asked_at = time.monotonic()
    cancelled = machine.run("cancel", machine.the_run(), "long")
    assert cancelled.status == 0, cancelled.err
    wait_until(lambda: not _asleep(ground), "the end of all")
    assert time.monotonic() - asked_at < 10
    ended = under_way.ended()
    assert ended.status == 1
    (after,) = events_of(machine.journal(), e.TaskBlocked)
    assert (after.task, after.by) == ("after", "long")
    assert repository.landed(_BRANCH) == ["other"]
    nothing_left(ground, machine)


@pytest.mark.slow
def test_retry_after_a_mend_lands_the_task_and_what_it_blocked(
    ground: Path, gate: Path, machine: Machine, repository: Repository, nothing_left: NothingLeft
) -> None:
    tasks: list[dict[str, Any]] = [
        {"id": "one", "files": ["o.txt"], "attempts": 1, "agent": command(f"test -e {gate} && echo o > o.txt")},
        {"id": "two", "files": ["t.txt"], "needs": ["one"], "agent": command("cat o.txt > t.txt")},
    ]
    under_way, _ = _start(ground, machine, repository, tasks)
    assert under_way.ended().status == 1
    run = machine.the_run()
    assert repository.refs("refs/heads/forgepool") and repository.commits(_BRANCH) == []
    gate.touch()
    retried = machine.run("retry", run, "one", "--no-resume")
    assert retried.status == 0, retried.err
    assert f"forgepool resume {run}" in retried.out
    _resumed(machine, repository, "one", "two")
    again = machine.run("retry", run, "one")
    assert (again.status, "there is nothing to retry" in again.err) == (2, True)
    nothing_left(ground, machine)


@pytest.mark.slow
def test_a_second_orchestrator_on_a_live_run_is_refused(
    ground: Path, gate: Path, machine: Machine, repository: Repository
) -> None:
    under_way, _ = _start(ground, machine, repository, [_held(ground, gate, "a")])
    _began(ground, "a")
    run = machine.the_run()
    second = machine.run("resume", run)
    assert second.status == 2
    assert f"run {run} is being run by process {under_way.pid}" in second.err
    gate.touch()
    assert under_way.ended().status == 0
    assert repository.landed(_BRANCH) == ["a"]
    assert not list(events_of(machine.journal(), e.RunResumed))


@pytest.mark.soak
@pytest.mark.slow
def test_a_plan_edited_meanwhile_changes_nothing_and_is_told(
    ground: Path, gate: Path, machine: Machine, repository: Repository
) -> None:
    under_way, plan = _start(ground, machine, repository, [_held(ground, gate, "a"), _held(ground, gate, "b")])
    _began(ground, "a")
    plan.write_text(plan.read_text().replace("echo b >", "echo edited >"))
    under_way.process.send_signal(signal.SIGTERM)
    assert under_way.ended(within_s=15).status == 130
    gate.touch()
    said = _resumed(machine, repository, "a", "b")
    assert f"{plan} has changed since this run began; the run keeps its old plan" in said
    assert repository.file(_BRANCH, "b.txt") == "b"
