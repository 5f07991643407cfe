"""Runs each test file of a traced check alone on the target's tip, and keeps what that proves."""

import re
import time
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

import structlog

from forgepool.supervisor.checks.certificates import Inputs
from forgepool.supervisor.checks.results.judging import Ran
from forgepool.supervisor.checks.results.reports import ReportedCase
from forgepool.supervisor.checks.running import Selection, TriedCheck, run_line
from forgepool.supervisor.checks.runs import CheckRuns
from forgepool.supervisor.checks.store import is_green
from forgepool.supervisor.checks.traced.proofs import Proofs, TreeFiles, find_proven, why_not_traced
from forgepool.workers.policy.gate_file.document import CheckDefinition
from forgepool.workers.workspace.checks.lines import match_inputs
from forgepool.worktrees.git.objects import read_blob

log = structlog.get_logger()

_MOST_OUTSIDE = 5
_LEAST = 5
"""Test files that are traced after each run of the check, however long that takes."""

_PYTHON_FILE = re.compile(r"[^\s'\";:&|()=]+\.py\b")
_HOOK = re.compile(rb"^[ ]*def[ ]+(pytest_(?:ignore_collect|collect_\w+|pycollect_\w+))\b", re.MULTILINE)
"""Functions of a `conftest.py` that choose what pytest collects."""

Cases = tuple[ReportedCase, ...]


def trace_tip(check: CheckDefinition, runs: CheckRuns, ran: Ran, seconds: float, *, reused: bool) -> Proofs | None:
    """
    Prove the test files of a check that is green on the tip; return the proofs, or None where it is not traced.

    It takes about as long as the check itself, and the rest is traced the next time. `reused` says that the run is an
    earlier one, which is no audit.
    """
    if not check.traced or not is_green(ran):
        return None
    why = why_not_traced(check) or ("no sandbox holds its command" if runs.store.folder is None else None)
    if why is not None:
        return Proofs(whole=why)
    old, tip = runs.proofs(check), runs.at_tip.tree
    if old.stays_whole(tip, time.time()):
        return old
    suspect, old = old.whole_by, Proofs() if old.whole else old
    tree = TreeFiles(runs.at_tip.records())
    files = _by_file(ran, tree)
    if files is None:
        why = "no report of pytest names the files of its tests"
        return _keep(old.model_copy(update={"whole": why, "whole_on": tip}), check, runs)
    tracing = _Tracing(check=check, runs=runs, files=files, tree=tree)
    held = {file: proof for file, proof in find_proven(old, tree).items() if file in files}
    new = old.model_copy(update={"files": held, "unproven": {}, "audited": old.audited + (0 if reused else len(held))})
    return _keep(tracing.trace(new, old.unproven, seconds, suspect), check, runs)


def note_misses(check: CheckDefinition, runs: CheckRuns, inputs: Inputs, failed: Collection[str]) -> None:
    """Have the check run whole for `MISS_COUNTS_S` where one of the failed tests was proven green on this tree."""
    if not check.traced:
        return
    proofs = runs.proofs(check)
    proven = find_proven(proofs, TreeFiles(inputs.records()))
    wrong = sorted(file for file, proof in proven.items() if any(case.id in failed for case in proof.cases))
    if wrong:
        why = f"{', '.join(wrong)} was red where all that it reads was as when it was green"
        log.warning("check.whole", check=check.name, why=why)
        told = {"whole": why, "audited": proofs.audited + len(wrong), "missed": len(wrong), "missed_at": time.time()}
        runs.keep_proofs(check, proofs.model_copy(update=told))


def _keep(proofs: Proofs, check: CheckDefinition, runs: CheckRuns) -> Proofs:
    runs.keep_proofs(check, proofs)
    return proofs


def _by_file(ran: Ran, tree: TreeFiles) -> Mapping[str, Cases] | None:
    """Return the tests of a run by the files that pytest collected them from; None where one has none."""
    report = ran.evidence.report
    if report is None or report.problems:
        return None
    found = defaultdict[str, list[ReportedCase]](list)
    for case in report.cases:
        found[_file_of(case, tree)].append(case)
    return {file: tuple(cases) for file, cases in found.items()} if found and "" not in found else None


