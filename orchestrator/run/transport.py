"""
The run's connection to its workers through Redis: messages out, answers in, leases watched.

Redis may go away and come back, empty or not. While it is away no worker is declared lost; when it has come back
without its data, holders get the time to take their leases again.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated

import structlog
from pydantic import Field, TypeAdapter, ValidationError

from forgepool.orchestrator.decisions.results import Answer
from forgepool.orchestrator.journal.events import Event, MessageLost, MessagesRefused, MessageTaken
from forgepool.orchestrator.run.fleet import QUEUE
from forgepool.orchestrator.state.review import Outstanding
from forgepool.orchestrator.state.run import RunState
from forgepool.supervisor.messages.answers import CheckResult, Doubt, Landing, Review
from forgepool.workers.context.profile_switch import ContextTold, wish_profile
from forgepool.workers.queue import broker, leases, replies, run_presence
from forgepool.workers.queue.broker import PROTOCOL, Queue, Redis, queue_of_host
from forgepool.workers.queue.leases import Holder
from forgepool.workers.queue.replies import (
    MessageRefused,
    MessageStarted,
    MoneyAnswer,
    MoneyRequest,
    PathRequest,
    PathsAnswer,
    WorkNote,
)
from forgepool.workers.queue.run_presence import RunPresence
from forgepool.workers.queue.signing import NotSigned
from forgepool.workers.schema.orders import WorkResult

log = structlog.get_logger()

_ANSWER: TypeAdapter[Answer | MessageRefused] = TypeAdapter(
    Annotated[
        MessageStarted
        | MessageRefused
        | PathRequest
        | WorkNote
        | MoneyRequest
        | ContextTold
        | WorkResult
        | Doubt
        | CheckResult
        | Review
        | Landing,
        Field(discriminator="kind"),
    ]
)
_EPOCH_S = 30 * 24 * 3600
_LOOK_S = 0.5
_MOST_ANSWER_BYTES = 4 * 1024 * 1024


@dataclass(slots=True)
class Link:
    """One run's side of Redis. Every method may raise BrokerAway."""

    client: Redis
    run: str
    lease_ttl_s: float
    is_behind: bool = False
    """More answers may be in the stream than were read last."""
    _read_up_to: str = "0-0"
    _grace_until: float = 0.0
    _present: tuple[leases.Present, ...] = field(default=())
    _presence_asked: float = 0.0
    _runs: tuple[RunPresence, ...] = field(default=())
    _runs_asked: float = 0.0
    _announced: RunPresence | None = None
    _announced_at: float = 0.0

    def answers(self, *, wait_s: float) -> Iterator[Answer | MessageRefused]:
        """
        Answers in the order they were given; what cannot be read as one is logged and left out.

        What is not signed as it must be counts as no answer, and only that it came is told. An answer counts as read
        when its reader asks for the next: one during which Redis goes away is given again.
        """
        entries = list(replies.read(self.client, self.run, after=self._read_up_to, wait_s=wait_s))
        self.is_behind = len(entries) >= replies.MOST_READ
        for entry_id, text in entries:
            answer = self._read(text)
            if answer is not None:
                yield answer
            self._read_up_to = entry_id

    def _read(self, text: str) -> Answer | MessageRefused | None:
        if len(text) > _MOST_ANSWER_BYTES:
            log.warning("answer.too_large", run=self.run, bytes=len(text))
            return None
        try:
            return _ANSWER.validate_json(replies.verify_answer(self.run, text), extra="ignore")
        except NotSigned as refused:
            return _refusal(refused)
        except ValidationError as problem:
            log.warning("answer.unreadable", run=self.run, problem=str(problem)[:500])
            return None

    def holders(self, message_ids: Sequence[str]) -> dict[str, Holder]:
        return leases.holders(self.client, message_ids)

    def patient(self) -> bool:
        """Tell whether leases may be missing for a reason other than their holders' death."""
        if self.client.set(self._epoch(), "1", nx=True, ex=_EPOCH_S):
            self._read_up_to = "0-0"
            self.give_grace()
        return time.monotonic() < self._grace_until

    def begin(self) -> None:
        """Marks this Redis as the run's; a mark that is gone later means that its data are."""
        self.client.set(self._epoch(), "1", ex=_EPOCH_S)

    def _epoch(self) -> str:
        return f"forgepool:epoch:{self.run}"

    def give_grace(self) -> None:
        """Redis was away: holders get twice a lease's life to show themselves."""
        self._grace_until = time.monotonic() + 2 * self.lease_ttl_s

    def fence(self, message_id: str) -> None:
        leases.fence(self.client, message_id)

    def reply(self, order_id: str, number: int, answer: PathsAnswer) -> None:
        """Tells a running attempt whether it may touch the paths it asked for."""
        replies.reply(self.client, order_id, number, answer)

    def reply_money(self, order_id: str, answer: MoneyAnswer) -> None:
        """Tells a running attempt what it has of the budget."""
        replies.reply_money(self.client, order_id, answer)

    def wish_profile(self, task: str, profile: str) -> None:
        """Tells a running attempt of the task by which profile its context is to be shown from now on."""
        wish_profile(self.client, self.run, task, profile)

    def is_ended(self, message_id: str) -> bool:
        """Tell whether no worker will begin the message again."""
        return leases.is_ended(self.client, message_id)

    def idle(self, queue: str) -> bool:
        """Tell whether a queue is empty: a message that no worker holds either is lost."""
        return broker.count_waiting(self.client, queue) == 0

    def workers(self) -> tuple[leases.Present, ...]:
        """The workers present, as of the last second."""
        if time.monotonic() > self._presence_asked + 1.0:
            leases.announce_protocol(self.client)
            self._present = leases.present(self.client)
            self._presence_asked = time.monotonic()
        return self._present

    def other_runs(self) -> tuple[RunPresence, ...]:
        """The other runs present, as of the last half second."""
        if time.monotonic() > self._runs_asked + _LOOK_S:
            self._runs = tuple(one for one in run_presence.list_runs(self.client) if one.run != self.run)
            self._runs_asked = time.monotonic()
        return self._runs

    def announce(self, presence: RunPresence) -> None:
        """Tell the other runs how this one stands, where that has changed or was told some seconds ago."""
        now = time.monotonic()
        if presence != self._announced or now > self._announced_at + run_presence.LIFE_S / 4:
            run_presence.announce_run(self.client, presence)
            self._announced, self._announced_at = presence, now

    def withdraw(self) -> None:
        """Tell the other runs that this one has stopped."""
        if self._announced is not None:
            run_presence.withdraw_run(self.client, self.run)

    def forget(self) -> None:
        """Removes what the run kept in Redis."""
        self.withdraw()
        self.client.delete(f"forgepool:answers:{self.run}", self._epoch())


