"""The forge that the tests of this folder ask, and what is waited for."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# Pytest imports tests by file and puts no folder on the path; the helper beside them must still be found.
sys.path.append(str(Path(__file__).parent))

from forge_server import ForgeServer


@pytest.fixture
def server() -> Iterator[ForgeServer]:
    with ForgeServer() as serving:
        yield serving


@pytest.fixture
def waited() -> list[float]:
    """The seconds that were waited for, none of which has passed."""
    return []
