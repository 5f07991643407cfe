"""A commit's changes are reported completely: modes, renames, and names as git holds them."""

import os

import pytest
from repositories import Hub, git

from forgepool.worktrees.commits.changes import (
    FileTooLarge,
    PathChange,
    changes,
    find_at,
    list_touched_paths,
    read_file,
    tree_paths,
)
from forgepool.worktrees.git.git import CommitId, GitFailed
from forgepool.worktrees.hub.mirror import Mirror


def test_every_kind_of_change_is_told(hub: Hub, mirror: Mirror) -> None:
    base = hub.commit({"old.txt": "".join(f"{n}\n" for n in range(30)), "type": "x\n"})
    (hub.work / "old.txt").rename(hub.work / "renamed.txt")
    (hub.work / "type").unlink()
    (hub.work / "type").symlink_to("README.md")
    (hub.work / "README.md").chmod(0o755)
    (hub.work / "src/b.py").unlink()
    (hub.work / "added").write_text("x")
    git(hub.work, "add", "-A")
    git(hub.work, "commit", "-qm", "all")
    git(hub.work, "push", "-q", "origin", "HEAD:main")
    mirror.ensure(hub.tip())
    found = changes(mirror.git, base, hub.tip())
    none = "000000"
    assert found == (
        PathChange(status="M", path="README.md", old_path=None, mode="100755", old_mode="100644"),
        PathChange(status="A", path="added", old_path=None, mode="100644", old_mode=none),
        PathChange(status="R", path="renamed.txt", old_path="old.txt", mode="100644", old_mode="100644"),
        PathChange(status="D", path="src/b.py", old_path=None, mode=none, old_mode="100644"),
        PathChange(status="T", path="type", old_path=None, mode="120000", old_mode="100644"),
    )
    assert list_touched_paths(found) == ("README.md", "added", "old.txt", "renamed.txt", "src/b.py", "type")
    assert changes(mirror.git, base, base) == ()


def test_names_with_newlines_dashes_and_bytes_are_told_whole(hub: Hub, mirror: Mirror) -> None:
    names = ("-x", "a\nb", "caf" + os.fsdecode(b"\xe9"), "M\t100644")
    base = hub.tip()
    commit = hub.commit({name: "x\n" for name in names})
    mirror.ensure(commit)
    assert {change.path for change in changes(mirror.git, base, commit)} == set(names)
    assert set(names) < set(tree_paths(mirror.git, commit))
    assert all(read_file(mirror.git, commit, name) == b"x\n" for name in names)


def test_a_file_is_read_at_its_commit(hub: Hub, mirror: Mirror) -> None:
    base = hub.tip()
    new = hub.commit({"src/a.py": None, "empty": ""})
    mirror.ensure(new)
    assert read_file(mirror.git, base, "src/a.py") == b"a = 1\n"
    assert read_file(mirror.git, new, "src/a.py") is None
    assert read_file(mirror.git, new, "src") is None
    assert read_file(mirror.git, new, "empty") == b""
    assert read_file(mirror.git, new, f"blob 3 {'1' * 40}\nblob") is None


def test_a_file_too_large_is_neither_cut_nor_absent(hub: Hub, mirror: Mirror) -> None:
    with pytest.raises(FileTooLarge, match="at most 3 are read"):
        read_file(mirror.git, hub.tip(), "src/a.py", cap=3)


def test_a_missing_commit_is_a_failure_and_not_an_absent_file(mirror: Mirror) -> None:
    with pytest.raises(GitFailed, match="there is no commit"):
        read_file(mirror.git, CommitId("1" * 40), "README.md")
    with pytest.raises(GitFailed):
        changes(mirror.git, CommitId("1" * 40), CommitId("2" * 40))


def test_what_lies_at_a_path_is_what_git_lists_there(hub: Hub, mirror: Mirror) -> None:
    hub.commit({"a/b/c": "1", "a/d": "2"})
    (hub.work / "link").symlink_to("README.md")
    git(hub.work, "add", "link")
    git(hub.work, "commit", "-qm", "link")
    git(hub.work, "push", "-q", "origin", "HEAD:main")
    mirror.ensure(tip := hub.tip())
    found = find_at(mirror.git, tip, "README.md", "a/b/c", "a/b", "a/d", "link", "a/none", "none/x", "README.md/x")
    assert {path: each.kind for path, each in found.items()} == {
        "README.md": "file",
        "a/b/c": "file",
        "a/b": "folder",
        "a/d": "file",
        "link": "symlink",
    }
    for path, each in found.items():
        assert each.id == mirror.git.text("rev-parse", f"{tip}:{path}")
    with pytest.raises(GitFailed):
        find_at(mirror.git, CommitId("1" * 40), "README.md")


def test_a_file_of_an_old_history_is_a_file(mirror: Mirror) -> None:
    """Early versions of git stored group write permission in a mode."""
    blob = mirror.git.text("hash-object", "-w", "--stdin", stdin=b"old")
    entry = b"100664 old\0" + bytes.fromhex(blob)
    tree = mirror.git.text("hash-object", "-w", "-t", "tree", "--literally", "--stdin", stdin=entry)
    who = {f"GIT_{role}_{what}": "a" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    commit = CommitId(mirror.git.text("commit-tree", "-m", "old", tree, env=who))
    assert find_at(mirror.git, commit, "old")["old"].kind == "file"
