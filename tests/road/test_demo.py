"""`forgepool demo` when it does not reach its end."""

import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from kit import Machine, wait_until


@pytest.mark.soak
@pytest.mark.slow
def test_a_demo_that_is_interrupted_says_how_to_find_its_run(ground: Path, machine: Machine) -> None:
    demo = machine.start("demo")
    wait_until(lambda: "attempt 1 begins" in demo.out.read_text(), "a task at work")
    demo.process.send_signal(signal.SIGTERM)
    ended = demo.ended()
    assert ended.status == 130, ended.out + ended.err
    line = next(one for one in ended.out.splitlines() if one.startswith("resume: "))
    assert " forgepool resume inventory-clean-up-" in line and " forgepool logs inventory-clean-up-" in ended.out
    variables, _, rest = line.removeprefix("resume: ").partition("forgepool resume ")
    python = shlex.join([sys.executable, "-m", "forgepool.orchestrator.cli"])
    found = subprocess.run(
        f"{variables} {python} status {rest}", shell=True, capture_output=True, text=True, check=False, cwd=ground
    )
    assert found.returncode == 0 and ": paused, target" in found.stdout, found.stdout + found.stderr


@pytest.mark.slow
@pytest.mark.soak
def test_a_fleet_of_unequal_hosts_lands_every_task_once(machine: Machine) -> None:
    ended = machine.run("demo", "--fleet", within_s=300)
    assert ended.status == 0, ended.out + ended.err
    assert "Each of the 16 tasks is on forgepool/fleet once, and no attempt was charged to any task." in ended.out
    assert "'newer' reads other messages: it was known by its protocol 2, and took no message." in ended.out


def test_a_folder_that_cannot_be_made_is_wrong_usage(machine: Machine) -> None:
    (machine.folder).mkdir(parents=True, exist_ok=True)
    (machine.folder / "file").write_text("")
    said = machine.run("demo", "--folder", machine.folder / "file" / "demo")
    assert said.status == 2 and "cannot be created: Not a directory; give --folder another path" in said.err
