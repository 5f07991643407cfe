"""Changes for scans: two trees from mappings, in a real repository, and the findings of a scan in their difference."""

import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from forgepool.supervisor.messages.requests import EntryRef
from forgepool.workers.policy.gate_file.document import CheckDefinition, ScanRules
from forgepool.workers.workspace.scans.findings import ScanFinding
from forgepool.workers.workspace.scans.scanning import subject_of
from forgepool.workers.workspace.scans.subject import Subject
from forgepool.worktrees.commits.compose import tree_of
from forgepool.worktrees.git.git import CommitId, Git

Content = str | tuple[str, str]
"""A regular file's text, or a mode and a content."""
Files = Mapping[str, Content]
Scan = Callable[[Subject], Iterable[ScanFinding]]


class Changes:
    """A bare repository in which any two trees can be compared."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "changes.git"
        subprocess.run(["git", "init", "-q", "--bare", str(self._path)], check=True, capture_output=True)
        self.git = Git(git_dir=self._path)

    def subject(
        self,
        before: Files,
        after: Mapping[str, Content | None],
        *,
        checks: tuple[CheckDefinition, ...] = (),
        protect: tuple[str, ...] = (),
        **said: Any,
    ) -> Subject:
        """Return the change from `before` by the files of `after`; None removes a file."""
        old = self.commit(before)
        kept = {path: content for path, content in {**before, **after}.items() if content is not None}
        new = self.commit(kept)
        entry = EntryRef(task="t", attempt=1, commit=new, ref="refs/heads/x", message="x", **said)
        return subject_of(self.git, old, tree_of(self.git, new), entry, checks, ScanRules(protect=protect))

    def found(self, scan: Scan, before: Files, after: Mapping[str, Content | None], **said: Any) -> list[ScanFinding]:
        return list(scan(self.subject(before, after, **said)))

    def commit(self, files: Files) -> CommitId:
        """Make a commit without parents that holds exactly these files."""
        stream = b"commit refs/heads/made\ncommitter A <a@localhost> 1 +0000\ndata 1\nx\nfrom " + b"0" * 40 + b"\n"
        for path, content in files.items():
            mode, text = content if isinstance(content, tuple) else ("100644", content)
            data = text.encode("utf-8", "surrogateescape")
            if mode == "160000":
                stream += f"M {mode} {text} {path}\n".encode()
            else:
                stream += f"M {mode} inline {path}\ndata {len(data)}\n".encode() + data + b"\n"
        subprocess.run(
            ["git", "--git-dir", str(self._path), "fast-import", "--quiet", "--force"],
            input=stream,
            check=True,
            capture_output=True,
        )
        return CommitId(self.git.text("rev-parse", "refs/heads/made"))


def rules(findings: Iterable[ScanFinding], *weights: str) -> set[str]:
    """Return the rules found with these weights, by default those that hold an entry up."""
    return {one.rule for one in findings if one.weight in (weights or ("blocks", "attention"))}


def without_holds(subject: Subject) -> Subject:
    return replace(subject, holds=None)
