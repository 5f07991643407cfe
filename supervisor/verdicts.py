"""
The verdicts that let nothing in, in words: what was found, red or in conflict, with what, and how to see it again.
"""

import shlex
from collections.abc import Sequence

from supervisor.blame import conflict_partner, red_partner
from supervisor.checks.failures import named, said
from supervisor.checks.lines import line_of
from supervisor.checks.runs import Runs
from supervisor.checks.trial import Found, Out
from supervisor.findings import ScanFinding, Weight
from supervisor.messages import CheckFailure, CheckRequest, CheckResult, EntryRef
from worktrees.compose import Composed, Conflict, Entry, compose
from worktrees.git import CommitId, Git, without_password
from worktrees.mirror import Mirror

_WEIGHTS: tuple[Weight, ...] = ("blocks", "attention", "note")
_SHOWN = 5


def composable(entry: EntryRef) -> Entry:
    return Entry(commit=CommitId(entry.commit), name=entry.task, message=entry.message, style=entry.style)


def kept_out(git: Git, request: CheckRequest, held: Sequence[ScanFinding], blank: CheckResult) -> CheckResult:
    """Of findings that are held against the entry; the worst is told first."""
    worst = min(held, key=lambda finding: _WEIGHTS.index(finding.weight))
    place = f"{worst.path}:{worst.line}" if worst.line else worst.path
    more = f"; and {len(held) - 1} more such findings" if len(held) > 1 else ""
    at = f"{place}: " if place else ""
    return blank.model_copy(
        update={
            "verdict": "findings",
            "reproduce": _reproduce(git, request, shlex.join(["git", "diff", ground_of(git, request), "HEAD"])),
            "detail": f"{at}{worst.said} ({worst.rule}){more}",
        }
    )


def base_red(request: CheckRequest, failures: Sequence[CheckFailure], blank: CheckResult) -> CheckResult:
    failure = failures[0]
    where = f" on {request.target} itself at {request.base[:12]}"
    plain = failure.how == "exit" and not failure.setup
    words = f"is red{where}" if plain and not failure.tests else said(failure, where)
    more = f"; and so are {', '.join(one.check for one in failures[1:])}" if failures[1:] else ""
    return blank.model_copy(
        update={"verdict": "base_red", "failures": tuple(failures), "detail": f"{named(failure)} {words}{more}"}
    )


def out(request: CheckRequest, found: Found, runs: Runs, blank: CheckResult) -> CheckResult:
    """Of the check that keeps the entry out."""
    assert found.out is not None
    match found.out.judgement.verdict:
        case "tip_red":
            return base_red(request, (found.out.failure,), blank)
        case "no_evidence" if found.out.judgement.of_tip:
            words = f"check '{found.out.check.name}' {found.out.judgement.said}, nor does it on {request.target} itself"
            return blank.model_copy(
                update={"verdict": "not_configured", "failures": (found.out.failure,), "detail": words}
            )
        case _:
            return _red(request, found, found.out, runs, blank)


def _red(request: CheckRequest, found: Found, out: Out, runs: Runs, blank: CheckResult) -> CheckResult:
    failure = out.failure
    partner = None
    if request.decisive and out.judgement.verdict == "red" and not failure.protected:
        entry = composable(request.entries[-1])
        partner = red_partner(request, entry, out.check, failure.tests, runs, found.excused)
    together = f", green alone and red together with '{partner}'" if partner else ""
    ground = "the composed tree"
    if failure.protected:
        ground += f" with the tests and settings of {request.target}"
    line = line_of(out.check, runs.checks)
    commands = [command for check in line for command in (check.setup, check.run) if command]
    return blank.model_copy(
        update={
            "verdict": "red",
            "failures": (failure,),
            "reproduce": _reproduce(runs.place.mirror.git, request, *commands),
            "partner": partner,
            "detail": f"{named(failure)} {said(failure, f' on {ground}{together}')}",
        }
    )


def conflicting(mirror: Mirror, request: CheckRequest, conflict: Conflict, blank: CheckResult) -> CheckResult:
    entry = next(one for one in request.spec if one.task == conflict.entry)
    partner = conflict_partner(mirror, request, composable(entry), conflict.paths)
    with_whom = f"'{partner}'" if partner else request.target
    return blank.model_copy(
        update={
            "verdict": "conflict",
            "about": entry.task,
            "reproduce": _reproduce(mirror.git, request),
            "conflict_paths": conflict.paths,
            "partner": partner,
            "detail": f"'{entry.task}' conflicts with {with_whom} in {', '.join(conflict.paths[:_SHOWN])}",
        }
    )


def ground_of(git: Git, request: CheckRequest) -> CommitId:
    """What the entries are composed on: the tip, with those ahead of them, where these go together."""
    base = CommitId(request.base)
    ahead = compose(git, base, [composable(entry) for entry in request.ahead], request.style)
    return ahead.commit if isinstance(ahead, Composed) else base


def _reproduce(git: Git, request: CheckRequest, *commands: str) -> str:
    """
    What makes the composed commit again in any clone, for it is in this host's mirror alone; then the commands.

    Those ahead have landed by the time at which anybody is told of a red, just as they were composed: the target has
    them, and nothing else of theirs is there any more.
    """
    refs = [f"refs/heads/{request.target}", *(entry.ref for entry in request.entries)]
    steps = [
        shlex.join(["git", "fetch", without_password(request.hub), *refs]),
        shlex.join(["git", "checkout", "--detach", ground_of(git, request)]),
        *(shlex.join(["git", "merge", "--no-edit", entry.commit]) for entry in request.entries),
        *commands,
    ]
    return " && ".join(steps)
