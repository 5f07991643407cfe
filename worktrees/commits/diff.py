"""
The difference between a commit and a tree, line by line: paths, modes and lines.

The two trees themselves are compared, never only the last commit. Neither attributes of the trees nor configuration
have any influence: git compares blobs named by numbers, so neither a name nor a `.gitattributes` can hide a line. Two
small trees are written for this, which no ref keeps.
"""

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from forgepool.worktrees.commits.changes import PathChange, Status, changes, tree_paths
from forgepool.worktrees.git.git import CommitId, Git, GitFailed, TreeId
from forgepool.worktrees.git.objects import find_objects, read_blob

_FILE = re.compile(rb"diff --git a/(\d+) b/\1")
_HEAD = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffHunk:
    """One run of changed lines, with the requested context. `added` and `removed` number their lines as in the file."""

    old_start: int
    new_start: int
    lines: tuple[bytes, ...]
    """Each with its sign, without its newline; git's remark follows a line that has no newline in the file."""

    @property
    def head(self) -> str:
        return f"@@ -{self.old_start} +{self.new_start} @@"

    @property
    def added(self) -> Iterator[tuple[int, bytes]]:
        return self._signed(b"+", self.new_start)

    @property
    def removed(self) -> Iterator[tuple[int, bytes]]:
        return self._signed(b"-", self.old_start)

    @property
    def before(self) -> bytes:
        """The hunk's text in the old file, with a newline before every line."""
        return b"".join(b"\n" + line[1:] for line in self.lines if line[:1] in (b" ", b"-"))

    def _signed(self, sign: bytes, number: int) -> Iterator[tuple[int, bytes]]:
        for line in self.lines:
            if line[:1] == sign:
                yield number, line[1:]
            if line[:1] in (sign, b" "):
                number += 1


def parse_hunks(patch: bytes) -> dict[int, tuple[DiffHunk, ...]]:
    """
    Parse a git patch into hunks by the number that names each file. Counts lines, so no content is taken for a heading.
    """
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
    """Return the index after a hunk of so many old and new lines."""
    while old > 0 or new > 0 or lines[at][:1] == b"\\":
        sign = lines[at][:1]
        old -= sign in (b" ", b"-")
        new -= sign in (b" ", b"+")
        at += 1
    return at


MOST_BYTES_OF_A_FILE = 2_000_000
MOST_BYTES = 64_000_000
"""The limit for all compared files together. Beyond it only ids are compared."""

