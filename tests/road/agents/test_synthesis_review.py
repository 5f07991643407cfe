"""A model of another family holds a lead's synthesis against the results, and what it says is told on every face."""

import json
from pathlib import Path

import pytest
from kit import Machine, Repository, events_of
from lead_kit import OBJECTION, SHORT, write_led_plan, write_reviewed_plan

from forgepool.orchestrator.journal import events as e

pytestmark = pytest.mark.slow


def _run(machine: Machine, repository: Repository, plan: Path, *more: str) -> str:
    ended = machine.run("run", plan, "--repo", repository.path, "--workers", "2", *more)
    assert ended.status == 0, ended.out + ended.err + machine.logs()
    return machine.the_run()


def test_an_objection_is_told_beside_the_synthesis_on_every_face(
    ground: Path, machine: Machine, repository: Repository
) -> None:
    plan = write_reviewed_plan(ground, OBJECTION, {"quote": "It is all wrong.", "why": "so"})
    run = _run(machine, repository, plan)
    (answer,) = (one for one in events_of(machine.journal(), e.ReviewAnswered) if one.task == "lead")
    assert answer.result.outcome == "failed" and answer.result.families == ("gpt",)
    who = "A model of another family, scripted (gpt), has held it against the results, and objects to 1 sentence."
    left_out = "1 more objection quoted no sentence of it, and is left out."
    faces = (
        (machine.home / "runs" / run / "synthesis.md").read_text(),
        machine.run("report", run).out,
        machine.run("brief", run).out,
    )
    for face in faces:
        assert f"{who} {left_out}" in face
        assert f'- "{OBJECTION["quote"]}": {OBJECTION["why"]}' in face and "### Objections" in face
        assert f"> {OBJECTION['quote']}" in face
    page = (machine.home / "runs" / run / "report.html").read_text()
    assert page.index("<h3>Objections</h3>") < page.index("<h2>Landed") and OBJECTION["why"] in page
    bundle = json.loads((machine.home / "runs" / run / "report.json").read_text())
    for told in (bundle, machine.run("brief", run, "--json").answer):
        review = told["synthesis_review"]
        assert (review["outcome"], review["families"], review["dropped"]) == ("objects", ["gpt"], 1)
        assert review["objections"] == [OBJECTION]
    assert bundle["verdict"] == "3 of 3 tasks done: 1 landed on forgepool/led, 2 reported"
    proven = machine.run("verify", machine.home / "runs" / run / "report.json", "--repo", repository.path)
    assert proven.status == 0, proven.out + proven.err
    said = machine.run("events", run).out
    assert "lead: scripted objects to 1 sentence of its synthesis" in said
    log = (machine.home / "runs" / run / "logs" / "reviews" / answer.result.request_id / "1-gpt.log").read_text()
    # It is shown the text as it was proven, and the whole answer behind the summary.
    assert "THE WHOLE ANSWER" in log and "All of it is tested and green. (it names no task" in log


def test_a_reviewer_that_agrees_is_named(ground: Path, machine: Machine, repository: Repository) -> None:
    run = _run(machine, repository, write_reviewed_plan(ground))
    told = machine.run("brief", run, "--json").answer
    assert told["synthesis_review"]["outcome"] == "agrees"
    said = "A model of another family, scripted (gpt), has held it against the results, and objects to nothing in it."
    assert said in told["synthesis"]
    assert "### Objections" not in told["synthesis"]


def test_a_reviewer_of_the_leads_own_family_is_not_asked(
    ground: Path, machine: Machine, repository: Repository
) -> None:
    run = _run(machine, repository, write_reviewed_plan(ground, OBJECTION, road=SHORT, family="scripted"))
    why = "no model of another family could be asked: the scripted reviewer is of the author's family (scripted)"
    told = machine.run("brief", run, "--json").answer
    assert f"No other model has reviewed this text: {why}" in told["synthesis"]
    assert told["synthesis_review"]["outcome"] == "none" and told["synthesis_review"]["why"].startswith(why)
    assert OBJECTION["why"] not in told["synthesis"]


def test_a_run_without_a_key_ends_and_says_that_no_model_could_be_asked(
    ground: Path, machine: Machine, repository: Repository
) -> None:
    plan = write_led_plan(ground, *SHORT, review={"by": ["claude-opus-5-5"]})
    machine.variables |= dict.fromkeys(("ANTHROPIC_API_KEY", "OPENROUTER_API_KEY"), "")
    run = _run(machine, repository, plan)
    assert "reviewed this text: no model of another family could be asked: " in machine.run("report", run).out
