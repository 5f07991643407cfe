"""
The way of every message through a worker: verify, decode, take the lease, announce the start, do the work, answer.

This is the one place with a broad `except`: whatever the work raises becomes a log line with its traceback, and an
answer that names the infrastructure problem. Mistakes that the work foresees are answers of its own.
"""

import os
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import structlog
from pydantic import AliasChoices, BaseModel, Field, ValidationError

from forgepool.workers.queue import leases, replies
from forgepool.workers.queue.broker import BrokerAway, Redis, connect
from forgepool.workers.queue.leases import Holder
from forgepool.workers.queue.run_presence import is_run_alive
from forgepool.workers.queue.signing import NotSigned, verify
from forgepool.workers.sandbox.launch.cgroups import sweep_groups
from forgepool.workers.sandbox.launch.launch import fork_launcher, release
from forgepool.workers.sandbox.layers import prepare_forks
from forgepool.workers.sandbox.own_processes import in_own_process
from forgepool.workers.sandbox.tree import die_with_parent, kill_tree, orphans_of_mine
from forgepool.workers.schema.logs import trace_id_of
from forgepool.workers.schema.orders import Message
from forgepool.workers.schema.settings import Settings
from forgepool.worktrees.checkouts.trees import remove_rubbish
from forgepool.worktrees.git.objects import close_readers

log = structlog.get_logger()
M = TypeVar("M", bound=Message)

_REDIS_AWAY_S = 60.0
_REFUSED_PAUSE_S = 1.0
_MOST_SAID = 2000
"""Characters of an exception that go into an answer; the log has all of it."""


