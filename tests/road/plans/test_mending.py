"""Returned work is mended on the road: one attempt fixes the change of the one before it, whatever dies meanwhile."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from kit import Machine, Ran, Repository, command, events_of, wait_until, write_plan
from processes import in_role

from forgepool.orchestrator.journal import events as e

pytestmark = pytest.mark.slow

_BRANCH = "forgepool/mends"
_CHECKS = {"sound": "! grep -rq BROKEN --include=*.txt ."}
_FINISH = {"tool": "finish", "summary": "done"}
_WRITE = [
    {"tool": "write_file", "path": "t.txt", "content": "one\nBROKEN\n"},
    {"tool": "write_file", "path": "u.txt", "content": "beside\n"},
]
_READ = {"tool": "read_file", "path": "t.txt"}
_MEND = {"tool": "edit_file", "path": "t.txt", "old": "BROKEN", "new": "two"}


def _scripted(ground: Path, *turns: dict[str, Any], **said: Any) -> dict[str, Any]:
    """Return a task whose first attempt leaves a red check; the turns given are those of later ones."""
    first = [{"attempt": 1, "calls": [one]} for one in (*_WRITE, _FINISH)]
    (ground / "script.yaml").write_text(json.dumps({"turns": [*first, *turns]}))
    return {"id": "t", "files": ["t.txt", "u.txt"], "agent": {"scripted": "script.yaml"}, "attempts": 3, **said}


def _turns(*calls: dict[str, Any], **said: Any) -> list[dict[str, Any]]:
    return [{"calls": [one], **said} for one in calls]


def _plan(ground: Path, *tasks: dict[str, Any], **said: Any) -> Path:
    return write_plan(ground, {"name": "mends", "checks": _CHECKS, "review": "none", "tasks": [*tasks], **said})


def _mended(machine: Machine) -> list[int | None]:
    return [one.mends for one in events_of(machine.journal(), e.OrderSent) if one.task == "t"]


def _assert_landed(ended: Ran, machine: Machine, repository: Repository) -> None:
    assert ended.status == 0, ended.out + ended.err + machine.logs()
    assert repository.landed(_BRANCH).count("t") == 1
    assert (repository.file(_BRANCH, "t.txt"), repository.file(_BRANCH, "u.txt")) == ("one\ntwo", "beside")
    assert repository.refs("refs/forgepool") == []


def test_a_red_check_is_mended_by_the_next_attempt(ground: Path, machine: Machine, repository: Repository) -> None:
    """One edit in place of all of the work; what is told names the attempt."""
    task = _scripted(ground, *_turns(_READ, _MEND, _FINISH, attempt=2))
    ended = machine.run("run", _plan(ground, task), "--repo", repository.path, "--workers", "1")
    _assert_landed(ended, machine, repository)
    assert _mended(machine) == [None, 1] and ", mending attempt 1\n" in ended.out, ended.out
    run = machine.runs()[0]
    assert "attempt 2, which mended attempt 1" in machine.run("report", run).out
    (told,) = machine.run("status", run, "--json").answer["tasks"]
    assert (told["attempts"], told["mends"]) == (2, 1) and "2, mends 1" in machine.run("status", run).out
    shown = machine.run("transcript", run, "t", "--full").out
    assert "Your worktree begins with the change of attempt 1" in shown, shown


def test_what_comes_back_twice_alike_is_begun_afresh(ground: Path, machine: Machine, repository: Repository) -> None:
    """The second attempt leaves the change as it was, which is not tested again."""
    good = [{"tool": "write_file", "path": "t.txt", "content": "one\ntwo\n"}, _WRITE[1]]
    task = _scripted(ground, *_turns(_READ, _FINISH, attempt=2), *_turns(*good, _FINISH, attempt=3))
    ended = machine.run("run", _plan(ground, task), "--repo", repository.path, "--workers", "1")
    _assert_landed(ended, machine, repository)
    assert _mended(machine) == [None, 1, None]
    assert "it left the change of attempt 1 as it was, which came back: check 'sound'" in ended.out, ended.out
    tried = [one for one in events_of(machine.journal(), e.CheckSent) if one.task == "t"]
    assert len(tried) == 2, "of attempts 1 and 3"


def test_a_conflict_with_another_persons_push_is_mended(ground: Path, machine: Machine, repository: Repository) -> None:
    (repository.path / "t.txt").write_text("one\n")
    repository.git("add", "-A")
    repository.git("commit", "-q", "-m", "t")
    repository.git("branch", _BRANCH)
    writes = [{"tool": "write_file", "path": "t.txt", "content": "one\nmine\n"}, _WRITE[1]]
    writes.append({"tool": "write_file", "path": "v.txt", "content": "v\n"})
    both = {"tool": "write_file", "path": "t.txt", "content": "one\ntwo\n"}
    first = [*_turns(*writes, attempt=1), {"attempt": 1, "pause_s": 6, "calls": [_FINISH]}]
    (ground / "script.yaml").write_text(json.dumps({"turns": [*first, *_turns(_READ, both, _FINISH, attempt=2)]}))
    task = {"id": "t", "files": ["*.txt"], "agent": {"scripted": "script.yaml"}, "attempts": 3}
    started = machine.start("run", _plan(ground, task), "--repo", repository.path, "--workers", "1")
    machine.wait_for("message.taken")
    repository.git("checkout", "-q", _BRANCH)
    (repository.path / "t.txt").write_text("one\ntheirs\n")
    repository.git("commit", "-q", "-a", "-m", "theirs")
    repository.git("checkout", "-q", "main")
    _assert_landed(started.ended(), machine, repository)
    reasons = [one.reason.kind for one in events_of(machine.journal(), e.TaskReturned)]
    assert (reasons, _mended(machine)) == (["conflict"], [None, 1])


@pytest.mark.parametrize("dies", ["worker", pytest.param("orchestrator", marks=pytest.mark.soak)])
def test_a_mending_attempt_that_was_killed_goes_on(
    dies: str, ground: Path, machine: Machine, repository: Repository
) -> None:
    """It is killed before its first turn is kept, so that it begins with the change once more."""
    slow = [{"attempt": 2, "pause_s": 600, "calls": [_READ]}] if dies == "worker" else []
    quick = _turns(_READ, _MEND, _FINISH)
    held = [{"attempt": 2, "pause_s": 4, "calls": [_READ]}, *quick[1:]] if dies == "orchestrator" else [*slow, *quick]
    started = machine.start("run", _plan(ground, _scripted(ground, *held)), "--repo", repository.path, "--workers", "1")
    machine.wait_for("message.taken", task="t", count=1)
    wait_until(lambda: len(_mended(machine)) == 2, "the second attempt")
    log = machine.home / "runs" / machine.the_run() / "logs/orders/t/2/transcript.jsonl"
    wait_until(lambda: log.exists() and "begins with the change of attempt 1" in log.read_text(), "its first message")
    if dies == "worker":
        (working,) = in_role(ground, "working")
        working.kill()
        ended = started.ended()
    else:
        started.process.send_signal(signal.SIGKILL)
        started.process.wait()
        ended = machine.run("resume", machine.the_run())
    _assert_landed(ended, machine, repository)
    assert set(_mended(machine)[1:]) == {1}


def test_a_person_chooses_what_the_next_attempt_begins_with(
    ground: Path, machine: Machine, repository: Repository
) -> None:
    """Work that is no candidate can be chosen, too. A choice that cannot hold is refused in one sentence."""
    afresh, mends = _turns(*_WRITE, _FINISH, attempt=2), _turns(_READ, _MEND, _FINISH, attempt=3)
    task = _scripted(ground, *afresh, *mends, attempts=1, acceptance=["! grep -q BROKEN t.txt"])
    made = {"id": "c", "files": ["c.txt"], "agent": command("echo c > c.txt; false"), "attempts": 1}
    ended = machine.run("run", _plan(ground, task, made), "--repo", repository.path, "--workers", "1")
    assert ended.status == 1, ended.out
    run = machine.runs()[0]

    def refused(*words: str) -> str:
        said = machine.run("retry", run, *words)
        assert (said.status, said.out, said.err.count("\n")) == (2, "", 1), said
        return said.err

    assert "exclude each other" in refused("t", "--from-candidate", "--fresh")
    assert "task 'c' is done by a command" in refused("c", "--from-candidate")
    again = machine.run("retry", run, "t", "--fresh")
    assert again.status == 1 and _mended(machine) == [None, None], again.out
    last = machine.run("retry", run, "t", "--from-candidate")
    assert _mended(machine) == [None, None, 2] and repository.landed(_BRANCH) == ["t"], last.out + last.err
    assert (repository.file(_BRANCH, "t.txt"), repository.file(_BRANCH, "u.txt")) == ("one\ntwo", "beside")
