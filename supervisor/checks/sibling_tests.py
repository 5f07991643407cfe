"""
The tests that an earlier, returned attempt at the task wrote, run on the new candidate: more evidence for a retry.

A test counts that passes on the returned work and fails on the new one, with the same id. It is shown to the reviewer
and reported, and makes nothing red: its author's work was returned, and the test may be as wrong.

Only pytest is run, where the command of a check is plain words to which files can be added. Only files are run that the
candidate lacks or has otherwise. So a candidate that was mended from that work mostly costs no run.
"""

import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from forgepool.supervisor.checks.results.reports import ReportedCase
from forgepool.supervisor.checks.running import CheckPlace, run_line
from forgepool.workers.policy.gate_file.document import CheckDefinition, voting
from forgepool.workers.policy.gate_file.test_paths import is_test_path, role
from forgepool.workers.shell.purpose.programs import is_test
from forgepool.workers.workspace.checks.lines import line_of
from forgepool.worktrees.commits.candidate import files_of, with_files, write_commit
from forgepool.worktrees.commits.changes import changes, list_touched_paths
from forgepool.worktrees.git.git import CommitId, TreeId
from forgepool.worktrees.git.history import read_commit

_MOST_S = 300.0
_MOST_FILES = 50
_PYTEST = ("pytest", "py.test")
_PLAIN = re.compile(r"[\w ./=:,@%+'\"-]+")
"""A command of words alone: what is added at its end are arguments of its last program."""


def find_failing(
    checks: Sequence[CheckDefinition], tree: TreeId, returned: CommitId, place: CheckPlace, *, base: CommitId
) -> tuple[ReportedCase, ...]:
    """
    Return the tests of a returned work that pass there and fail on the tree.

    `base` is the commit that the tree is judged by, whose kept set-up folders are taken where they fit.

    Raises:
        GitFailed, OSError, Unusable: no checkout could be made.
    """
    git = place.mirror.git
    written = _written_tests(place, returned)
    own = files_of(git, tree, written)
    other = {path: facts for path, facts in written.items() if own.get(path) != facts}
    tests = sorted(path for path in other if role(path) == "test" and path.endswith(".py"))
    check = next((one for one in voting(checks) if _takes_files(one)), None)
    if check is None or not 0 < len(tests) <= _MOST_FILES:
        return ()
    mixed = write_commit(
        git, tree=with_files(git, tree, other, other), parents=(base,), message="With a returned work's tests\n", at=0
    )
    check = check.model_copy(
        update={"run": f"{check.run} {shlex.join(tests)}", "timeout_s": min(check.timeout_s, _MOST_S)}
    )
    line, place = (*line_of(check, checks)[:-1], check), replace(place, hear=lambda progress: None)
    here = _run(line, mixed, place, label="sibling", base=base)
    failed = [case for case in here if case.outcome == "failed" and _file_of(case) in tests]
    if not failed:
        return ()
    there = _run(line, returned, place, label="sibling-own", base=base)
    passed = {case.id for case in there if case.outcome == "passed"}
    return tuple(case for case in failed if case.id in passed)


def _written_tests(place: CheckPlace, returned: CommitId) -> dict[str, str]:
    """Return the tests, and what tests depend on, that the work has written: their modes and contents by path."""
    git = place.mirror.git
    parents = read_commit(git, returned).parents
    touched = list_touched_paths(changes(git, parents[0], returned)) if parents else ()
    tests = frozenset(filter(is_test_path, touched))
    return {path: facts for path, facts in files_of(git, returned, tests).items() if path in tests}


def _takes_files(check: CheckDefinition) -> bool:
    if not _PLAIN.fullmatch(check.run) or not is_test(check.run):
        return False
    try:
        words = shlex.split(check.run)
    except ValueError:
        return False
    return any(PurePosixPath(word).name in _PYTEST for word in words) and "--" not in words


def _run(
    line: Sequence[CheckDefinition], commit: CommitId, place: CheckPlace, *, label: str, base: CommitId
) -> tuple[ReportedCase, ...]:
    """Run the last check behind those it uses; without a report, nothing is known of its tests."""
    ran = run_line(line, commit, place, label=label, base=base)[-1]
    report = ran.ran.evidence.report
    return report.cases if report is not None and ran.check == line[-1] else ()


def _file_of(case: ReportedCase) -> str:
    return case.file or case.id.partition("::")[0]
