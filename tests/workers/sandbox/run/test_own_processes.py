"""Processes forked ahead of their work: what they inherit from their parent, and when they end."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from forgepool.workers.sandbox.tree import alive

_AHEAD = """\
import os, sys
from pathlib import Path
from forgepool.workers.sandbox.own_processes import fork_ahead

def work(words):
    print(*words, dict(os.environ), os.getsid(0) == os.getpid())
    return 7

seed = fork_ahead(lambda: None, work)
print(seed.child.pid, flush=True)
"""
_BEGUN = """\
child = seed.begin(["a", "b"], env={"TOLD": "yes"}, log=Path(sys.argv[1]))
while child.running():
    pass
print(child.status)
"""


def _told(script: str, *words: str) -> list[str]:
    ended = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True, check=True)
    assert ended.stderr == ""
    return ended.stdout.split()


def test_a_process_forked_ahead_works_with_the_environment_and_log_it_is_given(tmp_path: Path) -> None:
    assert _told(_AHEAD + _BEGUN, str(tmp_path / "logs" / "log"))[1:] == ["7"]
    assert (tmp_path / "logs" / "log").read_text() == "a b {'TOLD': 'yes'} True\n"


@pytest.mark.parametrize("end", ["", "os._exit(0)", "raise SystemExit(0)"])
def test_a_process_forked_ahead_in_vain_ends_with_its_parent(end: str) -> None:
    (pid,) = _told(_AHEAD + end)
    while end == "os._exit(0)" and alive(int(pid)):  # the kernel ends it, a moment later
        os.sched_yield()
    assert not alive(int(pid))
