"""A run at work announces itself to the others. A run that is gone, or forged, does not count."""

import time

import pytest

from forgepool.workers.queue import run_presence
from forgepool.workers.queue.broker import Redis
from forgepool.workers.queue.run_presence import RunPresence, announce_run, is_run_alive, list_runs, withdraw_run
from forgepool.workers.queue.signing import sign

A = RunPresence(run="a", hub="/hub", target="t", weight=3, running=2, waiting=1, paths=("src/*",))
B = RunPresence(run="b", hub="/hub", target="t")
KEY = "k" * 32


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FORGEPOOL_FLEET_KEY", "FORGEPOOL_FLEET_KEY_FILE"):
        monkeypatch.delenv(name, raising=False)


def seen(redis: Redis) -> list[RunPresence]:
    return [one.model_copy(update={"at": 0.0}) for one in list_runs(redis)]


def test_runs_see_one_another_until_they_leave(redis: Redis) -> None:
    announce_run(redis, B)
    announce_run(redis, A)
    assert seen(redis) == [A, B] and is_run_alive(redis, "a")
    withdraw_run(redis, "a")
    assert seen(redis) == [B] and not is_run_alive(redis, "a")


def test_a_run_that_no_longer_announces_itself_is_gone(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_presence, "LIFE_S", 0.05)
    announce_run(redis, A)
    time.sleep(0.1)
    assert not is_run_alive(redis, "a") and seen(redis) == []
    assert redis.keys("forgepool:run*") == [], "and nothing of it is left"


def test_an_emptied_redis_knows_a_run_again_at_its_next_word(redis: Redis) -> None:
    announce_run(redis, A)
    redis.flushdb()
    assert seen(redis) == []
    announce_run(redis, A)
    assert seen(redis) == [A]


def test_what_a_later_version_adds_is_left_out_and_junk_is_removed(redis: Redis) -> None:
    announce_run(redis, A)
    for run, text in (("junk", "{"), ("odd", '{"run": 1}'), ("many", A.encode().replace('"weight":3', '"weight":-1'))):
        redis.set(f"forgepool:run:{run}", text)
        redis.sadd("forgepool:runs", run)
    redis.hset("forgepool:run:hash", "a", "b")
    redis.sadd("forgepool:runs", "hash", "gone")
    redis.set("forgepool:run:b", B.encode().replace("{", '{"later": 1, ', 1))
    redis.sadd("forgepool:runs", "b")
    assert seen(redis) == [A, B] == seen(redis)
    assert not is_run_alive(redis, "junk") and not is_run_alive(redis, "hash")


def test_a_key_of_another_program_in_the_place_of_the_list_is_set_aside(redis: Redis) -> None:
    redis.set("forgepool:runs", "mine")
    assert seen(redis) == []
    redis.delete("forgepool:runs")
    redis.set("forgepool:runs", "mine")
    announce_run(redis, A)
    announce_run(redis, A)
    assert seen(redis) == [A]
    assert [redis.get(key) for key in redis.scan_iter("forgepool:aside:*")] == ["mine", "mine"]


def test_with_a_key_only_what_the_fleet_has_signed_for_that_run_and_lately_counts(
    redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    announce_run(redis, A)
    monkeypatch.setenv("FORGEPOOL_FLEET_KEY", KEY)
    assert seen(redis) == [] and not is_run_alive(redis, "a")
    announce_run(redis, A)
    assert seen(redis) == [A] and is_run_alive(redis, "a")
    redis.sadd("forgepool:runs", "b")
    redis.copy("forgepool:run:a", "forgepool:run:b")
    assert seen(redis) == [A] and not is_run_alive(redis, "b"), "no run speaks for another"
    old = A.model_copy(update={"at": time.time() - 2 * 3600})
    redis.set("forgepool:run:a", sign(old.encode(), "forgepool:run:a"))
    assert not is_run_alive(redis, "a"), "a stranger may write again what was signed long ago"
    monkeypatch.delenv("FORGEPOOL_FLEET_KEY")
    assert seen(redis) == [], "and who has no key cannot know"
    assert redis.exists("forgepool:run:a"), "but leaves it to the others"
