"""Wrong words on the command line are answered with one sentence that has the right ones, and status 2."""

import pytest
from premises import Premises, Tasks


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("runn",), ("runn", "--help")),
        (("run", "plan.yaml", "--repos", "x"), ("--repos", "--help")),
        (("run",), ("plan", "--help")),
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
    """Of a run that has ended: an unknown name, an unknown task, nothing to do, and nothing to resume."""
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
    assert "has ended already" in again.out
    assert f"forgepool retry {name} TASK" in again.out
    assert premises.landed() == ["one"]
