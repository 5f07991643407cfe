"""
The gate: composes entries on the target's tip, scans the diff, and runs the target's own checks on exactly that tree.
When it is red, the gate finds the entry at fault.

What the candidate changes never decides what it is checked with: definitions are read from the tip, and tests and
settings that it changes are run in the target's version as well. A red tree counts against an entry only when the tip
itself is green on what fails and the failure comes a second time. The tip is called red only when it is red twice.

The cheap stage comes first: a finding of a scan, in milliseconds, spares the checks.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import assert_never

from forgepool.supervisor.checks.certificates import Inputs, environment
from forgepool.supervisor.checks.running import CheckPlace, CheckProgress
from forgepool.supervisor.checks.runs import CheckRuns, Untold
from forgepool.supervisor.checks.store import open_store
from forgepool.supervisor.gate.candidate import ComposedCandidate
from forgepool.supervisor.gate.check_target import whole_set
from forgepool.supervisor.gate.requirements import Demands, demands_of
from forgepool.supervisor.gate.verdicts import composable, conflicting
from forgepool.supervisor.messages.answers import CheckResult
from forgepool.supervisor.messages.requests import CheckRequest, TrainRequest
from forgepool.supervisor.regeneration.kept import CannotKeep, own_patch_id
from forgepool.supervisor.regeneration.regenerate import Remaking, remaking
from forgepool.workers.policy.gate_file.document import GATE_FILE, NotConfigured, voting
from forgepool.workers.policy.network import HostsRefused
from forgepool.workers.policy.sources import require_check_hosts
from forgepool.workers.sandbox.layers import NoSandbox, choose_level
from forgepool.workers.schema.mistakes import DocumentWrong
from forgepool.workers.schema.settings import Settings
from forgepool.workers.workspace.refs import ensure_from_hub
from forgepool.worktrees.checkouts.checkout import Unusable
from forgepool.worktrees.commits.changes import find_at
from forgepool.worktrees.commits.compose import Composed, Conflict, Entry, compose, tree_of
from forgepool.worktrees.git.git import CommitId, Git, GitFailed
from forgepool.worktrees.git.history import is_ancestor, read_commit
from forgepool.worktrees.hub.hub import HubUnusable
from forgepool.worktrees.hub.mirror import Mirror, MissingCommit, open_mirror

Stop = Callable[[], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExaminationWatch:
    """The caller's side of an examination: it may stop it, and hears how it goes."""

    stop: Stop
    doubt: Callable[[], None]
    hear: Callable[[CheckProgress], None]


def examine(
    request: CheckRequest,
    settings: Settings,
    *,
    stop: Stop,
    doubt: Callable[[], None] = lambda: None,
    hear: Callable[[CheckProgress], None] = lambda progress: None,
) -> CheckResult:
    """
    Return the verdict on a request. Trouble with git, the hub or the disk is `infrastructure`, and no entry's fault.

    `doubt` is called where the first red is not the answer yet; `hear` whenever a scan or a check begins or ends.
    """
    started = time.monotonic()
    blank = CheckResult(
        request_id=request.request_id,
        token=request.token,
        verdict="infrastructure",
        host=settings.host,
    )
    try:
        blank = blank.model_copy(update={"sandbox": choose_level(settings.sandbox)})
        result = _examine(request, settings, blank, ExaminationWatch(stop=stop, doubt=doubt, hear=hear))
    except (NotConfigured, HostsRefused, DocumentWrong) as missing:
        result = blank.model_copy(update={"verdict": "not_configured", "detail": str(missing)})
    except (Untold, CannotKeep, GitFailed, MissingCommit, HubUnusable, Unusable, NoSandbox, OSError) as trouble:
        result = blank.model_copy(update={"detail": str(trouble)})
    return result.model_copy(update={"seconds": time.monotonic() - started})


def entries_in(mirror: Mirror, request: TrainRequest) -> list[Entry]:
    """The request's entries, those ahead first, their commits present in the mirror."""
    kept_at = {CommitId(request.base): f"refs/heads/{request.target}"}
    kept_at |= {CommitId(entry.commit): entry.ref for entry in request.spec}
    for commit in mirror.missing(*kept_at):
        ensure_from_hub(mirror, commit, kept_at[commit], request.anchor)
    return [composable(entry) for entry in request.spec]


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenOut:
    """An entry that was made on a commit the target no longer has."""

    task: str
    said: str


def find_taken_out(mirror: Mirror, request: TrainRequest) -> TakenOut | None:
    """
    Return the first entry that was made on a commit no longer in the target; None if there is none.

    After a force-push back, merging this entry would silently restore removed commits.
    """
    git = mirror.git
    for entry in request.spec:
        if entry.branch:
            continue
        parents = read_commit(git, CommitId(entry.commit)).parents
        if parents and not is_ancestor(git, parents[0], CommitId(request.base)):
            said = f"'{entry.task}' was made on {parents[0][:12]}, which is no longer in {request.target}"
            return TakenOut(task=entry.task, said=said)
    return None


