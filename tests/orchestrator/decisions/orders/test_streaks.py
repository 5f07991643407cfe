"""An infrastructure failure that repeats over many tasks is asked about once, and one that heals stops no run."""

from collections.abc import Callable

import pytest
from plans import RUN, begun, course, follow, result, task

from forgepool.orchestrator.decisions.decide import decide
from forgepool.orchestrator.journal.events import OrderAnswered, RunResumed, TaskRetried
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.streaks import TroubleStreak

OF = course(*(task(f"t{at}", files=(f"f{at}",)) for at in range(20)))
Answers = Callable[[str, float], str]
"""Gives for a task and a time the failure that its order ends with, or an empty text for success."""


def play(state: RunState, mistake: Answers, *, until: float, slots: int = 4) -> int:
    """Decide, and answer each order a second later; return how many were sent."""
    sent, due = 0, list[OrderAnswered]()
    while state.at < until and not state.halted and not state.finished:
        now = state.at + 1.0
        for one in due:
            follow(state, one, at=now)
        due = []
        while events := decide(OF, state, now=now, order_slots=slots, check_slots=0, draining=False):
            events = [one for one in events if one.kind != "check.sent"]
            if not events:
                break
            follow(state, *events, at=now)
            for one in events:
                if one.kind == "order.sent":
                    sent += 1
                    said = mistake(one.task, now)
                    outcome = "infrastructure" if said else "agent_failed"
                    answer = result(one.task, one.attempt, outcome, token=one.token, detail=said)
                    due.append(OrderAnswered(task=one.task, result=answer))
        state.at = now
    return sent


def broken(name: str, now: float) -> str:
    return f"'/w/{name}/x{now:.0f}' of {name}: NameError: name 'y{now:.0f}' is not defined"


def test_a_mistake_that_lasts_is_asked_about_once_and_not_twelve_times_for_each_task() -> None:
    state = begun(OF)
    sent = play(state, broken, until=5_000.0)
    assert sent <= 4 + 9 and state.halted_by_infrastructure and state.at < 400.0
    assert state.halted.startswith("infrastructure failed 't0', 't1', 't2'")
    assert "NameError" in state.halted and state.halted.endswith(f"mend it, then: forgepool resume {RUN}")
    assert all(one.phase == "pending" for one in state.tasks.values()), "no task is parked, none has failed"
    assert not decide(OF, state, now=1e6, order_slots=4, draining=False)


def test_a_person_resumes_and_the_run_goes_on() -> None:
    state = begun(OF)
    play(state, broken, until=5_000.0)
    follow(state, RunResumed(tip=state.tip), at=state.at)
    play(state, lambda name, now: "", until=5_000.0)
    assert all(one.phase == "failed" for one in state.tasks.values()) and not state.halted


def test_a_retry_by_a_person_tries_again_at_once_with_all_workers() -> None:
    state = begun(OF)
    follow(state, *decide(OF, state, now=100.0, order_slots=4, draining=False))
    for name in ("t0", "t1", "t2"):
        token = state.tasks[name].message.token if state.tasks[name].message else ""
        follow(state, OrderAnswered(task=name, result=result(name, 1, "infrastructure", token=token, detail="away")))
    assert state.streaks["order"].is_open
    state.tasks["t9"].enter("failed", 100.0)
    follow(state, TaskRetried(task="t9"))
    assert not state.streaks


@pytest.mark.parametrize("healed_after_s", [5.0, 30.0, 90.0])
def test_an_outage_that_heals_stops_no_run_and_is_tried_by_one_order_at_a_time(healed_after_s: float) -> None:
    state = begun(OF)

    def away(name: str, now: float) -> str:
        return broken(name, now) if now < 100.0 + healed_after_s else ""

    sent = play(state, away, until=5_000.0)
    assert not state.halted and not state.streaks
    assert all(one.phase == "failed" for one in state.tasks.values()), "each was tried, and answered by its agent"
    assert sent <= 3 * len(OF.tasks) + 4 + 9


def test_only_the_same_mistake_of_several_tasks_with_nothing_good_between_is_a_streak() -> None:
    streak = TroubleStreak()
    for at, name in enumerate(("a", "b")):
        streak.note([name], f"{name}: the disk of host-{at} is full", float(at), asked_at=float(at))
    assert not streak.is_open
    streak.note(["c"], "the hub is away", 2.0, asked_at=2.0)
    assert list(streak.tasks) == ["c"], "another mistake begins another one"
    for at, name in enumerate(("d", "e"), start=100):
        streak.note([name], "the  hub is away", float(at), asked_at=float(at))
    assert streak.is_open and not streak.lasts
    streak.note(["f"], "the hub is away", 700.0, asked_at=100.5)
    assert not streak.lasts, "what was asked before the others failed says nothing of the time since"
    streak.note(["d"], "the hub is away", 122.0, asked_at=121.0)
    assert streak.lasts
    state = begun(OF)
    play(state, lambda name, now: broken(name, now) if name != "t1" else "", until=1_000.0, slots=2)
    assert not state.halted or "t1" not in state.streaks["order"].tasks


def test_entries_that_fail_in_one_test_together_are_one_failure() -> None:
    """They are tried separately first, because one of them may break its check."""
    streak = TroubleStreak()
    streak.note(["a", "b", "c"], "no space left", 0.0, asked_at=-200.0)
    streak.note(["a", "b", "c"], "no space left", 200.0, asked_at=1.0)
    assert not streak.is_open and not streak.lasts


def test_one_answer_that_is_none_reopens_what_a_streak_has_stopped() -> None:
    """An order that was under way when the run stopped succeeds, so the failure has gone."""
    state = begun(OF)
    play(state, broken, until=5_000.0)
    assert state.halted
    state.end_streak("order")
    assert not state.halted and not state.halted_by_infrastructure
