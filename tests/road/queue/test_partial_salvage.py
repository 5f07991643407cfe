"""Salvage of the hunks that pass: real work of a real run, the gate's own checks, and a real queue that lands them."""

import re
import shlex
import signal
from pathlib import Path

import pytest
from gate_kit import GateOf
from kit import Machine, Repository, command, make_repository, wait_until, write_plan

pytestmark = pytest.mark.slow

_GATE = "version: 1\nchecks:\n  sound: \"! grep -rn BROKEN --include='*.txt' .\"\n"
_LINES = "".join(f"line {number}\n" for number in range(1, 101))
_EDIT = """
sed -i 's/^line \\(5\\|20\\|35\\|65\\|80\\)$/new \\1/; s/^line 50$/BROKEN/' code.txt
sed -i 's/^line 10$/new 10/; s/^line 30$/BROKEN/' other.txt
echo added > added.txt
rm gone.txt
"""
"""Ten hunks: six in one file, two in another, an added file and a removed one. Two are bad."""


@pytest.fixture
def hub(ground: Path) -> Repository:
    files = {"forgepool.yaml": _GATE, "code.txt": _LINES, "other.txt": _LINES, "gone.txt": "old\n"}
    made = make_repository(ground / "hub", files)
    made.git("checkout", "-q", "--detach")
    return made


def _fail(ground: Path, machine: Machine, hub: Repository, script: str = _EDIT, **fields: object) -> str:
    """Run a plan whose one task fails, and return the run."""
    task = {"id": "t", "files": ["*.txt"], "agent": command(script), "attempts": 1}
    plan = {"name": "ten", "target": "main", "review": "none", "tasks": [task], **fields}
    ended = machine.run("run", write_plan(ground, plan), "--repo", hub.path, "--workers", "1")
    assert ended.status == 1, ended.out + ended.err
    return machine.runs()[0]


def _serve(ground: Path, machine: Machine, hub: Repository) -> GateOf:
    gate = GateOf(machine=machine, hub=Repository(path=hub.path / ".git"), go=ground / "go")
    gate.serve()
    return gate


def _logs(machine: Machine, run: str) -> list[Path]:
    return sorted((machine.home / "runs" / run / "logs" / "checks").glob("salvage-t-*"))


def test_ten_hunks_of_which_two_are_bad_land_eight(ground: Path, machine: Machine, hub: Repository) -> None:
    run, before = _fail(ground, machine, hub), hub.refs("refs/heads")
    gate = _serve(ground, machine, hub)
    said = machine.run("salvage", run, "t", "--partial", "--repo", hub.path)
    assert said.status == 0, said.out + said.err
    first, *left, last = said.out.splitlines()
    branch, name = f"salvage/{run}/t", f"salvage--{run}--t"
    told = re.fullmatch(
        rf"branch {branch}: t, attempt 1: 8 of 10 hunks pass the gate on main at (\w+); (\d+) runs of the gate with "
        r"(\d+) check commands",
        first,
    )
    assert told, said.out
    assert int(told[2]) == 11 and len(_logs(machine, run)) == int(told[2])
    assert left[0] == "left out:"
    assert left[1].startswith("  code.txt:50: check 'sound' "), said.out
    assert left[2].startswith("    it fails: ! grep -rn BROKEN --include='*.txt' . (its log: ")
    assert left[3].startswith("  other.txt:30: check 'sound' ")
    assert last.startswith(f"submitted to main as '{branch}'; see: forgepool queue explain {branch} --target main"), (
        last
    )
    gate.wait_landed(name)
    landed = hub.file("main", "code.txt")
    assert landed == re.sub(r"line (5|20|35|65|80)\n", r"new \1\n", _LINES).strip()
    assert hub.file("main", "other.txt") == _LINES.replace("line 10\n", "new 10\n").strip()
    assert hub.file("main", "added.txt") == "added" and "gone.txt" not in hub.git("ls-tree", "--name-only", "main")
    assert hub.refs("refs/heads") == sorted([*before, f"refs/heads/{branch}"])
    gate.stop()


