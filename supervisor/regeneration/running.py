"""
Runs a command that makes files, in a clean checkout of a tree and in the sandbox in which checks run; what it leaves at
the paths that it makes is taken, and nothing else.
"""

from collections.abc import Sequence

from forgepool.supervisor.checks.running import CheckPlace, prepare_bench
from forgepool.supervisor.checks.setups import SetupBench, keep_folders, set_up
from forgepool.supervisor.gate_file.document import CheckDefinition, RegenerateDefinition
from forgepool.supervisor.messages import CheckFailure
from forgepool.supervisor.regeneration.keys import make_files
from forgepool.workers.policy.sources import hosts_for_check
from forgepool.workers.sandbox.run.process import Command, Ended, run, shell
from forgepool.workers.sandbox.sandbox_profile import let_out
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
    A tree of the files alone, or how it came to nothing. `base` is the target's tip, of which set-up folders are kept;
    without it every set-up is run.

    Raises:
        GitFailed, OSError, NoSandbox, HostsRefused: trouble that is nobody's failure.
    """
    commit = write_commit(place.mirror.git, tree=tree, parents=(on,), message="Merged, to be made anew\n", at=0)
    command = as_check(definition)
    place.logs.mkdir(parents=True, exist_ok=True)
    with prepare_bench(commit, place, label, base) as bench:
        keep_folders((command,), bench)
        failure = set_up(command, bench)
        if failure is not None:
            return failure.model_copy(update={"check": words(definition)})
        ended = _run(command, bench)
        return _taken(definition, ended, bench) if ended.succeeded else _failure(definition, ended)


def as_check(definition: RegenerateDefinition) -> CheckDefinition:
    """What has set-up, folders, hosts and a time limit like a check, and is run like one."""
    said = {
        "setup": definition.setup,
        "cache": definition.cache,
        "network": definition.network,
        "timeout_s": definition.timeout_s,
    }
    return CheckDefinition.model_validate({"name": "regenerate", "run": definition.run, **said})


def words(definition: RegenerateDefinition) -> str:
    """What a person calls it, where checks have their names."""
    return f"regenerate {definition.named}"


def _run(command: CheckDefinition, bench: SetupBench) -> Ended:
    hosts = hosts_for_check(command.name, command.network, bench.policy, bench.lent, setup=True)
    with let_out(bench.shown, hosts, bench.lent) as own:
        return run(
            Command(
                argv=shell(command.run),
                cwd=bench.checkout.path,
                env=own.env,
                confined=own.confined,
                log=bench.logs / f"{bench.label}-{command.name}.log",
                timeout_s=command.timeout_s,
            ),
            stop=bench.stop,
        )


def _taken(definition: RegenerateDefinition, ended: Ended, bench: SetupBench) -> TreeId | CheckFailure:
    """What git keeps of the files: what `.gitignore` names is nobody's, unless it is in the tree already."""
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
