"""Landed work is reviewed as a whole by a family that wrote none of it. Without such a review nothing passes."""

from pathlib import Path
from typing import Any

import pytest
from plans import RUN, answered, begun, check_sent, course, follow, intended, landing, queued, sent, task, verdict

from forgepool.orchestrator.decisions.decide import decide
from forgepool.orchestrator.decisions.orders.treasury import (
    AskedAccounts,
    LimitStanding,
    Totals,
    TreasuryFacts,
    TreasuryLimit,
)
from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.decisions.requests import grant_request, overtaken
from forgepool.orchestrator.decisions.results import message_of, receive_answer
from forgepool.orchestrator.decisions.reviews import post_merge
from forgepool.orchestrator.journal.events import (
    EVENT,
    BudgetSet,
    CheckAnswered,
    Event,
    GateHalted,
    LandingAnswered,
    MessageLost,
    MessageTaken,
    RunEnded,
    RunResumed,
    TreasuryLimited,
    WaveAnswered,
    WaveApproved,
    WaveReviewAnswered,
    WaveReviewSent,
    WaveSent,
)
from forgepool.orchestrator.journal.inbox import PersonRequest
from forgepool.orchestrator.journal.store import Recorded
from forgepool.orchestrator.plan.budget import Budget
from forgepool.orchestrator.plan.entries import GateOptions, PlanReview, Wave
from forgepool.orchestrator.reports.attention import Liveness, attention
from forgepool.orchestrator.reports.event_text import sentence
from forgepool.orchestrator.reports.report import report_lines
from forgepool.orchestrator.reports.status import standing
from forgepool.orchestrator.run.dispatch import wave_review_request
from forgepool.orchestrator.run.run_folder import KeptRun, RunOptions
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import MOST_TROUBLES, IllegalStep
from forgepool.supervisor.findings import ReviewFinding
from forgepool.supervisor.messages.answers import CheckResult, Review
from forgepool.supervisor.messages.requests import ReviewPolicy
from forgepool.workers.schema.orders import Spent

SCRIPT = PlanReview(policy=ReviewPolicy(script="x"))
BUG = ReviewFinding(severity="high", category="bug", file="b.py", line=3, claim="a is two now", evidence="b(1)")
NO_VERDICT = ("unreachable", "not_configured", "void", "limits")


def of(when: str, *names: str, every: int | None = 2, **said: Any) -> PlanIndex:
    gate = GateOptions.model_validate({"wave": Wave(every=every), "integration_review": when})
    tasks = [task(name, title=f"Do {name}") for name in names]
    return course(*tasks, gate=gate, **{"review": SCRIPT, **said})


def land(state: RunState, *names: str, **made: Any) -> RunState:
    for name in names:
        events = (sent(name), answered(name, **made), queued(name), check_sent(name, base=state.tip))
        follow(state, *events, CheckAnswered(task=name, result=verdict(name)))
        intent = intended(name).model_copy(update={"base": state.tip})
        follow(state, intent, LandingAnswered(task=name, result=landing(name)))
    return state


def next_events(of: PlanIndex, state: RunState, now: float = 1e6) -> list[Event]:
    return decide(of, state, now=now, order_slots=0, review_slots=0, draining=False)


def green(of: PlanIndex, state: RunState) -> RunState:
    """Answer the post-merge check that is due: the target passes."""
    (wave,) = next_events(of, state)
    assert isinstance(wave, WaveSent), wave
    follow(state, wave)
    result = CheckResult(request_id=wave.message_id, token=wave.token, verdict="green")
    return follow(state, *receive_answer(of, state, result))


def told(of: PlanIndex, *events: Event) -> list[str]:
    """Return the lines of the report of a run with these events."""
    options = RunOptions(run=RUN, hub="/hub", target="t", workers=1, plan_file="p", plan_file_digest="d")
    recorded = [Recorded(number, 100.0 + number, event) for number, event in enumerate(events, start=1)]
    return list(report_lines(KeptRun(Path(), options, of.plan, of), begun(of, *events), recorded))


def asked(of: PlanIndex, state: RunState) -> WaveReviewSent:
    """Send the review that is due, and return its event."""
    (event,) = next_events(of, state)
    assert isinstance(event, WaveReviewSent), event
    follow(state, event)
    return event


