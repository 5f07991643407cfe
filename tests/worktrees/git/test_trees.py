"""Trees that are compared here differ in what git says they differ in."""

import os
import random
import tracemalloc
from pathlib import Path

import pytest
from repositories import Hub, git

from forgepool.worktrees.commits.changes import changes, parse_raw, tree_paths
from forgepool.worktrees.git import trees
from forgepool.worktrees.git.git import CommitId, Git, GitFailed
from forgepool.worktrees.git.objects import write_object
from forgepool.worktrees.git.trees import compare_few, compare_trees, entries_of
from forgepool.worktrees.hub.mirror import Mirror

_NAMES = ("a", "a.b", "a-", "a0", "b", "ü", "with space", "\udce9", 'q"', "x\ty")


def _alter(folder: Path, chance: random.Random) -> None:
    """Make, change, rename or remove something somewhere, of any kind that git keeps."""
    folders = [folder, *(each for each in folder.rglob("*") if each.is_dir() and ".git" not in each.parts)]
    place = chance.choice(folders) / chance.choice(_NAMES)
    if os.path.lexists(place):
        if place.is_dir() and not place.is_symlink():
            return
        if chance.random() < 0.3:
            place.rename(place.with_name(f"{place.name}moved"))
            return
        place.unlink()
        if chance.random() < 0.4:
            return
    match chance.randrange(4):
        case 0:
            place.symlink_to(chance.choice(_NAMES))
        case 1:
            place.mkdir()
            (place / "in").write_text(f"{chance.random()}\n" * 9)
        case kind:
            place.write_text(f"{chance.random()}\n" * 9)
            place.chmod(0o755 if kind == 2 else 0o644)


@pytest.mark.parametrize("seed", range(6))
def test_differences_and_changes_are_those_that_git_finds(hub: Hub, mirror: Mirror, seed: int) -> None:
    chance, commits = random.Random(seed), [hub.tip()]
    for number in range(8):
        for _ in range(chance.randrange(1, 5)):
            _alter(hub.work, chance)
        git(hub.work, "add", "-A")
        if chance.random() < 0.3:
            git(hub.work, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 39}{number % 3},module")
        git(hub.work, "commit", "-q", "--allow-empty", "-m", "more")
        commits.append(CommitId(git(hub.work, "rev-parse", "HEAD")))
    git(hub.work, "push", "-q", "origin", "HEAD:main")
    mirror.ensure(commits[-1])
    for old, new in zip(commits * 2, [*commits[1:], *reversed(commits), commits[0]], strict=False):
        assert compare_few(mirror.git, old, new) is not None
        found = [(each.path, *map(_shown, (each.old, each.new))) for each in compare_trees(mirror.git, old, new)]
        raw = parse_raw(_raw(mirror.git, old, new))
        assert found == [(each.path, (each.old_mode, each.old_id), (each.mode, each.id)) for each in raw]
        renamed = tuple(parse_raw(_raw(mirror.git, old, new, "-M", "-l1000")))
        assert [*map(repr, changes(mirror.git, old, new))] == [*map(repr, renamed)]
        assert tree_paths(mirror.git, new) == tuple(
            mirror.git.run("ls-tree", "-r", "-z", "--name-only", "--full-tree", new).fields
        )


def _raw(git: Git, old: str, new: str, *more: str) -> list[str]:
    return git.run("diff-tree", "-r", "-z", "--raw", "--ignore-submodules=none", *more, old, new).fields


def _shown(entry: trees.TreeEntry) -> tuple[str, str]:
    return f"{entry.mode:06o}", entry.id or "0" * 40


@pytest.mark.parametrize(
    "names", [(b"b", b"a"), (b"a", b"a"), (b"a", b"a", b"b")], ids=["out of order", "twice", "twice, with another"]
)
def test_a_tree_that_git_would_not_write_is_left_to_git(
    hub: Hub, mirror: Mirror, tmp_path: Path, names: tuple[bytes, ...]
) -> None:
    blob = bytes.fromhex(write_object(mirror.git, "blob", b"x", like=hub.tip()))
    (tmp_path / "tree").write_bytes(b"".join(b"100644 %s\0%s" % (name, blob) for name in names))
    odd = mirror.git.text("hash-object", "-w", "-t", "tree", "--literally", str(tmp_path / "tree"))
    assert compare_few(mirror.git, hub.tip(), odd) is None
    assert len(compare_trees(mirror.git, hub.tip(), odd)) >= len({*names})


def test_many_large_or_missing_trees_are_left_to_git(hub: Hub, mirror: Mirror) -> None:
    tip = hub.tip()
    wide = hub.commit({f"d{number}/file": "x\n" for number in range(trees._MOST_TREES)})
    large = hub.commit({f"{'n' * 200}{number}": "x\n" for number in range(trees._MOST_BYTES // 200)})
    mirror.ensure(large)
    assert compare_few(mirror.git, tip, wide) is None
    assert compare_few(mirror.git, wide, large) is None
    assert len(compare_trees(mirror.git, tip, wide)) == trees._MOST_TREES
    with pytest.raises(GitFailed):
        compare_trees(mirror.git, tip, "1" * 40)


@pytest.mark.parametrize(("files", "count"), [(2000, 30), (200, 300)])
def test_trees_that_were_read_take_little_memory(mirror: Mirror, files: int, count: int) -> None:
    read_trees = [_flat_tree(mirror.git, files, number) for number in range(count)]
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for tree in read_trees:
            assert len(entries_of(mirror.git, tree)) == files
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 6_000_000


def _flat_tree(git: Git, files: int, number: int) -> str:
    lines = (f"100644 blob {number * files + at:040x}\tfile{at}\n" for at in range(files))
    return git.text("mktree", "--missing", stdin="".join(lines).encode())
