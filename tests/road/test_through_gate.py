"""A run on a branch that a gate keeps, on another machine: it gives its candidates, and is told how they end."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

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


def nothing_left(gate: GateOf, run: str) -> None:
    """Neither of the run nor of what it gave, once the gate has swept; and nobody is told of what has ended."""
    gate.wait(lambda: not [one for one in gate.hub.refs("refs/forgepool") if run in one], "the run's refs to go")


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
    nothing_left(gate, run)


def test_a_run_that_dies_between_giving_and_being_told_gives_once(gate: GateOf) -> None:
    """Killed with the giving journaled and not pushed, then pushed, then answered and the answer not journaled."""
    before, there = gate.tip(), elsewhere(gate, "dying")
    plan = {"name": "d", "target": "main", "tasks": [task("once", "mkdir -p e; echo ok > e/once")]}
    words: tuple[str | Path, ...] = ("run", write_plan(there.folder, plan), "--repo", gate.hub.path, "--workers", "1")
    for point in ("entry.given.journaled", "entry.given.pushed", "entry.told.unjournaled"):
        there.variables["FORGEPOOL_FAULT"] = f"{point}:{there.folder / point}"
        ran = there.start(*words).ended()
        assert ran.status == -signal.SIGKILL, ran.out + ran.err
        words = ("resume", there.the_run())
    entry = f"{there.the_run()}-once"
    gate.wait_landed(entry)
    ran = there.start(*words).ended()
    assert ran.status == 0, ran.out + ran.err
    assert gate.landed(after=before) == [entry]
    assert [one.revision for one in events_of(gate.journal(), e.EntrySubmitted) if one.task == entry] == [1]
    assert [one.number for one in events_of(there.journal(), e.EntryGiven)] == [1]
    nothing_left(gate, there.the_run())


def test_what_is_cancelled_is_taken_out_of_the_gates_line(gate: GateOf) -> None:
    """In the middle of its trial there; the run ends only when the gate has let go of it."""
    there = elsewhere(gate, "cancelling")
    plan = {"name": "c", "target": "main", "tasks": [task("unwanted", "mkdir -p e; echo ok > e/unwanted")]}
    with gate.held("unwanted"):
        ran = there.start("run", write_plan(there.folder, plan), "--repo", gate.hub.path, "--workers", "1")
        entry = f"{there.the_run()}-unwanted"
        gate.phase(entry, "testing")
        assert f"at {gate.run}" in there.run("status").out
        there.run("cancel", there.the_run())
        gate.phase(entry, "cancelled")
        ended = ran.ended()
    assert ended.status == 1, ended.out + ended.err
    assert [type(one.event) for one in there.journal()][-3:] == [e.EntryTold, e.TaskCancelled, e.RunEnded]
    assert "unwanted" not in gate.here()
    gate.wait(lambda: not gate.hub.refs("refs/forgepool/for"), "no submission to be left")


def test_a_gate_that_dies_as_it_answers_is_asked_again_and_answers_nobody_twice(gate: GateOf) -> None:
    """The run ends without it; when it is kept again, it tells nobody who is not there any more."""
    there = elsewhere(gate, "bereft")
    gate.kill()
    gate.machine.variables["FORGEPOOL_FAULT"] = f"entry.answered.unjournaled:{gate.go / 'answered'}"
    gate.serve()
    gate.machine.variables.pop("FORGEPOOL_FAULT")
    daemon, gate.daemon = gate.daemon, None
    plan = {"name": "b", "target": "main", "tasks": [task("told", "mkdir -p e; echo ok > e/told")]}
    ran = there.run("run", write_plan(there.folder, plan), "--repo", gate.hub.path, "--workers", "1")
    assert ran.status == 0, ran.out + ran.err
    assert daemon is not None and daemon.ended().status == -signal.SIGKILL
    gate.serve()
    gate.wait_for(e.EntryAnswered, of=f"{there.the_run()}-told")
    nothing_left(gate, there.the_run())


def test_what_only_a_person_can_let_in_stops_the_run_and_lands_when_they_have(gate: GateOf) -> None:
    """A model's work, of a family that nobody else reviews at the gate, which says so; the run says where to speak."""
    there = elsewhere(gate, "seen")
    turns = [{"calls": [{"tool": "write_file", "path": "e/model", "content": "ok\n"}]}]
    script = {"turns": [*turns, {"calls": [{"tool": "finish", "summary": "written"}]}]}
    (there.folder / "model.script").write_text(json.dumps(script))
    asked = {"id": "model", "files": ["e/model"], "agent": {"scripted": "model.script"}, "description": "Write  it.\n"}
    plan = write_plan(there.folder, {"name": "m", "target": "main", "tasks": [asked]})
    ran = there.run("run", plan, "--repo", gate.hub.path, "--workers", "1")
    assert ran.status == 1, ran.out + ran.err
    run = there.the_run()
    entry, said = f"{run}-model", " ".join(ran.out.split())
    assert f"forgepool approve {gate.run} {entry} --by NAME" in said
    card = gate.state().submitted[entry].card
    assert card is not None and (card.description, card.files) == ("Write  it.\n", ("e/model",))
    refused = there.run("approve", run, "model", "--by", "Ann")
    assert (refused.status, f"say it there: forgepool approve {gate.run} {entry}" in refused.err) == (2, True)
    gate.asks("approve", entry)
    gate.wait_landed(entry)
    ended = there.run("resume", run)
    assert ended.status == 0, ended.out + ended.err
    assert f"landed by {gate.run}, as its entry {entry}" in there.run("report", run).out


def test_a_plan_whose_demands_the_gate_cannot_keep_to_is_refused_or_lands_past_it(gate: GateOf) -> None:
    """Neither dropped in silence nor landed by it; and who says so lands by a train of their own."""
    before, there = gate.tip(), elsewhere(gate, "apart")
    tidy = task("past", "mkdir -p e; echo ok > e/past")
    demanding = {"name": "a", "target": "main", "checks": {"own": "test -d e"}, "tasks": [tidy]}
    plan = write_plan(there.folder, demanding)
    words = ("run", plan, "--repo", gate.hub.path, "--workers", "1")
    refused = there.run(*words)
    assert (refused.status, there.runs()) == (2, [])
    assert "main is kept by" in refused.err and "or land past it with --own-train" in refused.err.replace("\n", " ")
    ran = there.run(*words, "--own-train")
    assert ran.status == 0, ran.out + ran.err
    assert gate.landed(after=before) == ["past"]
