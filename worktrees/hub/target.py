"""
The branch everybody lands on. It is moved by compare-and-swap at the hub, and only for what was certified.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from forgepool.worktrees.errors import InfrastructureError
from forgepool.worktrees.git.beneath import hold_lock
from forgepool.worktrees.git.git import CommitId, TreeId, is_ref
from forgepool.worktrees.hub.mirror import Mirror
from forgepool.worktrees.hub.push import Pushed, PushRefused, RefUpdate, Stale


class CertificateMismatch(ValueError):
    """The commit is not what the certificate speaks of, or would drop commits of the target."""


class TargetRefused(InfrastructureError):
    """The hub does not let the target be created; the text says why."""


_NONE: Mapping[str, CommitId] = MappingProxyType({})
_MOST_AT_ONCE = 500
"""Refs deleted by one push: each costs two words of its command line."""


@dataclass(frozen=True, slots=True)
class Moved:
    """The target contains the commit."""

    commit: CommitId


@dataclass(frozen=True, slots=True)
class TargetElsewhere:
    """Somebody else moved the target first; nothing was done. `tip` is None when the branch is gone."""

    tip: CommitId | None


@dataclass(frozen=True, slots=True)
class NotMoved:
    """The hub refused; nothing was done."""

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
) -> Moved | TargetElsewhere | NotMoved:
    """
    Moves the branch `target` from `expected_tip` to the commit and creates the refs of `markers`, all or none.

    The last of the markers is that of the commit itself. `replacing` says where markers are that tell of no landing.

    Doing it again after it was done answers Moved.

    Raises:
        CertificateMismatch: the commit's tree is not the certified one, or the tip is no ancestor of it.
        GitFailed: what became of it is unknown; ask `is_contained`.
    """
    _refuse_mismatch(mirror, commit, expected_tip, certified_tree)
    branch = f"refs/heads/{target}"
    updates = (
        RefUpdate(ref=branch, new=commit, expected=expected_tip),
        *(RefUpdate(ref=marker, new=at, expected=replacing.get(marker)) for marker, at in markers.items()),
    )
    answer = mirror.push(updates)
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
    Asks the hub: does the history of the target have the commit? A marker alone would be no proof: a hub that is killed
    within a push may have written it, and not moved the target.
    """
    branch = f"refs/heads/{target}"
    tip = mirror.hub_refs(branch).get(branch)
    if tip is None:
        return False
    mirror.ensure(tip, refs=(branch,))
    # Whoever has the tip has all it contains: a commit that is not here is not in it.
    return mirror.has(commit) and _is_ancestor(mirror, commit, tip)


def create_target(mirror: Mirror, target: str, base: CommitId) -> CommitId:
    """
    The tip of the target, which is created at `base` if there is none. Of several at once, one creates it.

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
    # `A...B` answers with both commits and, marked by ^, what they were forked from: for an ancestor, itself.
    fork = () if expected_tip is None else (f"{expected_tip}...{commit}",)
    tree, *ids = mirror.git.text("rev-parse", f"{commit}^{{tree}}", *fork).splitlines()
    if tree != certified_tree:
        raise CertificateMismatch(f"commit {commit} has tree {tree}, the certificate is for {certified_tree}")
    if expected_tip is not None and f"^{expected_tip}" not in ids:
        raise CertificateMismatch(f"commit {commit} is not built on {expected_tip}; compose it on that tip")


def _is_ancestor(mirror: Mirror, older: CommitId, newer: CommitId) -> bool:
    return mirror.git.run("merge-base", "--is-ancestor", older, newer, ok=(0, 1)).status == 0


def prune_run(
    mirror: Mirror, run: str, *, keep_orders_of: Collection[str] | None = None, keep: Collection[str] = ()
) -> int:
    """
    Removes the run's refs from the hub and from the mirror; how many the hub had.

    The candidates (`refs/forgepool/<run>/orders/<task>/`) and the work under way (`.../progress/<task>/`) are the work
    itself: they stay, all of them or those of the tasks named. `keep` names further refs, whole, that stay.

    Raises:
        ValueError: no such name can be a run's.
        GitFailed: the hub could not be asked.
    """
    if not is_ref(f"refs/forgepool/{run}") or "/" in run:
        raise ValueError(f"{run!r} is not the name of a run")
    tasks = ("",) if keep_orders_of is None else tuple(f"{task}/" for task in keep_orders_of)
    kept = tuple(f"forgepool/{run}/{work}/{task}" for work in ("orders", "progress") for task in tasks)
    there = mirror.hub_refs(f"refs/forgepool/{run}/*")
    gone = [
        RefUpdate(ref=ref, new=None, expected=commit)
        for ref, commit in there.items()
        if ref not in keep and not ref.removeprefix("refs/").startswith(kept)
    ]
    parts = [gone[start : start + _MOST_AT_ONCE] for start in range(0, len(gone), _MOST_AT_ONCE)]
    removed = sum(_delete(mirror, part) for part in parts)
    _forget(mirror, f"refs/hub/forgepool/{run}/", tuple(f"refs/hub/{one}" for one in kept))
    return removed


def _delete(mirror: Mirror, updates: list[RefUpdate]) -> int:
    """One push for all; when one of them was moved meanwhile or is refused, what can go goes alone."""
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
    """The mirror's own copies of refs; the objects stay until a repack finds nobody wants them."""
    with hold_lock(mirror.lock):
        names = mirror.git.text("for-each-ref", "--format=%(refname)", prefix).splitlines()
        gone = [name for name in names if not name.startswith(kept)]
        lines = "".join(f"delete {name}\n" for name in gone)
        if lines:
            mirror.git.run("update-ref", "--stdin", stdin=lines.encode())
