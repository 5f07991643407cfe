"""A hub with a commit, a mirror of it, a pool of checkouts, and a program that must never run."""

from pathlib import Path

import pytest
from repositories import Hub, git, write

from worktrees.mirror import Mirror, open_mirror


@pytest.fixture
def hub(tmp_path: Path) -> Hub:
    made = Hub(path=tmp_path / "hub.git", work=tmp_path / "person")
    git(tmp_path, "init", "-q", "--bare", "-b", "main", str(made.path))
    git(tmp_path, "init", "-q", "-b", "main", str(made.work))
    write(
        made.work,
        {"README.md": "read me\n", "src/a.py": "a = 1\n", "src/b.py": "b = 1\n", ".gitignore": "*.o\n"},
    )
    git(made.work, "add", "-A")
    git(made.work, "commit", "-q", "-m", "first")
    git(made.work, "remote", "add", "origin", str(made.path))
    git(made.work, "push", "-q", "origin", "main")
    return made


@pytest.fixture
def mirror(hub: Hub, tmp_path: Path) -> Mirror:
    return open_mirror(str(hub.path), tmp_path / "cache")


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    return tmp_path / "pool"


@pytest.fixture
def evil(tmp_path: Path) -> tuple[Path, Path]:
    """A program that leaves a trace when it runs, and where the trace would be."""
    program, trace = tmp_path / "evil.sh", tmp_path / "it-ran"
    program.write_text(f'#!/bin/sh\necho "$0 $*" >> {trace}\ncat 2>/dev/null\nexit 0\n')
    program.chmod(0o755)
    return program, trace
