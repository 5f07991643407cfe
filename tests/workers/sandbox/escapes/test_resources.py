"""
Limits on what one command may use up: each is tried alone, with proof that it is the limit that stops it.

Not here: the memory of many processes together, which only a control group counts, and the size of all files, which
only a limited file system bounds. The tests of `process` cover time and output.
"""

import os
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
    """No process of it is left."""
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
