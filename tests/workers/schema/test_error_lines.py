"""The first error lines of real logs, one file for each tool in `logs/`."""

from pathlib import Path

import pytest

from forgepool.workers.schema.error_lines import error_lines, excerpt, without_escapes

_LOGS = {path.stem: path for path in (Path(__file__).parent / "logs").rglob("*.log")}
_LONG = "test_name_is_long_enough_for_the_summary_line_to_be_cut"
_TEXT = "'a string that is long enough for pytest to cut the line of its short summary somewhere'"

FIRST = {
    "pytest": (
        "FAILED tests/test_calc.py::test_add - assert 0 == 4",
        f"FAILED tests/test_calc.py::{_LONG}[1] - AssertionError: assert 1 == {_TEXT}",
        f"FAILED tests/test_calc.py::{_LONG}[2] - AssertionError: assert 2 == {_TEXT}",
    ),
    "pytest_collection": ("ERROR tests/test_missing.py - ModuleNotFoundError: No module named 'nosuchmodule'",),
    "pytest_no_file": ("ERROR: file or directory not found: tests/nope.py",),
    "pytest_no_summary_colour": ("assert 0 == 4",),
    "pytest_usage": ("pytest: error: unrecognized arguments: --cov=src",),
    "unittest": (
        "ERROR: test_boom (ut.T.test_boom): KeyError: 'k'",
        "FAIL: test_add (ut.T.test_add): AssertionError: 0 != 4",
    ),
    "traceback": (
        "/repo/boom.py:3: KeyError: 'a'",
        "/repo/boom.py:8: RuntimeError: the settings have no 'a'",
    ),
    "no_module": ("/usr/bin/python3: No module named nosuchtool",),
    "sh_not_found": ("sh: 1: nosuchtool: not found",),
    "bash_not_found": ("bash: line 1: nosuchtool: command not found",),
    "ruff": (
        "src/calc.py:1:8: F401 [*] `os` imported but unused",
        "src/calc.py:2:8: F401 [*] `sys` imported but unused",
    ),
    "ruff_concise": (
        "src/calc.py:1:8: F401 [*] `os` imported but unused",
        "src/calc.py:2:8: F401 [*] `sys` imported but unused",
    ),
    "ruff_format": ("src/ugly.py:1:6: unformatted: File would be reformatted",),
    "mypy": ('src/calc.py:10: error: Incompatible return value type (got "int", expected "str")  [return-value]',),
    "pyright": ('/repo/src/calc.py:10:12 - error: Type "int" is not assignable to return type "str"',),
    "tsc": (
        "src/a.ts(1,14): error TS2322: Type 'string' is not assignable to type 'number'.",
        "src/a.ts(2,40): error TS2322: Type 'string' is not assignable to type 'number'.",
    ),
    "tsc_pretty": (
        "src/a.ts:1:14 - error TS2322: Type 'string' is not assignable to type 'number'.",
        "src/a.ts:2:40 - error TS2322: Type 'string' is not assignable to type 'number'.",
    ),
    "eslint": (
        "/repo/src/a.js:1:7 'unused' is assigned a value but never used no-unused-vars",
        "/repo/src/a.js:2:5 'foo' is not defined no-undef",
        "/repo/src/a.js:2:17 'bar' is not defined no-undef",
    ),
    "vitest": ("FAIL  src/a.test.mjs > adds: AssertionError: expected 2 to be 3 // Object.is equality",),
    "node_test": ("not ok 1 - adds: Expected values to be strictly equal:",),
    "go_build": ("./calc.go:3:37: undefined: c",),
    "go_vet": ("vet: ./calc.go:3:37: undefined: c",),
    "go_test": (
        "--- FAIL: TestAdd (0.00s): calc_test.go:9: Add(2, 2) = 0, want 4",
        "--- FAIL: TestTable/zero (0.00s): calc_test.go:14: no zero",
    ),
    "go_test_v": (
        "--- FAIL: TestAdd (0.00s): calc_test.go:9: Add(2, 2) = 0, want 4",
        "--- FAIL: TestTable/zero (0.00s): calc_test.go:14: no zero",
    ),
    "cargo_build": (
        "src/lib.rs:1:45: error[E0425]: cannot find value `b` in this scope",
        "src/lib.rs:2:24: error[E0308]: mismatched types",
    ),
    "cargo_test": ("thread 'tests::adds' (11721) panicked at src/lib.rs:4:25: assertion `left == right` failed",),
    "make": (
        "/repo/boom.py:3: KeyError: 'a'",
        "/repo/boom.py:8: RuntimeError: the settings have no 'a'",
    ),
    "make_no_rule": ("make: *** No rule to make target 'nope'.  Stop.",),
    "npm_missing_script": ('npm error Missing script: "lint"',),
    "npm_test": ("AssertionError [ERR_ASSERTION]: Expected values to be strictly equal: 2 !== 3",),
    "unknown": ("collecting", "Downloading 100%", "the tool gave up"),
}


