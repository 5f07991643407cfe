"""The forge that the tests of this folder ask, and what is waited for."""

from collections.abc import Iterator

import pytest
from forge_server import ForgeServer


@pytest.fixture
def server() -> Iterator[ForgeServer]:
    with ForgeServer() as serving:
        yield serving


@pytest.fixture
def waited() -> list[float]:
    """The seconds that were waited for, none of which has passed."""
    return []
