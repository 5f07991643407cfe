"""
The loop of a run whose target a gate keeps: a run's, which also looks at the hub, where its candidates go and what
becomes of them is told.
"""

import time
from dataclasses import dataclass, field

import structlog

from forgepool.orchestrator.decisions.queue.delegation import why_held_up
from forgepool.orchestrator.journal.events import RunPaused
from forgepool.orchestrator.run.delegation.exchange import HubExchange
from forgepool.orchestrator.run.loop import Ending, Loop
from forgepool.worktrees.git.git import GitFailed
from forgepool.worktrees.hub.mirror import MissingCommit

log = structlog.get_logger()

LOOK_S = 1.0
"""Seconds between two looks at the hub."""


@dataclass(slots=True)
class ThroughLoop(Loop):
    """
    A run at work whose candidates land by another's train.

    A method of a slotted dataclass has no `__class__` cell that `super()` could find: what is a `Loop`'s is named.
    """

    exchange: HubExchange = field(init=False)
    _looked: float = float("-inf")

    def __post_init__(self) -> None:
        Loop.__post_init__(self)
        self.exchange = HubExchange(self.mirror, heard=time.monotonic())

    def _turn(self) -> None:
        now = time.monotonic()
        if now >= self._looked + LOOK_S and self.state.in_phase("given"):
            self._looked = now
            try:
                for event in self.exchange.read(self.state, now):
                    self.record([event])
                self.exchange.put(self.course, self.state)
            except (GitFailed, MissingCommit) as trouble:
                log.warning("hub.away", run=self.state.run, why=str(trouble))
        Loop._turn(self)

    def _stopped(self) -> Ending | None:
        """Also where nobody is heard of at the gate, or a person is wanted there, and nothing else is to be done."""
        stopped = Loop._stopped(self)
        if stopped is not None or self.state.outstanding():
            return stopped
        why = why_held_up(self.state, patient=self.exchange.patient(time.monotonic()))
        if not why or not self._nothing_to_wait_for():
            return None
        self.record([RunPaused(why=why)])
        return "halted"
