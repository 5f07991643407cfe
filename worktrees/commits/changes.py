"""
What a commit changed, and what is in it: paths, never working files.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from forgepool.worktrees.git.git import CommitId, Git, GitFailed, TreeId, is_object_id

Status = Literal["A", "M", "D", "R", "T"]

_MOST_BYTES_OF_NAMES = 500_000
"""As many are put into one command; beyond that, git looks at all files."""


class FileTooLarge(ValueError):
    """A file of a commit is larger than the reader is willing to take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PathChange:
    """One path added, modified, deleted, renamed (with `old_path`) or of another type (file, link)."""

    status: Status
    path: str
    old_path: str | None
    mode: str
    """Six octal digits as git has them; `000000` where there is none."""
    old_mode: str


def changes(git: Git, base: CommitId, commit: CommitId | TreeId) -> tuple[PathChange, ...]:
    """What another commit or tree changes of a commit's, renames recognised, in the order of their paths."""
    said = git.run("diff-tree", "-r", "-z", "-M", "--raw", "--ignore-submodules=none", base, commit)
    return tuple(_parsed(said.fields))


def renames(git: Git, base: CommitId, commit: CommitId | TreeId, among: Sequence[str]) -> tuple[PathChange, ...]:
    """
    What was renamed between two commits where only these names are looked at, old ones and new ones.

    However many there are: beyond a limit git tells none, and says nothing of it. Merging looks at no more either than
    at the files that the other side has changed.
    """
    if not among:
        return ()
    names = among if sum(len(os.fsencode(name)) + 9 for name in among) < _MOST_BYTES_OF_NAMES else ()
    said = git.run("diff-tree", "-r", "-z", "-M", "-l0", "--diff-filter=R", "--raw", base, commit, "--", *names)
    wanted = frozenset(among)
    return tuple(each for each in _parsed(said.fields) if each.path in wanted and each.old_path in wanted)


def list_touched_paths(changes: Sequence[PathChange]) -> tuple[str, ...]:
    """Every path concerned, both names of renames, sorted."""
    names = {change.path for change in changes}
    names.update(change.old_path for change in changes if change.old_path is not None)
    return tuple(sorted(names))


def tree_paths(git: Git, commit: CommitId) -> tuple[str, ...]:
    """Every file of a commit."""
    return tuple(git.run("ls-tree", "-r", "-z", "--name-only", "--full-tree", commit).fields)


def read_file(git: Git, commit: CommitId, path: str, *, cap: int = 1_000_000) -> bytes | None:
    """
    The bytes of a file of a commit; of a symlink, its target's name. None when there is no such file.

    Raises:
        FileTooLarge: it has more than `cap` bytes.
        GitFailed: there is no such commit.
    """
    wanted = os.fsencode(f"{commit}^{{commit}}\0{commit}:{path}\0")
    said = git.run("cat-file", "--batch-check=%(objecttype) %(objectsize) %(objectname)", "-z", stdin=wanted)
    known, _, found = said.stdout.partition(b"\n")
    if not known.startswith(b"commit "):
        raise GitFailed(("cat-file", commit), 0, f"there is no commit {commit}")
    kind, size, name = [*found.split(), b"", b""][:3]
    # A missing path is answered with its own name, which may hold anything; a blob has these three words.
    if kind != b"blob" or not size.isdigit() or not is_object_id(os.fsdecode(name)):
        return None
    if int(size) > cap:
        raise FileTooLarge(f"{path!r} in commit {commit} has {int(size)} bytes; at most {cap} are read")
    return git.run("cat-file", "blob", os.fsdecode(name)).stdout


def _parsed(fields: Sequence[str]) -> Iterator[PathChange]:
    """Records of `diff-tree --raw -z`: facts, path, and for renames the new path."""
    rest = iter(fields)
    for facts in rest:
        old_mode, mode, _, _, letter = facts.removeprefix(":").split(" ")
        first = next(rest)
        renamed = letter[0] == "R"
        if letter[0] not in "AMDRT":
            raise GitFailed(("diff-tree",), 0, f"it gave {first!r} the unknown status {letter}")
        yield PathChange(
            status=cast(Status, letter[0]),
            path=next(rest) if renamed else first,
            old_path=first if renamed else None,
            mode=mode,
            old_mode=old_mode,
        )


Kind = Literal["file", "symlink", "submodule", "folder"]
_KINDS: dict[str, Kind] = {"100644": "file", "100755": "file", "120000": "symlink", "160000": "submodule"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Something in a commit's tree: of what kind, and the id of its content."""

    kind: Kind
    id: str


def find_at(git: Git, commit: CommitId, *paths: str) -> dict[str, Found]:
    """
    What the commit has at those of the paths where it has something; one git process for all.

    Raises:
        GitFailed: there is no such commit.
    """
    found: dict[str, Found] = {}
    for record in git.run("ls-tree", "-z", "--full-tree", commit, "--", *paths).fields if paths else ():
        facts, _, name = record.partition("\t")
        mode, _, content = facts.split(" ")
        if name in paths:
            found[name] = Found(kind=_KINDS.get(mode, "folder"), id=content)
    return found
