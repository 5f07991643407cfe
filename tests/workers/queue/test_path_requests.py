"""A question about paths gets its answer, even if Redis loses the question or the answer."""

import threading
import time
from collections.abc import Callable

import pytest

from forgepool.workers.queue.broker import Redis
from forgepool.workers.queue.replies import PathRequest, PathsAnswer, ask_paths, read, reply
from forgepool.workers.schema.orders import CommandAgent, WorkOrder

ORDER = WorkOrder(
    order_id="r.a.1",
    token="t",
    run="r",
    task="a",
    attempt=1,
    hub="/hub",
    target="t",
    base="b",
    title="a",
    agent=CommandAgent(run="true"),
    issued_at=1.0,
    start_by=2.0,
)


class Asking(threading.Thread):
    """A thread that asks, and the answer it got."""

    def __init__(self, redis: Redis, *, stop: Callable[[], bool] = lambda: False, left_s: float = 30.0) -> None:
        super().__init__(daemon=True)
        self.redis, self.stop, self.ends_at = redis, stop, time.monotonic() + left_s
        self.answer: PathsAnswer | None = None
        self.start()

    def run(self) -> None:
        left_s = lambda: self.ends_at - time.monotonic()  # noqa: E731 - a function of one line
        self.answer = ask_paths(self.redis, ORDER, ["x", "y"], stop=self.stop, left_s=left_s)

    def ended(self) -> PathsAnswer:
        self.join(timeout=20)
        assert self.answer is not None, "it still waits"
        return self.answer


def question(redis: Redis) -> PathRequest:
    """Wait for the question in the run's stream, and return it."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        for _, text in read(redis, "r", after="0-0", wait_s=0.2):
            return PathRequest.model_validate_json(text)
    raise AssertionError("nothing was asked")


@pytest.mark.parametrize("answer", [PathsAnswer(verdict="granted"), PathsAnswer(verdict="queued", why="b holds x")])
def test_an_answer_reaches_who_asked(redis: Redis, answer: PathsAnswer) -> None:
    asking = Asking(redis)
    asked = question(redis)
    assert (asked.order_id, asked.token, asked.paths) == ("r.a.1", "t", ("x", "y"))
    reply(redis, asked.order_id, asked.number, answer)
    assert asking.ended() == answer


def test_a_question_that_redis_lost_is_asked_again_under_its_number(redis: Redis) -> None:
    asking = Asking(redis)
    first = question(redis)
    redis.flushall()
    again = question(redis)
    assert again == first
    reply(redis, again.order_id, again.number, PathsAnswer(verdict="granted"))
    assert asking.ended().granted


def test_an_answer_to_another_question_is_not_taken(redis: Redis) -> None:
    reply(redis, "r.a.1", 1, PathsAnswer(verdict="granted"))
    asking = Asking(redis, left_s=0.3)
    assert not asking.ended().granted


def test_another_question_has_another_number(redis: Redis) -> None:
    first = Asking(redis, left_s=0.1)
    one = question(redis)
    first.ended()
    redis.flushall()
    Asking(redis, left_s=0.1).ended()
    assert question(redis).number != one.number


def test_waiting_ends_when_the_attempt_does(redis: Redis) -> None:
    over = threading.Event()
    asking = Asking(redis, stop=over.is_set)
    question(redis)
    over.set()
    said = asking.ended()
    assert not said.granted and "attempt ended" in said.why
