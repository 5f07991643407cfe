"""Checks before money is spent: a failing target, a missing tool, and a script beside the plan."""

from pathlib import Path

import pytest
from kit import Machine, Repository, command, events_of, write_plan
from models_kit import know, writes
from vendors.server import VendorServer

from forgepool.orchestrator.journal import events as e

MODEL = {"id": "made", "files": ["made.txt"], "agent": {"builtin": {"model": "model-anthropic"}}}


@pytest.mark.slow
def test_no_model_is_called_on_a_red_target_until_it_is_fixed(
    ground: Path, machine: Machine, repository: Repository
) -> None:
    lint = "test -e fixed || { echo 'src/a.txt:1:1: error: not fixed'; exit 1; }"
    plan = write_plan(ground, {"name": "red", "checks": {"lint": lint}, "review": "none", "tasks": [MODEL]})
    with VendorServer(writes, models=["m"]) as server:
        know(machine, server)
        ended = machine.run("run", plan, "--repo", repository.path, "--workers", "1", within_s=300)
        assert (ended.status, server.seen) == (1, []), ended.out
        for words in (
            "lint: src/a.txt:1:1: error: not fixed",
            "log: ",
            "see it again: git fetch",
            f"push a fix to forgepool/red, then: forgepool resume {machine.the_run()}",
            "no model was called for made",
        ):
            assert words in ended.out, words
        (halted,) = events_of(machine.journal(), e.GateHalted)
        assert not halted.infrastructure
        _push(repository, ground / "theirs", "forgepool/red", "fixed")
        resumed = machine.run("resume", machine.the_run(), within_s=300)
        assert resumed.status == 0 and server.seen, resumed.out
    assert repository.landed("forgepool/red")[-1] == "made"


@pytest.mark.slow
def test_a_task_that_is_to_make_the_red_check_green_is_done_and_a_green_base_is_not_run_twice(
    ground: Path, machine: Machine, repository: Repository
) -> None:
    there = "test -e made.txt"
    tasks = [MODEL | {"acceptance": [there]}, {"id": "after", "needs": ["made"], "agent": command("echo x > x")}]
    checks = {"there": there, "lines": "test -s README.md"}
    plan = write_plan(ground, {"name": "goal", "checks": checks, "review": "none", "tasks": tasks})
    with VendorServer(writes, models=["m"]) as server:
        know(machine, server)
        ended = machine.run("run", plan, "--repo", repository.path, "--workers", "1", within_s=300)
        assert ended.status == 0, ended.out
    logs = [path.name for path in (machine.home / "runs").glob("*/logs/checks/*/*lines.log")]
    assert logs.count("base-lines.log") == 0 and logs.count("tip-lines.log") == 1, logs


def test_what_is_missing_is_said_before_anything_starts(ground: Path, machine: Machine, repository: Repository) -> None:
    (ground / "scripts").mkdir()
    (ground / "scripts" / "up.py").write_text("print(1)\n")
    checks = {"tool": "no-such-tool check", "module": "python3 -m no_such_module"}
    task = {"id": "up", "agent": command("python3 scripts/up.py")}
    plan = write_plan(ground, {"name": "lacks", "checks": checks, "tasks": [task]})
    checked = machine.run("check", plan, "--repo", repository.path)
    assert checked.status == 2
    said = " ".join(checked.out.split())
    assert "check 'tool' runs 'no-such-tool', which is not on the PATH; install it where commands see it" in said
    assert "check 'module' runs 'python3 -m no_such_module', and that Python has no module" in said
    assert "task 'up' runs scripts/up.py, which is beside the plan file but not committed" in said
    assert "write `assets: [scripts/up.py]` into the plan" in said
    checked = machine.run("check", plan, "--repo", repository.path, "--with-checks")
    assert checked.status == 2 and "no command was run; solve these problems first" in checked.err
    refused = machine.run("run", plan, "--repo", repository.path)
    assert refused.status == 2 and "and 2 more: forgepool check" in refused.err and machine.runs() == []


@pytest.mark.slow
def test_assets_are_those_of_the_beginning_read_only_and_in_no_diff(
    ground: Path, machine: Machine, repository: Repository
) -> None:
    script, gate = ground / "say.sh", ground / "open"
    machine.variables["FORGEPOOL_SANDBOX"] = "require"
    script.write_text("echo first\n")
    run = 'sh "$FORGEPOOL_ASSETS/say.sh" > said.txt; ! { echo x > "$FORGEPOOL_ASSETS/say.sh"; } && test -e fixed'
    task = {"id": "says", "files": ["said.txt"], "attempts": 1, "agent": command(run)}
    plan = write_plan(
        ground, {"name": "carry", "checks": {"ok": "true; test -e README.md"}, "assets": ["say.sh"]} | {"tasks": [task]}
    )
    assert machine.run("run", plan, "--repo", repository.path).status == 1, gate
    script.write_text("echo second\n")
    _push(repository, ground / "theirs", "forgepool/carry", "fixed")
    retried = machine.run("retry", machine.the_run(), "says")
    assert retried.status == 0, retried.out
    tip = repository.git("rev-parse", "forgepool/carry")
    assert repository.file("forgepool/carry", "said.txt") == "first"
    assert repository.git("diff", "--name-only", f"{tip}^", tip) == "said.txt"


@pytest.mark.soak
@pytest.mark.slow
def test_a_corrected_asset_reaches_the_task_that_failed(ground: Path, machine: Machine, repository: Repository) -> None:
    """Only the script changes; the plan file stays the same."""
    script = ground / "say.sh"
    script.write_text("exit 3\n")
    task = {"id": "says", "files": ["said.txt"], "agent": command('sh "$FORGEPOOL_ASSETS/say.sh" > said.txt')}
    plan = write_plan(ground, {"name": "mend", "checks": "none", "assets": ["say.sh"], "tasks": [task]})
    assert machine.run("run", plan, "--repo", repository.path).status == 1
    script.write_text("echo mended\n")
    again = machine.run("resume", machine.the_run(), "--plan", plan)
    assert again.status == 0, again.out + again.err
    assert repository.file("forgepool/mend", "said.txt") == "mended"


def test_check_with_checks_says_how_the_target_is(ground: Path, machine: Machine, repository: Repository) -> None:
    tasks = [{"id": "one", "agent": command("echo x > x")}]
    red = write_plan(ground, {"name": "r", "checks": {"no": "echo 'a.py:1:1: error: wrong'; exit 1"}, "tasks": tasks})
    said = machine.run("check", red, "--repo", repository.path, "--with-checks")
    assert said.status == 1 and "no: a.py:1:1: error: wrong" in said.out, said.out + said.err
    green = write_plan(ground, {"name": "g", "checks": {"yes": "test -e README.md"}, "tasks": tasks})
    said = machine.run("check", green, "--repo", repository.path, "--with-checks")
    assert said.status == 0 and "check 'yes' is green" in said.out, said.out + said.err


def _push(repository: Repository, folder: Path, branch: str, name: str) -> None:
    repository.git("clone", "-q", "--branch", branch, str(repository.path), str(folder))
    theirs = Repository(path=folder)
    (folder / name).write_text("fixed\n")
    theirs.git("add", "-A")
    theirs.git("commit", "-q", "-m", "fix")
    theirs.git("push", "-q", "origin", branch)
