"""
A queue seen through the refs of its hub: its board, and requests that are pushed to it.

A request about an entry is a blob pushed beside submissions, with the same rights; the queue answers on its board.

Why no approval, grant or pause through the hub: they admit what checks and scans refuse, or stop everyone, and a push
does not prove who made it. They are given on the queue's host, or with the API's token.
"""

import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from forgepool.orchestrator.decisions.queue.submissions import (
    HubRequest,
    earlier_name,
    entry_name,
    entry_of_ref,
    pattern,
    read_submission,
)
from forgepool.orchestrator.journal.inbox import PersonRequest
from forgepool.orchestrator.journal.queue_events import GateSign
from forgepool.orchestrator.reports.queue_board import (
    BEAT_S,
    BEATS,
    GONE_S,
    HEARD_S,
    RENEWED_S,
    Board,
    BoardEntry,
    RequestReply,
)
from forgepool.orchestrator.reports.queue_status import EntryStanding
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.workers.workspace.refs import board_ref, sign_ref, submission_ref
from forgepool.worktrees.commits.candidate import read_trailers
from forgepool.worktrees.git.git import CommitId, GitFailed, without_password
from forgepool.worktrees.git.history import is_ancestor
from forgepool.worktrees.git.objects import find_object, read_blob
from forgepool.worktrees.hub.mirror import Mirror
from forgepool.worktrees.hub.push import Pushed, RefUpdate

ANSWERED_S = 15.0
"""Seconds to wait for the answer to a request; a queue looks at its hub every second or two."""
_LOOK_S = 0.5
_MOST_BYTES = 5_000_000
_MOST_UNTAKEN = 50

Said = TypeVar("Said", bound=BaseModel)


@dataclass(frozen=True, slots=True, kw_only=True)
class HubLook:
    """The hub's refs, and the board, at one moment."""

    target: str
    tip: CommitId | None
    board: Board | None
    silence: str
    """One sentence if no queue was heard lately; empty while one is active."""
    submitted: Mapping[str, CommitId]
    """Submissions that no queue has picked up yet, by ref."""

    def entry(self, name: str) -> BoardEntry | None:
        names = (entry_name(name), earlier_name(name))
        entries = self.board.entries if self.board is not None else ()
        return next((entry for entry in entries if entry_name(entry.stand.entry) in names), None)


