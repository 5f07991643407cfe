"""
The copy of a run's journal in the hub. With it another machine continues the run when this one is gone. It is also the
run's lease: the machine that moved its ref last holds the run.

The ref names the last of a chain of commits without files. Each message has the events since the one before, as lines
of JSON. So a copy costs one object and one push, and `git log` of the ref reads the journal.

Why no clock can let two holders land: the ref moves by compare-and-swap, and a landing is sent only after its intent is
in the copy. The next holder moves the ref from some commit of the chain. If the intent is in it, the next holder asks
the hub about that landing, as after any crash; the landing's own compare-and-swap lets only one succeed. If it is not,
the former holder can no longer move the ref, and sends nothing. Waiting for a silent holder only spares a live one.

The copy may lag by a third of `lease_s`. Lost with the machine are only events that the hub's other refs tell again
(results, landings), and those that are merely repeated: checks, unpaid orders, a failed attempt's count. All others are
`UNDERIVABLE` and copied before anything follows from them, and so are orders and reviews that reserve from a budget.
Transcripts are not in it: those that the lost machine had fetched are lost with it, for the hub keeps them no longer.

Everyone who can read the hub can read the copy, and everyone who may push there can remove it. With the fleet's key,
each message is signed together with its parent's id, and another host continues only what is signed so throughout. The
run's own host has the journal itself. Without a key, everyone who may push can forge the copy.
"""

import json
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import structlog
from pydantic import ValidationError

from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.journal.events import Event
from forgepool.orchestrator.journal.store import JournalUnreadable, StoredEvent, read_rows
from forgepool.workers.queue.signing import NotSigned, sign, verify
from forgepool.workers.schema.orders import Message
from forgepool.workers.schema.settings import Settings
from forgepool.workers.workspace.refs import journal_ref
from forgepool.worktrees.commits.candidate import write_commit
from forgepool.worktrees.errors import InfrastructureError
from forgepool.worktrees.git.git import CommitId, GitFailed, TreeId, without_password
from forgepool.worktrees.git.objects import read_object
from forgepool.worktrees.hub.mirror import Mirror, MissingCommit
from forgepool.worktrees.hub.push import Pushed, PushRefused, RefUpdate, Stale

UNDERIVABLE = (
    *(e.LandingIntended, e.EntryGiven, e.EntryRecalled),
    *(e.BudgetSet, e.PlanRevised, e.TasksAdded, e.TasksDropped, e.ProfileChosen, e.WaveApproved),
    *(e.TaskApproved, e.TaskRejected, e.TaskReplied, e.TaskRetried, e.LeadSpoken, e.TaskCancelled),
)
"""Intents of landings, numbers given once, and the words of people."""
LEASES = 10
"""A run's lease lasts as long as this many of a worker's."""
_RENEWALS = 3
_AGAIN_S = 5.0
log = structlog.get_logger()
_FILES = ("options.json", "plan.json", "plan-*.json")


class LeaseLost(InfrastructureError):
    """Another orchestrator has taken the run over. One sentence."""

    def __init__(self, said: str, *, why: str) -> None:
        super().__init__(said)
        self.why = why
        """The same in a few words."""


class RunLease(Message):
    """The first line of each copy: who holds the run."""

    holder: str
    """Names the run's folder on the holder's machine."""
    process: str
    """Names the orchestrator's process, so that no two of them make the same commit."""
    host: str
    number: int = 1
    """How often the run has changed hands, counted from 1."""
    held: bool = True
    """False where the holder has stopped, and anyone may continue at once."""
    lease_s: float
    """Seconds without a move of the ref after which another may take the run over."""
    upto: int = 0
    """The number of the last copied event."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The copy's last commit, and its lease."""

    at: CommitId
    lease: RunLease


@dataclass(frozen=True, slots=True)
class Copied:
    """The whole copy: the texts of the run's files by name, and its events."""

    files: dict[str, str]
    rows: list[StoredEvent]


def look(mirror: Mirror, run: str) -> Seen | None:
    """
    Return the copy's last state; None where the hub has no copy.

    Raises:
        JournalUnreadable: the ref has something else.
        GitFailed, MissingCommit: the hub could not be asked, or the ref moved meanwhile.
    """
    ref = journal_ref(run)
    at = mirror.hub_refs(ref).get(ref)
    if at is None:
        return None
    mirror.ensure(at, refs=(ref,))
    return Seen(at, _parse(mirror, ref, at)[0])


def read_copy(mirror: Mirror, run: str, at: CommitId) -> Copied:
    """
    Read the chain that ends at the commit, which is here.

    Raises:
        JournalUnreadable: it cannot be read, or is not signed as this host requires.
        GitFailed: git failed.
    """
    ref, files = journal_ref(run), dict[str, str]()
    rows: list[StoredEvent] = []
    for line in mirror.git.text("rev-list", "--reverse", "--parents", at, "--").splitlines():
        commit, *parents = map(CommitId, line.split())
        try:
            verify(_text_of(mirror, commit), _place(ref, parents))
        except NotSigned as refused:
            raise JournalUnreadable(
                f"{ref} in {without_password(mirror.hub)} is refused: {refused}, or continue the run on its own host"
            ) from refused
        _, new_files, new_rows = _parse(mirror, ref, commit)
        files |= new_files
        rows += new_rows
    if [row.number for row in rows] != list(range(1, len(rows) + 1)):
        raise JournalUnreadable(f"{journal_ref(run)} in {without_password(mirror.hub)} lacks events of the run")
    return Copied(files, rows)


