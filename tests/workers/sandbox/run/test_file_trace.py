"""The kernel tells what a command looks up, whatever its code says, does or is written in."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from forgepool.workers.sandbox.run.file_trace import FileTrace
from forgepool.workers.sandbox.run.process import Ended

Run = Callable[..., Ended]
HELD = pytest.mark.parametrize("level", ["bubblewrap"], indirect=True)
HIDING = """\
import builtins, ctypes, os, sys
sys.addaudithook(lambda *event: None)
builtins.open = os.open = lambda *given: (_ for _ in ()).throw(OSError("there is nothing"))
libc = ctypes.CDLL(None)
number = libc.open(b"./sub/../data", 0)
print(ctypes.string_at(ctypes.create_string_buffer(9), libc.read(number, ctypes.create_string_buffer(9), 9)))
"""


def trace(sh: Run, place: Path, script: str) -> FileTrace:
    found = FileTrace(place, tmp=place.parent / "tmp")
    ended = sh(script, trace=found)
    assert ended.succeeded, ended.tail
    return found


@HELD
@pytest.mark.parametrize(
    ("script", "looked", "opened"),
    [
        ("cat data", {"data"}, {"data"}),
        ("cat sub/absent || true", {"sub/absent"}, set()),
        ("test -e absent || true", {"absent"}, set()),
        ("ls sub", {"sub"}, {"sub"}),
        ("cd sub && cat ../data", {"sub", "data"}, {"data"}),
        ("cat link", {"link", "data"}, {"link", "data"}),
        ('ln -s "$PWD/data" /tmp/away && cat /tmp/away', {"data"}, {"data"}),
        ('ln -s "$PWD/sub" /tmp/away && cat /tmp/away/run', {"sub", "sub/run"}, {"sub/run"}),
        ("ln data other && cat other", {"data"}, {"data"}),
        ("cat far/../run", {"sub/run"}, {"sub/run"}),
        ("sub/run", {"sub/run"}, {"sub/run"}),
        ("sh -c 'sh -c \"cat data\" & wait'", {"data"}, {"data"}),
        ('env -i /bin/sh -c "cat data"', {"data"}, {"data"}),
        ("mkdir sub || true", {"sub"}, set()),
    ],
)
def test_what_a_command_looks_up_is_told(sh: Run, place: Path, script: str, looked: set[str], opened: set[str]) -> None:
    (place / "sub").mkdir()
    (place / "data").write_text("1\n")
    (place / "sub" / "deep").mkdir()
    (place / "far").symlink_to("sub/deep")
    (place / "link").symlink_to("data")
    (place / "sub" / "run").write_text("#!/bin/sh\n")
    (place / "sub" / "run").chmod(0o755)
    found = trace(sh, place, script)
    assert not found.lacks
    assert looked <= found.looked and opened <= found.opened


@HELD
def test_code_that_hides_what_it_reads_from_its_own_process_is_told_of(sh: Run, place: Path) -> None:
    (place / "sub").mkdir()
    (place / "data").write_text("1\n")
    (place / "hiding.py").write_text(HIDING)
    found = trace(sh, place, f"{sys.executable} hiding.py")
    assert not found.lacks and "data" in found.opened


@HELD
@pytest.mark.parametrize(
    ("script", "through"),
    [("cat /proc/self/cwd/data", "/cwd/data"), ("exec 5<. && cat /dev/fd/5/data", "/fd/5/data")],
)
def test_a_way_whose_end_is_not_known_makes_a_trace_incomplete(sh: Run, place: Path, script: str, through: str) -> None:
    (place / "data").write_text("1\n")
    assert through in trace(sh, place, script).lacks


@pytest.mark.parametrize("level", ["off", "landlock"], indirect=True)
def test_without_bubblewrap_a_trace_is_incomplete_and_the_command_runs(sh: Run, place: Path) -> None:
    assert trace(sh, place, "true").lacks == "its look-ups cannot be heard here"


@HELD
def test_a_command_that_cannot_start_ends_its_trace(sh: Run, place: Path) -> None:
    found = FileTrace(place)
    assert sh("true", trace=found, argv=("absent-program",)).how == "not_started"
    assert not found.opened
