"""Rules about a change as a whole: its size, its paths, its file modes, its claims, and conflict markers left in it."""

import os
import posixpath
import re
from collections.abc import Iterator, Sequence

from forgepool.workers.policy.gate_file.test_paths import is_test_path
from forgepool.workers.workspace.scans.findings import ScanFinding, Weight
from forgepool.workers.workspace.scans.source.grammar import SourceText
from forgepool.workers.workspace.scans.subject import Subject, finding, is_covered, is_granted, is_held
from forgepool.worktrees.commits.candidate import WORK
from forgepool.worktrees.commits.changes import changes
from forgepool.worktrees.commits.diff import FileDiff, contents
from forgepool.worktrees.git.git import CommitId
from forgepool.worktrees.git.history import brings_one_commit, read_commit
from forgepool.worktrees.git.objects import find_objects

_LINK, _SUBMODULE, _NONE = "120000", "160000", "000000"
_EXECUTABLE = frozenset([("100644", "100755"), ("100755", "100644")])
_EMPTY = frozenset(
    ["e69de29bb2d1d6434b8b29ae775ad8c2e48c5391", "473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813"]
)
"""Ids of the empty file, in both of git's digests."""
_MOST_LOST = 0.05
_FEW = 3
_COMMIT = re.compile(
    r"\b(?:commit(?:ted)?|sha|hash|revision)\b(?:\s+(?:it|them|this|as|in|is|id|hash|sha|with|under))*[\s:=#`'\"(\[]*"
    r"([0-9a-f]{7,40})\b",
    re.IGNORECASE,
)
_LANDED = re.compile(rf"^{WORK}:".encode(), re.MULTILINE)
_WHOLE = "."
"""The path of a finding about the change as a whole."""


def scan_shape(subject: Subject) -> Iterator[ScanFinding]:
    """Report `shrinkage`, `outside-lock`, `mode-change`, `claimed-unchanged`, `empty-change` and false claims."""
    yield from scan_empty(subject)
    if not subject.files:
        return
    yield from _shrinkage(subject)
    yield from _outside(subject)
    yield from _modes(subject)
    yield from _links(subject)
    yield from _unchanged(subject)
    yield from _unknown_commits(subject)
    yield from _claimed_work(subject)


def scan_empty(subject: Subject) -> Iterator[ScanFinding]:
    """Report `empty-change`."""
    if not subject.files:
        message = "nothing differs from the target; a change must change something"
        yield finding("empty-change", "blocks", message, _WHOLE)


def _shrinkage(subject: Subject) -> Iterator[ScanFinding]:
    old, new = len(subject.old_paths), len(subject.new_paths)
    emptied = {file.path for file in subject.files if file.removed and file.id in _EMPTY}
    lost = [path for path in (subject.old_paths - subject.new_paths) | emptied if not is_granted(subject, path)]
    if old - new + len(emptied) >= max(_FEW, _MOST_LOST * old) and len(lost) >= _FEW:
        also = f", {len(emptied)} of them emptied" if emptied else ""
        message = f"the tree has {new} files of {old}{also}; keep the files that need not go"
        yield finding("shrinkage", "blocks", message, _WHOLE)


def _outside(subject: Subject) -> Iterator[ScanFinding]:
    message = "the task does not hold this path; declare it in `files`, or leave it as it is"
    for file in subject.files:
        for path in dict.fromkeys((file.old_path or file.path, file.path)):
            mine = is_held(subject, path) or path in subject.extended or path in subject.made
            if not mine and not is_granted(subject, path):
                yield finding("outside-lock", "blocks", message, path)


def _modes(subject: Subject) -> Iterator[ScanFinding]:
    for file in subject.files:
        if is_granted(subject, file.path):
            continue
        if (file.old_mode, file.mode) in _EXECUTABLE:
            message = "the file is executable now" if file.mode.endswith("755") else "the file is executable no longer"
            yield _mode(file, f"{message}; leave its mode as it was", blocks=False)
        elif file.mode == _SUBMODULE and file.old_mode != _SUBMODULE:
            yield _mode(file, "a submodule brings in files that are not checked here; add the files themselves")
        elif file.mode != _NONE and file.old_mode != _NONE and file.mode[:3] != file.old_mode[:3]:
            was, now = _kind(file.old_mode), _kind(file.mode)
            yield _mode(file, f"what was {was} is {now} now; leave it {was}")


def _mode(file: FileDiff, message: str, *, blocks: bool = True) -> ScanFinding:
    return finding("mode-change", "blocks" if blocks else "attention", message, file.path)


def _kind(mode: str) -> str:
    return {_LINK: "a link", _SUBMODULE: "a submodule"}.get(mode, "a file")


def _links(subject: Subject) -> Iterator[ScanFinding]:
    links = [file for file in subject.files if file.mode == _LINK and file.id != file.old_id]
    texts = contents(subject.git, [file.id for file in links])
    for file in links:
        to = os.fsdecode(texts.get(file.id, b"/"))
        if _leads_out(file.path, to) and not is_granted(subject, file.path):
            message = "the link leads out of the tree; link to a file of the tree, by a relative path"
            yield finding("mode-change", "blocks", message, file.path, text=to)


def _leads_out(path: str, to: str) -> bool:
    end = posixpath.normpath(posixpath.join(posixpath.dirname(path), to))
    return to.startswith("/") or end == ".." or end.startswith("../") or ".git" in end.split("/")


