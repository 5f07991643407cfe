"""One home of real runs, made once, and the server over it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from kit import Machine
from web_home import RealHome, WebServer, build_home, build_queue, serving


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory, redis_program: str) -> RealHome:
    machine, run = build_home(tmp_path_factory.mktemp("web"))
    return RealHome(machine=machine, run=run, queue=build_queue(machine))


@pytest.fixture(scope="session")
def server(home: RealHome) -> Iterator[WebServer]:
    with serving(home.machine) as started:
        yield started


@pytest.fixture
def other_home(tmp_path: Path, redis_program: str) -> tuple[Machine, str]:
    """Return a home of its own, for tests that change it."""
    return build_home(tmp_path)
