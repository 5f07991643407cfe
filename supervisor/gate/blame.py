"""
The landed change that an entry conflicts with, or with which it is red though green alone.

An entry that is green on its own base and red on the tip conflicts with something that landed in between. Often the
failure points to it: a failing test came with it, or a name that no longer exists was removed by it. Two runs confirm
that. Any other is found by bisection over the target's first-parent history, if no entry waits for the slot: about
log2(n) + 1 runs among n landings. Each run is one of the check that failed, and of those it uses.
"""

import re
from collections.abc import Callable, Collection, Sequence

from forgepool.supervisor.checks.running import TriedCheck
from forgepool.supervisor.checks.runs import CheckRuns
from forgepool.supervisor.checks.trial import KeptOutBy
from forgepool.supervisor.messages.requests import CheckRequest
from forgepool.workers.policy.gate_file.document import CheckDefinition
from forgepool.workers.workspace.checks.lines import line_of
from forgepool.worktrees.commits.candidate import read_trailers
from forgepool.worktrees.commits.changes import find_at
from forgepool.worktrees.commits.compose import Composed, Entry, compose, conflicting_commits
from forgepool.worktrees.git.git import CommitId, Git
from forgepool.worktrees.hub.mirror import Mirror

_QUOTED = re.compile(r"""['"`](?:\w+\.)*([A-Za-z_]\w*)['"`]""")
_EDGE_BEFORE, _EDGE_AFTER = "(^|[^[:alnum:]_])", "($|[^[:alnum:]_])"
_MOST_NAMES = 20
MOST_LANDINGS = 256
"""How far back a partner is looked for: at most nine runs."""


def find_red_partner(
    request: CheckRequest, entry: Entry, out: KeptOutBy, runs: CheckRuns, past: Collection[str]
) -> str | None:
    """
    Return the task id (or short commit) of the landing with which `entry` turns red; None when it is red by itself.

    A landing that the failure itself points to is asked first, at most three runs. The others are searched only where
    the request says `diagnose`. `past` names checks whose red does not count.
    """
    git, tip = runs.place.mirror.git, runs.tip
    fork = CommitId(git.text("merge-base", tip, entry.commit))
    landings = [CommitId(one) for one in git.text("rev-list", "--first-parent", "--reverse", f"{fork}..{tip}").split()]
    if not landings or len(landings) > MOST_LANDINGS:
        return None
    line, files = line_of(out.check, runs.checks), _files(git, (tip, entry.commit), out)

    def is_red_on(at: int) -> bool:
        """Counts as green without a run: what the entry cannot be composed on, and what has none of the tests."""
        composed = compose(git, landings[at] if at >= 0 else fork, [entry], request.style, runs.regeneration)
        if not isinstance(composed, Composed) or (files and not find_at(git, composed.commit, *files)):
            return False
        label = f"with-{at}" if at >= 0 else "alone"
        return _is_red(runs.run(line, composed.commit, label=label, past=past)[-1], out.check, out.failure.tests)

    guess = _pointed_to(git, landings, fork, out, files)
    if guess is not None and (guess == len(landings) - 1 or is_red_on(guess)) and not is_red_on(guess - 1):
        return _name(runs.place.mirror, landings[guess])
    if not request.diagnose or is_red_on(-1):
        return None
    return _name(runs.place.mirror, landings[_first_red(len(landings), is_red_on)])


def conflict_partner(mirror: Mirror, request: CheckRequest, entry: Entry, paths: Sequence[str]) -> str | None:
    """Task id (or short commit) of the latest landing that touched what the entry conflicts in."""
    found = conflicting_commits(mirror.git, CommitId(request.base), entry.commit, paths)
    return _name(mirror, found[0]) if found else None


def _is_red(last: TriedCheck, check: CheckDefinition, tests: Sequence[str]) -> bool:
    report = last.ran.evidence.report
    if last.check.name == check.name and tests and report is not None:
        return not report.ids("failed").isdisjoint(tests)
    return last.failure is not None


def _pointed_to(
    git: Git, landings: Sequence[CommitId], fork: CommitId, out: KeptOutBy, files: Sequence[str]
) -> int | None:
    """Return the place of the landing that added a failing test, or removed a name that the failure quotes."""
    span = f"{fork}..{landings[-1]}"

    def last(*how: str) -> int | None:
        found = git.text("log", "-m", "--first-parent", "--no-show-signature", "--format=%H", span, *how).split()
        return landings.index(CommitId(found[0])) if found else None

    brought = (last("--diff-filter=A", "--", file) for file in files)
    said = "\n".join((out.failure.log_tail, *(one.error for one in out.cases)))
    names = [name for name in dict.fromkeys(_QUOTED.findall(said)) if len(name) > 2][:_MOST_NAMES]
    gone = (name for name in names if git.run("grep", "-qwF", "-e", name, landings[-1], ok=(0, 1)).status)
    # As a word: where `x` became `x_of`, the text `x` is there as often as before.
    taken = (last("--pickaxe-regex", f"-S{_EDGE_BEFORE}{name}{_EDGE_AFTER}") for name in gone)
    return next((at for at in (*brought, *taken) if at is not None), None)


def _files(git: Git, trees: Sequence[CommitId], out: KeptOutBy) -> tuple[str, ...]:
    """The files of the tests that fail; none where that of one is not known, or is in none of these commits."""
    # Of a module that cannot be loaded pytest names no file, but its id is the file.
    files = tuple(dict.fromkeys(one.file or one.id.partition("::")[0] for one in out.cases))
    known = {path for commit in trees for path in find_at(git, commit, *files)}
    return files if known.issuperset(files) else ()


def _first_red(count: int, red_on: Callable[[int], bool]) -> int:
    """The place of the earliest of these landings that is red; the last one is known to be."""
    low, high = 0, count - 1
    while low < high:
        middle = (low + high) // 2
        if red_on(middle):
            high = middle
        else:
            low = middle + 1
    return high


def _name(mirror: Mirror, commit: CommitId) -> str:
    return read_trailers(mirror.git, commit).get("Forgepool-Task", commit[:12])
