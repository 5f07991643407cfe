"""
The door to Celery and Redis: the app, its queues and settings, and the connection every process uses.

Celery carries messages to workers and nothing else: no result backend, no chord, no retries of its own. The journal and
git remember; whatever lies in Redis may be lost at any moment, and costs time only. Leases, presence and answers, which
also live in Redis, are in `workers.queue.leases` and `workers.queue.replies`.

Why not trust redelivery: a killed pool child's message comes back after seconds. But a killed main process's comes only
after the visibility timeout, and one popped by a dying connection never. So the sender watches leases and sends again;
a second delivery of the same id does nothing.
"""

import gc
import mmap
import os
import re
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol, cast
from urllib.parse import quote

import redis
import structlog
from celery import Celery
from celery.signals import worker_before_create_process, worker_process_init, worker_process_shutdown
from kombu.exceptions import OperationalError
from redis.connection import DefaultParser
from redis.exceptions import OutOfMemoryError, ReadOnlyError, TryAgainError

from forgepool.workers.queue import signing
from forgepool.workers.schema.orders import Message
from forgepool.worktrees.errors import InfrastructureError

log = structlog.get_logger()

PROTOCOL = 1
"""
The version of the messages. Within one, optional fields may be added, which older readers leave out; a change of
meaning is another version.
"""

Queue = str
ORDERS, REVIEWS, CHECKS, LANDINGS = "orders", "reviews", "checks", "landings"
QUEUES: tuple[Queue, ...] = (LANDINGS, CHECKS, REVIEWS, ORDERS)
"""In the order in which a worker with several of them takes messages."""


def queue_of_host(queue: Queue, host: str) -> Queue:
    """Return the queue whose messages only that host takes."""
    return f"{queue}.{quote(host, safe='')}"


BrokerAway = (
    redis.ConnectionError,
    redis.TimeoutError,
    OperationalError,
    OutOfMemoryError,
    ReadOnlyError,
    TryAgainError,
)
"""
The exceptions while Redis cannot be reached, or takes nothing for now: it is full, a replica, loading, or running a
script.

The caller waits and tries again; nothing is lost.
"""

RedisTrouble = redis.RedisError
"""Any complaint of Redis about a command, for callers that continue in any case."""

# The library has no class for these: a snapshot that cannot be written, a script that runs long, replicas that are
# gone. Without one they could not be told from a command that is wrong. Celery's client reads by the same table.
for _passing in ("MISCONF", "BUSY", "NOREPLICAS"):
    DefaultParser.EXCEPTION_CLASSES.setdefault(_passing, TryAgainError)

_IN_A_SCRIPT = re.compile(r" -(?:OOM|READONLY|MISCONF|BUSY|NOREPLICAS|LOADING|MASTERDOWN) ")


class Redis(redis.Redis):
    """A client that tells a script stopped by a full or busy Redis from a script that is wrong."""

    def eval(self, script: str, numkeys: int, *keys_and_args: Any) -> Any:
        try:
            return super().eval(script, numkeys, *keys_and_args)
        except redis.ResponseError as problem:
            # Before version 7 the reason is in the middle of a sentence about the script, where the library misses it.
            if _IN_A_SCRIPT.search(str(problem)):
                raise TryAgainError(str(problem)) from problem
            raise


_DECODING: Any = {"decode_responses": True, "encoding_errors": "backslashreplace"}
"""Bytes that are not text do not stop a reader: they are escaped, and match nothing."""
_SOCKET_OPTIONS: dict[str, Any] = {
    "socket_timeout": 15,
    "socket_connect_timeout": 5,
    "health_check_interval": 10,
}
_KEEPALIVE: dict[str, Any] = {"socket_keepalive": True}
"""Options for TCP connections alone."""
_TRANSPORT_OPTIONS: dict[str, Any] = {
    # Longer than any order; recovery never waits for it (see the module's text).
    "visibility_timeout": 24 * 3600,
    # A free process takes from the first of its queues that has a message; not from each in turn.
    "queue_order_strategy": "priority",
    **_SOCKET_OPTIONS,
}

