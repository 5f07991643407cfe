"""A task that leads its run: it dispatches tasks, rests until they have results, and ends with a proven synthesis."""

from pathlib import Path

import pytest
from kit import Machine, Repository, events_of
from lead_kit import (
    BRANCH,
    BRIEF,
    CHECKPOINT,
    COLLECT_ALL,
    DISPATCH,
    FRAME,
    READ,
    SYNTHESIZE,
    write_led_plan,
)

from forgepool.orchestrator.journal import events as e

pytestmark = pytest.mark.slow


def test_a_lead_goes_from_its_frame_to_a_proven_synthesis(
    ground: Path, machine: Machine, repository: Repository
) -> None:
    early = (DISPATCH, FRAME, DISPATCH, COLLECT_ALL, BRIEF, CHECKPOINT, READ, SYNTHESIZE, BRIEF, SYNTHESIZE)
    plan = write_led_plan(ground, *early)
    ended = machine.run("run", plan, "--repo", repository.path, "--workers", "2")
    assert ended.status == 0, ended.out + ended.err
    run = machine.the_run()
    assert repository.landed(BRANCH) == ["fix"]
    assert repository.file(BRANCH, "greeting.txt") == "hello"
    (added,) = events_of(machine.journal(), e.TasksAdded)
    assert ([task.id for task in added.tasks], added.by, added.request) == (["survey", "fix"], "lead", "lead#1")
    told = machine.run("transcript", run, "lead").out
    # Each rule is kept by the harness: what comes too early is refused, with what comes first.
    assert "not run: there is no frame yet; call `frame` first" in told
    assert "results are collected" in told and "call `checkpoint` first" in told
    assert "not run: there is no brief that is newer than the last result" in told
    assert "Added: survey, fix." in told
    assert "survey | reported | no commit | nothing red | 0.00 USD | missing 1 | The greeting is in README.md." in told
    assert "THE WHOLE ANSWER" in told
