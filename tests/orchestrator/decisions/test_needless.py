"""With a real Redis: a message whose answer is no longer needed is fenced once that is in the journal."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from plans import RUN, answered, begun, check_sent, course, queued, review_answered, review_sent, sent, task, verdict

from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.journal.inbox import PersonRequest, leave
from forgepool.orchestrator.journal.store import Journal
from forgepool.orchestrator.run.loop import Loop, Wishes
from forgepool.orchestrator.run.transport import Link
from forgepool.workers.queue.broker import Redis
from forgepool.workers.queue.leases import Lease, claim
from forgepool.workers.queue.replies import tell
from forgepool.workers.schema.orders import BuiltinAgent, ReasonPack
from forgepool.worktrees.hub.mirror import Mirror

OF = course(task("a", agent=BuiltinAgent(), attempts=1))
CHECK, REVIEW = f"{RUN}.a.1.check-1", f"{RUN}.a.1.review-1"
BOTH = [sent("a"), answered("a"), queued("a", reviewed=True), check_sent("a"), review_sent("a", reserved_usd=1.0)]


@pytest.fixture
def loop(tmp_path: Path, redis: Redis) -> Iterator[Loop]:
    """Return a loop with a candidate that is checked and reviewed at the same time."""
    state = begun(OF)
    journal = Journal(tmp_path)
    link = Link(redis, RUN, 60.0)
    link.begin()
    made = Loop(
        course=OF,
        state=state,
        journal=journal,
        folder=tmp_path,
        mirror=Mirror(path=tmp_path / "mirror", hub="/nowhere"),
        link=link,
        parts=None,
        wishes=Wishes(drain=True),
        listener=lambda state, recorded: None,
    )
    made.record(BOTH)
    for message in (CHECK, REVIEW):
        assert isinstance(claim(redis, message, token="t", host="h", ttl_s=60.0), Lease)
    yield made
    journal.close()


def is_fenced(redis: Redis, message: str) -> bool:
    return bool(redis.exists(f"forgepool:fence:{message}"))


def test_a_red_check_ends_the_review_whose_use_is_counted_though_nobody_had_told_of_it(
    loop: Loop, redis: Redis
) -> None:
    """The holder of the review is looked up at the moment it is given up."""
    tell(redis, RUN, verdict("a", "red"))
    loop._turn()
    assert is_fenced(redis, REVIEW) and not is_fenced(redis, CHECK)
    assert OF.ledger(loop.state).usd == 1.0 and loop.state.tasks["a"].phase == "failed"


def test_a_check_that_finds_its_base_gone_ends_the_review_at_once_and_its_use_is_counted(
    loop: Loop, redis: Redis
) -> None:
    tell(redis, RUN, verdict("a", "stale"))
    loop._turn()
    assert is_fenced(redis, REVIEW) and loop.state.tasks["a"].phase == "pending"
    assert OF.ledger(loop.state).usd == 1.0


def test_a_review_that_fails_ends_the_check(loop: Loop, redis: Redis) -> None:
    tell(redis, RUN, review_answered("a", "failed").result)
    loop._turn()
    assert is_fenced(redis, CHECK) and not is_fenced(redis, REVIEW)


def test_what_is_cancelled_ends_both(loop: Loop, redis: Redis) -> None:
    leave(loop.folder, PersonRequest(do="cancel", task="a"))
    loop._turn()
    assert is_fenced(redis, CHECK) and is_fenced(redis, REVIEW)
    assert OF.ledger(loop.state).usd == 1.0


def test_a_persons_word_ends_the_review_and_not_the_check(loop: Loop, redis: Redis) -> None:
    leave(loop.folder, PersonRequest(do="approve", task="a", by="Ada"))
    loop._turn()
    assert is_fenced(redis, REVIEW) and not is_fenced(redis, CHECK)
    assert loop.state.tasks["a"].review.person is not None
    assert OF.ledger(loop.state).usd == 1.0


def test_what_has_answered_is_not_fenced(loop: Loop, redis: Redis) -> None:
    tell(redis, RUN, review_answered("a").result)
    tell(redis, RUN, verdict("a"))
    loop._turn()
    assert not is_fenced(redis, CHECK) and not is_fenced(redis, REVIEW)
    assert loop.state.tasks["a"].phase == "landing"


def test_a_lost_reviewer_is_fenced_and_its_candidate_stays_where_it_is(loop: Loop, redis: Redis) -> None:
    message = loop.state.outstanding()[REVIEW]
    loop._lose(message)
    assert is_fenced(redis, REVIEW) and loop.state.tasks["a"].phase == "testing"
    assert list(loop.state.outstanding()) == [CHECK]


def test_a_fence_that_could_not_be_set_is_set_as_soon_as_redis_is_back(loop: Loop, redis: Redis) -> None:
    loop.record([e.CheckAnswered(task="a", result=verdict("a", "red"))])
    loop.record([e.TaskFailed(task="a", reason=_reason(loop))])
    assert loop.unfenced == {REVIEW} and not is_fenced(redis, REVIEW)
    loop._turn()
    assert is_fenced(redis, REVIEW) and not loop.unfenced


def _reason(loop: Loop) -> ReasonPack:
    return ReasonPack(attempt=1, kind="check_failed", summary="red")
