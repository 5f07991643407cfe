"""
The landed change that an entry conflicts with, or with which it is red though green alone.

An entry that is green on its own base and red on the tip conflicts with something that landed in between. Bisection
over the target's first-parent history finds the first such landing. Among n landings it takes about log2(n) + 1 runs of
the check that failed, and of those it uses.
"""

from collections.abc import Callable, Collection, Sequence

from forgepool.supervisor.checks.lines import line_of
from forgepool.supervisor.checks.running import TriedCheck
from forgepool.supervisor.checks.runs import CheckRuns
from forgepool.supervisor.gate_file.document import CheckDefinition
from forgepool.supervisor.messages import CheckRequest
from forgepool.worktrees.commits.candidate import read_trailers
from forgepool.worktrees.commits.compose import Composed, Entry, compose, conflicting_commits
from forgepool.worktrees.git.git import CommitId
from forgepool.worktrees.hub.mirror import Mirror

MOST_LANDINGS = 256
"""How far back a partner is looked for: at most nine runs."""


def find_red_partner(
    request: CheckRequest,
    entry: Entry,
    check: CheckDefinition,
    tests: Sequence[str],
    runs: CheckRuns,
    past: Collection[str],
) -> str | None:
    """
    Return the task id (or short commit) of the landing with which `entry` turns red; None when it is red by itself.

    `tests` are those that make it red, where they are known; `past` names checks whose red does not count.
    """
    git = runs.place.mirror.git
    tip = runs.tip
    fork = CommitId(git.text("merge-base", tip, entry.commit))
    landings = git.text("rev-list", "--first-parent", "--reverse", f"{fork}..{tip}").split()
    if not landings or len(landings) > MOST_LANDINGS:
        return None
    line = line_of(check, runs.checks)

    def is_red_on(commit: CommitId, label: str) -> bool:
        """A base the entry cannot be composed on counts as green: the check never ran there."""
        composed = compose(git, commit, [entry], request.style, runs.regeneration)
        if not isinstance(composed, Composed):
            return False
        return _is_red(runs.run(line, composed.commit, label=label, past=past)[-1], check, tests)

    if is_red_on(fork, "alone"):
        return None
    first = _first_red([CommitId(one) for one in landings], is_red_on)
    return _name(runs.place.mirror, first)


def conflict_partner(mirror: Mirror, request: CheckRequest, entry: Entry, paths: Sequence[str]) -> str | None:
    """Task id (or short commit) of the latest landing that touched what the entry conflicts in."""
    found = conflicting_commits(mirror.git, CommitId(request.base), entry.commit, paths)
    return _name(mirror, found[0]) if found else None


def _is_red(last: TriedCheck, check: CheckDefinition, tests: Sequence[str]) -> bool:
    report = last.ran.evidence.report
    if last.check.name == check.name and tests and report is not None:
        return not report.ids("failed").isdisjoint(tests)
    return last.failure is not None


def _first_red(landings: Sequence[CommitId], red_on: Callable[[CommitId, str], bool]) -> CommitId:
    """The earliest of them that is red; the last one is known to be."""
    low, high = 0, len(landings) - 1
    while low < high:
        middle = (low + high) // 2
        if red_on(landings[middle], f"with-{middle}"):
            high = middle
        else:
            low = middle + 1
    return landings[high]


def _name(mirror: Mirror, commit: CommitId) -> str:
    return read_trailers(mirror.git, commit).get("Forgepool-Task", commit[:12])
