"""A process dies at the crash point that a test has named, once, and nowhere else."""

import os
import signal
from pathlib import Path

import pytest

from forgepool.workers.queue import crash_points


def _status_at(*points: str) -> int:
    """Return the exit status of a process that passes these points."""
    pid = os.fork()
    if pid == 0:
        crash_points.crash_here(*points)
        os._exit(7)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_the_first_to_reach_the_point_dies_and_nobody_after_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORGEPOOL_FAULT", f"landing.before-push:{tmp_path / 'died'}")
    assert _status_at("landing.after-push") == 7
    assert _status_at("other", "landing.before-push") == -signal.SIGKILL
    assert (tmp_path / "died").exists()
    assert _status_at("landing.before-push") == 7


@pytest.mark.parametrize("said", ["", "landing.before-push", ":/file"])
def test_nobody_dies_where_nothing_whole_was_asked_for(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORGEPOOL_FAULT", said)
    assert _status_at("landing.before-push", "") == 7
