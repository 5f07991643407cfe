"""
The protected tree: the entry's code under the target's own tests and settings.

Every test, its support, and every setting of runners and pipelines that the entry changes is put back. So a failure
there is the entry's, however it has changed the tests that would have shown it. Files that a person granted stay as
the entry has them. A failure in a test that the task may edit can be intended: a reviewer or a person looks.
"""

import os
import tempfile
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from forgepool.supervisor.checks.results.judging import CheckJudgement, Excuse, Ran
from forgepool.supervisor.checks.results.reports import ReportedCase
from forgepool.supervisor.checks.results.shared_settings import put_back
from forgepool.supervisor.checks.results.touched import Cover, Touched, cover_of, covers, find_touched, lies_in
from forgepool.workers.policy.gate_file.document import CheckDefinition
from forgepool.workers.policy.gate_file.test_paths import Role, role, scripts_of
from forgepool.worktrees.commits.candidate import write_commit
from forgepool.worktrees.commits.diff import FileDiff
from forgepool.worktrees.git.git import CommitId, Git, TreeId
from forgepool.worktrees.git.objects import find_object, read_blob

_MOST_SETTINGS_BYTES = 1_000_000
_REGULAR = ("100644", "100755")


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardedTree:
    """A protected tree, and what in it is the target's though the entry changed it."""

    tree: TreeId
    put_back: tuple[Touched, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """The judgement of a protected run. With nothing in `red` and `attention` it has nothing to report."""

    red: tuple[str, ...] = ()
    """Ids of tests that the entry breaks, and may not."""
    attention: tuple[str, ...] = ()
    """
    Ids of tests that it breaks and had declared it would edit: it lands only once a reviewer or a person has looked.
    """
    excused: tuple[str, ...] = ()
    """Ids of tests that a person lets it change."""
    whole: Cover | None = None
    """For a failure without ids, the entry's permission for it: `none` is red, `held` needs a look."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Blob:
    mode: str
    id: str


def excuse_of(
    files: Sequence[FileDiff],
    grants: Sequence[str] = (),
    holds: Sequence[str] | None = None,
    waive: Collection[str] = (),
) -> Excuse:
    """The explanation of missing tests, from the entry's own `grants`, `holds` and `waive`."""
    return Excuse(touched=find_touched(files, grants, holds, waive))


def protect_tree(
    git: Git,
    base: CommitId,
    tree: TreeId,
    files: Sequence[FileDiff],
    checks: Sequence[CheckDefinition] = (),
    grants: Sequence[str] = (),
    holds: Sequence[str] | None = None,
) -> GuardedTree | None:
    """
    The composed tree with the target's version of all that is protected; None where the entry changes nothing of it.

    `files` is the composed diff. What it adds of the kind is taken out, what it deletes is there again, what it renames
    has its name again. Scripts that the checks name in their commands are protected as well. Made in memory, with an
    index of its own.

    Raises:
        GitFailed: git gave no answer.
    """
    scripts = scripts_of(checks)
    ours = [file for file in files if _kind(file, scripts) is not None and not _is_granted(file, grants)]
    if not ours or (found := _made(git, base, tree, ours, scripts)) == tree:
        return None
    touched = (
        replace(each, role=_kind(file, scripts)) for each, file in zip(find_touched(ours, (), holds), ours, strict=True)
    )
    return GuardedTree(tree=found, put_back=tuple(touched))


def commit_of(git: Git, base: CommitId, tree: TreeId) -> CommitId:
    """The same commit of the tree on the base every time: checks are run on commits."""
    at = int(git.text("log", "-1", "--no-show-signature", "--format=%ct", base))
    return write_commit(git, tree=tree, parents=(base,), message="With the target's tests and settings\n", at=at)


def weigh(judgement: CheckJudgement, tip: Ran, ran: Ran, guarded: GuardedTree, excuse: Excuse | None = None) -> Weighed:
    """Judge a protected run from its judgement without an excuse, and from the runs, which tell each test's file."""
    if judgement.verdict not in ("red", "no_evidence") or judgement.of_tip:
        return Weighed()
    known = {name: case for each in (tip, ran) for case in _cases(each) for name in (case.function, case.id)}
    granted = tuple(each for each in (excuse.touched if excuse else ()) if each.cover == "granted")
    by_cover: dict[Cover, list[str]] = {"none": [], "held": [], "granted": []}
    for one in (*judgement.new, *judgement.vanished, *judgement.attention):
        case = known[one] if one in known else _unseen(one)
        by_cover[_cover(case, guarded.put_back, granted)].append(one)
    unnamed = not any(by_cover.values())
    return Weighed(
        red=tuple(by_cover["none"]),
        attention=tuple(by_cover["held"]),
        excused=tuple(by_cover["granted"]),
        whole=_weakest(guarded.put_back) if unnamed else None,
    )


def _cover(case: ReportedCase, put_back: Sequence[Touched], granted: Sequence[Touched]) -> Cover:
    if cover_of(case, granted) == "granted":
        return "granted"
    inside = [each for each in put_back if each.role in ("test", "support") and lies_in(case, each)]
    # Outside of all of these, it fails by something else that was put back.
    return cover_of(case, inside) if inside else _weakest(put_back)


def _weakest(put_back: Sequence[Touched]) -> Cover:
    """Settings are never the task's to change by declaring them."""
    mine = all(each.cover != "none" and each.role in ("test", "support") for each in put_back)
    return "held" if mine else "none"


def _unseen(test: str) -> ReportedCase:
    """Return a test that only an earlier run reported: the file is part of pytest's id."""
    file = test.partition("::")[0]
    return ReportedCase(id=test, outcome="failed", file=file if file.endswith(".py") else "")


def _cases(ran: Ran) -> Sequence[ReportedCase]:
    return ran.evidence.report.cases if ran.evidence.report is not None else ()


def _names(file: FileDiff) -> tuple[str, ...]:
    return tuple(name for name in (file.old_path, file.path) if name is not None)


def _role(name: str, scripts: frozenset[str]) -> Role | None:
    return role(name) or ("runner" if name in scripts else None)


def _kind(file: FileDiff, scripts: frozenset[str]) -> Role | None:
    """Return the role by the name in the target, or without one there, by the entry's name."""
    return next((kind for name in _names(file) if (kind := _role(name, scripts)) is not None), None)


def _is_granted(file: FileDiff, grants: Sequence[str]) -> bool:
    return all(covers(grants, name) for name in _names(file))


def _made(git: Git, base: CommitId, tree: TreeId, files: Sequence[FileDiff], scripts: frozenset[str]) -> TreeId:
    names = sorted({name for file in files for name in _names(file) if _role(name, scripts) is not None})
    old, new = (_blobs(git, each, names) for each in (base, tree))
    wanted = {name: _wanted(git, name, old.get(name), new.get(name)) for name in names}
    # What is taken out comes first: it may stand where the target has a folder.
    lines = [f"0 {'0' * len(tree)}\t{name}\0" for name, blob in wanted.items() if blob is None]
    lines += [f"{blob.mode} {blob.id}\t{name}\0" for name, blob in wanted.items() if blob is not None]
    with tempfile.TemporaryDirectory(prefix="forgepool-") as folder:
        index = replace(git, work_tree=None, index=Path(folder) / "index")
        index.run("read-tree", tree)
        index.run("update-index", "-z", "--index-info", stdin=os.fsencode("".join(lines)))
        return TreeId(index.text("write-tree"))


def _wanted(git: Git, name: str, old: _Blob | None, new: _Blob | None) -> _Blob | None:
    if role(name) != "shared":
        return old
    texts = [_text(git, each) for each in (old, new)]
    if any(text is None for text, each in zip(texts, (old, new), strict=True) if each is not None):
        return old
    mixed = put_back(PurePosixPath(name).name, texts[0], texts[1])
    if mixed is None:
        return None
    mode = (old or new or _Blob(mode=_REGULAR[0], id="")).mode
    return _Blob(mode=mode, id=git.text("hash-object", "-w", "--stdin", stdin=mixed.encode()))


def _text(git: Git, blob: _Blob | None) -> str | None:
    facts = find_object(git, blob.id) if blob is not None and blob.mode in _REGULAR else None
    if facts is None or facts.size > _MOST_SETTINGS_BYTES:
        return None
    try:
        return read_blob(git, facts.id).decode()
    except UnicodeDecodeError:
        return None


def _blobs(git: Git, tree: CommitId | TreeId, names: Sequence[str]) -> dict[str, _Blob]:
    found: dict[str, _Blob] = {}
    for record in git.run("ls-tree", "-r", "-z", "--full-tree", tree, "--", *names).fields:
        facts, _, name = record.partition("\t")
        mode, _, blob = facts.split(" ")
        if name in names:
            found[name] = _Blob(mode=mode, id=blob)
    return found
