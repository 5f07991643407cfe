"""
Answers to a run: one Redis stream per run, which workers write and the run's orchestrator reads.

A stream takes 0.7 ms from the end of a task to its reader, however many tasks are outstanding. It survives a restart
of the orchestrator. Celery's result backend is not used: polling it costs a hundred times the commands.
"""

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Literal, cast

import structlog

from forgepool.workers.queue.broker import BrokerAway, Redis, ask_key
from forgepool.workers.queue.leases import keep_s, key_of_done
from forgepool.workers.queue.signing import NotSigned, sign, verify
from forgepool.workers.schema.orders import LimitKind, Message, Spent, WorkOrder

log = structlog.get_logger()

_KEPT_ANSWERS = 20_000
MOST_READ = 1000
"""Entries of a stream that are read at once."""
_ANSWER_FOR_S = 900.0
"""Seconds a finished worker keeps trying to tell an unreachable Redis; the candidate is in the hub already."""


class MessageStarted(Message):
    """A worker has begun a message."""

    kind: Literal["started"] = "started"
    message_id: str
    token: str
    host: str
    pid: int


class WorkNote(Message):
    """A worker's last word on an attempt that was stopped, and whose result nothing waits for: its files, its use."""

    kind: Literal["work_kept"] = "work_kept"
    order_id: str
    commit: str
    withheld: str = ""
    """The reason why the hub does not have the commit, as in a result."""
    spent: Spent | None = None
    """Its use, with that of the attempts it resumed; None from workers that do not tell."""
    models: tuple[str, ...] = ()
    families: tuple[str, ...] = ()


class MessageRefused(Message):
    """
    A host's note that it has refused a message, or the reader's note of an entry that it has refused.

    Its writer may have no key, so nothing follows from it but a sentence and another delivery of the message.
    """

    kind: Literal["message_refused"] = "message_refused"
    message_id: str
    host: str
    why: str


def _stream(run: str) -> str:
    return f"forgepool:answers:{run}"


def tell(client: Redis, run: str, note: Message) -> None:
    """Add a note to the run's stream. A lost note does no harm."""
    client.xadd(_stream(run), _signed(run, note), maxlen=_KEPT_ANSWERS, approximate=True)


def _signed(run: str, note: Message) -> Any:
    return {"m": sign(note.encode(), _stream(run))}


def answer(client: Redis, run: str, message_id: str, result: Message) -> None:
    """
    Add the answer to a message and mark the message as done: both or neither.

    An unreachable Redis is waited for, at most a quarter of an hour; the sender asks again for a missing answer.

    Raises:
        BrokerAway: Redis stayed away all that time.
    """
    give_up = time.monotonic() + _ANSWER_FOR_S
    pause_s = 0.1
    while True:
        try:
            with client.pipeline(transaction=True) as both:
                both.xadd(_stream(run), _signed(run, result), maxlen=_KEPT_ANSWERS, approximate=True)
                both.set(key_of_done(message_id), "1", ex=keep_s())
                both.execute()
            return
        except BrokerAway:
            if time.monotonic() > give_up:
                raise
            time.sleep(pause_s)
            pause_s = min(5.0, pause_s * 2)


def read(client: Redis, run: str, *, after: str, wait_s: float) -> Iterator[tuple[str, str]]:
    """
    Yield stream ids and texts after the id `after` ("0-0" for all), waiting up to `wait_s` seconds for the first. A key
    that holds no stream is set aside.
    """
    wait_ms = max(1, int(wait_s * 1000))
    reply = ask_key(
        client, _stream(run), "stream", lambda key: client.xread({key: after}, count=MOST_READ, block=wait_ms)
    )
    for _, entries in cast(list[tuple[str, list[tuple[str, dict[str, str]]]]], reply or []):
        for entry_id, fields in entries:
            # A stranger's entry has no such field: its reader leaves out what is no answer, and reads on after it.
            yield entry_id, fields.get("m", "")


def verify_answer(run: str, written: str) -> str:
    """
    Return the text of an entry of the run's stream.

    Raises:
        NotSigned: it is not signed by one of the fleet.
    """
    return verify(written, _stream(run))


_FIRST_LOOK_S, _LOOK_S = 0.02, 0.5
"""Seconds between looks for the answer, which grow: an orchestrator is seldom away."""
_ASK_AGAIN_S = 2.0
_KEEP_S = 24 * 3600
_NUMBER_BITS = 53
"""The bits that every reader of JSON keeps in a whole number."""


class PathRequest(Message):
    """A running attempt's question whether its order may touch these paths too."""

    kind: Literal["paths_asked"] = "paths_asked"
    order_id: str
    token: str
    number: int
    """The number of the question: the same number is the same question, whichever host repeats it. It has no order."""
    paths: tuple[str, ...]


