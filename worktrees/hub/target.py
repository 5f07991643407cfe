"""
The refs of runs at the hub: the target branch all tasks land on, landing markers, and the refs an ended run leaves.

The target moves by compare-and-swap, and only to a certified commit.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from forgepool.worktrees.errors import InfrastructureError
from forgepool.worktrees.git.beneath import hold_lock
from forgepool.worktrees.git.git import CommitId, GitFailed, TreeId, is_ref
from forgepool.worktrees.git.history import is_ancestor, read_commit
from forgepool.worktrees.hub.mirror import Mirror
from forgepool.worktrees.hub.push import Pushed, PushRefused, RefUpdate, Stale


class CertificateMismatch(ValueError):
    """The certificate is for another tree, or the commit would drop commits of the target."""


class TargetRefused(InfrastructureError):
    """The hub does not let the target be created; the text says why."""


_NONE: Mapping[str, CommitId] = MappingProxyType({})
_MOST_AT_ONCE = 500
"""Refs deleted by one push: each takes two words of its command line."""


@dataclass(frozen=True, slots=True)
class Moved:
    """The target contains the commit."""

    commit: CommitId


@dataclass(frozen=True, slots=True)
class TargetElsewhere:
    """The target had moved before; nothing was changed. `tip` is None when the branch is gone."""

    tip: CommitId | None


@dataclass(frozen=True, slots=True)
class NotMoved:
    """The hub refused; nothing was changed."""

    reason: str


def move_target(
    mirror: Mirror,
    *,
    target: str,
    commit: CommitId,
    expected_tip: CommitId | None,
    certified_tree: TreeId,
    markers: Mapping[str, CommitId],
    replacing: Mapping[str, CommitId] = _NONE,
    obsolete: Mapping[str, CommitId] = _NONE,
    near: Sequence[str] = (),
) -> Moved | TargetElsewhere | NotMoved:
    """
    Move the branch `target` from `expected_tip` to the commit and create the refs of `markers`, all or none.

    The last marker is that of the commit itself. `replacing` maps markers that do not stand for a landing to their
    commits. `near` is as for `Mirror.push`. Repeating a successful call returns Moved. The refs of `obsolete` are
    deleted by the same push, unless one has moved or cannot be deleted; then all of them stay.

    Raises:
        CertificateMismatch: the commit's tree is not the certified one, or the tip is no ancestor of it.
        GitFailed: the outcome is unknown; ask `is_contained`.
    """
    _refuse_mismatch(mirror, commit, expected_tip, certified_tree)
    branch = f"refs/heads/{target}"
    updates = (
        RefUpdate(ref=branch, new=commit, expected=expected_tip),
        *(RefUpdate(ref=marker, new=at, expected=replacing.get(marker)) for marker, at in markers.items()),
    )
    gone = [RefUpdate(ref=ref, new=None, expected=at) for ref, at in obsolete.items()]
    try:
        answer = mirror.push((*updates, *gone), near=near)
    except GitFailed:
        if not gone:
            raise
        # Only deletions need the lock of the packed refs, which others may hold. A repeated push changes nothing.
        answer = mirror.push(updates, near=near)
    if gone and (isinstance(answer, PushRefused) or (isinstance(answer, Stale) and answer.ref in obsolete)):
        answer = mirror.push(updates, near=near)
    match answer:
        case Pushed():
            return Moved(commit)
        case PushRefused(reason):
            return NotMoved(reason)
        case Stale(ref, actual):
            if is_contained(mirror, target, commit):
                return Moved(commit)
            return TargetElsewhere(actual) if ref == branch else NotMoved(f"the marker {ref} is taken by {actual}")


def is_contained(mirror: Mirror, target: str, commit: CommitId) -> bool:
    """
    Ask the hub: does the target's history contain the commit?

    A marker alone is no proof: a hub that is killed during a push may have written it without moving the target.
    """
    branch = f"refs/heads/{target}"
    tip = mirror.hub_refs(branch).get(branch)
    if tip is None:
        return False
    mirror.ensure(tip, refs=(branch,))
    # Whoever has the tip has all it contains: a commit that is not here is not in it.
    return mirror.has(commit) and is_ancestor(mirror.git, commit, tip)


def create_target(mirror: Mirror, target: str, base: CommitId) -> CommitId:
    """
    Return the tip of the target, created at `base` if it does not exist. Of several callers, one creates it.

    Raises:
        TargetRefused: the hub does not allow it.
    """
    branch = f"refs/heads/{target}"
    tip = mirror.hub_refs(branch).get(branch)
    if tip is not None:
        return tip
    mirror.ensure(base)
    match mirror.push((RefUpdate(ref=branch, new=base, expected=None),)):
        case Pushed():
            return base
        case Stale(_, actual) if actual is not None:
            return actual
        case PushRefused(reason):
            raise TargetRefused(
                f"branch {target} cannot be created: {reason}; get permission to push there, "
                "or give the plan another `target`"
            )
        case _:
            raise TargetRefused(f"branch {target} appeared and went away again; try once more")


def _refuse_mismatch(mirror: Mirror, commit: CommitId, expected_tip: CommitId | None, certified_tree: TreeId) -> None:
    tree = read_commit(mirror.git, commit).tree
    if tree != certified_tree:
        raise CertificateMismatch(f"commit {commit} has tree {tree}, the certificate is for {certified_tree}")
    if expected_tip is not None and not is_ancestor(mirror.git, expected_tip, commit):
        raise CertificateMismatch(f"commit {commit} is not built on {expected_tip}; compose it on that tip")


def prune_run(
    mirror: Mirror, run: str, *, keep_orders_of: Collection[str] | None = None, keep: Collection[str] = ()
) -> int:
    """
    Remove the run's refs from the hub and from the mirror; return how many the hub had.

    Candidates (`refs/forgepool/<run>/orders/<task>/`), unverified work (`.../unverified/<task>/`) and progress
    (`.../progress/<task>/`) are the work itself. They stay: all of them, or those of the tasks named. `keep` names
    further refs that stay.

    Raises:
        ValueError: no run can have that name.
        GitFailed: the hub could not be asked.
    """
    if not is_ref(f"refs/forgepool/{run}") or "/" in run:
        raise ValueError(f"{run!r} is not the name of a run")
    tasks = ("",) if keep_orders_of is None else tuple(f"{task}/" for task in keep_orders_of)
    kept = tuple(f"forgepool/{run}/{work}/{task}" for work in ("orders", "unverified", "progress") for task in tasks)
    mirror.unlock_below(f"refs/forgepool/{run}")
    there = mirror.hub_refs(f"refs/forgepool/{run}/*")
    gone = [
        RefUpdate(ref=ref, new=None, expected=commit)
        for ref, commit in there.items()
        if ref not in keep and not ref.removeprefix("refs/").startswith(kept)
    ]
    parts = [gone[start : start + _MOST_AT_ONCE] for start in range(0, len(gone), _MOST_AT_ONCE)]
    removed = sum(_delete(mirror, part) for part in parts)
    _forget(mirror, f"refs/hub/forgepool/{run}/", tuple(f"refs/hub/{ref}" for ref in kept))
    return removed


def _delete(mirror: Mirror, updates: list[RefUpdate]) -> int:
    """Delete all refs by one push; if one of them moved or is refused, delete the halves separately."""
    if not updates:
        return 0
    answer = mirror.push(updates)
    if not isinstance(answer, Stale | PushRefused):
        return len(updates)
    if len(updates) == 1:
        return 0
    half = len(updates) // 2
    return _delete(mirror, updates[:half]) + _delete(mirror, updates[half:])


def _forget(mirror: Mirror, prefix: str, kept: tuple[str, ...]) -> None:
    """Remove the mirror's own copies of the refs; a later repack drops the objects."""
    with hold_lock(mirror.lock):
        names = mirror.git.text("for-each-ref", "--format=%(refname)", prefix).splitlines()
        gone = [name for name in names if not name.startswith(kept)]
        lines = "".join(f"delete {name}\n" for name in gone)
        if lines:
            mirror.git.run("update-ref", "--stdin", stdin=lines.encode())