Failed = Callable[[str], Message]
"""Makes an answer from a sentence on an infrastructure problem."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """The facts about a message that its delivery needs, whatever its content."""

    message_id: str
    token: str
    run: str
    start_by: float
    failed: Failed


Work = Callable[[Callable[[], bool]], Message]
"""
Does the work. It gets a function that turns true when the lease is lost: it must then stop, and its answer is not used.
"""


class _Address(BaseModel):
    """The fields of a message by which its sender can be answered, whatever else it holds."""

    message_id: str = Field(validation_alias=AliasChoices("order_id", "request_id"))
    token: str
    run: str


Unreadable = Callable[[str, str, str], Message]
"""Makes an answer from the id and the token of a message that cannot be read, and a sentence."""


def read_message(kind: type[M], encoded: str, job: str, unreadable: Unreadable) -> M | None:
    """
    Read a message that came to this job, without the fields that a later version has added. One that cannot be read
    is answered as such, and None is returned: unanswered, its sender would send it again and again.

    One that is not signed as it must be is refused. The run that it names is told, and sends it again. This process
    then waits, so that a host with the key takes it.
    """
    try:
        encoded = verify(encoded, job)
    except NotSigned as refused:
        _tell_refused(refused, Settings())
        return None
    try:
        return kind.model_validate_json(encoded, extra="ignore")
    except ValidationError as wrong:
        first = wrong.errors()[0]
        place = ".".join(map(str, first["loc"]))
        try:
            to = _Address.model_validate_json(encoded)
        except ValidationError:
            log.error("message.unreadable", place=place, why=first["msg"], message=encoded[:200])
            return None
    why = f"this version of Forgepool cannot read the message at '{place}': {first['msg']}; install the run's version"
    log.warning("message.unreadable", run=to.run, message_id=to.message_id, why=why)
    answer = unreadable(to.message_id, to.token, why)
    delivery = Delivery(
        message_id=to.message_id, token=to.token, run=to.run, start_by=float("inf"), failed=lambda _: answer
    )
    deliver(delivery, lambda _: answer, apart=False)
    return None


def _tell_refused(refused: NotSigned, settings: Settings) -> None:
    run, message_id = refused.name("run"), refused.name("order_id", "request_id")
    log.warning("message.not_signed", run=run, message_id=message_id, why=str(refused))
    if run:
        note = replies.MessageRefused(message_id=message_id, host=settings.host, why=str(refused))
        with suppress(*BrokerAway), connect(_broker(settings)) as client:
            replies.tell(client, run, note)
    time.sleep(_REFUSED_PAUSE_S)


def deliver(delivery: Delivery, work: Work, *, apart: bool) -> None:
    """
    Work on a message and answer it, unless it is done, fenced or held by another worker. A stale one is answered
    without work.

    `apart` runs the work in a process of its own, which takes its memory and its children along. If that process
    dies, its lease is given back at once, so that the sender need not wait for its end. The work of a model is worth
    that. Messages that only run git and commands take less than half the CPU without.
    """
    die_with_parent()
    settings = Settings()
    with structlog.contextvars.bound_contextvars(trace_id=trace_id_of(delivery.run)):
        if apart:
            _deliver_apart(delivery, work, settings)
        else:
            _work_and_answer(delivery, work, settings)


def _deliver_apart(delivery: Delivery, work: Work, settings: Settings) -> None:
    pids: list[int] = []
    place = Path(tempfile.gettempdir()) / f"m-{os.getpid()}"
    launches = prepare_forks(settings.sandbox)

    def work_within() -> None:
        if launches:
            with suppress(OSError):  # an interpreter is started for the first command then
                fork_launcher()  # now, while this process has one thread
        _work_within(place, delivery, work, settings)

    status = in_own_process(work_within, began=pids.append)
    with suppress(OSError):
        remove_rubbish(place)
    if status != 0:
        log.warning("message.process_died", run=delivery.run, message_id=delivery.message_id, status=status)
        # A command that was just being started has come to this process, and did not hear of the death.
        kill_tree(orphans_of_mine(set()))
        if launches:
            with suppress(OSError):
                sweep_groups()
        leases.abandon(connect(_broker(settings)), delivery.message_id, Holder(delivery.token, settings.host, pids[0]))


def _work_within(place: Path, delivery: Delivery, work: Work, settings: Settings) -> None:
    """Put temporary files where the caller finds them, however this process ends; the work reports a full disk."""
    with suppress(OSError):
        place.mkdir(mode=0o700, exist_ok=True)
    tempfile.tempdir = str(place)
    try:
        _work_and_answer(delivery, work, settings)
    finally:
        close_readers()
        release(())


def _work_and_answer(delivery: Delivery, work: Work, settings: Settings) -> None:
    with connect(_broker(settings)) as client:
        _work_under_lease(client, delivery, work, settings)


def _work_under_lease(client: Redis, delivery: Delivery, work: Work, settings: Settings) -> None:
    logger = log.bind(run=delivery.run, message_id=delivery.message_id)
    lease = _claim(client, delivery, settings)
    if not isinstance(lease, leases.Lease):
        logger.info("message.refused", why=lease)
        return
    with leases.keep_lease(lease):
        result = _stale(client, delivery) or _worked_on(client, delivery, work, lease, settings)
        if lease.is_lost():
            logger.warning("message.lease_lost")
            return
        replies.answer(client, delivery.run, delivery.message_id, result)
    logger.info("message.answered")


def _stale(client: Redis, delivery: Delivery) -> Message | None:
    """
    Return the answer to a message that has waited too long; None when it has not. It names no host: the queue was
    full, and the host that took it is not to blame.

    While its run is at work, a message may wait as long as others have the slots, and its fence and its done mark
    stand.

    This is checked under the lease: a fresh copy that another worker holds must not be answered by an old one.
    """
    late_s = time.time() - delivery.start_by
    if late_s <= 0 or (late_s < leases.keep_s() / 2 and is_run_alive(client, delivery.run)):
        return None
    log.warning("message.stale", run=delivery.run, message_id=delivery.message_id, late_s=late_s)
    why = f"it lay in a queue too long: it was to be begun {late_s:.0f} s before it was taken"
    return delivery.failed(why).model_copy(update={"host": ""})


def _worked_on(client: Redis, delivery: Delivery, work: Work, lease: leases.Lease, settings: Settings) -> Message:
    logger = log.bind(run=delivery.run, message_id=delivery.message_id)
    _tell_started(client, delivery, settings)
    logger.info("message.started")
    try:
        return work(lease.is_lost)
    except Exception as broken:
        logger.exception("message.broken")
        sentence = f"{type(broken).__name__}: {broken}"[:_MOST_SAID]
        # A name of a file may be in it, and need not be UTF-8; an answer is.
        return delivery.failed(sentence.encode(errors="backslashreplace").decode())


def _broker(settings: Settings) -> str:
    if settings.broker_url is None:
        raise RuntimeError("a worker needs FORGEPOOL_BROKER_URL; `forgepool worker --broker URL` sets it")
    return settings.broker_url


def _claim(client: Redis, delivery: Delivery, settings: Settings) -> leases.Lease | leases.Claim:
    """Take the lease, or return why not. A Redis that is away is waited for a minute."""
    give_up = time.monotonic() + _REDIS_AWAY_S
    while True:
        try:
            return leases.claim(
                client,
                delivery.message_id,
                token=delivery.token,
                host=settings.host,
                ttl_s=settings.lease_ttl_s,
            )
        except BrokerAway:
            if time.monotonic() > give_up:
                raise
            time.sleep(0.25)


def _tell_started(client: Redis, delivery: Delivery, settings: Settings) -> None:
    note = replies.MessageStarted(
        message_id=delivery.message_id, token=delivery.token, host=settings.host, pid=os.getpid()
    )
    try:
        replies.tell(client, delivery.run, note)
    except BrokerAway:
        log.info("redis.away", during="started")
