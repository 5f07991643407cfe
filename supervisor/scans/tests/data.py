"""Tables of parameters that a change moves from a test into a file of data."""

import csv
import io
import json
import re
import tomllib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

import yaml

from forgepool.supervisor.scans.languages.suite import Suite, Value, name_set
from forgepool.supervisor.scans.source.places import beside_tests
from forgepool.supervisor.scans.subject import Subject
from forgepool.supervisor.scans.tests.pairing import Versions
from forgepool.worktrees.commits.diff import contents

Row = Counter[str]
"""The literals of a row, spelled as in a test."""
_MOST_ROWS = 20_000
_LIBRARIES = frozenset(["json", "yaml", "tomllib", "csv", "pathlib", "os", "io"])
_LOADS = frozenset(["load", "loads", "safe_load", "reader"])
_LOADING = (
    _LIBRARIES
    | _LOADS
    | name_set(
        "list tuple map open Path __file__ path join dirname parent resolve absolute joinpath with_name read_text "
        "read_bytes encoding"
    )
)
"""Names that an expression may use that reads a file as a whole."""
_SIGNS = frozenset(["()", ".", "/", "="])
_HOW = frozenset(["'utf-8'", "'utf8'", "'r'", "'rt'", "'rb'"])
_SUFFIXES = (".json", ".yaml", ".yml", ".toml", ".csv")


def rows_in_data(subject: Subject, files: Sequence[Versions]) -> dict[str, list[Row]]:
    """By the path of a test, the rows of the new data files beside tests that its tables are read from, whole."""
    data = [file for file in subject.read if file.status == "A" and beside_tests(file.path)]
    data = [file for file in data if file.path.endswith(_SUFFIXES) and _is_alone(file.path, subject)]
    texts = contents(subject.git, (file.id for file in data))
    found: dict[str, list[Row]] = {}
    for file in data:
        rows = list(_rows(_read(file.path, texts.get(file.id, b""))))[:_MOST_ROWS]
        for tests in files:
            if any(_names(text, file.path) for text in _loaded(tests.new)):
                found.setdefault(tests.path, []).extend(Counter(row) for row in rows)
    return found


def _is_alone(path: str, subject: Subject) -> bool:
    """Is there no other file of this name, which a test might read in its place?"""
    name = path.rpartition("/")[2]
    return sum(one.rpartition("/")[2] == name for one in subject.new_paths) == 1


def _loaded(tests: Suite) -> Iterator[str]:
    """The files from which tables are read by an expression that takes all of what is there, and does no more."""
    tables = {word.text for case in tests.cases.values() for row in case.rows for word in row.words if not row.literals}
    bound = Counter(value.name for value in tests.values)
    own = {*bound, *(name.rpartition("::")[2] for name in tests.support)}
    for value in tests.values:
        if value.name in tables and bound[value.name] == 1 and _is_loader(value, own, tests.imports):
            yield [text for text in value.literals if text not in _HOW][-1]


def _is_loader(value: Value, own: Collection[str], imports: Mapping[str, str]) -> bool:
    names = [word.text for word in value.words if word.kind == "name"]
    signs = {word.text for word in value.words if word.kind == "sign"}
    return (
        signs <= _SIGNS
        and _LOADING.issuperset(names)
        and not _LOADS.isdisjoint(names)
        and not any(name in own for name in names)
        and all(imports.get(name, name).partition(".")[0] in _LIBRARIES for name in names if name in imports)
        and any(text not in _HOW for text in value.literals)
    )


def _names(text: str, path: str) -> bool:
    said = re.sub(r"^(\.*/)+", "", text.strip("'"))
    return f"/{path}".endswith(f"/{said}") and "." in said


def _read(path: str, text: bytes) -> object:
    try:
        said = text.decode()
        if path.endswith(".csv"):
            return list(csv.reader(io.StringIO(said)))
        if path.endswith(".toml"):
            return tomllib.loads(said)
        return json.loads(said) if path.endswith(".json") else yaml.safe_load(said)
    except (ValueError, RecursionError, yaml.YAMLError, csv.Error):
        return None


def _rows(data: object) -> Iterator[Row]:
    """The elements of a list, however deep the list lies; of a table of tables, those."""
    waiting = [data]
    while waiting:
        one = waiting.pop()
        if isinstance(one, list):
            yield from (Counter(_literals(row)) for row in one)
        elif isinstance(one, dict):
            waiting.extend(one.values())


def _literals(row: object) -> Iterator[str]:
    waiting = [row]
    while waiting:
        one = waiting.pop()
        if isinstance(one, list):
            waiting.extend(one)
        elif isinstance(one, dict):
            waiting.extend(one.values())
        else:
            yield f"'{repr(one)[1:-1]}'" if isinstance(one, str) else repr(one)
