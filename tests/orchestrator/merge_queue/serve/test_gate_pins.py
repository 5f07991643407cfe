"""Refs that the hub keeps of entries: of all queued ones, and of returned ones that may be retried."""

import pytest
from gate_world import after, opened, submitted

from forgepool.orchestrator.cli.queue.control import refuse_forgotten
from forgepool.orchestrator.journal.events import TaskCancelled, TaskFailed, TaskParked
from forgepool.orchestrator.merge_queue.serve.hub_refs import KEPT_DAYS, MOST_KEPT, forgettable
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.workers.schema.orders import ReasonPack

_DAY = 24 * 3600.0
_RED = ReasonPack(attempt=1, kind="check_failed", summary="red")


def test_who_was_given_back_is_kept_for_a_while_and_who_stands_in_line_for_ever() -> None:
    state = opened(*(submitted(name) for name in "abcd"))
    after(state, TaskFailed(task="a", reason=_RED), TaskParked(task="c", question="what now?"), at=0.0)
    after(state, TaskCancelled(task="b"), at=2 * _DAY)
    assert forgettable(state, KEPT_DAYS * _DAY) == set()
    assert forgettable(state, KEPT_DAYS * _DAY + 1) == {"a"}
    assert forgettable(state, 10_000 * _DAY) == {"a", "b"}


def test_who_was_submitted_again_is_kept_again() -> None:
    state = opened(submitted("a"))
    after(state, TaskFailed(task="a", reason=_RED), at=0.0)
    after(state, submitted("a", revision=2), at=100 * _DAY)
    assert forgettable(state, 100 * _DAY) == set()


def test_of_many_that_were_given_back_the_latest_are_kept() -> None:
    state = opened()
    for at in range(MOST_KEPT + 2):
        after(state, submitted(f"n{at}"), TaskCancelled(task=f"n{at}"), at=float(at))
    assert forgettable(state, 1000.0) == {"n0", "n1"}


def test_a_retry_of_what_is_kept_no_more_says_how_to_submit_it_again() -> None:
    state = opened(submitted("a"))
    after(state, TaskFailed(task="a", reason=_RED), at=0.0)
    with pytest.raises(CannotRun, match="is no longer kept; submit it again: forgepool queue submit BRANCH --name a"):
        refuse_forgotten(state, "a")
