"""
The gate: composes entries on the target's tip, runs the target's own checks on exactly that tree, and says who is
to blame when it is red.

What the candidate changes never decides what it is checked with: definitions are read from the tip. A red tree is
somebody's failure only when the tip itself is green on that check and the failure comes a second time; and the tip
is called red only when it is red twice.
"""

import time
from collections.abc import Callable
from typing import assert_never

from supervisor.checks import Place, run_checks
from supervisor.definitions import CheckDefinition, effective_checks, read_gate_file
from supervisor.messages import CheckRequest, CheckResult, Train
from supervisor.verdicts import base_red, composable, conflicting, red, untold
from workers.mistakes import DocumentWrong
from workers.policy.network import HostsRefused
from workers.sandbox.layers import NoSandbox, chosen
from workers.settings import Settings
from worktrees.changes import FileTooLarge, read_file
from worktrees.checkout import Unusable
from worktrees.compose import Composed, Conflict, Entry, compose
from worktrees.git import CommitId, GitFailed
from worktrees.hub import HubUnusable
from worktrees.mirror import Mirror, MissingCommit, open_mirror
from worktrees.paths import found_at

GATE_FILE = "forgepool.yaml"
Stop = Callable[[], bool]


class NotConfigured(Exception):
    """There are no checks, and nobody has said that there shall be none."""


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
    except (GitFailed, MissingCommit, HubUnusable, Unusable, NoSandbox, OSError) as trouble:
        result = blank.model_copy(update={"detail": str(trouble)})
    return result.model_copy(update={"seconds": time.monotonic() - started})


def entries_in(mirror: Mirror, request: Train) -> list[Entry]:
    """The request's entries, their commits present in the mirror."""
    kept_at = {CommitId(request.base): f"refs/heads/{request.target}"}
    kept_at |= {CommitId(entry.commit): entry.ref for entry in request.entries}
    for commit in mirror.missing(*kept_at):
        mirror.ensure(commit, refs=(kept_at[commit],))
    return [composable(entry) for entry in request.entries]


def checks_for(mirror: Mirror, request: Train) -> tuple[CheckDefinition, ...]:
    """
    The checks of the tip's own gate file and of the plan, the former winning on equal names.

    Raises:
        NotConfigured: neither has any, and the plan does not say `checks: none`; or the target's file has gone since
            the run began, or is no file that can be read.
        DocumentWrong: the target's gate file cannot be read as one.
    """
    name = f"{request.target}:{GATE_FILE}"
    text = _gate_file(mirror, request)
    of_target = read_gate_file(text.decode(errors="replace"), name).checks if text is not None else ()
    checks = effective_checks(of_target, request.plan_checks)
    if not checks and not request.checks_waived:
        raise NotConfigured(f"neither {name} nor the plan has a check; add one, or say `checks: none` in the plan")
    return checks


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


def _gate_file(mirror: Mirror, request: Train) -> bytes | None:
    """The target's gate file; None when there is none and never was in this run."""
    base, name = CommitId(request.base), f"{request.target}:{GATE_FILE}"
    found = found_at(mirror.git, base, GATE_FILE).get(GATE_FILE)
    if found is None:
        if request.had_gate_file:
            raise NotConfigured(f"{GATE_FILE} has gone from {request.target}; put it back, or start a new run")
        return None
    if found.kind != "file":
        raise NotConfigured(f"{name} is a {found.kind}; make it a regular file")
    try:
        return read_file(mirror.git, base, GATE_FILE)
    except FileTooLarge as large:
        raise NotConfigured(f"{name} is too large to be a gate file: {large}") from large


def _examine(request: CheckRequest, settings: Settings, blank: CheckResult, stop: Stop) -> CheckResult:
    mirror = open_mirror(request.hub, settings.cache, credential_helper=settings.git_credential_helper)
    entries = entries_in(mirror, request)
    checks = checks_for(mirror, request)
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
            return _judge(request, checks, composed, place, whole)
        case _:
            assert_never(composed)


def _judge(
    request: CheckRequest,
    checks: tuple[CheckDefinition, ...],
    composed: Composed,
    place: Place,
    blank: CheckResult,
) -> CheckResult:
    base = CommitId(request.base)
    outcome = run_checks(checks, composed.commit, place, label="composed", tree=composed.tree, base=base)
    flaky: tuple[str, ...] = ()
    while outcome.failure is not None:
        if (nothing := untold(outcome.failure)) is not None:
            return blank.model_copy(update={"detail": nothing})
        upto = _up_to(checks, outcome.failure.check)
        if outcome.failure.check in flaky:
            return red(request, upto, outcome.failure, place, blank)
        excused = _excused(request, upto, place, blank)
        if excused is not None:
            return excused
        # Its second time decides. Another check that fails then, hidden so far by this one, is judged for itself.
        flaky += (outcome.failure.check,)
        outcome = run_checks(checks, composed.commit, place, label="again", tree=composed.tree)
    return blank.model_copy(update={"verdict": "green", "certificates": outcome.certificates, "flaky": flaky})


def _up_to(checks: tuple[CheckDefinition, ...], name: str) -> tuple[CheckDefinition, ...]:
    """The checks through the named one: it may need what those before it leave in the checkout."""
    names = [check.name for check in checks]
    return checks[: names.index(name) + 1]


def _excused(
    request: CheckRequest,
    checks: tuple[CheckDefinition, ...],
    place: Place,
    blank: CheckResult,
) -> CheckResult | None:
    """The verdict where a failure is not the entry's, since the base shows it too; None where the base is green."""
    # Even a base that holds a certificate: the host may have changed since (a tool gone, a disk full), and that is
    # not the entry's failure. Nor is a network that is away or a kept folder that has grown old: from the first
    # failure on, every set-up is run.
    base = CommitId(request.base)
    verdict: CheckResult | None = None
    for label in ("base", "base-again"):
        failure = run_checks(checks, base, place, label=label).failure
        if failure is None:
            return None
        if (nothing := untold(failure)) is not None:
            return blank.model_copy(update={"detail": nothing})
        verdict = base_red(request, failure, blank)
    return verdict
