"""
One order, carried out: a checkout, an agent, the acceptance commands, a candidate in the hub.

The agent edits and the harness commits: whatever the agent did to the checkout's HEAD or index, the candidate is
the tree of the files it left, on the base it was given. What the agent says of its work is kept as a claim.
"""

import errno
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from forgepool.workers.agents.contract import AgentAnswer, Assignment
from forgepool.workers.agents.dispatch import perform
from forgepool.workers.llm.provider import PASSING
from forgepool.workers.policy.network import HostsRefused
from forgepool.workers.sandbox.layers import NoSandbox, choose_level
from forgepool.workers.schema.orders import Outcome, WorkOrder, WorkResult
from forgepool.workers.schema.settings import Settings
from forgepool.workers.schema.yaml.mistakes import DocumentWrong
from forgepool.workers.workspace.refs import Candidate, find_published, publish
from forgepool.workers.workspace.resume import sum_carried_over, sum_so_far
from forgepool.workers.workspace.workspace import AcceptanceFinding, Workspace, accept, set_up, unprintable
from forgepool.worktrees.checkouts.checkout import Unusable
from forgepool.worktrees.commits.changes import changes, list_touched_paths
from forgepool.worktrees.git.git import CommitId, GitFailed, TreeId
from forgepool.worktrees.hub.hub import HubUnusable
from forgepool.worktrees.hub.mirror import Mirror, MissingCommit, open_mirror

Stop = Callable[[], bool]

_LONGEST_WAIT_S = 35 * 86400.0
_LEAST_DISK_BYTES = 1 << 18

_UNHELD = (NoSandbox, HostsRefused, DocumentWrong)
"""What stands in the way of holding commands as they are to be held: for the person whose host this is to mend."""


class NotDone(Exception):
    """The order ended without a candidate; carries what is to be said of it in the result."""

    def __init__(self, outcome: Outcome, detail: str, **said: Any) -> None:
        super().__init__(detail)
        self.said = {"outcome": outcome, "detail": detail, **said}


def carry_out(order: WorkOrder, settings: Settings, *, stop: Stop) -> WorkResult:
    """
    The result of an order. An order whose candidate is in the hub already is answered with that.

    Trouble with git, the hub or the disk is the outcome `infrastructure`: nobody's failure, tried again.
    """
    started = time.time()
    blank = WorkResult(
        order_id=order.order_id,
        token=order.token,
        outcome="infrastructure",
        host=settings.host,
        started_at=started,
    )
    try:
        mirror = open_mirror(order.hub, settings.cache, credential_helper=settings.git_credential_helper)
        earlier = find_published(mirror, order) if order.resent else None
        blank = blank.model_copy(update={"sandbox": choose_level(settings.sandbox)})
        return earlier or _attempt(order, settings, mirror, blank, stop)
    except NotDone as ended:
        return blank.model_copy(update={**ended.said, "finished_at": time.time()})
    except (GitFailed, MissingCommit, HubUnusable, Unusable, *_UNHELD, OSError) as trouble:
        so_far = sum_so_far(order, settings)
        return blank.model_copy(update={**so_far, "detail": str(trouble), "finished_at": time.time()})


def _attempt(order: WorkOrder, settings: Settings, mirror: Mirror, blank: WorkResult, stop: Stop) -> WorkResult:
    base = CommitId(order.base)
    mirror.ensure(base, refs=(f"refs/heads/{order.target}",))
    with set_up(order, settings, mirror, stop=stop) as bench:
        answer = perform(_assignment(bench), bench, stop=stop)
        if answer.ended == "failed":
            _require_disk(bench.checkout.path)
        told = _told(answer, bench)
        if answer.ended != "finished":
            outcome = _outcome_of(answer)
            if outcome == "no_change":
                _require_unchanged_acceptance(bench, told, stop)
            raise NotDone(outcome, answer.detail, **told, **_if_waiting(answer), log_tail=answer.log_tail)
        tree, paths = _left_behind(bench, told, stop)
        _require_acceptance(bench, tree, told, stop)
        result = blank.model_copy(
            update={
                **told,
                "outcome": "candidate",
                "paths": paths,
                "claimed_summary": answer.claimed_summary,
                "finished_at": time.time(),
            }
        )
        return publish(mirror, order, Candidate(base=base, tree=tree, result=result))


