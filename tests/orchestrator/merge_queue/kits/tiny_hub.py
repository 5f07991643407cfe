"""
A real bare hub with a few files, read with plain git and from git's own files instead of the code under test.

A tree's result follows from the names in it. A name that begins with `bad-` makes it red. Both halves of a pair, such
as `half-0-left` and `half-0-right`, make it red together.
"""

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

CHECKS = "version: 1\nchecks:\n  names: sh names.sh\n"
FIRST: Mapping[str, str] = {"forgepool.yaml": CHECKS, "README.md": "read me\n", "shared": "of nobody\n"}
_HALF = re.compile(r"half-(\d+)-(left|right)")
_IDENTITY = "A Person <person@localhost>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """The target's commits before and after a move."""

    old: str
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One entry's part of a move: its commits, the last of which has the trailers."""

    name: str
    attempt: int
    before: str
    commit: str
    parents: tuple[str, ...]
    """Parents of its first commit."""


@dataclass(slots=True, kw_only=True)
class TinyHub:
    path: Path
    second: int = 1_700_000_000
    """Time of a person's next commit, so that no two are equal."""
    listings: dict[str, Mapping[str, str]] = field(default_factory=dict)

    def git(self, *argv: str, text: str = "", ok: tuple[int, ...] = (0,)) -> str:
        variables = {"PATH": os.environ["PATH"], "GIT_DIR": str(self.path), "GIT_CONFIG_NOSYSTEM": "1", "HOME": "/"}
        said = subprocess.run(["git", *argv], env=variables, input=text, capture_output=True, text=True, check=False)
        assert said.returncode in ok, f"git {argv}: {said.stderr}"
        return said.stdout.strip()

    def commit(self, files: Mapping[str, str | None], *, on: str, ref: str = "refs/scratch/one") -> str:
        """Make a person's commit at that ref, with one process; `None` deletes a file."""
        self.second += 1
        paths = (_data(path, text) for path, text in files.items())
        words = f"{', '.join(files) or 'nothing'}"
        head = (
            f"commit {ref}\nmark :1\ncommitter {_IDENTITY} {self.second} +0000\ndata {len(words)}\n{words}\nfrom {on}"
        )
        lines = "\n".join([head, *paths, "", "get-mark :1", "done", ""])
        return self.git("fast-import", "--quiet", "--force", "--done", text=lines)

    def tag(self, commit: str, said: Mapping[str, str]) -> str:
        """Make a tag object that carries more fields about the commit, and return its id."""
        head = f"object {commit}\ntype commit\ntag it\ntagger {_IDENTITY} {self.second} +0000\n\nForgepool\n\n"
        return self.git("mktag", text=head + "".join(f"{key}: {value}\n" for key, value in said.items()))

    def set(self, at: Mapping[str, str]) -> None:
        """Move refs, all or none, with one process; an empty value deletes a ref."""
        self.git("update-ref", "--stdin", text="".join(f"update {ref} {to or '0' * 40}\n" for ref, to in at.items()))

    def ref(self, name: str) -> str:
        """Return the commit of a ref from git's file, or an empty text."""
        file = self.path / name
        return file.read_text().strip() if file.is_file() else ""

    @property
    def tip(self) -> str:
        return self.ref("refs/heads/main")

    def moves(self) -> list[Move]:
        """Return all moves of the target, from the hub's reflog."""
        lines = (self.path / "logs/refs/heads/main").read_text().splitlines()
        return [Move(old=line[:40], new=line[41:81]) for line in lines]

    def files(self, tree: str) -> Mapping[str, str]:
        """Return mode and content by path, of a commit or a tree."""
        if tree not in self.listings:
            fields = self.git("ls-tree", "-r", "-z", "--full-tree", tree).split("\0")
            pairs = (one.split("\t", 1) for one in fields if one)
            self.listings[tree] = {path: facts for facts, path in pairs}
        return self.listings[tree]

    def is_red(self, tree: str) -> bool:
        return red(self.files(tree))

    def own(self, commit: str, fork: str) -> dict[str, str | None]:
        """Return what a commit changes against another: mode and content by path, None for a deleted file."""
        before, after = self.files(fork), self.files(commit)
        return {path: after.get(path) for path in {*before, *after} if before.get(path) != after.get(path)}

    def fork(self, one: str, other: str) -> str:
        return self.git("merge-base", one, other)

    def has(self, commit: str, older: str) -> bool:
        return self.fork(commit, older) == older

    def merge(self, base: str, commit: str, tree: str) -> str:
        """Make a person's merge commit with that tree."""
        self.second += 1
        head = f"tree {tree}\nparent {base}\nparent {commit}\n"
        who = "".join(f"{role} {_IDENTITY} {self.second} +0000\n" for role in ("author", "committer"))
        return self.git("hash-object", "-t", "commit", "-w", "--stdin", text=f"{head}{who}\nby hand\n")

    def merged(self, base: str, commit: str) -> str | None:
        """Return the merged tree of both according to git, or None if they conflict."""
        said = self.git("merge-tree", "--write-tree", "--name-only", "--no-messages", base, commit, ok=(0, 1))
        tree, *conflicts = said.splitlines()
        return None if conflicts else tree

    def steps(self, move: Move) -> list[Step]:
        """Return the target's first-parent history of a move, entry by entry."""
        trailers = [f"%(trailers:key=Forgepool-{key},valueonly)" for key in ("Task", "Attempt")]
        shown = f"--format={'%x00'.join(['%H', '%P', *trailers])}%x01"
        said = self.git("log", "--first-parent", "--reverse", shown, f"{move.old}..{move.new}")
        found, before, parents = list[Step](), move.old, tuple[str, ...]()
        for line in said.split("\x01")[:-1]:
            commit, of, name, attempt = (word.strip() for word in line.split("\0"))
            parents = parents or tuple(of.split())
            if name:
                found.append(Step(name=name, attempt=int(attempt), before=before, commit=commit, parents=parents))
                before, parents = commit, ()
        assert before == move.new, f"the target has commits at its end that are nobody's: {said}"
        return found


def red(files: Mapping[str, str]) -> bool:
    halves: dict[str, set[str]] = {}
    for path in files:
        if found := _HALF.fullmatch(path):
            halves.setdefault(found[1], set()).add(found[2])
    return any(path.startswith("bad-") for path in files) or any(len(one) == 2 for one in halves.values())


def make_hub(folder: Path) -> TinyHub:
    """Make a bare hub with one commit on its target and a reflog of the target."""
    hub = TinyHub(path=folder / "hub.git")
    hub.git("init", "-q", "--bare", "-b", "main", "--template=", str(hub.path))
    hub.git("config", "core.logAllRefUpdates", "true")
    lines = [f"commit refs/heads/main\ncommitter {_IDENTITY} {hub.second} +0000\ndata 5\nfirst"]
    lines += [_data(path, text) for path, text in FIRST.items()]
    hub.git("fast-import", "--quiet", "--done", text="\n".join([*lines, "", "done", ""]))
    return hub


def _data(path: str, text: str | None) -> str:
    return f"D {path}" if text is None else f"M 100644 inline {path}\ndata {len(text)}\n{text}"
