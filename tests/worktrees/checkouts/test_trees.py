"""Folders left by a hostile command are cleaned or removed, however they were made, and nothing beside them changes."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from repositories import nest

from forgepool.worktrees.checkouts.trees import level, remove_tree

_DEEP = 1_200
"""
Number of nested folders. Their path is four times too long, and there are more than a process may open or call in a
stack.
"""


def test_folders_deeper_than_a_path_can_be_long_are_removed(tmp_path: Path) -> None:
    assert sys.getrecursionlimit() < _DEEP
    tree = tmp_path / "tree"
    tree.mkdir()
    nest(tree, _DEEP)
    remove_tree(tree)
    assert list(tmp_path.iterdir()) == []


def test_what_a_link_leads_to_stays_when_the_link_goes(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir(mode=0o555)
    tree = tmp_path / "tree"
    (tree / "sub").mkdir(parents=True)
    (tree / "sub" / "link").symlink_to(kept)
    (tree / "file").symlink_to(kept / "none")
    remove_tree(tree)
    assert list(tmp_path.iterdir()) == [kept]
    assert kept.stat().st_mode & 0o777 == 0o555


_ORDINARY = """
import os, sys
from pathlib import Path
from forgepool.worktrees.checkouts.trees import level, remove_tree

place, mode = Path(sys.argv[1]), int(sys.argv[2])
os.chown(place, 65534, 65534) if os.geteuid() == 0 else None
os.chdir(place)
os.setuid(65534) if os.geteuid() == 0 else None
tree = Path("tree")
folders = (tree / "a" / "b", tree / "a", tree)
folders[0].mkdir(parents=True)
(tree / "a" / "file").touch()
for attempt in (lambda: level(tree, file_mode=0o644), lambda: remove_tree(tree)):
    for folder in folders:
        folder.chmod(mode)
    attempt()
    print([oct(folder.stat().st_mode & 0o7700) for folder in folders if folder.exists()], os.listdir())
"""


@pytest.mark.parametrize("mode", [0o000, 0o100, 0o444, 0o555, 0o3777])
def test_folders_of_any_mode_are_levelled_and_removed_by_an_ordinary_user(mode: int) -> None:
    """The user owns the folders, but their modes deny access."""
    with tempfile.TemporaryDirectory() as place:
        argv = [sys.executable, "-c", _ORDINARY, place, str(mode)]
        ran = subprocess.run(argv, check=False, capture_output=True, text=True)
    assert ran.stdout.splitlines() == ["['0o700', '0o700', '0o700'] ['tree']", "[] []"], ran.stderr


def test_levelling_removes_what_is_not_as_just_made(tmp_path: Path) -> None:
    """Changed modes, hard links and pipes are removed. Symlinks are not followed, and their targets are not touched."""
    tree, outside = tmp_path / "tree", tmp_path / "outside"
    (tree / "sub").mkdir(parents=True)
    outside.write_text("x")
    for name, mode in (("plain", 0o644), ("program", 0o755), ("closed", 0o400), ("suid", 0o4755)):
        (tree / "sub" / name).touch()
        (tree / "sub" / name).chmod(mode)
    os.mkfifo(tree / "sub" / "pipe", 0o644)
    os.link(outside, tree / "sub" / "shared")
    (tree / "sub" / "link").symlink_to(outside)
    level(tree, file_mode=0o644)
    assert sorted(each.name for each in (tree / "sub").iterdir()) == ["link", "plain", "program"]
    assert outside.read_text() == "x"
