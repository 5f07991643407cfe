"""Git inside a fence does its work and opens nothing beyond it, whatever is swapped in the meantime."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from repositories import Hub, git
from swapping import swapped

from forgepool.worktrees.checkouts.checkout import Checkout, Unusable, lease_checkout
from forgepool.worktrees.git.git import Fence, Git, GitFailed, fence_holds
from forgepool.worktrees.hub.mirror import Mirror

_FILES = 30
_FOR_S = 4.0

needs_a_fence = pytest.mark.skipif(not fence_holds(), reason="this kernel has no Landlock")


@pytest.fixture
def racing(hub: Hub, mirror: Mirror, pool: Path, tmp_path: Path) -> Iterator[Checkout]:
    """
    Yield a checkout in which a folder is a link to outside half of the time. Files there have the same names and sizes.
    """
    outside = tmp_path / "outside"
    with lease_checkout(mirror, hub.tip(), pool) as checkout:
        for folder, text in ((outside, "SECRET"), (checkout.path / "new", "my own")):
            folder.mkdir()
            for number in range(_FILES):
                (folder / f"{number}").write_text(f"{text} {number}\n")
        (checkout.path / "link").symlink_to(outside)
        with swapped(checkout.path / "new", checkout.path / "link"):
            yield checkout


def _leaked(mirror: Mirror, tree: str) -> bool:
    said = mirror.git.run("grep", "-c", "SECRET", tree, ok=(0, 1))
    return said.status == 0


@needs_a_fence
def test_a_photograph_taken_while_a_folder_is_swapped_for_a_link_holds_nothing_from_outside(
    mirror: Mirror, racing: Checkout
) -> None:
    """Some snapshots fail and are tried again. The successful ones hold only the worktree's own files."""
    trees = set()
    until = time.monotonic() + _FOR_S
    while time.monotonic() < until:
        try:
            trees.add(racing.snapshot())
        except (Unusable, GitFailed):
            continue
    assert trees, "none was taken at all"
    assert not [tree for tree in trees if _leaked(mirror, tree)]


def test_git_without_a_fence_keeps_files_from_outside(mirror: Mirror, racing: Checkout, tmp_path: Path) -> None:
    """This proves that the test above would see such a file."""
    until = time.monotonic() + 30
    for number in range(10_000):
        places = {
            "GIT_DIR": str(mirror.path),
            "GIT_WORK_TREE": str(racing.path),
            "GIT_INDEX_FILE": f"{tmp_path}/i{number}",
        }
        try:
            git(racing.path, "add", "-A", env=places)
            if _leaked(mirror, git(racing.path, "write-tree", env=places)):
                return
        except AssertionError:
            continue
        finally:
            assert time.monotonic() < until, "in half a minute nothing leaked: nothing is shown by the other test"


@needs_a_fence
def test_what_is_started_inside_opens_nothing_beyond(hub: Hub, mirror: Mirror, tmp_path: Path) -> None:
    """Neither git nor a program it starts opens anything. Other threads are not affected."""
    (tmp_path / "tree").mkdir()
    secret = tmp_path / "secret"
    secret.write_text("keep me\n")
    fence = Fence(folders=(mirror.path, tmp_path / "tree"))
    fenced = Git(git_dir=mirror.path, work_tree=tmp_path / "tree")
    with pytest.raises(GitFailed, match="Permission denied"):
        fenced.run("hash-object", "-w", str(secret))
    with pytest.raises(PermissionError):
        fence.run(secret.read_text)
    with pytest.raises(PermissionError):
        fence.run(lambda: secret.with_name("made").touch())
    assert secret.read_text() == "keep me\n"
    assert Git(git_dir=mirror.path).text("hash-object", str(secret))


@needs_a_fence
def test_another_slots_files_are_beyond_the_fence(hub: Hub, mirror: Mirror, pool: Path) -> None:
    with lease_checkout(mirror, hub.tip(), pool) as one, lease_checkout(mirror, hub.tip(), pool) as two:
        (two.path / "secret").write_text("SECRET\n")
        with pytest.raises(GitFailed, match="Permission denied"):
            one.git.run("hash-object", "-w", os.path.relpath(two.path / "secret", one.path))
