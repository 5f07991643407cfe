"""Answers arrive in order, none is lost between reads, and an answer is stored together with its done mark."""

import threading
import time
from collections.abc import Callable

import pytest
from servers import RedisServer

from forgepool.workers.queue.broker import BrokerAway, Redis, connect
from forgepool.workers.queue.leases import Lease, Present, announce, claim, key_of_done, present, slots, withdraw
from forgepool.workers.queue.replies import MessageStarted, answer, read, tell
from forgepool.workers.schema.orders import WorkResult


def result(number: int) -> WorkResult:
    return WorkResult(order_id=f"r.t.{number}", token="t", outcome="no_change")


def texts(redis: Redis, *, after: str = "0-0", run: str = "r") -> list[str]:
    return [text for _, text in read(redis, run, after=after, wait_s=0.01)]


def test_answers_are_read_in_the_order_they_were_given(redis: Redis) -> None:
    for number in range(1, 30):
        answer(redis, "r", f"m{number}", result(number))
    assert texts(redis) == [result(number).encode() for number in range(1, 30)]
    assert texts(redis, run="another") == []


def test_reading_goes_on_where_it_ended(redis: Redis) -> None:
    tell(redis, "r", result(1))
    (last, _), *_ = read(redis, "r", after="0-0", wait_s=0.01)
    assert texts(redis, after=last) == []
    tell(redis, "r", result(2))
    assert texts(redis, after=last) == [result(2).encode()]


def test_an_answer_given_while_somebody_waits_is_read_at_once(redis: Redis, redis_url: str) -> None:
    other = connect(redis_url)
    giving = threading.Timer(0.05, answer, (other, "r", "m", result(1)))
    giving.start()
    assert [text for _, text in read(redis, "r", after="0-0", wait_s=10.0)] == [result(1).encode()]
    giving.join()
    other.close()


def test_another_connection_reads_all_answers_from_the_beginning(redis: Redis, redis_url: str) -> None:
    answer(redis, "r", "m", result(1))
    list(read(redis, "r", after="0-0", wait_s=0.01))
    other = connect(redis_url)
    assert texts(other) == [result(1).encode()]
    other.close()


def test_an_answered_message_is_not_begun_again(redis: Redis) -> None:
    assert isinstance(claim(redis, "m", token="t", host="h", ttl_s=30.0), Lease)
    answer(redis, "r", "m", result(1))
    assert claim(redis, "m", token="t", host="h", ttl_s=30.0) == "done"


def test_answer_and_done_mark_are_kept_both_or_neither(start_redis: Callable[..., RedisServer]) -> None:
    """A full Redis refuses the answer, which waits. Until then the message must not count as answered."""
    client = connect(start_redis().url)
    client.config_set("maxmemory", 1)
    giving = threading.Thread(target=answer, args=(client, "r", "m", result(1)), daemon=True)
    giving.start()
    until = time.monotonic() + 15
    while not client.info("errorstats").get("errorstat_OOM") and time.monotonic() < until and giving.is_alive():
        time.sleep(0.01)
    assert giving.is_alive(), "it waits"
    assert texts(client) == [] and not client.exists(key_of_done("m"))
    client.config_set("maxmemory", 0)
    giving.join(timeout=30)
    assert len(texts(client)) == 1 and client.exists(key_of_done("m"))
    client.close()


def test_an_answer_waits_for_a_redis_that_is_away(start_redis: Callable[..., RedisServer]) -> None:
    server = start_redis()
    client = connect(server.url)
    client.ping()
    server.kill()
    back = threading.Timer(0.2, lambda: None)
    giving = threading.Thread(target=answer, args=(client, "r", "m", result(1)))
    giving.start()
    back.start()
    back.join()
    server.start()
    giving.join(timeout=20)
    assert texts(client) == [result(1).encode()]
    client.close()


def test_a_note_is_not_waited_for(start_redis: Callable[..., RedisServer]) -> None:
    server = start_redis()
    client = connect(server.url)
    server.kill()
    with pytest.raises(BrokerAway):
        tell(client, "r", MessageStarted(message_id="m", token="t", host="h", pid=1))
    client.close()


def test_who_has_announced_itself_is_present_until_it_withdraws(redis: Redis) -> None:
    one = Present(host="a", pid=1, queues=("orders",), concurrency=2, since=1.0)
    other = Present(host="b", pid=1, queues=("orders", "checks"), concurrency=3, since=1.0)
    assert present(redis) == ()
    announce(redis, other)
    announce(redis, one)
    announce(redis, one)
    assert present(redis) == (one, other)
    assert 0 < int(redis.pttl("forgepool:worker:a:1:orders")) <= 15_000, "who dies is forgotten"
    withdraw(redis, other)
    assert present(redis) == (one,)


def test_slots_are_those_of_the_workers_that_listen() -> None:
    workers = tuple(
        Present(host=host, pid=1, queues=queues, concurrency=count, since=1.0)
        for host, queues, count in (("a", ("orders",), 2), ("b", ("orders", "checks"), 3), ("c", ("checks",), 5))
    )
    assert [slots(workers, queue) for queue in ("orders", "checks", "reviews")] == [5, 8, 0]
