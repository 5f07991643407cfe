"""
The names under which a run keeps its things in the hub: all below `refs/forgepool/<run>/`, none a branch.

A candidate is created once, together with its result, in one atomic push. A landing's marker is created in the same
atomic push that moves the target, once per task: that is what makes landing twice impossible.
"""

from dataclasses import dataclass
from typing import assert_never

from forgepool.workers.schema.orders import WorkOrder, WorkResult
from forgepool.worktrees.commits.candidate import commit_candidate, trailers
from forgepool.worktrees.git.git import CommitId, GitFailed, TreeId
from forgepool.worktrees.hub.mirror import Mirror
from forgepool.worktrees.hub.push import Pushed, PushRefused, RefUpdate, Stale


def run_refs(run: str) -> str:
    return f"refs/forgepool/{run}/*"


def candidate_ref(run: str, task: str, attempt: int) -> str:
    return f"refs/forgepool/{run}/orders/{task}/{attempt}"


def orders_of(run: str, task: str) -> str:
    """The candidates of a task."""
    return f"refs/forgepool/{run}/orders/{task}/*"


def result_ref(run: str, task: str, attempt: int) -> str:
    """A blob: the worker's result as JSON, so that an answer lost with Redis is read again from the hub."""
    return f"refs/forgepool/{run}/results/{task}/{attempt}"


def marker_ref(run: str, task: str) -> str:
    return f"refs/forgepool/{run}/landed/{task}"


def submission_ref(target: str, name: str) -> str:
    """Where anybody pushes what is to be let into a gated target; the gate removes it once it has taken it in."""
    return f"refs/forgepool/for/{target}/{name}"


def submissions_of(target: str) -> str:
    return f"refs/forgepool/for/{target}/*"


def sign_ref(target: str) -> str:
    """A blob: which gate keeps the target, for as long as it does."""
    return f"refs/forgepool/gates/{target}"


def board_ref(target: str) -> str:
    """A blob: how the entries of the queue stand, for those who ask from another clone."""
    return f"refs/forgepool/queues/{target}"


def reply_ref(run: str, task: str, number: int) -> str:
    """A blob: what the gate of its target has to say of what a run gave it."""
    return f"refs/forgepool/{run}/told/{task}/{number}"


def reply_refs(run: str) -> str:
    return f"refs/forgepool/{run}/told/*"


def progress_ref(run: str, task: str, attempt: int) -> str:
    """Work under way: the files of an attempt and its transcript, as they were after a turn."""
    return f"refs/forgepool/{run}/progress/{task}/{attempt}"


def assets_ref(run: str) -> str:
    """A commit of the files beside the plan that its tasks are given."""
    return f"refs/forgepool/{run}/assets"


def overlay_ref(run: str, key: str) -> str:
    """What a command has made of a merged tree: a commit of these files alone. Created once, by who comes first."""
    return f"refs/forgepool/{run}/made/{key}"


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
