"""
Runs checks: each in its own process tree, with a time limit, one after the other in one clean checkout of a commit.

Green means the command ran, exited 0, and left every file of the commit as it was: what a check finds is true of
the commit's tree only if that is still what lies there. What checks leave beside it (a build's output) stays for
the checks behind them. Everything else is a failure that says how it ended.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from supervisor.certificates import certify
from supervisor.definitions import CheckDefinition
from supervisor.messages import Certificate, CheckFailure
from supervisor.setups import Bench, keep_folders, set_up
from workers.policy.sources import hosts_for_check
from workers.sandbox.private import let_out, private
from workers.sandbox.process import Command, run, shell
from workers.sandbox.shelter import Shelter
from workers.settings import Settings
from worktrees.checkout import lease_checkout
from worktrees.compose import tree_of
from worktrees.git import CommitId, TreeId
from worktrees.mirror import Mirror

Stop = Callable[[], bool]
_SHOWN = 5


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
    base: CommitId | None = None,
) -> Outcome:
    """
    Runs the checks in their order on a clean checkout of `commit`, until one is not green.

    `label` names the log files; `tree` is the commit's, where the caller knows it. `base` is the target's tip, of
    which set-up folders are kept; without it every set-up is run. Raises GitFailed, OSError or Unusable for trouble
    that is nobody's failure.
    """
    tree = tree or tree_of(place.mirror.git, commit)
    earned: list[Certificate] = []
    with _bench(commit, place, label, base) as bench:
        keep_folders(checks, bench)
        for check in checks:
            answer = _run_one(check, bench, tree, place.settings.host)
            if isinstance(answer, CheckFailure):
                return Outcome(certificates=tuple(earned), failure=answer)
            earned.append(answer)
    return Outcome(certificates=tuple(earned), failure=None)


@contextmanager
def _bench(commit: CommitId, place: Place, label: str, base: CommitId | None) -> Iterator[Bench]:
    cache = place.settings.cache
    with lease_checkout(place.mirror, commit, cache / "checkouts") as checkout:
        shelter = Shelter(
            settings=place.settings,
            writable=(checkout.path,),
            protected=(checkout.pointer,),
            readable=(place.mirror.path,),
        )
        with private({}, shelter) as own:
            yield Bench(
                checkout=checkout,
                own=own,
                policy=place.settings.policy_file,
                kept=cache / "setups",
                logs=place.logs,
                label=label,
                stop=place.stop,
                base=base,
            )


def _run_one(check: CheckDefinition, bench: Bench, tree: TreeId, host: str) -> Certificate | CheckFailure:
    failure = set_up(check, bench)
    if failure is not None:
        return failure
    with let_out(bench.shown, hosts_for_check(check.name, check.network, bench.policy)) as own:
        command = Command(
            argv=shell(check.run),
            cwd=bench.checkout.path,
            env=own.env,
            confined=own.confined,
            log=bench.logs / f"{bench.label}-{check.name}.log",
            timeout_s=check.timeout_s,
        )
        ended = run(command, stop=bench.stop)
    failure = CheckFailure(
        check=check.name,
        how=ended.how,
        status=ended.status,
        log_tail=ended.tail,
        log=str(ended.log),
    )
    if not ended.succeeded:
        return failure
    altered = bench.checkout.altered()
    if altered:
        reason = _altering(altered)
        return failure.model_copy(
            update={"how": "refused", "reason": reason, "log_tail": f"{ended.tail.rstrip()}\n{reason}\n".lstrip()}
        )
    return certify(check, tree=tree, seconds=ended.seconds, host=host)


def _altering(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    named = ", ".join(paths[:_SHOWN]) + more
    return f"it changed tracked files: {named}; a check must leave the tree as it found it"
