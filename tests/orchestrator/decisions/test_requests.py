"""A person's request is granted where it is still possible, and refused elsewhere."""

import pytest
from plans import answered, begun, check_sent, course, follow, intended, landing, queued, result, sent, task, verdict

from forgepool.orchestrator.decisions.reasons import (
    LOG_TAIL_CHARS,
    reason_of_check,
    reason_of_scope,
    reason_of_work,
    review_finding_words,
)
from forgepool.orchestrator.decisions.requests import grant_request
from forgepool.orchestrator.journal.events import (
    CheckAnswered,
    Event,
    LandingAnswered,
    PlanRevised,
    TaskBlocked,
    TaskCancelled,
    TaskFailed,
    TaskRetried,
)
from forgepool.orchestrator.journal.inbox import PersonRequest
from forgepool.orchestrator.journal.store import Recorded
from forgepool.orchestrator.plan.requirements import find_needs
from forgepool.orchestrator.reports.event_text import telling_lines
from forgepool.orchestrator.run.dispatch import check_request, land_request, order
from forgepool.orchestrator.run.recovery import work_of
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import IllegalStep
from forgepool.supervisor.findings import ReviewFinding
from forgepool.supervisor.messages.answers import CheckFailure
from forgepool.workers.schema.orders import BuiltinAgent, ReasonPack, Reply

ONE = course(task("a"), task("b", "a"), task("c", "b"), task("d"))
GREEN = CheckAnswered(task="a", result=verdict("a"))
TO_LANDING: list[Event] = [sent("a"), answered("a"), queued("a"), check_sent("a"), GREEN, intended("a")]
LANDED = LandingAnswered(task="a", result=landing("a"))
REASON = ReasonPack(attempt=1, kind="no_change", summary="s")


def asked(state: RunState, do: str, name: str | None) -> list[str]:
    events = grant_request(ONE, state, PersonRequest.model_validate({"do": do, "task": name}))
    follow(state, *events)
    return [getattr(event, "task", "") for event in events]


@pytest.mark.parametrize("steps", range(6))
def test_a_task_is_cancelled_at_any_time_before_its_landing(steps: int) -> None:
    state = begun(ONE, *TO_LANDING[:steps])
    assert asked(state, "cancel", "a") == ["a"]
    assert state.tasks["a"].phase == "cancelled" and state.tasks["a"].message is None


def test_a_landing_is_not_called_back_and_what_has_ended_is_not_cancelled() -> None:
    assert asked(begun(ONE, *TO_LANDING), "cancel", "a") == []
    with pytest.raises(IllegalStep):
        follow(begun(ONE, *TO_LANDING), TaskCancelled(task="a"))
    assert asked(begun(ONE, *TO_LANDING, LANDED), "cancel", None) == ["b", "c", "d"]
    assert asked(begun(ONE), "cancel", "nobody") == []


def test_what_was_blocked_for_want_of_a_task_is_retried_with_it() -> None:
    state = begun(ONE, sent("a"), answered("a", 1, "no_change"), TaskFailed(task="a", reason=REASON))
    follow(state, TaskBlocked(task="b", by="a"), TaskBlocked(task="c", by="b"))
    assert asked(state, "retry", "a") == ["a", "b", "c"]
    assert {one.phase for one in state.tasks.values()} == {"pending"}
    assert asked(state, "retry", None) == []


@pytest.mark.parametrize("name", ["b", "c"])
def test_a_blocked_task_is_retried_with_what_it_needs_and_lacks(name: str) -> None:
    """Retried alone, it would be blocked again at once."""
    state = begun(ONE, sent("a"), answered("a", 1, "no_change"), TaskFailed(task="a", reason=REASON))
    follow(state, TaskBlocked(task="b", by="a"), TaskBlocked(task="c", by="b"), TaskCancelled(task="d"))
    assert asked(state, "retry", name) == ["a", "b", "c"]
    assert state.tasks["d"].phase == "cancelled", "nobody asked for it"


def test_a_failed_task_is_retried_without_what_it_needed_and_got() -> None:
    state = begun(ONE, *TO_LANDING, LANDED, TaskCancelled(task="b"), TaskBlocked(task="c", by="b"))
    assert asked(state, "retry", "c") == ["b", "c"]


def test_the_named_tasks_alone_hear_a_note_and_have_another_model_until_the_plan_changes_them() -> None:
    agent = BuiltinAgent(model="m-1", models={"plan": "m-2", "review": "m-3"})
    of = course(task("a", agent=agent), task("b", "a"), task("c", agent=agent), task("d"))
    state = begun(of, sent("a"), answered("a", 1, "no_change"), TaskFailed(task="a", reason=REASON))
    follow(state, TaskBlocked(task="b", by="a"), TaskCancelled(task="c"), TaskCancelled(task="d"))
    wish = PersonRequest(do="retry", named=("a", "c"), text="keep the name", by="ann", model="m-9")
    events = grant_request(of, state, wish)
    named = {"note": "keep the name", "by": "ann", "model": "m-9"}
    assert events == [TaskRetried(task="a", **named), TaskRetried(task="b"), TaskRetried(task="c", **named)]
    follow(state, *events, sent("a", 2))
    of = of.grow_with(state)
    again = order(of, state, state.tasks["a"], state.outstanding()["r-1.a.2"], now=1.0, resent=False)
    assert again.agent == BuiltinAgent(model="m-9", models={"review": "m-3"})
    assert again.replies == (Reply(question="", answer="keep the name", by="ann"),)
    assert of.host_needs["c"] == find_needs(task("c", agent=BuiltinAgent(model="m-9")))
    assert (state.tasks["b"].replies, state.tasks["d"].phase) == ((), "cancelled")
    follow(state, PlanRevised(plan_file="p", plan_digest="d", tasks=("a", "b", "c", "d"), afresh=("c",)))
    assert state.models == {"a": "m-9"}


