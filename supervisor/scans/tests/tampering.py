"""
Tests that say less than before: removed, skipped, emptied, loosened, or told to expect something else.

By grammar for Python, JavaScript, TypeScript, Go, Rust and Java, and line by line for other languages; what is seen of
which is said in `supervisor.scans.languages`. New tests are welcome, and so are renamed, moved, split and parametrised
ones as long as nothing that was asserted is lost.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from forgepool.supervisor.findings import ScanFinding, Weight
from forgepool.supervisor.scans.grants import is_granted, is_held
from forgepool.supervisor.scans.languages.suite import Assertion, Suite, SuiteCase
from forgepool.supervisor.scans.source.places import beside_tests, is_code, is_test
from forgepool.supervisor.scans.subject import Subject, finding
from forgepool.supervisor.scans.tests.comparing import Weakening, compare
from forgepool.supervisor.scans.tests.data import rows_in_data
from forgepool.supervisor.scans.tests.pairing import LocatedCase, Pairing, Versions, pair
from forgepool.supervisor.scans.tests.reading import SuiteTooLarge, may_hold_tests, read_suite
from forgepool.supervisor.scans.tests.renames import Renames, renames_in
from forgepool.supervisor.scans.tests.sharing import with_shared
from forgepool.supervisor.scans.tests.skipping import scan_marks
from forgepool.supervisor.scans.tests.vanishing import scan_gone
from forgepool.worktrees.commits.diff import FileDiff, contents

_KINDS = {
    "removed": ("assertion-removed", "the test asserts less than before; keep the assertion, or say why it must go"),
    "row_removed": ("assertion-removed", "the test is run with fewer cases than before; keep them"),
    "loosened": ("assertion-removed", "the assertion was loosened; assert what was asserted before"),
    "guarded": ("assertion-removed", "the assertion now stands under a condition; assert it in any case"),
    "swallowed": ("test-tautology", "the assertion's failure is caught; let it fail the test"),
    "silent": ("test-tautology", "the test asserts nothing any more; keep its assertions"),
}


def scan_tests(subject: Subject) -> Iterator[ScanFinding]:
    """
    Findings `test-removed`, `test-skipped`, `test-tautology`, `assertion-removed`, `expected-edited`, `test-outside`;
    and `test-unread` of tests that cannot be read.
    """
    yield from _outside(subject)
    files, unread = _versions(subject)
    yield from unread
    pairing, renames = pair(files), renames_in(subject.files)
    weakened, gone = compare(pairing, files, renames, rows_in_data(subject, files))
    yield from scan_gone(subject, gone, pairing.pairs, renames)
    yield from scan_marks(subject, pairing, files)
    yield from _tautologies(subject, pairing, files)
    yield from _weakened(subject, weakened, renames)
    yield from _data(subject)


def _versions(subject: Subject) -> tuple[list[Versions], list[ScanFinding]]:
    wanted = [file for file in subject.read if file.path not in subject.same_code and _may_matter(file)]
    texts = contents(subject.git, {one for file in wanted for one in (file.id, file.old_id) if one.strip("0")})
    files: list[Versions] = []
    unread: list[ScanFinding] = []
    for file in wanted:
        old_path = file.old_path or file.path
        try:
            old = _suite(old_path, file.old_mode, file.old_id, texts)
            new = _suite(file.path, file.mode, file.id, texts)
        except SuiteTooLarge:
            said = "these tests are too large, or nested too deeply, to be compared; split the file"
            unread.append(finding("test-unread", "attention", said, file.path))
            continue
        files.append(Versions(old_path=old_path, path=file.path, old=old, new=new))
    return _with_shared(subject, files), unread


def _with_shared(subject: Subject, files: Sequence[Versions]) -> list[Versions]:
    """Every test with what the functions assert that it calls, before and after."""
    old, new = {file.old_path: file.old for file in files}, {file.path: file.new for file in files}
    return [
        replace(
            file,
            old=with_shared(file.old_path, file.old, old, subject.old_paths),
            new=with_shared(file.path, file.new, new, subject.new_paths),
        )
        for file in files
    ]


def _may_matter(file: FileDiff) -> bool:
    return may_hold_tests(file.path) or may_hold_tests(file.old_path or file.path)


def _suite(path: str, mode: str, content: str, texts: dict[str, bytes]) -> Suite:
    if not mode.startswith("100") or not may_hold_tests(path):
        return Suite()
    if content not in texts:
        raise SuiteTooLarge(path)
    return read_suite(path, texts[content])


def _outside(subject: Subject) -> Iterator[ScanFinding]:
    """Tests that were there, are edited, and are none of what the task may write."""
    for file in subject.read:
        path = file.old_path or file.path
        if file.status == "A" or not beside_tests(path) or not _is_edited(file):
            continue
        if not is_held(subject, path) and not is_granted(subject, path):
            said = "an existing test is edited that the task does not declare; leave it, or declare it in `files`"
            line = file.removed[0] if file.removed else None
            yield finding("test-outside", "blocks", said, path, line.number if line else 0, line.text if line else "")


def _is_edited(file: FileDiff) -> bool:
    return file.binary or file.cut or any(line.text.strip() for line in file.removed)


def _weakened(subject: Subject, weakened: Sequence[Weakening], renames: Renames) -> Iterator[ScanFinding]:
    for one in weakened:
        file = one.at.file
        if is_granted(subject, file.old_path, file.path):
            continue
        if one.kind == "edited":
            yield _edited(subject, one)
            continue
        rule, said = _KINDS[one.kind]
        weight: Weight = "attention" if _is_retired(one, renames) else "blocks"
        shown = one.after or one.before
        path = file.path if one.after is not None else file.old_path
        yield finding(rule, weight, f"{_name(one.at)}: {said}", path, shown.line, shown.text)


def _is_retired(one: Weakening, renames: Renames) -> bool:
    """Is what was asserted about something that the code no longer has?"""
    if one.kind not in ("removed", "row_removed") or not isinstance(one.before, Assertion):
        return False
    dropped = renames.removed - renames.added
    quoted = {text.strip("'") for text in one.before.literals}
    return bool(set(one.before.names) & renames.retired or quoted & dropped)


def _edited(subject: Subject, one: Weakening) -> ScanFinding:
    with_code = any(is_code(file.path) for file in subject.files)
    weight: Weight = "attention" if is_held(subject, one.at.file.old_path) else "blocks"
    said = "the expected value was changed" + (" together with the code" if with_code else "")
    after = one.after or one.before
    text = f"{one.before.text} -> {after.text}"
    sentence = f"{_name(one.at)}: {said}; keep it, or have a reviewer look at it"
    return finding("expected-edited", weight, sentence, one.at.file.path, after.line, text)


def _data(subject: Subject) -> Iterator[ScanFinding]:
    """Snapshots and other files that tests compare with."""
    for file in subject.files:
        path = file.old_path or file.path
        is_data = beside_tests(path) and not may_hold_tests(path) and not is_test(path)
        if file.status == "A" or not is_data or not _is_edited(file) or path.endswith((".md", ".rst")):
            continue
        if not is_granted(subject, path) and any(is_code(other.path) for other in subject.files):
            weight: Weight = "attention" if is_held(subject, path) else "blocks"
            said = "test data was changed together with the code; keep it, or have a reviewer look at it"
            yield finding("expected-edited", weight, said, path)


def _tautologies(subject: Subject, pairing: Pairing, files: Sequence[Versions]) -> Iterator[ScanFinding]:
    before = {id(one.after.case): one.before.case for one in pairing.pairs}
    told: set[tuple[str, int]] = set()
    for at in _all_new(files):
        if is_granted(subject, at.file.old_path, at.file.path):
            continue
        known = before.get(id(at.case), at.file.old.support.get(at.case.name))
        old = [one.words for one in known.assertions if one.strength == 0 or one.swallowed] if known else []
        for one in at.case.assertions:
            if (at.file.path, one.line) in told or one.words in old or not _says_nothing(one, is_new=known is None):
                continue
            told.add((at.file.path, one.line))
            said = "the assertion holds whatever the code does; assert what the code must do"
            if one.strength:
                said = "the assertion's failure is caught; let it fail the test"
            yield finding("test-tautology", "blocks", f"{_name(at)}: {said}", at.file.path, one.line, one.text)
        if known is None and at.case.hollow and at.case.name in at.file.new.cases and not at.case.marks:
            said = f"{_name(at)}: the new test does nothing; write it, or leave it out"
            yield finding("test-tautology", "attention", said, at.file.path, at.case.line, at.case.text)


def _says_nothing(one: Assertion, *, is_new: bool) -> bool:
    return one.strength == 0 or (is_new and one.swallowed)


def _all_new(files: Sequence[Versions]) -> Iterator[LocatedCase]:
    for file in files:
        cases: Sequence[SuiteCase] = (*file.new.cases.values(), *file.new.support.values())
        yield from (LocatedCase(file=file, case=case) for case in cases)


def _name(at: LocatedCase) -> str:
    return f"'{at.case.name}'" if at.case.name else at.file.path
