"""A repository in which changes are told, for scans to look at."""

from pathlib import Path

import pytest
from stories import Stage


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path / "stage.git")
