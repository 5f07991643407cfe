"""Read a file into a `Suite` by its language, and add the assertions of the functions that a test calls."""

import posixpath
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from importlib import import_module
from typing import TypeVar

from forgepool.workers.workspace.scans.languages.suite import (
    Assertion,
    CallSite,
    Mark,
    Suite,
    SuiteCase,
    Value,
    beside_tests,
    is_test,
    read_lines,
)
from forgepool.workers.workspace.scans.languages.syntax import SCRIPTS, language_of, parse
from forgepool.workers.workspace.scans.source.spelling import in_one_spelling

_READERS = {**dict.fromkeys(SCRIPTS, "javascript"), **{name: name for name in ("python", "go", "rust", "java")}}
_SCRIPT_ENDS = tuple(
    f"{index}.{suffix}" for index in ("", "/index") for suffix in ("js", "mjs", "cjs", "jsx", "ts", "mts", "tsx")
)
_Placed = TypeVar("_Placed", Assertion, Mark, Value)


class SuiteTooLarge(ValueError):
    """A file of tests is too large, or nested too deeply, to be read."""


def may_hold_tests(path: str) -> bool:
    """Tell whether a file is worth reading: a test, a file beside tests, or code that may hold tests."""
    language = language_of(path)
    return is_test(path) or language == "rust" or (language in _READERS and beside_tests(path))


def read_suite(path: str, source: bytes) -> Suite:
    """
    Return the tests of one file as its runner would find them.

    A file that no runner collects has no cases. Its tests count as support.

    Raises:
        SuiteTooLarge: the file cannot be read.
    """
    language = language_of(path)
    if language not in _READERS:
        return read_lines(source.decode(errors="replace")) if is_test(path) else Suite()
    spelled = in_one_spelling(source) if language == "python" else None
    root = parse(language, spelled.text if spelled is not None else source, texts=True)
    if root is None:
        raise SuiteTooLarge(path)
    suite: Suite = import_module(f"forgepool.workers.workspace.scans.languages.{_READERS[language]}").read(root)
    if spelled is not None:
        suite = _with_lines(suite, spelled.line)
    if language == "rust" and not beside_tests(path):
        inner = {name: case for name, case in suite.support.items() if "tests" in name.split("::")}
        return replace(suite, support=inner, values=())
    if language != "rust" and not is_test(path):
        return replace(suite, cases={}, support={**suite.support, **suite.cases})
    return suite


def _with_lines(suite: Suite, line: Callable[[int], int]) -> Suite:
    """Return the suite with the line numbers of the original source."""

    def place_lines(those: tuple[_Placed, ...]) -> tuple[_Placed, ...]:
        return tuple(replace(one, line=line(one.line)) for one in those)

    def move_case(case: SuiteCase) -> SuiteCase:
        return replace(
            case,
            line=line(case.line),
            assertions=place_lines(case.assertions),
            rows=place_lines(case.rows),
            values=place_lines(case.values),
            marks=place_lines(case.marks),
        )

    return replace(
        suite,
        cases={name: move_case(case) for name, case in suite.cases.items()},
        support={name: move_case(case) for name, case in suite.support.items()},
        marks=place_lines(suite.marks),
        values=place_lines(suite.values),
    )


_DEEPEST = 4


def with_shared(path: str, suite: Suite, others: Mapping[str, Suite], paths: Collection[str]) -> Suite:
    """
    Return the suite, with every case holding the assertions of the functions that it calls.

    The functions are those of the same file, and those imported from `others`, a part of all `paths`.
    """
    by_name = {
        **_neighbours(path, others),
        **{name: case for name, case in _imported(path, suite, others, paths) if case.assertions or case.calls},
        **{_simple_name(name): case for name, case in suite.support.items() if case.assertions or case.calls},
    }
    bound = _bound(suite)
    by_name = {name: case for name, case in by_name.items() if case.form != "other" and name not in bound}
    if not by_name:
        return suite
    cases = {name: _expanded(case, by_name, suite.imports) for name, case in suite.cases.items()}
    return replace(suite, cases=cases)


