"""When everything above a command is killed at once, its processes are found later, and no others are."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from forgepool.workers.sandbox import tree
from forgepool.workers.sandbox.run.process import Command, run
from forgepool.workers.sandbox.tree import find_abandoned
from forgepool.workers.schema.confinement import OPEN

HARNESS = """
import sys
from pathlib import Path
from forgepool.workers.schema.confinement import OPEN
from forgepool.workers.sandbox.run.process import Command, run
folder = Path(sys.argv[1])
script = f"echo $$ > {folder}/pid; exec sleep 300"
argv = ("/bin/sh", "-c", script)
run(Command(argv=argv, cwd=folder, env={"PATH": "/usr/bin:/bin"}, log=folder / "log", timeout_s=400, confined=OPEN))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_command_whose_harness_was_killed_is_found_and_ended(tmp_path: Path) -> None:
    harness = subprocess.Popen([sys.executable, "-c", HARNESS, str(tmp_path)])
    pid_file = tmp_path / "pid"
    while not (pid_file.is_file() and pid_file.read_text().strip()):
        assert harness.poll() is None
        os.sched_yield()
    pid = int(pid_file.read_text())
    assert pid not in find_abandoned(), "its harness lives"
    harness.kill()
    harness.wait()
    assert pid in find_abandoned()
    assert tree.kill_tree([pid]) == []
    assert pid not in find_abandoned()


def test_a_living_harness_s_command_is_left_alone(tmp_path: Path) -> None:
    seen: list[list[int]] = []

    def look() -> bool:
        seen.append(find_abandoned())
        return True

    run(
        Command(
            argv=("/bin/sh", "-c", f"echo $$ > {tmp_path}/pid; exec sleep 300"),
            cwd=tmp_path,
            env={"PATH": os.environ["PATH"]},
            log=tmp_path / "log",
            timeout_s=60,
            confined=OPEN,
        ),
        stop=look,
    )
    assert int((tmp_path / "pid").read_text()) not in seen[0]
