"""
The loop of a run whose target a gate keeps: a run's, which also looks at the hub, where its candidates go and what
becomes of them is told.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import structlog
from pydantic import ValidationError

from orchestrator.events import EntryTold, GateNoticed, RunPaused
from orchestrator.loop import Ending, Loop
from orchestrator.task_state import TaskState
from orchestrator.through.giving import answer_to, give, read_sign
from orchestrator.through.messages import LAST_WORDS
from orchestrator.through.standing import held_up, unheard
from workers import faults
from workers.refs import sign_ref, submissions_of, told_ref, told_refs
from worktrees.git import CommitId, GitFailed
from worktrees.mirror import MissingCommit

log = structlog.get_logger()

LOOK_S = 1.0
"""Seconds between two looks at the hub."""
SILENT_S = 60.0
"""Seconds without a beat of the gate's after which that is said: it has four in that time."""
PATIENCE_S = 900.0
"""Seconds for which a run with nothing else to do waits for a gate that nobody hears of."""


@dataclass(slots=True)
class ThroughLoop(Loop):
    """A run at work whose candidates land by another's train."""

    _looked: float = float("-inf")
    _sign: CommitId | None = None
    _heard: float = field(default_factory=time.monotonic)
    _read: dict[str, CommitId] = field(default_factory=dict)
    """By task, the answer that was read last."""
    _put: set[tuple[str, int, bool]] = field(default_factory=set)
    """What lies in the hub, or has: a task's giving, and whether it is wanted back."""

    def _turn(self) -> None:
        try:
            self._look_at_hub()
        except (GitFailed, MissingCommit) as trouble:
            log.warning("hub.away", run=self.state.run, why=str(trouble))
        # A method of a slotted dataclass has no `__class__` cell that `super()` could find.
        Loop._turn(self)

    def _look_at_hub(self) -> None:
        now = time.monotonic()
        given = self.state.in_phase("given")
        if now < self._looked + LOOK_S or not given:
            return
        self._looked = now
        target, sign = self.state.target, sign_ref(self.state.target)
        branch = f"refs/heads/{target}"
        refs = self.mirror.hub_refs(branch, sign, told_refs(self.state.run), submissions_of(target))
        self._watch_gate(refs.get(sign), now)
        for task in given:
            self._hear(task, refs, refs.get(branch, CommitId(self.state.tip)))
        for task in self.state.in_phase("given"):
            self._give(task, refs)

    def _watch_gate(self, sign: CommitId | None, now: float) -> None:
        gate = self.state.gate
        if sign is not None and sign != self._sign:
            self._sign, self._heard = sign, now
            gate = read_sign(self.mirror, self.state.target, sign).gate
        away = unheard(self.state) if now > self._heard + SILENT_S else ""
        if gate != self.state.gate or bool(away) != bool(self.state.gate_away):
            self.record([GateNoticed(gate=gate, away=away)])

    def _hear(self, task: TaskState, refs: Mapping[str, CommitId], tip: CommitId) -> None:
        at = refs.get(told_ref(self.state.run, task.id, task.given))
        if at is None or self._read.get(task.id) == at:
            return
        try:
            answer = answer_to(self.state, self.mirror, task, at)
        except ValidationError as unreadable:
            log.warning("answer.unreadable", run=self.state.run, task=task.id, why=str(unreadable))
            answer = None
        if answer is None:
            log.warning("answer.refused", run=self.state.run, task=task.id, at=at)
        elif answer != task.told:
            self.record([EntryTold(task=task.id, answer=answer, tip=tip)])
        self._read[task.id] = at

    def _give(self, task: TaskState, refs: Mapping[str, CommitId]) -> None:
        this = (task.id, task.given, task.recalled)
        over = task.told is not None and task.told.word in LAST_WORDS
        if this not in self._put and not over and give(self.course, self.state, self.mirror, task, refs):
            self._put.add(this)
            faults.reached("entry.given.pushed")

    def _stopped(self) -> Ending | None:
        stopped = Loop._stopped(self)
        if stopped is not None or self.state.outstanding():
            return stopped
        patient = time.monotonic() < self._heard + PATIENCE_S
        why = held_up(self.state, patient=patient)
        if not why or not self._nothing_to_wait_for():
            return None
        self.record([RunPaused(why=why)])
        return "halted"
