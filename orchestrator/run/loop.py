"""
The run loop: answers and the clock become events, events become decisions, decisions become messages.

One thread, one journal. Each turn reads answers, watches leases and takes in people's requests. Then it asks
`decisions.decide` until there are no more events. The answers of a turn and all that follows from them are journaled in
one commit, before the messages they stand for are sent. So whatever dies, the journal knows as much as any other part.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Literal, Protocol

import structlog

from forgepool.orchestrator.decisions.decide import decide
from forgepool.orchestrator.decisions.locks import beyond
from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.decisions.reasons import author_in
from forgepool.orchestrator.decisions.requests import grant_request, overtaken
from forgepool.orchestrator.decisions.results import find_asking_task, message_of, receive_answer
from forgepool.orchestrator.decisions.start_orders import places_of
from forgepool.orchestrator.journal import inbox
from forgepool.orchestrator.journal.events import (
    CheckSent,
    Event,
    HostMismatched,
    LandingIntended,
    MessageTaken,
    OrderSent,
    PartRestarted,
    PathsGranted,
    PathsQueued,
    PathsRefused,
    ProfileChosen,
    ReviewSent,
    RunPaused,
    TaskCancelled,
    WaveApproved,
    WaveReviewSent,
    WaveSent,
    WorkersMissing,
)
from forgepool.orchestrator.journal.inbox import PersonRequest
from forgepool.orchestrator.journal.store import Journal, Recorded
from forgepool.orchestrator.run import recovery
from forgepool.orchestrator.run.dispatch import send_message
from forgepool.orchestrator.run.fleet import (
    QUEUE,
    choose_gate_host,
    find_mismatched,
    find_reviewers,
    find_well,
    list_order_hosts,
)
from forgepool.orchestrator.run.transport import LeaseWatch, Link
from forgepool.orchestrator.state.fold import apply
from forgepool.orchestrator.state.hosts import Places
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import IllegalStep, Outstanding, TaskState
from forgepool.supervisor.gate.affected_checks import TargetLanes
from forgepool.workers.queue import crash_points
from forgepool.workers.queue.broker import CHECKS, LANDINGS, ORDERS, PROTOCOL, REVIEWS, BrokerAway, queue_of_host
from forgepool.workers.queue.leases import Present, slots
from forgepool.workers.queue.replies import PathRequest, PathsAnswer
from forgepool.worktrees.git.git import GitFailed
from forgepool.worktrees.hub.mirror import Mirror, MissingCommit

log = structlog.get_logger()

WAIT_S = 0.2
_AWAY_PAUSE_S = 0.2
_MOST_ROUNDS = 10_000
"""Decisions in one turn: what would be decided without end is not, and answers are heard in between."""
_SENDINGS = (OrderSent, CheckSent, ReviewSent, LandingIntended, WaveSent, WaveReviewSent)

Ending = Literal["ended", "interrupted", "halted"]


@dataclass(slots=True)
class Wishes:
    """The requests a person at the terminal makes by Ctrl-C."""

    drain: bool = False
    stop: bool = False
    untold: list[str] = field(default_factory=list)
    """Lines to print at the end of the turn: a signal comes in the middle of drawing."""


class Parts(Protocol):
    """The Redis and the workers that a one-machine run started for itself."""

    def mend(self) -> list[str]:
        """Starts again what has died, and names it."""


@dataclass(slots=True)
class Loop:
    """A run under way: its values, and the few things it must hold on to."""

    course: PlanIndex
    state: RunState
    journal: Journal
    folder: Path
    mirror: Mirror
    link: Link
    parts: Parts | None
    wishes: Wishes
    listener: Callable[[RunState, Sequence[Recorded]], None]
    watch: LeaseWatch = field(default_factory=LeaseWatch)
    unfenced: set[str] = field(default_factory=set)
    """Messages whose answers are no longer needed; their holders are still to be told."""
    away: bool = False
    wait_s: float = WAIT_S
    """How long a turn waits for an answer."""
    clock: Callable[[], float] = time.time
    """Unix seconds; what is waited for after trouble is told by it."""
    _unkept: list[Event] = field(default_factory=list)
    """Events that the state has and the journal has not yet: nothing may be told of them."""
    _at: float = 0.0
    """The time of these."""
    _together: bool = False
    """Events recorded now are kept with those that follow from them."""
    _mismatched: dict[str, int] = field(default_factory=dict)
    """Hosts of another version, which were told of."""
    _lanes: TargetLanes = field(init=False)

    def __post_init__(self) -> None:
        checks = self.course.plan.checks
        self._lanes = TargetLanes(self.mirror.git, checks if isinstance(checks, tuple) else ())

    def run(self, *, resumed: bool) -> Ending:
        """Goes on until every task has ended, the person has stopped it, or nothing more can be let in."""
        self.begin(resumed=resumed)
        while (ending := self.step()) is None:
            pass
        return ending

    def begin(self, *, resumed: bool) -> None:
        if resumed:
            self.record(recovery.recover_events(self.state, self.mirror))
        if self.parts is not None:
            # A private Redis is as young as this process: nobody can hold a message of an earlier one.
            self.link.begin()
            self.watch.unsent.update(self.state.outstanding())

    def step(self) -> Ending | None:
        """One turn; how the run has ended with it, None where it goes on."""
        self._turn()
        if self.state.finished:
            self._forget()
            return "ended"
        return self._stopped()

    def record(self, events: Sequence[Event]) -> None:
        """
        Takes events into the state and the journal; what cannot be is refused before it is kept.

        A message that is owed no more without having been answered is to be fenced.
        """
        if not events:
            return
        if not self._unkept:
            self._at = self.clock()
        try:
            for event in events:
                owed = self.state.messages_about(event)
                apply(self.state, event, number=self.state.number + 1, at=self._at)
                self._unkept.append(event)
                self._note_needless(event, owed)
        finally:
            if not self._together:
                self.keep()

    def keep(self) -> None:
        """Keeps all events that the state has, in one commit; called before anything that follows from them is told."""
        events = self._unkept
        if not events:
            return
        crash_points.crash_here(*(f"{event.kind}.unjournaled" for event in events))
        recorded = self.journal.append(events, at=self._at)
        self._unkept = []
        self.listener(self.state, recorded)
        crash_points.crash_here(*(f"{event.kind}.journaled" for event in events))

    @contextmanager
    def _one_commit(self) -> Iterator[None]:
        """Put events recorded in the block off to the next commit."""
        self._together = True
        try:
            yield
        finally:
            self._together = False

    def _note_needless(self, event: Event, owed: Sequence[Outstanding]) -> None:
        if not owed:
            return
        left, said = self.state.messages_about(event), message_of(event)
        self.unfenced.update(one.message_id for one in owed if one not in left and one.message_id != said)

    def _fence(self) -> None:
        """After the events are journaled: a message that is fenced is never sent again."""
        while self.unfenced:
            self.link.fence(next(iter(self.unfenced)))
            self.unfenced.pop()

    def _turn(self) -> None:
        self._mend()
        try:
            self._receive()
            self.away = False
            self._look_after_leases()
            self._take_requests()
            self._decide()
            self._fence()
            self._miss_workers()
        except BrokerAway:
            self.keep()
            self._redis_away()
        except (GitFailed, MissingCommit) as trouble:
            self.keep()
            log.warning("hub.away", run=self.state.run, why=str(trouble))
            time.sleep(_AWAY_PAUSE_S)
        self.listener(self.state, ())

    def _mend(self) -> None:
        restarted = self.parts.mend() if self.parts is not None else []
        if "redis" in restarted:
            self.link.give_grace()
            self.watch.unsent.update(self._untaken())
        if restarted:
            self.record([PartRestarted(part=part) for part in restarted])

    def _untaken(self) -> set[str]:
        """Return the messages no worker was seen to take; if Redis is gone, they are gone too."""
        return {one for one, sent in self.state.outstanding().items() if not self.state.holder(sent)}

    def _redis_away(self) -> None:
        if not self.away:
            log.warning("redis.away", run=self.state.run)
        self.away = True
        self.link.give_grace()
        time.sleep(_AWAY_PAUSE_S)

    def _receive(self) -> None:
        """Takes in what was answered; an answer that does not fit is logged, and changes nothing."""
        with self._one_commit():
            for answer in self.link.answers(wait_s=self.wait_s):
                if isinstance(answer, PathRequest):
                    self._reply_at_once(answer)
                for event in receive_answer(self.course, self.state, answer):
                    self._note_reviewer(event)
                    try:
                        self.record([event])
                    except IllegalStep as refused:
                        log.warning("answer.refused", run=self.state.run, why=str(refused))

    def _reply_at_once(self, question: PathRequest) -> None:
        """To one that was answered before, and whose answer got lost; and where nothing new is asked for."""
        task = find_asking_task(self.state, question)
        if task is None:
            return
        if question.number in task.asks:
            self._reply(task, question.number)
        elif not beyond(self.course, task, question.paths):
            self.link.reply(question.order_id, question.number, PathsAnswer(verdict="granted"))

    def _reply(self, task: TaskState, number: int) -> None:
        """Tells an attempt what is journaled of its question."""
        self.keep()
        ask, message = task.asks[number], task.message
        if ask.verdict is not None and message is not None:
            self.link.reply(message.message_id, number, PathsAnswer(verdict=ask.verdict, why=ask.why))

    def _note_reviewer(self, event: Event) -> None:
        """Note the reviewer at work: an event may make its review needless, and it has begun to use something."""
        task = self.state.tasks.get(getattr(event, "task", ""))
        if task is not None and task.review.message is not None:
            self._note_holder(task.review.message)
        of_wave = self.state.wave_review.review.message
        if isinstance(event, WaveApproved) and of_wave is not None:
            self._note_holder(of_wave)

    def _look_after_leases(self) -> None:
        findings = self.watch.look(self.state, self.link)
        self.record(findings.taken)
        for message in findings.unsent:
            self._send(message, resent=True)
        for message in findings.waiting:
            self._move(message)
        for message in findings.lost:
            self._lose(message)

    def _lose(self, message: Outstanding) -> None:
        """Handle a lost holder: ask the hub whether it finished; if not, fence it and retry. May raise GitFailed."""
        used = None
        events: list[Event] = []
        if message.kind == "order":
            task = self.state.tasks[message.task]
            events = recovery.recover_result(self.state, self.mirror, task)
            used = None if events else recovery.find_seen_use(self.course, self.state, self.mirror, task)
        elif message.kind == "landing":
            events = recovery.recover_landing(self.state, self.mirror, self.state.tasks[message.task])
        self.link.fence(message.message_id)
        if not events:
            lost = self.watch.make_lost_event(message, self.state.holder(message))
            events = [lost.model_copy(update={"used": used})]
        self.record(events)

    def _take_requests(self) -> None:
        for path, request in inbox.waiting(self.folder):
            if (why := overtaken(self.state, request)) is not None:
                log.warning("request.overtaken", run=self.state.run, why=why)
            asked = self._granted(request)
            events = [self._with_use(one) if isinstance(one, TaskCancelled) else one for one in asked]
            for event in events:
                self._note_reviewer(event)
            try:
                self.record(events)
            except IllegalStep as refused:
                log.warning("request.refused", run=self.state.run, why=str(refused))
            # Before the request is gone: an attempt under way hears of it in no other way.
            for event in events:
                if isinstance(event, ProfileChosen):
                    self.link.wish_profile(event.task, event.profile)
            self.keep()
            path.unlink()

    def _granted(self, request: PersonRequest) -> list[Event]:
        return grant_request(self.course, self.state, request)

    def _with_use(self, event: TaskCancelled) -> TaskCancelled:
        """Add the use of the cancelled attempt, where there is one and the hub can be asked."""
        task = self.state.tasks[event.task]
        if task.phase != "running" or task.message is None:
            return event
        self._note_holder(task.message)
        try:
            used = recovery.find_seen_use(self.course, self.state, self.mirror, task)
        except GitFailed:
            return event
        return event.model_copy(update={"used": used})

    def _note_holder(self, message: Outstanding) -> None:
        """Note the worker that has taken the message: it has begun to use something."""
        if self.state.holder(message):
            return
        holder = self.link.holders([message.message_id]).get(message.message_id)
        if holder is not None and holder.token == message.token:
            self.record([MessageTaken(message_id=message.message_id, host=holder.host, pid=holder.pid)])

    def _decide(self) -> None:
        self._meet_tip()
        hosts, review_slots = (
            list_order_hosts(self.link.workers()),
            slots(find_reviewers(self._well(), self.course), REVIEWS),
        )
        check_slots = self._check_slots()
        decided: list[Event] = []
        with self._one_commit():
            for _ in range(_MOST_ROUNDS):
                events = decide(
                    self.course,
                    self.state,
                    now=self.clock(),
                    order_slots=sum(host.slots for host in hosts),
                    review_slots=review_slots,
                    check_slots=check_slots,
                    draining=self.wishes.drain,
                    hosts=hosts,
                )
                if not events:
                    break
                decided += self._take(recovery.unless_landed(self.state, self.mirror, events))
            else:
                log.error("decisions.put_off", run=self.state.run, rounds=_MOST_ROUNDS)
        self.keep()
        self._tell(decided)

    def _take(self, events: Sequence[Event]) -> Sequence[Event]:
        for event in events:
            self._note_reviewer(event)
        self.record(events)
        self.watch.unsent.update(event.message_id for event in events if isinstance(event, _SENDINGS))
        return events

    def _tell(self, events: Sequence[Event]) -> None:
        """Sends the messages of journaled events, but for those that a later one has made needless."""
        owed = self.state.outstanding()
        for event in events:
            if isinstance(event, _SENDINGS):
                if event.message_id in owed:
                    self._send(owed[event.message_id], resent=False)
            elif isinstance(event, PathsGranted | PathsQueued | PathsRefused) and event.number is not None:
                self._reply(self.state.tasks[event.task], event.number)

    def _meet_tip(self) -> None:
        lanes = self._lanes.at(self.state.tip)
        if lanes is not self.course.lanes:
            self.course = replace(self.course, lanes=lanes)

    def _check_slots(self) -> int:
        return slots(self._well(), CHECKS, beside=LANDINGS)

    def _well(self) -> tuple[Present, ...]:
        return find_well(self.link.workers(), self.state, self.clock())

    def _miss_workers(self) -> None:
        """Say, once, that messages wait in a queue to which no worker listens, and which hosts cannot read them."""
        there = self.link.workers()
        mismatched = find_mismatched(there)
        self.record(
            [
                HostMismatched(host=host, protocol=protocol, own=PROTOCOL)
                for host, protocol in mismatched.items()
                if self._mismatched.get(host) != protocol
            ]
        )
        self._mismatched = mismatched
        listened = {queue for worker in there if worker.protocol == PROTOCOL for queue in worker.queues}
        wanted = {QUEUE[sent.kind] for sent in self.state.outstanding().values()}
        if not wanted and self.state.count("pending") and not self.wishes.drain:
            wanted.add(ORDERS)
        if self.state.count("reviewing"):
            wanted.add(REVIEWS)
        if self.state.train.line.entries:
            wanted.add(CHECKS)
        missing = self.watch.missing_workers(wanted - listened, now=time.monotonic(), own=self.parts is not None)
        self.record([WorkersMissing(queue=queue) for queue in missing])

    def _send(self, sent: Outstanding, *, resent: bool) -> None:
        """Sends a message that is owed an answer; until that has worked it counts as unsent."""
        self.watch.unsent.add(sent.message_id)
        self.keep()
        host = self._host_for(sent, resent=resent)
        if host is not None:
            self._send_to(host, sent, resent=resent)

    def _send_to(self, host: str, sent: Outstanding, *, resent: bool) -> None:
        queue = queue_of_host(QUEUE[sent.kind], host) if host else QUEUE[sent.kind]
        send_message(self.course, self.state, sent, now=self.clock(), resent=resent, queue=queue)
        self.watch.note_sent(sent.message_id, host)

    def _move(self, sent: Outstanding) -> None:
        """Send an order that waits behind those of other runs to a host that is free, where there is one."""
        host = self._places().take(self.state.tasks[sent.task], but=self.watch.sent_to[sent.message_id])
        if host and self.link.idle(queue_of_host(ORDERS, host)):
            self._send_to(host, sent, resent=True)

    def _places(self) -> Places:
        return places_of(self.course, self.state, self.clock(), list_order_hosts(self.link.workers()))

    def _host_for(self, sent: Outstanding, *, resent: bool) -> str | None:
        """Return the host for a message: empty where any may take it, and None where it has to wait for one."""
        present = self.link.workers()
        if sent.kind != "order":
            reviewed = QUEUE[sent.kind] == REVIEWS
            able = partial(find_reviewers, course=self.course, authors=self._authors(sent)) if reviewed else list
            return choose_gate_host(sent.kind, present, self.state, self.watch.sent_to, self.clock(), able=able)
        task = self.state.tasks[sent.task]
        if not resent:
            return task.sent_to
        places = self._places()
        stays = any(one.name == task.sent_to for one in places.able(task))
        return task.sent_to if stays else places.take(task)

    def _authors(self, sent: Outstanding) -> frozenset[str]:
        """Return the families of models whose work a review is about."""
        names = (sent.task,) if sent.kind == "review" else self.state.wave_review.tasks
        authors = (author_in(self.course, self.state, self.state.tasks[name]) for name in names)
        return frozenset(family for author in authors for family in author.families)

    def _stopped(self) -> Ending | None:
        """Return the ending of a run that stops here unfinished."""
        if self.wishes.stop or (self.wishes.drain and not self._held()):
            self.record([RunPaused(why="interrupted")])
            return "interrupted"
        if self.state.halted and not self.state.outstanding() and self._nothing_to_wait_for():
            self.record([RunPaused(why=self.state.halted)])
            return "halted"
        return None

    def _held(self) -> bool:
        """Tell whether a worker holds a message; one that no worker has taken is sent again on resume."""
        return any(self.state.holder(sent) for sent in self.state.outstanding().values())

    def _nothing_to_wait_for(self) -> bool:
        now = self.clock()
        waiting = [task.not_before for task in self.state.in_phase("pending", "queued")]
        if any(one.is_pausing(now) and not one.stopped for one in self.state.streaks.values()):
            return False
        return all(until <= now for until in waiting) and not decide(
            self.course, self.state, now=now, order_slots=1, review_slots=1, draining=False
        )

    def _forget(self) -> None:
        try:
            self.link.forget()
        except BrokerAway:
            log.info("redis.away", during="forget")
