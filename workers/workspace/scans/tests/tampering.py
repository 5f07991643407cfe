"""
Tests that demand less than before: removed, skipped, emptied, loosened, or with another expected result.

Python, JavaScript, TypeScript, Go, Rust and Java are read by grammar, other languages line by line. The docstring of
`workers.workspace.scans.languages` says what is seen of each. New tests are welcome, and so are renamed, moved, split
and parametrised ones, as long as no assertion is lost.
"""

import csv
import io
import json
import re
import tomllib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import yaml

from forgepool.workers.workspace.scans.findings import ScanFinding, Weight
from forgepool.workers.workspace.scans.languages.suite import (
    Assertion,
    Suite,
    SuiteCase,
    Value,
    beside_tests,
    is_code,
    is_test,
    name_set,
)
from forgepool.workers.workspace.scans.subject import Subject, finding, is_granted, is_held
from forgepool.workers.workspace.scans.tests.comparing import Weakening, compare
from forgepool.workers.workspace.scans.tests.pairing import LocatedCase, Pairing, Renames, Versions, pair, renames_in
from forgepool.workers.workspace.scans.tests.reading import SuiteTooLarge, may_hold_tests, read_suite, with_shared
from forgepool.workers.workspace.scans.tests.vanishing import scan_gone, scan_marks
from forgepool.worktrees.commits.diff import FileDiff, contents

Row = Counter[str]
"""The literals of a row, spelled as in a test."""
_MOST_ROWS = 20_000
_LIBRARIES = frozenset(["json", "yaml", "tomllib", "csv", "pathlib", "os", "io"])
_LOADS = frozenset(["load", "loads", "safe_load", "reader", "parse", "require"])
_LOADING = (
    _LIBRARIES
    | _LOADS
    | name_set(
        "list tuple map open Path __file__ path join dirname parent resolve absolute joinpath with_name read_text "
        "read_bytes encoding JSON fs readFileSync URL url import meta __dirname"
    )
)
"""Names that an expression may use that reads a whole file."""
_SIGNS = frozenset(["()", ".", "/", "="])
_LOOP_SIGNS = frozenset(["[", "]", "*", "for", "in"])
_IN_LOOPS = frozenset(["pytest", "param", "id"])
_HOW = frozenset(["'utf-8'", "'utf8'", "'r'", "'rt'", "'rb'"])
_IDS = frozenset(["id", "name"])
_OTHERWISE = {"True": "true", "False": "false", "None": "null"}
"""Values as they are spelled in other languages than Python."""
_SUFFIXES = (".json", ".yaml", ".yml", ".toml", ".csv")


def rows_in_data(subject: Subject, files: Sequence[Versions]) -> dict[str, list[Row]]:
    """Return, by the path of a test, the rows of new data files that its tables are read from as a whole."""
    data = [file for file in subject.read if file.status == "A" and beside_tests(file.path)]
    data = [file for file in data if file.path.endswith(_SUFFIXES) and _is_alone(file.path, subject)]
    texts = contents(subject.git, (file.id for file in data))
    found: dict[str, list[Row]] = {}
    for file in data:
        rows = list(_rows(_read(file.path, texts.get(file.id, b""))))[:_MOST_ROWS]
        for tests in files:
            if any(_names(text, file.path) for text in _loaded(tests.new)):
                own = rows if tests.path.endswith(".py") else [_otherwise(row) for row in rows]
                found.setdefault(tests.path, []).extend(Counter(row) for row in own)
    return found


def _otherwise(row: Row) -> Row:
    return Counter(_OTHERWISE.get(literal, literal) for literal in row.elements())


def _is_alone(path: str, subject: Subject) -> bool:
    """Tell whether no other file has this name. A test might read that one instead."""
    name = path.rpartition("/")[2]
    return sum(each.rpartition("/")[2] == name for each in subject.new_paths) == 1


def _loaded(tests: Suite) -> Iterator[str]:
    """Yield the files that tables are read from by an expression that takes all of their contents."""
    tables = {word.text for case in tests.cases.values() for row in case.rows for word in row.words if not row.literals}
    bound = Counter(value.name for value in tests.values)
    own = {*bound, *(name.rpartition("::")[2] for name in tests.support)}
    yield from (source.rstrip(".") for name, source in tests.imports.items() if name in tables and source[-1:] == ".")
    for value in tests.values:
        if value.name in tables and bound[value.name] == 1 and _is_loader(value, own, tests.imports):
            yield [text for text in value.literals if text not in _HOW][-1]


