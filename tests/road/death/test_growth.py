"""Tasks are added to a run at any time, and once, whatever dies."""

import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from kit import Machine, Repository, command, events_of, wait_until, write_plan

from forgepool.orchestrator.journal.events import TasksAdded

NothingLeft = Callable[[Path, Machine], None]

_PLAN = {
    "name": "grow",
    "checks": {"once": 'test -z "$(sort [a-z].txt | uniq -d)"'},
    "tasks": [
        {"id": "first", "files": ["a.txt"], "agent": command("sleep 5; echo a >> a.txt")},
        {"id": "second", "files": ["b.txt"], "needs": ["first"], "agent": command("sleep 1; echo b >> b.txt")},
    ],
}
_MORE = """\
tasks:
  - {id: third, needs: [first], files: [c.txt], agent: {command: "echo c >> c.txt"}}
  - {id: fourth, needs: [third, second], files: [d.txt], agent: {command: "echo d >> d.txt"}}
"""
_ALL = dict.fromkeys(("first", "second", "third", "fourth"), 1)


def _write(ground: Path, text: str = _MORE) -> Path:
    path = ground / "more.yaml"
    path.write_text(text)
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    "point", ["journaled", *(pytest.param(one, marks=pytest.mark.soak) for one in ("unjournaled", "order.sent"))]
)
def test_an_orchestrator_killed_beside_the_addition_adds_once(
    point: str, ground: Path, machine: Machine, repository: Repository, nothing_left: NothingLeft
) -> None:
    """Between the inbox and the journal; between the journal and the inbox; between the journal and the dispatch."""
    plan, more = write_plan(ground, _PLAN), _write(ground)
    machine.run("runs")  # Commands are quick from now on.
    fault = f"tasks.added.{point}" if point != "order.sent" else "tasks.added.none"
    machine.variables["FORGEPOOL_FAULT"] = f"{fault}:{ground / 'died'}"
    under_way = machine.start("run", plan, "--repo", repository.path, "--workers", "2")
    machine.wait_for("order.sent")
    run = machine.the_run()
    asked = machine.run("add", run, more, "--why", "there is more")
    assert asked.status == 0 and f"asked run {run} to add third, fourth" in asked.out, asked.err
    if point == "order.sent":
        machine.wait_for("order.sent", task="third")
        under_way.kill()
    else:
        wait_until(lambda: not under_way.running(), "the death of the orchestrator")
    again = machine.run("add", run, more)
    assert again.status == 2 and "the run has a task 'third' already; give this one another id" in again.err

    ended = machine.start("resume", run).ended(within_s=90)
    assert ended.status == 0, ended.out + ended.err
    assert Counter(repository.landed("forgepool/grow")) == _ALL
    additions = list(events_of(machine.journal(), TasksAdded))
    assert [(one.why, [task.id for task in one.tasks]) for one in additions] == [("there is more", ["third", "fourth"])]
    assert "fourth" in machine.run("report", run).out
    assert machine.run("verify", machine.home / "runs" / run / "report.json", "--repo", repository.path).status == 0
    nothing_left(ground, machine)


@pytest.mark.slow
def test_an_interrupted_and_an_ended_run_take_tasks_and_go_on(
    ground: Path, machine: Machine, repository: Repository, nothing_left: NothingLeft
) -> None:
    plan, more = write_plan(ground, _PLAN), _write(ground)
    under_way = machine.start("run", plan, "--repo", repository.path, "--workers", "2")
    machine.wait_for("order.sent")
    run = machine.the_run()
    under_way.process.send_signal(signal.SIGINT)
    assert under_way.ended().status == 130
    replaced = ground / "instead.yaml"
    replaced.write_text('tasks: [{id: second, needs: [first], files: [b.txt], agent: {command: "echo B >> b.txt"}}]')
    swapped = machine.run("add", run, replaced, "--drop", "second", "--json")
    assert swapped.answer["added"] == swapped.answer["dropped"] == ["second"]
    assert swapped.answer["continue"] == f"forgepool resume {run}"
    (ground / "beside.sh").write_text("echo hi\n")
    ground.joinpath("with.yaml").write_text('tasks: [{id: x, needs: [first], agent: {command: "sh beside.sh"}}]')
    beside = machine.run("add", run, ground / "with.yaml")
    assert beside.status == 2 and "commit it there: no file travels with added tasks" in beside.err
    late = machine.run("add", run, replaced, "--drop", "first")
    assert late.status == 2 and "only a task that has not begun can be dropped" in late.err

    assert machine.run("resume", run).status == 0
    assert repository.file("forgepool/grow", "b.txt") == "B"
    said = machine.run("add", run, more)
    assert said.status == 0 and f"continue with: forgepool resume {run}" in said.out
    assert machine.run("status", run, "--json").answer["outcome"] == "paused"
    assert machine.run("resume", run).status == 0
    assert Counter(repository.landed("forgepool/grow")) == _ALL
    nothing_left(ground, machine)
