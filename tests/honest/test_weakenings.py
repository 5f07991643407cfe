"""A weakening is refused although a formatter has rewritten the whole file around it."""

from collections.abc import Callable
from typing import NamedTuple

import pytest
from projects import Project
from tools import format_file

pytestmark = pytest.mark.honest


class Weakening(NamedTuple):
    """A piece of the formatted file, its replacement, and rules; one of them must refuse it."""

    name: str
    project: str
    path: str
    before: str
    after: str
    rules: tuple[str, ...]


_STRUTILS = ("boltons", "tests/test_strutils.py")
_FORMATUTILS = ("boltons", "boltons/formatutils.py")
_DICTTOOLZ = ("toolz", "toolz/tests/test_dicttoolz.py")
_FUNCTOOLZ = ("toolz", "toolz/tests/test_functoolz.py")
_MORE = ("more-itertools", "tests/test_more.py")
_STUBS = ("more-itertools", "more_itertools/more.pyi")
_INDENT = '    assert strutils.indent(to_indent, "  ") == ref\n'
_OLD_SKIP = '@pytest.mark.skipif(\n    sys.version_info < (3, 14), reason="annotationlib is new in Python 3.14"\n)\n'
_CHUNKED = '        self.assertEqual(list(mi.chunked("ABCDE", None)), [["A", "B", "C", "D", "E"]])\n'
_LESS = ("assertion-removed", "test-tautology")
_ANY = "(self, value: Any) -> int: ..."
_IGNORE = "  # type: ignore[override]"
WEAKENINGS = (
    Weakening("an assertion is deleted", *_STRUTILS, '    assert b[-1:].decode("ascii") == "e"\n', "", _LESS),
    Weakening("a comparison is dropped", *_STRUTILS, _INDENT, _INDENT.replace(" == ref", ""), _LESS),
    Weakening("a comparison becomes a pair", *_STRUTILS, _INDENT, '    assert (ref == ref, "equal")\n', _LESS),
    Weakening(
        "a comparison has a way out", *_STRUTILS, " == ref\n\n\ndef test_is", " == ref or True\n\n\ndef test_is", _LESS
    ),
    Weakening("a letter is changed", *_STRUTILS, '== "artÜ"', '== "artU"', ("expected-edited",)),
    Weakening("an escape is escaped", *_STRUTILS, "│ Cell │\\n", "│ Cell │\\\\n", ("expected-edited",)),
    Weakening("a string becomes raw", *_STRUTILS, '== "ls\\r', '== r"ls\\r', ("expected-edited",)),
    Weakening("a string becomes bytes", *_STRUTILS, '== "\\tIP', '== b"\\tIP', ("expected-edited",)),
    Weakening(
        "a test is skipped", *_STRUTILS, "def test_is_uuid", "@pytest.mark.skip\ndef test_is_uuid", ("test-skipped",)
    ),
    Weakening("an old TODO is repeated", *_FORMATUTILS, "path_list[1:]\n", "path_list[1:]  # TODO\n", ("placeholder",)),
    Weakening("a type is ignored", *_FORMATUTILS, "fspec[-1:]\n", "fspec[-1:]  # type: ignore\n", ("type-bypass",)),
    Weakening("the one of two assertions is deleted", *_DICTTOOLZ, "        assert not merge_with(sum)\n", "", _LESS),
    Weakening("a test is renamed away", *_DICTTOOLZ, "def test_valmap", "def check_valmap", ("test-removed",)),
    Weakening(
        "a test returns early",
        *_DICTTOOLZ,
        "        assert valmap(inc",
        "        return\n        assert valmap(inc",
        _LESS,
    ),
    Weakening(
        "an old skip is widened",
        *_FUNCTOOLZ,
        "sys.version_info < (3, 14), r",
        "sys.version_info < (4, 0), r",
        ("test-skipped",),
    ),
    Weakening(
        "an old skip is repeated", *_FUNCTOOLZ, "def test_excepts", f"{_OLD_SKIP}def test_excepts", ("test-skipped",)
    ),
    Weakening("a long file loses an assertion", *_MORE, _CHUNKED, "", _LESS),
    Weakening("a long file compares no more", *_MORE, _CHUNKED, _CHUNKED.replace("Equal", "True"), _LESS),
    Weakening(
        "a long file skips",
        *_MORE,
        '        platform.python_implementation() == "CPython",',
        "        False,",
        ("test-skipped",),
    ),
    Weakening(
        "an old ignore is repeated",
        *_STUBS,
        "def __repr__(self) -> str: ...\n    def __rev",
        "def __repr__(self) -> str: ...  # type: ignore[override]\n    def __rev",
        ("type-bypass",),
    ),
    Weakening(
        "an old ignore is moved",
        *_STUBS,
        f"def count{_ANY}\n    def index{_ANY}{_IGNORE}",
        f"def count{_ANY}{_IGNORE}\n    def index{_ANY}",
        ("type-bypass",),
    ),
)


@pytest.mark.parametrize("weakening", WEAKENINGS, ids=lambda each: each.name)
def test_a_weakening_inside_a_reformatted_file_is_refused(
    weakening: Weakening, open_or_skip: Callable[[str], Project]
) -> None:
    project = open_or_skip(weakening.project)
    format_file(project, weakening.path)
    file = project.folder / weakening.path
    text = file.read_text(encoding="utf-8")
    assert text.count(weakening.before) >= 1
    file.write_text(text.replace(weakening.before, weakening.after, 1), encoding="utf-8")
    refusals = project.refusals(project.commit())
    assert {one.rule for one in refusals if one.path == weakening.path} & set(weakening.rules)
