import os
import shutil
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from forgepool.workers.tools.tool import ToolAnswer
from forgepool.workers.tools.workplace import Workplace
from forgepool.worktrees.git.git import Git, GitFailed

Use = Callable[..., ToolAnswer]


@pytest.fixture
def repository(place: Workplace) -> Path:
    """Make a repository in which git ignores some files."""
    files = ("src/a.py", "src/deep/b.py", "src/deep/c.ts", "z.txt", "build/out.py", "new.py")
    for name in files:
        (place.root / name).parent.mkdir(parents=True, exist_ok=True)
        (place.root / name).write_text(name)
    (place.root / ".gitignore").write_text("build/\n")
    subprocess.run(["git", "init", "-q"], cwd=place.root, check=True)
    subprocess.run(["git", "add", "src", "z.txt"], cwd=place.root, check=True)
    return place.root


def test_files_are_listed_by_path_without_what_git_ignores(use: Use, repository: Path) -> None:
    """Uncommitted files are listed, too, and git's own files are not."""
    every = [".gitignore", "new.py", "src/a.py", "src/deep/b.py", "src/deep/c.ts", "z.txt"]
    assert use("glob").text.split("\n") == every
    assert use("glob", pattern="**/*.py").text == "new.py\nsrc/a.py\nsrc/deep/b.py"
    assert use("glob", path="src", pattern="*.py").text == "src/a.py"
    assert use("glob", path="src", pattern="./**/*.{py,ts}").text == "src/a.py\nsrc/deep/b.py\nsrc/deep/c.ts"


def test_a_file_that_is_gone_is_not_listed(use: Use, repository: Path) -> None:
    """Git's index still has it."""
    (repository / "z.txt").unlink()
    assert "z.txt" not in use("glob").text


def test_the_latest_changed_come_first_when_asked(use: Use, repository: Path) -> None:
    for age, name in enumerate(("src/deep/b.py", "new.py", "src/a.py")):
        os.utime(repository / name, (1_000_000_000 - age, 1_000_000_000 - age))
    assert use("glob", pattern="**/*.py", sort="recent").text == "src/deep/b.py\nnew.py\nsrc/a.py"


def test_nothing_found_is_told_with_what_may_help(use: Use, repository: Path) -> None:
    """No match is no error, but a pattern without meaning is one."""
    none = use("glob", pattern="*.rs")
    assert none.text == (
        "no file below . matches *.rs (files that git ignores are left out); **/*.rs looks in all folders"
    )
    assert not none.is_error
    assert use("glob", pattern="[z-a]").is_error
    assert use("glob", path="none").text == "none: no such folder; use glob without a path"


def test_a_folder_that_is_no_repository_is_walked(use: Use, place: Workplace) -> None:
    """Links are listed and not followed, git's own folder is left out, and odd names stay on one line."""
    (place.root / "sub" / ".git").mkdir(parents=True)
    (place.root / "sub" / ".git" / "config").touch()
    (place.root / "sub" / "b").touch()
    (place.root / "out").symlink_to(place.root.parent / "outside")
    (place.root / "new\nline").touch()
    assert use("glob").text.split("\n") == [r"'new\nline'", "out", "sub/b"]


def test_a_long_list_is_cut(use: Use, place: Workplace) -> None:
    """The answer says how many are missing."""
    for number in range(600):
        (place.root / f"{number:03}").touch()
    lines = use("glob").text.split("\n")
    assert lines[-2:] == ["499", "[100 more; narrow the path or the pattern]"]


def test_a_repository_that_a_command_put_in_the_place_of_ours_runs_nothing(use: Use, place: Workplace) -> None:
    """Git would fetch a missing file with a program from that repository's configuration."""
    trace = place.root / "it-ran"
    program = place.root / "program.sh"
    program.write_text(f"#!/bin/sh\ntouch {trace}\nexit 1\n")
    program.chmod(0o755)
    theirs = place.root / ".git"
    _partial_clone(place.root, str(program))
    known = Git(git_dir=theirs, work_tree=place.root)
    with suppress(GitFailed):
        known.run("ls-files", "--others", "--exclude-standard")
    assert trace.exists(), "asked by its own .git it does run, or nothing is shown"
    trace.unlink()
    ours = place.root.parent / "ours"
    subprocess.run(["git", "init", "-q", "--bare", ours], check=True)
    for git in (None, Git(git_dir=ours, work_tree=place.root)):
        assert "f" in use("glob", {"git": git}).text.split("\n")
        assert "hello" in use("grep", {"git": git}, pattern="hello").text
    assert not trace.exists()


def _partial_clone(folder: Path, program: str) -> None:
    """Make a clone whose `.gitignore` is only in the index."""

    def git(*argv: str) -> None:
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a", *argv], cwd=folder, check=True)

    git("init", "-q", ".")
    for name, text in (("f", "hello\n"), (".gitignore", "x\n")):
        (folder / name).write_text(text)
    git("add", "-A")
    git("commit", "-qm", "x")
    for key, value in {
        "core.repositoryformatversion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": str(folder),
        "remote.origin.uploadpack": program,
    }.items():
        git("config", key, value)
    (folder / ".gitignore").unlink()
    (folder / "untracked").write_text("x")
    git("update-index", "--skip-worktree", ".gitignore")
    for objects in (folder / ".git" / "objects").glob("??"):
        shutil.rmtree(objects)
