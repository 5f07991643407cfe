"""What a run looks for in the hub, and puts there, as long as a gate has something of its own."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import structlog
from pydantic import ValidationError

from orchestrator.course import Course
from orchestrator.events import EntryTold, Event, GateNoticed
from orchestrator.state import State
from orchestrator.task_state import TaskState
from orchestrator.through.giving import answer_to, give, read_sign
from orchestrator.through.messages import LAST_WORDS, GateAnswer
from orchestrator.through.standing import unheard
from workers import faults
from workers.refs import sign_ref, submissions_of, told_ref, told_refs
from worktrees.git import CommitId
from worktrees.mirror import Mirror

log = structlog.get_logger()

SILENT_S = 60.0
"""Seconds without a beat of the gate's after which that is said: it has four in that time."""
_BREAK_S = 20.0
PATIENCE_S = 900.0
"""Seconds for which a run with nothing else to do waits for a gate that nobody hears of."""


@dataclass(slots=True)
class Exchange:
    """What this process knows of the hub: lost with it, it is found out again."""

    mirror: Mirror
    heard: float
    """When the gate was heard of last; at first, when this process began to listen. On a clock that only goes on."""
    _sign: CommitId | None = None
    _looked: float = float("-inf")
    _there: Mapping[str, CommitId] = field(default_factory=dict)
    _read: dict[str, CommitId] = field(default_factory=dict)
    """By task, the answer that was read last."""
    _put: set[tuple[str, int, bool]] = field(default_factory=set)
    """What lies in the hub, or has: a task's giving, and whether it is wanted back."""

    def read(self, state: State, now: float) -> list[Event]:
        """
        What the gate says, and whether it does.

        Raises:
            GitFailed, MissingCommit: the hub cannot be asked.
        """
        if now > self._looked + _BREAK_S:
            # Nothing was heard since because nobody listened.
            self.heard = now
        self._looked = now
        target, sign = state.target, sign_ref(state.target)
        branch = f"refs/heads/{target}"
        refs = self._there = self.mirror.hub_refs(branch, sign, told_refs(state.run), submissions_of(target))
        tip = refs.get(branch, CommitId(state.tip))
        answers = [(task, self._heard_of(state, task)) for task in state.in_phase("given")]
        told: list[Event] = [
            EntryTold(task=task.id, answer=answer, tip=tip) for task, answer in answers if answer is not None
        ]
        return [*self._noticed(state, refs.get(sign), now), *told]

    def put(self, course: Course, state: State) -> None:
        """Whatever is given, or wanted back, and not answered; after a `read`. Raises GitFailed, MissingCommit."""
        for task in state.in_phase("given"):
            this = (task.id, task.given, task.recalled)
            over = task.told is not None and task.told.word in LAST_WORDS
            if this not in self._put and not over and give(course, state, self.mirror, task, self._there):
                self._put.add(this)
                faults.reached("entry.given.pushed")

    def patient(self, now: float) -> bool:
        """Whether a gate of which nothing is heard is waited for still."""
        return now < self.heard + PATIENCE_S

    def _noticed(self, state: State, sign: CommitId | None, now: float) -> list[GateNoticed]:
        gate = state.gate
        if sign is not None and sign != self._sign:
            gate = read_sign(self.mirror, state.target, sign).gate
            self._sign, self.heard = sign, now
        away = unheard(state) if now > self.heard + SILENT_S else ""
        if gate == state.gate and bool(away) == bool(state.gate_away):
            return []
        return [GateNoticed(gate=gate, away=away)]

    def _heard_of(self, state: State, task: TaskState) -> GateAnswer | None:
        """What is new."""
        at = self._there.get(told_ref(state.run, task.id, task.given))
        if at is None or self._read.get(task.id) == at:
            return None
        try:
            answer = answer_to(state, self.mirror, task, at)
        except ValidationError as unreadable:
            log.warning("answer.unreadable", run=state.run, task=task.id, why=str(unreadable))
            answer = None
        if answer is None:
            log.warning("answer.refused", run=state.run, task=task.id, at=at)
        self._read[task.id] = at
        return None if answer == task.told else answer
