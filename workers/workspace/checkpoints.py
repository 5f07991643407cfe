"""
Checkpoints of work under way: after each turn, the attempt's files and transcript go to the hub in one commit.

A process that resumes an interrupted attempt, on any host, finds both as they were at the same moment. Checkpoints are
made beside the conversation: the files are snapshotted while the model thinks, and pushed one after the other.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import structlog

from forgepool.workers.context.transcript.entries import CheckpointKept, Transcript, now
from forgepool.workers.schema.orders import WorkOrder
from forgepool.workers.workspace.refs import progress_ref
from forgepool.worktrees.checkouts.checkout import Checkout, Unusable
from forgepool.worktrees.commits.candidate import write_commit
from forgepool.worktrees.git.git import CommitId, Git, GitFailed, TreeId
from forgepool.worktrees.git.objects import read_blob
from forgepool.worktrees.hub.mirror import Mirror
from forgepool.worktrees.hub.push import Pushed, RefUpdate, Stale

log = structlog.get_logger()

_SETTLE_S = 120.0
"""Longest wait for a snapshot, which is longer than git takes for any tree."""
_AGAIN_S = 0.5
_CLOSE_S = 5.0
_FILES, _TRANSCRIPT = "files", "transcript.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptProgress:
    """The newest checkpoint of an attempt."""

    attempt: int
    base: CommitId
    """The commit the attempt began from."""
    commit: CommitId
    files: TreeId
    transcript: bytes


class Keeper:
    """Keeps work under way. This one keeps nothing."""

    def keep(self, *, changed: bool) -> None:
        """Note that a turn is complete. `changed` says that its tools may have changed files."""

    def settle(self) -> None:
        """Wait until the files may change again."""


class HubKeeper(Keeper):
    """
    Keeps an attempt's work in the hub, from a thread for snapshots and one for pushes.

    While the hub is unreachable, later turns could not be resumed; the next push has them all.
    """

    def __init__(self, order: WorkOrder, checkout: Checkout, transcript: Transcript, *, tip: CommitId | None) -> None:
        self._order, self._checkout, self._transcript = order, checkout, transcript
        self._ref = progress_ref(order.run, order.task, order.attempt)
        self._tip = tip
        self._files: TreeId | None = None
        self._stale = True
        """True when files may have changed since the last snapshot."""
        self._due: int | None = None
        """The length of the transcript, in bytes, for which a snapshot is due."""
        self._made: tuple[CommitId, int] | None = None
        """The newest commit, and the length of the transcript in it."""
        self._noted = self._pushed = 0
        self._changed = threading.Condition()
        self._closing = False
        self._threads = [
            threading.Thread(target=self._work, args=(turn,), name=name, daemon=True)
            for name, turn in (("snapshots", self._snapshot_next), ("pushes", self._push_next))
        ]
        for thread in self._threads:
            thread.start()

    def keep(self, *, changed: bool) -> None:
        self._transcript.append(CheckpointKept(at=now()))
        with self._changed:
            self._due = self._noted = self._transcript.size
            self._stale = self._stale or changed
            self._changed.notify_all()

    def settle(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._due is None or self._closing, timeout=_SETTLE_S)

    def flush(self, *, wait_s: float) -> bool:
        """Wait until the hub has every noted turn, and return whether it has; failed pushes are repeated meanwhile."""
        with self._changed:
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._pushed == self._noted or self._unmade(), timeout=wait_s)
            return self._pushed == self._noted

    def close(self) -> None:
        """End the threads. Work not begun is dropped, and a push under way is not waited for long."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(timeout=_CLOSE_S)

    def _work(self, turn: Callable[[], None]) -> None:
        while not self._closing:
            try:
                turn()
            # A thread that died would leave the order waiting for it, so after any failure the next turn is tried.
            except Exception as trouble:
                log.info("progress.not_kept", order_id=self._order.order_id, why=str(trouble))
                with self._changed:
                    self._changed.wait_for(lambda: self._closing, timeout=_AGAIN_S)

    def _snapshot_next(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._due is not None or self._closing)
            if self._closing or self._due is None:
                return
            size, stale = self._due, self._stale
            self._stale = False
        commit = None
        try:
            commit = self._snapshot(size, stale)
        finally:
            with self._changed:
                self._stale = self._stale or commit is None
                self._due = None if self._due == size else self._due
                self._made = (commit, size) if commit else self._made
                self._changed.notify_all()

    def _snapshot(self, size: int, stale: bool) -> CommitId | None:
        """
        Return a commit of the files and this length of the transcript, or None where git fails.

        The next turn then snapshots the files again, so that files and transcript always belong together.
        """
        git = self._checkout.mirror.git
        try:
            if stale or self._files is None:
                self._files = self._checkout.snapshot()
            blob = git.text("hash-object", "-w", "--stdin", stdin=self._transcript.beginning(size))
            entries = f"040000 tree {self._files}\t{_FILES}\n100644 blob {blob}\t{_TRANSCRIPT}\n"
            tree = TreeId(git.text("mktree", stdin=entries.encode()))
            message = f"Work under way: {self._order.order_id}\n"
            base = CommitId(self._order.base)
            return write_commit(git, tree=tree, parents=(base,), message=message, at=int(time.time()))
        except (GitFailed, Unusable, OSError) as trouble:
            log.info("progress.not_kept", order_id=self._order.order_id, why=str(trouble))
            return None

    def _push_next(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._unpushed() or self._closing)
            if self._closing or self._made is None:
                return
            commit, size = self._made
        pushed = self._push(commit)
        with self._changed:
            self._pushed = size if pushed else self._pushed
            self._changed.notify_all()
            if not pushed:
                self._changed.wait_for(lambda: self._closing, timeout=_AGAIN_S)

    def _unmade(self) -> bool:
        """Return whether the last snapshot failed: there will be no other before the next turn."""
        return self._due is None and (self._made is None or self._made[1] < self._noted)

    def _unpushed(self) -> bool:
        return self._made is not None and self._made[1] > self._pushed

    def _push(self, commit: CommitId) -> bool:
        try:
            answer = self._checkout.mirror.push([RefUpdate(ref=self._ref, new=commit, expected=self._tip)])
        except GitFailed as trouble:
            log.info("progress.not_kept", order_id=self._order.order_id, why=str(trouble))
            return False
        match answer:
            case Pushed():
                self._tip = commit
                return True
            case Stale(actual=actual):
                # A push whose answer was lost, or an earlier delivery's. By the lease, this delivery counts now.
                self._tip = actual
            case _:
                log.info("progress.not_kept", order_id=self._order.order_id, why=str(answer))
        return False


