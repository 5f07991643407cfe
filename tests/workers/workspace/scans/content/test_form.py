"""A change of form alone has no finding; a similar change of meaning has one."""

import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from stories import Stage, story

from forgepool.workers.workspace.scans.scanning import find_kept_out
from forgepool.workers.workspace.scans.source.spelling import in_one_spelling, is_same_code

_TWINS: list[dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("form.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("twins", _TWINS, ids=lambda twins: str(twins["name"]))
def test_form_alone_has_no_finding_and_its_twin_has_one(twins: dict[str, Any], stage: Stage) -> None:
    same = story(name="same", before=twins["before"], after=twins["same"])
    worse = story(name="worse", before=twins["before"], after=twins["worse"])
    none, some = stage.scan_all([same, worse])
    assert find_kept_out(none, reviewed=False) == ()
    assert twins["rule"] in {one.rule for one in find_kept_out(some, reviewed=False)}, some


_GONE = {
    "calc/old.py": "def add(a, b):\n    return a + b\n",
    "calc/new.py": "def sub(a, b):\n    return a - b\n",
    "tests/test_old.py": "from calc import old\n\n\ndef total():\n    return old.add(1, 2)\n\n\n"
    "def test_adds():\n    assert total() == 3\n",
}


def test_tests_that_go_with_their_module_want_attention_and_others_block(stage: Stage) -> None:
    together = story(name="a", before=_GONE, gone=["calc/old.py", "tests/test_old.py"])
    other = story(name="b", before=_GONE, gone=["calc/new.py", "tests/test_old.py"])
    found = [[(one.rule, one.weight) for one in stage.scan(each)] for each in (together, other)]
    assert found == [[("test-removed", "attention")], [("test-removed", "blocks")]]


def test_a_large_file_of_tests_is_compared_like_any_other(stage: Stage) -> None:
    text = "a text " * 60
    tests = "".join(f"def test_{n}():\n    assert f({n}, '{text}') == [{n}, {{'b': {n}}}]\n\n\n" for n in range(700))
    assert len(tests) > 300_000
    added = story(name="a", before={"tests/test_a.py": tests}, after={"tests/test_a.py": f"{tests}X = 1\n"})
    edited = story(
        name="b", before={"tests/test_a.py": tests}, after={"tests/test_a.py": tests.replace("'b': 77}", "'b': 78}")}
    )
    assert stage.scan(added) == ()
    assert [one.rule for one in stage.scan(edited)] == ["expected-edited"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = 1  # a end()\n", "x = 1  # a\rend()\n"),
        ("x = 1; end()\n", "x = 1;" + " " * 200 + "end()\n"),
        ("x = '\\u202e'\n", "x = '\u202e'\n"),
    ],
)
def test_what_layout_hides_from_a_reader_is_found(before: str, after: str, stage: Stage) -> None:
    found = stage.scan(story(name="a", before={"app.py": before}, after={"app.py": after}))
    assert find_kept_out(found, reviewed=False)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x = 1 + (2 * 3)\n", "x = (1 + 2) * 3\n"),
        ("x = ('a')\n", "x = ('a',)\n"),
        ("x = 'a'\n", "x = b'a'\n"),
        ("x = '\\n'\n", "x = r'\\n'\n"),
        ("def f():\n    '''\n    >>> 1\n    2\n    '''\n", "def f():\n    '''>>> 1 2'''\n"),
        ("if a:\n    b()\n    c()\n", "if a:\n    b()\nc()\n"),
        ("x = 1\n", "x = \n"),
        ("# x\na = 1\n", "# coding: utf-7\na = 1\n"),
    ],
)
def test_code_that_says_something_else_is_not_the_same(old: str, new: str) -> None:
    assert not is_same_code(old.encode(), new.encode())
    assert is_same_code(old.encode(), old.encode().replace(b"\n", b"\n\n")) or "'''" in old


@pytest.mark.parametrize(
    ("before", "same", "other"),
    [
        ('f(b"x");', 'f(\n    b"x",\n);', 'f("x");'),
        ('f("x");', 'f(\n    "x",\n);', 'f(c"x");'),
        ("let a: (i32,) = g();", "let a: (i32,) =\n    g();", "let a: (i32) = g();"),
        ("let (a,) = g();", "let (a,) =\n    g();", "let (a) = g();"),
        ("f((a, b));", "f((\n    a,\n    b,\n));", "f((a, c));"),
    ],
)
def test_rust_that_says_something_else_is_not_layout(before: str, same: str, other: str, stage: Stage) -> None:
    was, *become = (f"fn a() {{\n    {text}\n}}\n" for text in (before, same, other))
    subjects = [stage.subject(story(name="a", before={"a.rs": was}, after={"a.rs": text})) for text in become]
    assert [bool(one.same_code) for one in subjects] == [True, False]


@pytest.mark.parametrize(
    "text", ["-" * 100_000 + "1", "a" + ".b" * 100_000, "if a:\n pass\n" + "elif b:\n pass\n" * 50_000]
)
def test_what_is_nested_too_deeply_has_no_spelling(text: str) -> None:
    assert in_one_spelling(text.encode()) is None
    assert not is_same_code(text.encode(), text.encode())


def test_an_f_string_with_too_many_fields_has_no_spelling() -> None:
    """Python 3.11 would need half a minute for it."""
    assert in_one_spelling(b"x = f'" + b"{a}" * 100_000 + b"'\n") is None
    assert in_one_spelling(b"# '''\nx = f'''" + b"{a}\n" * 100_000 + b"'''\n") is None


def test_lines_of_the_one_spelling_are_those_of_the_source() -> None:
    source = (
        b'"""Tests."""\n\n# One.\n\n\ndef test_a():\n    """It adds."""\n'
        b"    assert (\n        f(1)\n        == 2\n    )\n    self.assertEqual(\n        a, b)\n"
    )
    spelled = in_one_spelling(source)
    assert spelled is not None
    assert spelled.text.split(b"\n") == [b"def test_a():", b"    assert f(1) == 2", b"    assert a == b"]
    assert [spelled.line(number) for number in (1, 2, 3)] == [6, 8, 12]


def test_very_many_silences_whose_statements_change_at_once_count_as_new_and_cost_no_time(stage: Stage) -> None:
    before = "".join(f"x{n} = g({n})  # type: ignore\n" for n in range(3_000))
    after = before.replace(")  #", ", 1)  #")
    begun = time.process_time()
    many = stage.scan(story(name="a", before={"app.py": before}, after={"app.py": after}))
    assert time.process_time() - begun < 30
    assert {one.rule for one in many} == {"type-bypass"}
    few = story(name="b", before={"app.py": before}, after={"app.py": before.replace("9)  #", "9, 1)  #", 50)})
    assert stage.scan(few) == ()
