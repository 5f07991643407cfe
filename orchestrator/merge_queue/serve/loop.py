"""The queue's loop: the loop of a run that also reads submissions from the hub, and never ends by itself."""

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
    EntryRefused,
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
from forgepool.supervisor.messages.answers import Landing
from forgepool.workers.workspace.refs import overlay_ref, run_refs, submission_ref
from forgepool.workers.workspace.scans.subject import printable
from forgepool.worktrees.commits.changes import changes, find_impossible_path, list_touched_paths
from forgepool.worktrees.git.git import CommitId, GitFailed
from forgepool.worktrees.git.history import is_ancestor
from forgepool.worktrees.hub.mirror import MissingCommit
from forgepool.worktrees.hub.push import Pushed, RefUpdate

log = structlog.get_logger()

LOOK_S = 1.0
"""Seconds between two looks at the hub."""
MADE_KEPT_S = 3 * 24 * 3600.0
"""Seconds for which files made by set-up commands are kept for queued entries; later they are made again."""
_UNNAMED = "unnamed"
_MOST_TAKEN_IN = 25
"""Submissions accepted at one look: each costs some processes while answers wait."""


@dataclass(slots=True)
class GateLoop(Loop):
    """A queue at work."""

    notices: Notices = field(default_factory=lambda: Notices(host=""))
    _looked: float = 0.0
    _searched: str = ""
    """The tip that was searched for commits of queued entries."""
    _put_off: set[str] = field(default_factory=set)
    """Refs of submissions that wait because an entry they need is not accepted yet."""
    _swept: set[str] | None = None
    """Entries whose pins are gone from the hub; None until missing pins were looked for."""
    _made: dict[str, float] = field(default_factory=dict)
    """Monotonic time when each ref with made files was first seen."""
    _links: frozenset[str] = frozenset()
    """Symbolic refs among the submissions, which are left alone."""
    _bare: bool = False
    """The queue is empty, and the files made for its entries are gone."""
    _frozen: float | None = None
    """End of the freeze that was last journaled."""
    places: SharedSlots | None = None
    """Slots shared with other queues of this process; None where there is one queue."""

    def leave(self) -> None:
        """Close the queue: publish its last replies and board, and remove its sign."""
        try:
            self.keep()
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
            # If this turn fails before it states its wants again, the other queues must not wait for it.
            self.places.want(self.state.run, 0)
        self._journal_freezes()
        self._look()
        # A method of a slotted dataclass has no `__class__` cell that `super()` could find.
        Loop._turn(self)

    def _look(self) -> None:
        try:
            self._look_at_hub()
        except (GitFailed, MissingCommit) as trouble:
            log.warning("hub.away", run=self.state.run, why=str(trouble))

    def _journal_freezes(self) -> None:
        until = self.state.rules.frozen_until(self.clock())
        if until != self._frozen:
            frozen = GateThawed() if until is None else GateFrozen(until=until, clock=self.state.rules.clock(until))
            self.record([frozen])
            self._frozen = until

    def _stopped(self) -> Ending | None:
        """Stop only on a person's word; a pause of the queue itself is waited out."""
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
        """Count the trials it would start with so many slots."""
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
        if again := {event.task for event in events if isinstance(event, EntrySubmitted)}:
            self._swept = self._swept and self._swept - again
            self._refresh_course()
        if any(isinstance(one, LandingAnswered) for one in events):
            # Other commits may have landed too: `_decide` must look at the hub before it judges on the new tip.
            self._looked = 0.0

    def _refresh_course(self) -> None:
        assert isinstance(self.course, GateCourse)
        self.course = replace(self.course, entries=dict(self.state.submitted))

    def _look_at_hub(self) -> None:
        now = time.monotonic()
        if now < self._looked + LOOK_S:
            return
        # Replies and the board tell what is in the state.
        self.keep()
        self._looked = now
        branch = f"refs/heads/{self.state.target}"
        nameless = submission_ref(self.state.target, "").rstrip("/")
        refs = self.mirror.hub_refs(branch, nameless, pattern(self.state.target))
        tip = refs.pop(branch, None)
        refs = self._without_links(refs, nameless)
        if (at := refs.pop(nameless, None)) is not None:
            self._remove_nameless(nameless, at)
        if tip is not None and self.state.train.landing is None:
            lost = self._find_lost(tip)
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

    def _without_links(self, refs: Mapping[str, CommitId], nameless: str) -> dict[str, CommitId]:
        """Leave out symbolic refs: to delete one is to delete the branch that it names."""
        links = self.mirror.hub_links(nameless, pattern(self.state.target)) if refs else frozenset()
        for ref in sorted((links - self._links) & refs.keys()):
            why = f"{ref} is a symbolic ref, which is left alone; remove it in the hub: git symbolic-ref -d {ref}"
            self._refuse(entry_of_ref(self.state.target, ref) if ref != nameless else _UNNAMED, refs[ref], why)
        self._links = links
        return {ref: at for ref, at in refs.items() if ref not in links}

    def _remove_nameless(self, ref: str, at: CommitId) -> None:
        """Remove a submission pushed without a name, beside which git keeps no ref that has one."""
        if not isinstance(self.mirror.push([RefUpdate(ref=ref, new=None, expected=at)]), Pushed):
            keeps = "the hub does not let the queue remove it, and nothing else can be submitted; remove it in the hub"
            self._refuse(_UNNAMED, at, f"it was pushed to {ref}, without a name; {keeps}: git update-ref -d {ref}")
            return
        why = f"it was pushed to {ref}, without a name, and nothing else could be submitted; push to {ref}/NAME"
        self.record([EntryRefused(name=_UNNAMED, commit=at, why=why)])

    def _refuse(self, name: str, at: CommitId, why: str) -> None:
        """Tell once of a ref that stays where it is, and is no submission."""
        known = self.state.refused.get(name)
        if known is None or known.why != why:
            self.record([EntryRefused(name=name, commit=at, why=why)])

    def _find_contained(self, tip: CommitId) -> None:
        """Mark queued entries as landed whose commits the target already contains."""
        self.mirror.ensure(tip, refs=(f"refs/heads/{self.state.target}",))
        standing = {entry: CommitId(self.state.tasks[entry].candidate) for entry in self.state.train.line.entries}
        ahead = self._ahead_of(tip, [commit for commit in standing.values() if commit])
        for one, commit in standing.items():
            if commit and commit not in ahead:
                detail = "the target already contains it"
                found = Landing(request_id="", token="", outcome="landed", commit=tip, detail=detail)
                self.record([LandingAnswered(task=one, result=found)])
        self._searched = tip

    def _find_lost(self, tip: CommitId) -> frozenset[str]:
        """Return landed entries that the history of this tip lacks: the target was rewound."""
        if tip == self._searched == self.state.tip:
            return self.state.lost
        self.mirror.ensure(tip, refs=(f"refs/heads/{self.state.target}",))
        if self._searched and not self.state.lost and self._contains_at(tip, CommitId(self.state.tip)):
            return frozenset()
        landed = {task.id: CommitId(task.commit) for task in self.state.in_phase("landed") if task.commit}
        ahead = self._ahead_of(tip, [*landed.values()])
        return frozenset(one for one, commit in landed.items() if commit in ahead)

    def _ahead_of(self, tip: CommitId, commits: Sequence[CommitId]) -> set[str]:
        """Return the commits that are not in the history of the tip, or not available here."""
        missing = set(self.mirror.missing(*commits))
        here = [commit for commit in commits if commit not in missing]
        words = "".join(f"{one}\n" for one in (*here, f"^{tip}"))
        return missing | (
            set(self.mirror.git.text("rev-list", "--stdin", stdin=words.encode()).split()) if here else set()
        )

    def _contains(self, commit: CommitId) -> bool:
        return self._contains_at(CommitId(self.state.tip), commit)

    def _contains_at(self, tip: CommitId, commit: CommitId) -> bool:
        return is_ancestor(self.mirror.git, commit, tip, missing_is_no=True)

    def _take_in(self, refs: Mapping[str, CommitId]) -> None:
        """Accept submissions. The submitted ref is deleted last, so that a crash before loses nothing."""
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
            one = one if one.wrong else replace(one, wrong=self._why_unusable(one.commit))
            contained = not one.wrong and self._contains(one.commit)
            for event in take_in(self.state, one, contained=contained):
                if isinstance(event, EntrySubmitted):
                    event = event.model_copy(update={"paths": self._paths(one.commit)})
                    pin(self.mirror, self.state.run, event)
                self.record([event])
            heard.append(one)
        lying.update(entry_of_ref(self.state.target, ref) for ref in self._put_off)
        for one in found:
            # A request about a submission that is not accepted yet waits for it.
            if one.request is not None and one.request.task not in lying:
                self._answer_request(one, one.request)
                heard.append(one)
        # A submitter who sees the ref disappear must find the outcome on the board.
        self.notices.show(self.mirror, self.state, at_once=True)
        for one in heard:
            self._delete_ref(one)

    def _answer_request(self, one: Submission, request: PersonRequest) -> None:
        """Carry out a request from the hub, and put its outcome on the board."""
        was_possible = bool(apply_request(self.state, request))
        events = self._granted(request) if was_possible else []
        lines = [nothing_to_do(self.state, request)]
        if was_possible and not events:
            lines = [f"the hub no longer has the commit of '{request.task}'; submit it again"]
        try:
            self.record(events)
        except IllegalStep as refused:
            lines, events = [f"this cannot be done now: {refused}"], []
        lines = [gate_sentence(event, self.state) or "" for event in events] or lines
        said = with_branches(self.state, "; ".join(lines))
        self.notices.reply(one.ref.rsplit("/", 1)[-1], RequestReply(done=bool(events), said=said))

    def _merge_base(self, commit: CommitId) -> CommitId | None:
        found = self.mirror.git.run("merge-base", self.state.tip, commit, ok=(0, 1)).text.partition("\n")[0]
        return CommitId(found) if found else None

    def _why_unusable(self, commit: CommitId) -> str:
        """Return why git could never merge the commit, or check it out; empty where it can."""
        git, made_on = self.mirror.git, self._merge_base(commit)
        if made_on is None:
            return f"it has no commit in common with {self.state.target}; make the change on {self.state.target}"
        odd = find_impossible_path(git, made_on, commit, most=MOST_PATHS)
        return f"its tree has the name '{printable(odd)[:200]}', which no checkout can have" if odd else ""

    def _paths(self, commit: CommitId) -> tuple[str, ...]:
        """Return the paths a commit changes since its merge base; none for unrelated or huge changes."""
        git, made_on = self.mirror.git, self._merge_base(commit)
        found = list_touched_paths(changes(git, made_on, commit)) if made_on else ()
        return found if len(found) <= MOST_PATHS and all(map(_is_text, found)) else ()

    def _is_landing(self, name: str) -> bool:
        """Tell whether an entry of this name is landing; a new submission of it must wait for the outcome."""
        task = self.state.tasks.get(name)
        return task is not None and (task.phase == "landing" or task.landing_in_doubt)

    def _delete_ref(self, one: Submission) -> None:
        """Delete a submitted ref, unless it has been pushed again meanwhile."""
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
        remove(self.mirror, there, [*pins_of(self.state.run, there, gone), *self._obsolete_files(there)])
        self._swept |= gone
        if self._bare:
            self.mirror.pack()

    def _obsolete_files(self, there: Mapping[str, CommitId]) -> list[str]:
        """Return refs of made files that no queued entry needs any more."""
        made = [ref for ref in there if ref.startswith(overlay_ref(self.state.run, ""))]
        if not self.state.train.line.entries:
            self._bare = True
            return made
        now = time.monotonic()
        self._made = {ref: self._made.get(ref, now) for ref in made}
        return [ref for ref, seen in self._made.items() if now - seen > MADE_KEPT_S]


def _is_text(path: str) -> bool:
    """Tell whether a path is text: git allows any bytes in a name, a journal does not."""
    return not any("\ud800" <= character <= "\udfff" for character in path)
