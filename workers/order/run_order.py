"""
Carries out one order: a checkout, an agent, the acceptance commands, and a candidate or a report in the hub.

The agent edits and the harness commits: the candidate is the tree of the files that the agent left, on the order's
base, whatever it did to the checkout's HEAD or index. The agent's own summary is kept as a claim.
"""

import errno
import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from forgepool.workers.agents.contract import AgentAnswer, Assignment
from forgepool.workers.agents.dispatch import perform
from forgepool.workers.llm.provider import PASSING
from forgepool.workers.policy.network import HostsRefused
from forgepool.workers.queue.broker import BrokerAway, connect
from forgepool.workers.queue.leases import Holder, holders
from forgepool.workers.queue.replies import WorkNote, tell
from forgepool.workers.sandbox.layers import NoSandbox, choose_level
from forgepool.workers.schema.mistakes import DocumentWrong
from forgepool.workers.schema.orders import BuiltinAgent, Outcome, ScriptedAgent, WorkOrder, WorkResult
from forgepool.workers.schema.settings import Settings
from forgepool.workers.workspace.refs import (
    Candidate,
    ensure_from_hub,
    find_published,
    publish,
    publish_report,
    publish_unverified,
    require_hub,
)
from forgepool.workers.workspace.resume import sum_carried_over, sum_so_far
from forgepool.workers.workspace.screening import (
    AttemptWork,
    describe_held,
    find_secrets_held,
    mask_result,
    why_withheld,
)
from forgepool.workers.workspace.workspace import Workspace, accept, set_up, unprintable
from forgepool.worktrees.checkouts.checkout import Unusable
from forgepool.worktrees.commits.changes import FileTooLarge, changes, list_touched_paths
from forgepool.worktrees.git.git import CommitId, GitFailed, TreeId
from forgepool.worktrees.git.time_limit import limit_git
from forgepool.worktrees.hub.hub import HubUnusable
from forgepool.worktrees.hub.mirror import Mirror, MissingCommit, open_mirror

Stop = Callable[[], bool]

_LONGEST_WAIT_S = 35 * 86400.0
_LEAST_DISK_BYTES = 1 << 18
_KEEP_S, _LATE_KEEP_S = 120.0, 20.0
"""Seconds that git may take to keep work without a verdict; the latter where the run waits for this host to stop."""

_UNHELD = (NoSandbox, HostsRefused, DocumentWrong)
"""Reasons why commands cannot be sandboxed as configured, which the host's user has to correct."""


class NotDone(Exception):
    """The order ended without a candidate; `fields` are those of its result, `tree` its files where these are known."""

    def __init__(self, outcome: Outcome, detail: str, *, tree: TreeId | None = None, **fields: Any) -> None:
        super().__init__(detail)
        self.fields = {"outcome": outcome, "detail": detail, **fields}
        self.tree = tree


def carry_out(order: WorkOrder, settings: Settings, *, stop: Stop) -> WorkResult:
    """
    Return the result of an order. An order whose candidate is in the hub already is answered with that.

    Trouble with git, the hub or the disk is the outcome `infrastructure`, which is retried and costs no attempt.
    """
    started = time.time()
    blank = WorkResult(
        order_id=order.order_id, token=order.token, outcome="infrastructure", host=settings.host, started_at=started
    )
    try:
        mirror = open_mirror(order.hub, settings.cache, credential_helper=settings.git_credential_helper)
        earlier = find_published(mirror, order) if order.resent else None
        blank = blank.model_copy(update={"sandbox": choose_level(settings.sandbox)})
        return earlier or _attempt(order, settings, mirror, blank, stop)
    except (GitFailed, MissingCommit, HubUnusable, Unusable, *_UNHELD, OSError) as trouble:
        so_far = sum_so_far(order, settings)
        return blank.model_copy(update={**so_far, "detail": str(trouble), "finished_at": time.time()})


def _attempt(order: WorkOrder, settings: Settings, mirror: Mirror, blank: WorkResult, stop: Stop) -> WorkResult:
    base = CommitId(order.base)
    if mirror.has(base):
        # Before the agent costs anything: its work would end up in a repository that nobody reads.
        require_hub(mirror, order.anchor)
    ensure_from_hub(mirror, base, f"refs/heads/{order.target}", order.anchor)
    with set_up(order, settings, mirror, stop=stop) as workspace:
        try:
            return _perform(workspace, blank, stop)
        except NotDone as ended:
            result = mask_result(blank.model_copy(update={**ended.fields, "finished_at": time.time()}))
            with limit_git(_LATE_KEEP_S if stop() else _KEEP_S):
                result = _keep_unverified(workspace, ended.tree, result, stop)
    if result.unverified is not None and stop():
        _tell_kept(order, settings, result)
    return result


