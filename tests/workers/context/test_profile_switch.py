"""Messages about contexts between attempts and the orchestrator arrive, or are not needed."""

from collections.abc import Callable

from forgepool.workers.context.profile_switch import (
    ContextTold,
    read_wished_profile,
    tell_filled,
    tell_rebuilt,
    wish_profile,
)
from forgepool.workers.context.transcript.edit import Edit
from forgepool.workers.context.transcript.entries import Rebuilt
from forgepool.workers.llm.messages import Usage
from forgepool.workers.queue.broker import Redis
from forgepool.workers.queue.replies import read

NOWHERE = "unix:///nowhere/redis.sock"
REBUILT = Rebuilt(
    at=1.0,
    profile="ledger",
    cause="call",
    why="it was worth it",
    edit=Edit(cut=3),
    before_tokens=900,
    after_tokens=300,
    window_tokens=1_000,
    dropped=(1, 2),
    archive="/tmp/outputs/steps",
    calls=1,
    usage=Usage(cost_usd=0.25),
)


def test_a_wish_is_heard_by_the_task_it_is_for(redis: Redis, redis_url: str) -> None:
    """The newest one can be read any number of times, but not by another task or run."""
    assert read_wished_profile(redis_url, "r", "a") is None
    wish_profile(redis, "r", "a", "pace")
    wish_profile(redis, "r", "a", "off")
    assert [read_wished_profile(redis_url, "r", "a") for _ in range(2)] == ["off", "off"]
    assert read_wished_profile(redis_url, "r", "b") is None and read_wished_profile(redis_url, "s", "a") is None


def test_a_rebuild_is_told_with_all_that_the_journal_keeps(redis: Redis, redis_url: str) -> None:
    tell_rebuilt(redis_url, "r", "r.a.1", "tok", REBUILT)
    tell_rebuilt(redis_url, "r", "r.a.1", "tok", REBUILT.model_copy(update={"edit": None}))
    told = [ContextTold.model_validate_json(text) for _, text in read(redis, "r", after="0-0", wait_s=0.01)]
    assert told[0] == ContextTold(
        order_id="r.a.1",
        token="tok",
        profile="ledger",
        why="it was worth it",
        changed=True,
        before_tokens=900,
        after_tokens=300,
        window_tokens=1_000,
        calls=1,
        cost_usd=0.25,
        dropped=(1, 2),
        archive="/tmp/outputs/steps",
    )
    assert [one.changed for one in told] == [True, False]


def test_how_full_the_window_is_is_told_without_a_reason(redis: Redis, redis_url: str) -> None:
    tell_filled(redis_url, "r", "r.a.1", "tok", "ledger", 230, 1_000)
    (text,) = (text for _, text in read(redis, "r", after="0-0", wait_s=0.01))
    told = ContextTold.model_validate_json(text)
    assert (told.changed, told.why, told.after_tokens, told.window_tokens) == (False, "", 230, 1_000)


def test_a_redis_that_is_away_or_not_there_stops_nobody() -> None:
    """No request is read, and none is sent."""
    for url in (NOWHERE, None):
        assert read_wished_profile(url, "r", "a") is None
        tell_rebuilt(url, "r", "r.a.1", "tok", REBUILT)


def test_a_redis_that_takes_nothing_more_stops_nobody(start_redis: Callable[..., object]) -> None:
    server = start_redis("--maxmemory", "1")
    url = server.url
    tell_rebuilt(url, "r", "r.a.1", "tok", REBUILT)
    assert read_wished_profile(url, "r", "a") is None
