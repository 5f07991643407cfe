"""
The refs that runs and merge queues keep in the hub below `refs/forgepool/`, none of them a branch, and the candidates.

A candidate is created once, together with its result, in one atomic push. A landing's marker is created in the same
atomic push that moves the target, once per task, which makes landing twice impossible.
"""

from contextlib import suppress
from dataclasses import dataclass
from typing import assert_never

from forgepool.workers.schema.orders import WorkOrder, WorkResult
from forgepool.workers.schema.settings import Settings
from forgepool.worktrees.commits.candidate import commit_candidate, trailers
from forgepool.worktrees.git.git import CommitId, Git, GitFailed, TreeId, without_password
from forgepool.worktrees.git.objects import read_object, write_object
from forgepool.worktrees.hub.hub import HubUnusable
from forgepool.worktrees.hub.mirror import Mirror, MissingCommit
from forgepool.worktrees.hub.push import Pushed, PushRefused, RefUpdate, Stale

RESERVED = ("for", "gates", "queues")
"""The names below `refs/forgepool/` that are not those of runs."""


def run_refs(run: str) -> str:
    return f"refs/forgepool/{run}/*"


def candidate_ref(run: str, task: str, attempt: int) -> str:
    """
    Return the ref of a candidate: a tag of its commit whose message is the worker's result, a line of JSON.

    An answer lost with Redis is read again from it. A merge queue's is its entry's commit.
    """
    return f"refs/forgepool/{run}/orders/{task}/{attempt}"


def work_ref(run: str, task: str, attempt: int) -> str:
    """
    Return the ref of an attempt's unverified work, such as that of a timeout: a tag like a candidate's.

    It is not where candidates are: nothing takes the one for the other, and nothing lands from here.
    """
    return f"refs/forgepool/{run}/unverified/{task}/{attempt}"


def orders_of(run: str, task: str) -> str:
    """Return the pattern of a task's candidates."""
    return f"refs/forgepool/{run}/orders/{task}/*"


def result_ref(run: str, task: str, attempt: int) -> str:
    """
    Return the ref of a result without a commit, a JSON blob: a report. Earlier versions had one beside a candidate's
    commit.
    """
    return f"refs/forgepool/{run}/results/{task}/{attempt}"


def journal_ref(run: str) -> str:
    """Return the ref of the last commit of a run's journal as its orchestrator has copied it."""
    return f"refs/forgepool/{run}/journal"


def marker_ref(run: str, task: str) -> str:
    return f"refs/forgepool/{run}/landed/{task}"


def submission_ref(target: str, name: str) -> str:
    """Return the ref to which a commit is pushed to submit it; the merge queue removes it once it has the commit."""
    return f"refs/forgepool/for/{target}/{name}"


def submissions_of(target: str) -> str:
    return f"refs/forgepool/for/{target}/*"


def sign_ref(target: str) -> str:
    """Return the ref of a blob that names the merge queue that serves the target."""
    return f"refs/forgepool/gates/{target}"


def board_ref(target: str) -> str:
    """Return the ref of a blob with the status of the queue's entries, which other clones read."""
    return f"refs/forgepool/queues/{target}"


def reply_ref(run: str, task: str, number: int) -> str:
    """Return the ref of a blob with the merge queue's reply to a run's submission."""
    return f"refs/forgepool/{run}/told/{task}/{number}"


def reply_refs(run: str) -> str:
    return f"refs/forgepool/{run}/told/*"


def progress_ref(run: str, task: str, attempt: int) -> str:
    """Return the ref of work under way: an attempt's files and transcript after its last kept turn."""
    return f"refs/forgepool/{run}/progress/{task}/{attempt}"


def assets_ref(run: str) -> str:
    """Return the ref of the commit that holds the plan's assets."""
    return f"refs/forgepool/{run}/assets"


def overlay_ref(run: str, key: str) -> str:
    """Return the ref of the files that a command regenerated from a merged tree; the first push creates it."""
    return f"refs/forgepool/{run}/made/{key}"


def require_hub(mirror: Mirror, anchor: str) -> None:
    """
    Require that the repository at the hub's address has the ref `anchor`, which may be empty.

    Raises:
        HubUnusable: it is another repository, at the same path or by the same name.
        GitFailed: it could not be asked.
    """
    if anchor and not mirror.hub_refs(anchor):
        raise HubUnusable(
            f"host {Settings().host} has another repository at {without_password(mirror.hub)}, without {anchor}; "
            "give that host the run's hub there"
        )


