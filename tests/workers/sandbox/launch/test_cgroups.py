"""
The processes of an order are limited together where a control group can be made; elsewhere the reason is reported.
"""

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from house import TREE

from forgepool.workers.sandbox.launch.cgroups import find_places, open_group
from forgepool.workers.sandbox.layers import NoSandbox, choose_level, lease_command_uid
from forgepool.workers.sandbox.run.process import Command, Ended, run, shell
from forgepool.workers.schema.confinement import Bounds, Confinement

ROOT = os.geteuid() == 0
_HAD = {name for place in find_places().found for name in place.controllers}
with_pids = pytest.mark.skipif("pids" not in _HAD, reason=f"no group for pids: {find_places().why_not}")
with_memory = pytest.mark.skipif("memory" not in _HAD, reason=f"no group for memory: {find_places().why_not}")

Run = Callable[[str, Bounds], Ended]


class Host:
    """A folder with the files by which a kernel describes its groups."""

    def __init__(self, folder: Path) -> None:
        self.proc, self.mounted = folder / "proc", folder / "cgroup"
        self.proc.mkdir()
        self.says(cgroup="", mountinfo="")

    def says(self, **files: str) -> None:
        for name, text in files.items():
            (self.proc / name).write_text(textwrap.dedent(text).format(top=self.mounted))

    def group(self, path: str, **files: str) -> Path:
        folder = self.mounted / path
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name.replace("_", ".", 1)).write_text(text)
        return folder

    def unified(self, own: str) -> None:
        self.says(cgroup=f"0::{own}\n", mountinfo="41 31 0:38 / {top} rw - cgroup2 cgroup2 rw\n")


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def delegate(folder: Path) -> None:
    """Mark the folder as systemd marks what it delegates to root; an ordinary user's is marked by ownership."""
    try:
        os.setxattr(folder, "trusted.delegate" if ROOT else "user.delegate", b"1")
    except OSError as trouble:
        pytest.skip(f"the file system keeps no marks: {trouble}")


def test_the_nearest_folder_whose_groups_get_the_controllers_is_taken(host: Host) -> None:
    host.group("", cgroup_controllers="cpu memory pids", cgroup_subtree_control="cpu memory pids")
    slice_ = host.group("app", cgroup_controllers="cpu memory pids", cgroup_subtree_control="memory pids")
    host.group("app/mine", cgroup_controllers="memory pids", cgroup_subtree_control="")
    host.unified("/app/mine")
    delegate(slice_)
    (place,) = find_places(host.proc).found
    assert (place.folder, place.version, place.controllers) == (slice_, 2, ("memory", "pids"))
    assert place.lacking == ()


def test_a_group_handed_over_whole_can_be_given_its_controllers(host: Host) -> None:
    host.group("", cgroup_controllers="memory pids", cgroup_subtree_control="memory pids")
    own = host.group("scope", cgroup_controllers="memory pids", cgroup_subtree_control="")
    host.group("", cgroup_subtree_control="")
    host.unified("/scope")
    delegate(own)
    (place,) = find_places(host.proc).found
    assert (place.folder, place.lacking) == (own, ("memory", "pids"))


@pytest.mark.skipif(not ROOT, reason="who owns the folders is told by the kernel")
def test_root_takes_no_group_that_was_not_handed_over_to_it(host: Host) -> None:
    """Its owner could not remove it while it contains our group."""
    host.group("", cgroup_controllers="memory pids", cgroup_subtree_control="memory pids")
    host.group("session", cgroup_controllers="memory pids", cgroup_subtree_control="memory pids")
    host.unified("/session")
    places = find_places(host.proc)
    assert places.found == ()
    assert places.why_not == (
        f"memory and pids: the control group {host.mounted}/session was not handed over to this process; with systemd, "
        "start it by `systemd-run --scope -p Delegate=yes COMMAND`"
    )


def test_each_controller_of_the_first_version_has_a_tree_of_its_own(host: Host) -> None:
    memory, pids = host.group("memory/box"), host.group("pids")
    host.group("cpu")
    host.says(
        cgroup="9:cpu,cpuacct:/\n4:memory:/box\n2:pids:/\n0::/\n",
        mountinfo="""\
            31 20 0:30 / {top}/cpu rw - cgroup cgroup rw,cpu,cpuacct
            35 20 0:32 / {top}/memory rw,nosuid - cgroup cgroup rw,memory
            39 20 0:36 / {top}/pids rw - cgroup cgroup rw,pids
            41 20 0:38 / {top}/cpu rw - cgroup2 cgroup2 rw
            """,
    )
    delegate(memory)
    found = {place.controllers: place for place in find_places(host.proc).found}
    assert {names: place.folder for names, place in found.items()} == {("memory",): memory, ("pids",): pids}
    assert {place.version for place in found.values()} == {1}


