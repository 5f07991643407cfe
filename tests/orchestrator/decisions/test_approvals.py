"""A person's approval replaces a reviewer's for one candidate, at any time, but does not replace a check."""

from typing import Any

import pytest
from plans import (
    answered,
    at_gate,
    awaited,
    begun,
    check_sent,
    course,
    follow,
    intended,
    landing,
    queued,
    review,
    review_answered,
    review_sent,
    sent,
    task,
    verdict,
)

from forgepool.orchestrator.decisions.decide import decide
from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.decisions.requests import grant_request, overtaken, why_not_approve, why_not_reject
from forgepool.orchestrator.journal.events import (
    CheckAnswered,
    Event,
    LandingAnswered,
    LandingIntended,
    TaskApproved,
    TaskRejected,
    TaskRetried,
)
from forgepool.orchestrator.journal.inbox import PersonRequest
from forgepool.orchestrator.state.review import ReviewState
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import IllegalStep
from forgepool.supervisor.findings import ReviewFinding
from forgepool.supervisor.messages.answers import PersonApproval
from forgepool.workers.schema.orders import BuiltinAgent

ONE = course(
    task("a", files=["x"], agent=BuiltinAgent(), attempts=1), task("b", "a", files=["y"]), task("c", files=["x"])
)
TWICE = course(task("a", files=["x"], agent=BuiltinAgent(), attempts=2))
BUG = ReviewFinding(severity="high", category="bug", file="x", claim="wrong", evidence="e")
UNDER_REVIEW: list[Event] = [
    *(sent("a"), answered("a", paths=["x"]), queued("a", reviewed=True), check_sent("a")),
    *(CheckAnswered(task="a", result=verdict("a")), awaited("a"), review_sent("a")),
]


def settle(of: PlanIndex, state: RunState, *, slots: int = 0) -> RunState:
    """Apply all decisions that need no answer."""
    while events := decide(of, state, now=1e6, order_slots=slots, review_slots=1, draining=False):
        follow(state, *events)
    return state


def ended_for_want_of(outcome: str, of: PlanIndex = ONE, **said: Any) -> RunState:
    """Return a run that has ended, with `a` waiting for a person or failed by its review."""
    state = settle(of, begun(of, *UNDER_REVIEW, review_answered("a", outcome, **said)))
    if "c" in state.tasks and state.tasks["c"].phase == "pending":
        follow(state, sent("c"), answered("c", 1, "no_change"))
        settle(of, state)
        follow(state, sent("c", 2), answered("c", 2, "no_change"))
        settle(of, state)
    assert state.finished
    return state


def say(of: PlanIndex, state: RunState, do: str, *, text: str = "") -> list[Event]:
    said = grant_request(of, state, PersonRequest.model_validate({"do": do, "task": "a", "by": "Ada", "text": text}))
    follow(state, *said)
    return said


def landed(of: PlanIndex, state: RunState) -> RunState:
    """Answer every request of the run with success."""
    for _ in range(20):
        settle(of, state)
        message = at_gate(state, "a")
        if message is None:
            break
        if message.kind == "check":
            found = verdict("a", attempt=state.tasks["a"].attempt).model_copy(update={"request_id": message.message_id})
            follow(state, CheckAnswered(task="a", result=found))
        else:
            came = landing("a").model_copy(update={"request_id": message.message_id})
            follow(state, LandingAnswered(task="a", result=came))
    return state


@pytest.mark.parametrize("outcome", ["void", "unreachable", "limits", "failed"])
def test_days_later_an_approval_lands_it_and_reopens_what_it_had_blocked(outcome: str) -> None:
    state = ended_for_want_of(outcome, findings=(BUG,))
    assert state.tasks["b"].phase == "blocked"
    assert [(one.kind, getattr(one, "task", "")) for one in say(ONE, state, "approve")] == [
        ("task.approved", "a"),
        ("task.retried", "b"),
    ]
    assert not state.finished
    landed(ONE, state)
    assert state.tasks["a"].phase == "landed" and state.tasks["b"].phase == "pending"
    assert state.tasks["a"].review.person == PersonApproval(commit="c-a-1", by="Ada")
    assert state.tasks["a"].attempt == 1, "the candidate that was approved has landed, and no other"


def test_an_approval_under_review_lands_it_and_the_review_is_owed_no_more() -> None:
    state = begun(ONE, *UNDER_REVIEW)
    say(ONE, state, "approve")
    assert state.outstanding() == {} and state.tasks["a"].phase == "queued"
    (intent, *_) = decide(ONE, state, now=1e6, order_slots=0, draining=False)
    assert isinstance(intent, LandingIntended) and intent.approvals == (PersonApproval(commit="c-a-1", by="Ada"),)