def _file_of(case: ReportedCase, tree: TreeFiles) -> str:
    """Return the file a test was collected from, which is another than that of a function that it inherits or wraps."""
    group = case.id.partition("::")[0]
    parts = group.split(".")
    modules = ("/".join(parts[:count]) + ".py" for count in range(len(parts), 0, -1))
    return next((path for path in (group, *modules) if tree.is_file(path)), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tracing:
    check: CheckDefinition
    runs: CheckRuns
    files: Mapping[str, Cases]
    tree: TreeFiles

    def trace(self, proofs: Proofs, refused: Mapping[str, str], most_s: float, suspect: str) -> Proofs:
        """Add the proofs of files that have none, until the time is used up: first the suspect, then the slowest."""
        found, unproven, spent, outside = dict(proofs.files), dict[str, str](), 0.0, set[str]()
        unproven |= {file: why for file, why in refused.items() if file in self.files}
        lacking = sorted(self.files.keys() - found.keys() - unproven.keys(), key=self._seconds, reverse=True)
        lacking.sort(key=lambda file: file != suspect)
        for number, file in enumerate(lacking):
            if (spent > most_s and number >= _LEAST) or self.runs.place.stop():
                break
            one = self._run_alone(file, f"traced-{number + 1}")
            spent += one.seconds
            if (why := self._why_whole(file, one)) is not None:
                shown = {"whole": why, "whole_by": file, "whole_on": self.runs.at_tip.tree}
                return proofs.model_copy(update=shown | {"files": {}, "unproven": {}})
            if (why := _why_unproven(one)) is not None or one.trace is None:
                unproven[file] = why or ""
                continue
            opened = {*one.trace.opened, *(cached.key for cached in self.check.cache)}
            found[file] = self.tree.prove(one.trace.looked, opened, self.files[file])
            outside |= self._outside(one.trace.opened)
        missing = len(self.files) - len(found) - len(unproven)
        told = {"files": found, "unproven": unproven, "missing": missing, "test_files": self.tree.test_files}
        return proofs.model_copy(update=told | {"outside": (*sorted(outside),)[:_MOST_OUTSIDE] or proofs.outside})

    def _run_alone(self, file: str, label: str) -> TriedCheck:
        """Run one file, and once more where it is red or has other results."""
        others = tuple(sorted(self.files.keys() - {file}))
        for again in ("", "-again"):
            selection = Selection(left_out=others, traced=True)
            tip, place = self.runs.tip, self.runs.place
            (one,) = run_line((self.check,), tip, place, label=f"{label}{again}", base=tip, selection=selection)
            if self._why_whole(file, one) is None:
                break
        return one

    def _why_whole(self, file: str, one: TriedCheck) -> str | None:
        report = one.ran.evidence.report
        found = {} if report is None else {case.id: case.outcome for case in report.cases}
        others = [at for case in (report.cases if report else ()) if (at := _file_of(case, self.tree)) != file]
        if others:
            return (
                f"none of its test files can be left out: {self._why_collected(next(filter(None, others), 'others'))}"
            )
        if one.failure is not None or found != {case.id: case.outcome for case in self.files[file]}:
            return f"{file} has other results alone than with the others before it"
        return None

    def _why_collected(self, file: str) -> str:
        """Say by what pytest comes to collect a file that it is told to ignore."""
        words = (word.removeprefix("./") for word in _PYTHON_FILE.findall(self.check.run))
        if any(fnmatchcase(f"/{file}", f"*/{word}") for word in words):
            return f"its command names {file}"
        for path, record in self.runs.at_tip.records():
            kind, blob = record.split()[1:3]
            if path.rpartition("/")[2] != "conftest.py" or kind != b"blob":
                continue
            if (hook := _HOOK.search(read_blob(self.runs.at_tip.git, blob.decode()))) is not None:
                return f"{hook[1].decode()} in {path} may collect {file}"
        return f"pytest collects {file} although it is told to ignore it"

    def _seconds(self, file: str) -> float:
        return sum(case.seconds for case in self.files[file])

    def _outside(self, opened: Collection[str]) -> set[str]:
        counts = match_inputs(self.check, self.runs.checks)
        return set() if counts is None else {path for path in opened if self.tree.is_file(path) and not counts(path)}


def _why_unproven(one: TriedCheck) -> str | None:
    if one.trace is None or one.trace.lacks:
        return "it was not traced" if one.trace is None else one.trace.lacks
    if any(path == ".git" or path.startswith(".git/") for path in one.trace.opened):
        return "it asks git, whose answers depend on more than the files"
    return None
