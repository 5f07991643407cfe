"""A run on another machine, on a branch that a queue serves: it submits its candidates and learns how they end."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gate_kit import GateOf, kept_gate
from kit import Machine, Ran, command, events_of, write_plan

from forgepool.orchestrator.journal import events as e

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def gate(redis_program: str) -> Iterator[GateOf]:
    """Yield one queue for the module, because a daemon takes seconds to start."""
    with kept_gate() as gate:
        yield gate


def elsewhere(gate: GateOf, name: str) -> Machine:
    """Make a machine that shares only the hub with the queue's machine."""
    folder = gate.machine.folder.parent / name
    folder.mkdir()
    return Machine(folder=folder, name=name, variables=dict(gate.machine.variables))


def task(name: str, script: str, *needs: str) -> dict[str, Any]:
    return {"id": name, "agent": command(f"mkdir -p e; {script}"), "files": [f"e/{name}"], "needs": list(needs)}


def model(folder: Path) -> dict[str, Any]:
    """
    Return a task whose author's family is in no model table, so no reviewer can be proved to be of another family.
    """
    calls = [{"tool": "write_file", "path": "e/model", "content": "ok\n"}, {"tool": "finish", "summary": "written"}]
    (folder / "model.script").write_text(json.dumps({"turns": [{"calls": [one]} for one in calls]}))
    return {"id": "model", "files": ["e/model"], "agent": {"scripted": "model.script"}, "description": "Write  it.\n"}


def ended(machine: Machine, status: int, *words: str | Path, dies_at: str = "") -> Ran:
    machine.variables.pop("FORGEPOOL_FAULT", None)
    if dies_at:
        machine.variables["FORGEPOOL_FAULT"] = f"{dies_at}:{machine.folder / dies_at}"
    ran = machine.start(*words).ended()
    assert ran.status == status, ran.out + ran.err
    return ran


@pytest.mark.soak
def test_a_run_on_a_gated_branch_lands_by_the_gate_whatever_dies_meanwhile(gate: GateOf) -> None:
    """
    Kill the run before it pushes an entry and before it journals an answer: each candidate is submitted once.

    A returned entry is mended, an entry that waits for a person says so, and a cancelled one leaves the queue.
    """
    before, there = gate.tip(), elsewhere(gate, "there")
    twice = 'grep -q "check .entries. exited" "$FORGEPOOL_REASONS" && echo ok > e/three || echo bad > e/three'
    tasks = [
        task("one", "echo ok > e/one"),
        task("two", "test -e e/one && echo ok > e/two", "one"),
        task("three", twice) | {"attempts": 2},
        task("unwanted", "echo ok > e/unwanted"),
        model(there.folder),
    ]
    plan = write_plan(there.folder, {"name": "p", "target": "main", "tasks": tasks})
    words = ("run", plan, "--repo", gate.hub.path, "--workers", "3")
    with gate.held("unwanted"):
        ended(there, -signal.SIGKILL, *words, dies_at="entry.given.journaled")
        run = there.the_run()
        ended(there, -signal.SIGKILL, "resume", run, dies_at="entry.told.unjournaled")
        there.run("cancel", run, "unwanted")
        said = " ".join(ended(there, 1, "resume", run).out.split())
        assert f"forgepool approve {gate.run} {run}--model --by NAME" in said
        refused = there.run("approve", run, "model", "--by", "Ann")
        assert (refused.status, f"say it there: forgepool approve {gate.run} {run}--model" in refused.err) == (2, True)
        gate.asks("approve", f"{run}--model")
        gate.wait_landed(f"{run}--model")
        ended(there, 1, "resume", run)
    _assert_landed(gate, there, run, before)
    _assert_told(gate, there, run)
    gate.wait(lambda: not _left(gate, run), "the refs of what has landed to go")
    again = write_plan(there.folder, {"name": "p", "target": "main", "tasks": tasks[:2]})
    told = ended(there, 0, "run", again, "--repo", gate.hub.path, "--json").answer["tasks"]
    assert [one["phase"] for one in told] == ["already_there", "already_there"], "the gate has landed them before"


def _assert_landed(gate: GateOf, there: Machine, run: str, before: str) -> None:
    landed = gate.landed(after=before)
    assert sorted(landed) == [f"{run}--{one}" for one in ("model", "one", "three", "two")]
    assert landed.index(f"{run}--one") < landed.index(f"{run}--two")
    journal = there.journal()
    assert not list(events_of(journal, e.LandingIntended)) and not list(events_of(journal, e.CheckSent))
    given = [(one.task, one.number) for one in events_of(journal, e.EntryGiven)]
    taken = [one.task.removeprefix(f"{run}--") for one in events_of(gate.journal(), e.EntrySubmitted)]
    assert len(given) == len({*given}), "nothing is given twice under one number"
    assert sorted(taken) == sorted(one for one, _ in given if one != "unwanted" or one in taken)


def _assert_told(gate: GateOf, there: Machine, run: str) -> None:
    (returned,) = events_of(there.journal(), e.TaskReturned)
    # The worker of its first attempt may have been among the dead; that costs it none, and the number is one higher.
    assert (returned.task, returned.reason.kind) == ("three", "check_failed") and returned.reason.attempt in (1, 2)
    assert "e/three is bad" in returned.reason.log_tail
    card = gate.state().submitted[f"{run}--model"].card
    assert card is not None and (card.description, card.files) == ("Write  it.\n", ("e/model",))
    report = there.run("report", run).out
    assert f"landed by {gate.run}, as its entry {run}--model" in report
    assert "approved by someone" in report and "unwanted (cancelled)" in report, report
    for machine, name, said in ((there, run, "see its own report"), (gate.machine, gate.run, "4 landings, exactly")):
        bundle = machine.folder / "bundle.json"
        bundle.write_text(machine.run("report", name, "--json").out)
        proof = machine.run("verify", bundle, "--repo", gate.hub.path)
        assert proof.status == 0 and said in proof.out, proof.out + proof.err


def _left(gate: GateOf, run: str) -> list[str]:
    """Return the refs of work that did not land, and of the queue's pin of it."""
    return [one for one in gate.hub.refs("refs/forgepool") if run in one and "unwanted" not in one]


def test_a_plan_whose_demands_the_gate_cannot_keep_to_is_refused(gate: GateOf) -> None:
    """The check in the plan is not ignored, and the run does not land past the queue."""
    there = elsewhere(gate, "apart")
    plan = {"name": "a", "target": "main", "checks": {"own": "test -d e"}, "tasks": [task("past", "true")]}
    refused = ended(there, 2, "run", write_plan(there.folder, plan), "--repo", gate.hub.path, "--dry-run")
    assert there.runs() == []
    said = " ".join(refused.err.split())
    assert f"main is kept by {gate.run}" in said and "or land past it with --own-train" in said
