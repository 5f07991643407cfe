"""A hub with a small repository, and candidates on top of it."""

import shutil
from pathlib import Path

import pytest
from gates import Gate
from repositories import Hub, git


@pytest.fixture(scope="session")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a hub with two commits and a person's clone of it once; every test gets a copy."""
    place = tmp_path_factory.mktemp("place")
    hub = Hub(path=place / "hub.git", work=place / "person")
    git(place, "init", "-q", "--bare", "-b", "main", str(hub.path))
    git(place, "init", "-q", "-b", "main", str(hub.work))
    git(hub.work, "commit", "-q", "--allow-empty", "-m", "first")
    git(hub.work, "remote", "add", "origin", "../hub.git")
    git(hub.work, "push", "-q", "origin", "main")
    hub.commit({"a": "1\n", "b": "1\n"}, message="files")
    for samples in place.glob("**/hooks/*.sample"):
        samples.unlink()
    return place


@pytest.fixture
def gate(pristine: Path, tmp_path: Path) -> Gate:
    shutil.copytree(pristine, tmp_path, dirs_exist_ok=True)
    return Gate(Hub(path=tmp_path / "hub.git", work=tmp_path / "person"), tmp_path)
