"""Real git repositories for the tests: a bare hub, and the clone in which a person works."""

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from forgepool.worktrees.checkouts.checkout import Checkout
from forgepool.worktrees.commits.compose import tree_of
from forgepool.worktrees.git.git import CommitId, Git, TreeId

Files = Mapping[str, bytes | tuple[str, bytes]]
"""Contents by path, alone or with a mode."""

IDENTITY = {
    "GIT_AUTHOR_NAME": "A Person",
    "GIT_AUTHOR_EMAIL": "person@localhost",
    "GIT_COMMITTER_NAME": "A Person",
    "GIT_COMMITTER_EMAIL": "person@localhost",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
}


def git(folder: Path, *argv: str, env: Mapping[str, str] | None = None) -> str:
    """Run git as a person would, without the code under test."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    ran = subprocess.run(
        ["git", *argv],
        cwd=folder,
        env={**kept, **IDENTITY, **(env or {})},
        check=False,
        capture_output=True,
        encoding="utf-8",
        errors="surrogateescape",
    )
    assert ran.returncode == 0, f"git {argv}: {ran.stderr}"
    return ran.stdout.strip()


def write(folder: Path, files: Mapping[str, str | None]) -> None:
    """Write files with their contents; None removes a file."""
    for name, content in files.items():
        path = folder / name
        if content is None:
            path.unlink()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)


def nest(folder: Path, count: int) -> None:
    """Make nested folders and a file in the last one. The depth may exceed the length of a path."""
    here = os.open(folder, os.O_RDONLY)
    for _ in range(count):
        os.mkdir("d" * 15, dir_fd=here)
        above, here = here, os.open("d" * 15, os.O_RDONLY, dir_fd=here)
        os.close(above)
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)


def _at(repository: Path, ref: str) -> str | None:
    """Read a ref from git's files, because tests make many commits and a process costs time."""
    if (loose := repository / ref).is_file():
        return loose.read_text().strip()
    packed = repository / "packed-refs"
    lines = packed.read_text().splitlines() if packed.is_file() else []
    return next((line.split(" ")[0] for line in lines if line.endswith(f" {ref}")), None)


@dataclass(frozen=True, kw_only=True)
class Hub:
    """A bare hub, and the clone in which a person works."""

    path: Path
    work: Path

    def tip(self, branch: str = "main") -> CommitId:
        return CommitId(git(self.path, "rev-parse", f"refs/heads/{branch}"))

    def commit(
        self,
        files: Mapping[str, str | None],
        *,
        branch: str = "main",
        start: str = "main",
        message: str = "change",
    ) -> CommitId:
        """Push a commit with these files changed to the branch. A new branch begins at `start`."""
        on = branch if _at(self.path, f"refs/heads/{branch}") else start
        if (tip := _at(self.path, f"refs/heads/{on}")) is None or tip != _at(
            self.work / ".git", f"refs/remotes/origin/{on}"
        ):
            git(self.work, "fetch", "-q", "origin")
        git(self.work, "checkout", "-q", "-f", "--detach", f"origin/{on}")
        write(self.work, files)
        git(self.work, "add", "-A")
        git(self.work, "commit", "-q", "--allow-empty", "-m", message)
        git(self.work, "push", "-q", "origin", f"HEAD:refs/heads/{branch}")
        return CommitId((self.work / ".git" / "HEAD").read_text().strip())


def is_intact(checkout: Checkout) -> bool:
    """Return whether the folder exists with the `.git` file it was leased with."""
    folder, pointer = checkout.path, checkout.pointer
    if folder.is_symlink() or pointer.is_symlink() or not pointer.is_file():
        return False
    return pointer.read_bytes() == checkout.slot.pointer


class MadeCommits:
    """A bare repository, and commits in it that hold exactly the given files."""

    def __init__(self, folder: Path) -> None:
        subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(folder)], check=True)
        self.git = Git(git_dir=folder)

    def commit(self, files: Files) -> CommitId:
        stream = b"commit refs/heads/made\ncommitter A <a@localhost> 1 +0000\ndata 1\nx\nfrom " + b"0" * 40 + b"\n"
        for path, content in files.items():
            mode, data = content if isinstance(content, tuple) else ("100644", content)
            name = os.fsencode(path).replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
            if mode == "160000":
                stream += b'M %s %s "%s"\n' % (mode.encode(), data, name)
            else:
                stream += b'M %s inline "%s"\ndata %d\n%s\n' % (mode.encode(), name, len(data), data)
        self.git.run("fast-import", "--quiet", "--force", stdin=stream)
        return CommitId(self.git.text("rev-parse", "refs/heads/made"))

    def pair(self, before: Files, after: Files) -> tuple[CommitId, TreeId]:
        return self.commit(before), tree_of(self.git, self.commit(after))
