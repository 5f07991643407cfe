"""A hub with a commit, a mirror of it, a pool of checkouts, and a program that must never run."""

import shutil
from pathlib import Path

import pytest
from repositories import Hub, git, write

from forgepool.worktrees.hub.mirror import Mirror, open_mirror


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a hub and a person's clone of it once; every test gets a copy."""
    place = tmp_path_factory.mktemp("template")
    work = place / "person"
    git(place, "init", "-q", "--bare", "-b", "main", "hub.git")
    git(place, "init", "-q", "-b", "main", "person")
    write(work, {"README.md": "read me\n", "src/a.py": "a = 1\n", "src/b.py": "b = 1\n", ".gitignore": "*.o\n"})
    git(work, "add", "-A")
    git(work, "commit", "-q", "-m", "first")
    git(work, "remote", "add", "origin", "../hub.git")
    git(work, "push", "-q", "origin", "main")
    return place


@pytest.fixture
def hub(template: Path, tmp_path: Path) -> Hub:
    shutil.copytree(template, tmp_path, dirs_exist_ok=True)
    return Hub(path=tmp_path / "hub.git", work=tmp_path / "person")


@pytest.fixture
def mirror(hub: Hub, tmp_path: Path) -> Mirror:
    return open_mirror(str(hub.path), tmp_path / "cache")


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    return tmp_path / "pool"


@pytest.fixture
def evil(tmp_path: Path) -> tuple[Path, Path]:
    """Return a program that leaves a trace when it runs, and the path of that trace."""
    program, trace = tmp_path / "evil.sh", tmp_path / "it-ran"
    program.write_text(f'#!/bin/sh\necho "$0 $*" >> {trace}\ncat 2>/dev/null\nexit 0\n')
    program.chmod(0o755)
    return program, trace
