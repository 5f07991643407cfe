"""
The gate: composes entries on the target's tip, runs the target's own checks on exactly that tree, and says who is
to blame when it is red.

What the candidate changes never decides what it is checked with: definitions are read from the tip. A red tree is
somebody's failure only when the tip itself is green on that check and the failure comes a second time.
"""

import shlex
import time
from collections.abc import Callable
from typing import assert_never

from supervisor.blame import conflict_partner, red_partner
from supervisor.checks import Place, run_checks
from supervisor.definitions import CheckDefinition, effective_checks, read_gate_file
from supervisor.messages import CheckFailure, CheckRequest, CheckResult, EntryRef, Train
from workers.mistakes import DocumentWrong
from workers.settings import Settings
from worktrees.changes import read_file
from worktrees.checkout import Unusable
from worktrees.compose import Composed, Conflict, Entry, compose
from worktrees.git import CommitId, GitFailed, without_password
from worktrees.hub import HubUnusable
from worktrees.mirror import Mirror, MissingCommit, open_mirror

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
        result = _examine(request, settings, blank, stop)
    except (NotConfigured, DocumentWrong) as missing:
        result = blank.model_copy(update={"verdict": "not_configured", "detail": str(missing)})
    except (GitFailed, MissingCommit, HubUnusable, Unusable, OSError) as trouble:
        result = blank.model_copy(update={"detail": str(trouble)})
    return result.model_copy(update={"seconds": time.monotonic() - started})


def entries_in(mirror: Mirror, request: Train) -> list[Entry]:
    """The request's entries, their commits present in the mirror."""
    kept_at = {CommitId(request.base): f"refs/heads/{request.target}"}
    kept_at |= {CommitId(entry.commit): entry.ref for entry in request.entries}
    for commit in mirror.missing(*kept_at):
        mirror.ensure(commit, refs=(kept_at[commit],))
    return [_entry(entry) for entry in request.entries]


def checks_for(mirror: Mirror, request: Train) -> tuple[CheckDefinition, ...]:
    """
    The checks of the tip's own gate file and of the plan, the former winning on equal names.

    Raises:
        NotConfigured: neither has any, and the plan does not say `checks: none`.
        DocumentWrong: the target's gate file cannot be read as one.
    """
    text = read_file(mirror.git, CommitId(request.base), GATE_FILE)
    name = f"{request.target}:{GATE_FILE}"
    of_target = read_gate_file(text.decode(errors="replace"), name).checks if text is not None else ()
    checks = effective_checks(of_target, request.plan_checks)
    if not checks and not request.checks_waived:
        raise NotConfigured(f"neither {name} nor the plan has a check; add one, or say `checks: none` in the plan")
    return checks


def _examine(request: CheckRequest, settings: Settings, blank: CheckResult, stop: Stop) -> CheckResult:
    mirror = open_mirror(request.hub, settings.cache, credential_helper=settings.git_credential_helper)
    entries = entries_in(mirror, request)
    checks = checks_for(mirror, request)
    composed = compose(mirror.git, CommitId(request.base), entries, request.style)
    match composed:
        case Conflict():
            return _conflict(mirror, request, composed, blank)
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
    outcome = run_checks(checks, composed.commit, place, label="composed", tree=composed.tree)
    flaky: tuple[str, ...] = ()
    while outcome.failure is not None:
        if (untold := _untold(outcome.failure)) is not None:
            return blank.model_copy(update={"detail": untold})
        failed = next(check for check in checks if check.name == outcome.failure.check)
        if failed.name in flaky:
            return _red(request, failed, outcome.failure, place, blank)
        excused = _excused(request, failed, place, blank)
        if excused is not None:
            return excused
        # Its second time decides. Another check that fails then, hidden so far by this one, is judged for itself.
        flaky += (failed.name,)
        outcome = run_checks(checks, composed.commit, place, label="again", tree=composed.tree)
    return blank.model_copy(update={"verdict": "green", "certificates": outcome.certificates, "flaky": flaky})


def _excused(request: CheckRequest, failed: CheckDefinition, place: Place, blank: CheckResult) -> CheckResult | None:
    """The verdict where a failure is not the entry's, since the base shows it too; None where the base is green."""
    # Even a base that holds a certificate: the host may have changed since (a tool gone, a disk full), and that is
    # not the entry's failure.
    failure = run_checks((failed,), CommitId(request.base), place, label="base").failure
    if failure is None:
        return None
    if (untold := _untold(failure)) is not None:
        return blank.model_copy(update={"detail": untold})
    return _base_red(request, failure, blank)


def _untold(failure: CheckFailure) -> str | None:
    """Why a check that was not green says nothing of the tree it was for; None when it does."""
    match failure.how:
        case "stopped":
            return "stopped before the checks had ended"
        case "not_started":
            return f"check '{failure.check}' could not be started: {failure.log_tail}"
        case _:
            return None


def _base_red(request: CheckRequest, failure: CheckFailure, blank: CheckResult) -> CheckResult:
    return blank.model_copy(
        update={
            "verdict": "base_red",
            "failures": (failure,),
            "detail": f"check '{failure.check}' is red on {request.target} itself at {request.base[:12]}",
        }
    )


def _red(
    request: CheckRequest,
    failed: CheckDefinition,
    failure: CheckFailure,
    place: Place,
    blank: CheckResult,
) -> CheckResult:
    partner = red_partner(request, _entry(request.entries[-1]), failed, place)
    together = f", green alone and red together with '{partner}'" if partner else ""
    detail = f"check '{failure.check}' {_said(failure)} on the composed tree{together}"
    return blank.model_copy(
        update={
            "verdict": "red",
            "failures": (failure,),
            "reproduce": _reproduce(request, *([failed.setup] if failed.setup else []), failed.run),
            "partner": partner,
            "detail": detail,
        }
    )


def _reproduce(request: CheckRequest, *commands: str) -> str:
    """The composed commit is in this host's mirror alone: what makes it again in any clone, then the commands."""
    refs = [f"refs/heads/{request.target}", *(entry.ref for entry in request.entries)]
    commits = [entry.commit for entry in request.entries]
    steps = [
        shlex.join(["git", "fetch", without_password(request.hub), *refs]),
        shlex.join(["git", "checkout", "--detach", request.base]),
        *(shlex.join(["git", "merge", "--no-edit", commit]) for commit in commits),
        *commands,
    ]
    return " && ".join(steps)


def _conflict(mirror: Mirror, request: CheckRequest, conflict: Conflict, blank: CheckResult) -> CheckResult:
    entry = next(one for one in request.entries if one.task == conflict.entry)
    partner = conflict_partner(mirror, request, _entry(entry), conflict.paths)
    with_whom = f"'{partner}'" if partner else request.target
    return blank.model_copy(
        update={
            "verdict": "conflict",
            "reproduce": _reproduce(request),
            "conflict_paths": conflict.paths,
            "partner": partner,
            "detail": f"'{entry.task}' conflicts with {with_whom} in {', '.join(conflict.paths[:5])}",
        }
    )


def _entry(entry: EntryRef) -> Entry:
    return Entry(commit=CommitId(entry.commit), name=entry.task, message=entry.message)


def _said(failure: CheckFailure) -> str:
    match failure.how:
        case "exit":
            return f"exited with {failure.status}"
        case "timeout":
            return "did not end in its time"
        case "idle" | "stopped":
            return "was ended before it was done"
        case "not_started":
            return "could not be started"
