"""Again, or stop: pure. What a failed attempt leads to, and the reason pack the next one is given."""

from typing import assert_never

from orchestrator.events import TaskFailed, TaskReturned
from orchestrator.task_state import TaskState
from supervisor.messages import CheckResult
from workers.messages import ReasonKind, ReasonPack, WorkResult

LOG_TAIL_CHARS = 6000


def again_or_stop(task: TaskState, reason: ReasonPack, *, attempts: int) -> TaskReturned | TaskFailed:
    """Returned while attempts are left, counting the one that just failed; else failed."""
    if task.charged + 1 < attempts:
        return TaskReturned(task=task.id, reason=reason)
    return TaskFailed(task=task.id, reason=reason)


def reason_of_work(result: WorkResult, *, attempt: int) -> ReasonPack:
    """Why an attempt without a candidate failed."""
    return ReasonPack(
        attempt=attempt,
        kind=_kind_of_work(result),
        summary=result.detail or f"the attempt ended as {result.outcome}",
        log_tail=result.log_tail[-LOG_TAIL_CHARS:],
        paths=result.paths,
    )


def _kind_of_work(result: WorkResult) -> ReasonKind:
    match result.outcome:
        case "no_change":
            return "no_change"
        case "verify_failed":
            return "verify_failed"
        case "limits_spent":
            return "limits"
        case "out_of_scope" | "refused":
            return result.outcome
        case "agent_failed" | "needs_human" | "candidate" | "infrastructure":
            return "agent_failed"
        case _:
            assert_never(result.outcome)


def reason_of_check(result: CheckResult, *, attempt: int) -> ReasonPack:
    """Why a candidate was not let in: a conflict, or a check that is red because of it."""
    if result.verdict == "conflict":
        return ReasonPack(
            attempt=attempt,
            kind="conflict",
            summary=result.detail,
            conflicting_entry=result.partner,
            paths=result.conflict_paths,
            reproduce=result.reproduce,
        )
    failure = result.failures[0] if result.failures else None
    return ReasonPack(
        attempt=attempt,
        kind="check_failed",
        summary=result.detail,
        log_tail=failure.log_tail[-LOG_TAIL_CHARS:] if failure else "",
        conflicting_entry=result.partner,
        reproduce=result.reproduce,
    )


def reason_of_scope(outside: tuple[str, ...], *, attempt: int) -> ReasonPack:
    """Why a candidate that touched undeclared paths is refused under `scope: strict`."""
    shown = ", ".join(outside[:5]) + (f" and {len(outside) - 5} more" if len(outside) > 5 else "")
    return ReasonPack(
        attempt=attempt,
        kind="out_of_scope",
        summary=f"it changed {shown}, which its `files` do not cover; widen `files`, or use `scope: extend`",
        paths=outside,
    )
