"""A copy of the home of real runs for each module, and the server over it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kit import Machine
from web_home import RealHome, WebServer, serving


@pytest.fixture(scope="module")
def home(copy_home: Callable[[Path], RealHome], tmp_path_factory: pytest.TempPathFactory) -> RealHome:
    """Return a copy of the home, which the tests of one module may change."""
    return copy_home(tmp_path_factory.mktemp("copy"))


@pytest.fixture(scope="module")
def server(home: RealHome) -> Iterator[WebServer]:
    with serving(home.machine) as started:
        yield started


@pytest.fixture
def other_home(copy_home: Callable[[Path], RealHome], tmp_path: Path) -> tuple[Machine, str]:
    """Return a copy of its own, for a test that changes it."""
    copied = copy_home(tmp_path)
    return copied.machine, copied.run
