"""A claim in a synthesis stands only where the journal confirms it, for each task and commit that it names."""

import pytest
from plans import answered, begun, check_sent, course, intended, landing, queued, sent, task, verdict

from forgepool.orchestrator.decisions.lead.synthesis import prove_report, prove_text
from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.state.run import RunState
from forgepool.workers.schema.orders import ScriptedAgent
from forgepool.workers.schema.reports import Report

SCRIPT = ScriptedAgent(script="turns: [{say: hm}]")


def state() -> RunState:
    """A run in which `a` has landed, `b` was cancelled, `c` has reported, and `d` has only begun."""
    of = course(task("a"), task("b"), task("c", agent=SCRIPT, answers=True), task("d"))
    landed = (
        *(sent("a"), answered("a"), queued("a"), check_sent("a")),
        e.CheckAnswered(task="a", result=verdict("a")),
        intended("a"),
        e.LandingAnswered(task="a", result=landing("a")),
    )
    report = Report(summary="12 ms")
    reported = (sent("c"), answered("c", 1, "reported"), e.TaskReported(task="c", report=report))
    return begun(of, *landed, e.TaskCancelled(task="b"), *reported, sent("d"))


@pytest.mark.parametrize(
    "text",
    [
        "a landed.",
        "The parser is fixed by a, and its tests pass.",
        "Measured in c: 12 ms.",
        "- **a**: merged and green",
        "b has not landed, and nothing landed of d.",
        "The code wasn't fixed.",
        "The greenhouse has a landing page.",
        "Nothing is claimed here.",
    ],
)
def test_a_confirmed_claim_and_a_sentence_without_one_stay(text: str) -> None:
    assert prove_text(text, state()).text == text
    assert prove_text(text, state()).struck == ()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("All tasks landed.", "it names no task and no commit"),
        ("b landed.", "'b' has not landed, it is cancelled"),
        ("a and b landed.", "'b' has not landed, it is cancelled"),
        ("d is green.", "no check of 'd' is green, it is running"),
        ("It was fixed in 0123abcdef.", "no task of this run has landed as 0123abcdef"),
        ("c landed.", "'c' has not landed, it is reported"),
        ("Measured by d: 3 ms.", "'d' is running"),
        ("Not only a: everything landed with b.", "'b' has not landed, it is cancelled"),
    ],
)
def test_an_unconfirmed_claim_is_struck_with_the_reason(text: str, why: str) -> None:
    proven = prove_text(f"It began well. {text} It ended so.", state())
    assert proven.struck == ((text, why),)
    assert proven.text == "It began well. It ended so."


def test_a_commit_that_landed_is_a_proof() -> None:
    known = state()
    known.tasks["a"].commit = "0123abcdef0123abcdef"
    assert prove_text("It was fixed in 0123abcdef.", known).struck == ()


def test_lines_stay_lines_and_one_that_is_struck_whole_is_gone() -> None:
    proven = prove_text("# What is so\n\n- a landed\n- b landed\n\nThe end.", state())
    assert proven.text == "# What is so\n\n- a landed\n\nThe end."
    assert proven.struck == (("b landed", "'b' has not landed, it is cancelled"),)


def test_the_summary_of_a_leads_report_claims_nothing_unconfirmed() -> None:
    report = Report(summary="All landed.", output="a landed. All landed.")
    assert prove_report(report, state()) == Report(summary="a landed.", output="a landed. All landed.")
    assert prove_report(Report(summary="All landed."), state()).summary == "nothing of its synthesis is confirmed"