def _is_loader(value: Value, own: Collection[str], imports: Mapping[str, str]) -> bool:
    texts = [word.text for word in value.words]
    in_loop = texts[texts.index("for") + 1 : texts.index("in")] if {"for", "in"} <= {*texts} else []
    passed = {*in_loop, *_IN_LOOPS} if in_loop else set()
    names = [word.text for word in value.words if word.kind == "name" and word.text not in passed]
    signs = {word.text for word in value.words if word.kind == "sign"}
    return (
        signs <= (_SIGNS | _LOOP_SIGNS if in_loop else _SIGNS)
        and _LOADING.issuperset(names)
        and not _LOADS.isdisjoint(names)
        and not any(name in own for name in names)
        and all(imports.get(name, name).partition(".")[0] in _LIBRARIES for name in names if name in imports)
        and any(text not in _HOW for text in value.literals)
    )


def _names(text: str, path: str) -> bool:
    file_name = re.sub(r"^(\.*/)+", "", text.strip("'"))
    return f"/{path}".endswith(f"/{file_name}") and "." in file_name


def _read(path: str, text: bytes) -> object:
    try:
        decoded = text.decode()
        if path.endswith(".csv"):
            return list(csv.reader(io.StringIO(decoded)))
        if path.endswith(".toml"):
            return tomllib.loads(decoded)
        return json.loads(decoded) if path.endswith(".json") else yaml.safe_load(decoded)
    except (ValueError, RecursionError, yaml.YAMLError, csv.Error):
        return None


def _rows(data: object) -> Iterator[Row]:
    """Yield the elements of every list in the data, however deep it lies."""
    waiting = [data]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            yield from (Counter(_literals(row)) for row in value)
            named = (row for row in value if isinstance(row, dict) and not _IDS.isdisjoint(row))
            yield from (Counter(_literals({key: row[key] for key in row.keys() - _IDS})) for row in named)
        elif isinstance(value, dict):
            # A table by the ids of its rows.
            tables = ((key, row) for key, row in value.items() if isinstance(row, list | dict))
            yield from (Counter(_literals(each)) for key, row in tables for each in (row, [key, row]))
            waiting.extend(value.values())


def _literals(row: object) -> Iterator[str]:
    waiting = [row]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting.extend(value)
        elif isinstance(value, dict):
            waiting.extend(value.values())
        else:
            yield f"'{repr(value)[1:-1]}'" if isinstance(value, str) else repr(value)


_KINDS = {
    "removed": ("assertion-removed", "the test asserts less than before; keep the assertion, or say why it must go"),
    "row_removed": ("assertion-removed", "the test is run with fewer cases than before; keep them"),
    "loosened": ("assertion-removed", "the assertion was loosened; assert what was asserted before"),
    "guarded": ("assertion-removed", "the assertion now stands under a condition; assert it in any case"),
    "swallowed": ("test-tautology", "the assertion's failure is caught; let it fail the test"),
    "silent": ("test-tautology", "the test asserts nothing any more; keep its assertions"),
}


def scan_tests(subject: Subject) -> Iterator[ScanFinding]:
    """Report all rules about tests. `test-unread` stands for tests that cannot be read."""
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
    changed = (file for file in subject.read if file.path not in subject.same_code)
    wanted = [file for file in changed if may_hold_tests(file.path) or may_hold_tests(file.old_path or file.path)]
    texts = contents(subject.git, {blob for file in wanted for blob in (file.id, file.old_id) if blob.strip("0")})
    files: list[Versions] = []
    unread: list[ScanFinding] = []
    for file in wanted:
        old_path = file.old_path or file.path
        try:
            old = _suite(old_path, file.old_mode, file.old_id, texts)
            new = _suite(file.path, file.mode, file.id, texts)
        except SuiteTooLarge:
            message = "these tests are too large, or nested too deeply, to be compared; split the file"
            if not is_granted(subject, file.path, file.old_path):
                unread.append(finding("test-unread", "attention", message, file.path))
            continue
        files.append(Versions(old_path=old_path, path=file.path, old=old, new=new))
    return _with_shared(subject, files), unread


def _with_shared(subject: Subject, files: Sequence[Versions]) -> list[Versions]:
    old, new = {file.old_path: file.old for file in files}, {file.path: file.new for file in files}
    return [
        replace(
            file,
            old=with_shared(file.old_path, file.old, old, subject.old_paths),
            new=with_shared(file.path, file.new, new, subject.new_paths),
        )
        for file in files
    ]


def _suite(path: str, mode: str, content: str, texts: dict[str, bytes]) -> Suite:
    if not mode.startswith("100") or not may_hold_tests(path):
        return Suite()
    if content not in texts:
        raise SuiteTooLarge(path)
    return read_suite(path, texts[content])


