"""One home of real runs, made once and copied for each module, and the server over it."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from kit import Machine
from web_home import RealHome, WebServer, build_home, build_queue, serving


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory, redis_program: str) -> RealHome:
    machine, run = build_home(tmp_path_factory.mktemp("web"))
    return RealHome(machine=machine, run=run, queue=build_queue(machine), hub=machine.folder.parent / "hub")


@pytest.fixture(scope="module")
def home(made: RealHome, tmp_path_factory: pytest.TempPathFactory) -> RealHome:
    """Return a copy of the home, which the tests of one module may change."""
    machine = Machine(folder=tmp_path_factory.mktemp("copy"), name=made.machine.name)
    shutil.copytree(made.machine.home, machine.home)
    return replace(made, machine=machine)


@pytest.fixture(scope="module")
def server(home: RealHome) -> Iterator[WebServer]:
    with serving(home.machine) as started:
        yield started


@pytest.fixture
def other_home(tmp_path: Path, redis_program: str) -> tuple[Machine, str]:
    """Return a home of its own, for tests that change it."""
    return build_home(tmp_path)