def test_an_approval_holds_over_requeues_and_on_any_tip() -> None:
    state = begun(ONE, *UNDER_REVIEW)
    say(ONE, state, "approve")
    (intent, *_) = decide(ONE, state, now=1e6, order_slots=0, draining=False)
    follow(state, intent, LandingAnswered(task="a", result=landing("a", "moved", commit="c9")))
    settle(ONE, state)
    follow(state, CheckAnswered(task="a", result=verdict("a", "green", 2, patch_id="another")))
    assert decide(ONE, state, now=1e6, order_slots=0, draining=False)[0].kind == "landing.intended"


def test_an_approval_makes_up_for_no_red_check_and_holds_for_no_other_attempt() -> None:
    state = begun(TWICE, sent("a"), answered("a"), queued("a", reviewed=True), check_sent("a"))
    say(TWICE, state, "approve")
    follow(state, CheckAnswered(task="a", result=verdict("a", "red")))
    settle(TWICE, state)
    assert state.tasks["a"].phase == "pending"
    follow(state, sent("a", 2), answered("a", 2), queued("a", reviewed=True), check_sent("a", attempt=2))
    follow(state, CheckAnswered(task="a", result=verdict("a", attempt=2)))
    assert state.tasks["a"].approval(verdict("a", attempt=2)) is None
    settle(TWICE, state)
    assert state.tasks["a"].phase == "reviewing"


def test_the_approval_of_another_candidate_than_there_is_changes_nothing() -> None:
    with pytest.raises(IllegalStep, match="no candidate c-a-7"):
        follow(begun(ONE, *UNDER_REVIEW), TaskApproved(task="a", by="Ada", commit="c-a-7"))
    forged = PersonApproval(commit="c-a-1", by="Mallory")
    with pytest.raises(IllegalStep, match="no approval covers"):
        follow(begun(ONE, *UNDER_REVIEW[:-2]), intended("a", approval=forged))


def test_an_approved_candidate_waits_for_its_lock() -> None:
    """It does not take paths that another task holds in the meantime."""
    state = settle(ONE, begun(ONE, *UNDER_REVIEW, review_answered("a", "void")))
    follow(state, sent("c"))
    say(ONE, state, "approve")
    settle(ONE, state, slots=5)
    assert state.tasks["a"].phase == "pending" and state.tasks["a"].message is None
    follow(state, answered("c", 1, "no_change"))
    events = decide(ONE, state, now=1e6, order_slots=0, draining=False)
    follow(state, *events)
    assert decide(ONE, state, now=1e6, order_slots=5, draining=False)[0].kind == "candidate.restored"


def test_an_approval_gives_back_the_attempt_that_the_review_had_cost() -> None:
    state = begun(TWICE, *UNDER_REVIEW, review_answered("a", "failed", findings=(BUG,)))
    follow(state, *decide(TWICE, state, now=1e6, order_slots=0, draining=False))
    assert (state.tasks["a"].phase, state.tasks["a"].charged) == ("pending", 1)
    say(TWICE, state, "approve")
    assert state.tasks["a"].charged == 0
    assert landed(TWICE, state).tasks["a"].phase == "landed"


@pytest.mark.parametrize("ended", [True, False])
def test_a_rejection_goes_back_with_its_words_while_attempts_are_left(ended: bool) -> None:
    state = ended_for_want_of("void", TWICE) if ended else begun(TWICE, *UNDER_REVIEW)
    (rejected,) = say(TWICE, state, "reject", text="the limit is off by one")
    assert isinstance(rejected, TaskRejected) and rejected.again
    task = state.tasks["a"]
    assert (task.phase, task.charged, state.finished, state.outstanding()) == ("pending", 1, False, {})
    assert (task.reasons[-1].kind, task.reasons[-1].summary) == (
        "rejected",
        "Ada does not let it land: the limit is off by one",
    )
    (again,) = decide(TWICE, state, now=1e6, order_slots=1, draining=False)
    assert again.kind == "order.sent"


def test_a_rejection_of_the_last_attempt_fails_it() -> None:
    state = ended_for_want_of("void")
    say(ONE, state, "reject")
    assert state.tasks["a"].phase == "failed" and state.finished
    say(ONE, state, "approve")
    assert landed(ONE, state).tasks["a"].phase == "landed", "whoever has changed their mind need not begin anew"


