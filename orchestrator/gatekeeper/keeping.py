"""
The gate's loop: a run's, which also looks at the hub, takes in what was submitted, and never ends by itself.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import structlog

from orchestrator.events import EntrySubmitted, Event, LandingAnswered, TipMoved
from orchestrator.gatekeeper.course import GateCourse, gate_course
from orchestrator.gatekeeper.intake import asked, taken_in
from orchestrator.gatekeeper.submissions import Submission, pattern, submitted
from orchestrator.inbox import Request
from orchestrator.loop import Ending, Loop
from orchestrator.requests import granted
from supervisor.messages import Landing
from workers.refs import candidate_ref, marker_ref
from worktrees.git import CommitId, GitFailed
from worktrees.push import Pushed, RefUpdate

log = structlog.get_logger()

LOOK_S = 1.0
"""Seconds between two looks at the hub."""


class CannotTakeIn(Exception):
    """The hub does not keep what was submitted; one sentence."""


@dataclass(slots=True)
class GateLoop(Loop):
    """A gate at work."""

    _looked: float = 0.0
    _swept: set[str] = field(default_factory=set)
    """Landed entries of which the hub keeps nothing any more."""

    def _turn(self) -> None:
        try:
            self._look_at_hub()
        except GitFailed as trouble:
            log.warning("hub.away", run=self.state.run, why=str(trouble))
        # A method of a slotted dataclass has no `__class__` cell that `super()` could find.
        Loop._turn(self)

    def _stopped(self) -> Ending | None:
        """By a person alone: what shuts the gate is waited out."""
        halted, self.state.halted = self.state.halted, ""
        try:
            return Loop._stopped(self)
        finally:
            self.state.halted = halted

    def _granted(self, request: Request) -> list[Event]:
        said = asked(self.state, request)
        return granted(self.course, self.state, request) if said is None else said

    def record(self, events: Sequence[Event]) -> None:
        Loop.record(self, events)
        if any(isinstance(one, EntrySubmitted) for one in events):
            self._meet_entries()

    def _meet_entries(self) -> None:
        assert isinstance(self.course, GateCourse)
        self.course = gate_course(self.course.plan, self.state, self.course.people)

    def _look_at_hub(self) -> None:
        now = time.monotonic()
        if now < self._looked + LOOK_S:
            return
        self._looked = now
        branch = f"refs/heads/{self.state.target}"
        refs = self.mirror.hub_refs(branch, pattern(self.state.target))
        tip = refs.pop(branch, None)
        if tip is not None and tip != self.state.tip and self.state.train.landing is None:
            self.record([TipMoved(tip=tip)])
            self._find_contained(tip)
        if refs and not self.wishes.drain:
            self._take_in(refs)
        self._sweep()

    def _find_contained(self, tip: CommitId) -> None:
        """Somebody else has brought entries along: they have landed, though not by us."""
        self.mirror.ensure(tip, refs=(f"refs/heads/{self.state.target}",))
        for one in list(self.state.train.line.entries):
            task = self.state.tasks[one]
            if task.candidate and self._contains(CommitId(task.candidate)):
                detail = "somebody else has brought it into the target"
                found = Landing(request_id="", token="", outcome="landed", commit=tip, detail=detail)
                self.record([LandingAnswered(task=one, result=found)])

    def _contains(self, commit: CommitId) -> bool:
        git = self.mirror.git
        return git.run("merge-base", "--is-ancestor", commit, self.state.tip, ok=(0, 1, 128)).status == 0

    def _take_in(self, refs: dict[str, CommitId]) -> None:
        """A submission's own ref goes last: whatever dies before that, it is still there to be taken in."""
        self.mirror.ensure(CommitId(self.state.tip), refs=(f"refs/heads/{self.state.target}",))
        for one in submitted(self.mirror, self.state.target, refs):
            contained = not one.wrong and self._contains(one.commit)
            for event in taken_in(self.state, one, contained=contained):
                if isinstance(event, EntrySubmitted):
                    self._pin(event)
                self.record([event])
            self._drop(one)

    def _pin(self, event: EntrySubmitted) -> None:
        """Below the gate's own refs, where nobody moves it; again does nothing."""
        ref = candidate_ref(self.state.run, event.task, event.revision)
        self.mirror.push([RefUpdate(ref=ref, new=CommitId(event.commit), expected=None)])
        kept = self.mirror.hub_refs(ref).get(ref)
        if kept != event.commit:
            raise GitFailed(("push", ref), 1, f"{ref} is at {kept}, not at the {event.commit} that was submitted")

    def _drop(self, one: Submission) -> None:
        """Unless it was pushed anew meanwhile: then the new one is taken in next time."""
        self.mirror.push([RefUpdate(ref=one.ref, new=None, expected=one.at)])

    def _sweep(self) -> None:
        """What has landed is in the target's history, and in the journal: its refs are needed no more."""
        gone = [task for task in self.state.in_phase("landed") if task.id not in self._swept]
        if not gone:
            return
        names = [candidate_ref(self.state.run, task.id, n) for task in gone for n in range(1, task.attempt + 1)]
        names += [marker_ref(self.state.run, task.id) for task in gone]
        there = self.mirror.hub_refs(*names)
        if there:
            said = self.mirror.push([RefUpdate(ref=ref, new=None, expected=at) for ref, at in there.items()])
            if not isinstance(said, Pushed):
                log.warning("refs.kept", run=self.state.run, why=str(said))
        self._swept.update(task.id for task in gone)