def test_each_log_has_its_expectation() -> None:
    assert _LOGS.keys() == set(FIRST)


@pytest.mark.parametrize("name", sorted(FIRST))
def test_a_log_is_told_by_its_first_error_lines(name: str) -> None:
    assert error_lines(_LOGS[name].read_bytes().decode()) == FIRST[name]


@pytest.mark.parametrize("name", sorted(FIRST))
def test_colours_change_nothing(name: str) -> None:
    text = _LOGS[name].read_bytes().decode()
    coloured = "\n".join(f"\x1b[1;31m{line}\x1b[0m" for line in text.split("\n"))
    assert error_lines(coloured) == FIRST[name]


@pytest.mark.parametrize(
    ("log", "line"),
    [
        ("make: *** [Makefile:4: test] Error 1\n", "make: *** [Makefile:4: test] Error 1"),
        ("src/a.c:3:5: fatal error: a.h: No such file\n", "src/a.c:3:5: fatal error: a.h: No such file"),
        ("fatal: not a git repository\n", "fatal: not a git repository"),
        ("would reformat /repo/a.py\nAll done!\n", "would reformat /repo/a.py"),
        ("ERROR: /repo/a.py Imports are incorrectly sorted.\n", "ERROR: /repo/a.py Imports are incorrectly sorted."),
        ("FAIL Required test coverage of 90% not reached.\n", "FAIL Required test coverage of 90% not reached."),
        ("E   ModuleNotFoundError: No module named 'a'\n", "ModuleNotFoundError: No module named 'a'"),
    ],
)
def test_one_line_is_enough(log: str, line: str) -> None:
    assert error_lines(f"a step\n{log}") == (line,)


def test_the_line_that_fails_is_found_in_the_middle_of_what_passes() -> None:
    passing = "\n".join(f"tests/test_errors.py::test_error_{n} PASSED" for n in range(500))
    log = f"{passing}\nsrc/a.py:1: error: no\n{passing}\n"
    assert error_lines(log) == ("src/a.py:1: error: no",)


def test_a_test_of_the_same_name_lends_no_reason() -> None:
    """Two files have a `test_a`, and pytest's headings do not tell them apart."""
    section = "________ test_a ________\nE   assert 1\n"
    log = f"{section}{section}FAILED a.py::test_a\nFAILED b.py::test_a\n"
    assert error_lines(log) == ("FAILED a.py::test_a", "FAILED b.py::test_a")


@pytest.mark.parametrize("log", ["", "\n\n \n", "\x1b[0m\n"])
def test_an_empty_log_has_no_lines(log: str) -> None:
    assert error_lines(log) == ()


def test_a_long_line_is_cut() -> None:
    (line,) = error_lines("error: " + "x" * 100_000)
    assert len(line) == 300
    assert line.endswith("...")


def test_escapes_of_every_kind_are_taken_out() -> None:
    text = "\x1b]0;title\x07\x1b[1;31mred\x1b[0m \x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\ \x1b(B10%\r20%\r\nend\r\n"
    assert without_escapes(text) == "20%\nend\n"


def test_an_excerpt_keeps_the_first_errors_of_a_log_whose_end_lacks_them() -> None:
    log = "src/a.py:1: error: no\n" + "note: more\n" * 1_000
    kept = excerpt(log, 200)
    assert kept.startswith("src/a.py:1: error: no\n[...]\n")
    assert kept.endswith("note: more\n")
    assert len(kept) == 200
    assert error_lines(excerpt(kept, 100)) == ("src/a.py:1: error: no",)


@pytest.mark.parametrize("log", ["", "short\n", "x" * 5_000, "y\n" * 500 + "FAIL: t (a.t)\nTraceback", "\x1b[1m" * 900])
def test_an_excerpt_is_the_end_of_a_log_that_shows_its_errors(log: str) -> None:
    assert excerpt(log, 300) == log[-300:]
