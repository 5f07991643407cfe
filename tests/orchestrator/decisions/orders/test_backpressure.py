"""No order starts while enough candidates wait for checks. Tasks that wait for a person hold up no other."""

import pytest
from plans import answered, begun, check_sent, course, follow, queued, sent, task

from forgepool.orchestrator.decisions.decide import decide
from forgepool.orchestrator.decisions.orders.start_orders import _IN_LINE_PER_SLOT
from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.journal.events import Event, TaskParked
from forgepool.orchestrator.simulate.run import play
from forgepool.orchestrator.simulate.world import PlanTerms
from forgepool.orchestrator.state.run import RunState

OF = course(*(task(f"t{at}") for at in range(3 * _IN_LINE_PER_SLOT)))


def in_line(count: int) -> RunState:
    names = [f"t{at}" for at in range(count)]
    return begun(OF, *(event for one in names for event in (sent(one), answered(one), queued(one))))


def orders(of: PlanIndex, state: RunState, *, check_slots: int = 1) -> list[Event]:
    decided = decide(of, state, now=200.0, order_slots=1, check_slots=check_slots, draining=False)
    return [event for event in decided if event.kind == "order.sent"]


@pytest.mark.parametrize(("count", "slots", "starts"), [(16, 1, True), (17, 1, False), (17, 2, True), (17, 0, False)])
def test_no_order_starts_while_the_line_is_longer_than_the_gate_can_take(count: int, slots: int, starts: bool) -> None:
    """Without a supervisor the run counts one slot: it waits, with some work done ahead."""
    assert _IN_LINE_PER_SLOT == 16
    assert bool(orders(OF, in_line(count), check_slots=slots)) is starts


def test_what_is_on_trial_or_waits_for_a_person_does_not_count() -> None:
    """Otherwise a run whose entries all wait for people would do nothing until they come."""
    state = in_line(17)
    assert not orders(OF, state)
    follow(state, TaskParked(task="t0", question="which?", why="question"))
    assert orders(OF, state)
    tried = follow(in_line(17), check_sent("t0"))
    assert orders(OF, tried)
    refused = in_line(17)
    refused.train.refused["t0"] = "the hub says no"
    assert orders(OF, refused)


@pytest.mark.parametrize("trials", [1, 3])
def test_a_run_with_far_more_workers_than_its_gate_can_serve_ends_and_keeps_its_line_short(trials: int) -> None:
    of = course(*(task(f"t{at}", attempts=3) for at in range(150)))
    terms = PlanTerms(workers=20, trials=trials, work_s=dict.fromkeys(of.tasks, (10.0,)), check_s=(60.0,), bad=0.2)
    longest = 0

    def watch(state: RunState, now: float) -> None:
        nonlocal longest
        longest = max(longest, state.count("queued"))

    assert play(of, terms, seed=3, watch=watch).state.finished
    # Orders under way when the queue became too long still arrive, and so do the entries of a red batch.
    assert longest <= _IN_LINE_PER_SLOT * trials + 1 + 20 + 8 * trials
