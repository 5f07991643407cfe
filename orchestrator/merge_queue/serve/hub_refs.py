"""
The refs that a queue keeps in its hub: its sign, its board, its replies to runs, and a pin for each entry's commit.

A queued entry is tested and landed from its pin. A returned or withdrawn one may be retried, so the pins of the last
500 are kept, for at most 30 days.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import structlog

from forgepool.orchestrator.decisions.queue.delegation import due_answers
from forgepool.orchestrator.journal.events import EntryAnswered, EntrySubmitted
from forgepool.orchestrator.journal.queue_events import Asks, GateAnswer, GateSign, Word
from forgepool.orchestrator.reports.queue_board import BEAT_S, BEATS, RENEWED_S, Board, RequestReply, public_board
from forgepool.orchestrator.run.delegation import UnreadableRef, read_sign
from forgepool.orchestrator.state.run import RunState
from forgepool.workers.workspace.refs import (
    board_ref,
    candidate_ref,
    marker_ref,
    orders_of,
    reply_ref,
    run_refs,
    sign_ref,
)
from forgepool.worktrees.git.git import CommitId, GitFailed
from forgepool.worktrees.hub.mirror import Mirror, MissingCommit
from forgepool.worktrees.hub.push import Pushed, RefUpdate

log = structlog.get_logger()

_LOOKS_S = 30.0
"""Seconds after which times on the board may be out of date."""
_MOST_REPLIES = 50
"""Requests whose outcome the board shows."""

Due = tuple[str, int, Word]
"""An entry, the number of its delegation, and the reply."""

KEPT_DAYS = 30
MOST_KEPT = 500
_MOST_SWEPT = 500
"""Refs deleted by one push; each costs two arguments of its command line."""


@dataclass(slots=True)
class Notices:
    """The sign, the board and the replies that a queue has published in the hub."""

    host: str
    trials: int = 1
    pause_s: float = 2.0
    """Least seconds between two boards."""
    clock: Callable[[], float] = time.time
    most: int = 25
    """Replies at one look: each costs some processes."""
    requests: dict[str, RequestReply] = field(default_factory=dict)
    """Outcomes of the latest requests, by the last part of their ref."""
    _there: dict[str, CommitId] = field(default_factory=dict)
    """The object this queue last put at each ref."""
    _beaten: int | None = None
    """The beat last published."""
    _board: Board | None = None
    """The board last published."""
    _boarded: float = float("-inf")
    _seen: tuple[int, str, int] | None = None
    """Event number, request and clock when the board was last considered."""
    _untold: dict[Due, None] = field(default_factory=dict)
    """Replies that the hub did not take, oldest first; they are retried after all others."""

    def stand(self, mirror: Mirror, state: RunState) -> None:
        """Publish the sign with its next beat, when that is due. Raises GitFailed."""
        beat = int(self.clock() // BEAT_S) % BEATS
        if beat == self._beaten:
            return
        sign = _blob(mirror, GateSign(gate=state.run, host=self.host, beat=beat).encode())
        if self._put(mirror, sign_ref(state.target), sign):
            self._beaten = beat

    def show(self, mirror: Mirror, state: RunState, *, at_once: bool = False) -> None:
        """Publish the board if something on it has changed. Raises GitFailed."""
        now, began = self.clock(), time.monotonic()
        seen = (state.number, next(reversed(self.requests), ""), int(now // _LOOKS_S))
        if seen == self._seen or (began < self._boarded + self.pause_s and not at_once):
            return
        board = public_board(state, now, self.trials, self.requests)
        is_news = self._board is None or board.model_copy(update={"at": self._board.at}) != self._board
        if is_news or (self._board is not None and now > self._board.at + RENEWED_S):
            if not self._put(mirror, board_ref(state.target), _blob(mirror, board.model_dump_json())):
                return
            self._board, self._boarded = board, began
        self._seen = seen

    def reply(self, request: str, said: RequestReply) -> None:
        """Record the outcome of a request for the board."""
        self.requests.pop(request, None)
        self.requests[request] = said
        while len(self.requests) > _MOST_REPLIES:
            del self.requests[next(iter(self.requests))]

    def answer(self, mirror: Mirror, state: RunState) -> list[EntryAnswered]:
        """
        Publish due replies; return those that the hub took, to be journaled. Repeating one is harmless. Raises
        GitFailed.
        """
        due = {(said.entry, said.number, said.word): (asks, said) for asks, said in due_answers(state)}
        again = [one for one in self._untold if one in due]
        turns = [*(one for one in due if one not in self._untold), *again]
        self._untold = dict.fromkeys(again)
        done: list[EntryAnswered] = []
        for one in turns[: self.most]:
            self._untold.pop(one, None)
            self._untold[one] = None
            try:
                told = _told(mirror, *due[one])
            except GitFailed:
                if not done:
                    raise
                break
            if told:
                del self._untold[one]
                done.append(EntryAnswered(name=one[0], number=one[1], word=one[2]))
        return done

    def _put(self, mirror: Mirror, ref: str, new: CommitId) -> bool:
        """Set a ref, whatever it holds; the hub is asked for its value unless this queue set it."""
        before = self._there.pop(ref, None) or mirror.hub_refs(ref).get(ref)
        put = _put_from(mirror, ref, new, before)
        if put:
            self._there[ref] = new
        return put

    def leave(self, mirror: Mirror, state: RunState) -> None:
        """Remove the sign if it is this queue's own."""
        ref = sign_ref(state.target)
        try:
            at = mirror.hub_refs(ref).get(ref)
            sign = read_sign(mirror, state.target, at) if at is not None else None
            if sign is not None and (sign.gate, sign.host) == (state.run, self.host):
                mirror.push([RefUpdate(ref=ref, new=None, expected=at)])
        except (GitFailed, UnreadableRef) as trouble:
            log.warning("sign.kept", run=state.run, why=str(trouble))


