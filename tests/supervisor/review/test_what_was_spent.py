"""The spending of a review is reported however it ends, with that of earlier deliveries."""

from collections.abc import Callable

import pytest
from review_kit import Desk, read, script, verdict

from forgepool.supervisor.entry import unforeseen
from forgepool.supervisor.messages.answers import Review
from forgepool.supervisor.messages.requests import ReviewRequest

TWO = {"a": "2\n"}
PASSES = script(read("a"), verdict("pass"))


def stale(desk: Desk, request: ReviewRequest) -> Review:
    first = desk.gate.hub.commit({"b": "2\n"}, branch="elsewhere", start="main~1")
    return desk.conduct(request.model_copy(update={"base": first}))


def conflict(desk: Desk, request: ReviewRequest) -> Review:
    return desk.conduct(request.model_copy(update={"base": desk.gate.hub.commit({"a": "3\n"})}))


def unreachable(desk: Desk, request: ReviewRequest) -> Review:
    """Ask a reviewer of the author's own family."""
    kin = script(read("a"), verdict("pass"), family="claude")
    return desk.conduct(request.model_copy(update={"policy": request.policy.model_copy(update={"script": kin})}))


def not_configured(desk: Desk, request: ReviewRequest) -> Review:
    wrong = request.policy.model_copy(update={"script": "turns: ["})
    return desk.conduct(request.model_copy(update={"policy": wrong}))


def broken(desk: Desk, request: ReviewRequest) -> Review:
    return unforeseen(request, desk.gate.settings, "ZeroDivisionError")


@pytest.mark.parametrize(
    ("ends", "outcome"),
    [
        (stale, "stale"),
        (conflict, "conflict"),
        (unreachable, "unreachable"),
        (not_configured, "not_configured"),
        (broken, "infrastructure"),
    ],
)
def test_what_an_earlier_delivery_has_used_is_told_where_the_next_ends_early(
    desk: Desk, ends: Callable[[Desk, ReviewRequest], Review], outcome: str
) -> None:
    request = desk.request(desk.entry(TWO), PASSES)
    assert desk.conduct(request).spent.turns == 2
    found = ends(desk, request)
    assert (found.outcome, found.spent.turns, found.request_id) == (outcome, 2, request.request_id), found


def test_where_nobody_was_asked_nothing_was_used(desk: Desk) -> None:
    request = desk.request(desk.entry(TWO), PASSES)
    assert [ends(desk, request).spent.turns for ends in (broken, conflict)] == [0, 0]
