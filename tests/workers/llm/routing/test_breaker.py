"""All workers know what one of them learns about an account or a model, and a missing Redis stops no worker."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from servers import RedisServer

from forgepool.workers.llm.provider import ModelFailed, Trouble
from forgepool.workers.llm.routing import breaker
from forgepool.workers.llm.routing.breaker import (
    Breaker,
    Free,
    Health,
    Limit,
    Pair,
    Probe,
    Shut,
    Verdict,
    after_failure,
    claim_try,
    judge_health,
)
from forgepool.workers.queue.broker import Redis, connect

OPUS, HAIKU, GPT = ("anthropic", "opus"), ("anthropic", "haiku"), ("openai", "gpt")
NOW = 1_800_000_000.0


@dataclass
class Fleet:
    """Workers with their own memories and one clock, which share only Redis."""

    redis: Redis | None
    now: float = NOW
    workers: list[Breaker] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.workers = [Breaker(client=self.redis, clock=lambda: self.now) for _ in range(3)]

    def fail(self, pair: Pair, trouble: Trouble = "server", times: int = 1, resets_in_s: float | None = None) -> None:
        """Let calls fail, each at another worker."""
        resets_at = None if resets_in_s is None else self.now + resets_in_s
        for number in range(times):
            self.workers[number % 3].note(pair, ModelFailed(f"{trouble}!", trouble=trouble, resets_at=resets_at))

    def seen(self, pair: Pair) -> Verdict:
        """Return what the workers see, which must be the same for all."""
        found = [worker.look([pair])[pair] for worker in self.workers]
        assert found == [found[0]] * 3
        return found[0]

    def shut_for_s(self, pair: Pair) -> float:
        found = self.seen(pair)
        assert isinstance(found, Shut), found
        return found.until - self.now


@pytest.fixture
def fleet(redis: Redis) -> Fleet:
    return Fleet(redis)


def test_a_usage_limit_shuts_all_models_of_its_account_for_everybody_until_its_reset(fleet: Fleet) -> None:
    fleet.fail(OPUS, "usage_limit", resets_in_s=7200.0)
    assert fleet.seen(OPUS) == fleet.seen(HAIKU) == Shut(until=NOW + 7200, why="usage_limit!", trouble="usage_limit")
    assert fleet.seen(GPT) == Free()
    fleet.now += 7200
    assert fleet.seen(OPUS) == fleet.seen(HAIKU) == Free()


def test_a_usage_limit_without_a_reset_is_taken_to_last_a_quarter_of_an_hour(fleet: Fleet) -> None:
    fleet.fail(OPUS, "usage_limit")
    assert fleet.shut_for_s(HAIKU) == 900.0


@pytest.mark.parametrize("shared", [True, False])
def test_of_two_limits_the_later_holds_whoever_met_it(redis: Redis, shared: bool) -> None:
    """A limit of a month does not end with a limit of a minute that is met in between."""
    fleet = Fleet(redis if shared else None)
    one = fleet.workers[0]
    for resets_in_s in (None, 7200.0, None, 60.0):
        worker = fleet.workers[2] if shared and resets_in_s == 60.0 else one
        resets_at = None if resets_in_s is None else NOW + resets_in_s
        worker.note(OPUS, ModelFailed("no more", trouble="usage_limit", resets_at=resets_at))
    for worker in fleet.workers if shared else [one]:
        found = worker.look([OPUS])[OPUS]
        assert isinstance(found, Shut) and found.until == NOW + 7200


@pytest.mark.parametrize("resets_in_s", [0.0, -5.0])
def test_a_usage_limit_that_is_said_to_be_over_is_taken_to_last_a_quarter_of_an_hour(
    fleet: Fleet, resets_in_s: float
) -> None:
    """It was met just now, so it cannot be over."""
    fleet.fail(OPUS, "usage_limit", resets_in_s=resets_in_s)
    assert fleet.shut_for_s(HAIKU) == 900.0


def test_a_try_that_was_given_back_is_anybodys_at_once(fleet: Fleet) -> None:
    """Only its owner can give it back; another worker's try continues."""
    fleet.fail(OPUS, times=breaker.MOST_FAILURES)
    fleet.now += 30
    one, other = fleet.workers[:2]
    one.look([OPUS])
    assert one.claim(OPUS)
    other.look([OPUS])
    other.give_back(OPUS)
    assert isinstance(fleet.seen(OPUS), Shut)
    one.give_back(OPUS)
    assert fleet.seen(OPUS) == Probe()


def test_a_redis_that_says_what_nobody_expects_stops_nobody(fleet: Fleet, redis: Redis) -> None:
    """Our key holds another type of value, or bytes that are no text."""
    for pair in (OPUS, GPT):
        for key in breaker._keys(*pair):
            redis.lpush(key, "x") if pair == OPUS else redis.set(key, b"\xff\xfe")
        one = Breaker(client=redis, clock=lambda: fleet.now)
        assert one.look([pair])[pair] == Free()
        one = Breaker(client=redis, clock=lambda: fleet.now)
        one.note(pair, ModelFailed("no more", trouble="usage_limit"))
        assert isinstance(one.look([pair])[pair], Shut)


