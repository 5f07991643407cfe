"""Run a command that generates files, in a clean checkout and in the sandbox of the checks, and take only its files."""

from collections.abc import Sequence

from forgepool.supervisor.checks.running import CheckPlace, report_setup
from forgepool.supervisor.messages.answers import CheckFailure
from forgepool.supervisor.regeneration.kept import make_files
from forgepool.workers.policy.gate_file.document import CheckDefinition, RegenerateDefinition, as_check
from forgepool.workers.policy.sources import hosts_for_check
from forgepool.workers.sandbox.run.process import Ended
from forgepool.workers.sandbox.sandbox_profile import let_out
from forgepool.workers.workspace.checks.setups import SetupBench, keep_folders, prepare_bench, set_up
from forgepool.worktrees.checkouts.checkout import Unusable
from forgepool.worktrees.commits.candidate import tree_with, write_commit
from forgepool.worktrees.git.git import CommitId, TreeId


def make(
    definition: RegenerateDefinition,
    tree: TreeId,
    on: CommitId,
    place: CheckPlace,
    *,
    label: str,
    base: CommitId | None,
) -> TreeId | CheckFailure:
    """
    Return a tree of the generated files alone, or the failure.

    `base` is the target's tip, whose set-up folders are reused. Without it every set-up runs.

    Raises:
        GitFailed, OSError, NoSandbox, HostsRefused: trouble that no entry caused.
    """
    commit = write_commit(place.mirror.git, tree=tree, parents=(on,), message="Merged, to be regenerated\n", at=0)
    command = as_check(definition)
    place.logs.mkdir(parents=True, exist_ok=True)
    with prepare_bench(commit, place, label, base) as bench:
        keep_folders((command,), bench)
        if (failure := set_up(command, bench)) is not None:
            return report_setup(command, failure).model_copy(update={"check": words(definition)})
        ended = _run(command, bench)
        return _taken(definition, ended, bench) if ended.succeeded else _failure(definition, ended)


def words(definition: RegenerateDefinition) -> str:
    """Return the name that people read in place of a check's name."""
    return f"regenerate {definition.named}"


def _run(command: CheckDefinition, bench: SetupBench) -> Ended:
    hosts = hosts_for_check(command.name, command.network, bench.policy, bench.lent, setup=True)
    with let_out(bench.shown, hosts, bench.lent) as own:
        return bench.run(command, own)


def _taken(definition: RegenerateDefinition, ended: Ended, bench: SetupBench) -> TreeId | CheckFailure:
    """Return the generated files that git keeps. Ignored ones count only if they are tracked."""
    git = bench.checkout.mirror.git
    try:
        files = make_files(definition, git, bench.checkout.snapshot())
    except Unusable as unusable:
        return _failure(definition, ended, reason=f"left what cannot be read: {unusable}")
    if not files:
        return _failure(definition, ended, reason=f"left nothing at {_listed(definition.paths)}")
    return tree_with(git, files)


def _failure(definition: RegenerateDefinition, ended: Ended, *, reason: str = "") -> CheckFailure:
    return CheckFailure(
        check=words(definition),
        how="refused" if reason else ended.how,
        status=ended.status,
        reason=reason,
        log_tail=f"{ended.excerpt.rstrip()}\n{reason}\n".lstrip() if reason else ended.excerpt,
        log=str(ended.log),
    )


def _listed(globs: Sequence[str]) -> str:
    return ", ".join(globs[:5])
