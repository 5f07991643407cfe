"""
The gate: composes entries on the target's tip, scans the difference, runs the target's own checks on exactly that tree,
and says who is to blame when it is red.

What the candidate changes never decides what it is checked with: definitions are read from the tip, and tests and
settings that it changes are run in the target's version as well. A red tree is somebody's failure only when the tip
itself is green on what fails and the failure comes a second time; and the tip is called red only when it is red twice.

Cheap before dear: what a scan finds in milliseconds keeps the checks from being run at all.
"""

import time
from collections.abc import Callable
from typing import assert_never

from supervisor.candidate import Candidate
from supervisor.checks.certificates import Inputs, environment
from supervisor.checks.running import Place
from supervisor.checks.runs import Runs, Untold
from supervisor.checks.store import opened
from supervisor.checks.whole import whole_set
from supervisor.demands import GATE_FILE as GATE_FILE
from supervisor.demands import Demands, NotConfigured, demands_of
from supervisor.messages import CheckRequest, CheckResult, Train
from supervisor.verdicts import composable, conflicting
from workers.mistakes import DocumentWrong
from workers.policy.network import HostsRefused
from workers.sandbox.layers import NoSandbox, chosen
from workers.settings import Settings
from worktrees.checkout import Unusable
from worktrees.compose import Composed, Conflict, Entry, compose, tree_of
from worktrees.git import CommitId, GitFailed
from worktrees.hub import HubUnusable
from worktrees.mirror import Mirror, MissingCommit, open_mirror

Stop = Callable[[], bool]


def examine(request: CheckRequest, settings: Settings, *, stop: Stop) -> CheckResult:
    """The verdict on a request; trouble with git, the hub or the disk is `infrastructure`, and blames nobody."""
    started = time.monotonic()
    blank = CheckResult(
        request_id=request.request_id,
        token=request.token,
        verdict="infrastructure",
        host=settings.host,
    )
    try:
        blank = blank.model_copy(update={"sandbox": chosen(settings.sandbox)})
        result = _examine(request, settings, blank, stop)
    except (NotConfigured, HostsRefused, DocumentWrong) as missing:
        result = blank.model_copy(update={"verdict": "not_configured", "detail": str(missing)})
    except (Untold, GitFailed, MissingCommit, HubUnusable, Unusable, NoSandbox, OSError) as trouble:
        result = blank.model_copy(update={"detail": str(trouble)})
    return result.model_copy(update={"seconds": time.monotonic() - started})


def entries_in(mirror: Mirror, request: Train) -> list[Entry]:
    """The request's entries, their commits present in the mirror."""
    kept_at = {CommitId(request.base): f"refs/heads/{request.target}"}
    kept_at |= {CommitId(entry.commit): entry.ref for entry in request.entries}
    for commit in mirror.missing(*kept_at):
        mirror.ensure(commit, refs=(kept_at[commit],))
    return [composable(entry) for entry in request.entries]


def taken_out(mirror: Mirror, request: Train) -> str | None:
    """
    One sentence about an entry that was made on a commit the target no longer has; None where there is none.

    Whoever rewinds the target takes commits out of it. A merge would bring them back, and nobody would be asked.
    """
    git = mirror.git
    for entry in request.entries:
        _, *parents = git.text("rev-list", "--parents", "--max-count=1", entry.commit).split()
        if parents and git.run("merge-base", "--is-ancestor", parents[0], request.base, ok=(0, 1)).status:
            return f"'{entry.task}' was made on {parents[0][:12]}, which is no longer in {request.target}"
    return None


def _examine(request: CheckRequest, settings: Settings, blank: CheckResult, stop: Stop) -> CheckResult:
    mirror = open_mirror(request.hub, settings.cache, credential_helper=settings.git_credential_helper)
    entries = entries_in(mirror, request)
    demands = demands_of(mirror, request)
    blank = blank.model_copy(update={"reviewed": demands.reviewed})
    if (gone := taken_out(mirror, request)) is not None:
        return blank.model_copy(update={"verdict": "stale", "detail": gone})
    composed = compose(mirror.git, CommitId(request.base), entries, request.style)
    match composed:
        case Conflict():
            return conflicting(mirror, request, composed, blank)
        case Composed():
            logs = settings.home / "runs" / request.run / "logs" / "checks" / request.request_id
            logs.mkdir(parents=True, exist_ok=True)
            place = Place(mirror=mirror, settings=settings, logs=logs, stop=stop)
            whole = blank.model_copy(update={"commit": composed.commit, "tree": composed.tree})
            runs = _runs(request, demands, place)
            if not request.entries:
                return whole_set(request, runs, settings.host, whole)
            return Candidate(request=request, demands=demands, composed=composed, runs=runs).judged(whole)
        case _:
            assert_never(composed)


def _runs(request: CheckRequest, demands: Demands, place: Place) -> Runs:
    level = chosen(place.settings.sandbox)
    git, tip = place.mirror.git, CommitId(request.base)
    return Runs(
        place=place,
        store=opened(place.settings.cache, level),
        checks=demands.checks,
        environment=environment(level),
        tip=tip,
        at_tip=Inputs(git=git, tree=tree_of(git, tip), checks=demands.checks),
        anew=request.whole,
    )