def _perform(workspace: Workspace, blank: WorkResult, stop: Stop) -> WorkResult:
    """Raises NotDone where it ends without a candidate and without a report."""
    order, mirror = workspace.order, workspace.mirror
    answer = perform(_assignment(workspace), workspace, stop=stop)
    if answer.ended == "failed":
        _require_disk(workspace.checkout.path)
    about = _about(answer, workspace)
    if answer.report is not None:
        told = {"outcome": "reported", "report": answer.report, "claimed_summary": answer.claimed_summary}
        reported = blank.model_copy(update={**about, **told, "finished_at": time.time()})
        return publish_report(mirror, order, reported)
    # One that begins with earlier work and adds nothing leaves that.
    stands = answer.ended == "no_change" and workspace.mending is not None and workspace.why_unchanged() is None
    if answer.ended != "finished" and not stands:
        outcome = _outcome_of(answer)
        if answer.nothing_to_do:
            _require_acceptance(workspace, workspace.checkout.snapshot(), about, stop)
        elif outcome == "no_change":
            _require_unchanged_acceptance(workspace, about, stop)
        waiting = _if_waiting(answer) | {"lacks": outcome == "needs_human" and answer.trouble is not None}
        raise NotDone(outcome, answer.detail, **about, **waiting, log_tail=answer.log_tail)
    tree, paths = _left_behind(workspace, about, stop)
    _require_acceptance(workspace, tree, about, stop)
    _require_no_secret(workspace, tree, paths, about)
    result = blank.model_copy(
        update={
            **about,
            "outcome": "candidate",
            "paths": paths,
            "unmended": workspace.mending is not None and tree == workspace.mending.change.tree,
            "claimed_summary": answer.claimed_summary,
            "detail": _describe_beginning(workspace),
            "finished_at": time.time(),
        }
    )
    try:
        return publish(mirror, order, Candidate(base=workspace.base, tree=tree, result=mask_result(result)))
    except GitFailed as away:
        if isinstance(order.agent, BuiltinAgent | ScriptedAgent):
            raise  # Another attempt goes on from its last checkpoint.
        raise NotDone("infrastructure", str(away), tree=tree, **about) from away


def _describe_beginning(workspace: Workspace) -> str:
    """Return a sentence where the work that was to be mended is gone; empty otherwise."""
    mends = workspace.order.mends
    if mends is None or workspace.mending is not None:
        return ""
    return f"it began afresh, since the hub has the work of attempt {mends.attempt} no longer"


def _keep_unverified(workspace: Workspace, tree: TreeId | None, result: WorkResult, stop: Stop) -> WorkResult:
    """
    Put the files of an attempt without a candidate into the hub, if it changed any; the result stays what it is.

    Those of an attempt that another one continues are there already, with its conversation.
    """
    if result.resumable:
        return result
    git, base = workspace.mirror.git, workspace.base
    try:
        tree = tree or workspace.checkout.snapshot()
        paths = list_touched_paths(changes(git, base, tree))
        begun = workspace.mending is not None and tree == workspace.mending.change.tree
        if not paths or begun:
            return result
        work = AttemptWork(git=git, order=workspace.order, tree=tree, paths=paths)
        result = mask_result(result, work).model_copy(update={"withheld": why_withheld(work)})
        candidate = Candidate(base=base, tree=tree, result=result)
        replaces = not stop() and _has_lease(workspace.order, workspace.settings)
        return publish_unverified(workspace.mirror, workspace.order, candidate, replaces=replaces)
    except (GitFailed, MissingCommit, Unusable, FileTooLarge, OSError) as trouble:
        return result.model_copy(update={"withheld": f"its work could not be kept: {trouble}"})


def _has_lease(order: WorkOrder, settings: Settings) -> bool:
    """Ask Redis whether this delivery holds the order's lease; one that slept too long does not know yet."""
    if settings.broker_url is None:
        return True
    mine = Holder(order.token, settings.host, os.getpid())
    with suppress(*BrokerAway), connect(settings.broker_url) as client:
        return holders(client, [order.order_id]).get(order.order_id) == mine
    return False


def _tell_kept(order: WorkOrder, settings: Settings, result: WorkResult) -> None:
    """Tell the run of work whose result it does not want any more; a note that is lost leaves the ref in the hub."""
    if settings.broker_url is None:
        return
    note = WorkNote(order_id=order.order_id, commit=result.unverified or "", withheld=result.withheld)
    with suppress(*BrokerAway), connect(settings.broker_url) as client:
        tell(client, order.run, note)


def _require_disk(folder: Path) -> None:
    """Raise OSError when the disk is full: the work may succeed on another host, and the task has not failed."""
    if shutil.disk_usage(folder).free < _LEAST_DISK_BYTES:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))


def _assignment(workspace: Workspace) -> Assignment:
    return Assignment(
        order=workspace.order,
        worktree=workspace.checkout.path,
        mending=workspace.mending,
        home=workspace.own.home,
        tmp=workspace.own.tmp,
        env=workspace.own.env,
        log=workspace.agent_log,
        transcript=workspace.transcript,
        confined=workspace.own.confined,
    )