class PathsAnswer(Message):
    verdict: Literal["granted", "queued", "refused"]
    """The verdict. `queued`: another task holds or reads some of them; this task gets them at its next start."""
    why: str = ""
    """One sentence where they are not granted."""

    @property
    def granted(self) -> bool:
        return self.verdict == "granted"


def ask_paths(
    client: Redis,
    order: WorkOrder,
    paths: Sequence[str],
    *,
    stop: Callable[[], bool],
    left_s: Callable[[], float],
) -> PathsAnswer:
    """
    Ask the orchestrator for paths, and return its answer.

    It answers at once; only an absent orchestrator or Redis makes it take longer. The task may hold some of the
    paths already. The answer is `refused` too when `stop` turns true or no time is left.

    The question goes into the run's stream, and the answer is a key of its own. Redis may lose either, so the
    question is repeated every few seconds and gets the same answer. No attempt waits for paths that another task
    holds: it ends, and its task starts again with these paths when they are free.
    """
    # By chance, not by the clock: an order delivered again may be asking on a host whose clock is behind.
    question = PathRequest(
        order_id=order.order_id, token=order.token, number=secrets.randbits(_NUMBER_BITS), paths=tuple(paths)
    )
    ask_at = 0.0
    look_s = _FIRST_LOOK_S
    while not stop() and left_s() > 0:
        if time.monotonic() >= ask_at:
            ask_at = time.monotonic() + _ASK_AGAIN_S
            _ask(client, order, question)
        answer = _answer(client, question)
        if answer is not None:
            return answer
        time.sleep(look_s)
        look_s = min(_LOOK_S, look_s * 1.5)
    return PathsAnswer(verdict="refused", why="the attempt ended before the orchestrator answered")


def reply(client: Redis, order_id: str, number: int, answer: PathsAnswer) -> None:
    """Answer a question; a repeated answer says the same."""
    key = _key(order_id, number)
    client.set(key, sign(answer.encode(), key), ex=_KEEP_S)


class MoneyRequest(Message):
    """A running attempt's request for a larger part of the run's budget. It is idempotent: it says what it has."""

    kind: Literal["money_asked"] = "money_asked"
    order_id: str
    token: str
    kinds: tuple[LimitKind, ...]
    """The limits that are nearly reached."""
    has_usd: float | None = None
    """Its limits as it knows them."""
    has_tokens: int | None = None
    needs_usd: float = 0.0
    """The least beyond them that its next call needs; 0 where it can still go on."""
    needs_tokens: int = 0


class MoneyAnswer(Message):
    verdict: Literal["granted", "queued"]
    """`queued`: too little is left; the same key says `granted` once enough has come back."""
    usd: float | None = None
    """The limits of its order now."""
    tokens: int | None = None
    needs_usd: float = 0.0
    """The request that is answered."""
    needs_tokens: int = 0


def ask_money(client: Redis, order: WorkOrder, request: MoneyRequest) -> None:
    """Put the request into the run's stream. It may be lost, and is repeated."""
    _ask(client, order, request)


def read_money(client: Redis, order_id: str) -> MoneyAnswer | None:
    """Return the last answer to an attempt's requests, if there is one."""
    written = _read_answer(client, _money_key(order_id), order_id)
    return None if written is None else MoneyAnswer.model_validate_json(written)


def reply_money(client: Redis, order_id: str, answer: MoneyAnswer) -> None:
    key = _money_key(order_id)
    client.set(key, sign(answer.encode(), key), ex=_KEEP_S)


def _money_key(order_id: str) -> str:
    return f"forgepool:money:{order_id}"


def _ask(client: Redis, order: WorkOrder, question: PathRequest | MoneyRequest) -> None:
    try:
        tell(client, order.run, question)
    except BrokerAway:
        return


def _answer(client: Redis, question: PathRequest) -> PathsAnswer | None:
    written = _read_answer(client, _key(question.order_id, question.number), question.order_id)
    return None if written is None else PathsAnswer.model_validate_json(written)


def _read_answer(client: Redis, key: str, order_id: str) -> str | None:
    try:
        written = cast(str | None, client.get(key))
        return None if written is None else verify(written, key)
    except BrokerAway:
        return None
    except NotSigned as refused:
        log.warning("answer.refused", order_id=order_id, why=str(refused))
        with suppress(*BrokerAway):  # the orchestrator's own answer comes to the next question
            client.delete(key)
        return None


def _key(order_id: str, number: int) -> str:
    return f"forgepool:paths:{order_id}:{number}"
