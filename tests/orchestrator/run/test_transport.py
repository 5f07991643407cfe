"""No message is declared lost too early or awaited in vain, and Redis may forget everything in between."""

import json
import time
from collections.abc import Callable

import pytest
from plans import RUN, begun, course, result, sent, task
from servers import RedisServer

from forgepool.orchestrator.reports.event_text import sentence
from forgepool.orchestrator.run.transport import Findings, LeaseWatch, Link
from forgepool.orchestrator.state.run import RunState
from forgepool.workers.queue import replies
from forgepool.workers.queue.broker import PROTOCOL, Redis, connect
from forgepool.workers.queue.leases import Lease, Present, claim, fence
from forgepool.workers.queue.replies import MessageRefused, PathRequest, PathsAnswer, answer, tell

MESSAGE = f"{RUN}.a.1"


@pytest.fixture
def link(redis: Redis) -> Link:
    made = Link(redis, RUN, 0.6)
    made.begin()
    return made


@pytest.fixture
def state() -> RunState:
    return begun(course(task("a")), sent("a"))


def look(watch: LeaseWatch, state: RunState, link: Link) -> Findings:
    """Look again, without the usual pause between looks."""
    watch._looked = 0.0
    return watch.look(state, link)


def take(redis: Redis, *, token: str = "t") -> Lease:
    lease = claim(redis, MESSAGE, token=token, host="some/host", ttl_s=30.0)
    assert isinstance(lease, Lease)
    return lease


def test_what_is_no_answer_stops_nobody(redis: Redis, link: Link) -> None:
    """A person with `redis-cli` may add anything to the stream. Answers before and after it are read."""
    tell(redis, RUN, result("a", 1))
    stream = next(iter(redis.scan_iter(_type="stream")))
    strange: list[dict[str, str | bytes]] = [{"wrong": "field"}, {"m": "{"}, {"m": b"\xff"}, {b"\xff": "x"}]
    for fields in strange:
        redis.xadd(stream, fields)  # type: ignore[arg-type]
    tell(redis, RUN, result("a", 2))
    assert list(link.answers(wait_s=0.01)) == [result("a", 1), result("a", 2)]
    assert list(link.answers(wait_s=0.01)) == []


def test_an_answer_with_fields_of_a_later_version_is_read(redis: Redis, link: Link) -> None:
    tell(redis, RUN, result("a"))
    stream = next(iter(redis.scan_iter(_type="stream")))
    ((_, fields),) = redis.xrange(stream)
    redis.xadd(stream, {"m": json.dumps(json.loads(fields["m"]) | {"added_later": {"a": 1}})})
    assert list(link.answers(wait_s=0.01)) == [result("a"), result("a")]


def test_a_foreign_value_under_the_key_of_answers_is_set_aside(redis: Redis, link: Link) -> None:
    redis.set(f"forgepool:answers:{RUN}", "theirs")
    assert list(link.answers(wait_s=0.01)) == []
    tell(redis, RUN, result("a"))
    assert list(link.answers(wait_s=0.01)) == [result("a")]


def test_an_answer_during_which_redis_goes_away_is_given_again(redis: Redis, link: Link) -> None:
    for attempt in (1, 2, 3):
        tell(redis, RUN, result("a", attempt))

    def take_in() -> None:
        for one in link.answers(wait_s=0.01):
            if one == result("a", 2):
                raise ConnectionError

    with pytest.raises(ConnectionError):
        take_in()
    assert list(link.answers(wait_s=0.01)) == [result("a", 2), result("a", 3)]


def test_who_takes_a_message_is_told_once(redis: Redis, link: Link, state: RunState) -> None:
    watch = LeaseWatch()
    lease = take(redis)
    (taken,) = look(watch, state, link).taken
    assert taken.model_dump() == {
        "kind": "message.taken",
        "message_id": MESSAGE,
        "host": "some/host",
        "pid": lease.holder.pid,
    }
    state.tasks["a"].holder = f"some/host/{lease.holder.pid}"
    assert look(watch, state, link) == Findings()


