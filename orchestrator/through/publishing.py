"""A gate in the hub: the sign that it stands, and its answers to the runs that gave it something."""

import time
from dataclasses import dataclass, field

import structlog

from orchestrator.events import EntryAnswered
from orchestrator.state import State
from orchestrator.through.answers import due_answers
from orchestrator.through.messages import Asks, GateAnswer, GateSign, Word
from workers.messages import Message
from workers.refs import orders_of, sign_ref, told_ref
from worktrees.git import CommitId, GitFailed
from worktrees.mirror import Mirror
from worktrees.push import Pushed, RefUpdate

log = structlog.get_logger()

BEAT_S = 15.0
"""Seconds between two beats."""
_BEATS = 4
"""Beats that differ: each is an object in the hub, and there are to be no more of them."""

Due = tuple[str, int, Word]
"""An entry, the number of its giving, and what is said of it."""


@dataclass(slots=True)
class Notices:
    """What a gate has put up in the hub."""

    host: str
    most: int = 25
    """Answers at one look: each costs some processes."""
    _beat: int = 0
    _beaten: float = float("-inf")
    _untold: dict[Due, None] = field(default_factory=dict)
    """What the hub has not taken, longest ago first: it is tried again after whatever else is due."""

    def stand(self, mirror: Mirror, state: State) -> None:
        """The sign, with its next beat when that is due. Raises GitFailed."""
        now = time.monotonic()
        if now < self._beaten + BEAT_S:
            return
        if _put(mirror, sign_ref(state.target), self._sign(state, self._beat)):
            self._beat, self._beaten = self._beat + 1, now

    def answer(self, mirror: Mirror, state: State) -> list[EntryAnswered]:
        """What was told; journaled afterwards, since telling it again changes nothing. Raises GitFailed."""
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

    def leave(self, mirror: Mirror, state: State) -> None:
        """Takes the sign down, where it is this gate's: nobody keeps the branch any more."""
        ref = sign_ref(state.target)
        try:
            at = mirror.hub_refs(ref).get(ref)
            if at is not None and at in {_blob(mirror, self._sign(state, beat)) for beat in range(_BEATS)}:
                mirror.push([RefUpdate(ref=ref, new=None, expected=at)])
        except GitFailed as trouble:
            log.warning("sign.kept", run=state.run, why=str(trouble))

    def _sign(self, state: State, beat: int) -> GateSign:
        return GateSign(gate=state.run, host=self.host, beat=beat % _BEATS)


def _told(mirror: Mirror, asks: Asks, said: GateAnswer) -> bool:
    """Also where nobody will ask for it: a run whose candidates are gone from the hub has ended."""
    ref, work = told_ref(asks.run, asks.task, asks.number), orders_of(asks.run, asks.task)
    there = mirror.hub_refs(ref, work)
    return not there or _put_from(mirror, ref, said, there.get(ref))


def _put(mirror: Mirror, ref: str, said: Message) -> bool:
    """Whether the hub has it there now, whatever was there before."""
    return _put_from(mirror, ref, said, mirror.hub_refs(ref).get(ref))


def _put_from(mirror: Mirror, ref: str, said: Message, before: CommitId | None) -> bool:
    new = _blob(mirror, said)
    if before == new:
        return True
    put = mirror.push([RefUpdate(ref=ref, new=new, expected=before)])
    if not isinstance(put, Pushed):
        log.warning("notice.refused", ref=ref, why=str(put))
    return isinstance(put, Pushed)


def _blob(mirror: Mirror, said: Message) -> CommitId:
    return CommitId(mirror.git.text("hash-object", "-w", "--stdin", stdin=said.encode().encode()))
