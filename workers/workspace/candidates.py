"""
Candidates: the commit an order leads to, put into the hub once, together with the worker's result.

Both refs are created in one atomic push that insists on their absence: of two deliveries of one order, the second
finds the first one's answer and gives that.
"""

from dataclasses import dataclass
from typing import assert_never

from forgepool.workers.schema.orders import WorkOrder, WorkResult
from forgepool.workers.workspace.refs import candidate_ref, result_ref
from forgepool.worktrees.commits.candidate import commit_candidate, trailers
from forgepool.worktrees.git.git import CommitId, GitFailed, TreeId
from forgepool.worktrees.hub.mirror import Mirror
from forgepool.worktrees.hub.push import Pushed, PushRefused, RefUpdate, Stale


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    base: CommitId
    tree: TreeId
    result: WorkResult
    """The result as it stands before the commit exists."""


def publish(mirror: Mirror, order: WorkOrder, candidate: Candidate) -> WorkResult:
    """
    Commits the tree on its base, keeps commit and result in the hub, and returns the result that stands there.

    Raises:
        GitFailed: the hub could not be written.
    """
    commit = commit_candidate(
        mirror.git,
        base=candidate.base,
        tree=candidate.tree,
        message=_message(order),
        at=order.issued_at,
    )
    result = candidate.result.model_copy(update={"commit": commit})
    blob = mirror.git.text("hash-object", "-w", "--stdin", stdin=result.encode().encode())
    run, task, attempt = order.run, order.task, order.attempt
    answer = mirror.push(
        [
            RefUpdate(ref=candidate_ref(run, task, attempt), new=commit, expected=None),
            RefUpdate(ref=result_ref(run, task, attempt), new=CommitId(blob), expected=None),
        ]
    )
    match answer:
        case Pushed():
            return result
        case Stale():
            earlier = find_published(mirror, order)
            if earlier is not None:
                return earlier
            raise GitFailed(("push",), 1, f"{candidate_ref(run, task, attempt)} is taken, without a result")
        case PushRefused(reason=reason):
            raise GitFailed(("push",), 1, f"the hub refuses candidates: {reason}")
        case _:
            assert_never(answer)


def find_published(mirror: Mirror, order: WorkOrder) -> WorkResult | None:
    """The result of an order that has been finished before, under the token of the order at hand."""
    found = read_result(mirror, order.run, order.task, order.attempt)
    return found.model_copy(update={"token": order.token}) if found else None


def read_result(mirror: Mirror, run: str, task: str, attempt: int) -> WorkResult | None:
    """The result the hub keeps for an attempt, or None."""
    ref = result_ref(run, task, attempt)
    if ref not in mirror.hub_refs(ref):
        return None
    mirror.fetch(f"+{ref}:{ref}")
    return WorkResult.model_validate_json(mirror.git.run("cat-file", "blob", ref).stdout)


def _message(order: WorkOrder) -> str:
    marks = trailers(
        {
            "Forgepool-Run": order.run,
            "Forgepool-Task": order.task,
            "Forgepool-Attempt": str(order.attempt),
            "Forgepool-Agent": order.agent.kind,
        }
    )
    body = f"\n{order.description.strip()}\n" if order.description.strip() else ""
    return f"{order.title}\n{body}\n{marks}"
