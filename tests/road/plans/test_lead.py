"""A task that leads its run: it dispatches tasks, rests until they have results, and ends with a proven synthesis."""

from pathlib import Path

import pytest
import yaml
from kit import Machine, Repository, command, events_of, write_plan
from lead_kit import (
    BRANCH,
    BRIEF,
    BRIEF_ON_WHOLE,
    CHECKPOINT,
    COLLECT_ALL,
    DISPATCH,
    FRAME,
    READ,
    SYNTHESIZE,
    WORKERS,
    write_led_plan,
)

from forgepool.orchestrator.journal import events as e

pytestmark = pytest.mark.slow
EXAMPLE = Path(__file__).parents[3] / "examples" / "lead-plan.yaml"


def test_a_lead_goes_from_its_frame_to_a_proven_synthesis(
    ground: Path, machine: Machine, repository: Repository
) -> None:
    early = (DISPATCH, FRAME, DISPATCH, COLLECT_ALL, BRIEF, CHECKPOINT, READ, SYNTHESIZE, BRIEF_ON_WHOLE, SYNTHESIZE)
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
    _is_proven(machine, run)


def _is_proven(machine: Machine, run: str) -> None:
    """The synthesis names what landed; a claim that names no task is struck, and said to be."""
    synthesis = (machine.home / "runs" / run / "synthesis.md").read_text()
    assert "> - `fix` landed: greeting.txt holds it." in synthesis.splitlines()
    kept, _, struck = synthesis.partition("### Not confirmed")
    assert "tested and green" not in kept
    assert "- All of it is tested and green. (it names no task in backticks and no commit)" in struck
    report = machine.run("report", run).out
    assert report.index("## Synthesis") < report.index("## Landed")
    assert "> - `fix` landed: greeting.txt holds it." in report
    page = (machine.home / "runs" / run / "report.html").read_text()
    quoted, _, outside = page.partition("<blockquote>")[2].partition("</blockquote>")
    assert "`fix` landed: greeting.txt holds it." in quoted
    assert "<h3>Not confirmed</h3>" in outside
    bundle = machine.run("report", run, "--json").answer
    assert "> - `fix` landed: greeting.txt holds it." in bundle["synthesis"]
    brief = machine.run("brief", run).out
    assert f"run {run}: 'lead' is reported" in brief
    assert brief.index("frame, ") < brief.index("checkpoint, ") < brief.index("brief, ") < brief.index("synthesis")
    assert "- the greeting is in README.md" in brief
    told = machine.run("brief", run, "--json").answer
    assert [note["kind"] for note in told["notes"]] == ["frame", "checkpoint", "brief"]


def test_the_example_of_a_lead_runs_on_a_repository_with_a_readme(machine: Machine, repository: Repository) -> None:
    ended = machine.run("run", EXAMPLE, "--repo", repository.path)
    assert ended.status == 0, ended.out + ended.err
    run = machine.the_run()
    assert repository.landed("forgepool/lead") == ["excerpt"]
    assert repository.file("forgepool/lead", "first-line.txt") == "read me"
    synthesis = (machine.home / "runs" / run / "synthesis.md").read_text()
    kept, _, struck = synthesis.partition("### Not confirmed")
    assert "- `excerpt` landed: first-line.txt holds that line." in kept
    assert "- All of it is tested and green. (it names no task in backticks and no commit)" in struck
    # A lead that has rested twice is in its third attempt, of two that it may take.
    row = next(line.split() for line in machine.run("status", run).out.splitlines() if line.startswith("lead "))
    assert row[:3] == ["lead", "3", "reported"]


def test_a_persons_word_reaches_a_lead_that_rests(ground: Path, machine: Machine, repository: Repository) -> None:
    gate = ground / "gate"
    waits = {"tool": "bash", "command": f"until test -e {gate}; do sleep 0.1; done"}
    held = yaml.safe_load(WORKERS)
    held["turns"].insert(0, {"when": {"shown_contains": "# Task fix"}, "calls": [waits]})
    hears = {"when": {"shown_contains": "A person says (ann): be brief"}, "calls": [COLLECT_ALL]}
    calls = (FRAME, DISPATCH, COLLECT_ALL, hears, CHECKPOINT, BRIEF, SYNTHESIZE)
    plan = write_led_plan(ground, *calls, workers=yaml.safe_dump(held))
    under_way = machine.start("run", plan, "--repo", repository.path, "--workers", "2", "--sandbox", "off")
    machine.wait_for("task.reported", task="survey")
    run = machine.the_run()
    said = machine.run("say", run, "be brief", "--by", "ann")
    assert (said.status, said.out) == (
        0,
        f"asked run {run} to hear it; if it ends before it reads this: forgepool resume {run}\n",
    )
    machine.wait_for("lead.spoken")
    machine.wait_for("lead.replied", count=2)
    gate.touch()
    ended = under_way.ended()
    assert ended.status == 0, ended.out + ended.err
    assert "ann says to lead: be brief" in ended.out
    late = machine.run("say", run, "too late")
    assert (late.status, "'lead', which led run" in late.err) == (2, True)
    assert repository.landed(BRANCH) == ["fix"]


def test_say_and_brief_of_a_run_without_a_lead_are_refused(
    ground: Path, machine: Machine, repository: Repository
) -> None:
    tasks = [{"id": "a", "files": ["a.txt"], "agent": command("echo a > a.txt")}]
    plan = write_plan(ground, {"name": "alone", "checks": "none", "tasks": tasks})
    assert machine.run("run", plan, "--repo", repository.path).status == 0
    for words in (("say", machine.the_run(), "hello"), ("brief", machine.the_run())):
        refused = machine.run(*words)
        assert refused.status == 2
        assert "has no task that leads it; a task with 'leads: true' in its plan would" in refused.err


def test_a_question_is_answered_without_dispatching_anything(
    ground: Path, machine: Machine, repository: Repository
) -> None:
    looked = {"tool": "read_file", "path": "README.md"}
    plan = write_led_plan(ground, looked, {"tool": "answer", "text": "The greeting is in README.md."})
    ended = machine.run("run", plan, "--repo", repository.path)
    assert ended.status == 0, ended.out + ended.err
    assert "lead: reported: The greeting is in README.md." in ended.out
    assert "The greeting is in README.md." in machine.run("report", machine.the_run()).out


def test_a_lead_that_adds_nothing_and_answers_nothing_has_failed(
    ground: Path, machine: Machine, repository: Repository
) -> None:
    plan = write_led_plan(ground, FRAME, {"say": "I am done."}, {"say": "Really."}, {"say": "Truly."})
    ended = machine.run("run", plan, "--repo", repository.path)
    assert ended.status == 1, ended.out + ended.err
    (failed,) = events_of(machine.journal(), e.TaskFailed)
    assert failed.reason.summary == "the model twice answered without calling a tool"
    assert "No synthesis: 'lead', which led the run, is failed." in machine.run("report", machine.the_run()).out