def ensure_from_hub(mirror: Mirror, commit: CommitId, ref: str, anchor: str) -> None:
    """
    Fetch a commit by its ref if it is not here.

    Raises as `Mirror.ensure`, and, where the hub lacks it, as `require_hub`.
    """
    try:
        mirror.ensure(commit, refs=(ref,))
    except MissingCommit:
        require_hub(mirror, anchor)
        raise


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A finished tree on its base, before the commit exists."""

    base: CommitId
    tree: TreeId
    result: WorkResult


def publish(mirror: Mirror, order: WorkOrder, candidate: Candidate) -> WorkResult:
    """
    Commit the tree on its base, push it with its result to the hub, and return the result that the hub now has.

    Raises:
        GitFailed: the hub could not be written.
    """
    commit = commit_candidate(
        mirror.git, base=candidate.base, tree=candidate.tree, message=_message(order), at=order.issued_at
    )
    result = candidate.result.model_copy(update={"commit": commit})
    ref = candidate_ref(order.run, order.task, order.attempt)
    update = RefUpdate(ref=ref, new=_tag(mirror.git, commit, result, order), expected=None)
    match mirror.push([update], near=(f"refs/heads/{order.target}",)):
        case Pushed():
            return result
        case Stale():
            earlier = find_published(mirror, order)
            if earlier is not None:
                return earlier
            raise GitFailed(("push",), 1, f"{ref} is taken, without a result")
        case PushRefused(reason=reason):
            raise GitFailed(("push",), 1, f"the hub refuses candidates: {reason}")
        case answer:
            assert_never(answer)


def publish_unverified(mirror: Mirror, order: WorkOrder, candidate: Candidate, *, replaces: bool) -> WorkResult:
    """
    Commit work that is no candidate, push it with its result, and return that result.

    Another delivery of the order may have left its own work there. Only the delivery that has the lease replaces it:
    one that was stopped may be the earlier of the two. Where the hub does not take it, or must not have it, as
    `withheld` says, the commit stays in the mirror alone.
    """
    result, ref = candidate.result, work_ref(order.run, order.task, order.attempt)
    subject = f"Unverified, {result.outcome}: {order.title}"
    message = _message(order.model_copy(update={"title": subject, "description": result.detail}))
    commit = commit_candidate(mirror.git, base=candidate.base, tree=candidate.tree, message=message, at=order.issued_at)
    result = result.model_copy(update={"unverified": commit})
    tag = _tag(mirror.git, commit, result, order)
    why = result.withheld or _push_unverified(mirror, order, ref, tag, replaces=replaces)
    if not why:
        return result
    if result.withheld:
        _drop_progress(mirror, order)
    mirror.git.run("update-ref", f"refs/hub/{ref.removeprefix('refs/')}", tag)
    where = f"only host {result.host} has it: git -C {mirror.path} show {commit}"
    return result.model_copy(update={"withheld": f"{why}; {where}"})


def _push_unverified(mirror: Mirror, order: WorkOrder, ref: str, tag: CommitId, *, replaces: bool) -> str:
    """Return why the hub does not have it; empty where it has."""
    try:
        there = mirror.hub_refs(ref).get(ref)
        if there is not None and not replaces:
            return "another delivery of the order has left its own work there"
        pushed = mirror.push([RefUpdate(ref=ref, new=tag, expected=there)], near=(f"refs/heads/{order.target}",))
    except GitFailed as away:
        return f"the hub could not be reached ({away})"
    return "" if isinstance(pushed, Pushed) else f"the hub did not take it ({pushed})"


def _drop_progress(mirror: Mirror, order: WorkOrder) -> None:
    """Remove the checkpoints of an attempt whose files the hub must not have; `clean` does it where the hub is away."""
    ref = progress_ref(order.run, order.task, order.attempt)
    with suppress(GitFailed):
        if (there := mirror.hub_refs(ref).get(ref)) is not None:
            mirror.push([RefUpdate(ref=ref, new=None, expected=there)])


def publish_report(mirror: Mirror, order: WorkOrder, result: WorkResult) -> WorkResult:
    """
    Push a report to the hub, once, and return the result that the hub now has.

    Raises:
        GitFailed: the hub could not be written.
    """
    ref = result_ref(order.run, order.task, order.attempt)
    blob = CommitId(write_object(mirror.git, "blob", result.encode().encode(), like=order.base))
    match mirror.push([RefUpdate(ref=ref, new=blob, expected=None)]):
        case Pushed():
            return result
        case Stale():
            return find_published(mirror, order) or result
        case PushRefused(reason=reason):
            raise GitFailed(("push",), 1, f"the hub refuses reports: {reason}")
        case answer:
            assert_never(answer)


def _tag(git: Git, commit: CommitId, result: WorkResult, order: WorkOrder) -> CommitId:
    """Write the tag object of a candidate; no local ref names it."""
    by = f"Forgepool <forgepool@forgepool.invalid> {int(order.issued_at)} +0000"
    text = f"object {commit}\ntype commit\ntag {order.task}\ntagger {by}\n\n{result.encode()}\n"
    return CommitId(write_object(git, "tag", text.encode(), like=commit))


def find_published(mirror: Mirror, order: WorkOrder) -> WorkResult | None:
    """Return the result of an order that was finished before, under the token of this delivery; None if it was not."""
    result = read_result(mirror, order.run, order.task, order.attempt)
    return result.model_copy(update={"token": order.token}) if result else None


def read_result(mirror: Mirror, run: str, task: str, attempt: int) -> WorkResult | None:
    """Return the result that the hub keeps for an attempt, or None."""
    older, ref = result_ref(run, task, attempt), candidate_ref(run, task, attempt)
    there = mirror.hub_refs(older, ref)
    name = older if older in there else ref
    if name not in there:
        return None
    mirror.fetch(f"+{name}:{name}")
    facts, content = read_object(mirror.git, there[name])
    if facts.kind == "tag":
        content = content.partition(b"\n\n")[2]
    return None if facts.kind == "commit" else WorkResult.model_validate_json(content)


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