def test_a_long_rate_limit_shuts_one_model_and_a_short_one_none(fleet: Fleet) -> None:
    fleet.fail(HAIKU, "rate_limit", resets_in_s=30.0)
    assert fleet.seen(HAIKU) == Free()
    fleet.fail(OPUS, "rate_limit", resets_in_s=300.0)
    assert fleet.shut_for_s(OPUS) == 300.0
    assert fleet.seen(HAIKU) == Free()


def test_an_answer_does_not_open_what_a_limit_has_shut(fleet: Fleet) -> None:
    fleet.fail(OPUS, "usage_limit", resets_in_s=7200.0)
    fleet.workers[1].praise(OPUS)
    assert fleet.shut_for_s(OPUS) == 7200.0


@pytest.mark.parametrize("trouble", sorted(breaker.FAILURES))
def test_failures_in_a_row_across_workers_shut_a_model_for_half_a_minute(fleet: Fleet, trouble: Trouble) -> None:
    fleet.fail(OPUS, trouble, times=breaker.MOST_FAILURES - 1)
    assert fleet.seen(OPUS) == Free()
    fleet.fail(OPUS, trouble)
    assert fleet.seen(OPUS) == Shut(until=NOW + 30, why=f"{trouble}!", trouble=trouble)
    assert fleet.seen(HAIKU) == Free()


def test_an_answer_between_them_makes_them_no_row(fleet: Fleet) -> None:
    fleet.fail(OPUS, times=breaker.MOST_FAILURES - 1)
    fleet.workers[2].praise(OPUS)
    fleet.fail(OPUS, times=breaker.MOST_FAILURES - 1)
    assert fleet.seen(OPUS) == Free()


def test_failures_long_ago_do_not_count(fleet: Fleet) -> None:
    fleet.fail(OPUS, times=breaker.MOST_FAILURES - 1)
    fleet.now += breaker.WINDOW_S + 1
    fleet.fail(OPUS)
    assert fleet.seen(OPUS) == Free()


def test_after_a_pause_one_worker_tries_and_its_answer_opens_for_all(fleet: Fleet) -> None:
    fleet.fail(OPUS, times=breaker.MOST_FAILURES)
    assert not fleet.workers[0].claim(OPUS), "the pause is not over"
    fleet.now += 30
    assert fleet.seen(OPUS) == Probe()
    assert [worker.claim(OPUS) for worker in fleet.workers] == [True, False, False]
    assert isinstance(fleet.seen(OPUS), Shut)
    fleet.workers[0].praise(OPUS)
    assert fleet.seen(OPUS) == Free()


def test_at_the_same_instant_only_one_gets_to_try(redis: Redis) -> None:
    fleet = Fleet(redis)
    fleet.fail(OPUS, times=breaker.MOST_FAILURES)
    fleet.now += 30
    crowd = [Breaker(client=redis, clock=lambda: fleet.now) for _ in range(8)]
    for one in crowd:
        one.look([OPUS])
    gate, got = threading.Barrier(len(crowd)), list[bool]()

    def rush(one: Breaker) -> None:
        gate.wait()
        got.append(one.claim(OPUS))

    threads = [threading.Thread(target=rush, args=(one,)) for one in crowd]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got) == [False] * 7 + [True]


def test_a_try_that_fails_doubles_the_pause_up_to_ten_minutes(fleet: Fleet) -> None:
    fleet.fail(OPUS, times=breaker.MOST_FAILURES)
    pauses = []
    for _ in range(7):
        pauses.append(fleet.shut_for_s(OPUS))
        fleet.now += pauses[-1]
        assert fleet.workers[0].claim(OPUS)
        fleet.fail(OPUS)
    assert pauses == [30, 60, 120, 240, 480, 600, 600]


def test_calls_that_were_under_way_when_the_pause_began_do_not_make_it_longer(fleet: Fleet) -> None:
    fleet.fail(OPUS, times=3 * breaker.MOST_FAILURES)
    assert fleet.shut_for_s(OPUS) == 30.0


def test_a_try_that_nobody_hears_of_again_is_followed_by_another(fleet: Fleet) -> None:
    fleet.fail(OPUS, times=breaker.MOST_FAILURES)
    fleet.now += 30
    assert fleet.seen(OPUS) == Probe() and fleet.workers[0].claim(OPUS)
    assert fleet.shut_for_s(OPUS) == breaker.PROBE_S
    fleet.now += breaker.PROBE_S
    assert fleet.seen(OPUS) == Probe() and fleet.workers[1].claim(OPUS)