def test_what_has_landed_is_never_tried_again() -> None:
    state = begun(ONE, *TO_LANDING, LANDED)
    assert asked(state, "retry", "a") == []


def test_a_message_is_sent_again_as_it_was_but_for_its_time() -> None:
    state = begun(ONE, sent("a"))
    outstanding = state.outstanding()["r-1.a.1"]
    first = order(ONE, state, state.tasks["a"], outstanding, now=200.0, resent=False)
    follow(state, sent("d"), at=500.0)
    again = order(ONE, state, state.tasks["a"], outstanding, now=600.0, resent=True)
    assert again.start_by == first.start_by + 400.0 and again.resent and not first.resent
    assert again.model_copy(update={"start_by": first.start_by, "resent": False}) == first


def test_a_check_and_a_landing_speak_of_the_adopted_attempts_candidate() -> None:
    state = begun(ONE, sent("a"), answered("a"), queued("a"), check_sent("a"))
    asked_for = check_request(ONE, state, state.outstanding()["r-1.a.1.check-1"], now=200.0)
    (entry,) = asked_for.entries
    assert (entry.commit, entry.ref, asked_for.base) == ("c-a-1", "refs/forgepool/r-1/orders/a/1", "c0")
    work = work_of(ONE.plan, ONE.tasks["a"])
    assert entry.message.endswith(f"Forgepool-Attempt: 1\nForgepool-Agent: command\nForgepool-Work: {work}\n")
    follow(state, GREEN, intended("a"))
    landing_of = land_request(ONE, state, state.outstanding()["r-1.a.1.land-1"], now=200.0)
    assert (landing_of.commit, landing_of.tree) == ("m-a-1", "tree-a-1")
    assert landing_of.certificates == GREEN.result.certificates and landing_of.entries == asked_for.entries


def test_a_reason_has_the_end_of_the_log_and_how_to_see_it_again() -> None:
    tail = "x" * LOG_TAIL_CHARS + "the end"
    failure = CheckFailure(check="t", how="exit", status=1, log_tail=tail, log="l")
    judged = begun(ONE, sent("a"), answered("a")).tasks["a"]
    reason = reason_of_check(verdict("a", "red", failures=(failure,), detail="d", reproduce="git checkout x"), judged)
    assert (reason.attempt, reason.kind, reason.reproduce) == (1, "check_failed", "git checkout x")
    assert reason.log_tail.endswith("the end") and len(reason.log_tail) == LOG_TAIL_CHARS


def test_the_parts_of_a_finding_are_joined_without_a_semicolon_behind_a_full_stop() -> None:
    found = ReviewFinding(severity="low", category="bug", file="a", claim="Wrong.", evidence="f(1)", fix="mend it")
    assert review_finding_words(found) == "a: Wrong. f(1); mend it"


def test_the_reason_of_a_ratchet_has_only_the_new_findings_and_tells_them_once() -> None:
    new = "a.py:9: F401 `os` imported but unused"
    log = f"b.py:1:1: E501 Line too long\n{new}\n"
    failure = CheckFailure(check="t", how="exit", status=1, log_tail=log, log="l", problems=(new,))
    judged = begun(ONE, sent("a"), answered("a")).tasks["a"]
    reason = reason_of_check(verdict("a", "red", failures=(failure,), detail=f"one new finding: {new}"), judged)
    assert reason.log_tail == new
    assert telling_lines(Recorded(1, 1.0, TaskFailed(task="a", reason=reason))) == ()


@pytest.mark.parametrize(
    ("outcome", "kind"),
    [
        ("no_change", "no_change"),
        ("verify_failed", "verify_failed"),
        ("limits_spent", "limits"),
        ("agent_failed", "agent_failed"),
    ],
)
def test_a_failed_attempt_always_says_something(outcome: str, kind: str) -> None:
    made = result("a").model_copy(update={"outcome": outcome})
    reason = reason_of_work(made, attempt=1)
    assert reason.kind == kind and outcome in reason.summary


def test_many_paths_out_of_scope_are_counted() -> None:
    reason = reason_of_scope(tuple(f"p{number}" for number in range(9)), ("a",), attempt=1)
    assert "p0, p1, p2, p3, p4 and 4 more" in reason.summary and len(reason.paths) == 9
