"""
Runs checks: each in its own process tree, with a time limit, each **line** of them in a clean checkout of its own.

A line is a check behind those it uses (`lines`). It has private folders of its own, too: whatever a candidate's tests
leave, in the checkout, at home or in the folder for temporary files, no other line finds it.

Green means the command ran, exited 0, and left every file of the commit as it was: what a check finds is true of
the commit's tree only if that is still what lies there. Everything else is a failure that says how it ended. Whose it
is, and whether green is to be believed, is judged elsewhere (`trial`, `judging`).
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from forgepool.supervisor.checks.certificates import Inputs, certify, environment
from forgepool.supervisor.checks.results.evidence import of_asked
from forgepool.supervisor.checks.results.judging import Ran
from forgepool.supervisor.checks.results.reports import ask
from forgepool.supervisor.messages.answers import Certificate, CheckFailure
from forgepool.workers.policy.gate_file.document import CheckDefinition
from forgepool.workers.policy.sources import hosts_for_check
from forgepool.workers.sandbox.layers import choose_level
from forgepool.workers.sandbox.run.file_trace import FileTrace
from forgepool.workers.sandbox.run.process import Command, Ended, run, shell
from forgepool.workers.sandbox.sandbox_profile import let_out
from forgepool.workers.workspace.checks.lines import label_of, lines_of
from forgepool.workers.workspace.checks.setups import (
    CheckSite,
    SetupBench,
    SetupFailure,
    keep_folders,
    prepare_bench,
    set_up,
)
from forgepool.worktrees.commits.compose import tree_of
from forgepool.worktrees.git.git import CommitId

_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckProgress:
    """Something that has just begun or ended while a change is examined, for a person who waits for the answer."""

    what: Literal["scanned", "begun", "green", "red"]
    check: str = ""
    """Empty for `scanned`."""
    label: str = ""
    """The tree and the occasion, as in the names of logs: `composed`, `base`, `again`."""
    seconds: float = 0.0


def _unheard(progress: CheckProgress) -> None:
    """Ignore the progress: no person waits for the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckPlace(CheckSite):
    """The place where checks run, and the ear of a person who waits for them."""

    hear: Callable[[CheckProgress], None] = _unheard


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The part of a check's tests that one run is about."""

    left_out: tuple[str, ...]
    """Test files that are not run."""
    traced: bool = False
    """True if its look-ups are taken down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedCheck:
    """One check that was run on one commit; `failure` is None where it was green by itself."""

    check: CheckDefinition
    ran: Ran
    failure: CheckFailure | None
    seconds: float
    tail: str
    log: str
    reused: bool = False
    """It was run earlier, on the same inputs."""
    host: str = ""
    """The other host that ran it; '' where it was this one."""
    traced: str = ""
    """A clause that says how much of it was left out, being proven; empty where nothing was."""
    trace: FileTrace | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChecksOutcome:
    """The outcome of all checks on one commit: a certificate for each green one, and the first failure."""

    certificates: tuple[Certificate, ...]
    failure: CheckFailure | None


def run_line(
    line: Sequence[CheckDefinition],
    commit: CommitId,
    place: CheckPlace,
    *,
    label: str,
    base: CommitId | None = None,
    past: Collection[str] = (),
    selection: Selection | None = None,
) -> tuple[TriedCheck, ...]:
    """
    Run checks in their order in one clean checkout of `commit`, until one is red that is not named in `past`.

    `label` names the log files; `selection` is about each check of the line. `base` is the target's tip, whose set-up
    folders are kept; without it every set-up is run. Raises GitFailed, OSError or Unusable for trouble that is no
    entry's fault.
    """
    tried: list[TriedCheck] = []
    with prepare_bench(commit, place, label, base) as bench:
        keep_folders(line, bench)
        for check in line:
            place.hear(CheckProgress(what="begun", check=check.name, label=label))
            tried.append(_run_one(check, bench, selection or Selection(left_out=())))
            ended: Literal["green", "red"] = "green" if tried[-1].failure is None else "red"
            place.hear(CheckProgress(what=ended, check=check.name, label=label, seconds=tried[-1].seconds))
            if tried[-1].failure is not None and check.name not in past:
                break
    return tuple(tried)


def run_checks(checks: Sequence[CheckDefinition], commit: CommitId, place: CheckPlace, *, label: str) -> ChecksOutcome:
    """All checks on one commit, judged by nothing but how they end; what uses a red one is not run."""
    tried: dict[str, TriedCheck] = {}
    for line in lines_of(checks):
        for one in run_line(line.checks, commit, place, label=label_of(label, line.checks)):
            tried.setdefault(one.check.name, one)
    inputs = Inputs(git=place.mirror.git, tree=tree_of(place.mirror.git, commit), checks=checks)
    certificates = tuple(
        certify(
            one.check,
            checks,
            inputs=inputs.of(one.check),
            environment=environment(choose_level(place.settings.sandbox)),
            seconds=one.seconds,
            host=place.settings.host,
        )
        for one in tried.values()
        if one.failure is None
    )
    failures = (one.failure for one in tried.values() if one.failure is not None)
    return ChecksOutcome(certificates=certificates, failure=next(failures, None))


def report_setup(check: CheckDefinition, failure: SetupFailure) -> CheckFailure:
    return CheckFailure(
        check=check.name,
        how=failure.how,
        status=failure.status,
        log_tail=failure.excerpt,
        log=failure.log,
        setup=True,
        reason=failure.reason,
    )


def _run_one(check: CheckDefinition, bench: SetupBench, selection: Selection) -> TriedCheck:
    if (unready := set_up(check, bench)) is not None:
        ran, lacks = Ran(how=unready.how, status=unready.status), report_setup(check, unready)
        return TriedCheck(check=check, ran=ran, failure=lacks, seconds=0.0, tail=unready.excerpt, log=unready.log)
    with let_out(bench.shown, hosts_for_check(check.name, check.network, bench.policy, bench.lent)) as own:
        asked = ask(check, bench.checkout.path, own.tmp, own.env, selection.left_out)
        trace = FileTrace(bench.checkout.path, tmp=own.tmp) if selection.traced else None
        command = Command(
            argv=shell(check.run),
            cwd=bench.checkout.path,
            env=asked.env,
            confined=own.confined,
            log=bench.logs / f"{bench.label}-{check.name}.log",
            timeout_s=check.timeout_s,
            trace=trace,
        )
        ended = run(command, stop=bench.stop)
        evidence = of_asked(ended, asked)
    if evidence.report is not None:
        ended.log.with_suffix(".tests.json").write_text(evidence.report.encode())
    failure = _failure(check, ended, bench.checkout.list_altered() if ended.succeeded else ())
    how = ended.how if failure is None else failure.how
    ran = Ran(how=how, status=ended.status, evidence=evidence)
    return TriedCheck(
        check=check,
        ran=ran,
        failure=failure,
        seconds=ended.seconds,
        tail=ended.excerpt,
        log=str(ended.log),
        trace=trace,
    )


def _failure(check: CheckDefinition, ended: Ended, altered: Sequence[str]) -> CheckFailure | None:
    if ended.succeeded and not altered:
        return None
    failure = CheckFailure(
        check=check.name,
        how=ended.how,
        status=ended.status,
        log_tail=ended.excerpt,
        log=str(ended.log),
    )
    if not altered:
        return failure
    reason = _altering(altered)
    return failure.model_copy(
        update={"how": "refused", "reason": reason, "log_tail": f"{ended.excerpt.rstrip()}\n{reason}\n".lstrip()}
    )


def _altering(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    named = ", ".join(paths[:_SHOWN]) + more
    return f"it changed tracked files: {named}; a check must leave the tree as it found it"
