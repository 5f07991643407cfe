"""A hub with a small repository in it, and candidates made on top of it."""

import sys
from pathlib import Path

import pytest

# Pytest imports tests by file and puts no folder on the path; the helpers must still be found.
sys.path += [str(Path(__file__).parent), str(Path(__file__).parent.parent / "worktrees")]

from gates import Gate
from repositories import Hub, git


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    hub = Hub(path=tmp_path / "hub.git", work=tmp_path / "person")
    git(tmp_path, "init", "-q", "--bare", "-b", "main", str(hub.path))
    git(tmp_path, "init", "-q", "-b", "main", str(hub.work))
    git(hub.work, "commit", "-q", "--allow-empty", "-m", "first")
    git(hub.work, "remote", "add", "origin", str(hub.path))
    git(hub.work, "push", "-q", "origin", "main")
    hub.commit({"a": "1\n", "b": "1\n"}, message="files")
    return Gate(hub, tmp_path)
