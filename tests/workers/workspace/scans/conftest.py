"""A repository in which scans look at changes."""

from pathlib import Path

import pytest
from stories import Stage


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path / "stage.git")
