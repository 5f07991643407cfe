"""A message that ends every worker that takes it is not sent forever: at last a person is asked."""

from forgepool.orchestrator.decisions.decide import decide
from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.journal.events import MessageLost, OrderSent, RunStarted, TaskParked
from forgepool.orchestrator.plan.document import Plan
from forgepool.orchestrator.state.fold import apply
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import MOST_TROUBLES


def _course() -> PlanIndex:
    tasks = [{"id": "one", "agent": {"kind": "command", "run": "kill -9 $PPID"}}]
    return PlanIndex(Plan.model_validate({"name": "p", "checks": "none", "tasks": tasks}), {})


def _begun() -> RunState:
    state = RunState.blank(["one"])
    begun = RunStarted(run="r", plan_digest="", hub="/hub", target="forgepool/p", tip="0" * 40)
    apply(state, begun, number=1, at=0.0)
    return state


def _lose_once(course: PlanIndex, state: RunState, now: float) -> None:
    (sent,) = decide(course, state, now=now, order_slots=1, draining=False)
    assert isinstance(sent, OrderSent), sent
    apply(state, sent, number=state.number + 1, at=now)
    lost = MessageLost(message_id=sent.message_id, why="host/1 took it and is gone")
    apply(state, lost, number=state.number + 1, at=now)


def test_a_task_lost_with_its_worker_is_tried_again_at_once() -> None:
    course, state = _course(), _begun()
    _lose_once(course, state, 1.0)
    (again,) = decide(course, state, now=1.0, order_slots=1, draining=False)
    assert isinstance(again, OrderSent)
    assert (again.attempt, state.tasks["one"].charged) == (2, 0)


def test_a_task_lost_over_and_over_waits_for_a_person() -> None:
    course, state = _course(), _begun()
    now = 1.0
    for _ in range(MOST_TROUBLES):
        now = max(now, state.tasks["one"].not_before)
        _lose_once(course, state, now)
    (parked,) = decide(course, state, now=now + 3600, order_slots=1, draining=False)
    assert isinstance(parked, TaskParked)
    assert "took it and is gone" in parked.question
    assert state.tasks["one"].charged == 0
