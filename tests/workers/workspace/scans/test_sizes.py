"""The largest size of a file that a change may add."""

from dataclasses import replace
from pathlib import Path

from changing import Changes, Content

from forgepool.supervisor.messages.requests import EntryRef
from forgepool.workers.workspace.scans.scanning import subject_of
from forgepool.workers.workspace.scans.shape import scan_sizes
from forgepool.worktrees.commits.candidate import write_commit
from forgepool.worktrees.commits.compose import tree_of
from forgepool.worktrees.git.git import CommitId

LARGE = "x y\n" * 400


def test_a_large_file_that_the_target_has_may_be_renamed_and_made_executable(tmp_path: Path) -> None:
    changes = Changes(tmp_path)
    before = {"a/data.bin": LARGE, "b": "1"}
    renamed: dict[str, Content | None] = {"a/data.bin": None, "c/data.bin": LARGE}
    executable: dict[str, Content | None] = {"a/data.bin": ("100755", LARGE)}
    larger: dict[str, Content | None] = {"a/data.bin": f"{LARGE}z\n"}
    found = [
        [one.path for one in scan_sizes(replace(changes.subject(before, after), commit=commit, max_file_mb=0.001))]
        for after in (renamed, executable, larger)
        for commit in (None, CommitId("0" * 40))
    ]
    assert found == [[], [], [], [], ["a/data.bin"], ["a/data.bin"]]


def test_a_single_commit_on_the_target_is_looked_through(tmp_path: Path) -> None:
    """The composed tree does not show the file."""
    changes = Changes(tmp_path)
    root, large = changes.commit({"a": "1"}), changes.commit({"a": "1", "data.bin": LARGE})
    candidate = write_commit(changes.git, tree=tree_of(changes.git, large), parents=(root,), message="m", at=1)
    entry = EntryRef(task="t", attempt=1, commit=candidate, ref="refs/heads/x", message="x")
    subject = subject_of(changes.git, root, tree_of(changes.git, root), entry)
    assert [one.path for one in scan_sizes(replace(subject, max_file_mb=0.001))] == ["data.bin"]
    assert list(scan_sizes(subject)) == []


def test_the_paths_after_a_change_are_those_git_lists(tmp_path: Path) -> None:
    changes = Changes(tmp_path)
    before = {"a": "1\n" * 50, "b/c": "2", "b/d": "3", "kind": "x", "gone/e": "4"}
    after: dict[str, Content | None] = {
        "a": None,
        "moved/a": "1\n" * 50,
        "b/c": None,
        "b/c/now": "folder",
        "kind": ("120000", "a"),
        "gone/e": None,
        "new": ("160000", "1" * 40),
    }
    subject = changes.subject(before, after)
    listed = changes.git.run("ls-tree", "-r", "-z", "--name-only", subject.tree).fields
    assert sorted(subject.new_paths) == sorted(listed)
    assert sorted(subject.old_paths) == sorted(before)
