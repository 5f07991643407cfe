"""A hostile repository goes through a whole run: its tests attack, its git configuration waits, and nothing is hurt."""

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hostile import ATTACKS, Aims, achieved, hostile_repository
from kit import Machine, command, write_plan

NothingLeft = Callable[[Path, Machine], None]
_SLEEPER = "import time; print('begun', flush=True); time.sleep(600)"
_ATTACK = f"{sys.executable} -m pytest -q -p no:cacheprovider test_app.py"


@pytest.fixture
def aims(ground: Path) -> Iterator[Aims]:
    """Everything is there to be attacked, and listens."""
    for name in ("outside", "person"):
        (ground / name).mkdir()
    (ground / "outside" / "secret").write_text("SECRET")
    with ExitStack() as open_:
        words = [sys.executable, "-I", "-S", "-c", _SLEEPER]
        sleeper = open_.enter_context(subprocess.Popen(words, stdout=subprocess.PIPE, env={"KEY": "SECRET"}))
        open_.callback(sleeper.kill)
        assert sleeper.stdout is not None
        assert sleeper.stdout.readline() == b"begun\n"
        tcp, unix = (open_.enter_context(socket.socket(kind)) for kind in (socket.AF_INET, socket.AF_UNIX))
        tcp.bind(("127.0.0.1", 0))
        unix.bind(str(ground / "s"))
        tcp.listen()
        unix.listen()
        yield Aims(
            outside=str(ground / "outside"),
            home=str(ground / "person"),
            hub=str(ground / "repository" / ".git"),
            pid=sleeper.pid,
            port=tcp.getsockname()[1],
            socket=str(ground / "s"),
        )
        assert sleeper.poll() is None, "it was killed"


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
    """What it achieved in the agent's commands, it told in a file of the candidate; in the checks, in their log."""
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
