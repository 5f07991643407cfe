"""A file read into a `Suite`, by the reader of its language."""

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import TypeVar

from forgepool.supervisor.scans.languages.lines import read as read_lines
from forgepool.supervisor.scans.languages.suite import Assertion, Mark, Suite, SuiteCase, Value
from forgepool.supervisor.scans.languages.syntax import parse
from forgepool.supervisor.scans.source.bounded_parse import language_of
from forgepool.supervisor.scans.source.places import beside_tests, is_test
from forgepool.supervisor.scans.source.spelling import in_one_spelling

_READERS = {
    "python": "python",
    **dict.fromkeys(("javascript", "typescript", "tsx"), "javascript"),
    "go": "go",
    "rust": "rust",
    "java": "java",
}


_Placed = TypeVar("_Placed", Assertion, Mark, Value)


class SuiteTooLarge(ValueError):
    """A file of tests that is too large, or nested too deeply, to be read."""


def may_hold_tests(path: str) -> bool:
    """Is there any point in reading it: a test, what lies beside tests, or a language that has them amid its code?"""
    language = language_of(path)
    return is_test(path) or language == "rust" or (language in _READERS and beside_tests(path))


def read_suite(path: str, source: bytes) -> Suite:
    """
    The tests of one file, as its runner would find them.

    A file that no runner collects has no cases: what looks like some is support.

    Raises:
        TooMuch: it cannot be read.
    """
    language = language_of(path)
    if language not in _READERS:
        return read_lines(source.decode(errors="replace")) if is_test(path) else Suite()
    spelled = in_one_spelling(source) if language == "python" else None
    root = parse(language, spelled.text if spelled is not None else source)
    if root is None:
        raise SuiteTooLarge(path)
    suite: Suite = import_module(f"forgepool.supervisor.scans.languages.{_READERS[language]}").read(root)
    if spelled is not None:
        suite = _with_lines(suite, spelled.line)
    if language == "rust" and not beside_tests(path):
        inner = {name: case for name, case in suite.support.items() if "tests" in name.split("::")}
        return replace(suite, support=inner, values=())
    if language != "rust" and not is_test(path):
        return replace(suite, cases={}, support={**suite.support, **suite.cases})
    return suite


def _with_lines(suite: Suite, line: Callable[[int], int]) -> Suite:
    """The suite with the lines of its source as it was written."""

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
