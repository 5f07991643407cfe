"""After several landings and at the end, all checks run on the target, and nothing continues until they pass."""

import pytest
from plans import (
    RUN,
    answered,
    begun,
    check_sent,
    course,
    follow,
    intended,
    landing,
    queued,
    sent,
    task,
    verdict,
)

from forgepool.orchestrator.decisions.decide import decide
from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.decisions.results import receive_answer
from forgepool.orchestrator.journal.events import (
    CheckAnswered,
    Event,
    GateHalted,
    LandingAnswered,
    MessageLost,
    MessageTaken,
    RunEnded,
    RunResumed,
    WaveSent,
)
from forgepool.orchestrator.plan.entries import GateOptions, Wave
from forgepool.orchestrator.run.dispatch import wave_request
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import MOST_TROUBLES, IllegalStep
from forgepool.supervisor.messages.answers import CheckResult


def of(every: int | None, *names: str) -> PlanIndex:
    return course(*(task(name) for name in names), gate=GateOptions(wave=Wave(every=every)))


def land(state: RunState, *names: str) -> RunState:
    for name in names:
        events = (sent(name), answered(name), queued(name), check_sent(name))
        follow(state, *events, CheckAnswered(task=name, result=verdict(name)), intended(name))
        follow(state, LandingAnswered(task=name, result=landing(name)))
    return state


def next_events(of: PlanIndex, state: RunState, now: float = 1e6) -> list[Event]:
    return decide(of, state, now=now, order_slots=0, draining=False)


def said(state: RunState, kind: str, **more: str) -> CheckResult:
    message = state.wave.message
    assert message is not None
    where = {"request_id": message.message_id, "token": message.token}
    return CheckResult.model_validate({**where, "verdict": kind, **more})


def test_a_wave_comes_after_so_many_landings_and_nothing_is_let_in_meanwhile() -> None:
    plan = of(2, "a", "b", "c")
    state = land(begun(plan), "a")
    assert next_events(plan, state) == []
    follow(land(state, "b"), sent("c"), answered("c"), queued("c"))
    (wave,) = next_events(plan, state)
    assert isinstance(wave, WaveSent)
    assert (wave.base, wave.since, wave.tasks, wave.message_id) == ("m-b-1", "c0", ("a", "b"), f"{RUN}.wave-1")
    follow(state, wave)
    request = wave_request(plan, state, state.outstanding()[wave.message_id], now=1.0)
    assert request.whole and request.entries == () and request.base == "m-b-1"
    assert next_events(plan, state) == [], "the gate is taken"
    follow(state, *receive_answer(plan, state, said(state, "green")))
    assert [one.kind for one in next_events(plan, state)] == ["check.sent"]


@pytest.mark.parametrize("every", [None, 5])
def test_a_run_does_not_end_before_its_target_was_found_green_as_a_whole(every: int | None) -> None:
    plan = of(every, "a", "b")
    state = land(begun(plan), "a", "b")
    (wave,) = next_events(plan, state)
    follow(state, wave)
    assert next_events(plan, state) == []
    with pytest.raises(IllegalStep, match="while its target is checked"):
        follow(state, RunEnded(landed=2, not_landed=0))
    follow(state, *receive_answer(plan, state, said(state, "green")))
    assert next_events(plan, state) == [RunEnded(landed=2, not_landed=0)]


def test_without_a_landing_or_without_a_word_in_the_plan_there_is_no_wave() -> None:
    plan = of(1, "a")
    state = begun(plan, sent("a"), answered("a", 1, "no_change"))
    follow(state, *next_events(plan, state))
    follow(state, sent("a", 2), answered("a", 2, "no_change"))
    follow(state, *next_events(plan, state))
    assert next_events(plan, state)[0].kind == "run.ended"
    silent = course(task("a"))
    assert next_events(silent, land(begun(silent), "a"))[0].kind == "run.ended"


@pytest.mark.parametrize("verdict", ["base_red", "red", "not_configured"])
def test_a_red_target_shuts_the_gate_and_names_who_landed_since_it_was_green(verdict: str) -> None:
    plan = of(None, "a", "b")
    state = land(begun(plan), "a", "b")
    follow(state, *next_events(plan, state))
    _, halted = receive_answer(plan, state, said(state, verdict, detail="check 'test' is red"))
    assert isinstance(halted, GateHalted)
    assert halted.why == "all checks on m-b-1, after the landings of 'a', 'b' since c0: check 'test' is red"
    follow(state, *receive_answer(plan, state, said(state, verdict)))
    assert next_events(plan, state) == [], "it has not ended: all landed is not all well"
    follow(state, RunResumed(tip="person-1"))
    (again,) = next_events(plan, state)
    assert isinstance(again, WaveSent) and (again.base, again.since, again.tasks) == ("person-1", "c0", ("a", "b"))


def test_what_landed_before_a_green_wave_is_in_no_later_one() -> None:
    plan = of(1, "a", "b")
    state = land(begun(plan), "a")
    follow(state, *next_events(plan, state))
    follow(state, *receive_answer(plan, state, said(state, "green")))
    (wave,) = next_events(plan, land(state, "b"))
    assert isinstance(wave, WaveSent) and (wave.since, wave.tasks) == ("m-a-1", ("b",))


def test_a_wave_that_is_lost_is_sent_again_and_not_for_ever() -> None:
    plan = of(None, "a")
    state = land(begun(plan), "a")
    for number in range(1, MOST_TROUBLES + 1):
        (wave,) = next_events(plan, state)
        assert wave.kind == "wave.sent" and wave.number == number
        taken = MessageTaken(message_id=wave.message_id, host="h", pid=7)
        follow(state, wave, taken)
        assert state.holder(state.outstanding()[wave.message_id]) == "h/7"
        follow(state, MessageLost(message_id=wave.message_id, why="gone"))
    (halted,) = next_events(plan, state)
    assert isinstance(halted, GateHalted) and halted.infrastructure and "gone" in halted.why


def test_trouble_with_a_wave_is_waited_out_and_is_not_green() -> None:
    plan = of(None, "a")
    state = land(begun(plan), "a")
    follow(state, *next_events(plan, state))
    follow(state, *receive_answer(plan, state, said(state, "infrastructure", detail="the disk is full")))
    assert next_events(plan, state, now=100.5) == [] and next_events(plan, state)[0].kind == "wave.sent"


def test_an_answer_to_a_wave_changes_nothing_without_its_token() -> None:
    plan = of(None, "a")
    state = land(begun(plan), "a")
    follow(state, *next_events(plan, state))
    assert receive_answer(plan, state, said(state, "green").model_copy(update={"token": "other"})) == []