def said(state: RunState, outcome: str, **more: Any) -> Review:
    message = state.wave_review.review.message
    assert message is not None
    where = {"request_id": message.message_id, "token": message.token, "outcome": outcome}
    return Review.model_validate({**where, "patch_id": "p", "families": ("gpt",), **more})


def answer(of: PlanIndex, state: RunState, outcome: str, **more: Any) -> RunState:
    return follow(state, *receive_answer(of, state, said(state, outcome, **more)))


def halted(of: PlanIndex, state: RunState) -> GateHalted:
    """Assert that the next event pauses landing, and apply it."""
    (event,) = next_events(of, state)
    assert isinstance(event, GateHalted) and event.reviewed, event
    follow(state, event)
    return event


def approve(of: PlanIndex, state: RunState, tip: str = "") -> list[Event]:
    return grant_request(of, state, PersonRequest(do="approve", wave=True, by="Ada", candidate=tip or state.tip))


def test_each_green_wave_is_reviewed_as_a_whole_and_nothing_is_let_in_meanwhile() -> None:
    plan = of("each", "a", "b", "c")
    state = green(plan, land(begun(plan), "a", "b"))
    follow(state, sent("c"), answered("c"), queued("c"))
    event = asked(plan, state)
    assert (event.base, event.tip, event.tasks) == ("c0", "m-b-1", ("a", "b"))
    assert event.message_id == f"{RUN}.wave-review-1" and state.outstanding()[event.message_id].kind == "wave_review"
    assert next_events(plan, state) == [], "the gate is taken"
    answer(plan, state, "passed")
    assert [one.kind for one in next_events(plan, state)] == ["check.sent"]


def test_what_was_passed_as_a_whole_is_in_no_later_review() -> None:
    plan = of("each", "a", "b", "c", every=1)
    state = begun(plan)
    for name, base in (("a", "c0"), ("b", "m-a-1")):
        green(plan, land(state, name))
        event = asked(plan, state)
        assert (event.base, event.tasks) == (base, (name,))
        answer(plan, state, "passed")


def test_at_the_end_all_that_has_landed_is_reviewed_once_and_the_run_does_not_end_before() -> None:
    plan = of("end", "a", "b", "c")
    state = green(plan, land(begun(plan), "a", "b"))
    assert next_events(plan, state) == [], "nobody is asked in the middle"
    green(plan, land(state, "c"))
    assert asked(plan, state).tasks == ("a", "b", "c")
    with pytest.raises(IllegalStep, match="while what has landed is reviewed"):
        follow(state, RunEnded(landed=3, not_landed=0))
    answer(plan, state, "passed")
    assert next_events(plan, state) == [RunEnded(landed=3, not_landed=0)]


def test_without_a_landing_or_a_word_in_the_plan_nobody_is_asked() -> None:
    plan = of("each", "a")
    state = begun(plan, sent("a"), answered("a", 1, "no_change"))
    follow(state, *next_events(plan, state), sent("a", 2), answered("a", 2, "no_change"))
    follow(state, *next_events(plan, state))
    assert next_events(plan, state) == [RunEnded(landed=0, not_landed=1)]
    silent = of("never", "a")
    assert next_events(silent, green(silent, land(begun(silent), "a")))[0].kind == "run.ended"


def test_no_reviewer_is_asked_about_a_tip_that_was_not_found_green() -> None:
    plan = of("end", "a")
    state = land(begun(plan), "a")
    early = WaveReviewSent(number=1, message_id="m", token="t", base="c0", tip=state.tip, tasks=("a",), issued_at=1.0)
    with pytest.raises(IllegalStep, match="before all checks are green"):
        follow(state, early)


def test_the_request_names_every_author_what_each_was_asked_and_what_the_checks_said() -> None:
    plan = of("end", "a", "b", "c", every=None)
    made = {"models": ("claude-x",), "families": ("claude",)}
    state = land(begun(plan), "a", "b", **made)
    land(state, "c", models=("north-1",), families=("north",))
    (wave,) = next_events(plan, state)
    assert isinstance(wave, WaveSent)
    found = verdict("a").model_copy(update={"request_id": wave.message_id, "token": wave.token})
    follow(state, wave)
    follow(state, *receive_answer(plan, state, found))
    event = asked(plan, state)
    request = wave_review_request(plan, state, state.outstanding()[event.message_id], now=1.0)
    assert request.wave is not None and request.entries == () and (request.base, request.wave.tip) == ("c0", "m-c-1")
    assert [one.families for one in request.authors] == [("claude",), ("north",)]
    assert [(one.task, one.title, one.commit) for one in request.wave.tasks][1] == ("b", "Do b", "m-b-1")
    assert request.checked == ("check 'test' is green, 1.0 s",) and request.policy.script == "x"
    assert request.known is None