def test_retry_begins_it_anew_and_the_word_on_the_old_candidate_is_gone() -> None:
    state = ended_for_want_of("void")
    say(ONE, state, "retry")
    assert state.tasks["a"].phase == "pending" and not state.tasks["a"].restorable
    assert "order.sent" in [one.kind for one in decide(ONE, state, now=1e6, order_slots=5, draining=False)]


@pytest.mark.parametrize(
    ("events", "sentence"),
    [
        ([], "has no candidate to approve, it is pending"),
        ([sent("a")], "has no candidate to approve, it is running"),
        ([*UNDER_REVIEW, TaskApproved(task="a", by="Ada", commit="c-a-1")], "is approved already, by Ada"),
        ([sent("a"), answered("a", 1, "no_change")], "has no candidate to approve"),
    ],
)
def test_what_cannot_be_approved_is_refused_with_the_reason(events: list[Event], sentence: str) -> None:
    state = begun(ONE, *events)
    assert sentence in (why_not_approve(ONE, state, "a") or "")
    assert say(ONE, state, "approve") == []


def test_what_failed_by_a_check_or_landed_or_wants_none_is_not_approved() -> None:
    red = [*UNDER_REVIEW[:4], CheckAnswered(task="a", result=verdict("a", "red", detail="tests are red"))]
    state = settle(ONE, begun(ONE, *red))
    assert "tests are red; to start it again" in (why_not_approve(ONE, state, "a") or "")
    assert "wants no approval" in (why_not_approve(ONE, state, "c") or "")
    state = begun(ONE, *UNDER_REVIEW)
    say(ONE, state, "approve")
    assert "has landed already" in (why_not_approve(ONE, landed(ONE, state), "a") or "")
    assert "a landing is not taken back" in (why_not_reject(state, "a") or "")
    assert "has no candidate that waits" in (why_not_reject(state, "c") or "")


def test_what_is_landing_is_not_called_back() -> None:
    state = begun(ONE, *UNDER_REVIEW)
    say(ONE, state, "approve")
    settle(ONE, state)
    assert state.tasks["a"].phase == "landing"
    assert "landing" in (why_not_reject(state, "a") or "") and say(ONE, state, "reject") == []


def test_an_approval_may_be_taken_back_while_its_candidate_waits_for_its_lock() -> None:
    state = ended_for_want_of("void", TWICE)
    say(TWICE, state, "approve")
    assert state.tasks["a"].restorable
    say(TWICE, state, "reject", text="no")
    assert not state.tasks["a"].restorable and state.tasks["a"].review.person is None


def test_a_word_holds_for_what_it_was_said_of_alone() -> None:
    """Records of earlier candidates do not matter, even if they were not deleted."""
    green = verdict("a").patch_id
    person = ReviewState(person=PersonApproval(commit="c-a-1", by="Ada"))
    assert person.approval("c-a-1", green) is not None and person.approval("c-a-2", green) is None
    for outcome in ("failed", "void", "unreachable", "limits", "conflict"):
        said = ReviewState(answer=review("a", outcome))
        assert said.approval("c-a-1", green) is None
    assert ReviewState(answer=review("a")).approval("c-a-1", green) is not None
    assert ReviewState(answer=review("a")).approval("c-a-1", "") is None


def test_nothing_but_a_persons_word_wakes_what_has_ended() -> None:
    state = ended_for_want_of("void")
    assert decide(ONE, state, now=1e9, order_slots=9, draining=False) == []
    with pytest.raises(IllegalStep):
        follow(state, TaskRetried(task="c", afresh=True), sent("a", 2))


@pytest.mark.parametrize("do", ["approve", "reject"])
def test_a_word_that_was_said_of_an_earlier_candidate_is_not_taken_for_the_present_one(do: str) -> None:
    """The approval was left during a run, and the task was done again before it was read."""
    state = begun(TWICE, *UNDER_REVIEW, review_answered("a", "failed", findings=(BUG,)))
    settle(TWICE, state)
    seen = PersonRequest.model_validate({"do": do, "task": "a", "by": "Ada", "candidate": "c-a-1"})
    assert overtaken(state, seen) is None
    follow(state, sent("a", 2))
    assert "and none is there now" in (overtaken(state, seen) or "")
    follow(state, answered("a", 2), queued("a", reviewed=True))
    assert f"'{do}' was said of candidate c-a-1 of 'a', and c-a-2 is there now" == overtaken(state, seen)
    assert grant_request(TWICE, state, seen) == []
    assert grant_request(TWICE, state, seen.model_copy(update={"candidate": "c-a-2"})) != []