def _imported(
    path: str, suite: Suite, others: Mapping[str, Suite], paths: Collection[str]
) -> list[tuple[str, SuiteCase]]:
    found: list[tuple[str, SuiteCase]] = []
    for local, name in suite.imports.items():
        module, _, function = name.rpartition(".")
        files = files_of(module, path, paths) if module else []
        if len(files) != 1 or files[0] not in others or function not in others[files[0]].support:
            continue
        if function not in _bound(others[files[0]]) and function not in others[files[0]].imports:
            found.append((local, others[files[0]].support[function]))
    return found


def _neighbours(path: str, others: Mapping[str, Suite]) -> dict[str, SuiteCase]:
    """Return the functions that a file shares without an import: those of its folder and below, in Go and Rust."""
    folder, _, suffix = path.rpartition("/")[0], "", path.rpartition(".")[2]
    if suffix not in ("go", "rs"):
        return {}
    near = [
        suite
        for name, suite in others.items()
        if name != path and name.endswith(f".{suffix}") and name.startswith(folder)
    ]
    named = [(_simple_name(name), case) for suite in near for name, case in suite.support.items()]
    count = Counter(name for name, _ in named)
    return {name: case for name, case in named if count[name] == 1 and (case.assertions or case.calls)}


def files_of(module: str, importer: str, paths: Collection[str]) -> list[str]:
    """Return the files that an import may mean. A module without dots lies beside its importer or at the top."""
    if module.startswith(("./", "../")):
        place = posixpath.normpath(posixpath.join(posixpath.dirname(importer), module))
        stem = re.sub(r"\.[cm]?jsx?$", "", place)
        return sorted({place, *(f"{stem}{end}" for end in _SCRIPT_ENDS)}.intersection(paths))
    end = f"{module.strip('.').replace('.', '/')}.py"
    if "." not in module.strip("."):
        places = {f"{importer.rpartition('/')[0]}/{end}".lstrip("/"), end, f"src/{end}"}
        return sorted(places.intersection(paths))
    return [path for path in paths if path == end or path.endswith(f"/{end}")]


def _bound(suite: Suite) -> frozenset[str]:
    """Return the names that the module assigns, whatever else they name."""
    return frozenset(name for value in suite.values for name in re.findall(r"\w+", value.name))


def _expanded(case: SuiteCase, by_name: dict[str, SuiteCase], imports: Mapping[str, str]) -> SuiteCase:
    found: list[Assertion] = []
    seen: set[str] = set()
    level = _called(case, by_name, imports, CallSite(""))
    for depth in range(_DEEPEST):
        level = {name: call for name, call in level.items() if name not in seen}
        seen.update(level)
        below: dict[str, CallSite] = {}
        for name, call in level.items():
            for each in by_name[name].assertions:
                swallowed = each.swallowed or call.swallowed
                by = name if depth == 0 else ""
                found.append(replace(each, shared=True, by=by, guards=each.guards + call.guards, swallowed=swallowed))
            below = {**_called(by_name[name], by_name, imports, call), **below}
        level = below
    # A call that looks like an assertion is replaced by the assertions of the called function.
    own = tuple(assertion for assertion in case.assertions if not _is_call_of(assertion, by_name, seen))
    return replace(case, assertions=(*own, *found)) if found else case


def _called(
    case: SuiteCase, by_name: dict[str, SuiteCase], imports: Mapping[str, str], above: CallSite
) -> dict[str, CallSite]:
    """Return the functions that a case calls and does not assign to, each by its least guarded call."""
    local = {value.name for value in case.values if value.name != _simple_name(case.name)}
    calls = [
        call._replace(guards=call.guards + above.guards, swallowed=call.swallowed or above.swallowed)
        for call in case.calls
        if call.name in by_name
        and (call.owner in ("", "self", "cls") or call.owner in imports)
        and (call.owner or call.name not in local)
        and call.awaited == (by_name[call.name].form == "async")
    ]
    return {call.name: call for call in sorted(calls, key=lambda one: (one.swallowed, one.guards), reverse=True)}


def _is_call_of(assertion: Assertion, by_name: dict[str, SuiteCase], seen: Collection[str]) -> bool:
    at = next((i for i, word in enumerate(assertion.words) if word.text == "()"), 0)
    name = assertion.words[at - 1].text if at else ""
    return assertion.relation == "true" and name in seen and bool(by_name[name].assertions)


def _simple_name(name: str) -> str:
    return name.rpartition("::")[2].rpartition(".")[2]