def test_a_failed_wave_takes_nothing_back_shuts_the_gate_and_says_what_was_found() -> None:
    plan = of("each", "a", "b", "c")
    state = green(plan, land(begun(plan), "a", "b"))
    asked(plan, state)
    answer(plan, state, "failed", findings=(BUG,))
    shut = halted(plan, state)
    assert not shut.infrastructure and [one.id for one in state.in_phase("landed")] == ["a", "b"]
    for words in (
        "the landings of 'a', 'b' as a whole, c0..m-b-1",
        "b.py:3: a is two now",
        "nothing is taken back; mend it on t and resume",
        f"forgepool approve {RUN} --wave --by NAME",
    ):
        assert words in shut.why
    follow(state, sent("c"), answered("c"), queued("c"))
    assert next_events(plan, state) == [], "landing pauses"


def test_a_verdict_stands_over_a_resume_and_nobody_is_asked_again_about_the_same_tip() -> None:
    plan = of("end", "a")
    state = green(plan, land(begun(plan), "a"))
    asked(plan, state)
    first = halted(plan, answer(plan, state, "failed", findings=(BUG,)))
    follow(state, RunResumed(tip=state.tip))
    assert halted(plan, state).why == first.why


def test_what_was_mended_on_the_target_is_checked_and_reviewed_again_from_where_it_began() -> None:
    """The earlier verdict is sent along. It still holds if the difference is the same."""
    plan = of("end", "a")
    state = green(plan, land(begun(plan), "a"))
    asked(plan, state)
    halted(plan, answer(plan, state, "failed", findings=(BUG,)))
    follow(state, RunResumed(tip="mended"))
    (wave,) = next_events(plan, state)
    assert isinstance(wave, WaveSent) and (wave.base, wave.since, wave.tasks) == ("mended", "c0", ("a",))
    green(plan, state)
    event = asked(plan, state)
    assert (event.base, event.tip, event.number) == ("c0", "mended", 2)
    request = wave_review_request(plan, state, state.outstanding()[event.message_id], now=1.0)
    assert request.known is not None and request.known.findings == (BUG,)
    answer(plan, state, "passed")
    assert next_events(plan, state) == [RunEnded(landed=1, not_landed=0)]


@pytest.mark.parametrize("outcome", NO_VERDICT)
def test_without_a_verdict_landing_goes_on_and_the_end_waits_for_a_person(outcome: str) -> None:
    plan = of("each", "a", "b", "c")
    state = green(plan, land(begun(plan), "a", "b"))
    asked(plan, state)
    answer(plan, state, outcome, detail="no key")
    assert next_events(plan, state) == [] and not state.halted
    green(plan, land(state, "c"))
    event = asked(plan, state)
    assert (event.base, event.tasks) == ("c0", ("a", "b", "c")), "what nobody passed is in the next one"
    answer(plan, state, outcome, detail="no key")
    shut = halted(plan, state)
    assert shut.why.startswith("a person has to look: ") and "no key" in shut.why and "\n" not in shut.why
    assert f"forgepool resume {RUN} asks again" in shut.why and f"forgepool approve {RUN} --wave" in shut.why
    follow(state, RunResumed(tip=state.tip))
    assert asked(plan, state).tasks == ("a", "b", "c")


def test_a_review_that_is_lost_is_asked_for_again_and_not_for_ever() -> None:
    plan = of("end", "a")
    state = green(plan, land(begun(plan), "a"))
    for number in range(1, MOST_TROUBLES + 1):
        event = asked(plan, state)
        assert event.number == number
        follow(state, MessageTaken(message_id=event.message_id, host="h", pid=7))
        assert state.holder(state.outstanding()[event.message_id]) == "h/7"
        follow(state, MessageLost(message_id=event.message_id, why="gone"))
    (shut,) = next_events(plan, state)
    assert isinstance(shut, GateHalted) and shut.infrastructure and "lastly: gone" in shut.why


