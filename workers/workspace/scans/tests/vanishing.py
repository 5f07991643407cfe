"""Tests that no longer run or count: deleted, moved out of a runner's sight, skipped, or deselected by a label."""

import configparser
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from forgepool.workers.workspace.scans.findings import ScanFinding, Weight
from forgepool.workers.workspace.scans.languages.suite import MUST_FAIL, Mark, is_code, rank
from forgepool.workers.workspace.scans.subject import Subject, finding, is_granted
from forgepool.workers.workspace.scans.tests.pairing import LocatedCase, Pair, Pairing, Renames, Versions
from forgepool.workers.workspace.scans.tests.reading import files_of
from forgepool.worktrees.commits.changes import FileTooLarge, read_file

_RULE = "test-removed"


def scan_gone(
    subject: Subject, tests: Sequence[LocatedCase], pairs: Sequence[Pair], renames: Renames
) -> Iterator[ScanFinding]:
    """Report `test-removed` for each file that is gone, and for each test that is gone from a remaining file."""
    whole: set[str] = set()
    for gone in tests:
        file = gone.file
        if is_granted(subject, file.old_path, file.path if file.path in subject.new_paths else None):
            continue
        retired = renames.retired | _imports_of_deleted(subject, file)
        if file.old_path in subject.new_paths or file.new.cases:
            yield _test_gone(gone, retired)
        elif file.old_path not in whole:
            whole.add(file.old_path)
            yield _file_gone(gone, [each for each in tests if each.file is file], retired)
    yield from _moved(subject, pairs)
    yield from _left_out(subject)


_MODULE = re.compile(r"\s*(?:pub(?:\([\w ]+\))?\s+)?mod\s+((?:\w+_)?tests?)\s*;")


def _left_out(subject: Subject) -> Iterator[ScanFinding]:
    """Report modules of tests in Rust that exist and that nothing names any more, so that they are not compiled."""
    for file in subject.files:
        named = {found[1] for line in file.added if (found := _MODULE.match(line.text))}
        folder, _, name = file.path.rpartition("/")
        if name not in ("lib.rs", "main.rs", "mod.rs"):
            folder = f"{folder}/{name.removesuffix('.rs')}"
        for line in file.removed if name.endswith(".rs") and not is_granted(subject, file.path) else ():
            module = found[1] if (found := _MODULE.match(line.text)) else ""
            places = {f"{folder}/{module}.rs".lstrip("/"), f"{folder}/{module}/mod.rs".lstrip("/")}
            if module and module not in named and places & subject.new_paths:
                message = f"the module '{module}' is left out, and its tests with it; keep the line"
                yield finding(_RULE, "blocks", message, file.path, line.number, line.text)


def _imports_of_deleted(subject: Subject, file: Versions) -> frozenset[str]:
    """Return the names by which the tests of a file import deleted modules and their contents."""
    deleted = {each.path for each in subject.files if each.status == "D" and is_code(each.path)}

    def is_deleted(name: str) -> bool:
        found = files_of(name, file.old_path, subject.old_paths)
        return bool(found) and deleted.issuperset(found)

    if not deleted:
        return frozenset()
    return frozenset(
        local for local, name in file.old.imports.items() if is_deleted(name) or is_deleted(name.rpartition(".")[0])
    )


def _test_gone(gone: LocatedCase, retired: frozenset[str]) -> ScanFinding:
    name, file = gone.case.name, gone.file
    message = f"the test '{name}' is gone; keep it, or say why it must go"
    if name in file.new.support:
        message = f"'{name}' is still there, but no runner collects it any more; name it as a test"
    elif not name:
        message = "no runner collects these tests any more; keep the file's name"
    return finding(_RULE, _weight([gone], retired), message, file.old_path, gone.case.line, gone.case.text)


