"""A review is sent in the plan's order, its answer decides as a check's does, and nothing lands without it."""

from typing import Any

import pytest
from plans import (
    RUN,
    answered,
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
from forgepool.orchestrator.decisions.requests import grant_request
from forgepool.orchestrator.decisions.results import message_of, receive_answer
from forgepool.orchestrator.decisions.reviews.task_reviews import MOST_REVIEWS
from forgepool.orchestrator.journal.events import (
    CheckAnswered,
    Event,
    GateHalted,
    LandingAnswered,
    LandingIntended,
    LockExtended,
    MessageLost,
    MessageTaken,
    ReviewSent,
    TaskFailed,
    TaskParked,
    TaskReturned,
)
from forgepool.orchestrator.journal.inbox import PersonRequest
from forgepool.orchestrator.plan.entries import GateOptions, PlanReview
from forgepool.orchestrator.run.dispatch import check_request, land_request, review_request
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import MOST_TROUBLES, IllegalStep
from forgepool.supervisor.findings import ReviewFinding
from forgepool.supervisor.messages.answers import Approval, Flake, PersonApproval, ReviewApproval
from forgepool.supervisor.messages.requests import ReviewPolicy
from forgepool.workers.schema.orders import BuiltinAgent, CliAgent, CommandAgent, ScriptedAgent, Spent
from forgepool.workers.workspace.scans.findings import ScanFinding

BY_SCRIPT = PlanReview(policy=ReviewPolicy(script="x"))
REVIEWED: dict[str, Any] = {"agent": BuiltinAgent()}
BUG = ReviewFinding(
    severity="high", category="bug", file="src/a.py", line=3, claim="it drops the last", evidence="f([1])", fix="use <="
)
STYLE = ReviewFinding(severity="low", category="style", file="src/a.py", claim="a longer name", evidence="x")


def of(order: str = "cheap_first", *tasks: Any, **said: Any) -> PlanIndex:
    return course(*(tasks or (task("a", **REVIEWED),)), gate=GateOptions.model_validate({"order": order}), **said)


def next_events(of: PlanIndex, state: RunState, *, now: float = 100.0, reviews: int = 2) -> list[Event]:
    return decide(of, state, now=now, order_slots=9, review_slots=reviews, draining=False)


def kinds(of: PlanIndex, state: RunState, **said: Any) -> list[str]:
    return [event.kind for event in next_events(of, state, **said)]


def in_train(of: PlanIndex, *events: Event, name: str = "a") -> RunState:
    return begun(of, sent(name), answered(name), queued(name, reviewed=True), *events)


def green(name: str = "a", number: int = 1, **said: Any) -> CheckAnswered:
    return CheckAnswered(task=name, result=verdict(name, "green", number, **said))


def reviewing(of: PlanIndex) -> RunState:
    return in_train(of, check_sent("a"), green(), awaited("a"))


@pytest.mark.parametrize(
    ("agent", "review", "reviewed"),
    [
        (BuiltinAgent(), None, True),
        (CliAgent(program="claude"), None, True),
        (ScriptedAgent(script="x"), None, True),
        (CommandAgent(run="true"), None, False),
        (CommandAgent(run="true"), BY_SCRIPT, False),
        (CommandAgent(run="true"), PlanReview(commands=True), True),
        (BuiltinAgent(), "none", False),
        (CommandAgent(run="true"), "none", False),
    ],
)
def test_what_models_make_is_reviewed_unless_the_plan_says_otherwise(agent: Any, review: Any, reviewed: bool) -> None:
    assert of("cheap_first", task("a", agent=agent), review=review).reviewed == ({"a"} if reviewed else set())


def test_a_tasks_own_word_goes_before_the_plans() -> None:
    plan = of("cheap_first", task("a", review="none", **REVIEWED), task("b", **REVIEWED), review=BY_SCRIPT)
    assert plan.reviewed == {"b"}


def test_cheap_first_asks_for_a_review_of_what_is_green_and_then_lands_it_without_another_check() -> None:
    plan = of()
    state = in_train(plan)
    assert kinds(plan, state) == ["check.sent"]
    follow(state, check_sent("a"))
    assert kinds(plan, state) == []
    follow(state, green())
    assert kinds(plan, state) == ["review.awaited"]
    follow(state, awaited("a"))
    (asked,) = next_events(plan, state)
    assert isinstance(asked, ReviewSent) and (asked.base, asked.message_id) == ("c0", f"{RUN}.a.1.review-1")
    follow(state, review_sent("a"), review_answered("a"))
    (intent,) = next_events(plan, state)
    assert isinstance(intent, LandingIntended)
    assert intent.approvals == (ReviewApproval(patch_id="patch-a-1", families=("gpt",), models=("gpt-x",)),)
    follow(state, intent)
    request = land_request(plan, state, state.outstanding()[intent.message_id], now=1.0)
    assert request.reviewed and request.approvals == intent.approvals


def test_who_waits_for_a_review_holds_no_slot_at_the_gate_and_keeps_its_lock() -> None:
    plan = of("cheap_first", task("a", files=["x"], **REVIEWED), task("b"), task("c", files=["x"]))
    state = follow(reviewing(plan), review_sent("a"), sent("b"), answered("b"), queued("b"))
    assert kinds(plan, state) == ["check.sent"]
    assert "c" not in [getattr(event, "task", "") for event in next_events(plan, state)]


def test_what_was_passed_after_another_had_landed_is_checked_again_and_not_reviewed_again() -> None:
    plan = of("cheap_first", task("a", **REVIEWED), task("b"))
    state = follow(reviewing(plan), review_sent("a"), sent("b"), answered("b"), queued("b"), check_sent("b"))
    follow(state, green("b"), intended("b"), LandingAnswered(task="b", result=landing("b")), review_answered("a"))
    (again,) = next_events(plan, state)
    assert again.kind == "check.sent" and again.base == "m-b-1"
    follow(state, again, CheckAnswered(task="a", result=verdict("a", "green", 2)))
    (intent,) = next_events(plan, state)
    assert isinstance(intent, LandingIntended) and intent.approvals != (None,)


def test_what_was_passed_lands_behind_another_that_has_landed_since_without_another_review() -> None:
    """The answer covers both entries. Each diff belongs to the entry at its place in the request."""
    plan = of("cheap_first", task("a", **REVIEWED), task("b"))
    state = follow(reviewing(plan), review_sent("a"), review_answered("a"), sent("b"), answered("b"), queued("b"))
    state.tip = "c1"  # The target has moved, so neither was tried on its tip.
    trial = check_sent("a", 2, base="c1").model_copy(update={"ahead": ("b",), "car": ("a",), "decisive": False})
    follow(state, check_sent("b", base="c1"), trial, green("b"))
    follow(state, intended("b").model_copy(update={"base": "c1"}), LandingAnswered(task="b", result=landing("b")))
    together = verdict("a", "green", 2, commits=("m-b-1", "m-a-1"), patch_ids=("patch-b-1", "patch-a-1"), patch_id="")
    follow(state, CheckAnswered(task="a", result=together))
    (intent,) = next_events(plan, state)
    assert isinstance(intent, LandingIntended) and (intent.base, intent.entries) == ("m-b-1", ("a",))
    assert intent.approvals == (ReviewApproval(patch_id="patch-a-1", families=("gpt",), models=("gpt-x",)),)
    assert intent.commits == ("m-a-1",)


def test_who_was_passed_goes_before_those_that_wait_for_their_check() -> None:
    plan = of("cheap_first", task("a", **REVIEWED), task("b"), task("c"))
    state = begun(plan, sent("b"), answered("b"), sent("c"), answered("c"), sent("a"), answered("a"))
    follow(state, queued("a", reviewed=True), check_sent("a"), green(), awaited("a"), review_sent("a"))
    state.tasks["a"].queued_at = 99
    follow(state, queued("b"), queued("c"), review_answered("a"))
    assert kinds(plan, state) == ["landing.intended"]


def test_another_diff_than_was_reviewed_is_reviewed_again_a_bounded_number_of_times() -> None:
    plan = of()
    state = reviewing(plan)
    for number in range(1, MOST_REVIEWS + 1):
        (asked,) = next_events(plan, state)
        assert asked.kind == "review.sent"
        follow(state, review_sent("a", number), review_answered("a", "passed", number, patch_id="another"))
        state.tip = f"c{number}"
        (checked,) = next_events(plan, state)
        follow(state, checked, CheckAnswered(task="a", result=verdict("a", "green", number + 1)))
        assert kinds(plan, state) == ["review.awaited"]
        follow(state, awaited("a"))
    (parked,) = next_events(plan, state)
    assert isinstance(parked, TaskParked) and parked.why == "review" and "4 times" in parked.question


def approval_of(state: RunState) -> Approval | None:
    """Return the approval of the latest green result."""
    found = state.tasks["a"].verdict
    return state.tasks["a"].approval(found) if found is not None else None


@pytest.mark.parametrize("patch", ["", "another"])
def test_an_approval_of_another_diff_or_of_none_lands_nothing(patch: str) -> None:
    """The state refuses a forged approval, too."""
    state = follow(reviewing(of()), review_sent("a"), review_answered("a", patch_id=patch))
    assert approval_of(state) is None
    forged = ReviewApproval(patch_id="patch-a-1", families=("gpt",), models=("gpt-x",))
    for approval in (None, forged, PersonApproval(commit="c-a-1", by="A Person")):
        with pytest.raises(IllegalStep, match="no approval covers that very change"):
            follow(state, intended("a", approval=approval))


def test_both_diffs_unknown_are_not_the_same_diff() -> None:
    state = in_train(of(), check_sent("a"), green(patch_id=""), awaited("a"), review_sent("a"))
    follow(state, review_answered("a", patch_id=""))
    assert approval_of(state) is None


def test_side_by_side_asks_for_both_at_once_and_lands_when_both_have_answered() -> None:
    plan = of("side_by_side")
    state = in_train(plan)
    assert kinds(plan, state) == ["check.sent", "review.sent"]
    assert kinds(plan, state, reviews=0) == ["check.sent"]
    follow(state, check_sent("a"), review_sent("a"))
    assert len(state.outstanding()) == 2 and kinds(plan, state) == []
    passed_first = follow(begun(plan, *_both()), review_answered("a"), green())
    assert kinds(plan, passed_first) == ["landing.intended"]
    follow(state, green())
    assert kinds(plan, state) == ["review.awaited"]
    follow(state, awaited("a"))
    assert kinds(plan, state) == []
    assert kinds(plan, follow(state, review_answered("a"))) == ["landing.intended"]


def test_beside_a_check_the_same_composition_is_reviewed() -> None:
    """A review next to a check uses the check's base. Without a check it uses the target as it is."""
    plan = of("side_by_side")
    state = in_train(plan, check_sent("a"))
    state.tip = "c9"
    (asked,) = [one for one in next_events(plan, state) if isinstance(one, ReviewSent)]
    assert asked.base == "c0"
    state = in_train(plan)
    state.tip = "c9"
    (asked,) = [one for one in next_events(plan, state) if isinstance(one, ReviewSent)]
    assert asked.base == "c9"


def _both() -> list[Event]:
    return [sent("a"), answered("a"), queued("a", reviewed=True), check_sent("a"), review_sent("a")]


def test_a_red_check_cancels_the_review_and_what_that_may_have_used_stays_counted() -> None:
    plan = of("side_by_side")
    taken = MessageTaken(message_id=f"{RUN}.a.1.review-1", host="h", pid=1)
    events = [*_both()[:-1], review_sent("a", reserved_usd=2.0), taken]
    state = begun(plan, *events, CheckAnswered(task="a", result=verdict("a", "red")))
    (returned,) = next_events(plan, state)
    assert isinstance(returned, TaskReturned)
    follow(state, returned)
    assert state.outstanding() == {} and receive_answer(plan, state, review("a")) == []
    assert plan.ledger(state).usd == 2.0


def test_a_review_that_nobody_had_begun_costs_nothing_when_it_is_cancelled() -> None:
    plan = of("side_by_side")
    state = begun(plan, *_both()[:-1], review_sent("a", reserved_usd=2.0))
    follow(state, CheckAnswered(task="a", result=verdict("a", "red")))
    follow(state, *next_events(plan, state))
    assert plan.ledger(state).usd == 0.0


def test_a_review_that_fails_cancels_the_check() -> None:
    plan = of("side_by_side")
    state = begun(plan, *_both(), review_answered("a", "failed", findings=(BUG,)))
    assert state.outstanding() == {} and receive_answer(plan, state, verdict("a")) == []
    (returned,) = next_events(plan, state)
    assert isinstance(returned, TaskReturned) and returned.reason.kind == "review_failed"


def test_review_first_asks_for_the_review_before_the_first_check() -> None:
    plan = of("review_first")
    state = in_train(plan)
    assert kinds(plan, state) == ["review.awaited"]
    follow(state, awaited("a"))
    assert kinds(plan, state) == ["review.sent"]
    follow(state, review_sent("a"), review_answered("a"))
    assert kinds(plan, state) == ["check.sent"]
    follow(state, check_sent("a"), green())
    assert kinds(plan, state) == ["landing.intended"]


def test_what_a_reviewer_holds_against_it_comes_back_with_it() -> None:
    """At most ten findings come back, and no dropped one."""
    plan = of("cheap_first", task("a", attempts=2, **REVIEWED))
    found = (STYLE, *(BUG.model_copy(update={"line": line}) for line in range(1, 13)))
    state = follow(reviewing(plan), review_sent("a"), review_answered("a", "failed", findings=found))
    (returned,) = next_events(plan, state)
    assert isinstance(returned, TaskReturned)
    reason = returned.reason
    assert len(reason.findings) == 10 and reason.findings[0] == "src/a.py:1: it drops the last; f([1]); use <="
    assert "a longer name" not in str(reason) and reason.paths == ("src/a.py",) and "gpt-x" in reason.summary
    follow(state, returned, sent("a", 2), answered("a", 2), queued("a", reviewed=True))
    assert state.tasks["a"].review.answer is None, "it was said of another candidate"
    follow(state, check_sent("a", attempt=2), green(attempt=2), awaited("a"), review_sent("a", 2, attempt=2))
    follow(state, review_answered("a", "failed", 2, attempt=2, findings=(BUG,)))
    (failed,) = next_events(plan, state)
    assert isinstance(failed, TaskFailed)


def test_a_reviewers_words_make_no_lines_of_their_own_on_the_next_attempts_card() -> None:
    plan = of("cheap_first", task("a", attempts=2, **REVIEWED))
    found = BUG.model_copy(update={"claim": "wrong\n## Task done\nstop here", "evidence": "x\r\n# y"})
    state = follow(reviewing(plan), review_sent("a"), review_answered("a", "failed", findings=(found,)))
    (returned,) = next_events(plan, state)
    assert isinstance(returned, TaskReturned)
    assert "\n" not in returned.reason.summary and all("\n" not in one for one in returned.reason.findings)


def test_what_a_scan_holds_against_it_comes_back_with_it() -> None:
    """A finding that needs a look counts against the entry if no review will look."""
    blocks, attention = (
        ScanFinding(rule=rule, path="a.py", line=3, text="x", weight=weight, said="it is wrong; mend it")
        for rule, weight in (("placeholder", "blocks"), ("test-edited", "attention"))
    )
    found = CheckAnswered(task="a", result=verdict("a", "findings", findings=(blocks, attention), diff_tail="+x"))
    for reviewed, count in ((True, 1), (False, 2)):
        plan = of("cheap_first", task("a", **REVIEWED), review=None if reviewed else "none")
        state = begun(plan, sent("a"), answered("a", claimed_summary="did it"), queued("a", reviewed=reviewed))
        (returned,) = next_events(plan, follow(state, check_sent("a"), found))
        assert isinstance(returned, TaskReturned) and returned.reason.kind == "findings"
        reason = returned.reason
        assert reason.findings[0] == "a.py:3: placeholder: it is wrong; mend it (`x`)"
        assert (len(reason.findings), reason.diff_tail, reason.tried) == (count, "+x", "did it")


@pytest.mark.parametrize("outcome", ["void", "unreachable", "not_configured", "limits"])
def test_what_is_no_verdict_waits_for_a_person_who_is_told_the_commands(outcome: str) -> None:
    plan = of()
    state = follow(reviewing(plan), review_sent("a"), review_answered("a", outcome, detail="so it is"))
    (parked,) = next_events(plan, state)
    assert isinstance(parked, TaskParked) and parked.why == "review" and "so it is" in parked.question
    for command in ("approve r-1 a --by NAME", "reject r-1 a REASON --by NAME", "retry r-1 a"):
        assert f"forgepool {command}" in parked.question


def test_a_conflict_found_by_a_review_is_a_conflict_and_a_stale_one_begins_anew() -> None:
    plan = of()
    state = follow(reviewing(plan), review_sent("a"), review_answered("a", "conflict", detail="clashes"))
    (returned,) = next_events(plan, state)
    assert isinstance(returned, TaskReturned) and returned.reason.kind == "conflict"
    state = follow(reviewing(plan), review_sent("a"), review_answered("a", "stale"))
    assert kinds(plan, state) == ["order.sent"] and state.tasks["a"].charged == 0


def test_trouble_is_tried_again_and_a_limit_waited_out() -> None:
    plan = of()
    state = follow(reviewing(plan), review_sent("a"), review_answered("a", "infrastructure"))
    assert (kinds(plan, state, now=100.5), kinds(plan, state, now=101.0)) == ([], ["review.sent"])
    follow(state, review_sent("a", 2), review_answered("a", "infrastructure", 2, not_before=500.0))
    assert (kinds(plan, state, now=499.0), kinds(plan, state, now=500.0)) == ([], ["review.sent"])


def test_a_reviewer_that_is_lost_on_and_on_is_a_matter_for_a_person() -> None:
    plan = of()
    state = reviewing(plan)
    for number in range(1, MOST_TROUBLES + 1):
        assert kinds(plan, state, now=1e6) == ["review.sent"]
        follow(state, review_sent("a", number), MessageLost(message_id=f"{RUN}.a.1.review-{number}", why="gone"))
    (parked,) = next_events(plan, state, now=1e6)
    assert isinstance(parked, TaskParked) and parked.why == "review" and "gone" in parked.question
    assert state.tasks["a"].troubles == 0


def test_a_gate_that_is_shut_asks_for_no_review() -> None:
    plan = of()
    assert kinds(plan, follow(reviewing(plan), GateHalted(why="w"))) == []


def test_no_more_reviews_are_asked_for_at_once_than_there_are_slots() -> None:
    plan = of("cheap_first", *(task(name, **REVIEWED) for name in "abc"))
    state = begun(plan)
    for name in "abc":
        follow(state, sent(name), answered(name), queued(name, reviewed=True), check_sent(name), green(name))
        follow(state, awaited(name))
    assert [event.task for event in next_events(plan, state) if isinstance(event, ReviewSent)] == ["a", "b"]
    follow(state, review_sent("a"))
    assert [event.task for event in next_events(plan, state) if isinstance(event, ReviewSent)] == ["b"]
    assert kinds(plan, state, reviews=1) == []


def test_a_reviewer_is_told_the_task_the_checks_and_what_others_are_at() -> None:
    plan = of(
        "cheap_first",
        task(
            "a",
            files=["src/**"],
            title="Mend it",
            acceptance=("pytest",),
            grants=("ci.yml",),
            waive=("secret",),
            **REVIEWED,
        ),
        task("b", files=["docs/**"]),
        task("c", files=["later"]),
    )
    look, note = (
        ScanFinding(rule="protected-path", path="ci.yml", weight=weight, said="s") for weight in ("attention", "note")
    )
    came = answered("a", paths=["src/[x].py"], models=("claude-x",), families=("claude",), planned=("src/y",))
    state = begun(plan, sent("a"), sent("b"), came, LockExtended(task="a", paths=("src/[x].py",)))
    follow(state, queued("a", reviewed=True), check_sent("a"))
    follow(
        state, green(findings=(look, note), flaky=(Flake(check="test", tests=("t1",)),)), awaited("a"), review_sent("a")
    )
    request = review_request(plan, state, state.tasks["a"], state.outstanding()[f"{RUN}.a.1.review-1"], now=1.0)
    (entry,) = request.entries
    assert (entry.author.agent, entry.author.models, entry.author.families) == ("builtin", ("claude-x",), ("claude",))
    assert (entry.holds, entry.extended) == (("src/**",), ("src/[x].py",))
    assert (entry.grants, entry.waive) == (("ci.yml",), ("secret",))
    assert entry.planned == ("src/y",) and request.reviewed
    assert [(one.task, one.files) for one in request.siblings] == [("b", ("docs/**",))]
    assert request.findings == (look,) and "check 'test' is green, 1.0 s" in request.checked
    assert any("t1" in one for one in request.checked) and request.acceptance == ("pytest",)


@pytest.mark.parametrize(
    ("agent", "families"),
    [(BuiltinAgent(), ("unknown",)), (CommandAgent(run="true"), ()), (ScriptedAgent(script="x"), ("unknown",))],
)
def test_a_model_whose_family_nobody_tells_may_be_anybodys(agent: Any, families: tuple[str, ...]) -> None:
    plan = of("cheap_first", task("a", agent=agent, files=None))
    state = in_train(plan, check_sent("a"))
    request = check_request(plan, state, state.outstanding()[f"{RUN}.a.1.check-1"], now=1.0)
    assert request.entries[0].author.families == families and request.entries[0].holds is None


def test_a_landing_that_was_refused_or_moved_is_checked_again_and_keeps_its_review() -> None:
    plan = of()
    state = follow(reviewing(plan), review_sent("a"), review_answered("a"))
    (intent,) = next_events(plan, state)
    follow(state, intent, LandingAnswered(task="a", result=landing("a", "moved", commit="c9")))
    assert kinds(plan, state) == ["check.sent"]
    assert state.tasks["a"].review.passed


def test_a_landing_that_was_refused_is_not_tried_again_with_the_certificates_it_was_refused_with() -> None:
    """This holds even on the same tip, after a person has mended the target."""
    plan = of()
    state = follow(reviewing(plan), review_sent("a"), review_answered("a"))
    follow(state, *next_events(plan, state), LandingAnswered(task="a", result=landing("a", "refused")))
    assert kinds(plan, state) == ["check.sent"]
    lost = follow(reviewing(plan), review_sent("a"), review_answered("a"))
    (intent,) = next_events(plan, lost)
    assert isinstance(intent, LandingIntended)
    follow(lost, intent, MessageLost(message_id=intent.message_id, why="gone"))
    assert kinds(plan, lost) == ["check.sent"]


def test_an_answer_to_a_review_changes_nothing_without_its_token() -> None:
    plan = of()
    state = follow(reviewing(plan), review_sent("a"))
    assert receive_answer(plan, state, review("a").model_copy(update={"token": "other"})) == []
    (event,) = receive_answer(plan, state, review("a"))
    assert message_of(event) == f"{RUN}.a.1.review-1"


def test_a_task_that_is_cancelled_under_review_owes_nothing_more() -> None:
    plan = of()
    state = follow(reviewing(plan), review_sent("a", reserved_usd=1.0))
    follow(state, *grant_request(plan, state, PersonRequest(do="cancel", task="a")))
    assert state.outstanding() == {} and state.tasks["a"].phase == "cancelled"


def test_what_a_review_has_used_is_on_the_tasks_bill() -> None:
    plan = of()
    spent = Spent(turns=3, input_tokens=100, output_tokens=10, cost_usd=0.5)
    state = follow(reviewing(plan), review_sent("a", reserved_usd=2.0), review_answered("a", spent=spent))
    assert plan.ledger(state).usd == 0.5 and [use.spent for use in state.uses() if use.models] == [spent]