app = Celery("forgepool")
app.conf.update(
    task_serializer="json",
    accept_content=["json"],
    task_ignore_result=True,
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=1,
    worker_hijack_root_logger=False,
    worker_redirect_stdouts=False,
    worker_enable_remote_control=False,
    worker_send_task_events=False,
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    broker_transport_options=_TRANSPORT_OPTIONS,
    task_default_queue=ORDERS,
    task_routes={
        "workers.entry.run_order": {"queue": ORDERS},
        "supervisor.entry.review": {"queue": REVIEWS},
        "supervisor.entry.check": {"queue": CHECKS},
        "supervisor.entry.land": {"queue": LANDINGS},
    },
    imports=("forgepool.workers.order.entry", "forgepool.supervisor.entry"),
)


class RegisteredJob(Protocol):
    """A function registered with the app, as a sender sees it."""

    name: str

    def apply_async(self, args: tuple[str, ...], *, task_id: str, **options: Any) -> object: ...


class BrokerRefused(InfrastructureError):
    """Redis refuses us, or cannot be used: a wrong password, database or URL. One sentence."""


def use_broker(url: str) -> None:
    """Point this process at the Redis behind `url`, and drop connections to an earlier one."""
    app._after_fork()
    if url.startswith("unix://"):
        app.conf.broker_url = url.replace("unix://", "redis+socket://", 1)
    else:
        app.conf.broker_url = url
        app.conf.broker_transport_options = _TRANSPORT_OPTIONS | _KEEPALIVE


def url_in_use() -> str:
    """Return the URL that `use_broker` was given."""
    return str(app.conf.broker_url).replace("redis+socket://", "unix://", 1)


def set_aside_strangers(client: Redis, *queues: Queue) -> None:
    """Rename the keys of these queues that hold no queue: no message could be sent there, or received."""
    for queue in queues:
        _set_aside_unless(client, queue, "list")
        _set_aside_unless(client, f"_kombu.binding.{queue}", "set")


def _set_aside_unless(client: Redis, key: str, kind: str) -> None:
    """Rename the key, if there is one, unless its value is of this kind."""
    if client.type(key) not in (kind, "none"):
        aside = f"forgepool:aside:{key}:{secrets.token_hex(4)}"
        client.rename(key, aside)
        log.warning("redis.set_aside", key=key, to=aside, why=f"it is no {kind}; another program uses the key")


WORKER_MODULES = (
    *("celery.apps.worker", "celery.concurrency.prefork", "celery.worker.autoscale", "celery.worker.components"),
    *("celery.worker.consumer", "kombu.transport.redis", "forgepool.workers.order.entry", "forgepool.supervisor.entry"),
)
"""The modules that every worker needs, and imports by itself only when it starts."""


CANNOT_START = 70
"""The exit status of a worker whose processes die before they can take a message."""
_IN_VAIN, _WITHIN_S = 5, 60.0


class _Births:
    """
    Ends this worker when five processes in a row, within a minute, died before they could take a message.

    Celery itself would start others without end. Processes that get going and die later are no matter here.
    """

    def __init__(self, concurrency: int) -> None:
        self._alive = concurrency
        self._at: list[float] = []
        self._going = mmap.mmap(-1, mmap.PAGESIZE)
        """Shared with the processes: each sets a byte when it is ready."""

    def note_birth(self) -> None:
        """Call in this process before another one is forked from it."""
        number = len(self._at)
        known = range(max(0, number - self._alive - _IN_VAIN), max(0, number - self._alive))
        in_vain = len(known) == _IN_VAIN and not any(self._going[one % mmap.PAGESIZE] for one in known)
        if in_vain and time.monotonic() < self._at[known[0]] + _WITHIN_S:
            os._exit(CANNOT_START)
        self._at.append(time.monotonic())
        self._going[number % mmap.PAGESIZE] = 0

    def note_start(self) -> None:
        """Call in the forked process when it is ready."""
        self._going[(len(self._at) - 1) % mmap.PAGESIZE] = 1


