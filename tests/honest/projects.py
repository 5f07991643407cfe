"""
Real projects that are not ours: six from bundles with their histories, four from source distributions.

FORGEPOOL_HONEST_REPOSITORIES names the folder of the bundles. The distributions lie in `honest` of the virtual
environment, where `make verify` downloads them once.
"""

import os
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from forgepool.supervisor.messages.requests import EntryRef
from forgepool.workers.policy.gate_file.document import CheckDefinition
from forgepool.workers.workspace.scans.findings import ScanFinding
from forgepool.workers.workspace.scans.scanning import find_kept_out, scan, subject_of
from forgepool.worktrees.commits.compose import tree_of
from forgepool.worktrees.git.git import CommitId, Git

BUNDLES = ("boltons", "flower", "humanize", "pytest-testmon", "python-slugify", "tomlkit")
SDISTS: Mapping[str, str] = {
    "click": "click-8.5.1",
    "more-itertools": "more_itertools-11.2.1",
    "parse": "parse-1.22.4",
    "toolz": "toolz-1.2.0",
}
PROJECTS = (*BUNDLES, *SDISTS)
_FOLDER = "FORGEPOOL_HONEST_REPOSITORIES"
_CHECKS = (CheckDefinition(name="tests", run="python -m pytest"),)


class NotHere(LookupError):
    """Raised where a project's bundle or source distribution is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A checkout of one project, committed."""

    name: str
    folder: Path
    base: CommitId

    @property
    def git(self) -> Git:
        return Git(git_dir=self.folder / ".git")

    def sources(self) -> list[str]:
        """Return the paths of its Python files."""
        return run_git(self.folder, "ls-files", "*.py").splitlines()

    def commit(self) -> CommitId:
        """Commit the state of the checkout, and reset the checkout to the base."""
        run_git(self.folder, "add", "--all")
        run_git(self.folder, "commit", "--quiet", "--allow-empty", "--message=edit")
        made = CommitId(run_git(self.folder, "rev-parse", "HEAD").strip())
        run_git(self.folder, "reset", "--quiet", "--hard", self.base)
        return made

    def changed(self, commit: CommitId) -> list[str]:
        return run_git(self.folder, "diff", "--name-only", "--no-renames", self.base, commit).splitlines()

    def refusals(self, commit: CommitId) -> tuple[ScanFinding, ...]:
        """
        Return the findings that keep the commit out as an agent's change.

        The agent may write every file, has no grants and gets no review, so `attention` blocks as well.
        """
        entry = EntryRef(task="edit", attempt=1, commit=commit, ref="refs/heads/edit", message="edit\n", holds=("**",))
        subject = subject_of(self.git, self.base, tree_of(self.git, commit), entry, _CHECKS)
        return find_kept_out(scan(subject), reviewed=False)


def open_project(name: str, folder: Path) -> Project:
    """
    Lay out the project in the folder.

    Raises:
        NotHere: the project cannot be had on this machine.
    """
    if name in SDISTS:
        _extract(SDISTS[name], folder)
    else:
        _clone(name, folder)
    return open_folder(folder, name)


def open_folder(folder: Path, name: str = "made") -> Project:
    """Commit all that is in the folder, in a repository of its own where it has none."""
    run_git(folder, "init", "--quiet")
    run_git(folder, "config", "user.name", "A Person")
    run_git(folder, "config", "user.email", "person@localhost")
    run_git(folder, "add", "--all", "--force")
    run_git(folder, "commit", "--quiet", "--allow-empty", "--message=base")
    return Project(name=name, folder=folder, base=CommitId(run_git(folder, "rev-parse", "HEAD").strip()))


def run_git(folder: Path, *words: str) -> str:
    return run(["git", *words], folder)


def run(words: Sequence[str], folder: Path, *, ok: Sequence[int] = (0,)) -> str:
    """Run a program in the folder with no configuration of the user's; return what it prints."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder.parent), "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode in ok, f"{' '.join(words)} exited with {done.returncode}: {done.stderr[-2000:]}"
    return done.stdout


def _clone(name: str, folder: Path) -> None:
    bundles = os.environ.get(_FOLDER)
    if not bundles:
        raise NotHere(f"{_FOLDER} names no folder of bundles, so {name} is not tried")
    bundle = Path(bundles, f"{name}.bundle").absolute()
    if not bundle.exists():
        raise NotHere(f"{bundles} has no {name}.bundle, so {name} is not tried")
    run(["git", "clone", "--quiet", str(bundle), str(folder)], folder.parent)


def _extract(name: str, folder: Path) -> None:
    archive = Path(sys.prefix, "honest", f"{name}.tar.gz")
    if not archive.exists():
        raise NotHere(f"{name} could not be downloaded from the package index, so it is not tried")
    with tarfile.open(archive) as packed:
        packed.extractall(folder.parent, filter="data")
    (folder.parent / name).rename(folder)
