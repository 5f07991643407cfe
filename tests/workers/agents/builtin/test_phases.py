"""The phase machine: no order of events skips a phase, and each end leads to the right next step."""

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forgepool.workers.agents.builtin.phases import (
    PLAN,
    Begin,
    End,
    ForcePlan,
    GoOn,
    PhaseCourse,
    Step,
    Verify,
    count_rounds,
    facts,
    next_step,
)
from forgepool.workers.agents.builtin.workflow import WorkflowPhase
from forgepool.workers.context.transcript.entries import (
    ConversationStarted,
    Entry,
    Finished,
    PlanCommitted,
    Resumed,
    TurnSaid,
    Verified,
)
from forgepool.workers.llm.messages import Text, Turn, user
from forgepool.workers.schema.orders import PhaseName, Reply, Spent

REPLY = Reply(question="which?", answer="the left one", by="ann")


def started(phase: PhaseName) -> Entry:
    return ConversationStarted(at=0.0, order_id="r.t.1", model="m", system=(), tools=(), phase=phase)


def said() -> Entry:
    return TurnSaid(at=0.0, turn=Turn(role="assistant", parts=(Text(text="hm"),)))


def told(text: str = "go on") -> Entry:
    return TurnSaid(at=0.0, turn=user(Text(text=text)))


def ended(how: str, detail: str = "so") -> Entry:
    return Finished(at=0.0, ended=how, detail=detail, spent=Spent())


def committed(*files: str, synthetic: bool = False) -> Entry:
    return PlanCommitted(at=0.0, plan="do it", files=files, synthetic=synthetic)


def red(print_: str = "f", outside: tuple[str, ...] = ()) -> Entry:
    return Verified(
        at=0.0, ok=False, detail="'pytest' exited with 1", output="boom", fingerprint=print_, outside=outside
    )


def by_check() -> Entry:
    return Verified(at=0.0, ok=False, detail="the target's check 'test' exited with 1", fingerprint="c", by_checks=True)


GREEN = Verified(at=0.0, ok=True, detail="")
PLANNED = (started("plan"), said(), committed("a.py"), ended("planned"))
DONE = (*PLANNED, started("execute"), said(), ended("finished"))


def step(*entries: Entry, course: PhaseCourse | None = None, replies: tuple[Reply, ...] = ()) -> Step:
    return next_step(facts(entries), course or PhaseCourse(), replies)


def test_an_attempt_goes_from_plan_to_execute_to_verify() -> None:
    """Each phase begins once, in this order."""
    assert step() == Begin("plan")
    assert step(started("plan"), said()) == GoOn("plan")
    assert step(*PLANNED) == Begin("execute")
    assert step(*PLANNED, started("execute"), said()) == GoOn("execute")
    assert step(*DONE) == Verify()
    assert step(*DONE, GREEN) == End("finished", "so")


def test_without_a_plan_phase_it_begins_with_execute() -> None:
    """This is for agents whose turns a person wrote."""
    assert step(course=PhaseCourse(plan_first=False)) == Begin("execute")


def test_a_plan_that_changes_nothing_is_no_change() -> None:
    """EXECUTE does not begin."""
    answer = step(started("plan"), said(), committed(), ended("planned"))
    assert isinstance(answer, End) and answer.ended == "no_change" and "do it" in answer.detail


def test_exploring_that_leads_to_no_plan_is_forced_to_one() -> None:
    """This includes a conversation that outgrew the model's window. The forced plan is then used."""
    for how in ("explored", "overflow"):
        entries = (started("plan"), said(), ended(how))
        assert step(*entries) == ForcePlan("so")
        assert step(*entries, committed(synthetic=True)) == Begin("execute")


def test_red_goes_back_with_its_output_and_green_ends() -> None:
    """The message has the command and the end of its output."""
    back = step(*DONE, red())
    assert isinstance(back, GoOn) and not back.stronger
    assert "'pytest' exited with 1" in back.say and "boom" in back.say
    assert step(*DONE, red(), told(), said(), ended("finished")) == Verify()
    assert step(*DONE, red(), told(), said(), ended("finished"), GREEN) == End("finished", "so")


def test_the_same_failure_again_asks_for_a_stronger_model_and_then_ends() -> None:
    """The second equal failure is no progress, and the third is the end."""
    again = (told(), said(), ended("finished"), red())
    second = step(*DONE, red(), *again)
    assert isinstance(second, GoOn) and second.stronger
    third = step(*DONE, red(), *again, *again)
    assert isinstance(third, End) and third.ended == "verify_failed" and "3 times, in the same way" in third.detail


