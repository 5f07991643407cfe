"""One launcher serves a process for its whole life, outside the groups of its commands."""

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from house import TREE

from forgepool.workers.sandbox import tree
from forgepool.workers.sandbox.launch.cgroups import find_places, open_group
from forgepool.workers.sandbox.run.process import Command, Ended, run, shell
from forgepool.workers.schema.confinement import Bounds, Confinement

with_groups = pytest.mark.skipif(not find_places().found, reason=f"no groups here: {find_places().why_not}")
confining = pytest.mark.parametrize("level", ["bubblewrap", "landlock"], indirect=True)

Order = Callable[..., Ended]


def launchers() -> list[int]:
    """Return the launchers among this process's children; a keeper, unlike a launcher, has a child."""
    alike = [pid for pid in tree.children(os.getpid()) if b"launcher import main" in _words(pid)]
    return [pid for pid in alike if not tree.children(pid)]


def _words(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


@pytest.fixture
def order(confined: Confinement, place: Path, tmp_path: Path) -> Order:
    """Run a script as an order does, in its own group."""

    def carry_out(script: str, while_it_runs: Callable[[tuple[Path, ...]], None] = lambda groups: None) -> Ended:
        with open_group(Bounds()) as groups:
            command = Command(
                argv=shell(script),
                cwd=place,
                env={"PATH": os.environ["PATH"]},
                log=tmp_path / "log",
                timeout_s=20.0,
                confined=replace(confined, groups=groups),
            )
            return run(command, hear=lambda output: while_it_runs(groups))

    return carry_out


@confining
def test_one_launcher_serves_all_orders_of_a_process(order: Order) -> None:
    assert order("true").succeeded
    kept = launchers()
    assert len(kept) == 1
    assert order("true").succeeded
    assert launchers() == kept


@with_groups
@confining
def test_the_launcher_is_outside_the_group_that_holds_the_command(order: Order) -> None:
    order("true")
    (kept,) = launchers()
    members: list[set[int]] = []

    def look(groups: tuple[Path, ...]) -> None:
        members.extend(set(map(int, group.read_text().split())) for group in groups)

    assert order("echo begun; sleep 0.2", look).succeeded
    assert members and all(len(each) >= 2 and kept not in each for each in members), "a clone and the command"


@confining
def test_a_killed_launcher_is_replaced_and_its_commands_are_answered(order: Order) -> None:
    """The command's own exit status is reported, because it is no child of the launcher."""
    order("true")
    killed: list[int] = []

    def kill(groups: tuple[Path, ...]) -> None:
        killed.extend(launchers())
        for pid in launchers():
            os.kill(pid, signal.SIGKILL)

    ended = order("echo begun; sleep 0.2; exit 3", kill)
    assert (ended.how, ended.status) == ("exit", 3)
    assert order("exit 4").status == 4
    assert len(launchers()) == 1 and not set(launchers()) & set(killed)


_FORKED = """
import fcntl, os, resource, signal, sys
sys.path.append({above!r})
from pathlib import Path
from forgepool.workers.sandbox import tree
from forgepool.workers.sandbox.launch.launch import fork_launcher, launch
for each in (signal.SIGTERM, signal.SIGTSTP, signal.SIGWINCH, signal.SIGRTMIN):
    signal.signal(each, signal.SIG_IGN)
lock = os.open({lock!r}, os.O_RDWR | os.O_CREAT)
fcntl.flock(lock, fcntl.LOCK_EX)
secret = bytearray(50 << 20)
fork_launcher()
(pid,) = tree.children(os.getpid())
{then}
"""


@contextmanager
def forked(tmp_path: Path, then: str) -> Iterator["subprocess.Popen[str]"]:
    """Start a process that holds a lock, ignores a signal, and forks its launcher."""
    script = _FORKED.format(above=str(TREE), lock=str(tmp_path / "lock"), then=then)
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
        yield process


def test_a_forked_launcher_has_none_of_its_maker_s_descriptors_and_signals(tmp_path: Path) -> None:
    then = """
request = {"argv": ["/bin/cat", "/proc/self/status"], "env": {}, "cwd": "/", "limits": {}}
os.waitpid(launch(request, [0, 1, 2]), 0)
print("descriptors:", len(os.listdir(f"/proc/{pid}/fd")), flush=True)
"""
    with forked(tmp_path, then) as process:
        said, _ = process.communicate()
    ignored = next(int(line.split()[1], 16) for line in said.splitlines() if line.startswith("SigIgn:"))
    assert [number for number in signal.valid_signals() if ignored >> (number - 1) & 1] == [], hex(ignored)
    assert said.endswith("descriptors: 5\n"), "three standard ones, the channel and the mark"


def test_an_interpreter_takes_over_from_a_forked_launcher(tmp_path: Path) -> None:
    """A fork of a large process costs more for each start than a fork of a small one."""
    then = """
def ended():
    request = {"argv": ["/bin/sh", "-c", "exit 7"], "env": {}, "cwd": "/", "limits": {}}
    return os.waitstatus_to_exitcode(os.waitpid(launch(request, [0, 1, 2]), 0)[1])
words = lambda: [Path(f"/proc/{each}/cmdline").read_bytes() for each in tree.children(os.getpid())]
few = {ended() for _ in range(4)}
print(few == {7}, words() == [Path("/proc/self/cmdline").read_bytes()])
print(ended(), [b"launcher import main" in each for each in words()])
"""
    with forked(tmp_path, then) as process:
        said, _ = process.communicate()
    assert said == "True True\n7 [True]\n"


def test_a_forked_launcher_ends_with_its_maker(tmp_path: Path) -> None:
    """The maker's lock is free at once, and no launcher is left."""
    with forked(tmp_path, "print(pid, flush=True); signal.pause()") as process:
        assert process.stdout
        pid = int(process.stdout.readline())
        assert tree.alive(pid)
        process.kill()
        process.wait()
        with (tmp_path / "lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    while tree.alive(pid):
        os.sched_yield()
