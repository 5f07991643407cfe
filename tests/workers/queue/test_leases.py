"""At most one process works on a message, its lease is visible to all, and losing Redis loses no work."""

import time
from collections.abc import Callable

import pytest
from servers import RedisServer

from forgepool.workers.queue.broker import Redis, connect
from forgepool.workers.queue.leases import Holder, Lease, claim, fence, holders, keep_lease, present


def claimed(redis: Redis, message_id: str = "m", *, token: str = "t", ttl_s: float = 30.0) -> Lease:
    lease = claim(redis, message_id, token=token, host="h", ttl_s=ttl_s)
    assert isinstance(lease, Lease), lease
    return lease


def eventually(what: Callable[[], bool], within_s: float = 5.0) -> None:
    until = time.monotonic() + within_s
    while not what():
        assert time.monotonic() < until, "it did not come about"
        time.sleep(0.01)


def test_a_message_is_in_one_hand_at_a_time(redis: Redis) -> None:
    lease = claimed(redis)
    assert claim(redis, "m", token="t", host="other", ttl_s=30.0) == "held"
    assert holders(redis, ["m", "n"]) == {"m": lease.holder}
    lease.release()
    assert holders(redis, ["m"]) == {}
    claimed(redis)


@pytest.mark.parametrize(
    "junk",
    [
        "",
        "x",
        "[]",
        "{}",
        '{"token": "t", "host": "h", "pid": "many"}',
        '{"token": "t", "host": "h", "pid": 1e999}',
        b"\xff\xfe",
    ],
)
def test_a_lease_and_a_worker_that_cannot_be_read_are_removed(redis: Redis, junk: str | bytes) -> None:
    """The message is then sent again; with the broken key it would be held forever."""
    assert isinstance(claim(redis, "good", token="t", host="h", ttl_s=30.0), Lease)
    redis.set("forgepool:lease:bad", junk)
    redis.set("forgepool:worker:bad", junk)
    assert set(holders(redis, ["good", "bad"])) == {"good"}
    assert present(redis) == ()
    assert list(redis.scan_iter(match="*bad*")) == []
    assert isinstance(claim(redis, "bad", token="t", host="h", ttl_s=30.0), Lease)


def test_nobody_is_asked_of_nothing(redis: Redis) -> None:
    assert holders(redis, []) == {}


def test_a_lease_that_is_not_renewed_runs_out(redis: Redis) -> None:
    claimed(redis, ttl_s=0.05)
    eventually(lambda: holders(redis, ["m"]) == {})
    claimed(redis, token="next")


def test_a_lease_that_is_kept_outlives_its_time(redis: Redis) -> None:
    with keep_lease(claimed(redis, ttl_s=0.2)) as lease:
        began = time.monotonic()
        while time.monotonic() < began + 0.5:
            assert holders(redis, ["m"]) == {"m": lease.holder}
            time.sleep(0.01)
        assert not lease.is_lost()
    assert holders(redis, ["m"]) == {}


def test_a_fence_ends_whoever_holds_the_message_and_lets_nobody_begin_it(redis: Redis) -> None:
    with keep_lease(claimed(redis, ttl_s=0.2)) as lease:
        fence(redis, "m")
        eventually(lease.is_lost)
    assert claim(redis, "m", token="t", host="h", ttl_s=1.0) == "fenced"
    claimed(redis, "another")


def test_a_message_that_is_done_is_not_begun_again(redis: Redis) -> None:
    redis.set("forgepool:done:m", "1")
    assert claim(redis, "m", token="t", host="h", ttl_s=1.0) == "done"


def test_after_redis_lost_everything_the_holder_takes_its_lease_again(redis: Redis) -> None:
    lease = claimed(redis)
    redis.flushall()
    lease.renew()
    assert not lease.is_lost()
    assert holders(redis, ["m"]) == {"m": lease.holder}


def test_a_lease_that_somebody_else_took_meanwhile_is_lost_for_ever(redis: Redis) -> None:
    lease = claimed(redis, token="old")
    redis.flushall()
    other = claimed(redis, token="new")
    lease.renew()
    assert lease.is_lost()
    lease.release()
    assert holders(redis, ["m"]) == {"m": other.holder}, "one does not give back what is another's"
    other.release()
    lease.renew()
    assert lease.is_lost()


def test_a_lease_is_not_taken_again_once_the_message_is_done(redis: Redis) -> None:
    lease = claimed(redis)
    lease.release()
    redis.set("forgepool:done:m", "1")
    lease.renew()
    assert lease.is_lost() and holders(redis, ["m"]) == {}


def test_an_unreachable_redis_takes_nothing_from_the_holder(start_redis: Callable[..., RedisServer]) -> None:
    server = start_redis()
    client = connect(server.url)
    lease = claimed(client)
    server.kill()
    lease.renew()
    assert not lease.is_lost()
    server.start()
    lease.renew()
    assert holders(client, ["m"]) == {"m": lease.holder}
    client.close()


@pytest.mark.parametrize("holder", [Holder("t", "h", 7), Holder('"', "a b:c/d", 0)])
def test_a_holder_is_read_as_it_was_written(holder: Holder) -> None:
    assert Holder.decode(holder.encode()) == holder
