"""
Checkpoints of work under way: an attempt's files and transcript, which go to the hub in one commit.

A process that resumes an interrupted attempt, on any host, finds both as they were at the same moment. The files are
snapshotted after each turn, while the model thinks. How often a snapshot is pushed is the plan's `progress`: a push
costs the hub more than a turn is worth, so that by default the turns of half a minute share one.
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
_FILES, _TRANSCRIPT, _HELD = "files", "transcript.jsonl", "held"


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

    def keep(self, *, changed: bool, phase_ends: bool = False) -> None:
        """Note that a turn is complete. `changed` says that its tools may have changed files."""

    def settle(self) -> None:
        """Wait until the files may change again."""


class HubKeeper(Keeper):
    """
    Keeps an attempt's work in the hub, from a thread for snapshots and one for pushes.

    A conversation whose host dies resumes from the last push, which has all turns before it.
    """

    def __init__(self, order: WorkOrder, checkout: Checkout, transcript: Transcript, *, tip: CommitId | None) -> None:
        self._order, self._checkout, self._transcript = order, checkout, transcript
        self._ref = progress_ref(order.run, order.task, order.attempt)
        self._tip = tip
        self._pause_s = order.progress if isinstance(order.progress, float) else 0.0
        self._push_at = time.monotonic()
        """The moment from which the hub may be given another turn."""
        self._urgent = 0
        """The length of the transcript that does not wait for that moment."""
        self._files: TreeId | None = None
        self._stale = True
        """True when files may have changed since the last snapshot."""
        self._due: int | None = None
        """The length of the transcript, in bytes, for which a snapshot is due."""
        self._made: tuple[TreeId, int] | None = None
        """The newest files, and the length of the transcript that belongs to them."""
        self._noted = self._pushed = 0
        self._changed = threading.Condition()
        self._closing = False
        self._held = ""
        self._threads = [
            threading.Thread(target=self._work, args=(turn,), name=name, daemon=True)
            for name, turn in (("snapshots", self._snapshot_next), ("pushes", self._push_next))
        ]
        for thread in self._threads:
            thread.start()

    def keep(self, *, changed: bool, phase_ends: bool = False) -> None:
        self._transcript.append(CheckpointKept(at=now()))
        with self._changed:
            self._due = self._noted = self._transcript.size
            self._stale = self._stale or changed
            if self._order.progress == "turn" or (phase_ends and self._order.progress != "off"):
                self._urgent = self._noted
            self._changed.notify_all()

    def hold(self, files: str) -> None:
        """Push this tree beside the files from now on, so that any host can return to it; empty holds none."""
        self._held = files

    def settle(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._due is None or self._closing, timeout=_SETTLE_S)

    def flush(self, *, wait_s: float) -> bool:
        """Wait until the hub has every noted turn, and return whether it has; failed pushes are repeated meanwhile."""
        with self._changed:
            self._urgent = self._noted
            self._changed.notify_all()
            self._changed.wait_for(
                lambda: self._pushed == self._noted or (self._unmade() and not self._unpushed()), timeout=wait_s
            )
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
            size, stale = self._due, self._stale or self._files is None
            self._stale = False
        files = None if stale else self._files
        try:
            files = files or self._snapshot()
        finally:
            with self._changed:
                # Without them the next turn snapshots again, so that files and transcript always belong together.
                self._stale = self._stale or files is None
                self._due = None if self._due == size else self._due
                self._files = files or self._files
                self._made = (files, size) if files else self._made
                self._changed.notify_all()

    def _snapshot(self) -> TreeId | None:
        try:
            return self._checkout.snapshot()
        except (GitFailed, Unusable, OSError) as trouble:
            log.info("progress.not_kept", order_id=self._order.order_id, why=str(trouble))
            return None

    def _push_next(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._unpushed() or self._closing)
            self._changed.wait_for(lambda: self._is_urgent() or self._closing, timeout=self._wait_s())
            if self._closing or self._made is None:
                return
            files, size = self._made
        pushed = self._push(files, size)
        with self._changed:
            if pushed:
                self._pushed, self._push_at = size, time.monotonic() + self._pause_s
            self._changed.notify_all()
            if not pushed:
                self._changed.wait_for(lambda: self._closing, timeout=_AGAIN_S)

    def _wait_s(self) -> float | None:
        """Return the seconds until a push that is not urgent; None where all others wait for an urgent one."""
        return None if self._order.progress in ("phase", "off") else max(0.0, self._push_at - time.monotonic())

    def _is_urgent(self) -> bool:
        if self._made is None or self._pushed >= self._urgent:
            return False
        return self._unpushed() and (self._made[1] >= self._urgent or self._unmade())

    def _unmade(self) -> bool:
        """Return whether the last snapshot failed: there will be no other before the next turn."""
        return self._due is None and (self._made is None or self._made[1] < self._noted)

    def _unpushed(self) -> bool:
        return self._made is not None and self._made[1] > self._pushed

    def _push(self, files: TreeId, size: int) -> bool:
        """Push a commit of these files and of the transcript up to this length; return whether the hub has it."""
        try:
            commit = self._commit(files, size)
            answer = self._checkout.mirror.push([RefUpdate(ref=self._ref, new=commit, expected=self._tip)])
        except (GitFailed, OSError) as trouble:
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

    def _commit(self, files: TreeId, size: int) -> CommitId:
        git = self._checkout.mirror.git
        blob = git.text("hash-object", "-w", "--stdin", stdin=self._transcript.beginning(size))
        entries = f"040000 tree {files}\t{_FILES}\n100644 blob {blob}\t{_TRANSCRIPT}\n"
        entries += f"040000 tree {self._held}\t{_HELD}\n" if self._held else ""
        tree = TreeId(git.text("mktree", stdin=entries.encode()))
        message = f"Work under way: {self._order.order_id}\n"
        return write_commit(git, tree=tree, parents=(CommitId(self._order.base),), message=message, at=int(time.time()))


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