def _outside(subject: Subject) -> Iterator[ScanFinding]:
    """Report edits of existing tests that the task may not write."""
    for file in subject.read:
        path = file.old_path or file.path
        if file.status == "A" or not beside_tests(path) or not _is_edited(file):
            continue
        if not is_held(subject, path) and not is_granted(subject, path):
            message = "an existing test is edited that the task does not declare; leave it, or declare it in `files`"
            line = file.removed[0] if file.removed else None
            yield finding(
                "test-outside", "blocks", message, path, line.number if line else 0, line.text if line else ""
            )


def _is_edited(file: FileDiff) -> bool:
    return file.binary or file.cut or any(line.text.strip() for line in file.removed)


def _weakened(subject: Subject, weakened: Sequence[Weakening], renames: Renames) -> Iterator[ScanFinding]:
    for loss in weakened:
        file = loss.at.file
        if is_granted(subject, file.old_path, file.path):
            continue
        if loss.kind == "edited":
            yield _edited(subject, loss)
            continue
        rule, message = _KINDS[loss.kind]
        weight: Weight = "attention" if _is_retired(loss, renames) else "blocks"
        shown = loss.after or loss.before
        path = file.path if loss.after is not None else file.old_path
        yield finding(rule, weight, f"{_name(loss.at)}: {message}", path, shown.line, shown.text)


def _is_retired(loss: Weakening, renames: Renames) -> bool:
    """Tell whether the lost assertion was about something that the code no longer has."""
    if loss.kind not in ("removed", "row_removed") or not isinstance(loss.before, Assertion):
        return False
    dropped = renames.removed - renames.added
    quoted = {text.strip("'") for text in loss.before.literals}
    return bool(set(loss.before.names) & renames.retired or quoted & dropped)


def _edited(subject: Subject, loss: Weakening) -> ScanFinding:
    with_code = any(is_code(file.path) for file in subject.files)
    weight: Weight = "attention" if is_held(subject, loss.at.file.old_path) else "blocks"
    message = "the expected value was changed" + (" together with the code" if with_code else "")
    after = loss.after or loss.before
    text = f"{loss.before.text} -> {after.text}"
    sentence = f"{_name(loss.at)}: {message}; keep it, or have a reviewer look at it"
    return finding("expected-edited", weight, sentence, loss.at.file.path, after.line, text)


def _data(subject: Subject) -> Iterator[ScanFinding]:
    """Report changed snapshots and other files that tests compare with."""
    for file in subject.files:
        path = file.old_path or file.path
        is_data = beside_tests(path) and not may_hold_tests(path) and not is_test(path)
        if file.status == "A" or not is_data or not _is_edited(file) or path.endswith((".md", ".rst")):
            continue
        if not is_granted(subject, path) and any(is_code(other.path) for other in subject.files):
            weight: Weight = "attention" if is_held(subject, path) else "blocks"
            message = "test data was changed together with the code; keep it, or have a reviewer look at it"
            yield finding("expected-edited", weight, message, path)


def _tautologies(subject: Subject, pairing: Pairing, files: Sequence[Versions]) -> Iterator[ScanFinding]:
    before = {id(each.after.case): each.before.case for each in pairing.pairs}
    reported: set[tuple[str, int]] = set()
    for at in _all_new(files):
        if is_granted(subject, at.file.old_path, at.file.path):
            continue
        known = before.get(id(at.case), at.file.old.support.get(at.case.name))
        known_assertions = known.assertions if known else ()
        old = [each.words for each in known_assertions if each.strength == 0 or each.swallowed]
        for assertion in at.case.assertions:
            says_nothing = assertion.strength == 0 or (known is None and assertion.swallowed)
            if (at.file.path, assertion.line) in reported or assertion.words in old or not says_nothing:
                continue
            reported.add((at.file.path, assertion.line))
            message = f"{_name(at)}: the assertion holds whatever the code does; assert what the code must do"
            if assertion.strength:
                message = f"{_name(at)}: the assertion's failure is caught; let it fail the test"
            yield finding("test-tautology", "blocks", message, at.file.path, assertion.line, assertion.text)
        if known is None and at.case.hollow and at.case.name in at.file.new.cases and not at.case.marks:
            message = f"{_name(at)}: the new test does nothing; write it, or leave it out"
            yield finding("test-tautology", "attention", message, at.file.path, at.case.line, at.case.text)


def _all_new(files: Sequence[Versions]) -> Iterator[LocatedCase]:
    for file in files:
        cases: Sequence[SuiteCase] = (*file.new.cases.values(), *file.new.support.values())
        yield from (LocatedCase(file=file, case=case) for case in cases)


def _name(at: LocatedCase) -> str:
    return f"'{at.case.name}'" if at.case.name else at.file.path
