"""Work that is no candidate is remembered, and no road leads it to the target."""

from dataclasses import replace

import pytest
from plans import RUN, answered, begun, course, follow, sent, task

from forgepool.orchestrator.decisions.decide import decide
from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.decisions.requests import grant_request
from forgepool.orchestrator.decisions.results import receive_answer
from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.journal.inbox import PersonRequest
from forgepool.orchestrator.reports.status import standing
from forgepool.orchestrator.run.dispatch import order
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import IllegalStep
from forgepool.workers.policy.gate_file.document import CheckDefinition
from forgepool.workers.queue.replies import WorkNote
from forgepool.workers.schema.orders import BuiltinAgent, Outcome
from forgepool.workers.schema.policy_rules import VerifyTerms

OF = course(task("a", files=["x"], attempts=2), task("b", "a", files=["y"]))
ENDINGS: tuple[Outcome, ...] = (
    *("verify_failed", "agent_failed", "limits_spent", "refused", "out_of_scope"),
    *("needs_human", "no_change", "infrastructure"),
)
TO_THE_TARGET = (e.EntryQueued, e.CheckSent, e.ReviewSent, e.LandingIntended, e.EntryGiven, e.CandidateRestored)


def works_in_vain(of: PlanIndex, state: RunState, outcome: Outcome) -> list[e.Event]:
    """Take all decisions, each order ending with work that is no candidate; return the events."""
    told: list[e.Event] = []
    for _ in range(40):
        decided = decide(of, state, now=1e6 + len(told), order_slots=2, review_slots=1, draining=False)
        if not decided:
            return told
        follow(state, *decided)
        told += decided
        for one in decided:
            if isinstance(one, e.OrderSent):
                done = answered(one.task, one.attempt, outcome, unverified=f"u-{one.attempt}", detail="in vain")
                same = done.result.model_copy(update={"order_id": one.message_id, "token": one.token})
                follow(state, e.OrderAnswered(task=one.task, result=same))
    return told


@pytest.mark.parametrize("outcome", ENDINGS)
def test_nothing_a_run_or_a_person_does_lands_unverified_work(outcome: Outcome) -> None:
    state = begun(OF)
    told = works_in_vain(OF, state, outcome)
    for do in ("approve", "retry", "approve", "reject", "retry"):
        said = grant_request(OF, state, PersonRequest.model_validate({"do": do, "task": "a", "by": "Ada"}))
        follow(state, *said)
        told += [*said, *works_in_vain(OF, state, outcome)]
    assert any(isinstance(one, e.OrderSent) and one.attempt > 1 for one in told), "it was tried again"
    assert not [one for one in told if isinstance(one, (*TO_THE_TARGET, e.TaskApproved))]
    assert state.tasks["a"].candidate == "" and state.train.line.entries == {}


def test_a_commit_in_the_wrong_field_is_no_candidate_either() -> None:
    """A worker of another version, or a forged answer, could name one."""
    state = begun(OF, sent("a"))
    red = answered("a", 1, "verify_failed")
    follow(state, e.OrderAnswered(task="a", result=red.result.model_copy(update={"commit": "c-a-1"})))
    assert state.tasks["a"].candidate == ""
    with pytest.raises(IllegalStep):
        follow(state, e.TaskApproved(task="a", by="Ada", commit="c-a-1"))


def test_work_that_was_kept_is_named_until_its_task_is_done() -> None:
    state = begun(OF, sent("a"), answered("a", 1, "verify_failed", unverified="u-1", detail="red"))
    follow(state, *decide(OF, state, now=1e6, order_slots=0, review_slots=0, draining=False))
    follow(state, sent("a", 2), answered("a", 2))
    (one, _) = standing(OF, state, now=1.0, live=True).tasks
    assert [(each.attempt, each.what, each.ref.partition(f"/{RUN}/")[2], each.commit) for each in one.kept] == [
        (1, "unverified", "unverified/a/1", "u-1"),
        (2, "candidate", "orders/a/2", "c-a-2"),
    ]


def test_a_stopped_attempt_is_told_by_a_note_once() -> None:
    state = begun(OF, sent("a"), e.TaskCancelled(task="a", by="Ada", why="no"))
    note = WorkNote(order_id=f"{state.run}.a.1", commit="u-1", withheld="x looks like a key")
    (kept,) = receive_answer(OF, state, note)
    follow(state, kept)
    assert receive_answer(OF, state, note) == []
    assert receive_answer(OF, state, note.model_copy(update={"order_id": "other.a.1"})) == []
    (one, _) = standing(OF, state, now=1.0, live=True).tasks
    assert [(each.ref, each.words) for each in one.kept] == [("", "attempt 1, unverified: x looks like a key")]
    assert state.tasks["a"].phase == "cancelled"


def test_scans_before_a_queue_know_that_it_has_the_work_reviewed() -> None:
    """Else they would return what its reviewer is to decide on."""
    of = course(task("a", files=["a.txt"], agent=BuiltinAgent()), review="none")
    for gate, reviewed in (("", False), ("gate-main", True)):
        state = begun(of)
        if gate:
            follow(state, e.GateNoticed(gate=gate, away=""))
        follow(state, *decide(of, state, now=1e6, order_slots=1, draining=False))
        message = state.tasks["a"].message
        assert message is not None
        terms = order(of, state, state.tasks["a"], message, now=1.0, resent=False).scans
        assert terms is not None and terms.reviewed is reviewed


@pytest.mark.parametrize("waived", [False, True])
def test_an_order_brings_the_plans_checks_whole_where_they_are_to_run_in_verify(waived: bool) -> None:
    """With `checks: none` the gate runs none either."""
    check = CheckDefinition(name="test", run="make test", timeout_s=5.0)
    of = course(task("a", files=["a.txt"], verify=VerifyTerms(rounds=3)))
    of = of if waived else replace(of, plan=of.plan.model_copy(update={"checks": (check,)}))
    state = begun(of)
    follow(state, *decide(of, state, now=1e6, order_slots=1, draining=False))
    message = state.tasks["a"].message
    assert message is not None
    terms = order(of, state, state.tasks["a"], message, now=1.0, resent=False).scans
    assert terms is not None and terms.verify == (None if waived else VerifyTerms(rounds=3))
    assert waived == ({"verify", "definitions"}.isdisjoint(terms.model_dump()))  # which an older worker refuses
    assert [CheckDefinition.model_validate_json(text) for text in terms.definitions] == ([] if waived else [check])
