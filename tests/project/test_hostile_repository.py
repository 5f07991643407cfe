"""The attacks of the hostile repository work: without a sandbox nearly all of them succeed."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hostile import ATTACKS, REPORT, Aims, Hostile, achieved, aimed_at, hostile_repository

from forgepool.workers.sandbox import tree


def git(folder: Path, /, *argv: str, check: bool = True) -> str:
    own = {name: f"a@b{name}" for name in ("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME", "EMAIL")}
    env = {**os.environ, **own, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    return subprocess.run(["git", *argv], cwd=folder, env=env, check=check, capture_output=True, text=True).stdout


@pytest.fixture
def aims(tmp_path: Path) -> Iterator[Aims]:
    (tmp_path / "hub/refs/heads").mkdir(parents=True)
    with aimed_at(tmp_path, tmp_path / "hub") as aims:
        yield aims


@pytest.fixture
def hostile(tmp_path: Path, aims: Aims) -> Hostile:
    (tmp_path / "repository").mkdir()
    return hostile_repository(tmp_path / "repository", aims, git)


def test_its_tests_attack_and_succeed_where_nothing_holds_them(hostile: Hostile, aims: Aims) -> None:
    """All report success but the daemon, whose mark shows that it ran. The repository's own tests pass."""
    argv = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(hostile.path),
        "test_app.py",
    ]
    try:
        ran = subprocess.run(argv, cwd=hostile.path, check=False, capture_output=True, text=True, timeout=60)
        assert ran.returncode == 0, ran.stdout
        got = achieved((hostile.path / REPORT).read_text())
        assert set(ATTACKS) - set(got) == {"leave a daemon"}, (hostile.path / REPORT).read_text()
        mark = Path(aims.outside, "daemon")
        for _ in range(500):
            if mark.exists():
                break
            subprocess.run(["sleep", "0.02"], check=True)
        assert mark.exists()
    finally:
        tree.kill_tree([pid for pid in _ours(aims) if pid != aims.pid])


def test_careless_git_runs_what_it_brings(hostile: Hostile) -> None:
    """Git runs its filters, its file system monitor and its hooks, each tried separately."""
    for argv, saying in (
        (
            ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=", "add", "--renormalize", "README.md"),
            "program.sh",
        ),
        (("-c", "core.hooksPath=/dev/null", "status"), "program.sh 2"),
        (("-c", "core.fsmonitor=", "commit", "-q", "--allow-empty", "-m", "x"), "hook"),
    ):
        hostile.canary.unlink(missing_ok=True)
        git(hostile.path, *argv, check=False)
        assert saying in hostile.canary.read_text()


def _ours(aims: Aims) -> list[int]:
    """Return the daemon that was left behind; no other process has the mark's path in its command line."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and f"{aims.outside}/daemon".encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found
