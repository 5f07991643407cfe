"""
Fixtures of the interfaces: an empty home, and one of real runs, which is made once for all processes of xdist.
"""

import fcntl
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from kit import Machine, Repository, make_repository
from web_home import RealHome, build_home, build_queue


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory, worker_id: str, redis_program: str) -> RealHome:
    """Return the home that the first process makes, and for which the others wait. Nothing may change it."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "interfaces"
    folder.mkdir(exist_ok=True)
    machine, names = Machine(folder=folder / "m", name="host-1"), folder / "names.json"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not names.exists():
            shutil.rmtree(folder / "hub", ignore_errors=True)  # Left by a process that failed in its middle.
            shutil.rmtree(machine.folder, ignore_errors=True)
            machine, run = build_home(folder)
            names.write_text(json.dumps({"run": run, "queue": build_queue(machine)}))
    return RealHome(machine=machine, hub=folder / "hub", **json.loads(names.read_text()))


@pytest.fixture(scope="session")
def copy_home(made: RealHome) -> Callable[[Path], RealHome]:
    """
    Return a function that copies the home into a folder. A copy may be changed; the repositories are those of all, so
    no run of it may be resumed.
    """

    def copy(folder: Path) -> RealHome:
        machine = Machine(folder=folder / "m", name=made.machine.name)
        shutil.copytree(made.machine.home, machine.home)
        return replace(made, machine=machine)

    return copy


@pytest.fixture
def machine(tmp_path: Path, redis_program: str) -> Machine:
    made = Machine(folder=tmp_path / "m", name="host-1")
    made.folder.mkdir()
    return made


@pytest.fixture
def hub(tmp_path: Path) -> Repository:
    return make_repository(tmp_path / "hub", {"README.md": "hello\n"})