def _text_of(mirror: Mirror, at: CommitId) -> str:
    _, content = read_object(mirror.git, at)
    # The commit's headers, what it says for people, and the lines.
    *_, text = content.decode(errors="replace").split("\n\n", 2)
    return text.rstrip("\n")


def _place(ref: str, parents: Sequence[CommitId]) -> str:
    """Return what a commit's signature is bound to, so that it cannot be moved within the chain."""
    return " ".join((ref, *parents))


def _parse(mirror: Mirror, ref: str, at: CommitId) -> tuple[RunLease, dict[str, str], list[StoredEvent]]:
    """Read one commit, however it is signed. Raises JournalUnreadable, GitFailed."""
    text = _text_of(mirror, at)
    # A signature has no brace, and the lease begins with one.
    lease, *lines = text[text.find("{") :].split("\n")
    try:
        values = [json.loads(line) for line in lines]
        files = {str(value[0]): str(value[1]) for value in values if len(value) == 2}
        return RunLease.model_validate_json(lease), files, [StoredEvent(*value) for value in values if len(value) == 4]
    except (ValueError, TypeError, ValidationError) as strange:
        raise JournalUnreadable(
            f"{ref} in {without_password(mirror.hub)} is no journal that this version can read; "
            "continue with the version that wrote it, or run the plan again"
        ) from strange


class OwnLease(Message):
    """The lease as the run's own folder remembers it."""

    holder: str
    copied: bool = False
    """The hub has had a copy by this holder, who has not begun to remove it."""


def read_own_lease(folder: Path) -> OwnLease | None:
    """Return how this folder holds the run, or last held it; None if it never did."""
    try:
        return OwnLease.model_validate_json((folder / "lease.json").read_text())
    except FileNotFoundError:
        return None


def write_own_lease(folder: Path, held: OwnLease) -> None:
    draft = folder / ".lease.json"
    draft.write_text(held.encode())
    draft.replace(folder / "lease.json")


def give_back(folder: Path) -> None:
    """
    Note that the holder itself removes the copy from the hub. It stays the holder of a copy that could not be removed.
    """
    if (mine := read_own_lease(folder)) is not None:
        write_own_lease(folder, OwnLease(holder=mine.holder))


def find_other_holder(mirror: Mirror, folder: Path, run: str) -> str:
    """Return the host that has the run in place of this folder; empty where there is none. Raises as `look`."""
    mine, seen = read_own_lease(folder), look(mirror, run)
    return "" if seen is None or (mine is not None and mine.holder == seen.lease.holder) else seen.lease.host


def describe_loss(mirror: Mirror, run: str, seen: Seen | None) -> LeaseLost:
    """Return the error for a machine whose run is held by another, or whose copy is gone."""
    if seen is None:
        hub = without_password(mirror.hub)
        return LeaseLost(
            f"run {run} has ended on another machine, or its journal was removed from {hub}; this machine sends "
            "nothing more for it; run the plan again for what is left: landed work is already there",
            why="it has ended on another machine",
        )
    return LeaseLost(
        f"run {run} was taken over by {seen.lease.host}, and this machine sends nothing more for it; "
        f"once that one has stopped, `forgepool resume {run}` continues it here",
        why=f"{seen.lease.host} has taken it over",
    )


