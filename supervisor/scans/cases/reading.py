"""A file read into a `Suite`, by the reader of its language."""

from dataclasses import replace
from importlib import import_module

from supervisor.scans.cases.lines import read as read_lines
from supervisor.scans.cases.places import beside_tests, is_test
from supervisor.scans.cases.suite import Suite
from supervisor.scans.cases.syntax import parse
from supervisor.scans.grammar import language_of

_READERS = {
    "python": "python",
    **dict.fromkeys(("javascript", "typescript", "tsx"), "javascript"),
    "go": "go",
    "rust": "rust",
    "java": "java",
}


class TooMuch(ValueError):
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
    root = parse(language, source)
    if root is None:
        raise TooMuch(path)
    suite: Suite = import_module(f"supervisor.scans.cases.{_READERS[language]}").read(root)
    if language == "rust" and not beside_tests(path):
        inner = {name: case for name, case in suite.support.items() if "tests" in name.split("::")}
        return replace(suite, support=inner, values=())
    if language != "rust" and not is_test(path):
        return replace(suite, cases={}, support={**suite.support, **suite.cases})
    return suite
