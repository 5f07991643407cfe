"""A gate that is kept by hand, and the servers beside it."""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

# Pytest imports tests by file and puts no folder on the path; the helpers beside them must still be found.
sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1] / "forges")]

from forge_server import ForgeServer
from kept_gate import KeptGate, hub_template


@pytest.fixture(scope="session")
def template() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="fp-") as folder:
        yield hub_template(Path(folder))


@pytest.fixture
def gate(template: Path) -> Iterator[KeptGate]:
    with tempfile.TemporaryDirectory(prefix="fp-") as folder, KeptGate.opened(Path(folder), template) as kept:
        yield kept


@pytest.fixture
def server() -> Iterator[ForgeServer]:
    with ForgeServer() as serving:
        yield serving
