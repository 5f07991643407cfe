"""
Run a hostile repository, whose tests attack and whose git configuration holds traps, through a whole run without harm.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hostile import ATTACKS, Aims, achieved, aimed_at, hostile_repository
from kit import Machine, command, write_plan

NothingLeft = Callable[[Path, Machine], None]
_ATTACK = f"{sys.executable} -m pytest -q -p no:cacheprovider --disable-plugin-autoload test_app.py"


@pytest.fixture
def aims(ground: Path) -> Iterator[Aims]:
    with aimed_at(ground, ground / "repository" / ".git") as aims:
        yield aims


def _git(folder: Path, /, *argv: str) -> str:
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    named = ("-c", "user.name=a", "-c", "user.email=a@b")
    return subprocess.run(
        ["git", *named, *argv], cwd=folder, env=env, check=True, capture_output=True, text=True
    ).stdout


@pytest.mark.slow
def test_a_hostile_repository_hurts_nothing(
    ground: Path, machine: Machine, aims: Aims, nothing_left: NothingLeft
) -> None:
    """Attacks in the agent's commands report in a file of the candidate, and attacks in checks report in their log."""
    (ground / "repository").mkdir()
    hostile = hostile_repository(ground / "repository", aims, _git)
    before = _git(hostile.path, "for-each-ref")
    hostile.canary.unlink(missing_ok=True)
    machine.variables["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    agent = command(f"{_ATTACK}; mv attacks.json told-by-agent.json; mkdir sub; git init -q sub; rm -rf sub")
    checks = {"test": f"{_ATTACK} && cat attacks.json && rm attacks.json"}
    task = {"id": "one", "agent": agent, "acceptance": [f"{_ATTACK} && rm attacks.json"]}
    plan = write_plan(ground, {"name": "hostile", "checks": checks, "tasks": [task]})
    ended = machine.run("run", plan, "--repo", hostile.path)
    assert ended.status == 0, ended.out + ended.err

    told = [_git(hostile.path, "-c", "core.fsmonitor=", "show", "forgepool/hostile:told-by-agent.json")]
    logs = [log.read_text() for log in machine.home.rglob("*-test.log")]
    told += [found[0] for text in logs if (found := re.search(r"\{.*\}", text, re.DOTALL))]
    assert len(told) >= 2 and all(set(json.loads(each)) == set(ATTACKS) for each in told)
    assert {name for each in told for name in achieved(each)} == set()
    assert sorted(each.name for each in (ground / "outside").iterdir()) == ["program.sh", "secret"]
    assert list((ground / "person").iterdir()) == []
    assert set(before.splitlines()) <= set(_git(hostile.path, "for-each-ref").splitlines()), "refs of the hub moved"
    nothing_left(ground, machine)
