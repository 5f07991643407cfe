"""No process of a command outlives the command, its time limit or the harness, whatever it does to its supervisors."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from daemons import daemon_in, lives, until_there

from forgepool.workers.sandbox import tree
from forgepool.workers.sandbox.run.process import Ended
from forgepool.workers.schema.confinement import Confinement, as_json

Sh = Callable[..., Ended]
CONFINED = pytest.mark.parametrize("level", ["bubblewrap", "landlock"], indirect=True)


def gone(held: Path) -> bool:
    """Wait a short time for the daemon to end, and return whether it has."""
    end = time.monotonic() + 10
    while lives(held) and time.monotonic() < end:
        time.sleep(0.01)
    return not lives(held)


@pytest.fixture
def ended_by_hand(marked: Callable[[str], list[int]]) -> Iterator[dict[str, str]]:
    """Return an environment by which `marked` kills the processes after the test."""
    marked("WHOSE=nobody")
    yield {"PATH": os.environ["PATH"], "WHOSE": "nobody"}


@pytest.mark.parametrize("timeout_s", [None, 1.0])
def test_without_a_harness_a_daemon_lives_on(
    place: Path, ended_by_hand: dict[str, str], timeout_s: float | None
) -> None:
    """It survives the end and the killing of its command. Otherwise the tests below would prove nothing."""
    script = daemon_in(place) if timeout_s is None else f"{daemon_in(place)}; exec sleep 60"
    try:
        subprocess.run(("/bin/sh", "-c", script), env=ended_by_hand, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        assert timeout_s is not None
    assert lives(place / "daemon")


def test_a_daemon_dies_at_the_time_limit(sh: Sh, place: Path) -> None:
    ended = sh(f"{daemon_in(place)}; exec sleep 60", stop=(place / "daemon").exists)
    assert ended.how == "stopped"
    assert not lives(place / "daemon")


def test_a_daemon_dies_though_it_holds_everything_on(sh: Sh, place: Path) -> None:
    """It is its own reaper, ignores all signals, has an empty environment and has closed its output."""
    hold = "import ctypes, signal; ctypes.CDLL(None).prctl(36, 1, 0, 0, 0); "
    hold += "[signal.signal(each, signal.SIG_IGN) for each in range(1, 32) if each not in (9, 17, 19)]; "
    hold += "import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0])"
    script = daemon_in(place).replace("-S -E", f"-S -E -c '{hold}'")
    ended = sh(f"env -i PATH=$PATH {script} >/dev/null 2>&1 & until [ -s daemon ]; do sleep 0.01; done")
    assert ended.how == "exit"
    assert not lives(place / "daemon")


@CONFINED
def test_a_command_cannot_end_who_stands_over_it(sh: Sh, place: Path) -> None:
    """It signals its parent, the first process and all others, and the daemon still dies."""
    attack = "for who in $PPID 1; do kill -KILL $who; kill -STOP $who; done; kill -KILL -1"
    ended = sh(f"{daemon_in(place)}; ({attack}) 2>/dev/null; exit 7")
    assert ended.how == "exit"
    assert ended.left == ()
    assert not lives(place / "daemon")


_HARNESS = """
import json, os, sys
from pathlib import Path
from forgepool.workers.schema.confinement import from_json
from forgepool.workers.sandbox.run.process import Command, run
told = json.loads(sys.argv[1])
run(Command(argv=("/bin/sh", "-c", told["script"]), cwd=Path(told["place"]), env={"PATH": os.environ["PATH"]},
            log=Path(told["log"]), timeout_s=60, confined=from_json(told["confined"])))
"""


@CONFINED
def test_a_daemon_dies_when_the_harness_is_killed(confined: Confinement, place: Path, tmp_path: Path) -> None:
    """SIGKILL gives the harness no time to end anything, and no other process does it later."""
    script = f"{daemon_in(place)}; exec sleep 60"
    told = {"script": script, "place": str(place), "log": str(tmp_path / "log"), "confined": as_json(confined)}
    with subprocess.Popen((sys.executable, "-c", _HARNESS, json.dumps(told))) as harness:
        until_there(place / "daemon")
        below = tree.descendants(harness.pid)
        assert lives(place / "daemon")
        harness.kill()
    assert gone(place / "daemon")
    end = time.monotonic() + 10
    while any(map(tree.alive, below)) and time.monotonic() < end:
        time.sleep(0.01)
    assert [pid for pid in below if tree.alive(pid)] == []
