"""States of a queue and answers to it, made with short calls."""

from typing import Literal

from forgepool.orchestrator.decisions.decide import decide
from forgepool.orchestrator.decisions.plan_index import gate_course, gate_plan
from forgepool.orchestrator.journal.events import (
    CheckAnswered,
    CheckSent,
    EntrySubmitted,
    Event,
    LandingAnswered,
    LandingIntended,
    RunStarted,
)
from forgepool.orchestrator.state.fold import apply
from forgepool.orchestrator.state.run import RunState
from forgepool.supervisor.messages.answers import CheckResult, Landing

RUN = "gate-main-test"


def opened(*events: Event) -> RunState:
    """Return a queue's state after these events."""
    state = RunState.blank(())
    return after(state, RunStarted(run=RUN, plan_digest="", hub="/hub", target="main", tip=commit("tip")), *events)


def after(state: RunState, *events: Event, at: float = 100.0) -> RunState:
    for event in events:
        apply(state, event, number=state.number + 1, at=at)
    return state


def submitted(name: str, *needs: str, revision: int = 1) -> EntrySubmitted:
    return EntrySubmitted(task=name, revision=revision, commit=commit(name), title=name, needs=needs)


def decided(state: RunState, *, now: float = 100.0, slots: int = 3) -> list[Event]:
    course = gate_course(gate_plan(RUN, "main"), state)
    return decide(course, state, now=now, order_slots=0, check_slots=slots, draining=False)


def green(sent: CheckSent) -> CheckAnswered:
    result = CheckResult(
        request_id=sent.message_id,
        token=sent.token,
        verdict="green",
        commit=commit("composed"),
        commits=(commit("composed"),),
        tree=commit("tree"),
    )
    return CheckAnswered(task=sent.task, result=result, ahead=sent.ahead, car=sent.car)


def landing(
    sent: LandingIntended, outcome: Literal["moved", "infrastructure"], *, at: str | None = None
) -> LandingAnswered:
    result = Landing(request_id=sent.message_id, token=sent.token, outcome=outcome, commit=at, detail=outcome)
    return LandingAnswered(task=sent.task, result=result, entries=sent.entries)


def commit(word: str) -> str:
    return word.encode().hex().ljust(40, "0")[:40]