@dataclass(slots=True)
class HubQueue:
    """The queue of one branch, through a local repository that can reach its hub."""

    mirror: Mirror
    target: str
    _boards: dict[CommitId, Board | None] = field(default_factory=dict)
    """Only the latest board."""
    _signs: dict[CommitId, GateSign | None] = field(default_factory=dict)
    _heard: float | None = None
    """Monotonic time when the sign was seen to change, which holds whatever the other host's clock says."""

    def look(self) -> HubLook:
        """Read the hub's refs and the board. Raises GitFailed."""
        branch, sign, board = f"refs/heads/{self.target}", sign_ref(self.target), board_ref(self.target)
        refs = self.mirror.hub_refs(branch, sign, board, pattern(self.target))
        self._note_sign(sign, refs.get(sign))
        self._note_board(board, refs.get(board))
        known = next(iter(self._boards.values()), None)
        submitted = {ref: at for ref, at in refs.items() if ref.startswith(submission_ref(self.target, ""))}
        return HubLook(
            target=self.target,
            tip=refs.get(branch),
            board=known,
            silence=self._silence(known, time.time()),
            submitted=submitted,
        )

    def knows(self, name: str) -> bool:
        """Tell whether the queue has the entry, or a submission of it not picked up yet. Raises GitFailed."""
        look = self.look()
        return look.entry(name) is not None or self._submission_ref(look, name) is not None

    def ask(self, request: PersonRequest, *, wait_s: float = ANSWERED_S) -> RequestReply | None:
        """
        Push a request about an entry. None where the queue has not answered yet; it will at its next look.

        The request concerns the commit submitted now, not a later one.

        Raises:
            CannotRun: there is no such entry, or the hub rejects the request.
            GitFailed: the hub cannot be asked.
        """
        name, look = request.task or "", self.look()
        lying = self._submission_ref(look, name)
        if look.entry(name) is None and lying is None and look.board is not None:
            latest = ", ".join(entry.stand.entry for entry in look.board.entries[:8]) or "none yet"
            raise CannotRun(f"the queue of {self.target} has no entry '{name}'; the latest are: {latest}")
        if request.do == "cancel" and lying is not None and look.silence:
            return self._delete_submission(name, lying, look)
        if not request.candidate:
            request = request.model_copy(update={"candidate": self._current_commit(look, name, lying)})
        ref = self._push(request)
        return self._await_reply(ref, time.monotonic() + (0.0 if look.silence else wait_s))

    def _current_commit(self, look: HubLook, name: str, lying: str | None) -> str:
        """Return the entry's latest commit; empty where the queue shows no board. Raises GitFailed."""
        if lying is not None:
            try:
                self.mirror.bring(lying)
                return read_submission(self.mirror.git, self.target, lying, look.submitted[lying]).commit
            except GitFailed:
                # A queue may have picked it up meanwhile.
                look = self.look()
                if self._submission_ref(look, name) is not None:
                    raise
        entry = look.entry(name)
        return entry.stand.commit if entry is not None else ""

    def contains(self, look: HubLook, commit: str) -> bool:
        """Tell whether the target's history has the commit. Raises GitFailed."""
        if look.tip is None:
            return False
        if not self.mirror.has(look.tip):
            self.mirror.bring(f"refs/heads/{self.target}")
        return self._is_ancestor(commit, look.tip)

    def has_landed(self, look: HubLook, name: str, commit: str, before: str) -> bool:
        """
        Verify in the target what the board says: the entry landed after `before`, and with this commit or with the
        queue's own trailers. Raises GitFailed.
        """
        entry = look.entry(name)
        if entry is None or look.board is None or not self.contains(look, entry.stand.landed_as):
            return False
        landed = CommitId(entry.stand.landed_as)
        if self._is_ancestor(landed, CommitId(before)):
            return False
        ours = read_trailers(self.mirror.git, landed)
        trailers = (ours.get("Forgepool-Run"), ours.get("Forgepool-Task"))
        return self._is_ancestor(commit, landed) or trailers == (look.board.gate, entry_name(name))

    def _is_ancestor(self, commit: str, tip: CommitId) -> bool:
        return is_ancestor(self.mirror.git, CommitId(commit), tip, missing_is_no=True)

    def _submission_ref(self, look: HubLook, name: str) -> str | None:
        """Return the ref of a submission under the name that no queue has picked up yet."""
        prefix = submission_ref(self.target, "")
        mine = (ref for ref in look.submitted if entry_name(ref.removeprefix(prefix)) == entry_name(name))
        return next(mine, None)

    def _delete_submission(self, name: str, ref: str, look: HubLook) -> RequestReply:
        gone = self.mirror.push([RefUpdate(ref=ref, new=None, expected=look.submitted[ref])])
        if not isinstance(gone, Pushed):
            raise CannotRun(f"'{name}' cannot be withdrawn: {gone}; try again")
        return RequestReply(done=True, said=f"{name}: withdrawn before a queue picked it up")

    def _push(self, request: PersonRequest) -> str:
        said = HubRequest.model_validate(request.model_dump(include={"do", "task", "text", "by", "candidate"}))
        blob = CommitId(self.mirror.git.text("hash-object", "-w", "--stdin", stdin=said.encode().encode()))
        ref = submission_ref(self.target, f"request-{uuid.uuid4().hex}")
        pushed = self.mirror.push([RefUpdate(ref=ref, new=blob, expected=None)])
        if not isinstance(pushed, Pushed):
            hub = without_password(self.mirror.hub)
            raise CannotRun(f"{hub} rejects {ref}: {pushed}; get permission to push there, or try again")
        return ref

    def _await_reply(self, ref: str, until: float) -> RequestReply | None:
        """Wait for the answer on the board. Raises CannotRun where the queue could not read the request."""
        name = ref.rsplit("/", 1)[-1]
        while time.monotonic() < until:
            board = self.look().board
            if board is not None and name in board.answers:
                return board.answers[name]
            why = (
                next((refusal.why for refusal in board.refused if refusal.name == name), None)
                if board is not None
                else None
            )
            if why is not None:
                raise CannotRun(f"the queue of {self.target} rejects the request: {why}")
            time.sleep(_LOOK_S)
        return None

    def _note_sign(self, ref: str, at: CommitId | None) -> None:
        if at is None:
            self._signs, self._heard = {}, None
        elif at not in self._signs:
            self._heard = time.monotonic() if self._signs else None
            self._signs = {at: self._read(GateSign, ref, at)}

    def _note_board(self, ref: str, at: CommitId | None) -> None:
        if at is None:
            self._boards = {}
        elif at not in self._boards:
            self._boards = {at: self._read(Board, ref, at)}

    def _silence(self, board: Board | None, now: float) -> str:
        sign = next(iter(self._signs.values()), None)
        if sign is None:
            return f"no queue is serving {self.target} now"
        if self._heard is not None:
            silent_s = time.monotonic() - self._heard
        elif board is None:
            # An earlier version: no board, and beats that tell no time.
            return ""
        else:
            silent_s = _seconds_silent(sign.beat, board.at, now)
        if silent_s <= HEARD_S:
            return ""
        heard = time.strftime("%Y-%m-%d %H:%M", time.localtime(now - silent_s))
        if silent_s <= GONE_S:
            return f"the queue of {self.target} was last heard from at {heard}"
        return f"no queue is serving {self.target} now; one was last heard from at {heard}"

    def _read(self, kind: type[Said], ref: str, at: CommitId) -> Said | None:
        """Read an object of the hub; None if it is too long or of another kind."""
        git = self.mirror.git
        if find_object(git, at) is None:
            self.mirror.bring(ref)
        try:
            facts = find_object(git, at)
            if facts is not None and facts.size > _MOST_BYTES:
                return None
            return kind.model_validate_json(read_blob(git, at))
        except ValidationError:
            return None
        except GitFailed:
            # Not a blob, or the ref has moved and the fetch brought its new object.
            return None


