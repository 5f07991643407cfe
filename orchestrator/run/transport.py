"""
The run's connection to its workers through Redis: messages out, answers in, leases watched.

Redis may go away and come back, empty or not. While it is away nobody is declared lost; when it has come back
without its data, holders get the time to take their leases again.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated

import structlog
from pydantic import Field, TypeAdapter, ValidationError

from forgepool.orchestrator.decisions.results import Answer
from forgepool.supervisor.messages import CheckResult, Doubt, Landing, Review
from forgepool.workers.context.profile_switch import ContextTold, wish_profile
from forgepool.workers.queue import broker, leases, path_requests, presence, replies
from forgepool.workers.queue.broker import Redis
from forgepool.workers.queue.leases import Holder
from forgepool.workers.queue.path_requests import PathRequest, PathsAnswer
from forgepool.workers.queue.replies import MessageStarted
from forgepool.workers.schema.orders import WorkResult

log = structlog.get_logger()

_ANSWER: TypeAdapter[Answer] = TypeAdapter(
    Annotated[
        MessageStarted | PathRequest | ContextTold | WorkResult | Doubt | CheckResult | Review | Landing,
        Field(discriminator="kind"),
    ]
)
_EPOCH_S = 30 * 24 * 3600
_MOST_ANSWER_BYTES = 4 * 1024 * 1024


@dataclass(slots=True)
class Link:
    """One run's side of Redis. Every method may raise BrokerAway."""

    client: Redis
    run: str
    lease_ttl_s: float
    _read_up_to: str = "0-0"
    _grace_until: float = 0.0
    _present: tuple[presence.Present, ...] = field(default=())
    _presence_asked: float = 0.0

    def answers(self, *, wait_s: float) -> Iterator[Answer]:
        """Answers in the order they were given; what cannot be read as one is logged and left out."""
        for entry_id, text in replies.read(self.client, self.run, after=self._read_up_to, wait_s=wait_s):
            self._read_up_to = entry_id
            if len(text) > _MOST_ANSWER_BYTES:
                log.warning("answer.too_large", run=self.run, bytes=len(text))
                continue
            try:
                yield _ANSWER.validate_json(text)
            except ValidationError as problem:
                log.warning("answer.unreadable", run=self.run, problem=str(problem)[:500])

    def holders(self, message_ids: Sequence[str]) -> dict[str, Holder]:
        return leases.holders(self.client, message_ids)

    def patient(self) -> bool:
        """Whether leases may be missing for a reason other than their holders' death."""
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
        path_requests.reply(self.client, order_id, number, answer)

    def wish_profile(self, task: str, profile: str) -> None:
        """Tells a running attempt of the task by which profile its context is to be shown from now on."""
        wish_profile(self.client, self.run, task, profile)

    def idle(self, queue: str) -> bool:
        """Whether nothing waits in a queue: what is not in a worker's hands either has got lost."""
        return broker.count_waiting(self.client, queue) == 0

    def workers(self) -> tuple[presence.Present, ...]:
        """The workers present, as of the last second."""
        if time.monotonic() > self._presence_asked + 1.0:
            self._present = presence.present(self.client)
            self._presence_asked = time.monotonic()
        return self._present

    def forget(self) -> None:
        """Removes what the run kept in Redis."""
        self.client.delete(f"forgepool:answers:{self.run}", self._epoch())