def _told(mirror: Mirror, asks: Asks, said: GateAnswer) -> bool:
    """Publish a reply. A run without candidates in the hub has ended; its reply counts as published."""
    ref, work = reply_ref(asks.run, asks.task, asks.number), orders_of(asks.run, asks.task)
    there = mirror.hub_refs(ref, work)
    return not there or _put_from(mirror, ref, _blob(mirror, said.encode()), there.get(ref))


def _put_from(mirror: Mirror, ref: str, new: CommitId, before: CommitId | None) -> bool:
    if before == new:
        return True
    put = mirror.push([RefUpdate(ref=ref, new=new, expected=before)])
    if not isinstance(put, Pushed):
        log.warning("notice.refused", ref=ref, why=str(put))
    return isinstance(put, Pushed)


def _blob(mirror: Mirror, text: str) -> CommitId:
    return CommitId(mirror.git.text("hash-object", "-w", "--stdin", stdin=text.encode()))


def forgettable(state: RunState, now: float) -> set[str]:
    """Return the entries whose pins can go: landed ones, and returned ones that are too old or too many."""
    ended = sorted(state.in_phase("failed", "blocked", "cancelled"), key=lambda task: -task.ended)
    old = {task.id for task in ended if task.ended < now - KEPT_DAYS * 24 * 3600}
    return old | {task.id for task in ended[MOST_KEPT:]} | {task.id for task in state.in_phase("landed")}


def pin(mirror: Mirror, run: str, event: EntrySubmitted) -> None:
    """
    Pin an entry's commit below the queue's own refs. Repeating it does nothing.

    A different commit there comes from a journal that was lost and replaced by an older one; it is overwritten.

    Raises:
        GitFailed: the pin could not be set.
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
    """Pin the same commit as a new revision; False if the hub has lost it."""
    earlier = candidate_ref(run, event.task, event.revision - 1)
    try:
        mirror.ensure(CommitId(event.commit), refs=(earlier,))
    except MissingCommit as gone:
        log.warning("entry.gone", run=run, entry=event.task, why=str(gone))
        return False
    pin(mirror, run, event)
    return True


def pin_missing(mirror: Mirror, state: RunState) -> None:
    """Pin entries whose retry was journaled while no queue was running."""
    there = mirror.hub_refs(run_refs(state.run))
    for event in [state.submitted[entry] for entry in state.train.line.entries]:
        if candidate_ref(state.run, event.task, event.revision) not in there:
            pin_again(mirror, state.run, event)


def pins_of(run: str, there: Collection[str], entries: Collection[str]) -> list[str]:
    """Return those of the hub's refs that belong to these entries, markers included."""
    markers = {marker_ref(run, entry) for entry in entries}
    return [ref for ref in there if ref in markers or _entry_of(ref) in entries]


def remove(mirror: Mirror, there: Mapping[str, CommitId], refs: Sequence[str]) -> None:
    """Delete refs if the hub allows it; `there` gives their current objects."""
    for start in range(0, len(refs), _MOST_SWEPT):
        part = [RefUpdate(ref=ref, new=None, expected=there[ref]) for ref in refs[start : start + _MOST_SWEPT]]
        said = mirror.push(part)
        if not isinstance(said, Pushed):
            log.warning("refs.kept", hub=mirror.hub, why=str(said))


def _entry_of(ref: str) -> str:
    """Return the entry of a pin: `refs/forgepool/<run>/orders/<entry>/<revision>`."""
    words = ref.split("/")
    return words[4] if len(words) == 6 and words[3] == "orders" else ""
