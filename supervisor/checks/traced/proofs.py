"""The look-ups of a test file that was green, and the other trees in which all of them end alike. Pure."""

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import Field

from forgepool.supervisor.checks.results.evidence import RunEvidence
from forgepool.supervisor.checks.results.judging import Ran
from forgepool.supervisor.checks.results.reports import ReportedCase, SuiteReport
from forgepool.workers.policy.gate_file.document import CheckDefinition
from forgepool.workers.schema.orders import Message

ONE_IN = 20
"""One of this many proven test files runs anyway."""
MISS_COUNTS_S = 14 * 24 * 3600.0
"""Seconds for which a check is run whole after a proven test file was red."""
_LINK, _SUBMODULE = b"120000", b"160000"
_TEST_FILE = re.compile(r"(?:^|/)(?:test_[^/]*|[^/]*_test)\.py$")
"""
Names under which pytest finds tests. Where one is new, it is run, and has no part in what others say that read none but
themselves.
"""


class FileProof(Message):
    """One test file, green when it was run alone."""

    inputs: str
    """Digest of all it looked up."""
    looked: tuple[str, ...]
    """The paths it looked for, those where nothing is included; of a missing folder the folder alone."""
    opened: tuple[str, ...]
    """Those of them that it opened: files that it may have read, and folders that it may have listed."""
    cases: tuple[ReportedCase, ...]


class Proofs(Message):
    """The proofs of one check, as defined, in one environment."""

    files: dict[str, FileProof] = Field(default_factory=dict)
    unproven: dict[str, str] = Field(default_factory=dict)
    """Test files that are always run, and why no trace proves them."""
    missing: int = 0
    """Test files that are yet to be traced."""
    test_files: str = ""
    """Digest of the names of all that looked like a test file in the tree that was traced."""
    whole: str = ""
    """Why the check is run whole; empty where it is not."""
    whole_by: str = ""
    """The test file that showed it."""
    whole_on: str = ""
    """The tree in which it was shown: in another one it is looked at again."""
    missed_at: float = 0.0
    """When a proven test file was red, by this host's clock."""
    audited: int = 0
    """How often a proven test file was run all the same."""
    missed: int = 0
    """How often it was red then."""
    outside: tuple[str, ...] = ()
    """Files that it reads, and that its `paths` leave out."""

    @property
    def words(self) -> str:
        """Say how far the check is proven, and how often that was wrong."""
        if self.whole:
            missed = f" ({self.missed} of {self.audited} audits were red)" if self.missed else ""
            return f"run whole, since {self.whole}{missed}"
        # With no red among n, a share of more than this would have shown itself in 19 of 20 cases.
        bound = 1 - 0.05 ** (1 / self.audited) if self.audited else 1
        rate = f"; none of {self.audited} audits was red, so at most {bound:.1%} would be" if self.audited else ""
        reads = f"; it reads {', '.join(self.outside)}, which its paths leave out" if self.outside else ""
        return f"{len(self.files)} of {self.count} test files proven{rate}{reads}"

    def stays_whole(self, tree: str, now: float) -> bool:
        """Is the check still run whole in this tree? A miss counts for a time, all else in the tree that showed it."""
        return bool(self.whole) and (
            0 <= now - self.missed_at < MISS_COUNTS_S if self.missed else tree == self.whole_on
        )

    @property
    def count(self) -> int:
        return len(self.files) + len(self.unproven) + self.missing


