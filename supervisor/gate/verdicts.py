"""
The verdicts that let nothing in, in words: what was found, red or in conflict, with what, and how to see it again.
"""

import re
import shlex
from collections.abc import Iterator, Sequence

from forgepool.supervisor.checks.results.failures import describe_failure, describe_red_base, name_failure
from forgepool.supervisor.checks.runs import CheckRuns
from forgepool.supervisor.checks.trial import KeptOutBy, TrialFindings
from forgepool.supervisor.gate.blame import conflict_partner, find_red_partner
from forgepool.supervisor.messages.answers import CheckFailure, CheckResult, name_partner
from forgepool.supervisor.messages.requests import CheckRequest, EntryRef
from forgepool.supervisor.regeneration.regenerate import CommandFailed, MakerChanged
from forgepool.workers.workspace.checks.lines import line_of
from forgepool.workers.workspace.scans.findings import ScanFinding, Weight
from forgepool.workers.workspace.scans.subject import printable
from forgepool.worktrees.commits.compose import Composed, ComposedStep, Conflict, Entry
from forgepool.worktrees.git.git import CommitId, without_password
from forgepool.worktrees.hub.mirror import Mirror

_WEIGHTS: tuple[Weight, ...] = ("blocks", "attention", "note")
_SHOWN = 5
_PLAIN = re.compile(r"(?!exit\b|exec\b)[\w./@%+=:, -]+")


def composable(entry: EntryRef) -> Entry:
    return Entry(commit=CommitId(entry.commit), name=entry.task, message=entry.message, style=entry.style)


def keep_out(request: CheckRequest, composed: Composed, held: Sequence[ScanFinding], blank: CheckResult) -> CheckResult:
    """Return the verdict of findings that count against the entry, the worst first."""
    worst = min(held, key=lambda finding: _WEIGHTS.index(finding.weight))
    place = f"{worst.path}:{worst.line}" if worst.line else worst.path
    more = f"; and {len(held) - 1} more such findings" if len(held) > 1 else ""
    at = f"{place}: " if place else ""
    return blank.model_copy(
        update={
            "verdict": "findings",
            "reproduce": _reproduce(
                request,
                composed,
                shlex.join(["git", "diff", ground_of(request, composed), "HEAD"]),
                about=blank.about,
            ),
            "detail": f"{at}{worst.said} ({worst.rule}){more}",
        }
    )


def base_red(
    request: CheckRequest, failures: Sequence[CheckFailure], runs: CheckRuns, blank: CheckResult
) -> CheckResult:
    where = f" on {request.target} itself at {request.base[:12]}"
    return blank.model_copy(
        update={
            "verdict": "base_red",
            "failures": tuple(failures),
            "reproduce": _reproduce_on_tip(request, failures, runs),
            "detail": "; ".join(describe_red_base(failures, where)),
        }
    )


def _reproduce_on_tip(request: CheckRequest, failures: Sequence[CheckFailure], runs: CheckRuns) -> str:
    """Return one line of commands; where several checks are red, one to get there and one for each."""
    red = {failure.check for failure in failures}
    checks = [line_of(check, runs.checks) for check in runs.checks if check.name in red]
    fetch = shlex.join(["git", "fetch", without_password(request.hub), f"refs/heads/{request.target}"])
    there = f"{fetch} && {shlex.join(['git', 'checkout', '--detach', request.base])}"
    commands = [
        " && ".join(command for check in line for command in (check.setup, check.run) if command) for line in checks
    ]
    return " && ".join([there, *commands]) if len(commands) == 1 else "\n".join([there, *commands])


def out(
    request: CheckRequest, composed: Composed, found: TrialFindings, runs: CheckRuns, blank: CheckResult
) -> CheckResult:
    """Return the verdict of the check that keeps the entry out."""
    assert found.out is not None
    match found.out.judgement.verdict:
        case "tip_red":
            return base_red(request, (found.out.failure,), runs, blank)
        case "no_evidence" if found.out.judgement.of_tip:
            words = f"check '{found.out.check.name}' {found.out.judgement.said}, nor does it on {request.target} itself"
            return blank.model_copy(
                update={"verdict": "not_configured", "failures": (found.out.failure,), "detail": words}
            )
        case _:
            return _red(request, composed, found, found.out, runs, blank)


def _red(
    request: CheckRequest, composed: Composed, found: TrialFindings, out: KeptOutBy, runs: CheckRuns, blank: CheckResult
) -> CheckResult:
    failure = out.failure
    partner = None
    if request.decisive and out.judgement.verdict == "red" and not failure.protected:
        entry = composable(request.entries[-1])
        partner = find_red_partner(request, entry, out, runs, found.excused)
    together = f", green alone and red together with {name_partner(partner)}" if partner else ""
    where = f" when merged into {request.target}"
    if failure.protected:
        where += f", with the tests and settings of {request.target}"
    line = line_of(out.check, runs.checks)
    commands = [command for check in line for command in (check.setup, check.run) if command]
    return blank.model_copy(
        update={
            "verdict": "red",
            "failures": (failure,),
            "reproduce": _reproduce(request, composed, *commands),
            "partner": partner,
            "detail": f"{name_failure(failure)} {describe_failure(failure, f'{where}{together}')}",
        }
    )