@dataclass(slots=True, kw_only=True)
class HubCopy:
    """The copy of a run that this process holds."""

    mirror: Mirror
    run: str
    folder: Path
    lease: RunLease
    head: CommitId | None
    """The copy's last commit; None before the first."""
    _owed: bool = False
    _due: float = 0.0
    _whole: bool = True
    """The next commit has the run's files, too."""
    _tree: TreeId | None = None
    """The tree without files."""
    _made: tuple[CommitId, RunLease] | None = field(default=None)
    """A commit that the hub may have by now: its push had no answer."""

    def note(self, events: Sequence[Event]) -> None:
        """Take note of events that were journaled."""
        if any(isinstance(one, UNDERIVABLE) or _reserves(one) for one in events):
            self._owed, self._due = True, 0.0

    def push_owed(self) -> None:
        """Copy now if an event is among the journaled ones from which nothing may follow before. Raises as `push`."""
        if self._owed:
            self.push()

    def push_due(self) -> None:
        """Copy, and renew the lease, if it is time; a hub that is away is asked again later. Raises LeaseLost."""
        if time.monotonic() < self._due:
            return
        try:
            self.push()
        except GitFailed as away:
            log.warning("hub.away", run=self.run, why=str(away))

    def push(self, *, held: bool = True) -> None:
        """
        Copy the events journaled so far.

        Raises:
            LeaseLost: another has taken the run over.
            GitFailed: the hub could not be asked.
        """
        pause_s = _AGAIN_S
        try:
            self._bring_head()
            if self._made is not None:
                self._send(*self._made)
            self._send(*self._make(held=held))
            self._owed, pause_s = False, self.lease.lease_s / _RENEWALS
        finally:
            # Counted from the end: a push may take longer to fail than the pause lasts.
            self._due = time.monotonic() + pause_s

    def _bring_head(self) -> None:
        """Fetch the copy's last commit if the mirror lacks it. Raises as `push`."""
        try:
            if self.head is not None:
                self.mirror.ensure(self.head, refs=(journal_ref(self.run),))
        except MissingCommit:
            self._follow_ref()
        if self._made is not None and not self.mirror.has(self._made[0]):
            # It went with the former mirror. The next commit has its events, too.
            self._made = self._tree = None

    def _make(self, *, held: bool) -> tuple[CommitId, RunLease]:
        rows = list(read_rows(self.folder, after=self.lease.upto))
        upto = rows[-1].number if rows else self.lease.upto
        lease = self.lease.model_copy(update={"held": held, "upto": upto})
        paths = [path for name in _FILES for path in sorted(self.folder.glob(name))] if self._whole else []
        values = [*((path.name, path.read_text()) for path in paths), *rows]
        said = f"Journal of {self.run}: {len(rows)} events" + ("" if held else "; stopped")
        text = "\n".join([lease.encode(), *map(json.dumps, values)])
        # Others reach the hub by an address of their own.
        text = text.replace(self.mirror.hub, without_password(self.mirror.hub))
        git, parents = self.mirror.git, () if self.head is None else (self.head,)
        text = f"{said}\n\n{sign(text, _place(journal_ref(self.run), parents))}\n"
        self._tree = self._tree or TreeId(git.text("mktree", stdin=b""))
        self._made = write_commit(git, tree=self._tree, parents=parents, message=text, at=int(time.time())), lease
        return self._made

    def _send(self, commit: CommitId, lease: RunLease) -> None:
        ref = journal_ref(self.run)
        match self.mirror.push([RefUpdate(ref=ref, new=commit, expected=self.head)]):
            case Pushed():
                self.head, self.lease = commit, lease
                if self._whole:
                    write_own_lease(self.folder, OwnLease(holder=lease.holder, copied=True))
                self._made, self._whole = None, False
            case PushRefused(reason=reason):
                raise GitFailed(("push",), 1, f"the hub refuses the copy of the journal: {reason}")
            case Stale():
                self._follow_ref()
                self._send(*self._make(held=lease.held))

    def _follow_ref(self) -> None:
        """
        Continue from where the ref is now, if this process moved it there. The first push also continues from a push of
        the folder's former process that arrived after its end. Raises LeaseLost, GitFailed.
        """
        seen, mine = self._taker(), self.lease
        late = self._whole and seen is not None and seen.lease.holder == mine.holder
        if seen is None or not (late or seen.lease.process == mine.process):
            raise describe_loss(self.mirror, self.run, seen)
        self.head, self.lease = seen.at, mine.model_copy(update={"upto": seen.lease.upto})

    def _taker(self) -> Seen | None:
        for _ in range(5):
            try:
                return look(self.mirror, self.run)
            except MissingCommit:
                continue  # The ref moved between the two questions.
        raise GitFailed(("fetch",), 0, f"{journal_ref(self.run)} moves too often to be read")


def _reserves(event: Event) -> bool:
    match event:
        case e.OrderSent() | e.ReviewSent() | e.WaveReviewSent():
            return (event.reserved_usd, event.reserved_tokens) != (None, None)
        case e.MoneyGranted():
            return True
        case _:
            return False


def open_copy(mirror: Mirror, folder: Path, run: str, settings: Settings, *, begun: bool) -> HubCopy:
    """
    Return the copy as the run's folder holds it, before its first push in this process.

    `begun` says whether the run has events of an earlier process.

    Raises:
        LeaseLost: another holds the run.
        GitFailed, MissingCommit: the hub could not be asked.
    """
    mine, seen = read_own_lease(folder), look(mirror, run) if begun else None
    if mine is None:
        mine = OwnLease(holder=uuid.uuid4().hex)
        write_own_lease(folder, mine)
    if (seen is None and mine.copied) or (seen is not None and seen.lease.holder != mine.holder):
        raise describe_loss(mirror, run, seen)
    lease = RunLease(
        holder=mine.holder,
        process=uuid.uuid4().hex,
        host=settings.host,
        number=1 if seen is None else seen.lease.number,
        lease_s=LEASES * settings.lease_ttl_s,
        upto=0 if seen is None else seen.lease.upto,
    )
    return HubCopy(mirror=mirror, run=run, folder=folder, lease=lease, head=None if seen is None else seen.at)
