"""
Checks without a vote: they run on a tree that all others found green, and only their words are kept.

Each runs once. If one cannot run, the reason is told, and nothing waits for it. Only a request to stop the supervisor
ends them early.
"""

from collections.abc import Iterator

from forgepool.supervisor.checks.certificates import Inputs
from forgepool.supervisor.checks.results.failures import describe_failure
from forgepool.supervisor.checks.runs import CheckRuns, Untold
from forgepool.supervisor.checks.store import is_green
from forgepool.supervisor.messages.answers import Advice, CheckFailure
from forgepool.workers.policy.gate_file.document import CheckDefinition
from forgepool.workers.policy.network import HostsRefused
from forgepool.workers.sandbox.layers import NoSandbox
from forgepool.workers.schema.error_lines import excerpt
from forgepool.workers.workspace.checks.lines import line_of
from forgepool.worktrees.checkouts.checkout import Unusable
from forgepool.worktrees.git.git import CommitId, GitFailed

_TAIL_CHARS = 2_000


def advice(runs: CheckRuns, commit: CommitId, inputs: Inputs) -> tuple[Advice, ...]:
    """
    Return what they say of a commit.

    Raises:
        Untold: the supervisor is to stop.
    """
    return tuple(_advice(runs, commit, inputs))


def _advice(runs: CheckRuns, commit: CommitId, inputs: Inputs) -> Iterator[Advice]:
    for check in runs.checks:
        if check.voting:
            continue
        known = runs.find_remembered(check, inputs)
        if known is not None and is_green(known.ran):
            yield Advice(check=check.name, green=True, said="is green", seconds=known.seconds, reused=True)
            continue
        yield _asked(check, runs, commit, inputs)


def _asked(check: CheckDefinition, runs: CheckRuns, commit: CommitId, inputs: Inputs) -> Advice:
    if runs.place.stop():
        raise Untold("stopped before the checks had ended")
    try:
        found = runs.run(line_of(check, runs.checks), commit, label="voteless")
    except (Untold, HostsRefused, NoSandbox, Unusable, GitFailed, OSError) as trouble:
        if runs.place.stop():
            raise Untold("stopped before the checks had ended") from trouble
        return Advice(check=check.name, green=None, said=f"could not be run: {trouble}")
    last = found[-1]
    if last.check.name != check.name:
        why = describe_failure(last.failure, "") if last.failure is not None else "ended early"
        return Advice(check=check.name, green=None, said=f"could not be run, '{last.check.name}' {why}")
    runs.keep(check, inputs, last.ran, last.seconds)
    if last.failure is None:
        return Advice(check=check.name, green=True, said="is green", seconds=last.seconds)
    return _red(check, last.failure, last.seconds)


def _red(check: CheckDefinition, failure: CheckFailure, seconds: float) -> Advice:
    what = (
        f"is red: its set-up {describe_failure(failure, '')}"
        if failure.setup
        else f"is red: it {describe_failure(failure, '')}"
    )
    tail = excerpt(failure.log_tail, _TAIL_CHARS)
    return Advice(check=check.name, green=False, said=what, seconds=seconds, log_tail=tail, log=failure.log)
