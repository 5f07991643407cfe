"""
The gate's loop: a run's, which also looks at the hub, takes in what was submitted, and never ends by itself.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import structlog

from forgepool.orchestrator.decisions.decide import decide
from forgepool.orchestrator.decisions.plan_index import GateCourse
from forgepool.orchestrator.decisions.queue.intake import apply_request, nothing_to_do, take_in
from forgepool.orchestrator.decisions.queue.submissions import (
    Submission,
    entry_of_ref,
    in_order,
    pattern,
    read_submissions,
)
from forgepool.orchestrator.decisions.requests import grant_request
from forgepool.orchestrator.journal.events import (
    CheckSent,
    EntrySubmitted,
    Event,
    GateFrozen,
    GateThawed,
    LandingAnswered,
    TipMoved,
)
from forgepool.orchestrator.journal.inbox import PersonRequest
from forgepool.orchestrator.merge_queue.serve.hub_refs import (
    Notices,
    forgettable,
    pin,
    pin_again,
    pin_missing,
    pins_of,
    remove,
)
from forgepool.orchestrator.merge_queue.serve.multi import SharedSlots
from forgepool.orchestrator.reports.queue_board import RequestReply, gate_sentence
from forgepool.orchestrator.run.loop import Ending, Loop
from forgepool.orchestrator.state.run import with_branches
from forgepool.orchestrator.state.task import IllegalStep
from forgepool.supervisor.gate.affected_checks import MOST_PATHS
from forgepool.supervisor.messages import Landing
from forgepool.workers.workspace.refs import overlay_ref, run_refs
from forgepool.worktrees.commits.changes import changes, list_touched_paths
from forgepool.worktrees.git.git import CommitId, GitFailed
from forgepool.worktrees.hub.mirror import MissingCommit
from forgepool.worktrees.hub.push import RefUpdate

log = structlog.get_logger()

LOOK_S = 1.0
"""Seconds between two looks at the hub."""
MADE_KEPT_S = 3 * 24 * 3600.0
"""How long what a command has made is kept for those in line; what is green for longer is tested again."""
_MOST_TAKEN_IN = 25
"""Submissions at one look: each costs some processes, and answers wait meanwhile."""


@dataclass(slots=True)
class GateLoop(Loop):
    """A gate at work."""

    notices: Notices = field(default_factory=lambda: Notices(host=""))
    _looked: float = 0.0
    _searched: str = ""
    """The tip in whose history nobody was found who stands in line."""
    _put_off: set[str] = field(default_factory=set)
    """Submissions' refs that come after the others: what they need lies in the hub and was not taken in yet."""
    _swept: set[str] | None = None
    """Entries of which the hub keeps nothing any more; None until it was looked for pins that are missing."""
    _made: dict[str, float] = field(default_factory=dict)
    """When refs of what commands have made were first seen here."""
    _bare: bool = False
    """Nobody stands in line, and what was made for those who did is gone."""
    _frozen: float | None = None
    """When the freeze ends of which was told last."""
    places: SharedSlots | None = None
    """Shared with other gates of this process; None where it has all to itself."""

    def leave(self) -> None:
        """Somebody else may keep it now; whoever has given it something is told first, and that nobody keeps it."""
        try:
            self.record(self.notices.answer(self.mirror, self.state))
            self.notices.show(self.mirror, self.state)
        except GitFailed as trouble:
            log.warning("hub.away", run=self.state.run, why=str(trouble))
        finally:
            self.notices.leave(self.mirror, self.state)
            if self.places is not None:
                self.places.leave(self.state.run)
            self.journal.close()

    def _turn(self) -> None:
        if self.places is not None:
            # Should this turn not come so far as to say anew what is wanted, nobody is to wait for it.
            self.places.want(self.state.run, 0)
        self._tell_of_freezes()
        self._look()
        # A method of a slotted dataclass has no `__class__` cell that `super()` could find.
        Loop._turn(self)

    def _look(self) -> None:
        try:
            self._look_at_hub()
        except (GitFailed, MissingCommit) as trouble:
            log.warning("hub.away", run=self.state.run, why=str(trouble))

    def _tell_of_freezes(self) -> None:
        until = self.state.rules.frozen_until(self.clock())
        if until != self._frozen:
            frozen = GateThawed() if until is None else GateFrozen(until=until, clock=self.state.rules.clock(until))
            self.record([frozen])
            self._frozen = until

    def _stopped(self) -> Ending | None:
        """By a person alone: what shuts the gate is waited out."""
        halted, self.state.halted = self.state.halted, ""
        try:
            return Loop._stopped(self)
        finally:
            self.state.halted = halted

    def _check_slots(self) -> int:
        total = Loop._check_slots(self)
        return total if self.places is None else self.places.of(self.state.run, total)

    def _decide(self) -> None:
        if not self._looked:
            self._look()
        Loop._decide(self)
        total = Loop._check_slots(self)
        if self.places is not None and self.places.of(self.state.run, total) < total:
            self.places.want(self.state.run, self._would_start(total))

    def _would_start(self, places: int) -> int:
        """Trials, with so many places."""
        wanted = decide(
            self.course,
            self.state,
            now=self.clock(),
            order_slots=0,
            review_slots=0,
            check_slots=places,
            draining=self.wishes.drain,
        )
        return sum(isinstance(one, CheckSent) for one in wanted)

    def _granted(self, request: PersonRequest) -> list[Event]:
        said = apply_request(self.state, request)
        if said is None:
            return grant_request(self.course, self.state, request)
        run = self.state.run
        return [one for one in said if not isinstance(one, EntrySubmitted) or pin_again(self.mirror, run, one)]

    def record(self, events: Sequence[Event]) -> None:
        Loop.record(self, events)
        if self.places is not None and any(isinstance(one, CheckSent) for one in events):
            self.places.serve(self.state.run)
        if again := {one.task for one in events if isinstance(one, EntrySubmitted)}:
            self._swept = self._swept and self._swept - again
            self._meet_entries()
        if any(isinstance(one, LandingAnswered) for one in events):
            # Others may have come in with it, or instead of it: `_decide` looks before it judges them on the new tip.
            self._looked = 0.0

    def _meet_entries(self) -> None:
        assert isinstance(self.course, GateCourse)
        self.course = replace(self.course, entries=dict(self.state.submitted))

    def _look_at_hub(self) -> None:
        now = time.monotonic()
        if now < self._looked + LOOK_S:
            return
        self._looked = now
        branch = f"refs/heads/{self.state.target}"
        refs = self.mirror.hub_refs(branch, pattern(self.state.target))
        tip = refs.pop(branch, None)
        if tip is not None and self.state.train.landing is None:
            lost = self._lost_at(tip)
            if tip != self.state.tip or lost != self.state.lost:
                self.record([TipMoved(tip=tip, lost=tuple(sorted(lost)))])
            if tip != self._searched:
                self._find_contained(tip)
        if refs and not self.wishes.drain:
            self._take_in(refs)
        self._sweep()
        self.record(self.notices.answer(self.mirror, self.state))
        self.notices.stand(self.mirror, self.state)
        self.notices.show(self.mirror, self.state)

    def _find_contained(self, tip: CommitId) -> None:
        """Who has got into the target with what somebody else has brought: they have landed, though not by us."""
        self.mirror.ensure(tip, refs=(f"refs/heads/{self.state.target}",))
        standing = {one: CommitId(self.state.tasks[one].candidate) for one in self.state.train.line.entries}
        ahead = self._ahead_of(tip, [commit for commit in standing.values() if commit])
        for one, commit in standing.items():
            if commit and commit not in ahead:
                detail = "somebody else has brought it into the target"
                found = Landing(request_id="", token="", outcome="landed", commit=tip, detail=detail)
                self.record([LandingAnswered(task=one, result=found)])
        self._searched = tip

    def _lost_at(self, tip: CommitId) -> frozenset[str]:
        """Whoever has landed, and is not in the history of this tip: somebody has taken the target back."""
        if tip == self._searched == self.state.tip:
            return self.state.lost
        self.mirror.ensure(tip, refs=(f"refs/heads/{self.state.target}",))
        if self._searched and not self.state.lost and self._contains_at(tip, CommitId(self.state.tip)):
            return frozenset()
        landed = {one.id: CommitId(one.commit) for one in self.state.in_phase("landed") if one.commit}
        ahead = self._ahead_of(tip, [*landed.values()])
        return frozenset(one for one, commit in landed.items() if commit in ahead)

    def _ahead_of(self, tip: CommitId, commits: Sequence[CommitId]) -> set[str]:
        """Those of the commits that are not in the history of the tip, be it that they are not here at all."""
        missing = set(self.mirror.missing(*commits))
        here = [one for one in commits if one not in missing]
        words = "".join(f"{one}\n" for one in (*here, f"^{tip}"))
        return missing | (
            set(self.mirror.git.text("rev-list", "--stdin", stdin=words.encode()).split()) if here else set()
        )

    def _contains(self, commit: CommitId) -> bool:
        return self._contains_at(CommitId(self.state.tip), commit)

    def _contains_at(self, tip: CommitId, commit: CommitId) -> bool:
        return self.mirror.git.run("merge-base", "--is-ancestor", commit, tip, ok=(0, 1, 128)).status == 0

    def _take_in(self, refs: Mapping[str, CommitId]) -> None:
        """A submission's own ref goes last: whatever dies before that, it is still there to be taken in."""
        self.mirror.ensure(CommitId(self.state.tip), refs=(f"refs/heads/{self.state.target}",))
        able = [ref for ref in refs if not self._is_landing(entry_of_ref(self.state.target, ref))]
        able.sort(key=lambda ref: (ref in self._put_off, ref))
        chosen = {ref: refs[ref] for ref in able[:_MOST_TAKEN_IN]}
        lying = {entry_of_ref(self.state.target, ref) for ref in refs if ref not in chosen}
        self._put_off.clear()
        found, heard = read_submissions(self.mirror, self.state.target, chosen), list[Submission]()
        for one in in_order([one for one in found if one.request is None]):
            if lying.intersection(one.said.get("needs", ())):
                self._put_off.add(one.ref)
                continue
            contained = not one.wrong and self._contains(one.commit)
            for event in take_in(self.state, one, contained=contained):
                if isinstance(event, EntrySubmitted):
                    event = event.model_copy(update={"paths": self._paths(one.commit)})
                    pin(self.mirror, self.state.run, event)
                self.record([event])
            heard.append(one)
        lying.update(entry_of_ref(self.state.target, ref) for ref in self._put_off)
        for one in found:
            # A request about a submission that is not taken in yet waits for it.
            if one.request is not None and one.request.task not in lying:
                self._hear(one, one.request)
                heard.append(one)
        # A submitter who sees the ref go finds the outcome on the board.
        self.notices.show(self.mirror, self.state, at_once=True)
        for one in heard:
            self._drop(one)

    def _hear(self, one: Submission, request: PersonRequest) -> None:
        """Carry out a request that lay in the hub, and put its outcome on the board."""
        was_possible = bool(apply_request(self.state, request))
        events = self._granted(request) if was_possible else []
        lines = [nothing_to_do(self.state, request)]
        if was_possible and not events:
            lines = [f"the hub no longer has the commit of '{request.task}'; submit it again"]
        try:
            self.record(events)
        except IllegalStep as refused:
            lines, events = [f"it cannot be done now: {refused}"], []
        lines = [gate_sentence(event, self.state) or "" for event in events] or lines
        said = with_branches(self.state, "; ".join(lines))
        self.notices.reply(one.ref.rsplit("/", 1)[-1], RequestReply(done=bool(events), said=said))

    def _paths(self, commit: CommitId) -> tuple[str, ...]:
        """What it changes of what it was made on; none where it shares no history with the target, or in huge ones."""
        git = self.mirror.git
        made_on = git.run("merge-base", self.state.tip, commit, ok=(0, 1)).stdout.decode().strip()
        found = list_touched_paths(changes(git, CommitId(made_on), commit)) if made_on else ()
        return found if len(found) <= MOST_PATHS and all(map(_is_text, found)) else ()

    def _is_landing(self, name: str) -> bool:
        """What is submitted under the name waits, for it may be too late for it or not."""
        task = self.state.tasks.get(name)
        return task is not None and (task.phase == "landing" or task.landing_in_doubt)

    def _drop(self, one: Submission) -> None:
        """Unless it was pushed anew meanwhile: then the new one is taken in next time."""
        self.mirror.push([RefUpdate(ref=one.ref, new=None, expected=one.at)])

    def _sweep(self) -> None:
        if self._swept is None:
            pin_missing(self.mirror, self.state)
            self._swept = set()
        gone = forgettable(self.state, self.clock()) - self._swept
        self._bare = self._bare and not self.state.train.line.entries
        if not gone and (self._bare or self.state.train.line.entries):
            return
        there = self.mirror.hub_refs(run_refs(self.state.run))
        remove(self.mirror, there, [*pins_of(self.state.run, there, gone), *self._needless(there)])
        self._swept |= gone

    def _needless(self, there: Mapping[str, CommitId]) -> list[str]:
        """What commands have made of trees that nobody can come to land any more, or not for long now."""
        made = [ref for ref in there if ref.startswith(overlay_ref(self.state.run, ""))]
        if not self.state.train.line.entries:
            self._bare = True
            return made
        now = time.monotonic()
        self._made = {ref: self._made.get(ref, now) for ref in made}
        return [ref for ref, seen in self._made.items() if now - seen > MADE_KEPT_S]


def _is_text(path: str) -> bool:
    """Git keeps any bytes as a name; a journal keeps text."""
    return not any("\ud800" <= character <= "\udfff" for character in path)
