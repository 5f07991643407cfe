"""A plan that cannot be carried out is refused with the reason. Editing the file of a live run changes nothing."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from premises import Premises, await_file

SIMPLE = {"one": "echo 1 > one.txt"}


def _nowhere(premises: Premises) -> Path:
    return premises.folder / "nowhere.yaml"


def _a_folder(premises: Premises) -> Path:
    return premises.repo


def _no_text(premises: Premises) -> Path:
    path = premises.folder / "latin.yaml"
    path.write_bytes(b"version: 1\nname: caf\xe9\n")
    return path


def _no_plan(premises: Premises) -> Path:
    path = premises.folder / "list.yaml"
    path.write_text("- version: 1\n")
    return path


def _unknown_key(premises: Premises) -> Path:
    return premises.plan(SIMPLE, chekcs={})


def _empty_checks(premises: Premises) -> Path:
    return premises.plan(SIMPLE, checks={})


def _silent_on_checks(premises: Premises) -> Path:
    path = premises.plan(SIMPLE)
    path.write_text(
        "".join(line for line in path.read_text().splitlines(True) if "sound" not in line and "checks" not in line)
    )
    return path


def _own_variable(premises: Premises) -> Path:
    return premises.plan({"one": {"agent": {"command": "true"}, "env": {"FORGEPOOL_HOME": "elsewhere"}}})


def _own_variable_by_default(premises: Premises) -> Path:
    return premises.plan(SIMPLE, defaults={"env": {"FORGEPOOL_BROKER_URL": "redis://elsewhere"}})


def _unknown_program(premises: Premises) -> Path:
    return premises.plan({"one": {"agent": {"cli": "cluade"}}})


def _no_budget(premises: Premises) -> Path:
    return premises.plan(SIMPLE, budget={"usd": 0})


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (_unknown_program, ("plan.yaml:8:", "'claude', 'codex', 'opencode' or 'aider'", "'cluade'")),
        (_no_budget, ("plan.yaml:6:", "'usd' of 'budget'", "greater than 0")),
        (_nowhere, ("nowhere.yaml", "no such file")),
        (_a_folder, ("repo", "cannot be read: Is a directory")),
        (_no_text, ("latin.yaml", "UTF-8")),
        (_no_plan, ("list.yaml:1:", "mapping")),
        (_empty_checks, ("plan.yaml:3:", "'checks' is empty", "at least one command")),
        (_unknown_key, ("plan.yaml:5:", "'chekcs'", "did you mean 'checks'")),
        (_own_variable, ("plan.yaml:10:", "FORGEPOOL_HOME", "Forgepool's own", "start with FORGEPOOL_")),
        (_own_variable_by_default, ("plan.yaml:7:", "FORGEPOOL_BROKER_URL", "Forgepool's own")),
    ],
)
def test_a_plan_that_cannot_be_read_is_refused(
    premises: Premises, make: Callable[[Premises], Path], words: tuple[str, ...]
) -> None:
    premises.run(make(premises)).is_refusal(2, *words)
    assert not (premises.home / "runs").exists()


def test_check_finds_the_same_mistakes(premises: Premises) -> None:
    said = premises.forgepool("check", _own_variable(premises), "--repo", premises.repo)
    said.is_refusal(2, "plan.yaml:10:", "FORGEPOOL_HOME", "Forgepool's own")


def test_a_plan_without_checks_is_refused(premises: Premises) -> None:
    said = premises.run(_silent_on_checks(premises))
    said.is_refusal(2, "has no checks", "forgepool.yaml", "checks: none")
    assert not (premises.home / "runs").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_plan_that_may_not_be_read_is_refused(premises: Premises) -> None:
    plan = premises.plan(SIMPLE)
    plan.chmod(0)
    premises.run(plan).is_refusal(2, "plan.yaml", "ermission")


def test_a_broken_gate_file_on_the_target_is_refused(premises: Premises) -> None:
    premises.commit({"forgepool.yaml": "version: 1\nchecks:\n  test: pytest\n  lnit\n"})
    premises.run(premises.plan(SIMPLE)).is_refusal(2, "forgepool.yaml:")


def test_a_plan_that_was_edited_during_the_run_changes_nothing(premises: Premises) -> None:
    premises = premises.unconfined()
    go_on = premises.folder / "go-on"
    plan = premises.plan({"one": f"{await_file(go_on)}; echo 1 > one.txt", "two": "echo 2 > two.txt"})
    with premises.going("run", plan, "--repo", premises.repo) as going:
        going.await_words("two: landed")
        plan.write_text("version: 1\nname: [broken\n")
        going.process.terminate()
        interrupted = going.ended()
    assert interrupted.status == 130, interrupted
    name = premises.run_name()
    assert f"resume:      forgepool resume {name}" in interrupted.out
    shown = premises.forgepool("status", name)
    assert shown.status == 0
    assert "plan.yaml has changed since; the run keeps its old plan" in shown.out
    go_on.touch()
    said = premises.forgepool("resume", name)
    assert said.status == 0, said
    said.is_sentence("plan.yaml has changed since this run began", "the run keeps its old plan")
    assert premises.landed() == ["two", "one"]


def test_a_plan_with_models_and_no_budget_is_warned_of_and_one_with_a_budget_is_not(premises: Premises) -> None:
    repo = ("--repo", premises.repo)
    by_model = {"one": {"files": ["one.txt"], "agent": {"builtin": {}}}}
    said = premises.forgepool("check", premises.plan(by_model), *repo)
    assert said.err.count("has no budget") == 1 and "cap it with --budget-usd USD" in said.err, said
    assert (
        "has no budget" not in premises.forgepool("check", premises.plan(by_model, budget={"tokens": 5000}), *repo).err
    )
    assert "has no budget" not in premises.forgepool("check", premises.plan(SIMPLE), *repo).err
    premises.home.mkdir(exist_ok=True)
    for limit, warned in (("usd: 5, at_limit: warn", True), ("usd: 5, person: zoe", True), ("usd: 5", False)):
        (premises.home / "treasury.yaml").write_text(f"version: 1\nlimits:\n  - {{per: day, {limit}}}\n")
        said = premises.forgepool("check", premises.plan(by_model), *repo)
        assert ("has no budget" in said.err) is warned, limit


def test_a_cap_without_an_end_is_refused(premises: Premises) -> None:
    said = premises.forgepool("run", premises.plan(SIMPLE), "--repo", premises.repo, "--budget-usd", "inf")
    said.is_refusal(2, "--budget-usd inf is not a budget", "such as 20")
