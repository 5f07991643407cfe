"""One survey for all tasks of a run: given, kept for the next run, corrected, and missed by none if it fails."""

import json
import os
import re
import time
from pathlib import Path

import pytest
from kit import Machine, Repository, command, events_of, write_plan
from models_kit import know, planning, writes
from vendors.answers import Say, Seen
from vendors.server import VendorServer
from vendors.wires.caches import PromptCaches

from forgepool.orchestrator.journal import events as e

pytestmark = pytest.mark.slow

_FOUND = "\n".join(f"- src/part{n}: what it does" for n in range(300))
_REPORT = """
turns:
  - calls:
      - tool: report
        summary: "Text files are in src."
        output: "THE WHOLE SURVEY"
        missing: []
        evidence: [{path: src/a.txt, lines: [1, 1]}, {path: src/b.txt}]
"""
_WORK = """
turns:
  - when: {shown_contains: "THE WHOLE SURVEY"}
    calls: [{tool: write_file, path: informed.txt, content: "yes\\n"}]
  - calls: [{tool: finish, summary: "done"}]
"""
_ALONE = """
turns:
  - calls: [{tool: write_file, path: alone.txt, content: "yes\\n"}]
  - calls: [{tool: finish, summary: "done"}]
"""


def _brain(seen: Seen) -> Say:
    if "report" in seen.tools:
        cited = [{"path": "README.md", "lines": [1, 1]}]
        report = {"summary": "Parts are in src.", "output": _FOUND, "missing": [], "evidence": cited}
        return Say(calls=[("report", report)])
    return writes(seen)


def _plan(ground: Path, name: str, survey: str, work: str, **more: object) -> Path:
    (ground / "survey.yaml").write_text(survey)
    (ground / "work.yaml").write_text(work)
    path = {_WORK: "informed.txt", _ALONE: "alone.txt"}[work]
    tasks = [{"id": "work", "files": [path], "agent": {"scripted": "work.yaml"}}]
    asked = {"agent": {"scripted": "survey.yaml"}}
    told = {"name": name, "checks": {"there": "test -f README.md"}, "review": "none", "survey": asked, "tasks": tasks}
    return write_plan(ground, told | more)


def _asked(server: VendorServer) -> list[Seen]:
    return [seen for seen in server.seen if "report" in seen.tools]


def test_all_tasks_get_one_survey_and_the_second_reads_it_from_the_cache(
    ground: Path, machine: Machine, repository: Repository
) -> None:
    agent = {"builtin": {"model": "model-anthropic", "hints": False}}
    tasks: list[dict[str, object]] = [{"id": task, "files": [f"{task}.txt"], "agent": agent} for task in ("one", "two")]
    tasks.append({"id": "plain", "files": ["plain.txt"], "agent": command("echo > plain.txt")})
    told = {"checks": {"there": "test -f README.md"}, "review": "none", "defaults": {"agent": agent}, "survey": True}
    with VendorServer(_brain) as server:
        know(machine, server)
        where = ("--repo", repository.path, "--workers", "1")
        ended = machine.run("run", write_plan(ground, {"name": "first", **told, "tasks": tasks}), *where)
        assert ended.status == 0, ended.out + ended.err
        assert len(_asked(server)) == 1 and server.invalid == []
        (run,) = machine.runs()
        began = [one.task for one in events_of(machine.journal(run), e.OrderSent)]
        assert sorted(began) == ["one", "plain", "survey", "two"]
        assert sorted(repository.landed("forgepool/first")) == ["one", "plain", "two"]

        caches, openings = PromptCaches(), []
        for seen in server.seen:
            tokens = caches.marked(seen.body, 1)
            if planning(seen) and not seen.answered:
                openings.append((seen.body["messages"][0]["content"], tokens))
        (first, _), (second, read) = openings
        survey = first[0]["text"]
        assert survey == second[0]["text"] and "    - src/part299: what it does" in survey
        assert first[1]["text"].startswith("# Task ") and first[1]["text"] != second[1]["text"]
        # The whole survey is read, and what is written is the second task's card alone.
        assert read.cached > len(survey) // 4 and read.written * 4 < len(json.dumps(second[1])) + 40

        used = {event.task: event.result.spent for event in events_of(machine.journal(run), e.OrderAnswered)}
        assert (used["survey"].cost_usd or 0) > 0
        again = machine.run("run", write_plan(ground, {"name": "second", **told, "tasks": tasks}), *where)
        assert again.status == 0, again.out + again.err
        assert len(_asked(server)) == 1, "the second run has asked for a survey again"
    assert f"survey: kept from run {run}, which surveyed the same tree; no model is asked" in again.out
    (second_run,) = set(machine.runs()) - {run}
    journal = machine.journal(second_run)
    assert "survey" not in [one.task for one in events_of(journal, e.OrderSent)]
    shown = {task["task"]: task for task in machine.run("status", second_run, "--json").answer["tasks"]}
    assert (shown["survey"]["phase"], shown["survey"]["attempts"]) == ("reported", 0)
    assert shown["survey"]["detail"] == f"kept from run {run}" and not shown["survey"]["used"]["cost_usd"]
    assert server.seen[-1].body["messages"][0]["content"][0]["text"] == survey