def test_of_memory_is_counted_what_the_tightest_group_above_allows(host: Host) -> None:
    host.group("", cgroup_controllers="memory", cgroup_subtree_control="memory", memory_max="max")
    box = host.group("box", cgroup_controllers="memory", cgroup_subtree_control="memory", memory_max="1000000")
    host.group("box/own", cgroup_controllers="memory", cgroup_subtree_control="", memory_max="max")
    host.unified("/box/own")
    delegate(box)
    places = find_places(host.proc)
    assert [place.memory_bytes for place in places.found] == [1_000_000]
    assert places.why_not == "no control groups for pids are mounted at /sys/fs/cgroup"


def test_a_host_without_groups_is_told_apart(host: Host) -> None:
    assert find_places(host.proc).why_not == "no control groups for memory and pids are mounted at /sys/fs/cgroup"


@pytest.fixture
def confined(tmp_path: Path) -> Run:
    """Run a script in the sandbox, in a group with these limits that is removed afterwards."""
    place = tmp_path / "place"
    place.mkdir()

    def script(text: str, bounds: Bounds) -> Ended:
        try:
            level = choose_level("auto")
        except NoSandbox as none:
            pytest.skip(str(none))
        with lease_command_uid() as uid, open_group(bounds) as groups:
            held = Confinement(level=level, writable=(place,), uid=uid, groups=groups)
            ended = run(
                Command(
                    argv=shell(text),
                    cwd=place,
                    env={"PATH": os.environ["PATH"]},
                    log=tmp_path / "log",
                    timeout_s=20.0,
                    confined=held,
                )
            )
        assert groups and not any(each.parent.exists() for each in groups)
        return ended

    return script


@with_pids
def test_a_fork_bomb_ends_at_the_groups_bound(confined: Run) -> None:
    """The command's own limit is far higher."""
    many = "i=0; while [ $i -lt 80 ]; do sleep 20 & i=$((i+1)); done; echo all of them"
    bombed = confined(many, Bounds(processes=30))
    assert "all of them" not in bombed.tail and "fork" in bombed.tail, bombed
    assert "all of them" in confined(f"{many}; kill $(jobs -p)", Bounds(processes=200)).tail


@with_pids
def test_a_command_for_which_there_is_no_room_is_not_started(confined: Run) -> None:
    """The process that starts it takes the only place."""
    ended = confined("true", Bounds(processes=1))
    assert ended.how == "not_started" and "as many processes as it may have" in ended.tail, ended


@with_memory
def test_what_processes_use_together_is_bounded(confined: Run) -> None:
    """Each of the four stays below the limit alone."""
    hog = "python3 -c 'b = bytearray(60 << 20); print(\"had\", flush=True); import time; time.sleep(3)'"
    together = f"({hog} & {hog} & {hog} & {hog} & wait)"
    bounds = Bounds(memory_bytes=160 << 20)
    assert confined(hog, bounds).tail.count("had") == 1
    assert confined(together, bounds).tail.count("had") < 4


_HELD = """
import os, signal, sys
sys.path.append({above!r})
from forgepool.workers.sandbox.launch.cgroups import open_group, why_not
from forgepool.workers.schema.confinement import Bounds
why_not()
with open_group(Bounds()) as groups:
    print(groups[0].parent, flush=True)
    {then}
"""


def harness(then: str) -> "subprocess.Popen[str]":
    script = _HELD.format(above=str(TREE), then=then)
    return subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)


@with_pids
def test_the_group_of_a_killed_harness_is_swept_up_and_no_other() -> None:
    with harness("os.kill(os.getpid(), signal.SIGKILL)") as dead, harness("sys.stdin.read()") as living:
        assert dead.stdout and living.stdout and living.stdin
        left, lived_in = Path(dead.stdout.readline().strip()), Path(living.stdout.readline().strip())
        dead.wait()
        living.poll()
        with harness("pass") as last:
            last.communicate()
        assert not left.exists() and lived_in.exists()
        living.communicate()
        assert not lived_in.exists()