@pytest.mark.parametrize("trouble", sorted(breaker.ALIVE))
def test_trouble_that_only_a_working_model_makes_ends_a_row(fleet: Fleet, trouble: Trouble) -> None:
    fleet.fail(OPUS, times=breaker.MOST_FAILURES - 1)
    fleet.fail(OPUS, trouble, resets_in_s=1.0)
    fleet.now += 1
    fleet.fail(OPUS)
    assert fleet.seen(OPUS) == Free()


def test_looking_at_many_is_one_command_and_praise_another(redis: Redis) -> None:
    def commands() -> int:
        return int(redis.info("stats")["total_commands_processed"])

    one = Breaker(client=redis)
    before = commands()
    assert one.look([OPUS, HAIKU, GPT]) == {OPUS: Free(), HAIKU: Free(), GPT: Free()}
    assert commands() - before == 2, "this question and that one"
    one.praise(OPUS)
    assert commands() - before == 4


def test_what_is_kept_in_redis_goes_by_itself(fleet: Fleet, redis: Redis) -> None:
    fleet.fail(OPUS, "usage_limit", resets_in_s=100.0)
    fleet.fail(GPT)
    kept = list(redis.scan_iter("*"))
    assert len(kept) == 2 and all(key.startswith("forgepool:breaker:") for key in kept)
    assert all(0 < redis.ttl(key) <= 3600 for key in kept)


def test_what_another_version_wrote_shuts_nothing(fleet: Fleet, redis: Redis) -> None:
    fleet.fail(GPT, times=breaker.MOST_FAILURES)
    fleet.fail(OPUS, "usage_limit")
    for key in redis.scan_iter("*"):
        redis.set(key, '{"version": 2}')
    assert fleet.seen(OPUS) == fleet.seen(GPT) == Free()


def test_without_redis_a_worker_goes_by_what_it_saw_itself(start_redis: Callable[..., RedisServer]) -> None:
    server = start_redis()
    fleet = Fleet(connect(server.url))
    one, other = fleet.workers[:2]
    server.kill()
    one.note(OPUS, ModelFailed("no more", trouble="usage_limit"))
    for _ in range(breaker.MOST_FAILURES):
        one.note(GPT, ModelFailed("down", trouble="server"))
    assert isinstance(one.look([OPUS])[OPUS], Shut) and isinstance(one.look([GPT])[GPT], Shut)
    assert other.look([OPUS, GPT]) == {OPUS: Free(), GPT: Free()}
    fleet.now += 31
    assert one.look([GPT])[GPT] == Probe() and one.claim(GPT) and one.look([GPT])[GPT] != Probe()
    one.praise(GPT)
    assert one.look([GPT])[GPT] == Free()
    assert fleet.redis is not None
    fleet.redis.close()


def test_a_redis_that_was_away_is_not_asked_again_at_once(start_redis: Callable[..., RedisServer]) -> None:
    server = start_redis()
    fleet = Fleet(connect(server.url))
    fleet.fail(OPUS, "usage_limit", times=3)
    server.kill()
    fleet.workers[0].look([OPUS])
    server.start()
    assert fleet.redis is not None
    assert isinstance(fleet.workers[0].look([OPUS])[OPUS], Shut), "goes by what it knew"
    fleet.now += 31
    assert fleet.workers[0].look([OPUS])[OPUS] == Free(), "the Redis that came back is empty"
    fleet.redis.close()


MOVES = st.lists(
    st.tuples(
        st.sampled_from(["fail", "praise", "claim", "wait"]), st.sampled_from([0.0, 1.0, 29.0, 31.0, 130.0, 700.0])
    ),
    max_size=60,
)


@given(MOVES)
def test_whatever_happens_a_pause_ends_and_one_at_a_time_tries(moves: list[tuple[str, float]]) -> None:
    """After each step no pause is longer than the longest one, and none begins too early."""
    health, now, row = Health(), NOW, 0
    for move, seconds in moves:
        before = judge_health((), health, now)
        match move:
            case "fail":
                row += 1
                health = after_failure(health, now, "server", "down")
            case "praise":
                row, health = 0, Health()
            case "claim":
                taken = claim_try(health, now)
                assert (taken is not None) == (before == Probe())
                assert taken is None or claim_try(taken, now) is None, "a second one is turned away"
                health = taken or health
            case _:
                now += seconds
        after = judge_health((), health, now)
        if row < breaker.MOST_FAILURES:
            assert after == Free()
        if isinstance(after, Shut):
            assert 0 < after.until - now <= breaker.LONGEST_PAUSE_S
            assert judge_health((), health, after.until) == Probe()


@given(st.lists(st.floats(-1000, 1000)), st.floats(0, 1000))
def test_of_several_limits_the_one_that_lasts_longest_counts(ends: list[float], seconds: float) -> None:
    limits = [Limit(until=NOW + end, why="w", trouble="usage_limit") for end in ends]
    found = judge_health(limits, Health(), NOW + seconds)
    last = NOW + max(ends, default=0.0)
    assert found == (Shut(until=last, why="w", trouble="usage_limit") if last > NOW + seconds else Free())