def test_a_holder_is_lost_when_it_is_missing_at_two_looks(redis: Redis, link: Link, state: RunState) -> None:
    watch = LeaseWatch()
    lease = take(redis)
    look(watch, state, link)
    lease.release()
    assert look(watch, state, link).lost == [], "its answer may be on its way"
    assert look(watch, state, link).lost == [state.tasks["a"].message]


def test_a_holder_that_is_back_at_the_second_look_is_not_lost(redis: Redis, link: Link, state: RunState) -> None:
    watch = LeaseWatch()
    lease = take(redis)
    look(watch, state, link)
    lease.release()
    look(watch, state, link)
    take(redis)
    assert look(watch, state, link).lost == []
    lease.release()
    assert look(watch, state, link).lost == [], "it must be missing at two looks in a row"


def test_a_holder_of_another_sending_does_not_count(redis: Redis, link: Link, state: RunState) -> None:
    watch = LeaseWatch()
    watch.note_sent(MESSAGE)
    take(redis, token="of an earlier one")
    assert look(watch, state, link) == Findings()


def test_a_holder_known_from_the_journal_is_watched_after_a_restart(link: Link, state: RunState) -> None:
    watch = LeaseWatch()
    state.tasks["a"].holder = "h/1"
    look(watch, state, link)
    (lost,) = look(watch, state, link).lost
    assert lost == state.tasks["a"].message
    said = "a: {}; retrying (attempt not counted)"
    assert sentence(watch.make_lost_event(lost, "h/1"), run=RUN) == said.format("worker h/1 died")
    watch.interrupted[lost.message_id] = "h/1"
    assert sentence(watch.make_lost_event(lost, "h/1"), run=RUN) == said.format("it was interrupted")
    assert sentence(watch.make_lost_event(lost, "h/2"), run=RUN) == said.format("worker h/2 died")


def test_looks_closer_together_than_half_a_second_are_one(redis: Redis, link: Link, state: RunState) -> None:
    watch = LeaseWatch()
    watch.look(state, link)
    take(redis)
    assert watch.look(state, link) == Findings()


def test_a_host_that_refuses_a_message_counts_as_of_another_version_till_it_starts_again(state: RunState) -> None:
    watch, note = LeaseWatch(), MessageRefused(message_id=MESSAGE, host="bad", why="it has another key")
    bad = Present(host="bad", pid=1, queues=("orders",), concurrency=2, since=5.0, protocol=PROTOCOL)
    good, again = bad.model_copy(update={"host": "good"}), bad.model_copy(update={"since": 6.0})
    watch.note_refused(note, state, (bad, good))
    assert watch.mark_refusing((bad, good), "orders") == (bad, good), "a note of before this run was resumed"
    watch.note_sent(MESSAGE, "bad")
    watch.note_refused(note, state, (bad, good))
    marked = watch.mark_refusing((bad, good), "orders")
    assert [one.protocol for one in marked] == [0, PROTOCOL]
    assert watch.mark_refusing((bad,), "orders") == (bad,), "it is better than none"
    assert watch.mark_refusing((bad, good), "checks") == (bad, good)
    assert watch.mark_refusing((again, good), "orders") == (again, good)


def test_what_is_not_known_to_be_sent_is_sent_again_at_once(link: Link, state: RunState) -> None:
    watch = LeaseWatch()
    watch.unsent.add(MESSAGE)
    assert look(watch, state, link).unsent == [state.tasks["a"].message]
    watch.note_sent(MESSAGE)
    assert look(watch, state, link).unsent == []


def test_what_nobody_took_is_sent_again_when_it_is_overdue_and_its_queue_is_empty(
    redis: Redis, link: Link, state: RunState
) -> None:
    watch = LeaseWatch()
    watch._sent_at[MESSAGE] = time.monotonic() - 60
    redis.rpush("orders", "it waits for a slot")
    assert look(watch, state, link).unsent == []
    redis.delete("orders")
    assert look(watch, state, link).unsent == [state.tasks["a"].message]
    watch.note_sent(MESSAGE)
    assert look(watch, state, link).unsent == []


