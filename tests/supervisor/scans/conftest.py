"""A repository in which changes are told, for scans to look at."""

import sys
from pathlib import Path

import pytest

# Pytest imports tests by file and puts no folder on the path; the helpers must still be found.
sys.path.append(str(Path(__file__).parent))

from stories import Stage


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path / "stage.git")
