"""The logs of a task are found through its journal, on this host or reported to be on another."""

from pathlib import Path

import pytest

from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.journal.store import Recorded
from forgepool.orchestrator.reports.leftovers import TaskLog, task_logs
from forgepool.supervisor.messages.answers import CheckResult
from forgepool.workers.schema.orders import WorkResult

RUN = "r-1"


def _recorded(*events: e.Event) -> list[Recorded]:
    return [Recorded(number, 1.0, event) for number, event in enumerate(events, start=1)]


def _order(task: str, attempt: int) -> e.OrderSent:
    return e.OrderSent(
        task=task, attempt=attempt, message_id=f"{RUN}.{task}.{attempt}", token="t", base="b", issued_at=1
    )


def _check(name: str, *car: str) -> e.CheckSent:
    return e.CheckSent(task=car[-1], car=car, message_id=f"{RUN}.{name}", token="t", base="b", issued_at=1)


def _written(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / "logs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x\n")


def test_logs_of_attempts_and_checks_are_found_in_their_order(tmp_path: Path) -> None:
    """Logs of a batch that contained the task count, and logs of other tasks do not."""
    _written(tmp_path, "orders/a/1/agent.log", "orders/b/1/agent.log", f"checks/{RUN}.b.1.check-1/composed-test.log")
    _written(tmp_path, "orders/a/2/agent.log", f"checks/{RUN}.c.1.check-1/composed-test.log")
    sent = (_order("a", 1), _order("b", 1), _check("b.1.check-1", "a", "b"), _order("a", 2), _check("c.1.check-1", "c"))
    found = task_logs(tmp_path, _recorded(*sent), "a")
    assert [(log.attempt, log.name) for log in found] == [(1, "agent"), (1, "composed-test"), (2, "agent")]
    assert all(log.here and log.path.read_text() == "x\n" for log in found)


def test_logs_of_another_host_are_told_with_their_host(tmp_path: Path) -> None:
    work = WorkResult(order_id=f"{RUN}.a.1", token="t", outcome="agent_failed", host="far", log="/far/agent.log")
    check = CheckResult(request_id=f"{RUN}.a.1.check-1", token="t", verdict="red", host="near")
    sent = (_order("a", 1), e.OrderAnswered(task="a", result=work), _check("a.1.check-1", "a"))
    found = task_logs(tmp_path / RUN, _recorded(*sent, e.CheckAnswered(task="a", result=check)), "a")
    assert [(log.host, log.here) for log in found] == [("far", False), ("near", False)]
    assert [str(log.path) for log in found] == ["/far", f"FORGEPOOL_HOME/runs/{RUN}/logs/checks/{RUN}.a.1.check-1"]


def test_what_has_not_been_answered_yet_has_no_log_elsewhere(tmp_path: Path) -> None:
    assert task_logs(tmp_path, _recorded(_order("a", 1)), "a") == []


@pytest.mark.parametrize(
    ("name", "check", "found"),
    [
        ("composed-test", "test", True),
        ("composed-anew-1-for-e2e-unit-test", "unit-test", True),
        ("composed-unit-test", "lint", False),
        ("composed-test.setup", "test", True),
        ("agent", "agent", True),
        ("acceptance-2", "acceptance", True),
        ("acceptance-2", "2", False),
    ],
)
def test_a_log_is_found_by_its_check(name: str, check: str, found: bool) -> None:
    log = TaskLog(attempt=1, name=name, path=Path(f"{name}.log"), host="", here=True)
    assert log.is_of(check) is found
