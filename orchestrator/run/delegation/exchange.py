"""What a run looks for in the hub, and puts there, as long as a gate has something of its own."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import structlog

from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.decisions.queue.delegation import unheard
from forgepool.orchestrator.journal.events import EntryTold, Event, GateNoticed
from forgepool.orchestrator.journal.queue_events import LAST_WORDS, GateAnswer
from forgepool.orchestrator.run.delegation.submit import UnreadableRef, answer_to, entry_ref, give, read_sign
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import TaskState
from forgepool.workers.queue import crash_points
from forgepool.workers.workspace.refs import reply_ref, reply_refs, sign_ref, submissions_of
from forgepool.worktrees.git.git import CommitId, GitFailed
from forgepool.worktrees.hub.mirror import Mirror, MissingCommit

log = structlog.get_logger()

SILENT_S = 60.0
"""Seconds without a beat of the gate's after which that is said: it has four in that time."""
_BREAK_S = 20.0
DOUBT_S = 60.0
"""
Seconds after which what was put, and lies there no more, and has no answer, is put again: it may have been lost with
the hub's ref alone. Twice as many after that, and so on; a gate that has it knows it by its number.
"""
_MOST_DOUBT_S = 960.0
PATIENCE_S = 900.0
"""Seconds for which a run with nothing else to do waits for a gate that nobody hears of."""


@dataclass(slots=True)
class HubExchange:
    """What this process knows of the hub: lost with it, it is found out again."""

    mirror: Mirror
    heard: float
    """When the gate was heard of last; at first, when this process began to listen. On a clock that only goes on."""
    _sign: CommitId | None = None
    _looked: float = float("-inf")
    _there: Mapping[str, CommitId] = field(default_factory=dict)
    _read: dict[str, CommitId] = field(default_factory=dict)
    """By task, the answer that was read last, and recorded."""
    _doubted: dict[str, tuple[CommitId, str]] = field(default_factory=dict)
    """By task, an answer that was not believed, and the target's tip then: by another it may be borne out."""
    _put: dict[tuple[str, int, bool], tuple[float, float]] = field(default_factory=dict)
    """What lies in the hub, or has: a task's giving, and whether it is wanted back. When it is put again, and after how
    many seconds more."""

    def read(self, state: RunState, now: float) -> Iterator[Event]:
        """
        What the gate says, and whether it does. Whoever takes the next event has recorded the one before: what was not
        recorded is read again.

        Raises:
            GitFailed, MissingCommit: the hub cannot be asked.
        """
        if now > self._looked + _BREAK_S:
            # Nothing was heard since because nobody listened.
            self.heard = now
        self._looked = now
        target, sign = state.target, sign_ref(state.target)
        branch = f"refs/heads/{target}"
        refs = self._there = self.mirror.hub_refs(branch, sign, reply_refs(state.run), submissions_of(target))
        tip = refs.get(branch, CommitId(state.tip))
        for task in state.in_phase("given"):
            at = refs.get(reply_ref(state.run, task.id, task.given))
            if at is None or self._read.get(task.id) == at or self._doubted.get(task.id) == (at, tip):
                continue
            answer = self._heard_of(state, task, at, tip)
            if answer is not None:
                if answer != task.told:
                    yield EntryTold(task=task.id, answer=answer, tip=tip)
                self._read[task.id] = at
        yield from self._noticed(state, refs.get(sign), now)

    def put(self, course: PlanIndex, state: RunState) -> None:
        """Whatever is given, or wanted back, and not answered; after a `read`. Raises GitFailed, MissingCommit."""
        for task in state.in_phase("given"):
            over = task.told is not None and task.told.word in LAST_WORDS
            if not over and self._is_due(state, task) and give(course, state, self.mirror, task, self._there):
                this = (task.id, task.given, task.recalled)
                _, wait = self._put.get(this, (0.0, DOUBT_S))
                self._put[this] = (self._looked + wait, min(2 * wait, _MOST_DOUBT_S))
                crash_points.crash_here("entry.given.pushed")

    def _is_due(self, state: RunState, task: TaskState) -> bool:
        """Whether it was not put yet, or nobody knows what has become of it."""
        put = self._put.get((task.id, task.given, task.recalled))
        unknown = task.told is None or task.recalled
        lies = entry_ref(state, task) in self._there
        return put is None or (unknown and not lies and self._looked >= put[0])

    def patient(self, now: float) -> bool:
        """Whether a gate of which nothing is heard is waited for still."""
        return now < self.heard + PATIENCE_S

    def _noticed(self, state: RunState, sign: CommitId | None, now: float) -> list[GateNoticed]:
        gate = state.gate
        if sign is not None and sign != self._sign:
            self._sign = sign
            try:
                gate = read_sign(self.mirror, state.target, sign).gate
                self.heard = now
            except UnreadableRef:
                log.warning("sign.unreadable", run=state.run, at=sign)
            except GitFailed as trouble:
                self._sign = None
                log.warning("sign.away", run=state.run, why=str(trouble))
        away = unheard(state) if now > self.heard + SILENT_S else ""
        if gate == state.gate and bool(away) == bool(state.gate_away):
            return []
        return [GateNoticed(gate=gate, away=away)]

    def _heard_of(self, state: RunState, task: TaskState, at: CommitId, tip: str) -> GateAnswer | None:
        """None where it is not to be believed, or cannot be had, until it is asked for again."""
        try:
            answer = answer_to(state, self.mirror, task, at)
        except UnreadableRef:
            answer = None
        except (GitFailed, MissingCommit) as trouble:
            log.warning("answer.away", run=state.run, task=task.id, why=str(trouble))
            return None
        if answer is None:
            before, _ = self._doubted.get(task.id, ("", ""))
            self._doubted[task.id] = (at, tip)
            if before != at:
                log.warning("answer.refused", run=state.run, task=task.id, at=at)
        return answer