def test_a_models_limit_is_waited_for() -> None:
    plan = of("end", "a")
    state = green(plan, land(begun(plan), "a"))
    asked(plan, state)
    answer(plan, state, "infrastructure", not_before=500.0, detail="quota")
    assert next_events(plan, state, now=499.0) == []
    assert next_events(plan, state, now=501.0)[0].kind == "wave_review.sent"


def test_an_answer_is_taken_once_and_never_without_its_token() -> None:
    plan = of("end", "a")
    state = green(plan, land(begun(plan), "a"))
    asked(plan, state)
    passed = said(state, "passed")
    assert receive_answer(plan, state, passed.model_copy(update={"token": "other"})) == []
    (event,) = receive_answer(plan, state, passed)
    assert message_of(event) == passed.request_id
    follow(state, event)
    assert receive_answer(plan, state, passed) == []
    with pytest.raises(IllegalStep, match="no review of what has landed is waited for"):
        follow(state, event)


def test_a_persons_word_opens_the_gate_that_a_review_has_shut() -> None:
    plan = of("each", "a", "b", "c")
    state = green(plan, land(begun(plan), "a", "b"))
    asked(plan, state)
    halted(plan, answer(plan, state, "failed", findings=(BUG,)))
    assert approve(plan, state, tip="another") == []
    assert "is at m-b-1 now" in (overtaken(state, PersonRequest(do="approve", wave=True, candidate="another")) or "")
    follow(state, *approve(plan, state))
    assert not state.halted and post_merge.list_unreviewed(state) == ()
    land(state, "c")
    assert green(plan, state) and asked(plan, state).base == "m-b-1"


def test_a_persons_word_makes_a_review_under_way_needless() -> None:
    plan = of("end", "a")
    state = green(plan, land(begun(plan), "a"))
    event = asked(plan, state)
    late = said(state, "failed", findings=(BUG,))
    (word,) = approve(plan, state)
    before = state.messages_about(word)
    follow(state, word)
    assert [one.message_id for one in before] == [event.message_id] and state.messages_about(word) == ()
    assert receive_answer(plan, state, late) == []
    assert next_events(plan, state) == [RunEnded(landed=1, not_landed=0)]


def test_a_word_that_nobody_wants_is_refused_with_the_reason() -> None:
    plan, silent = of("end", "a", "b"), of("never", "a")
    state = begun(plan)
    assert "nothing landed" in (post_merge.why_not_approve_landings(plan, state) or "")
    land(state, "a")
    assert "has no landings that wait for an approval yet" in (post_merge.why_not_approve_landings(plan, state) or "")
    assert "no 'integration_review'" in (post_merge.why_not_approve_landings(silent, begun(silent)) or "")
    with pytest.raises(IllegalStep, match="not at another as Ada has seen it"):
        follow(state, WaveApproved(by="Ada", tip="another"))


def test_what_a_model_may_use_for_it_is_reserved_settled_and_where_it_lacks_a_person_is_asked() -> None:
    plan = of("each", "a", "b", "c", review=PlanReview(), budget=Budget(usd=1.0))
    state = green(plan, land(begun(plan), "a", "b"))
    event = asked(plan, state)
    assert event.reserved_usd and plan.ledger(state).usd == event.reserved_usd
    answer(plan, state, "void", detail="twice", spent=Spent(turns=3, cost_usd=0.97))
    assert plan.ledger(state).usd == 0.97
    assert next_events(plan, state) == [], "it goes on"
    green(plan, land(state, "c"))
    shut = halted(plan, state)
    assert "cannot be paid" in shut.why and f"forgepool budget {RUN} --usd USD" in shut.why
    follow(state, BudgetSet(budget=Budget(usd=5.0)), RunResumed(tip=state.tip))
    assert asked(plan, state).tasks == ("a", "b", "c")


def test_every_event_of_it_is_one_line_and_is_read_back() -> None:
    plan = of("end", "a")
    state = green(plan, land(begun(plan), "a"))
    event = asked(plan, state)
    outcomes = ["passed", "failed", "infrastructure", "void", "unreachable"]
    told: list[Event] = [event, WaveApproved(by="Ada", tip="m-a-1"), GateHalted(why="w", reviewed=True)]
    told += [WaveReviewAnswered(result=said(state, one, detail="d")) for one in outcomes]
    told.append(WaveReviewAnswered(result=said(state, "infrastructure", detail="d", not_before=5.0)))
    for one in told:
        words = sentence(one)
        assert words and "\n" not in words
        assert EVENT.validate_json(one.encode()) == one
    assert EVENT.validate_json('{"kind": "gate.halted", "why": "w"}') == GateHalted(why="w")


