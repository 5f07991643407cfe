import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from daemons import daemon_in, lives, until_there

from forgepool.workers.llm.messages import ToolCall
from forgepool.workers.sandbox import tree
from forgepool.workers.sandbox.layers import lease_command_uid, why_level_fails
from forgepool.workers.sandbox.run.background import Background
from forgepool.workers.schema.confinement import Confinement
from forgepool.workers.tools.commands.run import BASH, background_tools
from forgepool.workers.tools.tool import ToolAnswer, carry_out
from forgepool.workers.tools.workplace import Workplace

Use = Callable[..., ToolAnswer]

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="process trees are seen on Linux")


@pytest.fixture(params=["off", "bubblewrap", "landlock"])
def place(request: pytest.FixtureRequest, place: Workplace) -> Iterator[Workplace]:
    """The usual workplace, with commands confined in each possible way."""
    if request.param == "off":
        yield place
        return
    if (why_not := why_level_fails(request.param)) is not None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"{request.param} does not hold here: {why_not}")
        pytest.skip(f"{request.param} does not hold here: {why_not}")
    with lease_command_uid() as uid:
        held = Confinement(level=request.param, writable=(place.root, place.tmp), tmp=place.tmp, uid=uid)
        yield replace(place, confined=held)


def until(true: Callable[[], object]) -> None:
    end = time.monotonic() + 15
    while not true():
        assert time.monotonic() < end, "it never came true"
        os.sched_yield()


def test_work_goes_on_beside_a_background_command(use: Use, place: Workplace) -> None:
    """Each check shows new output, and at the end the status. All output stays readable."""
    begun = use("bash_background", command="echo one; until [ -e go ]; do sleep 0.02; done; echo two; exit 3")
    log = Path(begun.text.split()[-1])
    assert begun.text == f"OK: command 1 runs in the background; its output goes to {log}"
    assert log.parent == place.outputs
    first = use("check_background", id=1, wait_s=10, until="one")
    assert re.fullmatch(r"\[running, \d+\.\d s\]\none", first.text)
    assert use("check_background", id=1).text.endswith("]\n[no new output]")
    assert use("bash", command="touch go").text.startswith("[exit status 0")
    last = use("check_background", id=1, wait_s=10)
    assert re.fullmatch(r"\[exit status 3, \d+\.\d s\]\ntwo", last.text)
    assert last.is_error
    whole = use("read_file", path=str(log)).text
    assert whole.startswith("     1\tone\n     2\ttwo\n")
    assert use("stop_background", id=1).text.startswith("command 1 had ended by itself: [exit status 3, ")


def test_stop_ends_a_command_and_what_it_started(use: Use, place: Workplace) -> None:
    """It started a daemon in another session with an empty environment."""
    use("bash_background", command=f"env -i PATH=$PATH {daemon_in(place.root)}; echo ready; exec sleep 60")
    daemon = place.root / "daemon"
    until_there(daemon)
    assert use("check_background", id=1, wait_s=10, until="ready").text.endswith("ready")
    assert lives(daemon)
    assert use("stop_background", id=1).text.startswith("[stopped after ")
    assert not lives(daemon)
    assert use("check_background", id=1).text.startswith("[killed: ")


def test_foreground_and_background_end_only_their_own(use: Use, place: Workplace) -> None:
    """The end of a foreground command leaves the background's daemons alive, and vice versa."""
    root = place.root
    own, older, younger = (daemon_in(root, name) for name in ("own", "older", "younger"))
    wiped = "env -i PATH=$PATH"
    use(
        "bash_background",
        command=f"{wiped} {older}; until [ -e go ]; do sleep 0.01; done; {wiped} {younger}; exec sleep 60",
    )
    until_there(root / "older")
    script = f"{own}; touch go; until [ -s younger ]; do sleep 0.01; done"
    assert use("bash", command=script).text.startswith("[exit status 0")
    assert not lives(root / "own")
    assert lives(root / "older")
    assert lives(root / "younger")
    assert use("check_background", id=1).text.startswith("[running")
    use("stop_background", id=1)
    assert not lives(root / "older")
    assert not lives(root / "younger")


@pytest.mark.parametrize("raised", [None, KeyboardInterrupt])
def test_nothing_outlives_the_order(place: Workplace, raised: type[BaseException] | None) -> None:
    """However it ends, its background commands and their daemons are dead, and no child is left to reap."""
    before = tree.children(os.getpid())
    daemons = [place.root / name for name in ("1", "2")]
    try:
        with Background() as background:
            tools = background_tools(background)
            for daemon in daemons:
                script = f"setsid {daemon_in(place.root, daemon.name)}; exec sleep 60"
                carry_out(ToolCall(id="1", name="bash_background", arguments={"command": script}), tools, place)
            for daemon in daemons:
                until_there(daemon)
            if raised is not None:
                raise raised
    except KeyboardInterrupt:
        pass
    assert not any(lives(daemon) for daemon in daemons)
    assert tree.children(os.getpid()) == before


