"""Machines with their own homes, and the assertion that they leave nothing behind."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kit import Machine, Repository, make_repository
from processes import kill_all, processes


@pytest.fixture
def ground(redis_program: str) -> Iterator[Path]:
    """
    Yield a folder for a test's machines. A unix socket's path holds about a hundred bytes, and pytest's paths are too
    long.
    """
    folder = Path(tempfile.mkdtemp(prefix="road-")).resolve()
    yield folder
    kill_all(folder)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def new_machine(ground: Path) -> Iterator[Callable[..., Machine]]:
    """Return a function that makes a machine with this name and this Redis."""
    made: list[Machine] = []

    def make(name: str, *, broker: str | None = None) -> Machine:
        made.append(Machine(folder=ground / name, name=name, broker=broker))
        made[-1].folder.mkdir()
        return made[-1]

    yield make
    kill_all(ground)
    for started in (one for machine in made for one in machine.started):
        started.process.wait()


@pytest.fixture
def machine(new_machine: Callable[..., Machine]) -> Machine:
    return new_machine("here")


@pytest.fixture
def repository(ground: Path) -> Repository:
    return make_repository(ground / "repo", {"README.md": "read me\n", "src/a.txt": "a\n", "src/b.txt": "b\n"})


@pytest.fixture
def nothing_left() -> Callable[[Path, Machine], None]:
    """Return a function that asserts that a machine has no process, leased slot or temporary folder left."""
    return _nothing_left


def _nothing_left(ground: Path, machine: Machine) -> None:
    assert [" ".join(one.argv) for one in processes(ground)] == []
    assert [str(lock) for lock in machine.cache.rglob("slot-*.lock") if _is_held(lock)] == []
    assert sorted(one.name for one in machine.tmp.iterdir()) == []


def _is_held(path: Path) -> bool:
    descriptor = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