def test_status_has_it_for_programs() -> None:
    plan = of("end", "a")
    state = green(plan, land(begun(plan), "a"))
    asked(plan, state)
    halted(plan, answer(plan, state, "failed", findings=(BUG,)))
    now = standing(plan, state, now=1.0, live=False)
    assert now.whole is not None and now.shut == state.halted and now.as_json()["whole"]
    assert (now.whole.review.outcome, now.whole.since, now.whole.tip, now.whole.tasks) == (
        *("failed", "c0", "m-a-1"),
        ("a",),
    )
    assert now.whole.review.held == ("high bug, b.py:3: a is two now; b(1)",)
    assert standing(of("never", "a"), state, now=1.0, live=False).whole is None


def test_the_report_has_what_stands_against_the_whole_in_front_and_each_review_at_its_place() -> None:
    plan = of("end", "a", review=PlanReview())
    state = land(begun(plan), "a")
    steps: list[Event] = [sent("a"), answered("a"), queued("a"), check_sent("a")]
    steps += [CheckAnswered(task="a", result=verdict("a")), intended("a")]
    steps.append(LandingAnswered(task="a", result=landing("a")))
    (wave,) = next_events(plan, state)
    assert isinstance(wave, WaveSent)
    steps += [wave, WaveAnswered(result=CheckResult(request_id=wave.message_id, token=wave.token, verdict="green"))]
    follow(state, *steps[-2:])
    event = asked(plan, state)
    found = {"findings": (BUG,), "models": ("gpt-x",), "changed": ("a.py", "b.py"), "read": ("a.py", "b.py")}
    failed = WaveReviewAnswered(result=said(state, "failed", spent=Spent(input_tokens=700, cost_usd=0.2), **found))
    steps += [event, failed]
    follow(state, failed)
    text = told(plan, *steps, halted(plan, state))
    front = text.index("## Integration review not passed")
    assert front < text.index("## Landed, in this order")
    assert text[front + 2] == f"- 1 landing: a; forgepool approve {RUN} --wave --by NAME answers for it"
    assert text[front + 4] == "  - held: high bug, b.py:3: a is two now; b(1)"
    of_it = "- integration review of 1 landing, c0..m-a-1: failed by gpt-x (gpt), who read 2 of 2 changed files"
    assert of_it in text
    cost = "  - of that, by integration reviews: gpt-x: 700 tokens in, 0 out, 0.20 USD"
    assert cost in text
    approved = told(plan, *steps, WaveApproved(by="Ada", tip="m-a-1"))
    assert "## Integration review not passed" not in approved
    assert "- Ada approved everything landed up to m-a-1" in approved


@pytest.mark.parametrize("account", ["", "first"])
def test_a_review_that_the_treasury_holds_back_is_told_with_the_command_that_does_without_it(account: str) -> None:
    """All has landed, and the run would else wait for the next day without a word."""
    full = LimitStanding(limit=TreasuryLimit(account=account, per="day", usd=1.0), at=1e6, others=Totals(1_000_000))
    asked = AskedAccounts(reviewers=(("first", "x"),))
    plan = of("end", "a", review=PlanReview()).within(TreasuryFacts(current=(full,), asked=asked))
    state = green(plan, land(begun(plan), "a"))
    (limited,) = next_events(plan, state)
    assert isinstance(limited, TreasuryLimited) and limited.effect == "waits"
    follow(state, limited)
    assert next_events(plan, state) == [], "the run goes on waiting"
    now = standing(plan.within(None), state, now=1e6, live=True)
    assert now.outcome == "running" and now.whole is not None and now.whole.waits == limited.words
    (row,) = attention(plan.within(None), state, Liveness(live=True, now=1e6))
    assert row.sentence == f"The review of what has landed waits: {limited.words}"
    assert row.command == f"forgepool approve {RUN} --wave --by NAME"
    follow(state, *approve(plan, state))
    assert not attention(plan.within(None), state, Liveness(live=True, now=1e6))
    assert [one.kind for one in next_events(plan, state)] == ["run.ended"]