def test_a_killed_guard_leaves_nobody(use: Use, place: Workplace, background: Background) -> None:
    """Its descendants become the harness's and are found by their mark. With a sandbox they die with the guard."""
    use("bash_background", command=f"setsid {daemon_in(place.root)}; exec sleep 60")
    until_there(place.root / "daemon")
    os.kill(background.commands[1]._guard.pid, signal.SIGKILL)
    assert use("check_background", id=1, wait_s=10).text.startswith("[killed: ")
    until(lambda: not lives(place.root / "daemon"))


_HARNESS = """
import sys, time
from pathlib import Path
from forgepool.workers.sandbox.run.background import Background
from forgepool.workers.schema.confinement import OPEN
from forgepool.workers.sandbox.run.process import Command
folder = Path(sys.argv[1])
script = f"setsid sh -c 'echo $$ > {folder}/pid; exec sleep 300' & exec sleep 300"
with Background() as background:
    background.start(Command(argv=("/bin/sh", "-c", script), cwd=folder, env={"PATH": "/usr/bin:/bin"},
                             log=folder / "log", timeout_s=400, confined=OPEN))
    time.sleep(300)
"""


def test_a_guard_ends_its_command_when_the_harness_is_killed(tmp_path: Path) -> None:
    """SIGKILL gives the harness no time to stop anything."""
    pid = os.posix_spawn(sys.executable, [sys.executable, "-c", _HARNESS, str(tmp_path)], dict(os.environ))
    until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().endswith("\n"))
    below = int((tmp_path / "pid").read_text())
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    until(lambda: not tree.alive(below))


def test_only_a_few_run_at_once(use: Use) -> None:
    """The fifth is refused until one has ended."""
    for _ in range(4):
        assert not use("bash_background", command="exec sleep 60").is_error
    fifth = use("bash_background", command="true")
    assert fifth.text == "4 commands run already (1, 2, 3, 4), which is the most; stop one of them first"
    assert fifth.is_error
    use("stop_background", id=2)
    assert use("bash_background", command="true").text.startswith("OK: command 5 runs")


def test_waiting_ends_when_the_attempt_is_stopped(use: Use) -> None:
    """It also ends when no time is left."""
    use("bash_background", command="exec sleep 60")
    began = time.monotonic()
    use("check_background", {"stop": lambda: True}, id=1, wait_s=60)
    use("check_background", {"left_s": lambda: 0.1}, id=1, wait_s=60)
    assert time.monotonic() - began < 10


def test_a_background_command_ends_with_the_attempt_s_time(use: Use) -> None:
    use("bash_background", {"left_s": lambda: 0.2}, command="exec sleep 60")
    assert use("check_background", id=1, wait_s=10).text.startswith("[killed after ")


def test_a_flood_is_bounded_and_shown_by_its_end(use: Use) -> None:
    """The log has a size limit. A check shows the end of the new output, and says when no more can be shown."""
    script = "echo first; head -c 20000000 /dev/zero | tr '\\0' x; echo; echo full; sleep 60"
    log = Path(use("bash_background", command=script).text.split()[-1])
    until(lambda: log.exists() and log.stat().st_size == 7 * 1024 * 1024)
    running = use("check_background", id=1).text
    assert len(running) < 13_000
    assert "characters are left out here; they are in" in running
    assert running.endswith(f"[{log} is full; what is printed from now on shows when the command has ended]")
    assert use("stop_background", id=1).text.endswith("\nfull")
    assert log.stat().st_size <= 8 * 1024 * 1024


@pytest.mark.parametrize("tool", ["check_background", "stop_background"])
def test_a_number_nobody_has_is_told(use: Use, tool: str) -> None:
    assert use(tool, id=7).text == "no background command has the number 7; there are: none was started"


def test_a_command_that_cannot_start_says_so(place: Workplace) -> None:
    """A missing worktree gives an answer, not a crash."""
    with Background() as background:
        gone = replace(place, root=place.root / "gone")
        call = ToolCall(id="1", name="bash_background", arguments={"command": "true"})
        answer = carry_out(call, (*background_tools(background), BASH), gone)
    assert answer.is_error
    assert "\n" not in answer.text


@pytest.mark.parametrize("tool", ["bash", "bash_background"])
def test_no_output_is_written_through_a_link(use: Use, place: Workplace, tool: str) -> None:
    """A command can put a link where outputs are kept, and the harness does not follow it."""
    outside = place.root.parent / "outside"
    place.outputs.symlink_to(outside)
    said = use(tool, command="seq 100000").text
    assert f"{place.outputs}: is a link or a file; remove it, so that output can be kept there" in said
    assert tool == "bash_background" or said.endswith("99999\n100000")
    assert [path.name for path in outside.iterdir()] == ["secret"]
    assert use("read_file", path=f"{place.outputs}/secret").is_error


def test_nothing_outlives_a_guard_that_was_killed(use: Use, place: Workplace, background: Background) -> None:
    """A daemon without its mark becomes the harness's orphan and ends with its command."""
    use("bash_background", command=f"env -i PATH=$PATH {daemon_in(place.root)}; sleep 60")
    daemon = place.root / "daemon"
    until_there(daemon)
    os.kill(background.commands[1]._guard.pid, signal.SIGKILL)
    until(lambda: background.commands[1].find_end() is not None)
    until(lambda: not lives(daemon))
