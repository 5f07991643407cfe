"""A run reports what confines its commands, and is refused at the start where that is not enough."""

import os
from pathlib import Path

import pytest
from kit import Machine, Repository, command, events_of, write_plan

from forgepool.orchestrator.journal import events as e

_HIDE = 'mount --bind /dev/null "$(command -v bwrap)" && exec "$@"'
_TASK = {"id": "one", "agent": command("echo x > one.txt")}


@pytest.fixture
def without_bubblewrap(machine: Machine) -> Machine:
    """Return a machine on which bubblewrap cannot be run; only root can make one."""
    if os.geteuid() != 0:
        pytest.skip("only root can hide a program")
    machine.before = ("unshare", "--mount", "sh", "-c", _HIDE, "hidden")
    return machine


def _plan(ground: Path, *tasks: dict[str, object]) -> Path:
    return write_plan(ground, {"name": "held", "checks": {"there": "test -f one.txt"}, "tasks": list(tasks)})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sandbox", "level", "words"),
    [
        ("auto", "bubblewrap", "commands run in bubblewrap"),
        ("off", "off", "commands run with your own rights, no sandbox holds them"),
    ],
)
def test_what_held_is_in_header_results_and_report(
    sandbox: str, level: str, words: str, ground: Path, machine: Machine, repository: Repository
) -> None:
    ended = machine.run("run", _plan(ground, _TASK), "--repo", repository.path, "--sandbox", sandbox)
    assert ended.status == 0, ended.out + ended.err
    _assert_told(machine, ended.out, level, words)


@pytest.mark.slow
def test_the_fallback_is_named_as_weaker(ground: Path, without_bubblewrap: Machine, repository: Repository) -> None:
    ended = without_bubblewrap.run("run", _plan(ground, _TASK), "--repo", repository.path)
    assert ended.status == 0, ended.out + ended.err
    _assert_told(without_bubblewrap, ended.out, "landlock", "weaker than bubblewrap")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "options", "status", "said"),
    [
        (_TASK, ("--sandbox", "require"), 3, "bubblewrap is required and does not hold"),
        (_TASK | {"network": ["a.example.org"]}, (), 2, "task 'one' needs the network, and only bubblewrap"),
    ],
)
def test_what_does_not_hold_is_refused_before_anything_is_made(
    task: dict[str, object],
    options: tuple[str, ...],
    status: int,
    said: str,
    ground: Path,
    without_bubblewrap: Machine,
    repository: Repository,
) -> None:
    ended = without_bubblewrap.run("run", _plan(ground, task), "--repo", repository.path, *options)
    assert (ended.status, said in ended.err, ended.err.count("\n")) == (status, True, 1), ended.out + ended.err
    assert repository.refs("refs/heads/forgepool") == [] and without_bubblewrap.runs() == []


def _assert_told(machine: Machine, header: str, level: str, words: str) -> None:
    assert words in header.splitlines()[0]
    recorded = machine.journal()
    answers = [*events_of(recorded, e.OrderAnswered), *events_of(recorded, e.CheckAnswered)]
    assert {each.result.sandbox for each in answers} == {level}
    report = machine.run("report", machine.the_run()).out
    assert words in report.partition("## Hosts")[2]
