"""A lock that a killed push left in a local hub is removed once its maker cannot be alive, and not before."""

import os
import subprocess
import time
from pathlib import Path

import pytest
from repositories import Hub

from forgepool.worktrees.git.git import Git, GitFailed
from forgepool.worktrees.git.objects import find_object
from forgepool.worktrees.hub.mirror import Mirror
from forgepool.worktrees.hub.push import STALE_S, STALE_WITH_HOOK_S, Pushed, RefUpdate, remove_stale_locks
from forgepool.worktrees.hub.target import prune_run

ONE = "refs/forgepool/r1/one"


def _git_dir(mirror: Mirror) -> Path:
    hub = Path(mirror.hub)
    return hub / ".git" if (hub / ".git").is_dir() else hub


def _left_behind(mirror: Mirror, *, age_s: float, ref: str = ONE) -> Path:
    lock = _git_dir(mirror) / f"{ref}.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.touch()
    os.utime(lock, times=(time.time() - age_s,) * 2)
    return lock


def test_an_old_lock_that_nobody_holds_does_not_stop_a_push(hub: Hub, mirror: Mirror) -> None:
    lock = _left_behind(mirror, age_s=STALE_S + 60)
    assert mirror.push([RefUpdate(ref=ONE, new=hub.tip(), expected=None)]) == Pushed()
    assert mirror.hub_refs(ONE) == {ONE: hub.tip()}
    assert not lock.exists()


def test_an_old_lock_of_the_packed_refs_does_not_stop_a_deletion(hub: Hub, mirror: Mirror) -> None:
    assert mirror.push([RefUpdate(ref=ONE, new=hub.tip(), expected=None)]) == Pushed()
    lock = _left_behind(mirror, age_s=STALE_S + 60, ref="packed-refs")
    assert mirror.push([RefUpdate(ref=ONE, new=None, expected=hub.tip())]) == Pushed()
    assert mirror.hub_refs(ONE) == {}
    assert not lock.exists()


def test_a_young_lock_is_somebodys_and_is_named(hub: Hub, mirror: Mirror) -> None:
    lock = _left_behind(mirror, age_s=STALE_S / 2)
    with pytest.raises(GitFailed, match=r"one\.lock': File exists"):
        mirror.push([RefUpdate(ref=ONE, new=hub.tip(), expected=None)])
    assert lock.exists()


def test_an_old_lock_stays_while_a_git_is_at_work_in_the_hub(hub: Hub, mirror: Mirror) -> None:
    lock = _left_behind(mirror, age_s=STALE_S + 60)
    at_work = subprocess.Popen(
        ["git", "cat-file", "--batch"], cwd=_git_dir(mirror), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert at_work.stdin is not None and at_work.stdout is not None
        at_work.stdin.write(b"HEAD\n")
        at_work.stdin.flush()
        assert at_work.stdout.readline()
        assert remove_stale_locks(_git_dir(mirror), [ONE]) == []
    finally:
        at_work.communicate()
    assert lock.exists()
    assert remove_stale_locks(_git_dir(mirror), [ONE]) == [lock]


def test_locks_of_refs_that_are_not_asked_about_stay(hub: Hub, mirror: Mirror) -> None:
    other = _left_behind(mirror, age_s=STALE_S + 60, ref="refs/heads/other")
    assert remove_stale_locks(_git_dir(mirror), [ONE]) == []
    assert other.exists()


def test_an_old_lock_goes_beside_a_reader_that_stands_in_the_hub(hub: Hub, mirror: Mirror) -> None:
    assert find_object(Git(git_dir=_git_dir(mirror)), hub.tip()) is not None
    lock = _left_behind(mirror, age_s=STALE_S + 1)
    assert remove_stale_locks(_git_dir(mirror), [ONE]) == [lock]


@pytest.mark.parametrize("has", ["hook", "core.hooksPath", "include.path"])
def test_a_lock_stays_longer_where_a_hook_may_work_meanwhile(hub: Hub, mirror: Mirror, has: str) -> None:
    place = _git_dir(mirror)
    if has == "hook":
        (place / "hooks").mkdir(exist_ok=True)
        (place / "hooks" / "reference-transaction").write_text("#!/bin/sh\n")
    else:
        Git(git_dir=place).run("config", has, "elsewhere")
    lock = _left_behind(mirror, age_s=STALE_WITH_HOOK_S - 60)
    assert remove_stale_locks(place, [ONE]) == []
    os.utime(lock, times=(time.time() - STALE_WITH_HOOK_S - 60,) * 2)
    assert remove_stale_locks(place, [ONE]) == [lock]


def test_old_locks_of_an_ended_runs_refs_go_with_its_refs(hub: Hub, mirror: Mirror) -> None:
    """A hub that was away in the middle of a push is left with locks of refs that no later push asks for."""
    mine = [_left_behind(mirror, age_s=STALE_S + 60, ref=f"refs/forgepool/r1/{name}") for name in ("landed/a", "b/c/1")]
    young = _left_behind(mirror, age_s=STALE_S / 2, ref="refs/forgepool/r1/young")
    other = _left_behind(mirror, age_s=STALE_S + 60, ref="refs/forgepool/r2/b")
    prune_run(mirror, "r1")
    assert [lock.exists() for lock in (*mine, young, other)] == [False, False, True, True]