def _about(answer: AgentAnswer, workspace: Workspace) -> dict[str, Any]:
    """Return the fields about the agent that every result has, however it ended."""
    return {
        "spent": answer.spent,
        "waited_s": answer.waited_s,
        "models": answer.models,
        "families": answer.families,
        "planned": answer.planned,
        "lead": answer.lead,
        "nothing_to_do": answer.nothing_to_do,
        "missing": answer.missing,
        "includes": answer.includes,
        "carried": sum_carried_over(workspace.order, workspace.settings) if answer.includes else None,
        "log": str(workspace.agent_log),
        "mended": None if workspace.mending is None else workspace.mending.attempt,
    }


def _if_waiting(answer: AgentAnswer) -> dict[str, Any]:
    """Return the fields of a result that say when and how the work can go on."""
    not_before = time.time() if answer.ended == "queued" else answer.resets_at
    fields: dict[str, Any] = {"resumable": answer.resumable, "not_before": _within_reason(not_before)}
    return fields | {"question": answer.detail} if answer.ended == "asked" else fields


def _within_reason(moment: float | None) -> float | None:
    """Clamp a moment to the next 35 days: no limit lasts longer, whatever a vendor's words were taken for."""
    return None if moment is None else min(max(moment, 0.0), time.time() + _LONGEST_WAIT_S)


def _outcome_of(answer: AgentAnswer) -> Outcome:
    match answer.ended:
        case "timeout" | "idle" | "limits":
            return "limits_spent"
        case "no_change" | "refused" | "verify_failed" | "out_of_scope":
            return answer.ended
        case "asked":
            return "needs_human"
        case "waiting":
            # Without its conversation in the hub it could not go on: it is asked again from what the hub has.
            return "waiting" if answer.resumable else "infrastructure"
        case "queued" | "not_started":
            # A queued agent begins again when its paths are free, as the orchestrator decides. One that was not
            # started met trouble of the host, which costs the task no attempt.
            return "infrastructure"
        case _:
            return _outcome_of_trouble(answer)


def _outcome_of_trouble(answer: AgentAnswer) -> Outcome:
    """Map an agent whose model gave no answer: time, another host or a person can help."""
    if answer.trouble in PASSING or answer.trouble == "usage_limit" or answer.resets_at is not None:
        return "infrastructure"
    return "needs_human" if answer.trouble in ("authentication", "unavailable") else "agent_failed"


def _left_behind(workspace: Workspace, about: dict[str, Any], stop: Stop) -> tuple[TreeId, tuple[str, ...]]:
    """
    Return the tree of the files that the agent left, and every path it changed.

    Raises:
        NotDone: it changed nothing, made the checkout unusable, or used a name that messages cannot carry.
    """
    try:
        tree = workspace.checkout.snapshot()
    except Unusable as problem:
        raise NotDone("agent_failed", str(problem), **about) from problem
    paths = list_touched_paths(changes(workspace.mirror.git, workspace.base, tree))
    if not paths:
        _require_unchanged_acceptance(workspace, about, stop)
        raise NotDone("no_change", "the agent ended well and changed no file that git keeps", **about)
    if (shown := unprintable(paths)) is not None:
        why = f"it changed '{shown}', a name that is not UTF-8; name files in UTF-8"
        raise NotDone("agent_failed", why, tree=tree, **about)
    if unresolved := workspace.find_unresolved(tree):
        raise NotDone("verify_failed", unresolved, tree=tree, **about)
    return tree, paths


def _require_acceptance(workspace: Workspace, tree: TreeId, about: dict[str, Any], stop: Stop) -> None:
    """Raise NotDone unless the acceptance commands pass on this tree, or passed in the agent's own VERIFY."""
    if workspace.green == tree:
        return
    finding = accept(workspace.order, workspace.checkout.path, workspace.own, workspace.logs, stop=stop)
    if finding.verdict != "green":
        outcome: Outcome = "infrastructure" if finding.verdict == "infrastructure" else "verify_failed"
        fields = about | {"log": finding.log}
        raise NotDone(outcome, finding.detail, tree=tree, **fields, log_tail=finding.output)


def _require_no_secret(workspace: Workspace, tree: TreeId, paths: tuple[str, ...], about: dict[str, Any]) -> None:
    """Raise NotDone for secrets for which the gate would return the work, unless the agent's own VERIFY saw none."""
    if workspace.green == tree:
        return
    held = find_secrets_held(AttemptWork(git=workspace.mirror.git, order=workspace.order, tree=tree, paths=paths))
    if held:
        sentence, listed = describe_held(held)
        raise NotDone("verify_failed", sentence, tree=tree, **about, log_tail=listed)


def _require_unchanged_acceptance(workspace: Workspace, about: dict[str, Any], stop: Stop) -> None:
    """Run the acceptance commands on unchanged files, where the plan accepts that nothing had to be changed."""
    if workspace.order.unchanged == "ok":
        _require_acceptance(workspace, workspace.checkout.snapshot(), about, stop)