def conflicting(mirror: Mirror, request: CheckRequest, conflict: Conflict, blank: CheckResult) -> CheckResult:
    entry = next(one for one in request.spec if one.task == conflict.entry)
    partner = conflict_partner(mirror, request, composable(entry), conflict.paths)
    rival = partner or _rival_before(mirror, request, conflict)
    with_whom = name_partner(rival) if rival else request.target
    paths = tuple(printable(path) for path in conflict.paths)
    files = ", ".join(paths[:_SHOWN])
    told: dict[str, object] = {
        "verdict": "conflict",
        "about": entry.task,
        "reproduce": _reproduce(request, conflict, about=entry.task),
        "conflict_paths": paths,
        "partner": partner,
        "detail": f"'{entry.task}' conflicts with {with_whom} in {files}",
    }
    if isinstance(conflict.unmade, CommandFailed | MakerChanged):
        told |= {"detail": f"{told['detail']}: {conflict.unmade.said}"}
    if isinstance(conflict.unmade, CommandFailed):
        told |= {"failures": (conflict.unmade.failure,)}
    return blank.model_copy(update=told)


def _rival_before(mirror: Mirror, request: CheckRequest, conflict: Conflict) -> str | None:
    """Return the last of the entries composed before it that changes a path it conflicts in."""
    rival, below = None, request.base
    for entry, step in zip(request.spec, conflict.steps, strict=False):
        if mirror.git.text("diff", "--name-only", below, step.commit, "--", *conflict.paths):
            rival = entry.task
        below = step.commit
    return rival


def ground_of(request: CheckRequest, composed: Composed | Conflict) -> CommitId:
    """Return the commit the entries are composed on: the tip, with those ahead of them, where these go together."""
    base, ahead = CommitId(request.base), len(request.ahead)
    return composed.steps[ahead - 1].commit if 0 < ahead <= len(composed.steps) else base


def _reproduce(request: CheckRequest, composed: Composed | Conflict, *commands: str, about: str = "") -> str:
    """
    Return what makes the tested commit again in any clone, for it is in this host's mirror alone; then the commands.

    `about` is the entry that is told of it: what was composed after that one has nothing to do with it. Those ahead
    have landed by the time a red is told, just as they were composed: the target has them, and nothing else of theirs
    is there any more. Files that a command has made are made by it again.
    """
    names = [entry.task for entry in request.entries]
    entries = request.entries[: names.index(about) + 1] if about in names else request.entries
    refs = [f"refs/heads/{request.target}", *(entry.ref for entry in entries)]
    steps = [
        shlex.join(["git", "fetch", without_password(request.hub), *refs]),
        shlex.join(["git", "checkout", "--detach", ground_of(request, composed)]),
        *_merges(entries, composed, composed.steps[len(request.ahead) :]),
        *commands,
    ]
    return " && ".join(steps)


def _merges(entries: Sequence[EntryRef], composed: Composed | Conflict, done: Sequence[ComposedStep]) -> Iterator[str]:
    """Yield one merge for each entry, with its generated files; behind one that failed, nothing more can be seen."""
    for at, entry in enumerate(entries):
        merge = shlex.join(["git", "merge", "--no-edit", entry.commit])
        if at < len(done):
            yield from _remade(merge, done[at])
            continue
        unmade = composed.unmade if isinstance(composed, Conflict) and composed.entry == entry.task else None
        if not isinstance(unmade, CommandFailed):
            yield merge
            continue
        yield _put_back(merge, unmade.put_back)
        yield from map(_runnable, unmade.commands)
        return


def _remade(merge: str, step: ComposedStep) -> Iterator[str]:
    yield _put_back(merge, step.put_back)
    if step.made is not None:
        yield from map(_runnable, step.made.commands)
    if step.made is not None or step.put_back:
        yield "git add -A && git commit -q --allow-empty -m made"


def _runnable(command: str) -> str:
    """A command of several, or one that ends its shell, is one link of a chain all the same."""
    return command if _PLAIN.fullmatch(command) else shlex.join(["sh", "-c", command])


def _put_back(merge: str, paths: Sequence[str]) -> str:
    """The merge; of files that a command makes with those that were there before, for a start."""
    if not paths:
        return merge
    named = shlex.join(paths)
    open_ended = merge.replace(" --no-edit ", " --no-ff --no-commit ")
    return f"{{ {open_ended} || :; }} && git reset -q -- {named} && git checkout-index -qfa && git clean -qf -- {named}"