def serve_queues(
    queues: Sequence[Queue], concurrency: int, *, name: str, host: str, events: bool, at_process_end: Callable[[], None]
) -> None:
    """
    Serve messages of these queues, the first ones first, in `concurrency` processes, until SIGTERM. Messages come by
    the queue of this host alone, and then by the one that all share: no other host takes what waits in the former.

    With `events`, it also sends Celery's events and answers its remote control, which is not signed: a client of Redis
    can then stop the worker. Each process makes the call `at_process_end`.
    """
    app.conf.worker_enable_remote_control = events
    names = [name for queue in queues for name in (queue_of_host(queue, host), queue)]
    with suppress(*BrokerAway):
        set_aside_strangers(connect(url_in_use()), *names)
    # What is here stays. Unfrozen, each process' collector would write into it, and so copy the pages that all share.
    worker_before_create_process.connect(lambda **_: gc.freeze(), weak=False)
    births = _Births(concurrency)
    worker_before_create_process.connect(lambda **_: births.note_birth(), weak=False)
    worker_process_init.connect(lambda **_: births.note_start(), weak=False)
    worker_process_shutdown.connect(lambda **_: at_process_end(), weak=False)
    # Not by `worker_main`: the command line behind it imports a hundred modules more.
    app.Worker(
        queues=names,
        concurrency=concurrency,
        hostname=name,
        pool_cls="prefork",
        loglevel="WARNING",
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=not events,
        task_events=events,
    ).start()


def connect(url: str) -> Redis:
    """
    Make a client of the Redis behind `url` (`redis://`, `rediss://` or `unix://`); it connects at its first
    command.

    Raises:
        BrokerRefused: the URL has another form.
    """
    try:
        keepalive = {} if url.startswith("unix://") else _KEEPALIVE
        # The library types this method as if it made its own class.
        # Without `driver_info` it would tell its name and version first, which takes as long as the rest together.
        options = {"driver_info": None, **_DECODING, **_SOCKET_OPTIONS, **keepalive}
        return cast(Redis, Redis.from_url(url, **options))
    except ValueError as problem:
        raise BrokerRefused(
            f"broker URL '{without_password(url)}' is not usable: {problem}; "
            "give redis://:PASSWORD@HOST:PORT/0, rediss://... or unix:///PATH"
        ) from problem


def ping(client: Redis, url: str) -> None:
    """
    Check that Redis serves us.

    Raises:
        BrokerRefused: it refuses, or does not answer. One sentence with the mend.
    """
    shown = without_password(url)
    try:
        client.ping()
    except redis.AuthenticationError as problem:
        raise BrokerRefused(
            f"Redis at {shown} refuses the password; put the right one into FORGEPOOL_BROKER_URL "
            "(redis://:PASSWORD@HOST:PORT/0)"
        ) from problem
    except redis.ResponseError as problem:
        raise BrokerRefused(f"Redis at {shown} refuses us: {problem}") from problem
    except BrokerAway as problem:
        raise BrokerRefused(
            f"no Redis answers at {shown}; start one there, or leave out --broker to run on this machine alone"
        ) from problem


def send(job: RegisteredJob, message: Message, *, message_id: str, queue: Queue | None = None) -> None:
    """
    Put one message on a queue, by default the one that its job's workers share. It arrives at least once; the
    receiver drops repeats.

    Raises:
        BrokerAway: Redis cannot be reached; nothing was promised.
    """
    where = {} if queue is None else {"queue": queue}
    signed = signing.sign(message.encode(), job.name)

    def hand_over() -> None:
        # Celery's events show the arguments by these words: a message is long, and nothing for a monitor's page.
        job.apply_async((signed,), task_id=message_id, retry=False, argsrepr=f"({message_id},)", **where)

    try:
        hand_over()
    except (redis.ResponseError, OperationalError) as problem:
        if "WRONGTYPE" not in str(problem):
            raise
        set_aside_strangers(connect(url_in_use()), *QUEUES, *where.values())
        hand_over()


def count_waiting(client: Redis, queue: Queue) -> int:
    """Count the messages in a queue that no worker has taken yet; a key that holds no queue is set aside."""
    return int(ask_key(client, queue, "list", client.llen) or 0)


def ask_key(client: Redis, key: str, kind: str, ask: Callable[[str], Any]) -> Any:
    """Return the answer of Redis about a key. One whose value is of another kind is set aside, and None returned."""
    try:
        return ask(key)
    except redis.ResponseError as problem:
        if "WRONGTYPE" not in str(problem):
            raise
        _set_aside_unless(client, key, kind)
        return None


def address_of(url: str) -> str:
    """Return the URL without user, password and options, which may be secret; empty for an empty one."""
    scheme, separator, rest = url.partition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2].partition('?')[0]}"


def without_password(url: str) -> str:
    """Return the URL without its password, for messages."""
    scheme, separator, rest = url.partition("://")
    secret, at, host = rest.rpartition("@")
    return f"{scheme}{separator}{'***@' if at and secret else ''}{host}"
