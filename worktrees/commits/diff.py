"""
What a tree adds to and takes from a commit, line by line. Paths, modes and lines; no judgement.

All is compared between the two trees themselves, never by the last commit alone; attributes of the compared trees have
no say in it, and neither has anybody's configuration: what git compares here are blobs under numbers for names, so
that neither a name nor a `.gitattributes` can hide a line. Two small trees are written for it, which nothing refers to.
"""

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, cast

from forgepool.worktrees.git.git import CommitId, Git, GitFailed, TreeId

_FILE = re.compile(rb"diff --git a/(\d+) b/\1")
_HEAD = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffHunk:
    """One run of changed lines, with the unchanged ones around it that were asked for."""

    old_start: int
    new_start: int
    lines: tuple[bytes, ...]
    """Each with its sign in front, without its newline; after one that has none in the file, git's remark on it."""

    @property
    def head(self) -> str:
        return f"@@ -{self.old_start} +{self.new_start} @@"

    @property
    def added(self) -> Iterator[tuple[int, bytes]]:
        """The added lines with their numbers in the new file."""
        return self._signed(b"+", self.new_start)

    @property
    def removed(self) -> Iterator[tuple[int, bytes]]:
        """The removed lines with their numbers in the old file."""
        return self._signed(b"-", self.old_start)

    @property
    def before(self) -> bytes:
        """What stood in the old file, a newline before every line; empty where nothing did."""
        return b"".join(b"\n" + line[1:] for line in self.lines if line[:1] in (b" ", b"-"))

    def _signed(self, sign: bytes, number: int) -> Iterator[tuple[int, bytes]]:
        for line in self.lines:
            if line[:1] == sign:
                yield number, line[1:]
            if line[:1] in (sign, b" "):
                number += 1


def parse_hunks(patch: bytes) -> dict[int, tuple[DiffHunk, ...]]:
    """The hunks by the number that each file has for a name."""
    lines = patch.split(b"\n")
    found: dict[int, list[DiffHunk]] = {}
    file = at = 0
    while at < len(lines):
        if name := _FILE.fullmatch(lines[at]):
            file = int(name[1])
        elif head := _HEAD.match(lines[at]):
            end = _end(lines, at + 1, int(head[2] or 1), int(head[4] or 1))
            hunk = DiffHunk(old_start=int(head[1]), new_start=int(head[3]), lines=tuple(lines[at + 1 : end]))
            found.setdefault(file, []).append(hunk)
            at = end
            continue
        at += 1
    return {number: tuple(hunks) for number, hunks in found.items()}


def _end(lines: list[bytes], at: int, old: int, new: int) -> int:
    """The first line after a hunk of so many old and new lines."""
    while old > 0 or new > 0 or lines[at][:1] == b"\\":
        sign = lines[at][:1]
        old -= sign in (b" ", b"-")
        new -= sign in (b" ", b"+")
        at += 1
    return at


FileStatus = Literal["A", "M", "D", "R", "T"]

MOST_BYTES_OF_A_FILE = 2_000_000
MOST_BYTES = 64_000_000
"""Of all compared files together. What is beyond is told by its ids alone."""