_LINK, _SUBMODULE = "120000", "160000"
_LOOKS_BINARY = 8_000
"""Bytes in which git looks for a NUL, which makes a file binary."""
_AS_TEXT = ("-r", "-p", "--text", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color", "--full-index")
_EXACTLY = ("--diff-algorithm=myers", "--indent-heuristic", "--inter-hunk-context=0")
_WRITTEN_BY_NOBODY = ("linguist-generated", "linguist-vendored")
_MOST_SEARCHED = 200_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffLine:
    """A line added (numbered as in the new file) or removed (as in the old one), without its end."""

    number: int
    text: str
    """Bytes that are not UTF-8 are backslash escapes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDiff:
    """One file that differs."""

    status: Status
    path: str
    old_path: str | None = None
    """Set for a renamed file."""
    mode: str
    """Six octal digits; `000000` where there is none, `120000` a link, `160000` a submodule."""
    old_mode: str
    binary: bool = False
    """It has a NUL near its beginning, before or after; its lines are left out."""
    cut: bool = False
    """It is too large to compare line by line; its lines are left out."""
    added: tuple[DiffLine, ...] = ()
    removed: tuple[DiffLine, ...] = ()
    id: str = ""
    """The id of its content in the new tree; zeros where there is none."""
    old_id: str = ""


def tree_diff(git: Git, base: CommitId, tree: TreeId) -> tuple[FileDiff, ...]:
    """Return every file that differs, ordered by path, with renames recognised and without context."""
    records = changes(git, base, tree)
    texts = _texts(git, records)
    hunks = _compared(git, records, texts, context=0)
    return tuple(_file(record, texts, hunks.get(number, ())) for number, record in enumerate(records))


def patch_id(git: Git, base: CommitId, tree: TreeId) -> str:
    """
    Return a digest of the difference: modes, names, and every changed byte with three lines of context.

    Equal differences have equal digests, even when the target has moved, in other files or in these. Different ones
    never do: the whole contents count for files not compared line by line, and where the context does not identify one
    place.

    Why not `git patch-id`: it overlooks white space, and the same lines elsewhere in the file have the same id. Its
    option `--verbatim` is younger than the git we ask for.
    """
    records = changes(git, base, tree)
    texts = _texts(git, records)
    hunks = _compared(git, records, texts, context=3)
    digest = hashlib.sha256(b"forgepool patch 1")
    for number, record in enumerate(records):
        names = (record.status, record.old_path or "", record.path, record.old_mode, record.mode)
        for part in (*map(os.fsencode, names), *_content(record, texts, hunks.get(number, ()))):
            digest.update(b"%d:" % len(part) + part)
    return digest.hexdigest()


def find_hunks(git: Git, base: CommitId, tree: TreeId) -> tuple[tuple[PathChange, tuple[DiffHunk, ...]], ...]:
    """Return every change with its hunks, with three lines of context; none where it is not compared line by line."""
    records = changes(git, base, tree)
    hunks = _compared(git, records, _texts(git, records), context=3)
    return tuple((record, hunks.get(number, ())) for number, record in enumerate(records))


def diff_tail(git: Git, base: CommitId, tree: TreeId, lines: int = 100, *, characters: int = 20_000) -> str:
    """Return the last lines of the difference as text, with three lines of context."""
    records = changes(git, base, tree)
    texts = _texts(git, records)
    hunks = _compared(git, records, texts, context=3)
    kept: list[str] = []
    for number in range(len(records) - 1, -1, -1):
        shown = [*_told(records[number], texts, hunks.get(number, ()))]
        kept[:0] = shown[-max(0, lines - len(kept)) :] if len(kept) < lines else []
        if len(kept) >= lines:
            break
    return "\n".join(kept)[-characters:]


def contents(git: Git, ids: Iterable[str], *, each: int = MOST_BYTES_OF_A_FILE) -> dict[str, bytes]:
    """Return the bytes of these blobs, without those larger than `each` or beyond `MOST_BYTES` in total."""
    return {blob: read_blob(git, blob) for blob in _small(git, ids, each)}


def unread_paths(git: Git, base: CommitId, paths: Sequence[str]) -> frozenset[str]:
    """
    Return the paths that the commit's own `.gitattributes` mark as generated or vendored.

    Uses its own index with only those files: `check-attr --source` is younger than the git we ask for, and an existing
    index may be of another commit.
    """
    files = [path for path in tree_paths(git, base) if path.rpartition("/")[2] == ".gitattributes"]
    if not files or not paths:
        return frozenset()
    listed = git.run("ls-tree", "-r", "-z", "--full-tree", base).stdout.split(b"\0")
    rules = [record for record in listed if record.endswith((b"\t.gitattributes", b"/.gitattributes"))]
    with TemporaryDirectory(prefix="forgepool-index-") as folder:
        own = Git(git_dir=git.git_dir, index=Path(folder, "index"))
        own.run("update-index", "-z", "--index-info", stdin=b"".join(record + b"\0" for record in rules))
        asked = b"".join(os.fsencode(path) + b"\0" for path in paths)
        output = own.run("check-attr", "--cached", "-z", "--stdin", *_WRITTEN_BY_NOBODY, stdin=asked).fields
    shown = zip(output[0::3], output[2::3], strict=True)
    return frozenset(path for path, value in shown if value in ("set", "true"))


def renames(git: Git, base: TreeId, tree: TreeId) -> dict[str, str]:
    """Map each renamed file of `base` to its new name in `tree`."""
    return {each.old_path: each.path for each in changes(git, base, tree) if each.old_path is not None}


def _is_comparable(record: PathChange) -> bool:
    """Is there content of the same kind before and after, and does it differ?"""
    kinds = {mode[:3] for mode in (record.mode, record.old_mode)}
    return record.id != record.old_id and kinds in ({"100"}, {"120"})


def _small(git: Git, ids: Iterable[str], each: int) -> list[str]:
    wanted = [blob for blob in dict.fromkeys(ids) if blob.strip("0")]
    room = MOST_BYTES
    small: list[str] = []
    for blob, facts in zip(wanted, find_objects(git, wanted), strict=True):
        if facts is None or facts.kind != "blob":
            raise GitFailed(("cat-file", blob), 0, "fatal: it is no content of a file")
        if facts.size <= min(each, room):
            room -= facts.size
            small.append(blob)
    return small


def _texts(git: Git, records: Sequence[PathChange]) -> dict[str, bytes]:
    """Return the contents of all that differs, before and after, by id."""
    sides = [side for each in records for side in ((each.old_mode, each.old_id), (each.mode, each.id))]
    return contents(git, (blob for mode, blob in sides if mode != _SUBMODULE))


def _compared(
    git: Git, records: Sequence[PathChange], texts: dict[str, bytes], *, context: int
) -> dict[int, tuple[DiffHunk, ...]]:
    """Return the hunks of each comparable record, by its index in the list."""
    pairs = {number: each for number, each in enumerate(records) if _is_comparable(each) and _is_readable(each, texts)}
    if not pairs:
        return {}
    before = _tree(git, ((number, each.old_id) for number, each in pairs.items()))
    after = _tree(git, ((number, each.id) for number, each in pairs.items()))
    return parse_hunks(git.run("diff-tree", *_AS_TEXT, *_EXACTLY, f"-U{context}", before, after).stdout)


def _tree(git: Git, blobs: Iterable[tuple[int, str]]) -> str:
    entries = "".join(f"100644 blob {blob}\t{number:08}\0" for number, blob in blobs)
    return git.text("mktree", "-z", stdin=entries.encode())


def _is_readable(record: PathChange, texts: dict[str, bytes]) -> bool:
    return not _is_cut(record, texts) and not _is_binary(record, texts)


def _sides(record: PathChange) -> list[str]:
    """Return the ids of its contents, before and after, without submodules."""
    sides = ((record.old_mode, record.old_id), (record.mode, record.id))
    return [blob for mode, blob in sides if mode not in (_SUBMODULE, "000000")]


def _is_cut(record: PathChange, texts: dict[str, bytes]) -> bool:
    return any(blob not in texts for blob in _sides(record))


def _is_binary(record: PathChange, texts: dict[str, bytes]) -> bool:
    return any(b"\0" in texts.get(blob, b"")[:_LOOKS_BINARY] for blob in _sides(record))


def _file(record: PathChange, texts: dict[str, bytes], hunks: Sequence[DiffHunk]) -> FileDiff:
    readable = _is_readable(record, texts)
    added: Iterable[tuple[int, bytes]] = ()
    removed: Iterable[tuple[int, bytes]] = ()
    if _is_comparable(record):
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


def _content(record: PathChange, texts: dict[str, bytes], hunks: Sequence[DiffHunk]) -> list[bytes]:
    """Return what identifies a file's change: its hunks where they suffice, else both ids."""
    ids = [b"ids", record.old_id.encode(), record.id.encode()]
    if not hunks or not _is_comparable(record):
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


def _told(record: PathChange, texts: dict[str, bytes], hunks: Sequence[DiffHunk]) -> Iterator[str]:
    """Yield a file's difference as text, its heading first."""
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
    if _is_comparable(record):
        for hunk in hunks:
            yield from (hunk.head, *(line.decode("utf-8", "backslashreplace") for line in hunk.lines))
        return
    yield from (f"-{line.text}" for line in _lines(enumerate(_whole(record.old_mode, record.old_id, texts))))
    yield from (f"+{line.text}" for line in _lines(enumerate(_whole(record.mode, record.id, texts))))


def _shown(path: str) -> str:
    return path if path.isprintable() else ascii(path)[1:-1]
