"""
The target's checks, run on an attempt's work while its author can still mend it.

They run as the gate runs them: those with a changed path among their inputs, in clean checkouts and in a sandbox of
their own, with their set-ups and time limits. A check counts as red here by its end alone, and not where it is red on
the base as well: the gate compares test by test. Nothing of this is evidence for the gate, which runs its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from forgepool.workers.policy.gate_file.document import CheckDefinition, voting
from forgepool.workers.policy.network import HostsRefused
from forgepool.workers.policy.sources import hosts_for_check
from forgepool.workers.sandbox.layers import NoSandbox
from forgepool.workers.sandbox.sandbox_profile import let_out
from forgepool.workers.schema.mistakes import DocumentWrong
from forgepool.workers.workspace.checks.lines import label_of, line_of, lines_of, match_inputs
from forgepool.workers.workspace.checks.setups import CheckSite, SetupBench, keep_folders, prepare_bench, set_up
from forgepool.worktrees.commits.candidate import write_commit
from forgepool.worktrees.git.git import CommitId, TreeId

_ALTERED = "changed tracked files, which a check must leave as it found them"


@dataclass(frozen=True, slots=True, kw_only=True)
class RedCheck:
    """A check that was red on an attempt's work."""

    check: CheckDefinition
    said: str
    """How it ended, as the end of a sentence about it."""
    excerpt: str
    log: str


class _NoAnswer(Exception):
    """A check was stopped, or could not be started or sandboxed here: the gate will tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetChecks:
    """The checks of the commit that an attempt began from."""

    base: CommitId
    red_on_base: dict[str, bool] = field(default_factory=dict)
    """The checks that were run on the base, by name."""

    def find_red(
        self, checks: Sequence[CheckDefinition], tree: TreeId, paths: Sequence[str], site: CheckSite
    ) -> tuple[RedCheck, ...]:
        """
        Return the checks that are red on the tree and were not on the base, the first of each line of checks.

        Raises:
            GitFailed, OSError, Unusable: no checkout could be made.
        """
        git, checks = site.mirror.git, voting(checks)
        work = write_commit(git, tree=tree, parents=(self.base,), message="Work to be verified\n", at=0)
        wanted = {check.name for check in checks if _depends(check, checks, paths)}
        found: dict[str, RedCheck] = {}
        for line in lines_of(checks):
            if not wanted.isdisjoint(line.decides) and not site.stop():
                red = self._find_first(line.checks, work, site, "verify")
                if red is not None and red.check.name not in found and not self._is_red_before(red.check, checks, site):
                    found[red.check.name] = red
        return tuple(found.values())

    def _is_red_before(self, check: CheckDefinition, checks: Sequence[CheckDefinition], site: CheckSite) -> bool:
        """Tell whether the base is red as well, or could not be asked: what is not sure is the gate's to say."""
        if check.name not in self.red_on_base:
            red = self._find_first(line_of(check, checks), self.base, site, "verify-base")
            if site.stop():
                return True
            self.red_on_base[check.name] = red is not None
        return self.red_on_base[check.name]

    def _find_first(
        self, line: Sequence[CheckDefinition], commit: CommitId, site: CheckSite, label: str
    ) -> RedCheck | None:
        """Run a line of checks; return the first that is red, or None, also where one of them gives no answer."""
        try:
            with prepare_bench(commit, site, label_of(label, line), self.base) as bench:
                keep_folders(line, bench)
                return next((red for check in line if (red := _run(check, bench)) is not None), None)
        except (_NoAnswer, NoSandbox, HostsRefused, DocumentWrong):
            return None


def _depends(check: CheckDefinition, checks: Sequence[CheckDefinition], paths: Sequence[str]) -> bool:
    counts = match_inputs(check, checks)
    return counts is None or any(map(counts, paths))


def _run(check: CheckDefinition, bench: SetupBench) -> RedCheck | None:
    """Raises _NoAnswer where it does not come to its own end."""
    if (unready := set_up(check, bench)) is not None:
        if unready.how in ("stopped", "not_started"):
            raise _NoAnswer
        why = unready.reason or f"ended with {unready.status}"
        return RedCheck(check=check, said=f"could not be set up: {why}", excerpt=unready.excerpt, log=unready.log)
    with let_out(bench.shown, hosts_for_check(check.name, check.network, bench.policy, bench.lent)) as own:
        ended = bench.run(check, own)
    if ended.how in ("stopped", "not_started"):
        raise _NoAnswer
    if ended.succeeded and not bench.checkout.list_altered():
        return None
    said = _ALTERED if ended.succeeded else ended.words
    return RedCheck(check=check, said=said, excerpt=ended.excerpt, log=str(ended.log))