def test_the_printed_command_submits_what_was_found(ground: Path, machine: Machine, hub: Repository) -> None:
    """No queue serves the target: nothing is pushed until the command is run."""
    run = _fail(ground, machine, hub)
    said = machine.run("salvage", run, "t", "--partial", "--branch", "found", "--repo", hub.path)
    assert said.status == 0, said.out + said.err
    _, found, printed = said.out.splitlines()[-1].partition("no queue serves main now; to submit it: ")
    assert found and hub.refs("refs/forgepool/for") == [], said.out
    program, *words = shlex.split(printed)
    assert program == "forgepool" and words[-2:] == ["--agent", "command"]
    assert machine.run(*words).status == 0
    gate = _serve(ground, machine, hub)
    gate.wait_landed("found")
    assert hub.file("main", "added.txt") == "added"
    gate.stop()


def test_a_search_says_in_one_sentence_why_it_makes_nothing(ground: Path, machine: Machine, hub: Repository) -> None:
    """No hunk passes, the limit was reached before one did, or the target itself is red."""
    run = _fail(ground, machine, hub, "sed -i 's/^line \\(5\\|50\\)$/BROKEN/' code.txt; echo BROKEN > added.txt")

    def refused(*words: str, status: int = 1) -> str:
        said = machine.run("salvage", run, "t", "--partial", "--repo", hub.path, *words)
        assert (said.status, said.out, said.err.count("\n")) == (status, "", 1), said
        return said.err

    assert "none of 3 hunks passes the gate on main, after 5 runs of the gate" in refused()
    assert "no hunk was found green in 2 runs of the gate with " in refused("--runs", "2")
    assert "has a branch 'main' already" in refused("--branch", "main", status=2)
    assert "no task is named" in machine.run("salvage", run, "--partial").err
    assert hub.refs("refs/heads") == ["refs/heads/main"]
    (hub.path / "red.txt").write_text("BROKEN\n")
    hub.git("checkout", "-q", "main")
    hub.git("add", "-A")
    hub.git("commit", "-q", "-m", "red")
    assert "no hunk can be judged: check 'sound' " in refused(status=2)


def test_without_checks_no_hunk_is_called_green(ground: Path, machine: Machine, hub: Repository) -> None:
    run = _fail(ground, machine, hub, "echo added > added.txt; exit 1", checks="none", target="other", base="main")
    said = machine.run("salvage", run, "t", "--partial", "--repo", hub.path)
    assert (said.status, said.out, said.err.count("\n")) == (2, "", 1), said
    assert "has no checks (`checks: none`), so nothing tells which hunks are good; get the whole work: " in said.err


def test_files_that_conflict_with_the_target_are_left_out(ground: Path, machine: Machine, hub: Repository) -> None:
    run = _fail(ground, machine, hub)
    hub.git("checkout", "-q", "main")
    (hub.path / "code.txt").write_text(_LINES.replace("line 5\n", "theirs\n"))
    hub.git("commit", "-q", "-a", "-m", "theirs")
    said = machine.run("salvage", run, "t", "--partial", "--patch", "-", "--repo", hub.path)
    assert said.status == 0, said.err
    assert "diff --git a/added.txt" in said.out and "new 10" in said.out and "BROKEN" not in said.out
    assert "3 of 4 hunks pass the gate on main" in said.err
    assert "code.txt: conflicts with the target" in said.err and "other.txt:30: check 'sound' " in said.err


@pytest.mark.soak
def test_an_interrupted_search_leaves_nothing_and_names_the_best_set(
    ground: Path, machine: Machine, hub: Repository
) -> None:
    (hub.path / "forgepool.yaml").write_text(_GATE.replace('"!', '"sleep 1; !'))
    hub.git("commit", "-q", "-a", "-m", "slow")
    hub.git("update-ref", "refs/heads/main", "HEAD")
    run = _fail(ground, machine, hub)
    refs = hub.refs("refs")
    started = machine.start("salvage", run, "t", "--partial", "--repo", hub.path)
    wait_until(lambda: len(_logs(machine, run)) >= 4, "the fourth run of the gate")
    started.process.send_signal(signal.SIGINT)
    ended = started.ended(within_s=20)
    assert ended.status == 130 and ended.out == "", ended
    told = re.search(r"the best so far is (\d) of 10 hunks: (git -C \S+ show \w+)\n", ended.err)
    assert told and "interrupted after 4 runs of the gate" in ended.err, ended.err
    shown = hub.git(*shlex.split(told[2])[1:], "--format=%s%n%b", "--name-only")
    assert "code.txt" in shown
    assert hub.refs("refs") == refs and not [*machine.tmp.iterdir()]
    again = machine.run("salvage", run, "t", "--partial", "--patch", "-", "--repo", hub.path)
    assert "8 of 10 hunks pass the gate" in again.err, again.err
