"""
Where any message enters a worker: decode, take the lease, say so, do the work, answer.

This is the one place a broad `except` stands: whatever the work raises becomes a log line with its traceback, and
the answer that infrastructure stood in the way, naming it. Mistakes the work knows of are answers of its own.
"""

import os
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import structlog

from forgepool.workers.queue import leases, replies
from forgepool.workers.queue.broker import BrokerAway, Redis, connect
from forgepool.workers.queue.leases import Holder
from forgepool.workers.sandbox.fork import in_own_process
from forgepool.workers.sandbox.tree import die_with_parent
from forgepool.workers.schema.orders import Message
from forgepool.workers.schema.settings import Settings
from forgepool.worktrees.checkouts.trees import remove_rubbish

log = structlog.get_logger()

_REDIS_AWAY_S = 60.0
_MOST_SAID = 2000
"""Characters of what was raised that go into an answer; the log has all of it."""


Failed = Callable[[str], Message]
"""Makes the answer that infrastructure stood in the way, from a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """What the wire must know of a message, whatever is in it."""

    message_id: str
    token: str
    run: str
    start_by: float
    failed: Failed


Work = Callable[[Callable[[], bool]], Message]
"""Given a function that turns true when the lease is lost: it must then stop, and is not asked for its answer."""


def deliver(delivery: Delivery, work: Work, *, apart: bool) -> None:
    """
    Works on a message if it is neither done, fenced nor in another's hands, and answers it. A stale one is answered
    without being worked on.

    `apart`: in a process of its own. Whatever the work leaves in memory, and whatever it starts, goes with it; when
    that process dies before its time, its lease is given back at once, so that the sender need not wait for it to run
    out. An agent's order is worth that; the gate's messages run git and commands only, and are quicker without.
    """
    die_with_parent()
    settings = Settings()
    if apart:
        _deliver_apart(delivery, work, settings)
    else:
        _work_and_answer(delivery, work, settings)


def _deliver_apart(delivery: Delivery, work: Work, settings: Settings) -> None:
    pids: list[int] = []
    place = Path(tempfile.gettempdir()) / f"m-{os.getpid()}"
    status = in_own_process(lambda: _work_within(place, delivery, work, settings), began=pids.append)
    with suppress(OSError):
        remove_rubbish(place)
    if status != 0:
        log.warning("message.process_died", run=delivery.run, message_id=delivery.message_id, status=status)
        leases.abandon(connect(_broker(settings)), delivery.message_id, Holder(delivery.token, settings.host, pids[0]))


def _work_within(place: Path, delivery: Delivery, work: Work, settings: Settings) -> None:
    """Temporary files go where the caller finds them, however this process ends; a full disk is the work's to tell."""
    with suppress(OSError):
        place.mkdir(mode=0o700, exist_ok=True)
    tempfile.tempdir = str(place)
    _work_and_answer(delivery, work, settings)


def _work_and_answer(delivery: Delivery, work: Work, settings: Settings) -> None:
    with connect(_broker(settings)) as client:
        _work_under_lease(client, delivery, work, settings)


def _work_under_lease(client: Redis, delivery: Delivery, work: Work, settings: Settings) -> None:
    told = log.bind(run=delivery.run, message_id=delivery.message_id)
    lease = _claim(client, delivery, settings)
    if not isinstance(lease, leases.Lease):
        told.info("message.refused", why=lease)
        return
    with leases.keep_lease(lease):
        result = _stale(delivery) or _worked_on(client, delivery, work, lease, settings)
        if lease.is_lost():
            told.warning("message.lease_lost")
            return
        replies.answer(client, delivery.run, delivery.message_id, result)
    told.info("message.answered")


def _stale(delivery: Delivery) -> Message | None:
    """
    The answer to a message that has lain too long; None when it has not.

    Asked under the lease: a fresh copy of it, at work elsewhere, is not answered by the copy left behind.
    """
    late_s = time.time() - delivery.start_by
    if late_s <= 0:
        return None
    log.warning("message.stale", run=delivery.run, message_id=delivery.message_id, late_s=late_s)
    return delivery.failed(f"it lay in a queue too long: it was to be begun {late_s:.0f} s before it was taken")


def _worked_on(client: Redis, delivery: Delivery, work: Work, lease: leases.Lease, settings: Settings) -> Message:
    told = log.bind(run=delivery.run, message_id=delivery.message_id)
    _tell_started(client, delivery, settings)
    told.info("message.started")
    try:
        return work(lease.is_lost)
    except Exception as broken:
        told.exception("message.broken")
        said = f"{type(broken).__name__}: {broken}"[:_MOST_SAID]
        # A name of a file may be in it, and need not be UTF-8; an answer is.
        return delivery.failed(said.encode(errors="backslashreplace").decode())


def _broker(settings: Settings) -> str:
    if settings.broker_url is None:
        raise RuntimeError("a worker needs FORGEPOOL_BROKER_URL; `forgepool worker --broker URL` sets it")
    return settings.broker_url


def _claim(client: Redis, delivery: Delivery, settings: Settings) -> leases.Lease | leases.Claim:
    """The lease, or why not; a Redis that is away is waited for a minute, then the message is given up."""
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
