"""
Limits on what one command may use up: each is tried alone, with proof that it is the limit that stops it.

What a watch adds up, shared memory and the files of an order, is stopped a moment late. The tests of `process` cover
time and output.
"""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from forgepool.workers.sandbox import tree
from forgepool.workers.sandbox.run.process import Ended
from forgepool.workers.schema.confinement import Bounds, Confinement, Level

Sh = Callable[..., Ended]
MIB = 1024**2
EACH = pytest.mark.parametrize("bound", [False, True])
"""Tests run with and without the limit; without it the attempt succeeds."""

pytestmark = pytest.mark.parametrize("level", ["bubblewrap", "landlock"], indirect=True)


@pytest.fixture
def python(sh: Sh, confined: Confinement, place: Path) -> Callable[..., Ended]:
    """Run a program within limits."""

    def run(program: str, **bounds: int) -> Ended:
        (place / "program.py").write_text(program)
        return sh("exec python3 -S -E program.py", confined=replace(confined, bounds=Bounds(**bounds)))

    return run


Python = Callable[..., Ended]


@EACH
def test_a_process_is_stopped_at_its_memory(python: Python, bound: bool) -> None:
    ended = python("print(len(bytearray(300 << 20)))", **({"memory_bytes": 128 * MIB} if bound else {}))
    assert ended.succeeded is not bound
    assert ("MemoryError" in ended.tail) is bound


_FORKS = """
import os, signal
made = 0
try:
    for _ in range(150):
        if os.fork() == 0:
            signal.pause()
        made += 1
except OSError:
    pass
print(made, flush=True)
"""


def _processes() -> int:
    """Count this user's processes and threads, because a limit counts them all."""
    found = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and entry.exists() and entry.stat().st_uid == os.getuid():
            found += sum(1 for _ in (entry / "task").iterdir()) if (entry / "task").exists() else 0
    return found


@EACH
def test_a_fork_bomb_is_stopped_at_its_number(python: Python, bound: bool) -> None:
    """No process of it is left, but what starts the commands of this process."""
    assert python("").succeeded
    before = tree.children(os.getpid())
    others = 0 if os.geteuid() == 0 else _processes()
    ended = python(_FORKS, **({"processes": others + 50} if bound else {}))
    assert ended.how == "exit"
    made = int(ended.tail)
    assert made <= 60 if bound else made == 150
    assert tree.children(os.getpid()) == before


@EACH
def test_a_file_is_no_longer_than_it_may_be(python: Python, place: Path, bound: bool) -> None:
    bounds = {"file_bytes": 4 * MIB} if bound else {}
    ended = python("file = open('long', 'wb')\nfor _ in range(8): file.write(bytes(1 << 20)); file.flush()", **bounds)
    assert ended.succeeded is not bound
    assert (place / "long").stat().st_size == (4 if bound else 8) * MIB


@EACH
def test_no_more_files_are_open_than_may_be(python: Python, bound: bool) -> None:
    ended = python("held = [open('/dev/null') for _ in range(200)]", **({"open_files": 64} if bound else {}))
    assert ended.succeeded is not bound


@EACH
def test_shared_memory_is_bounded(python: Python, level: Level, bound: bool) -> None:
    """The fallback gives none, because it would be the host's."""
    ended = python("open('/dev/shm/x', 'wb').write(bytes(8 << 20))", **({"shared_bytes": 4 * MIB} if bound else {}))
    assert ended.succeeded is (level == "bubblewrap" and not bound)


def test_no_memory_is_dumped(python: Python, place: Path) -> None:
    """A dump would hold the memory's content and be as large."""
    ended = python("import os, resource; print(resource.getrlimit(resource.RLIMIT_CORE), flush=True); os.abort()")
    assert ended.tail.startswith("(0, 0)")
    assert [entry.name for entry in place.iterdir()] == ["program.py"]


_HOGS = {
    "shared anonymous memory": (
        "import mmap\nm = mmap.mmap(-1, 96 << 20)\nfor _ in range(96): m.write(bytes(1 << 20))",
        "memory",
    ),
    "a memory file": ("import os\nf = os.memfd_create('m')\nfor _ in range(96): os.write(f, bytes(1 << 20))", "memory"),
    "many files": ("for n in range(24): open(f'f{n}', 'wb').write(bytes(1 << 20))", "files"),
    "files without a name": (
        "import tempfile\nheld = [tempfile.TemporaryFile(dir='.') for _ in range(24)]\n"
        "for each in held: each.write(bytes(1 << 20)); each.flush()",
        "files",
    ),
}
_SUMS = {"memory_bytes": 64 * MIB, "disk_bytes": 16 * MIB}


@pytest.mark.parametrize("way", _HOGS)
def test_what_adds_up_is_stopped_at_its_sum(python: Python, sh: Sh, way: str) -> None:
    """Its output ends with the reason, and a later command of the order can clear up."""
    program, what = _HOGS[way]
    ended = python(f"{program}\nimport time; time.sleep(10); print('survived')", **_SUMS)
    assert (ended.how, ended.status) == ("exit", 128 + signal.SIGKILL), ended
    assert f"[forgepool] ended: {'it takes more memory' if what == 'memory' else 'the order'}" in ended.tail
    assert sh("sleep 0.6; rm -f f*").succeeded


_MODEST = """
import mmap, os, time
shared = mmap.mmap(-1, 24 << 20)
shared.write(bytes(24 << 20))
children = [pid for pid in (os.fork() for _ in range(4))]
if 0 in children:
    shared[:: 4096]
    time.sleep(0.8)
    os._exit(0)
for round in range(12):
    open("again", "wb").write(bytes(4 << 20))
    open("gone", "wb").write(bytes(4 << 20))
    os.unlink("gone")
    time.sleep(0.07)
"""


def test_what_is_shared_or_written_again_counts_once(python: Python, place: Path) -> None:
    """Files that were there before do not count at all."""
    (place / "old").write_bytes(bytes(24 * MIB))
    time.sleep(0.1)
    assert python(_MODEST, **_SUMS).succeeded