_LINK, _SUBMODULE = "120000", "160000"
_LOOKS_BINARY = 8_000
"""As many bytes of a file git looks at for a NUL; one among them makes it binary."""
_AS_TEXT = ("-r", "-p", "--text", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color", "--full-index")
_EXACTLY = ("--diff-algorithm=myers", "--indent-heuristic", "--inter-hunk-context=0")
_WRITTEN_BY_NOBODY = ("linguist-generated", "linguist-vendored")
_MOST_SEARCHED = 200_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffLine:
    """A line that was added (numbered as in the new file) or removed (as in the old one), without its end."""

    number: int
    text: str
    """Bytes that are no UTF-8 are written as backslash escapes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDiff:
    """One file that differs."""

    status: FileStatus
    path: str
    old_path: str | None = None
    """Of a renamed file."""
    mode: str
    """Six octal digits; `000000` where there is none, `120000` a link, `160000` a submodule."""
    old_mode: str
    binary: bool = False
    """It holds a NUL near its beginning, before or after; its lines are not told."""
    cut: bool = False
    """It is too large to be compared line by line; its lines are not told."""
    added: tuple[DiffLine, ...] = ()
    removed: tuple[DiffLine, ...] = ()
    id: str = ""
    """Of its content in the new tree; zeros where there is none."""
    old_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Record:
    """One line of git's raw diff."""

    status: FileStatus
    path: str
    old_path: str | None
    mode: str
    old_mode: str
    id: str
    old_id: str

    @property
    def comparable(self) -> bool:
        """Is there content of the same kind before and after, and does it differ?"""
        kinds = {mode[:3] for mode in (self.mode, self.old_mode)}
        return self.id != self.old_id and kinds in ({"100"}, {"120"})


def tree_diff(git: Git, base: CommitId, tree: TreeId) -> tuple[FileDiff, ...]:
    """Every file that differs, in the order of the paths, renames recognised, without context."""
    records = _records(git, base, tree)
    texts = _texts(git, records)
    hunks = _compared(git, records, texts, context=0)
    return tuple(_file(record, texts, hunks.get(number, ())) for number, record in enumerate(records))


def patch_id(git: Git, base: CommitId, tree: TreeId) -> str:
    """
    A digest of the difference: modes, names, and every byte of it with three lines around, wherever in its file it is.

    Equal differences have equal ones, also when the target has moved elsewhere, in other files or in these. Where three
    lines around do not tell the one place that is meant, as in files that repeat themselves, and for what is not
    compared line by line, the whole contents before and after count: it is never equal where the difference is not.

    Why not `git patch-id`: it overlooks white space (its `--verbatim` is younger than the git we ask for), and the
    same lines put elsewhere in the file have the same id.
    """
    records = _records(git, base, tree)
    texts = _texts(git, records)
    hunks = _compared(git, records, texts, context=3)
    digest = hashlib.sha256(b"forgepool patch 1")
    for number, record in enumerate(records):
        names = (record.status, record.old_path or "", record.path, record.old_mode, record.mode)
        for part in (*map(os.fsencode, names), *_content(record, texts, hunks.get(number, ()))):
            digest.update(b"%d:" % len(part) + part)
    return digest.hexdigest()


def diff_tail(git: Git, base: CommitId, tree: TreeId, lines: int = 100, *, characters: int = 20_000) -> str:
    """The last lines of the difference as people read it, with three lines around each change."""
    records = _records(git, base, tree)
    texts = _texts(git, records)
    hunks = _compared(git, records, texts, context=3)
    kept: list[str] = []
    for number in range(len(records) - 1, -1, -1):
        told = [*_told(records[number], texts, hunks.get(number, ()))]
        kept[:0] = told[-max(0, lines - len(kept)) :] if len(kept) < lines else []
        if len(kept) >= lines:
            break
    return "\n".join(kept)[-characters:]


def contents(git: Git, ids: Iterable[str], *, each: int = MOST_BYTES_OF_A_FILE) -> dict[str, bytes]:
    """The bytes of these blobs; those larger than `each`, or beyond `MOST_BYTES` of all, are left out."""
    wanted = _small(git, ids, each)
    if not wanted:
        return {}
    said = git.run("cat-file", "--batch", stdin="".join(f"{one}\n" for one in wanted).encode()).stdout
    found: dict[str, bytes] = {}
    at = 0
    for one in wanted:
        head, _, _ = said[at : at + 200].partition(b"\n")
        start = at + len(head) + 1
        size = int(head.split()[2])
        found[one] = said[start : start + size]
        at = start + size + 1
    return found


def unread_paths(git: Git, base: CommitId, paths: Sequence[str]) -> frozenset[str]:
    """
    Which of the paths the commit's own `.gitattributes` call generated or vendored.

    By an index of its own, in which there are only those files: `check-attr --source` is younger than the git we ask
    for, and an index that is there already may be of another commit.
    """
    listed = git.run("ls-tree", "-r", "-z", "--full-tree", base).stdout.split(b"\0")
    rules = [record for record in listed if record.endswith((b"\t.gitattributes", b"/.gitattributes"))]
    if not rules or not paths:
        return frozenset()
    with TemporaryDirectory(prefix="forgepool-index-") as folder:
        own = Git(git_dir=git.git_dir, index=Path(folder, "index"))
        own.run("update-index", "-z", "--index-info", stdin=b"".join(record + b"\0" for record in rules))
        asked = b"".join(os.fsencode(path) + b"\0" for path in paths)
        said = own.run("check-attr", "--cached", "-z", "--stdin", *_WRITTEN_BY_NOBODY, stdin=asked).fields
    told = zip(said[0::3], said[2::3], strict=True)
    return frozenset(path for path, value in told if value in ("set", "true"))


def renames(git: Git, base: TreeId, tree: TreeId) -> dict[str, str]:
    """The new name of each file of `base` that has another one in `tree`."""
    return {one.old_path: one.path for one in _records(git, base, tree) if one.old_path is not None}


def _records(git: Git, base: CommitId | TreeId, tree: TreeId) -> list[_Record]:
    said = git.run(
        "diff-tree", "-r", "-z", "-M", "-l1000", "--raw", "--ignore-submodules=none", "--full-index", base, tree
    )
    return list(_parsed(iter(said.fields)))


def _parsed(fields: Iterator[str]) -> Iterator[_Record]:
    for facts in fields:
        old_mode, mode, old_id, new_id, letter = facts.removeprefix(":").split(" ")
        if letter[0] not in "AMDRT":
            raise GitFailed(("diff-tree",), 0, f"it gave {next(fields)!r} the unknown status {letter}")
        first = next(fields)
        renamed = letter[0] == "R"
        yield _Record(
            status=cast(FileStatus, letter[0]),
            path=next(fields) if renamed else first,
            old_path=first if renamed else None,
            mode=mode,
            old_mode=old_mode,
            id=new_id,
            old_id=old_id,
        )


def _small(git: Git, ids: Iterable[str], each: int) -> list[str]:
    wanted = [one for one in dict.fromkeys(ids) if one.strip("0")]
    if not wanted:
        return []
    asked = "".join(f"{one}\n" for one in wanted).encode()
    said = git.run("cat-file", "--batch-check=%(objecttype) %(objectsize)", stdin=asked).text.split("\n")
    room = MOST_BYTES
    small: list[str] = []
    for one, answer in zip(wanted, said, strict=True):
        kind, _, size = answer.partition(" ")
        if kind != "blob":
            raise GitFailed(("cat-file", one), 0, f"it said {answer!r} of a file's content")
        if int(size) <= min(each, room):
            room -= int(size)
            small.append(one)
    return small


def _texts(git: Git, records: Sequence[_Record]) -> dict[str, bytes]:
    """The contents of all that differs, before and after, by id."""
    sides = [side for each in records for side in ((each.old_mode, each.old_id), (each.mode, each.id))]
    return contents(git, (one for mode, one in sides if mode != _SUBMODULE))


def _compared(
    git: Git, records: Sequence[_Record], texts: dict[str, bytes], *, context: int
) -> dict[int, tuple[DiffHunk, ...]]:
    """The hunks of each record that can be compared line by line, by its place in the list."""
    pairs = {number: each for number, each in enumerate(records) if each.comparable and _is_readable(each, texts)}
    if not pairs:
        return {}
    before = _tree(git, ((number, each.old_id) for number, each in pairs.items()))
    after = _tree(git, ((number, each.id) for number, each in pairs.items()))
    return parse_hunks(git.run("diff-tree", *_AS_TEXT, *_EXACTLY, f"-U{context}", before, after).stdout)


def _tree(git: Git, blobs: Iterable[tuple[int, str]]) -> str:
    entries = "".join(f"100644 blob {one}\t{number:08}\0" for number, one in blobs)
    return git.text("mktree", "-z", stdin=entries.encode())


def _is_readable(record: _Record, texts: dict[str, bytes]) -> bool:
    return not _is_cut(record, texts) and not _is_binary(record, texts)


def _sides(record: _Record) -> list[str]:
    """The ids of its contents, before and after, where there are some that are no submodule's."""
    sides = ((record.old_mode, record.old_id), (record.mode, record.id))
    return [one for mode, one in sides if mode not in (_SUBMODULE, "000000")]


def _is_cut(record: _Record, texts: dict[str, bytes]) -> bool:
    return any(one not in texts for one in _sides(record))


def _is_binary(record: _Record, texts: dict[str, bytes]) -> bool:
    return any(b"\0" in texts.get(one, b"")[:_LOOKS_BINARY] for one in _sides(record))


def _file(record: _Record, texts: dict[str, bytes], hunks: Sequence[DiffHunk]) -> FileDiff:
    readable = _is_readable(record, texts)
    added: Iterable[tuple[int, bytes]] = ()
    removed: Iterable[tuple[int, bytes]] = ()
    if record.comparable:
        added = (line for hunk in hunks for line in hunk.added)
        removed = (line for hunk in hunks for line in hunk.removed)
    elif readable and record.id != record.old_id:
        added = enumerate(_whole(record.mode, record.id, texts), start=1)
        removed = enumerate(_whole(record.old_mode, record.old_id, texts), start=1)
    return FileDiff(
        status=record.status,
        path=record.path,
        old_path=record.old_path,
        mode=record.mode,
        old_mode=record.old_mode,
        binary=_is_binary(record, texts),
        cut=_is_cut(record, texts),
        added=_lines(added),
        removed=_lines(removed),
        id=record.id,
        old_id=record.old_id,
    )


def _whole(mode: str, content: str, texts: dict[str, bytes]) -> list[bytes]:
    if mode == _SUBMODULE:
        return [f"Subproject commit {content}".encode()]
    lines = texts.get(content, b"").split(b"\n") if content.strip("0") else [b""]
    return lines[:-1] if lines[-1] == b"" else lines


def _lines(found: Iterable[tuple[int, bytes]]) -> tuple[DiffLine, ...]:
    return tuple(
        DiffLine(number=number, text=text.removesuffix(b"\r").decode("utf-8", "backslashreplace"))
        for number, text in found
    )


def _content(record: _Record, texts: dict[str, bytes], hunks: Sequence[DiffHunk]) -> list[bytes]:
    """What of a file's content goes into the digest: its hunks where they say all, else both ids."""
    ids = [b"ids", record.old_id.encode(), record.id.encode()]
    if not hunks or not record.comparable:
        return ids
    old = b"\n" + texts[record.old_id]
    if len(old) * len(hunks) > _MOST_SEARCHED:
        return ids
    whole: list[bytes] = [b"hunks"]
    for hunk in hunks:
        before = hunk.before
        at = old.find(before) if before else -1
        if at < 0 or old.find(before, at + 1) >= 0:
            return ids
        whole += hunk.lines
    return whole


def _told(record: _Record, texts: dict[str, bytes], hunks: Sequence[DiffHunk]) -> Iterator[str]:
    """A file's difference as text, its heading first."""
    old, new = _shown(record.old_path or record.path), _shown(record.path)
    yield f"diff --git a/{old} b/{new}"
    if record.mode != record.old_mode:
        yield f"mode {record.old_mode} -> {record.mode}"
    if record.old_path is not None:
        yield f"renamed from {old}"
    if record.id == record.old_id:
        return
    if not _is_readable(record, texts):
        yield f"contents differ: {record.old_id[:12]} -> {record.id[:12]}"
        return
    if record.comparable:
        for hunk in hunks:
            yield from (hunk.head, *(line.decode("utf-8", "backslashreplace") for line in hunk.lines))
        return
    yield from (f"-{line.text}" for line in _lines(enumerate(_whole(record.old_mode, record.old_id, texts))))
    yield from (f"+{line.text}" for line in _lines(enumerate(_whole(record.mode, record.id, texts))))


def _shown(path: str) -> str:
    return path if path.isprintable() else ascii(path)[1:-1]
