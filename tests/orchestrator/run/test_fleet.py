"""Which present host a message may go to: of our version, not drained, well, and with the models that it needs."""

from collections.abc import Sequence

import pytest
from plans import begun, course, follow, task

from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.journal.events import HostSuspended
from forgepool.orchestrator.plan.entries import PlanReview
from forgepool.orchestrator.run.fleet import choose_gate_host, find_mismatched, find_reviewers, list_order_hosts
from forgepool.orchestrator.state.run import RunState
from forgepool.supervisor.messages.requests import ReviewPolicy
from forgepool.workers.queue.broker import PROTOCOL
from forgepool.workers.queue.leases import HostFacts, Present

PLAN = course(task("a"))


def worker(host: str, *queues: str, can: Sequence[str] | None = None, **said: object) -> Present:
    facts = HostFacts(can=None if can is None else tuple(can))
    fields = {"concurrency": 2, "protocol": PROTOCOL, "pid": 1, "since": 1.0} | said
    return Present(host=host, queues=queues or ("orders",), facts=facts, **fields)  # type: ignore[arg-type]


def gate(
    kind: str, *present: Present, state: RunState | None = None, sent_to: dict[str, str] | None = None
) -> str | None:
    state = begun(PLAN) if state is None else state
    return choose_gate_host(kind, present, state, sent_to or {}, 100.0, able=list)  # type: ignore[arg-type]


def test_workers_of_one_host_take_orders_together_and_can_what_all_of_them_can() -> None:
    found = list_order_hosts([worker("a", can=["x", "y"]), worker("a", can=["y", "z"], pid=2), worker("b", "checks")])
    assert [(one.name, one.slots, one.can) for one in found] == [("a", 4, {"y"})]


def test_drained_hosts_and_those_of_another_version_take_no_orders() -> None:
    present = [worker("a", drained=True), worker("b", protocol=PROTOCOL + 1), worker("old", protocol=0), worker("c")]
    found = {one.name: (one.slots, one.ours) for one in list_order_hosts(present)}
    assert found == {"b": (0, False), "old": (0, False), "c": (2, True)}
    assert find_mismatched(present) == {"b": PROTOCOL + 1, "old": 0}


def test_the_gate_shares_one_queue_while_all_its_workers_are_well() -> None:
    assert gate("check", worker("a", "checks"), worker("b", "checks")) == ""
    assert gate("check", worker("a", "checks"), worker("o", "orders", protocol=0)) == "", "who takes none is no matter"


@pytest.mark.parametrize("unwell", [{"drained": True}, {"protocol": PROTOCOL + 1}])
def test_beside_an_unwell_worker_checks_go_to_the_well_ones(unwell: dict[str, object]) -> None:
    assert gate("check", worker("a", "checks", **unwell), worker("b", "checks")) == "b"
    assert gate("check", worker("a", "checks", **unwell)) is None, "it would be lost there, or wait"


def test_a_suspended_host_gets_no_checks_but_where_there_is_no_other() -> None:
    state = follow(begun(PLAN), HostSuspended(host="a", why="w", until=160.0))
    assert gate("landing", worker("a", "landings"), worker("b", "landings"), state=state) == "b"
    assert gate("landing", worker("a", "landings"), state=state) == "a"


def reviewed(**said: object) -> PlanIndex:
    independence = said.pop("independence", "other_family")
    review = PlanReview(policy=ReviewPolicy(**said), independence=independence)  # type: ignore[arg-type]
    return course(task("a"), review=review)


CLAUDE = worker("claude", "reviews", can=["reviews-by claude", "model opus"])
GPT = worker("gpt", "reviews", can=["reviews-by gpt", "model five"])
NONE, UNTOLD = worker("none", "reviews", can=[]), worker("untold", "reviews")


def reviewers(of: PlanIndex, *authors: str, present: Sequence[Present] = (CLAUDE, GPT, NONE, UNTOLD)) -> list[str]:
    return [one.host for one in find_reviewers(present, of, authors)]


def test_a_review_goes_to_a_host_with_a_model_of_another_family() -> None:
    assert reviewers(reviewed(), "claude") == ["gpt", "untold"]
    assert reviewers(reviewed(independence="other_model"), "claude") == ["claude", "gpt", "untold"]
    assert reviewers(reviewed(by=("opus",)), "gpt") == ["claude", "untold"]


def test_a_scripted_review_may_be_done_anywhere_and_one_that_no_host_can_do_is_asked_of_all() -> None:
    assert reviewers(reviewed(script="turns: []"), "claude") == ["claude", "gpt", "none", "untold"]
    assert reviewers(reviewed(), "claude", present=(CLAUDE, NONE, worker("o", "orders"))) == ["claude", "none"]