def test_different_failures_end_too() -> None:
    """This holds even if each failure is new."""
    entries = list(DONE)
    for number in range(4):
        entries += [red(str(number)), told(), said(), ended("finished")]
    last = step(*entries[:-3])
    assert isinstance(last, End) and last.ended == "verify_failed"
    out = step(*DONE, *[red(str(n)) for n in range(3)], red("4", outside=("x.py",)))
    assert isinstance(out, End) and out.ended == "out_of_scope"


def test_reds_of_the_targets_checks_end_nothing_and_are_counted_apart() -> None:
    """Their rounds are bounded, and the gate runs the checks again; other failures have their own number."""
    check = (by_check(), told(), said(), ended("finished"))
    back = step(*DONE, *check * 4, by_check())
    assert isinstance(back, GoOn) and back.phase == "execute"
    second = step(*DONE, *check * 4, red())
    assert isinstance(second, GoOn) and not second.stronger
    assert count_rounds(facts([*DONE, *check * 2, red()]), PhaseCourse()) == 2


@pytest.mark.parametrize(("on_failure", "rounds"), [("mend", 0), (None, 0), ("stop", None), ("undo", None)])
def test_checks_are_for_a_phase_that_a_red_sends_back(
    on_failure: Literal["mend", "stop", "undo"] | None, rounds: int | None
) -> None:
    phase = WorkflowPhase(name="execute", artifact="change", on_failure=on_failure)
    assert count_rounds(facts(DONE), PhaseCourse(workflow=(PLAN, phase))) == rounds


def test_an_overflow_of_execute_begins_it_afresh_once() -> None:
    """After a second overflow the task is too large."""
    once = (*PLANNED, started("execute"), said(), ended("overflow"))
    assert step(*once) == Begin("execute")
    twice = step(*once, started("execute"), said(), ended("overflow"))
    assert isinstance(twice, End) and twice.ended == "failed" and "window" in twice.detail


def test_a_question_rests_until_it_is_answered() -> None:
    """The answer goes into the conversation that asked, in either phase, and each question has its own."""
    for phase, before in (("plan", ()), ("execute", PLANNED)):
        asked = (*before, started(phase), said(), ended("asked", "which?"))
        assert step(*asked) == End("asked", "which?")
        answered = step(*asked, replies=(REPLY,))
        assert isinstance(answered, GoOn) and answered.phase == phase
        assert "the left one" in answered.say and "(ann)" in answered.say
        again = step(*asked, told(), said(), ended("asked", "and now?"), replies=(REPLY,))
        assert again == End("asked", "and now?")


def test_who_resumes_tries_again_what_went_wrong_and_nothing_else() -> None:
    """An interruption is no end. A plan, a question and a claim stay as they are."""
    resumed = Resumed(at=0.0, order_id="r.t.2")
    for how in ("failed", "stopped"):
        assert step(*PLANNED, started("execute"), said(), ended(how), resumed) == GoOn("execute")
    assert step(*PLANNED, resumed) == Begin("execute")
    assert step(*DONE, resumed) == Verify()


def test_other_ends_are_the_attempts_end() -> None:
    """This holds for both phases."""
    for how in ("failed", "refused", "timeout", "stopped", "limits"):
        assert step(started("plan"), said(), ended(how)) == End(how, "so")
        assert step(*PLANNED, started("execute"), said(), ended(how)) == End(how, "so")


ENTRIES = st.sampled_from(
    [
        started("plan"),
        started("execute"),
        said(),
        told(),
        *[
            ended(how)
            for how in ("planned", "finished", "asked", "explored", "failed", "refused", "overflow", "limits")
        ],
        committed("a.py"),
        committed(synthetic=True),
        red("a"),
        red("b"),
        GREEN,
    ]
)


@given(st.lists(ENTRIES, max_size=30))
def test_nothing_is_finished_that_was_not_verified_since_it_was_last_worked_on(entries: list[Entry]) -> None:
    """`finished` occurs only after a green verification with no turn after it."""
    answer = next_step(facts(entries), PhaseCourse(), ())
    if isinstance(answer, End) and answer.ended == "finished":
        last = max(at for at, entry in enumerate(entries) if isinstance(entry, Verified))
        assert entries[last] == GREEN
        assert not any(isinstance(entry, TurnSaid) for entry in entries[last:])
    if isinstance(answer, Begin) and answer.phase == "execute":
        overflowed = any(isinstance(entry, Finished) and entry.ended == "overflow" for entry in entries)
        assert overflowed or any(isinstance(entry, PlanCommitted) for entry in entries)