def _file_gone(gone: LocatedCase, tests: Sequence[LocatedCase], retired: frozenset[str]) -> ScanFinding:
    file, count = gone.file, f"{len(tests)} test" + ("s" if len(tests) > 1 else "")
    message = f"the file is deleted, and {count} with it; keep them, or say why they must go"
    if file.path != file.old_path:
        message = f"the file is now {file.path}, where no runner finds {count}; keep its name"
    return finding(_RULE, _weight(tests, retired), message, file.old_path)


def _weight(tests: Sequence[LocatedCase], retired: frozenset[str]) -> Weight:
    """Weigh lost tests. Tests of removed code may go with it, and only ask for attention."""
    return "attention" if all(_names(each) & retired for each in tests) else "blocks"


def _names(test: LocatedCase) -> frozenset[str]:
    support = {name.rpartition("::")[2]: case for name, case in test.file.old.support.items()}
    found: set[str] = set()
    waiting = [test.case]
    while waiting:
        names = {word.text for word in waiting.pop().words if word.kind == "name"} - found
        found |= names
        waiting.extend(support[name] for name in names & support.keys())
    return frozenset(found)


def _moved(subject: Subject, pairs: Sequence[Pair]) -> Iterator[ScanFinding]:
    moved = {(each.before.file.old_path, each.after.file.path) for each in pairs}
    moved = {(old, new) for old, new in moved if old != new and not is_granted(subject, old, new)}
    roots = _roots(subject) if moved else []
    for old, new in sorted(moved):
        if rank(new) < rank(old):
            yield finding(_RULE, "blocks", f"the tests are now in {new}, where runners may not find them", old)
        elif any(_is_below(old, root) and not _is_below(new, root) for root in roots):
            yield finding(_RULE, "blocks", f"the tests are now in {new}, where the checks do not look for them", old)


def _roots(subject: Subject) -> list[list[str]]:
    """Return, for each check and for pytest's own settings, the folders where tests are looked for."""
    folders = {str(parent) for path in subject.old_paths for parent in PurePosixPath(path).parents} - {"."}
    named = [
        [word.removesuffix("/...").removeprefix("./").rstrip("/") for word in check.run.split()]
        for check in subject.checks
    ]
    found = [[word for word in words if word in folders] for words in named]
    found.append([word.strip("./") for word in _testpaths(subject)])
    return [words for words in found if words]


def _testpaths(subject: Subject) -> list[str]:
    try:
        toml = tomllib.loads(_text(subject, "pyproject.toml"))
        folders = toml.get("tool", {}).get("pytest", {}).get("ini_options", {}).get("testpaths", [])
    except (tomllib.TOMLDecodeError, AttributeError):
        folders = []
    for name, section in (("pytest.ini", "pytest"), ("tox.ini", "pytest"), ("setup.cfg", "tool:pytest")):
        parser = configparser.RawConfigParser(strict=False)
        try:
            parser.read_string(_text(subject, name))
            folders = folders or parser.get(section, "testpaths", fallback="")
        except configparser.Error:
            continue
    return folders.split() if isinstance(folders, str) else [str(folder) for folder in folders]


def _text(subject: Subject, path: str) -> str:
    try:
        return (read_file(subject.git, subject.base, path) or b"").decode(errors="replace")
    except FileTooLarge:
        return ""


def _is_below(path: str, roots: Sequence[str]) -> bool:
    return any(path.startswith(f"{root}/") for root in roots)


_SELECTS = re.compile(r"-m[\s=]+(?:\"([^\"]*)\"|'([^']*)'|(\S+))|(?:--?tags?|--grep|-k)[\s=]+(\S+)")
_SETTINGS = ("pyproject.toml", "pytest.ini", "setup.cfg", "tox.ini")


def scan_marks(subject: Subject, pairing: Pairing, files: Sequence[Versions]) -> Iterator[ScanFinding]:
    """Report `test-skipped` once for each line that skips something."""
    reported: set[tuple[str, int]] = set()
    for found in _found(subject, pairing, files):
        if (found.path, found.line) not in reported:
            reported.add((found.path, found.line))
            yield found


