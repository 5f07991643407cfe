"""
Runs checks: each in its own process tree, in a clean checkout of one commit, with a time limit.

Green means the command ran and exited 0. Everything else is a failure that says how it ended; a command that could
not be started is never green.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from supervisor.certificates import certify
from supervisor.definitions import CheckDefinition
from supervisor.messages import Certificate, CheckFailure
from supervisor.setups import prepare
from workers.sandbox.private import private
from workers.sandbox.process import Command, Ended, run, shell
from workers.settings import Settings
from worktrees.checkout import Checkout, lease_checkout
from worktrees.compose import tree_of
from worktrees.git import CommitId, TreeId
from worktrees.mirror import Mirror

Stop = Callable[[], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where checks run: the host's mirror, its settings, the folder for logs."""

    mirror: Mirror
    settings: Settings
    logs: Path
    stop: Stop


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What running checks on one commit gave: a certificate for each green one, at most one failure."""

    certificates: tuple[Certificate, ...]
    failure: CheckFailure | None


def run_checks(
    checks: Sequence[CheckDefinition],
    commit: CommitId,
    place: Place,
    *,
    label: str,
    tree: TreeId | None = None,
) -> Outcome:
    """
    Runs the checks in their order on a clean checkout of `commit`, until one is not green.

    `label` names the log files; `tree` is the commit's, where the caller knows it. Raises GitFailed, OSError or
    Unusable for trouble that is nobody's failure.
    """
    tree = tree or tree_of(place.mirror.git, commit)
    earned: list[Certificate] = []
    with _checkout(commit, place) as (checkout, env):
        for check in checks:
            ended = _run_one(check, checkout, env, place, label)
            if ended.how != "exit" or ended.status != 0:
                return Outcome(certificates=tuple(earned), failure=_failure(check, ended))
            earned.append(certify(check, tree=tree, seconds=ended.seconds, host=place.settings.host))
    return Outcome(certificates=tuple(earned), failure=None)


@contextmanager
def _checkout(commit: CommitId, place: Place) -> Iterator[tuple[Checkout, dict[str, str]]]:
    with private({}) as own, lease_checkout(place.mirror, commit, place.settings.cache / "checkouts") as checkout:
        yield checkout, own.env


def _run_one(check: CheckDefinition, checkout: Checkout, env: dict[str, str], place: Place, label: str) -> Ended:
    log = place.logs / f"{label}-{check.name}.log"
    if check.setup is not None:
        prepared = prepare(check, checkout.path, env, place.settings.cache / "setups", log, place.stop)
        if prepared is not None:
            return prepared
    return run(
        Command(
            argv=shell(check.run),
            cwd=checkout.path,
            env=env,
            log=log,
            timeout_s=check.timeout_s,
        ),
        stop=place.stop,
    )


def _failure(check: CheckDefinition, ended: Ended) -> CheckFailure:
    return CheckFailure(
        check=check.name,
        how=ended.how,
        status=ended.status,
        log_tail=ended.tail,
        log=str(ended.log),
    )
