"""A run under way as its journal and its workers see it: events are kept, then messages are sent."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

import structlog

from forgepool.orchestrator.decisions.orders.purse import limits_of_order
from forgepool.orchestrator.decisions.orders.races import index_for
from forgepool.orchestrator.decisions.orders.start_orders import places_of
from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.decisions.reasons import author_in
from forgepool.orchestrator.decisions.results import message_of
from forgepool.orchestrator.journal.events import (
    CheckSent,
    Event,
    HostMismatched,
    LandingIntended,
    MessageTaken,
    MoneyGranted,
    MoneyQueued,
    OrderSent,
    PathsGranted,
    PathsQueued,
    PathsRefused,
    ReviewSent,
    WaveApproved,
    WaveReviewSent,
    WaveSent,
    WorkersMissing,
)
from forgepool.orchestrator.journal.hub_copy import HubCopy
from forgepool.orchestrator.journal.store import Journal, Recorded
from forgepool.orchestrator.run.dispatch import send_message
from forgepool.orchestrator.run.fleet import (
    QUEUE,
    choose_gate_host,
    find_mismatched,
    find_reviewers,
    find_well,
    list_order_hosts,
)
from forgepool.orchestrator.run.hub import find_done_refs
from forgepool.orchestrator.run.neighbours.treasury import TreasuryDesk
from forgepool.orchestrator.run.transport import LeaseWatch, Link
from forgepool.orchestrator.state.fold import apply
from forgepool.orchestrator.state.hosts import Host, Places
from forgepool.orchestrator.state.review import Outstanding
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import TaskState
from forgepool.workers.queue import crash_points
from forgepool.workers.queue.broker import CHECKS, ORDERS, PROTOCOL, REVIEWS, Queue, queue_of_host
from forgepool.workers.queue.leases import Present
from forgepool.workers.queue.replies import MoneyAnswer, PathsAnswer
from forgepool.worktrees.hub.mirror import Mirror

log = structlog.get_logger()

_SENDINGS = (OrderSent, CheckSent, ReviewSent, LandingIntended, WaveSent, WaveReviewSent)


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
class Sender:
    """
    A run under way: it keeps events before it sends the messages that they stand for.

    So whatever dies, the journal knows as much as any other part.
    """

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
    clock: Callable[[], float] = time.time
    """Unix seconds; what is waited for after trouble is told by it."""
    copy: HubCopy | None = None
    """The journal's copy in the hub; None for a queue, which has none."""
    treasury: TreasuryDesk | None = None
    """The limits on all runs together; None where there are none."""
    _unkept: list[Event] = field(default_factory=list)
    """Events that the state has and the journal has not yet: nothing may be told of them."""
    _at: float = 0.0
    """The time of these."""
    _together: bool = False
    """Events recorded now are kept with those that follow from them."""
    _mismatched: dict[str, int] = field(default_factory=dict)
    """Hosts of another version, which were told of."""

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
                self.course = self.course.grow_with(self.state)
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
        if self.copy is not None:
            self.copy.note(events)
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
                self._reply(self.state.attempt_at(event.task, event.attempt), event.number)
            elif isinstance(event, MoneyGranted | MoneyQueued):
                self._reply_money(self.state.attempt_at(event.task, event.attempt))

    def _reply(self, task: TaskState, number: int) -> None:
        """Tells an attempt what is journaled of its question."""
        self.keep()
        ask, message = task.asks.get(number), task.message
        if ask is not None and ask.verdict is not None and message is not None:
            self.link.reply(message.message_id, number, PathsAnswer(verdict=ask.verdict, why=ask.why))

    def _reply_money(self, task: TaskState) -> None:
        """Tells an attempt what is journaled of its part of the budget; a grant is in the hub's copy before."""
        self.keep()
        if task.message is None:
            return
        if self.copy is not None:
            self.copy.push_owed()
        limits, ask = limits_of_order(self.course, task), task.money
        self.link.reply_money(
            task.message.message_id,
            MoneyAnswer(
                verdict="granted" if ask is None else "queued",
                usd=limits.cost_usd,
                tokens=limits.tokens,
                needs_usd=0.0 if ask is None else ask.usd,
                needs_tokens=0 if ask is None else ask.tokens,
            ),
        )

    def _note_reviewer(self, event: Event) -> None:
        """Note the reviewer at work: an event may make its review needless, and it has begun to use something."""
        task = self.state.tasks.get(getattr(event, "task", ""))
        if task is not None and task.review.message is not None:
            self._note_holder(task.review.message)
        of_wave = self.state.wave_review.review.message
        if isinstance(event, WaveApproved) and of_wave is not None:
            self._note_holder(of_wave)

    def _note_holder(self, message: Outstanding) -> None:
        """Note the worker that has taken the message: it has begun to use something."""
        if self.state.holder(message):
            return
        holder = self.link.holders([message.message_id]).get(message.message_id)
        if holder is not None and holder.token == message.token:
            self.record([MessageTaken(message_id=message.message_id, host=holder.host, pid=holder.pid)])

    def _send(self, sent: Outstanding, *, resent: bool) -> None:
        """Sends a message that is owed an answer; until that has worked it counts as unsent."""
        self.watch.unsent.add(sent.message_id)
        self.keep()
        host = self._host_for(sent, resent=resent)
        if host is not None:
            self._send_to(host, sent, resent=resent)

    def _send_to(self, host: str, sent: Outstanding, *, resent: bool) -> None:
        if self.copy is not None:
            self.copy.push_owed()
        queue = queue_of_host(QUEUE[sent.kind], host) if host else QUEUE[sent.kind]
        done = find_done_refs(self.course, self.state, self.mirror, self.folder) if sent.kind == "landing" else ()
        send_message(self.course, self.state, sent, now=self.clock(), resent=resent, queue=queue, done=done)
        self.watch.note_sent(sent.message_id, host)

    def _move(self, sent: Outstanding) -> None:
        """Send an order that waits behind those of other runs to a host that is free, where there is one."""
        attempt = self.state.attempt_at(sent.task, message=sent.message_id)
        host = self._places(attempt).take(attempt, but=self.watch.sent_to[sent.message_id])
        if host and self.link.idle(queue_of_host(ORDERS, host)):
            self._send_to(host, sent, resent=True)

    def _places(self, attempt: TaskState) -> Places:
        return places_of(index_for(self.course, attempt), self.state, self.clock(), self._order_hosts())

    def _order_hosts(self) -> tuple[Host, ...]:
        return list_order_hosts(self._workers(ORDERS))

    def _workers(self, queue: Queue) -> tuple[Present, ...]:
        return self.watch.mark_refusing(self.link.workers(), queue)

    def _host_for(self, sent: Outstanding, *, resent: bool) -> str | None:
        """Return the host for a message: empty where any may take it, and None where it has to wait for one."""
        present = self._workers(QUEUE[sent.kind])
        if sent.kind != "order":
            reviewed = QUEUE[sent.kind] == REVIEWS
            able = partial(find_reviewers, course=self.course, authors=self._authors(sent)) if reviewed else list
            return choose_gate_host(sent.kind, present, self.state, self.watch.sent_to, self.clock(), able=able)
        task = self.state.attempt_at(sent.task, message=sent.message_id)
        if not resent:
            return task.sent_to
        places = self._places(task)
        stays = any(one.name == task.sent_to for one in places.able(task))
        return task.sent_to if stays else places.take(task)

    def _authors(self, sent: Outstanding) -> frozenset[str]:
        """Return the families of models whose work a review is about."""
        names = (sent.task,) if sent.kind == "review" else self.state.wave_review.tasks
        authors = (author_in(self.course, self.state, self.state.tasks[name]) for name in names)
        return frozenset(family for author in authors for family in author.families)

    def _well(self, queue: Queue) -> tuple[Present, ...]:
        return find_well(self._workers(queue), self.state, self.clock(), queue)

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
        listened = {
            queue for worker in there if worker.protocol == PROTOCOL and not worker.drained for queue in worker.queues
        }
        wanted = {QUEUE[sent.kind] for sent in self.state.outstanding().values()}
        if not wanted and self.state.count("pending") and not self.wishes.drain:
            wanted.add(ORDERS)
        if self.state.count("reviewing"):
            wanted.add(REVIEWS)
        if self.state.train.line.entries:
            wanted.add(CHECKS)
        missing = self.watch.missing_workers(wanted - listened, now=time.monotonic(), own=self.parts is not None)
        self.record([WorkersMissing(queue=queue) for queue in missing])
