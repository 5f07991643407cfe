"""Tests that are kept from being run, or from counting: skips, expected failures, focus, and labels that deselect."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from forgepool.supervisor.findings import ScanFinding, Weight
from forgepool.supervisor.scans.grants import is_granted
from forgepool.supervisor.scans.languages.suite import Mark
from forgepool.supervisor.scans.subject import Subject, finding
from forgepool.supervisor.scans.tests.pairing import LocatedCase, Pairing, Versions
from forgepool.worktrees.commits.changes import FileTooLarge, read_file

_SELECTS = re.compile(r"-m[\s=]+(?:\"([^\"]*)\"|'([^']*)'|(\S+))|(?:--?tags?|--grep|-k)[\s=]+(\S+)")
_SETTINGS = ("pyproject.toml", "pytest.ini", "setup.cfg", "tox.ini")


def scan_marks(subject: Subject, pairing: Pairing, files: Sequence[Versions]) -> Iterator[ScanFinding]:
    """Findings `test-skipped`, one for each line that skips something."""
    told: set[tuple[str, int]] = set()
    for found in _found(subject, pairing, files):
        if (found.path, found.line) not in told:
            told.add((found.path, found.line))
            yield found


def _found(subject: Subject, pairing: Pairing, files: Sequence[Versions]) -> Iterator[ScanFinding]:
    for pair in pairing.pairs:
        for mark in _new(pair.before.case.marks, pair.after.case.marks):
            yield from _told(subject, pair.after.file, mark, is_new=False, name=pair.after.case.name)
    for fresh in pairing.fresh:
        for mark in fresh.case.marks:
            yield from _told(subject, fresh.file, mark, is_new=True, name=fresh.case.name)
    for file in files:
        for mark in _new(file.old.marks, file.new.marks):
            yield from _told(subject, file, mark, is_new=not file.old.cases, name="")
        yield from _of_support(subject, file)
    yield from _deselected(subject, pairing)


def _of_support(subject: Subject, file: Versions) -> Iterator[ScanFinding]:
    """Fixtures and functions that tests call may skip the lot of them."""
    for name, case in file.new.support.items():
        before = file.old.support.get(name)
        for mark in _new(before.marks if before else (), case.marks):
            softer = replace(mark, kind="elsewhere") if mark.kind == "sometimes" else mark
            yield from _told(subject, file, softer, is_new=before is None, name=name)


def _new(before: Sequence[Mark], after: Sequence[Mark]) -> list[Mark]:
    known = Counter((mark.kind, "".join(mark.text.split())) for mark in before)
    fresh: list[Mark] = []
    for mark in after:
        said = mark.kind, "".join(mark.text.split())
        if known[said]:
            known[said] -= 1
        else:
            fresh.append(mark)
    return fresh


def _told(subject: Subject, file: Versions, mark: Mark, *, is_new: bool, name: str) -> Iterator[ScanFinding]:
    weight = _weight(mark, is_new)
    if weight is None or is_granted(subject, file.old_path, file.path):
        return
    what = f"'{name}'" if name else "a file of tests"
    said = "does not run, or does not count; remove the skip"
    if mark.kind == "only":
        said = "makes the runner skip all other tests; remove the focus"
    yield finding("test-skipped", weight, f"{what} {said}", file.path, mark.line, mark.text)


def _weight(mark: Mark, is_new: bool) -> Weight | None:
    """Who adds a test may say where it cannot be run; who skips one that was run takes something away."""
    if mark.kind == "only":
        return "blocks"
    if is_new:
        return "attention" if mark.kind == "skip" else None
    return "attention" if mark.kind == "elsewhere" else "blocks"


def _deselected(subject: Subject, pairing: Pairing) -> Iterator[ScanFinding]:
    """A label that the checks' commands or the runner's settings choose by, put on a test that was run so far."""
    labelled = [(pair.after, set(pair.after.case.labels) - set(pair.before.case.labels)) for pair in pairing.pairs]
    if not any(labels for _, labels in labelled):
        return
    chosen = _chosen_by(subject)
    for at, labels in labelled:
        for label in sorted(labels & chosen):
            if not is_granted(subject, at.file.old_path, at.file.path):
                yield _label_told(at, label)


def _label_told(at: LocatedCase, label: str) -> ScanFinding:
    said = f"'{at.case.name}' is now '{label}', by which the checks choose what to run; leave it as it was"
    return finding("test-skipped", "blocks", said, at.file.path, at.case.line, at.case.text)


def _chosen_by(subject: Subject) -> frozenset[str]:
    texts = [check.run for check in subject.checks]
    for name in _SETTINGS:
        try:
            texts.append((read_file(subject.git, subject.base, name) or b"").decode(errors="replace"))
        except FileTooLarge:
            continue
    words = (word for text in texts for found in _SELECTS.findall(text) for word in re.findall(r"\w+", " ".join(found)))
    return frozenset(words) - {"not", "and", "or"}
