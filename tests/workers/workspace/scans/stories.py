"""
Changes written in YAML and made into commits: a file holds a list of stories, each with the texts before and after.

    - name: what it is
      before: {path: text}                  files in the target; optional
      after: {path: text}                   files the change writes
      gone: [path]                          files it removes
      modes: {path: "100755"}               of paths in `after`
      holds, grants, waive, planned, claims as in `EntryRef`

In texts, `{{aws key}}` and similar marks stand for content that no file of ours should hold; see `PARTS`. One process
writes all stories of a file into one repository.
"""

import re
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from forgepool.supervisor.messages.requests import EntryRef
from forgepool.workers.workspace.scans.findings import ScanFinding
from forgepool.workers.workspace.scans.scanning import scan, subject_of
from forgepool.workers.workspace.scans.subject import Subject
from forgepool.worktrees.git.git import CommitId, Git, TreeId

PARTS = {
    "aws key": "AKIA" + "QX7ZP4N2L6WTD9RM",
    "github token": "ghp_" + "a8Fk29dLqPz71XvBn04RtYs63HwJcM5eGu2K",
    "slack hook": "https://hooks.slack" + ".com/services/T02AB7Q9K/B03CD81LM/q8Zk2LwPx71NvRt04YsB3HcJ",
    "stripe key": "sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc",
    "private key": "-----BEGIN RSA " + "PRIVATE KEY-----",
    "random": "qT9vXz27Lm" + "PwK4sR8dBnYc31HjFgUa6E",
    "password": "kR7#vQ" + "p2!mZx9",
    "ours": "<" * 7,
    "theirs": ">" * 7,
    "origin": "|" * 7,
}


@dataclass(frozen=True, kw_only=True)
class Story:
    """One change, and who makes it."""

    name: str
    before: Mapping[str, str] = field(default_factory=dict)
    after: Mapping[str, str] = field(default_factory=dict)
    gone: tuple[str, ...] = ()
    modes: Mapping[str, str] = field(default_factory=dict)
    entry: Mapping[str, Any] = field(default_factory=dict)


def read_stories(path: Path) -> list[Story]:
    """Return the stories of a YAML file, in its order."""
    return [story(**told) for told in yaml.safe_load(path.read_text(encoding="utf-8"))]


def story(
    *, name: str, before: Any = None, after: Any = None, gone: Any = (), modes: Any = None, **entry: Any
) -> Story:
    lists = {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()}
    return Story(
        name=name,
        before={path: filled(text) for path, text in (before or {}).items()},
        after={path: filled(text) for path, text in (after or {}).items()},
        gone=tuple(gone),
        modes=modes or {},
        entry=lists,
    )


def filled(text: str) -> str:
    return re.sub(r"\{\{([a-z ]+)\}\}", lambda found: PARTS.get(found[1], found[0]), text)


class Stage:
    """A repository in which stories become commits."""

    def __init__(self, folder: Path) -> None:
        subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(folder)], check=True)
        self.git = Git(git_dir=folder)

    def write(self, stories: Iterable[Story]) -> list[tuple[CommitId, TreeId]]:
        """Write the stories, and return base and tree of each."""
        told = list(stories)
        stream = b"".join(_stream(number, each) for number, each in enumerate(told))
        self.git.run("fast-import", "--quiet", "--force", stdin=stream)
        names = [f"refs/told/{number}/{end}" for number in range(len(told)) for end in ("base", "head^{tree}")]
        ids = self.git.text("rev-parse", *names).split()
        return [(CommitId(base), TreeId(tree)) for base, tree in zip(ids[0::2], ids[1::2], strict=True)]

    def subject(self, told: Story) -> Subject:
        [(base, tree)] = self.write([told])
        return subject_of(self.git, base, tree, entry_of(told))

    def scan(self, told: Story) -> tuple[ScanFinding, ...]:
        """Return the findings of all rules."""
        return scan(self.subject(told))

    def scan_all(self, stories: Iterable[Story]) -> list[tuple[ScanFinding, ...]]:
        told = list(stories)
        places = self.write(told)
        return [
            scan(subject_of(self.git, base, tree, entry_of(each)))
            for each, (base, tree) in zip(told, places, strict=True)
        ]


def entry_of(told: Story) -> EntryRef:
    return EntryRef(task="t", attempt=1, commit="0" * 40, ref="refs/heads/t", message="t\n", **told.entry)


def _stream(number: int, told: Story) -> bytes:
    """Return both commits of a story, as `git fast-import` reads them."""
    who = b"committer A Person <person@localhost> 1700000000 +0000\n"
    base = [b"commit refs/told/%d/base\n" % number, who, b"data 4\nbase\n"]
    base += [_file(path, text, "100644") for path, text in told.before.items()]
    head = [b"commit refs/told/%d/head\n" % number, who, b"data 4\nhead\n", b"from refs/told/%d/base\n" % number]
    head += [b"D %s\n" % _quoted(path) for path in told.gone]
    head += [_file(path, text, told.modes.get(path, "100644")) for path, text in told.after.items()]
    return b"".join([*base, b"\n", *head, b"\n"])


def _file(path: str, text: str, mode: str) -> bytes:
    content = text.encode("utf-8", "surrogateescape")
    return b"M %s inline %s\ndata %d\n%s\n" % (mode.encode(), _quoted(path), len(content), content)


def _quoted(path: str) -> bytes:
    escaped = (
        path.encode("utf-8", "surrogateescape").replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
    )
    return b'"' + escaped + b'"'