def _examine(request: CheckRequest, settings: Settings, blank: CheckResult, watch: ExaminationWatch) -> CheckResult:
    mirror = open_mirror(request.hub, settings.cache, credential_helper=settings.git_credential_helper)
    entries = entries_in(mirror, request)
    demands = demands_of(mirror, request)
    require_check_hosts({check.name: check.network for check in voting(demands.checks)}, settings)
    blank = blank.model_copy(update={"reviewed": demands.reviewed})
    if (gone := find_taken_out(mirror, request)) is not None:
        return blank.model_copy(update={"verdict": "stale", "about": gone.task, "detail": gone.said})
    logs = settings.home / "runs" / request.run / "logs" / "checks" / request.request_id
    place = CheckPlace(mirror=mirror, settings=settings, logs=logs, stop=watch.stop, hear=watch.hear)
    made = remaking(mirror, request, demands.regenerate, place, free=all(map(demands.frees, request.spec)))
    if made is not None and request.decisive:
        made = replace(made, doubt=watch.doubt)
    composed = compose(mirror.git, CommitId(request.base), entries, request.style, made)
    match composed:
        case Conflict():
            return conflicting(mirror, request, composed, blank)
        case Composed():
            if (first := gate_changed_by(mirror.git, request, composed)) is not None:
                why = f"'{first}' changes {GATE_FILE}, and lands before others are checked behind it"
                return blank.model_copy(update={"verdict": "apart", "about": first, "detail": why})
            logs.mkdir(parents=True, exist_ok=True)
            whole = blank.model_copy(update=_composed_words(mirror.git, request, composed, demands))
            runs = replace(_runs(request, demands, composed, place, made), doubt=watch.doubt)
            if not request.entries:
                return whole_set(request, runs, settings.host, whole)
            return ComposedCandidate(request=request, demands=demands, composed=composed, runs=runs).make_verdict(whole)
        case _:
            assert_never(composed)


def gate_changed_by(git: Git, request: TrainRequest, composed: Composed) -> str | None:
    """
    The task that changes what the target demands, where others stand behind it; None where there is none.

    Those behind would be checked by what is not the target's yet: it lands first, and alone.
    """
    before = find_at(git, CommitId(request.base), GATE_FILE)
    for entry, step in zip(request.spec[:-1], composed.steps[:-1], strict=True):
        if find_at(git, step.commit, GATE_FILE) != before:
            return entry.task
    return None


def _composed_words(git: Git, request: CheckRequest, composed: Composed, demands: Demands) -> dict[str, object]:
    told: dict[str, object] = {"commit": composed.commit, "tree": composed.tree}
    told |= {"commits": tuple(one.commit for one in composed.steps)}
    wanted = demands.reviewed or any(entry.reviewed for entry in request.spec)
    return told | ({"patch_ids": patch_ids(git, CommitId(request.base), composed)} if wanted else {})


def patch_ids(git: Git, base: CommitId, composed: Composed) -> tuple[str, ...]:
    """Return the patch id of each entry's change, where it stands."""
    before = (base, *(one.commit for one in composed.steps))
    return tuple(own_patch_id(git, on, step) for on, step in zip(before, composed.steps, strict=False))


def _runs(
    request: CheckRequest, demands: Demands, composed: Composed, place: CheckPlace, made: Remaking | None
) -> CheckRuns:
    """
    Judged by what the entries are composed on; or by the target itself, where nothing is known yet of those ahead.
    """
    level = choose_level(place.settings.sandbox)
    git, tip = place.mirror.git, CommitId(request.base)
    ground = composed.after(len(request.ahead), base=tip)
    trees = (tree_of(git, tip), *(step.tree for step in composed.steps[: len(request.ahead)]))
    runs = CheckRuns(
        place=place,
        store=open_store(place.settings, level, request.run),
        checks=demands.checks,
        environment=environment(level),
        tip=ground,
        at_tip=Inputs(git=git, tree=tree_of(git, ground), checks=demands.checks),
        grounds=tuple(Inputs(git=git, tree=tree, checks=demands.checks) for tree in trees),
        anew=request.whole and not request.remembered,
        hasty=not request.decisive,
        regeneration=made,
    )
    if request.decisive or all(
        runs.find_remembered(check, runs.at_tip) is not None for check in voting(demands.checks)
    ):
        return runs
    at_target = Inputs(git=git, tree=tree_of(git, tip), checks=demands.checks)
    return replace(runs, tip=tip, at_tip=at_target, guessed=ground != tip)