def _refusal(refused: NotSigned) -> MessageRefused:
    """An answer that is refused here. A host's own note that it has refused a message stands for itself."""
    note = refused.name("kind") == "message_refused"
    message_id = refused.name("message_id") if note else ""
    return MessageRefused(message_id=message_id, host=refused.name("host"), why=str(refused))


_SEND_AGAIN_S, _LEFT_S = 10.0, 2.0
_SEND_AGAIN_ANYWAY_S = 300.0
"""Also when other messages wait in the queue: those of other runs may keep it from ever being empty."""
_MISSED_S, _OWN_MISSED_S = 5.0, 60.0
_MOST_REFUSED = 20
"""Names that are told: a stranger may write any number of them."""


@dataclass(slots=True)
class Findings:
    """The findings of one look."""

    taken: list[Event] = field(default_factory=list)
    unsent: list[Outstanding] = field(default_factory=list)
    lost: list[Outstanding] = field(default_factory=list)
    waiting: list[Outstanding] = field(default_factory=list)
    """Orders that wait behind others in the queue of the host that they were sent to."""


@dataclass(slots=True)
class LeaseWatch:
    """The observations so far."""

    unsent: set[str] = field(default_factory=set)
    """Journaled messages that Redis is not known to have."""
    interrupted: dict[str, str] = field(default_factory=dict)
    """Messages whose workers ended with an earlier process of the run, with those workers."""
    sent_to: dict[str, str] = field(default_factory=dict)
    """The hosts that messages were sent to; empty where any may take it."""
    _sent_at: dict[str, float] = field(default_factory=dict)
    _seen: set[str] = field(default_factory=set)
    """Messages that a worker was seen to hold."""
    _missing: set[str] = field(default_factory=set)
    """Messages whose holder was missing at the last look; their answers may be on their way."""
    _missed: dict[str, float] = field(default_factory=dict)
    _told: set[str] = field(default_factory=set)
    _refused: set[str] = field(default_factory=set)
    """The hosts that are known, and told, to refuse messages or to give answers that are refused."""
    _refusing: dict[str, float] = field(default_factory=dict)
    """The present hosts that have refused a message of ours, with the start of their worker at that time."""
    _looked: float = 0.0

    def note_sent(self, message_id: str, host: str = "") -> None:
        """Note that Redis has it: in the queue of that host, or in the one that all share."""
        self.unsent.discard(message_id)
        self._sent_at[message_id] = time.monotonic()
        self.sent_to[message_id] = host

    def look(self, state: RunState, link: Link) -> Findings:
        """
        One look, twice a second at most. Answers given so far must have been read before.

        A holder is lost only when it was missing at two looks, so that an answer given in between is read first.

        So is a message that no worker will begin again. An orchestrator that this one has taken the run from has ended
        it, or the answer was to that one. Nothing finished is lost by that: who loses a message asks the hub first.
        Nothing counts twice: the answer has another token, and the next message another id.
        """
        findings = Findings()
        if time.monotonic() < self._looked + _LOOK_S:
            return findings
        self._looked = time.monotonic()
        outstanding = state.outstanding()
        self._forget_all_but(outstanding)
        if not outstanding:
            return findings
        holders = link.holders(list(outstanding))
        patient = link.patient() or link.is_behind
        for message_id, message in outstanding.items():
            known, holder = state.holder(message), holders.get(message_id)
            if holder is not None and holder.token == message.token:
                self._note_holder(message_id, known, f"{holder.host}/{holder.pid}", findings)
            elif message_id in self.unsent:
                findings.unsent.append(message)
            elif known or message_id in self._seen:
                self._note_missing(message, patient, findings)
            elif self._overdue(message, link):
                if holder is None and link.is_ended(message_id):
                    self._note_missing(message, patient, findings)
                else:
                    findings.unsent.append(message)
            elif message.kind == "order" and self._waited_s(message) > _SEND_AGAIN_S and self.sent_to.get(message_id):
                findings.waiting.append(message)
        return findings

    def note_refused(
        self, note: MessageRefused, state: RunState, present: Sequence[leases.Present] = ()
    ) -> list[Event]:
        """Send a message again that a host has refused, to another if there is one; tell it once for each host."""
        message = state.outstanding().get(note.message_id)
        if message is not None and not state.holder(message):
            self.unsent.add(note.message_id)
            started = [worker.since for worker in present if worker.host == note.host]
            # A resumed run reads old notes again: the key may be right by now.
            if started and note.message_id in self._sent_at:
                self._refusing[note.host] = max(started)
        if note.host in self._refused or len(self._refused) >= _MOST_REFUSED:
            return []
        self._refused.add(note.host)
        return [MessagesRefused(host=note.host, why=note.why)]

    def mark_refusing(self, present: Sequence[leases.Present], queue: Queue) -> tuple[leases.Present, ...]:
        """
        Return the workers. Those of hosts that refuse our messages count as of another version until they start again.

        Where no other serves the queue, they are as they are: any client of Redis can write such a refusal.
        """
        refuse = {one.host for one in present if one.since <= self._refusing.get(one.host, -1.0)}
        serving = (one for one in present if queue in one.queues and one.protocol == PROTOCOL and not one.drained)
        if not refuse or all(one.host in refuse for one in serving):
            return tuple(present)
        return tuple(one.model_copy(update={"protocol": 0}) if one.host in refuse else one for one in present)

    def make_lost_event(self, message: Outstanding, holder: str) -> MessageLost:
        if not holder and message.message_id not in self._seen:
            why = "an orchestrator of this run before this one has ended it, or was told its answer"
        elif holder and holder == self.interrupted.get(message.message_id):
            why = "it was interrupted"
        else:
            why = f"{holder or 'a worker'} took it and is gone"
        return MessageLost(message_id=message.message_id, why=why)

    def _note_holder(self, message_id: str, known: str, holder: str, findings: Findings) -> None:
        self.unsent.discard(message_id)
        self._seen.add(message_id)
        self._missing.discard(message_id)
        if known != holder:
            host, _, pid = holder.rpartition("/")
            findings.taken.append(MessageTaken(message_id=message_id, host=host, pid=int(pid)))

    def _note_missing(self, message: Outstanding, patient: bool, findings: Findings) -> None:
        if patient:
            self._missing.discard(message.message_id)
        elif message.message_id in self._missing:
            findings.lost.append(message)
        else:
            self._missing.add(message.message_id)

    def _waited_s(self, message: Outstanding) -> float:
        return time.monotonic() - self._sent_at.get(message.message_id, 0.0)

    def _overdue(self, message: Outstanding, link: Link) -> bool:
        """Tell whether it is to be sent again: its host has left or takes nothing new, or its queue has lost it."""
        waited_s = self._waited_s(message)
        queue, host = QUEUE[message.kind], self.sent_to.get(message.message_id, "")
        takers = [one for one in link.workers() if one.host == host and queue in one.queues and not one.drained]
        if waited_s > (_LEFT_S if host and not takers else _SEND_AGAIN_ANYWAY_S):
            return True
        return waited_s > _SEND_AGAIN_S and link.idle(queue_of_host(queue, host) if host else queue)

    def missing_workers(self, queues: set[str], *, now: float, own: bool = False) -> list[str]:
        """
        Return which of the queues without a worker have been so for a while; each is returned once.

        A run's `own` workers are given longer: on a busy machine they take that to start.
        """
        patience_s = _OWN_MISSED_S if own else _MISSED_S
        self._missed = {queue: self._missed.get(queue, now) for queue in queues}
        self._told &= queues
        late = [queue for queue, since in self._missed.items() if now > since + patience_s and queue not in self._told]
        self._told.update(late)
        return late

    def _forget_all_but(self, outstanding: dict[str, Outstanding]) -> None:
        self.unsent &= outstanding.keys()
        self._seen &= outstanding.keys()
        self._missing &= outstanding.keys()
        self._sent_at = {one: at for one, at in self._sent_at.items() if one in outstanding}
        self.sent_to = {one: host for one, host in self.sent_to.items() if one in outstanding}