class TreeFiles:
    """The files and folders of a tree."""

    def __init__(self, records: Iterable[tuple[str, bytes]]) -> None:
        self._files: dict[str, bytes] = {}
        self._folders: dict[str, set[str]] = defaultdict(set)
        for path, record in records:
            self._files[path] = record.partition(b"\t")[0]
            name = path
            while name:
                above, _, own = name.rpartition("/")
                self._folders[above].add(own if name == path else f"{own}/")
                name = above
        always = (path for path, record in self._files.items() if record.startswith((_LINK, _SUBMODULE)))
        self._always = {*always, *(path for path in self._files if path.rpartition("/")[2] == ".gitattributes")}

    @property
    def test_files(self) -> str:
        """Return a digest of the names of all that looks like a test file."""
        names = "\0".join(sorted(filter(_TEST_FILE.search, self._files)))
        return hashlib.sha256(names.encode(errors="surrogateescape")).hexdigest()

    def list_twins(self) -> set[str]:
        """Return the test files whose name, without its folder, another one has: pytest may take one for the other."""
        names = Counter(path.rpartition("/")[2] for path in self._files)
        return {path for path in filter(_TEST_FILE.search, self._files) if names[path.rpartition("/")[2]] > 1}

    def is_file(self, path: str) -> bool:
        return path in self._files

    def prove(self, looked: Iterable[str], opened: Iterable[str], cases: Sequence[ReportedCase]) -> FileProof:
        """Return the proof of a file that was green here. pytest looks for every file it sees, and opens only some."""
        paths = tuple(sorted({self._named(path) for path in looked}))
        read = tuple(sorted({self._named(path) for path in opened}))
        return FileProof(inputs=self._digest(paths, read), looked=paths, opened=read, cases=tuple(cases))

    def holds(self, proof: FileProof) -> bool:
        return self._digest(proof.looked, proof.opened) == proof.inputs

    def _named(self, path: str) -> str:
        """The path, or the first folder above it that the tree does not have: as long as that is so, it has not it."""
        parts = path.split("/")
        for count in range(1, len(parts)):
            if (above := "/".join(parts[:count])) not in self._folders:
                return above
        return path

    def _digest(self, looked: Collection[str], opened: Collection[str]) -> str:
        """Digest the kinds of what was looked for, and the contents of what was opened."""
        digest = hashlib.sha256()
        for path in sorted({*looked, *opened, *self._always}):
            record = self._files.get(path, b"folder" if path in self._folders else b"-")
            digest.update(b"%s\0%s\0" % (path.encode(errors="surrogateescape"), record.partition(b" ")[0]))
        # pytest opens none but the file itself. One that reads others may be about all, as a rule on their length is.
        counts_tests = sum(_TEST_FILE.search(path) is not None for path in opened) > 1
        for path in sorted({*opened, *self._always}):
            listed = (name for name in self._folders.get(path, ()) if counts_tests or not _TEST_FILE.search(name))
            names = "\0".join(sorted(listed)).encode(errors="surrogateescape")
            digest.update(b"%s\0%s\0\0" % (self._files.get(path, b""), names))
        return digest.hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Spared:
    """The proven test files that a run leaves out."""

    proofs: Mapping[str, FileProof]
    of: int
    """How many test files the check had when it was traced."""
    all: bool
    """True if nothing is left to run. A new test file of any name would be in a folder that all of them list."""

    @property
    def words(self) -> str:
        return f"{len(self.proofs)} of {self.of} test files proven and not run"

    def complete(self, ran: Ran) -> Ran:
        """Add the results of what was left out to a run of the rest."""
        evidence, left_out = ran.evidence, [case for proof in self.proofs.values() for case in proof.cases]
        if evidence.report is None:
            return ran
        seen = {case.id for case in evidence.report.cases}
        cases = (*evidence.report.cases, *(case for case in left_out if case.id not in seen))
        report = evidence.report.model_copy(update={"cases": cases})
        told = {"report": report, "tests": len(report.ids("passed", "failed"))}
        return ran.model_copy(update={"evidence": evidence.model_copy(update=told)})

    def stand_in(self) -> Ran:
        """The run of all that was left out, where nothing was run."""
        evidence = RunEvidence(report=SuiteReport(), runners=("pytest",))
        return self.complete(Ran(how="exit", status=0, evidence=evidence))


def why_not_traced(check: CheckDefinition) -> str | None:
    """Return why a trace would not see all that a traced check depends on; None where it would."""
    unseen = ("network", "uses", "reports", "baseline")
    found = [f"`{key}`" for key in unseen if getattr(check, key)]
    found += ["`setup` without `cache`"] if check.setup and not check.cache else []
    return f"no trace is whole of a check with {' and '.join(found)}" if found else None


def find_proven(proofs: Proofs, tree: TreeFiles) -> dict[str, FileProof]:
    """Return the test files whose proof holds in this tree."""
    return {} if proofs.whole else {file: proof for file, proof in proofs.files.items() if tree.holds(proof)}


def choose_spared(proofs: Proofs, tree: TreeFiles, seed: str) -> Spared | None:
    """Return what need not be run on this tree, without those that are audited; None where all is run."""
    found = {file: one for file, one in find_proven(proofs, tree).items() if not is_audited(file, seed)}
    is_same = tree.test_files == proofs.test_files
    for file in () if is_same else tree.list_twins():
        found.pop(file, None)
    is_all = len(found) == proofs.count and is_same
    return Spared(proofs=found, of=proofs.count, all=is_all) if found else None


def is_audited(file: str, seed: str) -> bool:
    """Tell whether a proven file runs anyway. The same tree has the same answer each time."""
    return int(hashlib.sha256(f"{seed}\0{file}".encode(errors="surrogateescape")).hexdigest(), 16) % ONE_IN == 0
