"""
What a gate keeps in the hub of its entries: each revision's commit at a ref of its own, as long as it may be wanted.

Of an entry in line it is tested and landed from there. Of one that was returned or withdrawn it may be asked for again
(`queue retry`, `see it again`): the last 500 are kept, and none for longer than 30 days.
"""

from collections.abc import Collection, Mapping, Sequence

import structlog

from forgepool.orchestrator.journal.events import EntrySubmitted
from forgepool.orchestrator.state.run import RunState
from forgepool.workers.workspace.refs import candidate_ref, marker_ref, run_refs
from forgepool.worktrees.git.git import CommitId, GitFailed
from forgepool.worktrees.hub.mirror import Mirror, MissingCommit
from forgepool.worktrees.hub.push import Pushed, RefUpdate

log = structlog.get_logger()

KEPT_DAYS = 30
MOST_KEPT = 500
_MOST_SWEPT = 500
"""Refs deleted by one push: each costs two words of its command line."""


def forgettable(state: RunState, now: float) -> set[str]:
    """Entries that have landed, which the target's history has; and of those that were given back, who is not kept."""
    ended = sorted(state.in_phase("failed", "blocked", "cancelled"), key=lambda task: -task.ended)
    old = {task.id for task in ended if task.ended < now - KEPT_DAYS * 24 * 3600}
    return old | {task.id for task in ended[MOST_KEPT:]} | {task.id for task in state.in_phase("landed")}


def pin(mirror: Mirror, run: str, event: EntrySubmitted) -> None:
    """
    Below the gate's own refs, where nobody moves it; again does nothing.

    What lies there is of a time that the journal does not know, for it was lost and an older one put in its place.

    Raises:
        GitFailed: it could not be.
    """
    ref, commit = candidate_ref(run, event.task, event.revision), CommitId(event.commit)
    mirror.push([RefUpdate(ref=ref, new=commit, expected=None)])
    kept = mirror.hub_refs(ref).get(ref)
    if kept != commit:
        mirror.push([RefUpdate(ref=ref, new=commit, expected=kept)])
        kept = mirror.hub_refs(ref).get(ref)
    if kept != commit:
        raise GitFailed(("push", ref), 1, f"{ref} is at {kept}, not at the {commit} that was submitted")


def pin_again(mirror: Mirror, run: str, event: EntrySubmitted) -> bool:
    """The same commit under another revision; False where the hub has lost it."""
    earlier = candidate_ref(run, event.task, event.revision - 1)
    try:
        mirror.ensure(CommitId(event.commit), refs=(earlier,))
    except MissingCommit as gone:
        log.warning("entry.gone", run=run, entry=event.task, why=str(gone))
        return False
    pin(mirror, run, event)
    return True


def pin_missing(mirror: Mirror, state: RunState) -> None:
    """Who was asked for again while nobody kept the gate was journaled, and not pinned."""
    there = mirror.hub_refs(run_refs(state.run))
    for event in [state.submitted[one] for one in state.train.line.entries]:
        if candidate_ref(state.run, event.task, event.revision) not in there:
            pin_again(mirror, state.run, event)


def pins_of(run: str, there: Collection[str], entries: Collection[str]) -> list[str]:
    """Of the hub's refs those that are of these entries, their markers among them."""
    markers = {marker_ref(run, one) for one in entries}
    return [ref for ref in there if ref in markers or _entry_of(ref) in entries]


def remove(mirror: Mirror, there: Mapping[str, CommitId], refs: Sequence[str]) -> None:
    """Where the hub lets us; `there` says where they are."""
    for start in range(0, len(refs), _MOST_SWEPT):
        part = [RefUpdate(ref=ref, new=None, expected=there[ref]) for ref in refs[start : start + _MOST_SWEPT]]
        said = mirror.push(part)
        if not isinstance(said, Pushed):
            log.warning("refs.kept", hub=mirror.hub, why=str(said))


def _entry_of(ref: str) -> str:
    """Whose pin it is: `refs/forgepool/<run>/orders/<entry>/<revision>`."""
    words = ref.split("/")
    return words[4] if len(words) == 6 and words[3] == "orders" else ""
