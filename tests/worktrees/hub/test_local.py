"""A hub on this host is given commits without a push exactly where nobody could tell the difference."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from repositories import Hub, git

from forgepool.worktrees.commits.candidate import tree_with, write_commit
from forgepool.worktrees.git.git import CommitId, GitFailed
from forgepool.worktrees.hub.mirror import Mirror, open_mirror
from forgepool.worktrees.hub.push import Pushed, RefUpdate, Stale

ONE, MAIN = "refs/forgepool/r1/one", "refs/heads/main"


def _new_commit(hub: Hub, mirror: Mirror) -> CommitId:
    tip = hub.tip()
    mirror.ensure(tip)
    blob = mirror.git.text("hash-object", "-w", "--stdin", stdin=b"new")
    tree = tree_with(mirror.git, {"a/b": f"100644 {blob}"})
    return write_commit(mirror.git, tree=tree, parents=(tip,), message="new\n", at=0)


def _object(folder: Path, commit: CommitId) -> Path:
    return folder / "objects" / commit[:2] / commit[2:]


def _pushed(hub: Hub, commit: CommitId) -> bool:
    """Did a push bring the commit? Otherwise its file is the mirror's own."""
    return _object(hub.path, commit).stat().st_nlink == 1


def test_a_hub_of_our_own_gets_the_files_themselves_and_stands_alone(hub: Hub, mirror: Mirror) -> None:
    tip, new = hub.tip(), _new_commit(hub, mirror)
    updates = [RefUpdate(ref=MAIN, new=new, expected=tip), RefUpdate(ref=ONE, new=new, expected=None)]
    assert mirror.push(updates) == Pushed()
    assert not _pushed(hub, new)
    shutil.rmtree(mirror.path)
    git(hub.path, "fsck", "--strict")
    assert git(hub.path, "show", "main:a/b") == "new"
    assert git(hub.path, "rev-parse", ONE) == new
    assert not list(hub.path.rglob("tmp_obj_*"))


def _hook(hub: Hub) -> None:
    hook = hub.path / "hooks" / "post-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {hub.path}/ran\n")
    hook.chmod(0o755)


def _settings(*words: str) -> Callable[[Hub], None]:
    return lambda hub: git(hub.path, "config", *words) and None


def _link(hub: Hub) -> None:
    git(hub.path, "symbolic-ref", ONE, "refs/heads/other")


@pytest.mark.parametrize(
    "special",
    [
        _hook,
        _settings("receive.fsckObjects", "true"),
        _settings("core.sharedRepository", "group"),
        _settings("core.hooksPath", "elsewhere"),
        _settings("include.path", "more"),
        _settings("transfer.hideRefs", "refs/none"),
        _settings("extensions.preciousObjects", "true"),
        _link,
    ],
)
def test_a_hub_with_ways_of_its_own_is_pushed_to(hub: Hub, mirror: Mirror, special: Callable[[Hub], None]) -> None:
    new = _new_commit(hub, mirror)
    special(hub)
    assert mirror.push([RefUpdate(ref=ONE, new=new, expected=None)]) == Pushed()
    assert _pushed(hub, new)
    assert (hub.path / "ran").exists() == (special is _hook)


def test_what_the_mirror_has_packed_is_pushed(hub: Hub, mirror: Mirror) -> None:
    new = _new_commit(hub, mirror)
    mirror.git.run("update-ref", "refs/keep", new)
    mirror.git.run("repack", "-a", "-d", "-q")
    assert mirror.push([RefUpdate(ref=ONE, new=new, expected=None)]) == Pushed()
    assert _pushed(hub, new)


def test_a_commit_whose_files_are_gone_gets_into_no_hub(hub: Hub, mirror: Mirror) -> None:
    new = _new_commit(hub, mirror)
    _object(mirror.path, CommitId(mirror.git.text("rev-parse", f"{new}:a/b"))).unlink()
    with pytest.raises(GitFailed):
        mirror.push([RefUpdate(ref=ONE, new=new, expected=None)])
    assert mirror.hub_refs(ONE) == {}


def test_one_ref_elsewhere_keeps_all_where_they_are(hub: Hub, mirror: Mirror) -> None:
    tip, new = hub.tip(), _new_commit(hub, mirror)
    git(hub.path, "update-ref", ONE, tip)
    updates = [RefUpdate(ref=MAIN, new=new, expected=tip), RefUpdate(ref=ONE, new=new, expected=None)]
    assert mirror.push(updates) == Stale(ONE, tip)
    assert hub.tip() == tip


def test_a_file_system_without_links_gets_copies(hub: Hub, tmp_path: Path) -> None:
    """Here another file system stands for it; where there is none to write to, the test cannot be made."""
    place = Path("/dev/shm")
    if not place.is_dir() or not os.access(place, os.W_OK) or place.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("/dev/shm is no other file system that may be written to")
    cache = place / f"forgepool-test-{os.getpid()}"
    try:
        mirror = open_mirror(str(hub.path), cache)
        new = _new_commit(hub, mirror)
        assert mirror.push([RefUpdate(ref=ONE, new=new, expected=None)]) == Pushed()
    finally:
        shutil.rmtree(cache)
    git(hub.path, "fsck", "--strict")
    assert git(hub.path, "rev-parse", ONE) == new
    assert _object(hub.path, new).stat().st_mode & 0o777 == 0o444
