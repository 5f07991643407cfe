"""A run's refs in the hub while it delegates candidates to a queue."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import structlog
from pydantic import ValidationError

from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.decisions.queue.delegation import unheard, why_held_up
from forgepool.orchestrator.decisions.queue.submissions import entry_of, tag_text, write_card_lines
from forgepool.orchestrator.decisions.reasons import author_in
from forgepool.orchestrator.journal.events import EntryTold, Event, GateNoticed, RunPaused
from forgepool.orchestrator.journal.queue_events import LAST_WORDS, Asks, Card, GateAnswer, GateSign
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.orchestrator.run.loop import Ending, Loop
from forgepool.orchestrator.run.recovery import work_of
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import TaskState
from forgepool.workers.queue import crash_points
from forgepool.workers.schema.orders import Message
from forgepool.workers.workspace.refs import (
    candidate_ref,
    reply_ref,
    reply_refs,
    sign_ref,
    submission_ref,
    submissions_of,
)
from forgepool.worktrees.commits.candidate import read_trailers
from forgepool.worktrees.git.git import CommitId, GitFailed, without_password
from forgepool.worktrees.git.history import is_ancestor
from forgepool.worktrees.git.objects import find_object, read_blob
from forgepool.worktrees.hub.mirror import Mirror, MissingCommit
from forgepool.worktrees.hub.push import Pushed, RefUpdate
from forgepool.worktrees.hub.target import is_contained

Said = TypeVar("Said", bound=Message)
_MOST_TOLD = 100_000
"""Characters of a description, and of what an agent says of its work."""


class UnreadableRef(Exception):
    """A ref in the hub holds something that no run and no queue wrote."""


def asks_of(state: RunState, task: TaskState) -> Asks:
    return Asks(run=state.run, task=task.id, number=task.given)


def entry_ref(state: RunState, task: TaskState) -> str:
    """Return the ref under which the candidate is submitted."""
    return submission_ref(state.target, entry_of(asks_of(state, task)))


def card_of(course: PlanIndex, state: RunState, task: TaskState) -> Card:
    """Build the data for the queue: all that the run itself would have sent a supervisor."""
    planned, result = course.tasks[task.id], task.result
    return Card(
        asks=asks_of(state, task),
        attempt=task.made_by,
        description=planned.description[:_MOST_TOLD],
        acceptance=planned.acceptance,
        criteria=planned.criteria,
        files=planned.files,
        extended=task.extra,
        planned=result.planned if result is not None else (),
        claims=result.claimed_summary[:_MOST_TOLD] if result is not None else "",
        author=author_in(course, state, task),
        reviewed=course.wants_review(task),
        withdrawn=task.recalled,
        work=work_of(course.plan, planned),
    )


def give(course: PlanIndex, state: RunState, mirror: Mirror, task: TaskState, there: Mapping[str, CommitId]) -> bool:
    """
    Put the candidate, or the request to have it back, into the hub; return whether it is there. The object is the same
    every time. `there` maps the submission refs of the hub.

    Raises:
        MissingCommit: the hub has lost the candidate.
        GitFailed: the hub could not be asked.
    """
    commit, ref = CommitId(task.candidate), entry_ref(state, task)
    mirror.ensure(commit, refs=(candidate_ref(state.run, task.id, task.made_by),))
    card = card_of(course, state, task)
    said = [("By", f"run {state.run}"), ("Style", course.plan.landing), *write_card_lines(card)]
    text = tag_text(commit, entry_of(card.asks), said, by="Forgepool", at=task.since)
    tag = CommitId(mirror.git.text("mktag", stdin=text.encode()))
    if there.get(ref) == tag:
        return True
    return isinstance(mirror.push([RefUpdate(ref=ref, new=tag, expected=there.get(ref))]), Pushed)


def answer_to(state: RunState, mirror: Mirror, task: TaskState, blob: CommitId) -> GateAnswer | None:
    """
    Return the queue's answer about the task, as far as the target confirms it; None where it does not, or concerns
    another.

    Raises:
        UnreadableRef: it is no answer.
        GitFailed: the hub could not be asked.
    """
    said = _read(GateAnswer, mirror, reply_ref(state.run, task.id, task.given), blob)
    if (said.entry, said.number) != (entry_of(asks_of(state, task)), task.given):
        return None
    if said.word in ("refused", "withdrawn") and is_contained(mirror, state.target, CommitId(task.candidate)):
        return said.model_copy(update={"word": "landed", "commit": task.candidate})
    if said.word == "landed" and not _has_landed(state, mirror, task, said):
        return None
    return said


def _has_landed(state: RunState, mirror: Mirror, task: TaskState, said: GateAnswer) -> bool:
    """
    Tell whether the commit came into the target after the task was first delegated, and is this task's: it contains the
    candidate, or its message names this entry and queue. A pusher could name another task's commit.
    """
    commit, before = CommitId(said.commit), CommitId(task.given_on)
    if not is_contained(mirror, state.target, commit):
        return False
    if mirror.has(before) and _contains(mirror, before, commit):
        return False
    if _contains(mirror, commit, CommitId(task.candidate)):
        return True
    ours = read_trailers(mirror.git, commit)
    return (ours.get("Forgepool-Run"), ours.get("Forgepool-Task")) == (said.gate, said.entry)


def _contains(mirror: Mirror, tip: CommitId, commit: CommitId) -> bool:
    return is_ancestor(mirror.git, commit, tip, missing_is_no=True)


def read_sign(mirror: Mirror, target: str, blob: CommitId) -> GateSign:
    """Raises UnreadableRef, GitFailed."""
    return _read(GateSign, mirror, sign_ref(target), blob)


def standing_gate(mirror: Mirror, target: str) -> str:
    """
    Return the queue that serves the target by its own sign, whether up or not; empty where there is none.

    Raises:
        CannotRun: there is a sign that cannot be read.
        GitFailed: the hub could not be asked.
    """
    ref = sign_ref(target)
    at = mirror.hub_refs(ref).get(ref)
    try:
        return "" if at is None else read_sign(mirror, target, at).gate
    except UnreadableRef as strange:
        raise CannotRun(
            f"what lies at {ref} in {without_password(mirror.hub)} is no queue's sign that this version can read; "
            "serve the queue again with this version, remove the ref if no queue serves the branch, or say --own-train"
        ) from strange


def take_away(mirror: Mirror, state: RunState) -> None:
    """
    Remove the submissions of a run that has ended, in case one was sent again as its answer came. Raises GitFailed.
    """
    mine = [entry_ref(state, task) for task in state.tasks.values() if task.given]
    there = mirror.hub_refs(*mine) if mine else {}
    for ref, at in there.items():
        mirror.push([RefUpdate(ref=ref, new=None, expected=at)])


def _read(kind: type[Said], mirror: Mirror, ref: str, blob: CommitId) -> Said:
    mirror.fetch(f"+{ref}:refs/hub/{ref.removeprefix('refs/')}")
    facts = find_object(mirror.git, blob)
    if facts is None:
        # It has been moved since it was asked for, and the fetch brought what lies there now.
        raise GitFailed(("fetch", ref), 0, f"{ref} was moved meanwhile")
    if facts.kind != "blob":
        raise UnreadableRef
    try:
        return kind.model_validate_json(read_blob(mirror.git, blob))
    except ValidationError as strange:
        raise UnreadableRef from strange


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
"""Seconds for which an otherwise idle run waits for a silent queue."""


@dataclass(slots=True)
class HubExchange:
    """This process's knowledge of the hub. It is lost with the process and can be found again."""

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
    """By task, delegation and direction: when it is put again, and after how many further seconds."""

    def read(self, state: RunState, now: float) -> Iterator[Event]:
        """
        Yield the queue's answers and its state as events. A caller that takes the next event has recorded the one
        before; an unrecorded one is read again.

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
        """Tell whether it was not put yet, or its fate is unknown."""
        put = self._put.get((task.id, task.given, task.recalled))
        unknown = task.told is None or task.recalled
        lies = entry_ref(state, task) in self._there
        return put is None or (unknown and not lies and self._looked >= put[0])

    def patient(self, now: float) -> bool:
        """Tell whether the run still waits for a silent queue."""
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
                if self.copy is not None:
                    self.copy.push_owed()
                self.exchange.put(self.course, self.state)
            except (GitFailed, MissingCommit) as trouble:
                log.warning("hub.away", run=self.state.run, why=str(trouble))
        Loop._turn(self)

    def _stopped(self) -> Ending | None:
        """
        Return the run's ending. It also ends while the queue is silent or needs a person, and nothing else is left to
        do.
        """
        stopped = Loop._stopped(self)
        if stopped is not None or self.state.outstanding():
            return stopped
        why = why_held_up(self.state, patient=self.exchange.patient(time.monotonic()))
        if not why or not self._nothing_to_wait_for():
            return None
        self.record([RunPaused(why=why)])
        return "halted"
