"""A wrong command line is answered with status 2 and one sentence that names the right words."""

import json
import shutil
import subprocess

import pytest
from premises import FORGEPOOL, Premises, Tasks, await_file


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("stauts",), ("unknown command 'stauts'; did you mean `forgepool status`?",)),
        (("submit",), ("unknown command 'submit'; did you mean `forgepool queue submit`?",)),
        (("gate", "stauts"), ("unknown command 'stauts'; did you mean `forgepool gate status`?",)),
        (("xyzzy",), ("unknown command 'xyzzy'; `forgepool --help` lists all commands",)),
        (
            ("run", "plan.yaml", "--repos", "x"),
            ("unknown option '--repos' of `forgepool run`; did you mean `--repo`?",),
        ),
        (
            ("queue", "resume", "--repo", "x"),
            ("`forgepool queue resume`; `forgepool queue resume --help` lists",),
        ),
        (("run", "--xyzzy"), ("unknown option '--xyzzy' of `forgepool run`; `forgepool run --help` lists",)),
        (("run",), ("missing argument 'plan' (see `forgepool run --help`)",)),
        (("run", "plan.yaml", "--workers", "0"), ("--workers", "1")),
        (("run", "plan.yaml", "--workers", "many"), ("--workers", "valid integer")),
        (("status", "p-1"), ("there are no runs yet", "forgepool run PLAN")),
        (("resume", "p-1"), ("there are no runs yet", "forgepool run PLAN")),
        (("events",), ("run", "--help")),
    ],
)
def test_wrong_words_are_refused(premises: Premises, argv: tuple[str, ...], words: tuple[str, ...]) -> None:
    premises.forgepool(*argv).is_refusal(2, *words)


def test_a_setting_that_is_none_is_refused(premises: Premises) -> None:
    said = premises.forgepool("runs", env={"FORGEPOOL_LEASE_TTL_S": "soon"})
    said.is_refusal(2, "FORGEPOOL_LEASE_TTL_S", "number")


def test_questions_about_what_a_run_has_not_are_refused(premises: Premises) -> None:
    """The run has ended. The questions name an unknown run or task, or there is nothing left to do or resume."""
    tasks: Tasks = {"one": "echo 1 > one.txt", "two": {"agent": {"command": "exit 7"}, "attempts": 1}}
    assert premises.run(premises.plan(tasks)).status == 1
    name = premises.run_name()
    for command in ("status", "resume"):
        premises.forgepool(command, "q").is_refusal(2, "there is no run 'q'", name)
    for command in ("cancel", "retry"):
        premises.forgepool(command, name, "three").is_refusal(2, "has no task 'three'", "one, two")
    premises.forgepool("retry", name, "one").is_refusal(2, "nothing to retry", "'one' is landed")
    premises.forgepool("cancel", name).is_refusal(2, "nothing to cancel", "all its tasks have ended")
    again = premises.forgepool("resume", name)
    assert (again.status, again.err) == (1, "")
    assert "has ended" in again.out
    assert f"forgepool retry {name} TASK" in again.out
    assert premises.landed() == ["one"]


def test_a_run_that_cannot_be_read_hides_no_other(premises: Premises) -> None:
    assert premises.run(premises.plan({"one": "echo 1 > one.txt"})).status == 0
    name = premises.run_name()
    for broken, damage in (("no-journal", None), ("no-plan", "plan.json"), ("torn", "journal.db")):
        folder = shutil.copytree(premises.home / "runs" / name, premises.home / "runs" / broken)
        if damage is None:
            (folder / "journal.db").unlink()
        else:
            (folder / damage).write_text("{")
    said = premises.forgepool("runs", "--json")
    assert said.status == 0
    assert {row["run"]: row["outcome"] for row in json.loads(said.out)} == {
        name: "landed",
        "no-journal": "unreadable",
        "no-plan": "unreadable",
        "torn": "unreadable",
    }
    assert said.err.count("\n") == 3
    said.has_no_traceback()


def test_a_reader_of_progress_that_goes_away_interrupts_the_run(premises: Premises) -> None:
    """`forgepool run PLAN | head -1` closes the pipe early."""
    premises = premises.unconfined()
    gate = premises.folder / "go"
    plan = premises.plan({"one": f"{await_file(gate)}; echo 1 > one.txt", "two": "echo 2 > two.txt"})
    process = subprocess.Popen(
        [*FORGEPOOL, "run", str(plan), "--repo", str(premises.repo)],
        env=premises.environment({}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stderr is not None
    assert "begins" in process.stdout.readline()
    process.stdout.close()
    with process.stderr:
        said = process.stderr.read()
    assert process.wait(timeout=60) == 130, said
    name = premises.run_name()
    assert said.count("\n") == 1 and "the output was closed" in said and f"forgepool resume {name}" in said
    gate.touch()
    assert premises.forgepool("resume", name).status == 0
    assert sorted(premises.landed()) == ["one", "two"]


def test_a_task_may_have_the_name_of_any_file_of_the_run(premises: Premises) -> None:
    names = ("redis.log", "host.log", "orchestrator.log", "checks", "orders")
    tasks: Tasks = {name: {"agent": {"command": f"echo 1 > {name}.txt"}, "files": [f"{name}.txt"]} for name in names}
    assert premises.run(premises.plan(tasks)).status == 0
    assert sorted(premises.landed()) == sorted(names)


def test_the_logs_of_a_task_are_printed_or_listed(premises: Premises) -> None:
    checks = {
        "lint": "test -e README",
        "test": "printf '\\033[31mlooking\\033[0m\\nerror: bad.txt is bad\\n'; test ! -e bad.txt",
    }
    tasks: Tasks = {
        "bad": {"agent": {"command": "echo writing; echo 1 > bad.txt"}, "files": ["bad.txt"], "attempts": 1},
        "none": {"agent": {"command": "echo nothing; exit 7"}, "attempts": 1},
    }
    said = premises.run(premises.plan(tasks, checks=checks))
    assert said.status == 1
    name = premises.run_name()
    alone = premises.forgepool("logs", name, "none")
    assert (alone.status, alone.out) == (0, "nothing\n")
    listed = premises.forgepool("logs", name, "bad")
    assert listed.status == 0
    names = {line.split()[1] for line in listed.out.splitlines()}
    assert {"agent", "composed-test", "base-test", "again-test"} <= names
    assert f"forgepool logs {name} bad --check NAME" in listed.out
    shown = premises.forgepool("logs", name, "bad", "--check", "test")
    assert "composed-test" in shown.out and "\nlooking\nerror: bad.txt is bad\n" in shown.out
    assert premises.forgepool("logs", name, "bad", "--check", "agent").out == "writing\n"
    premises.forgepool("logs", name, "bad", "--check", "nope").is_refusal(1, "no such log", "composed-test (attempt 1)")
    report = premises.forgepool("report", name).out
    assert "| error: bad.txt is bad" in report and f"(all of them: forgepool logs {name} bad)" in report