def test_on_another_tree_the_survey_is_corrected_and_a_damaged_one_is_ignored(
    ground: Path, machine: Machine, repository: Repository
) -> None:
    where = ("--repo", repository.path, "--workers", "1")
    assert machine.run("run", _plan(ground, "one", _REPORT, _WORK), *where).status == 0
    (kept,) = machine.home.glob("surveys/*/*.json")
    (first,) = machine.runs()
    before = repository.git("rev-parse", "main")
    repository.git("rm", "-q", "src/b.txt")
    repository.git("commit", "-q", "-m", "less")

    corrects = _REPORT.replace("turns:\n  - calls", f"turns:\n  - when: {{shown_contains: '{before}'}}\n    calls")
    corrects = corrects.replace(", {path: src/b.txt}", "")
    ended = machine.run("run", _plan(ground, "two", corrects, _WORK), *where)
    assert ended.status == 0, ended.out + ended.err
    assert f"survey: corrects that of run {first}; files that differ since: 1" in ended.out
    (second,) = set(machine.runs()) - {first}
    (found,) = events_of(machine.journal(second), e.SurveyFound)
    assert not found.stands and found.changed == ("src/b.txt",)
    assert [one.path for one in found.report.evidence] == ["src/a.txt"], "what does not hold any more is not passed on"
    card = (machine.home / "runs" / second / "logs/orders/survey/1/transcript.jsonl").read_text()
    assert "- src/b.txt" in card and "THE WHOLE SURVEY" in card and "Correct it, and do not begin from nothing" in card

    for path in kept.parent.glob("*.json"):
        path.write_text("{}")
    anew = machine.run("run", _plan(ground, "three", _REPORT.replace(", {path: src/b.txt}", ""), _WORK), *where)
    assert anew.status == 0, anew.out + anew.err
    assert anew.err.count("is damaged and not used; remove the file") == 2 and "Traceback" not in anew.err
    assert "survey" not in machine.run("clean", "--older", "0.001s").out, "one may be in use"
    for path in kept.parent.glob("*.json"):
        os.utime(path, (time.time() - 7200,) * 2)
    listed = machine.run("clean", "--older", "0.001s")
    assert re.search(r"2 surveys of .* no run has used since \d{4}-\d\d-\d\d \d\d:\d\d; --yes removes them", listed.out)
    removed = machine.run("clean", "--older", "0.001s", "--yes", "--json").answer
    assert [row["removed"] for row in removed if "survey" in row] == [True, True]
    assert list(machine.home.glob("surveys/*/*.json")) == []


def test_no_task_fails_with_the_survey(ground: Path, machine: Machine, repository: Repository) -> None:
    plan = _plan(ground, "alone", "turns:\n  - calls: [{tool: glob, pattern: '*'}]\n", _ALONE)
    ended = machine.run("run", plan, "--repo", repository.path, "--workers", "1")
    assert ended.status == 0, ended.out + ended.err
    assert repository.landed("forgepool/alone") == ["work"]
    run = machine.the_run()
    status = machine.run("status", run, "--json").answer
    shown = {task["task"]: task["phase"] for task in status["tasks"]}
    assert shown == {"survey": "failed", "work": "landed"} and status["outcome"] == "landed"
    assert "the run has ended: 1 landed, 0 not" in ended.out and "1 of 1 landed on" in ended.out
    assert machine.run("runs", "--json").answer[0]["done"] == "1/1" and status["total"] == 1
    verified = machine.run("verify", machine.home / "runs" / run / "report.json", "--repo", repository.path)
    assert "the verdict is" not in verified.out + verified.err
    words = "; the tasks go on without a survey"
    assert [task["task"] for task in status["tasks"] if words in task["detail"]] == ["survey"]
    told = machine.run("report", run).out.splitlines()
    assert [line.partition(":")[0] for line in told if line.endswith(words)] == ["- survey (failed)"]
    assert not list(machine.home.glob("surveys/*/*.json"))


@pytest.mark.parametrize("point", ["order.answered.unjournaled", "task.reported.journaled"])
def test_a_run_killed_around_its_survey_has_one_and_keeps_it(
    point: str, ground: Path, machine: Machine, repository: Repository
) -> None:
    machine.variables["FORGEPOOL_FAULT"] = f"{point}:{ground / 'died'}"
    machine.run("run", _plan(ground, "killed", _REPORT, _WORK), "--repo", repository.path, "--workers", "1")
    assert (ground / "died").exists()
    run = machine.the_run()
    resumed = machine.run("resume", run)
    assert resumed.status == 0, resumed.out + resumed.err
    journal = machine.journal()
    assert [one.task for one in events_of(journal, e.OrderSent)] == ["survey", "work"]
    assert len(list(events_of(journal, e.TaskReported))) == 1
    assert len(list(machine.home.glob("surveys/*/*.json"))) == 1
    assert repository.landed("forgepool/killed") == ["work"]
