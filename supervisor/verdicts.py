"""
The verdicts that let nothing in, in words: what was red or in conflict, with what, and how to see it again.
"""

import shlex
from collections.abc import Sequence

from supervisor.blame import conflict_partner, red_partner
from supervisor.checks import Place
from supervisor.definitions import CheckDefinition
from supervisor.messages import CheckFailure, CheckRequest, CheckResult, EntryRef
from worktrees.compose import Conflict, Entry
from worktrees.git import CommitId, without_password
from worktrees.mirror import Mirror


def composable(entry: EntryRef) -> Entry:
    return Entry(commit=CommitId(entry.commit), name=entry.task, message=entry.message)


def untold(failure: CheckFailure) -> str | None:
    """Why a check that was not green says nothing of the tree it was for; None when it does."""
    match failure.how:
        case "stopped":
            return "stopped before the checks had ended"
        case "not_started":
            return f"{_named(failure)} could not be started: {failure.log_tail}"
        case _:
            return None


def base_red(request: CheckRequest, failure: CheckFailure, blank: CheckResult) -> CheckResult:
    where = f"{request.target} itself at {request.base[:12]}"
    plain = failure.how == "exit" and not failure.setup
    said = f"is red on {where}" if plain else f"{_said(failure, f' on {where}')}"
    return blank.model_copy(
        update={
            "verdict": "base_red",
            "failures": (failure,),
            "detail": f"{_named(failure)} {said}",
        }
    )


def red(
    request: CheckRequest, checks: Sequence[CheckDefinition], failure: CheckFailure, place: Place, blank: CheckResult
) -> CheckResult:
    """Of the failure of the last of these checks; those before it are run with it, for it may need what they make."""
    partner = red_partner(request, composable(request.entries[-1]), checks, place)
    together = f", green alone and red together with '{partner}'" if partner else ""
    commands = [command for check in checks for command in (check.setup, check.run) if command]
    return blank.model_copy(
        update={
            "verdict": "red",
            "failures": (failure,),
            "reproduce": _reproduce(request, *commands),
            "partner": partner,
            "detail": f"{_named(failure)} {_said(failure, f' on the composed tree{together}')}",
        }
    )


def conflicting(mirror: Mirror, request: CheckRequest, conflict: Conflict, blank: CheckResult) -> CheckResult:
    entry = next(one for one in request.entries if one.task == conflict.entry)
    partner = conflict_partner(mirror, request, composable(entry), conflict.paths)
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


def _named(failure: CheckFailure) -> str:
    return f"the set-up of check '{failure.check}'" if failure.setup else f"check '{failure.check}'"


def _said(failure: CheckFailure, where: str) -> str:
    match failure.how:
        case "exit":
            return f"exited with {failure.status}{where}"
        case "timeout":
            return f"did not end in its time{where}"
        case "idle" | "stopped":
            return f"was ended before it was done{where}"
        case "not_started":
            return f"could not be started{where}"
        case "refused" | "no_evidence":
            return f"is not taken for green{where}: {failure.reason}"
