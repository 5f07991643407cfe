"""Tasks that answer: they report what the harness has looked up, land nothing, and pass the answer on."""

import os
import signal
from pathlib import Path

import pytest
from kit import Machine, Repository, events_of, wait_until, write_plan

from forgepool.orchestrator.journal import events as e

pytestmark = pytest.mark.slow

_BRANCH = "forgepool/answers"
_REPORT = """
  - calls:
      - tool: report
        summary: "The greeting is in README.md."
        output: "THE WHOLE ANSWER"
        missing: ["who reads it"]
        evidence: [{path: README.md, lines: [1, 1]}]
"""
_WRONG = """
  - calls:
      - tool: report
        summary: "Somewhere."
        missing: []
        evidence: [{path: NOWHERE.md}, {path: README.md, lines: [1, 900]}, {commit: abcdefabcdef}, {task: other}]
"""
_USE = """
turns:
  - when: {shown_contains: "THE WHOLE ANSWER"}
    calls: [{tool: write_file, path: used.txt, content: "used\\n"}]
  - calls: [{tool: finish, summary: "used"}]
"""
_ASKS = {"id": "survey", "answers": True, "agent": {"scripted": "survey.yaml"}}
_USES = {"id": "use", "needs": ["survey:full"], "files": ["used.txt"], "agent": {"scripted": "use.yaml"}}


def _plan(ground: Path, *turns: str) -> Path:
    (ground / "survey.yaml").write_text("turns:" + "".join(turns))
    (ground / "use.yaml").write_text(_USE)
    told = {"name": "answers", "checks": {"sound": "test -f README.md"}, "review": "none", "tasks": [_ASKS, _USES]}
    return write_plan(ground, told)


def test_an_answer_is_looked_up_reported_and_passed_on_and_nothing_of_it_lands(
    ground: Path, machine: Machine, repository: Repository
) -> None:
    ended = machine.run("run", _plan(ground, _WRONG, _REPORT), "--repo", repository.path, "--workers", "2")
    assert ended.status == 0, ended.out + ended.err
    run = machine.the_run()
    assert "survey: reported: The greeting is in README.md." in ended.out
    assert "2 of 2 done: 1 landed, 1 reported on forgepool/" in ended.out
    assert repository.landed(_BRANCH) == ["use"]
    assert repository.file(_BRANCH, "used.txt") == "used"
    # The first form is not accepted: each wrong citation is named.
    told = machine.run("transcript", run, "survey").out
    assert "the report is not accepted: there is no file 'NOWHERE.md' at the base commit" in told
    assert "'README.md' has " in told and "and no lines 1 to 900" in told
    assert "'abcdefabcdef' is no commit of this repository" in told
    assert "'other' is no task that this one needs; those are: none" in told

    journal = machine.journal()
    (reported,) = events_of(journal, e.TaskReported)
    assert reported.report.output == "THE WHOLE ANSWER"
    began = [one.task for one in events_of(journal, e.OrderSent)]
    assert began == ["survey", "use"]
    kinds = [one.event.kind for one in journal]
    assert kinds.index("task.reported") < kinds.index("order.sent", kinds.index("order.sent") + 1)
    assert not [one for one in events_of(journal, e.EntryQueued) if one.task == "survey"]
    kept = machine.home / "runs" / run / "results" / "survey.md"
    assert "THE WHOLE ANSWER" in kept.read_text() and "README.md:1-1" in kept.read_text()
    report = machine.run("report", run).out
    assert "## Reported" in report and "results/survey.md" in report

    again = machine.run("retry", run, "survey")
    assert again.status == 0, again.err
    resumed = machine.run("resume", run)
    assert resumed.status == 0, resumed.out + resumed.err
    assert len(list(events_of(machine.journal(), e.TaskReported))) == 2
    assert repository.landed(_BRANCH) == ["use"]


def test_a_worker_killed_while_it_answers_goes_on_and_reports_once(
    ground: Path, machine: Machine, repository: Repository
) -> None:
    slow = "\n  - calls: [{tool: glob, pattern: '*'}]\n  - pause_s: 4\n    calls: [{tool: read_file, path: README.md}]"
    under_way = machine.start("run", _plan(ground, slow, _REPORT), "--repo", repository.path, "--workers", "2")
    taken = machine.wait_for("message.taken", task="survey").event
    assert isinstance(taken, e.MessageTaken)
    folder = machine.home / "runs" / machine.the_run() / "logs" / "orders" / "survey" / "1"
    wait_until(lambda: '"answered"' in _text(folder / "transcript.jsonl"), "the first turn")
    os.kill(taken.pid, signal.SIGKILL)
    ended = under_way.ended()
    assert ended.status == 0, ended.out + ended.err
    journal = machine.journal()
    assert len(list(events_of(journal, e.TaskReported))) == 1
    second = [one for one in events_of(journal, e.OrderSent) if one.task == "survey"][-1]
    assert (second.attempt, second.resumes) == (2, 1)
    assert repository.landed(_BRANCH) == ["use"]


def test_a_run_without_its_answer_says_what_did_not_report_and_tells_no_refs_of_it(
    ground: Path, machine: Machine, repository: Repository
) -> None:
    ended = machine.run("run", _plan(ground, '\n  - say: "hm"\n  - say: "hm"\n'), "--repo", repository.path)
    assert ended.status == 1, ended.out + ended.err
    assert "use: blocked: it needs 'survey', which did not report" in ended.out
    assert "0 of 2 landed on forgepool/answers" in ended.out
    assert "kept:" not in ended.out


@pytest.mark.parametrize("point", ["order.answered.unjournaled", "task.reported.journaled"])
def test_a_run_killed_over_a_report_has_it_once_and_in_its_folder(
    point: str, ground: Path, machine: Machine, repository: Repository
) -> None:
    machine.variables["FORGEPOOL_FAULT"] = f"{point}:{ground / 'died'}"
    machine.run("run", _plan(ground, _REPORT), "--repo", repository.path, "--workers", "2")
    assert (ground / "died").exists()
    run = machine.the_run()
    resumed = machine.run("resume", run)
    assert resumed.status == 0, resumed.out + resumed.err
    journal = machine.journal()
    assert len(list(events_of(journal, e.TaskReported))) == 1
    assert len([one for one in events_of(journal, e.OrderSent) if one.task == "survey"]) == 1
    assert "THE WHOLE ANSWER" in (machine.home / "runs" / run / "results" / "survey.md").read_text()


def _text(path: Path) -> str:
    return path.read_text() if path.is_file() else ""
