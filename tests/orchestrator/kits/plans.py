"""Plans, states and answers for the tests of decisions, made with short calls."""

from collections.abc import Sequence
from typing import Any, Literal

from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.journal.events import (
    CheckSent,
    EntryQueued,
    Event,
    LandingIntended,
    OrderAnswered,
    OrderSent,
    ReviewAnswered,
    ReviewAwaited,
    ReviewSent,
    RunStarted,
)
from forgepool.orchestrator.plan.document import Plan, Task, TaskNeed
from forgepool.orchestrator.state.fold import apply
from forgepool.orchestrator.state.review import Outstanding
from forgepool.orchestrator.state.run import RunState
from forgepool.supervisor.messages.answers import Approval, Certificate, CheckResult, Landing, Review
from forgepool.workers.schema.orders import CommandAgent, Outcome, WorkResult

RUN = "r-1"
Verdict = Literal["green", "findings", "red", "conflict", "stale", "base_red", "not_configured", "infrastructure"]


def task(name: str, *needs: str, files: Sequence[str] | None = (), **said: Any) -> Task:
    given = None if files is None else tuple(files)
    return Task(
        id=name,
        needs=tuple(TaskNeed(id=one) for one in needs),
        files=given,
        **{"agent": CommandAgent(run="true"), **said},
    )


def course(*tasks: Task, **said: Any) -> PlanIndex:
    return PlanIndex(Plan(name="p", checks="none", tasks=tasks, **said), {})


def begun(of: PlanIndex, *events: Event, at: float = 100.0) -> RunState:
    """Return the state of a run after these events."""
    state = RunState.blank(of.tasks)
    beginning = RunStarted(run=RUN, plan_digest="d", hub="/hub", target="t", tip="c0")
    for number, event in enumerate((beginning, *events), start=1):
        apply(state, event, number=number, at=at)
    return state


def follow(state: RunState, *events: Event, at: float = 100.0) -> RunState:
    """Apply these events to the state, and return it."""
    for event in events:
        apply(state, event, number=state.number + 1, at=at)
    return state


def sent(name: str, attempt: int = 1, *, token: str = "t", base: str = "c0") -> OrderSent:
    return OrderSent(
        task=name,
        attempt=attempt,
        message_id=f"{RUN}.{name}.{attempt}",
        token=token,
        base=base,
        issued_at=100.0,
    )


def result(
    name: str,
    attempt: int = 1,
    outcome: Outcome = "candidate",
    *,
    paths: Sequence[str] = (),
    token: str = "t",
    detail: str = "",
    **said: Any,
) -> WorkResult:
    return WorkResult(
        order_id=f"{RUN}.{name}.{attempt}",
        token=token,
        outcome=outcome,
        commit=f"c-{name}-{attempt}" if outcome == "candidate" else None,
        paths=tuple(paths),
        detail=detail,
        host="h",
        **said,
    )


def answered(name: str, attempt: int = 1, outcome: Outcome = "candidate", **said: Any) -> OrderAnswered:
    return OrderAnswered(task=name, result=result(name, attempt, outcome, **said))


def queued(name: str, *, reviewed: bool = False) -> EntryQueued:
    return EntryQueued(task=name, reviewed=reviewed)


def awaited(name: str) -> ReviewAwaited:
    return ReviewAwaited(task=name)


def review_sent(name: str, number: int = 1, *, attempt: int = 1, base: str = "c0", **said: Any) -> ReviewSent:
    return ReviewSent(
        task=name,
        number=number,
        message_id=f"{RUN}.{name}.{attempt}.review-{number}",
        token="t",
        base=base,
        issued_at=100.0,
        **said,
    )


def review(name: str, outcome: str = "passed", number: int = 1, *, attempt: int = 1, **said: Any) -> Review:
    given = {"patch_id": f"patch-{name}-{attempt}", "models": ("gpt-x",), "families": ("gpt",), **said}
    where = {"request_id": f"{RUN}.{name}.{attempt}.review-{number}", "token": "t", "outcome": outcome}
    return Review.model_validate({**where, **given})


def review_answered(name: str, outcome: str = "passed", number: int = 1, **said: Any) -> ReviewAnswered:
    return ReviewAnswered(task=name, result=review(name, outcome, number, **said))


def check_sent(name: str, number: int = 1, *, attempt: int = 1, base: str = "c0") -> CheckSent:
    return CheckSent(
        task=name,
        message_id=f"{RUN}.{name}.{attempt}.check-{number}",
        token="t",
        base=base,
        issued_at=100.0,
    )


def verdict(name: str, kind: Verdict = "green", number: int = 1, *, attempt: int = 1, **said: Any) -> CheckResult:
    composed = kind not in ("conflict", "stale", "not_configured", "infrastructure")
    said = {"patch_id": f"patch-{name}-{attempt}" if composed else "", **said}
    return CheckResult(
        request_id=f"{RUN}.{name}.{attempt}.check-{number}",
        token="t",
        verdict=kind,
        commit=f"m-{name}-{attempt}" if composed else None,
        tree=f"tree-{name}-{attempt}" if composed else None,
        certificates=(certificate(f"tree-{name}-{attempt}"),) if kind == "green" else (),
        **said,
    )


def at_gate(state: RunState, name: str) -> Outstanding | None:
    """Return the check or landing under way for a task, if there is one."""
    return next((one for one in state.train.messages() if one.task == name), None)


def certificate(tree: str) -> Certificate:
    return Certificate(key="k", check="test", definition="d", environment="e", tree=tree, seconds=1.0, host="h")


def intended(name: str, *, attempt: int = 1, commit: str = "", approval: Approval | None = None) -> LandingIntended:
    return LandingIntended(
        task=name,
        message_id=f"{RUN}.{name}.{attempt}.land-1",
        token="t",
        base="c0",
        commit=commit or f"m-{name}-{attempt}",
        tree=f"tree-{name}-{attempt}",
        certificates=(certificate(f"tree-{name}-{attempt}"),),
        approvals=(approval,),
        issued_at=100.0,
    )


def landing(
    name: str,
    outcome: Literal["landed", "moved", "untested", "refused", "infrastructure"] = "landed",
    *,
    attempt: int = 1,
    commit: str = "",
    detail: str = "",
) -> Landing:
    where = commit or (f"m-{name}-{attempt}" if outcome == "landed" else None)
    return Landing(
        request_id=f"{RUN}.{name}.{attempt}.land-1",
        token="t",
        outcome=outcome,
        commit=where,
        detail=detail,
        host="h",
    )