@contextmanager
def keep_hub(order: WorkOrder, checkout: Checkout, transcript: Transcript, tip: CommitId | None) -> Iterator[HubKeeper]:
    keeper = HubKeeper(order, checkout, transcript, tip=tip)
    try:
        yield keeper
    finally:
        keeper.close()


def read_progress(mirror: Mirror, run: str, task: str, attempt: int) -> AttemptProgress | None:
    """
    Return the checkpoint that the hub keeps of an attempt, or None.

    Raises:
        GitFailed: the hub could not be reached.
    """
    ref = progress_ref(run, task, attempt)
    commit = mirror.hub_refs(ref).get(ref)
    if commit is None:
        return None
    mirror.fetch(f"+{ref}:{ref}")
    base, files = mirror.git.text("rev-parse", f"{commit}^", f"{commit}:{_FILES}").split()
    text = _blob(mirror.git, commit)
    return AttemptProgress(attempt=attempt, base=CommitId(base), commit=commit, files=TreeId(files), transcript=text)


def transcripts(mirror: Mirror, run: str) -> Iterator[tuple[str, int, bytes]]:
    """
    Fetch all checkpoints of a run at once, and yield their tasks, attempts and transcripts.

    Raises:
        GitFailed: the hub could not be reached.
    """
    prefix = f"refs/forgepool/{run}/progress/"
    refs = mirror.hub_refs(f"{prefix}*")
    if refs:
        mirror.fetch(f"+{prefix}*:{prefix}*")
    for ref, commit in refs.items():
        task, _, attempt = ref.removeprefix(prefix).rpartition("/")
        if attempt.isdigit():
            yield task, int(attempt), _blob(mirror.git, commit)


def _blob(git: Git, commit: CommitId) -> bytes:
    return read_blob(git, f"{commit}:{_TRANSCRIPT}")