def _found(subject: Subject, pairing: Pairing, files: Sequence[Versions]) -> Iterator[ScanFinding]:
    for pair in pairing.pairs:
        for mark in _new(pair.before.case.marks, pair.after.case.marks):
            yield from _mark_findings(subject, pair.after.file, mark, is_new=False, name=pair.after.case.name)
    for fresh in pairing.fresh:
        for mark in fresh.case.marks:
            yield from _mark_findings(subject, fresh.file, mark, is_new=True, name=fresh.case.name)
    for file in files:
        for mark in _new(file.old.marks, file.new.marks):
            yield from _mark_findings(subject, file, mark, is_new=not file.old.cases, name="")
        yield from _of_support(subject, file)
    yield from _deselected(subject, pairing)


def _of_support(subject: Subject, file: Versions) -> Iterator[ScanFinding]:
    """Report skips in fixtures and helpers, which may skip every test that uses them."""
    for name, case in file.new.support.items():
        before = file.old.support.get(name)
        for mark in _new(before.marks if before else (), case.marks):
            softer = replace(mark, kind="elsewhere") if mark.kind == "sometimes" else mark
            yield from _mark_findings(subject, file, softer, is_new=before is None, name=name)


def _new(before: Sequence[Mark], after: Sequence[Mark]) -> list[Mark]:
    known = Counter(map(_mark_key, before))
    fresh: list[Mark] = []
    for mark in after:
        key = _mark_key(mark)
        if known[key]:
            known[key] -= 1
        else:
            fresh.append(mark)
    return fresh


def _mark_key(mark: Mark) -> tuple[str, str]:
    return "" if mark.text in MUST_FAIL else mark.kind, "".join(mark.text.split())


def _mark_findings(subject: Subject, file: Versions, mark: Mark, *, is_new: bool, name: str) -> Iterator[ScanFinding]:
    weight = _mark_weight(mark, is_new)
    if weight is None or is_granted(subject, file.old_path, file.path):
        return
    what = f"'{name}'" if name else "a file of tests"
    message = "does not run, or does not count; remove the skip"
    if mark.kind == "only":
        message = "makes the runner skip all other tests; remove the focus"
    elif mark.text in MUST_FAIL:
        message = "passes now when its code fails; let it pass when its code works, or add a test of the failure"
    yield finding("test-skipped", weight, f"{what} {message}", file.path, mark.line, mark.text)


def _mark_weight(mark: Mark, is_new: bool) -> Weight | None:
    """Weigh a mark. A new test may say where it cannot run, but skipping an existing one removes it."""
    if mark.kind == "only":
        return "blocks"
    if is_new:
        return "attention" if mark.kind == "skip" else None
    return "attention" if mark.kind == "elsewhere" else "blocks"


def _deselected(subject: Subject, pairing: Pairing) -> Iterator[ScanFinding]:
    """Report labels on existing tests by which the checks' commands or the runner's settings choose tests."""
    labelled = [(pair.after, set(pair.after.case.labels) - set(pair.before.case.labels)) for pair in pairing.pairs]
    if not any(labels for _, labels in labelled):
        return
    chosen = _chosen_by(subject)
    for at, labels in labelled:
        for label in sorted(labels & chosen):
            if not is_granted(subject, at.file.old_path, at.file.path):
                yield _label_finding(at, label)


def _label_finding(at: LocatedCase, label: str) -> ScanFinding:
    message = f"'{at.case.name}' is now '{label}', by which the checks choose what to run; leave it as it was"
    return finding("test-skipped", "blocks", message, at.file.path, at.case.line, at.case.text)


def _chosen_by(subject: Subject) -> frozenset[str]:
    texts = [check.run for check in subject.checks]
    texts += (_text(subject, name) for name in _SETTINGS)
    words = (word for text in texts for found in _SELECTS.findall(text) for word in re.findall(r"\w+", " ".join(found)))
    return frozenset(words) - {"not", "and", "or"}
