import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from forgepool.workers.sandbox import tree

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="process trees are seen on Linux")


def _until(true: Callable[[], object]) -> None:
    end = time.monotonic() + 10
    while not true():
        assert time.monotonic() < end, "it never came true"
        os.sched_yield()


def test_descendants_are_seen_at_every_depth() -> None:
    """A process is not its own descendant."""
    with subprocess.Popen(["sh", "-c", "(sleep 60 & wait) & wait"]) as root:
        _until(lambda: len(tree.descendants(root.pid)) == 2)
        assert root.pid not in tree.descendants(root.pid)
        assert root.pid in tree.children(os.getpid())
        tree.kill_tree([root.pid])


def test_kill_tree_leaves_nobody() -> None:
    """Descendants in other sessions die, too, although the killer is no subreaper here."""
    with subprocess.Popen(["sh", "-c", "setsid sleep 60 & setsid sh -c 'sleep 60 & wait' & wait"]) as root:
        _until(lambda: len(tree.descendants(root.pid)) == 3)
        below = tree.descendants(root.pid)
        assert tree.kill_tree([root.pid]) == []
    assert not any(tree.alive(pid) for pid in below)


def test_kill_tree_of_nobody_is_nothing() -> None:
    """A pid that no longer exists is no error."""
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    assert tree.kill_tree([gone.pid]) == []


def test_a_zombie_is_not_alive() -> None:
    with subprocess.Popen(["true"]) as child:
        _until(lambda: not tree.alive(child.pid))
        assert tree.start_time(child.pid) is not None


def test_a_pid_alone_names_nobody() -> None:
    """With another start time it is another process."""
    started = tree.start_time(os.getpid())
    assert started is not None
    assert tree.alive(os.getpid(), started)
    assert not tree.alive(os.getpid(), started + 1)


def test_a_name_with_parentheses_does_not_confuse() -> None:
    """The kernel quotes nothing in `stat`, and a program may have any name."""
    script = "import ctypes; ctypes.CDLL(None).prctl(15, b'a) Z 1 1 (b', 0, 0, 0); print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-S", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        found = tree.stat(child.pid)
        assert found is not None
        assert found.parent == os.getpid()
        assert tree.alive(child.pid)
        child.kill()


_ORPHANING = """
import os, sys, subprocess
from forgepool.workers.sandbox import tree
tree.become_subreaper()
own = subprocess.Popen(["sleep", "60"])
subprocess.run(["sh", "-c", "setsid sleep 60 &"])
orphans = tree.orphans_of_mine({own.pid})
print(len(orphans), tree.kill_tree(orphans), own.poll(), tree.orphans_of_mine({own.pid}))
own.kill()
own.wait()
"""


def test_a_subreaper_gets_orphans_and_knows_them_from_its_own() -> None:
    """A guard kills adopted processes and not those it started."""
    done = subprocess.run([sys.executable, "-c", _ORPHANING], capture_output=True, text=True, check=True)
    assert done.stdout == "1 [] None []\n"


_DYING = """
import subprocess, sys, time
child = subprocess.Popen(
    [sys.executable, "-c", "from forgepool.workers.sandbox import tree; import time; tree.die_with_parent(); "
     "print('ready', flush=True); time.sleep(60)"], stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(60)
"""


def test_a_child_dies_with_its_parent() -> None:
    """This holds even if the parent is killed with SIGKILL."""
    with subprocess.Popen([sys.executable, "-c", _DYING], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert tree.alive(child)
        parent.kill()
        _until(lambda: not tree.alive(child))


def test_a_child_whose_parent_is_gone_already_dies_at_once() -> None:
    """The parent may die before the child has set this up. The parent's pid shows it."""
    script = "from forgepool.workers.sandbox import tree; tree.die_with_parent(parent=1 << 22); print('alive')"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (-9, b"")
