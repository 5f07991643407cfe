"""The forge that the tests of this folder ask, and the waits they record."""

from collections.abc import Iterator

import pytest
from forge_server import ForgeServer


@pytest.fixture
def server() -> Iterator[ForgeServer]:
    with ForgeServer() as serving:
        yield serving


@pytest.fixture
def waited() -> list[float]:
    """Return the list of seconds that the code asked to wait; no time passes."""
    return []
