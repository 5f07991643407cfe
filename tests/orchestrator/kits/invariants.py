"""Rules that hold in a run after every event. About globs they know only which files they cover."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import assert_never, get_args

from forgepool.orchestrator.decisions.landing import next_at_gate
from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.decisions.reviews.post_merge import list_landed_after, list_landed_since, list_unreviewed
from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.plan.readiness import choose, count_overtaken, find_overtaken, ready
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import (
    DONE,
    IN_FLIGHT,
    IN_TRAIN,
    MAY_BE_REVIEWED,
    TERMINAL,
    Phase,
    TaskState,
)
from forgepool.supervisor.messages.answers import Approval, PersonApproval

Files = frozenset[str]

GLOBS: Mapping[str, Files] = {
    "a/1": frozenset({"a/1"}),
    "a/2": frozenset({"a/2"}),
    "a/*": frozenset({"a/1", "a/2"}),
    "a/**": frozenset({"a/1", "a/2"}),
    "b/1": frozenset({"b/1"}),
    "b/2": frozenset({"b/2"}),
    "b/**": frozenset({"b/1", "b/2"}),
    "{a,b}/1": frozenset({"a/1", "b/1"}),
    "[ab]/2": frozenset({"a/2", "b/2"}),
    "c": frozenset({"c"}),
    "**": frozenset({"a/1", "a/2", "b/1", "b/2", "c"}),
}
"""The globs of generated plans, and the files they cover among all files."""
FILES = sorted(GLOBS["**"])

_HOLDING: frozenset[Phase] = IN_TRAIN | {"reviewed"}


@dataclass
class Invariants:
    """Checks each event before and after it is applied, and fails at the first broken rule."""

    course: PlanIndex
    landed: dict[str, str] = field(default_factory=dict)
    green: dict[str, set[str]] = field(default_factory=dict)
    """Commits found green, by task."""
    judged: dict[str, int] = field(default_factory=dict)
    """The newest attempt that was judged and returned, by task."""
    afresh: dict[str, int] = field(default_factory=dict)
    """The newest attempt when a person cancelled it or let it begin again, by task."""
    asked: dict[str, int] = field(default_factory=dict)
    """The newest attempt when an agent asked a person, by task."""
    bases: dict[tuple[str, int], str] = field(default_factory=dict)
    """The commit on which an order began, by task and attempt."""
    changes: list[Files] = field(default_factory=list)
    """The files that each landing changed, in order."""
    changes_before: dict[tuple[str, int], int] = field(default_factory=dict)
    """The number of these changes that the base contains, by task and attempt."""
    granted: dict[str, set[str]] = field(default_factory=dict)
    """The paths granted during the attempt, by task in flight."""
    patches: dict[str, str] = field(default_factory=dict)
    """The diff of a composed commit that was found green."""
    passed: set[tuple[str, str]] = field(default_factory=set)
    """Candidates with the diffs of theirs that a reviewer has passed."""
    approved: set[str] = field(default_factory=set)
    """Candidates that a person has approved and not rejected since."""
    failed_waves: set[tuple[str, str]] = field(default_factory=set)
    """Ranges of commits that a reviewer has failed as a whole."""
    past: set[frozenset[str]] = field(default_factory=set)
    """Pairs in which the earlier candidate took paths that the later one holds, which is the one exception to locks."""

    def before(self, state: RunState, event: e.Event) -> dict[str, Phase]:
        match event:
            case e.OrderSent(task=task):
                self._may_start(state, task, wanting=True)
                self._begins_where_it_may(state, event)
            case e.OrderAnswered(task=task, result=result):
                over = (self.judged, self.afresh, self.asked)
                if state.attempt_at(task, message=result.order_id).message == state.outstanding().get(result.order_id):
                    over = over[1:]  # Of two that race, the later one may be judged first.
                newest = max(one.get(task, 0) for one in over)
                assert result.attempt > newest, f"attempt {result.attempt} of {task} is back after {newest}"
                if state.tasks[task].phase == "pending":
                    self._may_start(state, task)
            case e.TaskRetried(task=task, afresh=True) | e.TaskCancelled(task=task):
                self.afresh[task] = state.tasks[task].last_attempt
            case e.TaskParked(task=task, why="question"):
                self.asked[task] = state.tasks[task].last_attempt
            case e.CandidateRestored(task=task):
                self._may_start(state, task)
            case e.PathsGranted(task=task, paths=paths):
                assert not set(paths) & self._read_by_others(state, task), f"{task} was given what others read"
                self.granted.setdefault(task, set()).update(paths)
            case e.LockExtended(task=task):
                self.past |= {frozenset((task, one)) for one in self._in_a_circle_with(state, task)}
            case _:
                self._before_gate(state, event)
                self._before_review(state, event)
        return {task.id: task.phase for task in state.tasks.values()}

    def _before_review(self, state: RunState, event: e.Event) -> None:
        match event:
            case e.ReviewSent(task=task):
                assert not state.halted, "a review was asked for while the gate is shut"
                assert task in self.course.reviewed, f"{task} is reviewed, and need not be"
                assert not state.tasks[task].review.message, f"{task} is reviewed twice at once"
                person, candidate = state.tasks[task].review.person, state.tasks[task].candidate
                approved = person is not None and person.commit == candidate
                assert not approved, f"{task} is reviewed after a person has approved it"
            case e.ReviewAnswered(task=task, result=result) if result.outcome == "passed":
                self.passed.add((state.tasks[task].candidate, result.patch_id))
            case e.TaskApproved(commit=commit):
                self.approved.add(commit)
            case e.TaskRejected(task=task, reason=reason):
                self.judged[task] = reason.attempt
                self.approved.discard(state.tasks[task].candidate)
            case e.LandingIntended():
                self._are_approved(state, event)
            case e.WaveSent(base=base):
                assert not state.halted and base == state.tip and not state.train.messages()
            case e.WaveReviewSent(base=base, tip=tip, tasks=tasks):
                assert not state.halted and tip == state.tip == state.wave.since and not state.train.messages()
                assert (base, tip) not in self.failed_waves, "somebody is asked again about what was failed"
                assert base != tip and tasks == list_landed_after(state, state.wave_review.upto), (
                    "not all of it is reviewed"
                )
            case e.WaveReviewAnswered(result=result) if result.outcome == "failed":
                self.failed_waves.add((state.wave_review.review.base, state.wave_review.tip))
            case e.RunEnded():
                seen = self.course.integration_review == "never" or not list_unreviewed(state)
                assert seen, "ended, and nobody has answered for what has landed as a whole"
                assert not self.course.plan.gate.wave or not list_landed_since(state), (
                    "ended without a look at the whole"
                )
            case _:
                pass

    def _are_approved(self, state: RunState, intent: e.LandingIntended) -> None:
        for task, commit, approval in zip(intent.entries, intent.commits, intent.approvals, strict=True):
            if task in self.course.reviewed:
                self._is_approved(state.tasks[task].candidate, commit, approval)

    def _is_approved(self, candidate: str, commit: str, approval: Approval | None) -> None:
        assert approval is not None, f"{candidate} is to land, and nobody has approved it"
        if isinstance(approval, PersonApproval):
            assert approval.commit == candidate and candidate in self.approved, f"{candidate} was not approved"
        else:
            assert (candidate, approval.patch_id) in self.passed, f"nobody has passed that diff of {candidate}"
            assert self.patches[commit] == approval.patch_id, f"{candidate} lands another diff than was reviewed"

    def _before_gate(self, state: RunState, event: e.Event) -> None:
        match event:
            case e.TaskReturned(task=task, reason=reason):
                assert (came := state.tasks[task].result) and reason.attempt == came.attempt
                self.judged[task] = reason.attempt
            case e.CheckSent():
                assert not state.halted, "a check was sent through a gate that is shut"
                at_whole = state.wave.message or state.wave_review.review.message
                assert at_whole is None, "an entry came to the gate while the target was looked at"
            case e.CheckAnswered(task=task, result=result) if result.verdict == "green":
                assert result.commit and result.certificates
                self.green.setdefault(task, set()).add(result.commit)
                self.patches |= dict(zip(result.commits, result.patch_ids, strict=True))
            case e.LandingIntended(task=task, commit=commit):
                assert commit in self.green.get(task, ()), f"{task} is to land {commit}, never found green"
            case e.LandingAnswered(task=task, result=result) if result.outcome == "landed":
                self._lands(state, task, result.commit or "")
            case _:
                pass

    def _lands(self, state: RunState, task: str, commit: str) -> None:
        """Check a landing with all entries it brought along, the last of which was found green."""
        landing = state.train.landing
        together = {task: commit}
        if landing is not None and task in landing.intent.entries:
            all_of_them = dict(zip(landing.intent.entries, landing.intent.commits, strict=True))
            together = all_of_them if all_of_them[task] == commit else together
        for one, composed in together.items():
            assert one not in self.landed, f"{one} has landed twice"
            assert composed in self.patches, f"{one} landed as {composed}, which nobody has composed and found green"
            self.landed[one] = composed
            came = state.tasks[one].result
            self.changes.append(frozenset(came.paths if came else ()))

    def _train_is_whole(self, state: RunState) -> None:
        """Each entry stands in one place, and each trial is of queued entries."""
        line = state.train.line
        coupled = [one for car in line.cars for one in car]
        assert len(coupled) == len(set(coupled)) and set(coupled) <= set(line.entries), "an entry has two cars"
        assert set(line.entries) == {task.id for task in state.in_phase(*IN_TRAIN)}, "an entry without a place"
        assert set(state.train.out) == set(line.trials), "a trial that nobody waits for, or that was never sent"
        for trial in line.trials.values():
            assert set(trial.spec) <= set(line.entries), f"{trial.id} tries what has left the train"
            assert trial.ahead + trial.car == tuple(dict.fromkeys(trial.spec)), f"{trial.id} tries an entry twice"

    def after(self, state: RunState, event: e.Event, phases: Mapping[str, Phase]) -> None:
        for task, was in phases.items():
            if was in TERMINAL and state.tasks[task].phase != was:
                by_hand = isinstance(event, e.TaskRetried | e.TaskReplied | e.TaskApproved | e.TaskRejected)
                assert by_hand, f"{task} was {was}, and {event.kind} changed it"
                assert was != "landed", f"{task} had landed"
        self._train_is_whole(state)
        for task in state.tasks.values():
            may_be = task.phase in (("reported",) if task.id == state.lead.reviewed else MAY_BE_REVIEWED)
            assert task.review.message is None or may_be, f"{task.id} is {task.phase}"
        owed = [one.message_id for task in _attempts(state) for one in task.messages]
        owed += [one.message_id for one in state.train.messages()]
        assert len(owed) == len(set(owed)), "two messages of one id"
        self._locks_hold(state)
        self._candidates_hold_what_they_touched(state)
        self._what_was_granted_is_held(state)
        self._budget_holds(state)
        races_hold(state)
        indexes_hold(self.course, state)

    def _begins_where_it_may(self, state: RunState, event: e.OrderSent) -> None:
        """
        An order begins on the tip, or on the base of an attempt that was interrupted.

        That attempt must not have been judged, and no other task may have changed its files since.
        """
        self.bases[event.task, event.attempt] = event.base
        if event.races is not None:
            assert event.base == self.bases[event.task, event.races]
        elif event.resumes is None:
            assert event.base == state.tip
        else:
            assert event.base == self.bases[event.task, event.resumes]
            over = max(self.judged.get(event.task, 0), self.afresh.get(event.task, 0))
            assert event.resumes > over, f"{event.task} goes on with what was judged, or given up"
            since = self.changes[self.changes_before[event.task, event.resumes] :]
            changed = frozenset().union(*since)
            mine = (self._declared(event.task) or frozenset()) | frozenset(state.tasks[event.task].wanted)
            assert not changed & mine, f"{event.task} goes on where {changed & mine} is not as it has landed"
        with_it = event.races if event.resumes is None else event.resumes
        before = len(self.changes) if with_it is None else self.changes_before[event.task, with_it]
        self.changes_before[event.task, event.attempt] = before

    def _budget_holds(self, state: RunState) -> None:
        ledger = self.course.ledger(state)
        assert ledger.cap.usd is None or ledger.usd <= ledger.cap.usd + 1e-6, ledger
        assert ledger.cap.tokens is None or ledger.tokens <= ledger.cap.tokens, ledger

    def _what_was_granted_is_held(self, state: RunState) -> None:
        held = dict(self._held(state))
        self.granted = {task: paths for task, paths in self.granted.items() if task in held}
        for task, paths in self.granted.items():
            assert paths <= held[task], f"{task} was granted {paths - held[task]}, and holds it no more"

    def _may_start(self, state: RunState, task: str, *, wanting: bool = False) -> None:
        """All its needs have landed, and no task in flight writes what it touches or reads what it writes."""
        mine = self.course.tasks[task]
        missing = [need.id for need in mine.needs if state.tasks[need.id].phase not in DONE]
        assert not missing, f"{task} started without {missing}"
        writes = (self._declared(task) or frozenset()) | frozenset(state.tasks[task].wanted if wanting else ())
        reads = _covered(mine.reads)
        for other, held in self._held(state):
            if other == task:
                continue
            assert not writes & held, f"{task} started beside {other}, which holds {writes & held}"
            assert not self._alone(task) and not self._alone(other), f"{task} or {other} was to run alone"
            if self.course.plan.reads == "block":
                assert not reads & held, f"{task} reads what {other} writes"
                assert not writes & _covered(self.course.tasks[other].reads), f"{task} writes what {other} reads"

    def _read_by_others(self, state: RunState, task: str) -> Files:
        if self.course.plan.reads != "block":
            return frozenset()
        others = (one.id for one in state.tasks.values() if one.phase in IN_FLIGHT and one.id != task)
        return frozenset().union(*(_covered(self.course.tasks[one].reads) for one in others))

    def _in_a_circle_with(self, state: RunState, task: str) -> set[str]:
        """Return the candidates that wait for this one, directly or through others. One of a circle has to continue."""
        held = dict(self._held(state))
        candidates = {one.id: frozenset(one.result.paths) for one in state.in_phase("candidate") if one.result}
        circle = {task}
        while more := {
            one
            for one, touched in candidates.items()
            if one not in circle and any((touched - held[one]) & held[other] for other in circle)
        }:
            circle |= more
        return circle - {task}

    def _locks_hold(self, state: RunState) -> None:
        held = dict(self._held(state))
        self.past = {pair for pair in self.past if pair <= held.keys()}
        for one, other in combinations(held, 2):
            common = held[one] & held[other]
            assert not common or frozenset((one, other)) in self.past, f"{one} and {other} both hold {common}"

    def _candidates_hold_what_they_touched(self, state: RunState) -> None:
        held = dict(self._held(state))
        for task in state.in_phase(*_HOLDING):
            touched = frozenset(task.result.paths if task.result else ())
            assert touched <= held[task.id], f"{task.id} is in the train without a lock on all it changed"
            declared = self._declared(task.id)
            strict = self.course.plan.scope == "strict" and declared is not None
            assert not strict or touched <= (declared or touched), f"{task.id} left its scope"

    def _held(self, state: RunState) -> Iterator[tuple[str, Files]]:
        for task in state.tasks.values():
            if task.phase in IN_FLIGHT:
                yield task.id, (self._declared(task.id) or frozenset()) | frozenset(task.extra)

    def _declared(self, task: str) -> Files | None:
        files = self.course.tasks[task].files
        return None if files is None else _covered(files)

    def _alone(self, task: str) -> bool:
        return self.course.plan.undeclared == "exclusive" and self.course.tasks[task].files is None


def _attempts(state: RunState) -> list[TaskState]:
    """Return the tasks, and the attempts that race beside those in front."""
    return [*state.tasks.values(), *state.racers.values()]


def races_hold(state: RunState) -> None:
    """Of two attempts that race one is in front, and the other can neither be tested nor land."""
    for name, racer in state.racers.items():
        task = state.tasks[name]
        assert task.races and racer.id == name and racer.attempt != task.attempt
        assert racer.phase in ("running", "candidate") and (racer.message is not None) == (racer.phase == "running")
        assert racer.uses == task.uses and racer.works == task.works and racer.review.message is None
        assert task.phase not in IN_FLIGHT or racer.extra == task.extra
    assert {task.id for task in state.tasks.values() if task.races} == state.racers.keys()


def indexes_hold(course: PlanIndex, state: RunState) -> None:
    """Every stored index equals what a look at all tasks would find."""
    tasks = list(state.tasks.values())
    pending = [task for task in tasks if task.phase == "pending"]
    for phase in get_args(Phase):
        assert state.in_phase(phase) == [task for task in tasks if task.phase == phase]
    done = {task.id for task in tasks if task.phase in DONE}
    assert state.find_done() == done and state.all_ended == all(task.phase in TERMINAL for task in tasks)
    tried = [task for task in pending if task.attempt]
    assert state.phases.pending_again() == tried
    assert not any(task.kept or task.wanted or task.troubles or task.not_before for task in pending if not task.attempt)
    landed = sorted((task for task in tasks if task.phase == "landed"), key=lambda task: task.landed_at)
    for number in {0, *(task.landed_at for task in landed)}:
        assert state.find_landed(after=number) == [task for task in landed if task.landed_at > number]
    owed = {one.message_id: one for task in _attempts(state) for one in task.messages}
    at_gate = (*state.train.messages(), state.wave.message, state.wave_review.review.message)
    assert state.outstanding() == owed | {one.message_id: one for one in at_gate if one is not None}
    _frontier_holds(course, state, pending, done)
    remembered = next_at_gate(course, state, state.at, 2, draining=False)
    state.train.decorated.clear()
    state.train.planned = None
    assert next_at_gate(course, state, state.at, 2, draining=False) == remembered


def _frontier_holds(course: PlanIndex, state: RunState, pending: list[TaskState], done: set[str]) -> None:
    graph, frontier = course.graph, course.frontier(state)
    able = [task.id for task in pending if graph.needs_landed(task.id, done)]
    assert frontier.ranks == sorted(graph.rank[one] for one in able)
    hopeless = {task.id for task in state.tasks.values() if task.phase in TERMINAL - DONE}
    assert frontier.doomed == {task.id for task in pending if not hopeless.isdisjoint(graph.tasks[task.id].needs)}
    overtaken = {task.id: task.overtaken for task in pending}
    said = {"in_flight": course.in_flight(state), "slots": 3, "wanted": course.find_wanted_locks(state)}
    chosen = choose(graph, frontier.ranks, overtaken=overtaken.__getitem__, **said)
    assert chosen == ready(graph, landed=done, waiting=[task.id for task in pending], overtaken=overtaken, **said)
    for one in chosen:
        counted = count_overtaken(graph, [one], landed=done, waiting=overtaken, wanted=said["wanted"])
        assert set(find_overtaken(graph, one, able=able, wanted=said["wanted"])) == counted.keys()


def _covered(globs: tuple[str, ...]) -> Files:
    return frozenset().union(*(GLOBS[glob] for glob in globs))


def outcome_explained(state: RunState, task: str, course: PlanIndex) -> bool:
    """Return whether a task that did not land has a recorded reason."""
    phase = state.tasks[task].phase
    match phase:
        case "landed" | "cancelled" | "needs_human":
            return True
        case "no_changes":
            result = state.tasks[task].result
            may_idle = course.tasks[task].unchanged == "ok" or (result is not None and result.nothing_to_do)
            return may_idle and result is not None and result.outcome == "no_change"
        case "reported":
            return course.tasks[task].answers and state.tasks[task].report is not None
        case "already_there":
            return bool(state.tasks[task].commit)
        case "failed":
            return bool(state.tasks[task].reasons)
        case "blocked":
            needs = (state.tasks[need.id].phase for need in course.tasks[task].needs)
            return any(one in TERMINAL - DONE for one in needs)
        case "pending" | "running" | "answered" | "candidate" | "queued" | "testing":
            return False
        case "reviewing" | "reviewed" | "landing":
            return False
        case _:
            assert_never(phase)