def _unchanged(subject: Subject) -> Iterator[ScanFinding]:
    touched = {path for file in subject.files for path in (file.path, file.old_path) if path is not None}
    missing = [planned for planned in subject.planned if not any(is_covered((planned,), path) for path in touched)]
    if missing and len(missing) == len(subject.planned):
        message = f"none of the paths that were to be changed is: {', '.join(missing[:5])}; change them, or plan others"
        yield finding("claimed-unchanged", "blocks", message, missing[0])
        return
    tested = any(is_test_path(path) for path in touched)
    for planned in missing:
        if is_test_path(planned) and not tested:
            message = "this test was planned, and no test was written; write it, or ask a person to accept its absence"
            yield finding("claimed-unchanged", "attention", message, planned)
        else:
            yield finding("claimed-unchanged", "note", "the path was to be changed, and is not", planned)


def _unknown_commits(subject: Subject) -> Iterator[ScanFinding]:
    named = list(dict.fromkeys(found[1].lower() for found in _COMMIT.finditer(subject.claims)))[:50]
    named = [name for name in named if re.search(r"\d", name)]
    for name, facts in zip(named, find_objects(subject.git, (f"{name}^{{commit}}" for name in named)), strict=True):
        if facts is None:
            yield finding("claimed-commit", "attention", f"its agent names a commit {name}, and there is none", _WHOLE)


def _claimed_work(subject: Subject) -> Iterator[ScanFinding]:
    if subject.commit is None or not subject.commit.strip("0"):
        return
    # A later run of the plan leaves out the tasks that the target's history names as landed.
    for commit in _say_landed(subject, subject.commit)[:1]:
        message = f"the message of {commit[:12]} says that a plan's task has landed ({WORK}); take that out of it"
        yield finding("claimed-work", "blocks", message, _WHOLE)


def _say_landed(subject: Subject, commit: CommitId) -> Sequence[str]:
    facts = read_commit(subject.git, commit)
    if not facts.encoding and brings_one_commit(subject.git, commit, subject.base):
        return [commit] if _LANDED.search(facts.message) else []
    log = ("log", "--no-show-signature", f"--grep=^{WORK}:", "--format=%H")
    return subject.git.text(*log, commit, f"^{subject.base}", "--").split()


_MARKER = re.compile(r"(?:<{7}|>{7}|\|{7})(?: \S.*)?")
_PROSE = (".md", ".markdown", ".rst", ".txt", ".adoc", ".patch", ".diff", ".orig")


def scan_markers(subject: Subject, sources: tuple[SourceText, ...]) -> Iterator[ScanFinding]:
    """Report `conflict-marker` in every file, whatever its language."""
    known = {source.file.path: source for source in sources}
    for file in subject.read:
        source = known.get(file.path)
        for line in file.added:
            if line.text[:1] in "<>|" and _MARKER.fullmatch(line.text[:500]):
                weight = _marker_weight(file.path, source, line.number)
                message = "this is a merge conflict marker; resolve the conflict and remove its markers"
                yield finding("conflict-marker", weight, message, file.path, line.number, line.text)


def _marker_weight(path: str, source: SourceText | None, number: int) -> Weight:
    if source and source.language and any(each.line == number for each in source.remarks if each.string):
        return "note"
    if is_test_path(path) or path.lower().endswith(_PROSE):
        return "attention"
    return "blocks"


SIZE_RULE = "file-size"
_MEGABYTE = 1_000_000


def scan_sizes(subject: Subject) -> Iterator[ScanFinding]:
    """
    Report `file-size`. It blocks agents and people alike.

    A landed commit stays in every clone. So the files of all incoming commits count, even those a later commit deletes.
    """
    known = {file.old_id for file in subject.files}
    here = {file.id: file.path for file in subject.files if file.id.strip("0") and file.mode != _SUBMODULE}
    # A file that is only renamed, or changes its mode, is in the target already.
    here = {blob: path for blob, path in here.items() if blob not in known}
    limit = subject.max_file_mb * _MEGABYTE
    changed = _changed_blobs(subject)
    if changed is not None and all(size <= limit for _, size in _sizes(subject, changed | here)):
        return
    paths = _incoming_blobs(subject) | here
    for blob, size in _sizes(subject, paths):
        if size > limit and not is_granted(subject, paths[blob]):
            message = _size_message(size, subject.max_file_mb, is_there=blob in here)
            yield finding(SIZE_RULE, "blocks", message, paths[blob])


def _size_message(size: int, limit: float, *, is_there: bool) -> str:
    keep_out = "keep it out of git (Git LFS, for instance)"
    if not is_there:
        keep_out = "an earlier commit of the branch adds it: take it out of that commit, or land by squash"
    weight = f"the file has {size / _MEGABYTE:.1f} MB, and the limit is {limit:g} MB"
    return f"{weight}; {keep_out}, or raise `scans: max_file_mb` in the target's forgepool.yaml"


def _changed_blobs(subject: Subject) -> dict[str, str] | None:
    """Return at least the objects that a single commit would bring along; None where more commits would land."""
    if subject.commit is None or not subject.commit.strip("0"):
        return {}
    if not brings_one_commit(subject.git, subject.commit, subject.base):
        return None
    commit = read_commit(subject.git, subject.commit)
    return {one.id: one.path for one in changes(subject.git, commit.parents[0], subject.commit) if one.id.strip("0")}


def _incoming_blobs(subject: Subject) -> dict[str, str]:
    """Return the objects of the commits that would land, each with one of its paths."""
    if subject.commit is None or not subject.commit.strip("0"):
        return {}
    lines = subject.git.text("rev-list", "--objects", subject.commit, f"^{subject.base}").splitlines()
    return {line[: line.index(" ")]: line[line.index(" ") + 1 :] for line in lines if " " in line}


def _sizes(subject: Subject, blobs: dict[str, str]) -> Iterator[tuple[str, int]]:
    for facts in find_objects(subject.git, blobs):
        if facts is not None and facts.kind == "blob":
            yield facts.id, facts.size
