"""A queue driven by the test, and the servers beside it."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
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
