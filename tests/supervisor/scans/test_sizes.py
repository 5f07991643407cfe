"""How large a file may be that a change brings in."""

from dataclasses import replace
from pathlib import Path

from changing import Changes, Content

from forgepool.supervisor.scans.shape import scan_sizes
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