def show_board(queue: HubQueue) -> tuple[Board, str]:
    """
    Return the board, with submissions that no queue has picked up, and a sentence if no queue is active.

    Raises:
        CannotRun: the queue shows no board.
        GitFailed: the hub cannot be asked.
    """
    look = queue.look()
    board = look.board or Board(gate="", target=look.target, tip=look.tip or "", at=time.time())
    known = {entry_name(entry.stand.entry) for entry in board.entries}
    lying = {ref: at for ref, at in look.submitted.items() if entry_of_ref(look.target, ref) not in known}
    line = [entry for entry in board.entries if entry.stand.place is not None]
    ended = [entry for entry in board.entries if entry.stand.place is None]
    entries = (*line, *_waiting_submissions(queue, lying), *ended)
    shown = {"entries": entries, "hub": without_password(queue.mirror.hub)}
    return board.model_copy(update=shown), look.silence


def explain_entry(queue: HubQueue, name: str) -> BoardEntry:
    """
    Return an entry with its explanation. Raises CannotRun if there is none, with the reason if it was not accepted.
    """
    look = queue.look()
    if (entry := look.entry(name)) is not None:
        quiet = f"\n{look.silence[:1].upper()}{look.silence[1:]}." if look.silence else ""
        return entry.model_copy(update={"explained": entry.explained + quiet})
    board, silence = show_board(queue)
    late = (
        f"{silence}, and it will be picked up when one starts"
        if silence
        else "the queue will pick it up at its next look"
    )
    for one in board.entries:
        if entry_name(one.stand.entry) == entry_name(name):
            return one.model_copy(update={"explained": f"'{name}' is submitted: {late}."})
    refused = [refusal for refusal in board.refused if entry_name(refusal.name) == entry_name(name)]
    if refused:
        raise CannotRun(f"'{name}' ({refused[-1].commit[:12]}) was not accepted: {refused[-1].why}")
    latest = ", ".join(one.stand.entry for one in board.entries[:8]) or "none yet"
    raise CannotRun(f"the queue of {queue.target} has no entry '{name}'; the latest are: {latest}")


def _waiting_submissions(queue: HubQueue, lying: Mapping[str, CommitId]) -> Iterator[BoardEntry]:
    """Yield entries for submissions that no queue has picked up yet. Raises GitFailed."""
    shown = dict(list(lying.items())[:_MOST_UNTAKEN])
    if shown:
        queue.mirror.bring(*shown)
    for ref, at in shown.items():
        one = read_submission(queue.mirror.git, queue.target, ref, at)
        if one.request is None:
            stand = EntryStanding(
                entry=one.branch or one.name,
                state="submitted",
                place=None,
                revision=0,
                commit=one.commit,
                by=one.by,
                klass=one.said.get("class", ("normal",))[0],
                since=0.0,
                code="submitted",
                blocked_by="",
                landed_as="",
                why=one.wrong or "no queue has picked it up yet",
                next="",
            )
            yield BoardEntry(stand=stand, explained="")


def _seconds_silent(beat: int, at: float, now: float) -> float:
    """Return seconds since the beat by this clock, which may differ from the queue's by minutes."""
    if now - at > RENEWED_S + GONE_S:
        return now - at
    beats = (int(now // BEAT_S) - beat) % BEATS
    return abs(beats - BEATS if beats > BEATS // 2 else beats) * float(BEAT_S)
