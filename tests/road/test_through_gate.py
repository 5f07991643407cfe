"""A run on a branch that a gate keeps, on another machine: it gives its candidates, and is told what becomes of them."""

from collections.abc import Iterator

import pytest
from gate_kit import GateOf, kept_gate
from kit import Machine, command, events_of, write_plan

from orchestrator import events as e

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def kept(redis_program: str) -> Iterator[GateOf]:
    """One for the module: a daemon takes seconds to start."""
    with kept_gate() as gate:
        yield gate


@pytest.fixture
def gate(kept: GateOf) -> Iterator[GateOf]:
    yield kept
    kept.tidy()


def elsewhere(gate: GateOf, name: str) -> Machine:
    """A machine that shares nothing with the gate's but the hub."""
    folder = gate.machine.folder.parent / name
    folder.mkdir()
    return Machine(folder=folder, name=name, variables=dict(gate.machine.variables))


def task(name: str, script: str, *needs: str, **said: object) -> dict[str, object]:
    return {"id": name, "agent": command(script), "files": [f"e/{name}"], "needs": list(needs), **said}


def mended(name: str, folder: object) -> str:
    """Bad at first, and good the second time."""
    return f"mkdir -p e; mkdir {folder}/{name} 2>/dev/null && echo bad > e/{name} || echo ok > e/{name}"


def test_a_runs_tasks_land_by_the_gate_and_what_it_returns_is_mended(gate: GateOf) -> None:
    """Two land, one of them behind its need; one comes back with the gate's reasons and lands at its second attempt."""
    before, there = gate.tip(), elsewhere(gate, "there")
    plan = {
        "name": "p",
        "target": "main",
        "tasks": [
            task("one", "mkdir -p e; echo ok > e/one"),
            task("two", "test -e e/one && echo ok > e/two", "one"),
            task("three", mended("three", there.folder)),
        ],
    }
    ran = there.run("run", write_plan(there.folder, plan), "--repo", gate.hub.path, "--workers", "2")
    assert ran.status == 0, ran.out + ran.err
    run = there.the_run()
    assert sorted(gate.landed(after=before)) == [f"{run}-{one}" for one in ("one", "three", "two")]
    assert gate.landed(after=before).index(f"{run}-one") < gate.landed(after=before).index(f"{run}-two")
    journal = there.journal()
    assert not list(events_of(journal, e.LandingIntended)) and not list(events_of(journal, e.CheckSent))
    returned = next(events_of(journal, e.TaskReturned))
    assert (returned.task, returned.reason.attempt, returned.reason.kind) == ("three", 1, "check_failed")
    assert "e/three is bad" in returned.reason.log_tail
    gate.waits_for_no_refs()
    assert not gate.hub.refs(f"refs/forgepool/{run}")