@pytest.mark.parametrize("ended", ["answered", "fenced"])
def test_a_message_that_an_earlier_orchestrator_ended_is_lost_and_not_sent_for_ever(
    redis: Redis, link: Link, state: RunState, ended: str
) -> None:
    """The run was taken over, Redis is the same, and the former orchestrator had sent a message of the same id."""
    lease = take(redis, token="of the former")
    watch = LeaseWatch()
    assert look(watch, state, link).unsent == [state.tasks["a"].message], "it may end without an answer"
    if ended == "answered":
        answer(redis, RUN, MESSAGE, result("a", token="of the former"))
    else:
        fence(redis, MESSAGE)
    assert look(watch, state, link).unsent == [state.tasks["a"].message], "its holder may still be at work"
    lease.release()
    assert look(watch, state, link) == Findings(), "its answer may be on its way"
    (lost,) = look(watch, state, link).lost
    assert lost == state.tasks["a"].message
    assert "an orchestrator of this run before this one" in watch.make_lost_event(lost, "").why


def test_nothing_is_lost_before_all_answers_are_read(redis: Redis, link: Link, state: RunState) -> None:
    """A run that is taken over has all of the former orchestrator's answers to read, and its own after them."""
    for number in range(replies.MOST_READ):
        tell(redis, RUN, result("b", number))
    answer(redis, RUN, MESSAGE, result("a"))
    watch = LeaseWatch()
    assert len(list(link.answers(wait_s=0.01))) == replies.MOST_READ
    for _ in range(3):
        assert look(watch, state, link) == Findings()
    assert list(link.answers(wait_s=0.01)) == [result("a")]
    look(watch, state, link)
    assert look(watch, state, link).lost == [state.tasks["a"].message], "the answer was of no use"


def test_after_redis_has_lost_its_data_holders_get_time_to_show_themselves(
    redis: Redis, link: Link, state: RunState
) -> None:
    watch = LeaseWatch()
    lease = take(redis)
    look(watch, state, link)
    redis.flushall()
    for _ in range(3):
        assert look(watch, state, link).lost == []
    lease.renew()
    link._grace_until = 0.0
    for _ in range(3):
        assert look(watch, state, link).lost == [], "it has shown itself"


def test_patience_ends(redis: Redis, link: Link, state: RunState) -> None:
    watch = LeaseWatch()
    take(redis)
    look(watch, state, link)
    redis.flushall()
    look(watch, state, link)
    link._grace_until = 0.0
    look(watch, state, link)
    assert look(watch, state, link).lost == [state.tasks["a"].message]


def test_after_redis_has_lost_its_data_answers_are_read_from_its_beginning(redis: Redis, link: Link) -> None:
    answer(redis, RUN, MESSAGE, result("a"))
    assert [one.kind for one in link.answers(wait_s=0.01)] == ["work"]
    assert list(link.answers(wait_s=0.01)) == []
    redis.flushall()
    redis.xadd(f"forgepool:answers:{RUN}", {"m": result("b").encode()}, id="1-1")
    assert link.patient()
    assert list(link.answers(wait_s=0.01)) == [result("b")]


def test_an_answer_that_cannot_be_read_does_not_hide_the_next(redis: Redis, link: Link) -> None:
    for text in ("{", '{"kind": "nonsense"}', "x" * (4 * 1024 * 1024 + 1)):
        redis.xadd(f"forgepool:answers:{RUN}", {"m": text})
    tell(redis, RUN, result("a"))
    assert list(link.answers(wait_s=0.01)) == [result("a")]


def test_a_question_comes_with_the_answers_and_its_reply_finds_who_asked(redis: Redis, link: Link) -> None:
    asked = PathRequest(order_id=MESSAGE, token="t", number=3, paths=("x",))
    tell(redis, RUN, asked)
    assert list(link.answers(wait_s=0.01)) == [asked]
    link.reply(MESSAGE, 3, PathsAnswer(verdict="granted"))
    assert replies._answer(redis, asked) == PathsAnswer(verdict="granted")


def test_a_run_that_has_ended_leaves_nothing_behind(redis: Redis, link: Link) -> None:
    tell(redis, RUN, result("a"))
    link.forget()
    assert redis.keys("*") == []


def test_a_redis_started_anew_is_noticed(start_redis: Callable[..., RedisServer]) -> None:
    server = start_redis()
    client = connect(server.url)
    link = Link(client, RUN, 30.0)
    link.begin()
    assert not link.patient()
    server.kill()
    server.start()
    assert link.patient()
    client.close()
