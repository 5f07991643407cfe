"""Workflows in whole runs with real workers, one of which is killed in the middle of a phase."""

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from kit import Machine, Repository, events_of, wait_until, write_plan
from models_kit import know
from processes import in_role
from vendors.answers import Call, Say, Seen
from vendors.server import VendorServer

from forgepool.orchestrator.journal import events as e

NothingLeft = Callable[[Path, Machine], None]
TEST = "grep -q new src/a.txt || { echo 'there is no new line'; exit 1; }\n"
REPORT = {"summary": "old is in src/a.txt", "missing": [], "evidence": [{"path": "src/a.txt", "lines": [1, 1]}]}
PHASES: dict[str, tuple[str, list[Call]]] = {
    "red": (
        "Write the test alone",
        [
            ("write_file", {"path": "tests.sh", "content": TEST}),
            ("confirm_red_phase", {"command": "sh tests.sh", "expect": "there is no new line"}),
            ("finish", {"summary": "it fails"}),
        ],
    ),
    "green": (
        "Make the failing test pass",
        [
            ("bash", {"command": "echo new >> src/a.txt"}),
            ("bash", {"command": "echo and more >> src/a.txt"}),
            ("finish", {"summary": "it passes"}),
        ],
    ),
    "refactor": (
        "improve how it reads",
        [("bash", {"command": "echo nothing > src/a.txt"}), ("finish", {"summary": "shorter"})],
    ),
    "scan": ("Look for every fault", [("report", REPORT)]),
    "plan": ("Plan the repair", [("commit_plan", {"plan": "add a line", "files_to_modify": ["src/b.txt"]})]),
    "repair": (
        "Repair what the plan names",
        [("bash", {"command": "echo repaired > src/b.txt"}), ("finish", {"summary": "repaired"})],
    ),
}
"""Of each phase, words of its instructions and the calls of its model, one a turn."""


def phase_of(seen: Seen) -> str:
    (name,) = [name for name, (mark, _) in PHASES.items() if mark in seen.system]
    return name


@pytest.mark.soak
@pytest.mark.slow
def test_a_killed_worker_costs_no_phase_of_a_workflow(
    ground: Path, machine: Machine, repository: Repository, nothing_left: NothingLeft
) -> None:
    """Another process goes on in the same phase, with the files of the last turn; a red refactoring is undone."""
    thinking, released = threading.Event(), threading.Event()

    def brain(seen: Seen) -> Say:
        name = phase_of(seen)
        if name == "green" and seen.answered == 1 and not thinking.is_set():
            thinking.set()
            released.wait(30)
        return Say(calls=[PHASES[name][1][seen.answered]])

    with VendorServer(brain, models=["model-anthropic"]) as server:
        know(machine, server)
        plan = {
            "name": "flows",
            "checks": {"there": "ls src"},
            "progress": "turn",
            "review": "none",
            "tasks": [
                {
                    "id": "test-first",
                    "files": ["src/a.txt", "tests.sh"],
                    "agent": {"builtin": {"workflow": "red-green-refactor"}},
                },
                {
                    "id": "repair",
                    "needs": ["test-first"],
                    "files": ["src/b.txt"],
                    "acceptance": ["grep -q repaired src/b.txt"],
                    "agent": {"builtin": {"workflow": "scan-and-repair"}},
                },
            ],
        }
        under_way = machine.start("run", write_plan(ground, plan), "--repo", repository.path, "--workers", "2")
        assert thinking.wait(60), under_way.said()
        kept = f"refs/forgepool/{machine.the_run()}/progress/test-first/1:files/src/a.txt"
        wait_until(lambda: "new" in repository.git("show", kept), "the first turn of the second phase in the hub")
        (working,) = in_role(ground, "working")
        working.kill()
        machine.wait_for("order.sent", count=2)
        released.set()
        ended = under_way.ended()
        assert ended.status == 0, ended.out + ended.err
        assert server.invalid == []
        asked = Counter((phase_of(seen), seen.answered) for seen in server.seen)
    assert [asked["red", turn] for turn in range(3)] == [1, 1, 1] and asked["green", 0] == 1
    assert asked["green", 1] == 2, "only the turn that was never answered is asked again"
    assert repository.landed("forgepool/flows") == ["test-first", "repair"]
    assert repository.file("forgepool/flows", "src/a.txt").split("\n")[-2:] == ["new", "and more"]
    assert repository.file("forgepool/flows", "src/b.txt") == "repaired"
    answers = [event.result for event in events_of(machine.journal(), e.OrderAnswered)]
    (first,) = [result for result in answers if result.order_id.split(".")[-2] == "test-first" and result.commit]
    assert (first.includes, first.claimed_summary) == ((1,), "it passes")
    shown = machine.run("transcript", machine.the_run(), "test-first")
    assert shown.status == 0 and "=== GREEN of" in shown.out and "=== undone, the files are" in shown.out
    nothing_left(ground, machine)