def _require_disk(folder: Path) -> None:
    """Raise OSError when the disk is full: what failed on it may succeed elsewhere, and is no failure of the task."""
    if shutil.disk_usage(folder).free < _LEAST_DISK_BYTES:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))


def _assignment(bench: Workspace) -> Assignment:
    return Assignment(
        order=bench.order,
        worktree=bench.checkout.path,
        home=bench.own.home,
        tmp=bench.own.tmp,
        env=bench.own.env,
        log=bench.agent_log,
        transcript=bench.transcript,
        confined=bench.own.confined,
    )


def _told(answer: AgentAnswer, bench: Workspace) -> dict[str, Any]:
    """What every result says of the agent, however it ended."""
    return {
        "spent": answer.spent,
        "models": answer.models,
        "families": answer.families,
        "planned": answer.planned,
        "includes": answer.includes,
        "carried": sum_carried_over(bench.order, bench.settings) if answer.includes else None,
        "log": str(bench.agent_log),
    }


def _if_waiting(answer: AgentAnswer) -> dict[str, Any]:
    """What a result says of going on later."""
    not_before = time.time() if answer.ended == "queued" else answer.resets_at
    said: dict[str, Any] = {"resumable": answer.resumable, "not_before": _within_reason(not_before)}
    return said | {"question": answer.detail} if answer.ended == "asked" else said


def _within_reason(moment: float | None) -> float | None:
    """No limit lasts for longer than a month, whatever a vendor's words were taken for."""
    return None if moment is None else min(max(moment, 0.0), time.time() + _LONGEST_WAIT_S)


def _outcome_of(answer: AgentAnswer) -> Outcome:
    match answer.ended:
        case "timeout" | "idle" | "limits":
            return "limits_spent"
        case "no_change" | "refused" | "verify_failed" | "out_of_scope":
            return answer.ended
        case "asked":
            return "needs_human"
        case "queued":
            # It begins again when what it wants is free, which is the orchestrator's to see to.
            return "infrastructure"
        case "not_started":
            # No log could be opened, no process made: the host's trouble, which costs the task no attempt.
            return "infrastructure"
        case _:
            return _outcome_of_trouble(answer)


def _outcome_of_trouble(answer: AgentAnswer) -> Outcome:
    """An agent whose model gave no answer has not failed: time, another host or a person can mend that."""
    if answer.trouble in PASSING or answer.trouble == "usage_limit" or answer.resets_at is not None:
        return "infrastructure"
    return "needs_human" if answer.trouble in ("authentication", "unavailable") else "agent_failed"


def _left_behind(bench: Workspace, told: dict[str, Any], stop: Stop) -> tuple[TreeId, tuple[str, ...]]:
    """
    The tree of what the agent left, and every path it changed: at least one, each a name that messages can carry.

    A checkout it made unusable is its own doing.
    """
    try:
        tree = bench.checkout.snapshot()
    except Unusable as problem:
        raise NotDone("agent_failed", str(problem), **told) from problem
    paths = list_touched_paths(changes(bench.mirror.git, bench.base, tree))
    if not paths:
        _require_unchanged_acceptance(bench, told, stop)
        raise NotDone("no_change", "the agent ended well and changed no file that git keeps", **told)
    if (shown := unprintable(paths)) is not None:
        raise NotDone("agent_failed", f"it changed '{shown}', a name that is not UTF-8; name files in UTF-8", **told)
    return tree, paths


def _require_acceptance(bench: Workspace, tree: TreeId, told: dict[str, Any], stop: Stop) -> None:
    """The acceptance commands are green on this tree, or were found so by the agent's own VERIFY."""
    if bench.green == tree:
        return
    finding: AcceptanceFinding = accept(bench.order, bench.checkout.path, bench.own, bench.logs, stop=stop)
    if finding.verdict != "green":
        outcome: Outcome = "infrastructure" if finding.verdict == "infrastructure" else "verify_failed"
        raise NotDone(outcome, finding.detail, **told | {"log": finding.log}, log_tail=finding.output)


def _require_unchanged_acceptance(bench: Workspace, told: dict[str, Any], stop: Stop) -> None:
    """Run the acceptance commands on unchanged files, where changing nothing may be all there is to do."""
    if bench.order.unchanged == "ok":
        _require_acceptance(bench, bench.checkout.snapshot(), told, stop)
