"""Test runs lose only lines that say nothing about a failure, and failures stay unchanged."""

import re
from dataclasses import dataclass

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from forgepool.workers.context.shorten.testlogs import without_passed


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A runner's output in three parts, and what must not be in the reduced form."""

    name: str
    before: str
    failure: str
    after: str
    noise: tuple[str, ...]

    @property
    def text(self) -> str:
        return self.before + self.failure + self.after


PYTEST_HEAD = """\
============================= test session starts ==============================
platform linux -- Python 3.12.1, pytest-8.3.3, pluggy-1.5.0
rootdir: /repo
configfile: pyproject.toml
plugins: cov-5.0.0, hypothesis-6.1
collected 4 items

tests/test_a.py ..                                                       [ 50%]
tests/test_b.py .F                                                       [100%]
"""
PYTEST_FAILURE = """\
=================================== FAILURES ===================================
_________________________________ test_nested __________________________________

    def test_nested(runner):
>       assert runner.run("inner") == 0
E       assert 1 == 0

tests/test_b.py:7: AssertionError
----------------------------- Captured stdout call -----------------------------
============================= test session starts ==============================
platform linux -- Python 3.12.1, pytest-8.3.3, pluggy-1.5.0
collected 2 items

inner.py .F                                                              [100%]
.F.                                                                      [100%]
inner.py::test_one PASSED                                                [ 50%]

=============================== warnings summary ===============================
inner.py:1
  /repo/inner.py:1: DeprecationWarning: inner

-- Docs: https://docs.pytest.org/en/stable/how-to/capture-warnings.html
=========================== short test summary info ============================
FAILED inner.py::test_two
==================== 1 failed, 1 passed, 1 warning in 0.01s ====================
"""
PYTEST_WARNINGS = """\
=============================== warnings summary ===============================
tests/test_a.py::test_one
  /repo/a.py:3: DeprecationWarning: outer is going away
    import outer

-- Docs: https://docs.pytest.org/en/stable/how-to/capture-warnings.html
"""
PYTEST_TAIL = """\
=========================== short test summary info ============================
FAILED tests/test_b.py::test_nested - assert 1 == 0
==================== 1 failed, 3 passed, 1 warning in 0.12s ====================
"""
PYTEST = Run(
    name="pytest",
    before=PYTEST_HEAD,
    failure=PYTEST_FAILURE,
    after=PYTEST_WARNINGS + PYTEST_TAIL,
    noise=("rootdir", "test_a.py ..", "outer is going away", "plugins:"),
)
VERBOSE = Run(
    name="pytest -v with workers",
    before="created: 2/2 workers\n2 workers [3 items]\n"
    "[gw0] [ 33%] PASSED tests/test_a.py::test_one \n"
    "tests/test_a.py::test_two PASSED                                         [ 66%]\n"
    "[gw1] [100%] FAILED tests/test_b.py::test_three \n",
    failure="=================================== FAILURES ===================================\n"
    "__________ test_three __________\nE   assert PASSED\ntests/test_c.py::test_four PASSED\n",
    after="========================= 1 failed, 2 passed in 0.52s ==========================\n",
    noise=("test_one", "test_two", "workers"),
)
UNITTEST = Run(
    name="unittest",
    before="Creating test database for alias 'default'...\nSystem check identified no issues (0 silenced).\n"
    "/repo/a.py:5: RemovedInNextWarning: going away\n  import a\n"
    "test_first (tests.test_a.Tests) ... ok\n"
    "test_described (tests.test_a.Tests)\nIt adds one and one. ... ok\n"
    "test_second (tests.test_a.Tests) ... FAIL\n..s....\n\n\n\n",
    failure="=" * 70 + "\nFAIL: test_second (tests.test_a.Tests)\n" + "-" * 70 + "\n"
    "Traceback (most recent call last):\n"
    '  File "tests/test_a.py", line 9, in test_second\n    self.assertEqual(run(), "..")\n'
    "AssertionError: 'x' != '..'\n\n\n\nCreating test database for alias 'inner'...\n....\n\n" + "-" * 70 + "\n"
    "Ran 1 test in 0.001s\n\nOK\n"
    "test_inner (tests.test_a.Tests) ... ok\n\n",
    after="-" * 70
    + "\nRan 3 tests in 0.004s\n\nFAILED (failures=1)\nDestroying test database for alias 'default'...\n",
    noise=("alias 'default'", "System check", "test_first", "It adds one", "test_described", "..s....", "going away"),
)
JEST = Run(
    name="jest",
    before="PASS src/a.test.js\n  adding\n    ✓ adds one (2 ms)\n    ✓ adds two\n\n",
    failure="FAIL src/b.test.js\n  taking\n    ✓ takes one\n    ✕ takes two (4 ms)\n\n"
    "  ● taking › takes two\n\n    expect(received).toBe(expected)\n\n    Expected: 1\n    Received: 2\n\n"
    "      at Object.<anonymous> (src/b.test.js:5:13)\n\nPASS src/inner.js\n",
    after="Test Suites: 1 failed, 1 passed, 2 total\nTests:       1 failed, 3 passed, 4 total\n",
    noise=("src/a.test.js", "adds one", "adds two"),
)
VITEST = Run(
    name="vitest",
    before=" ✓ src/a.test.ts (3 tests) 5ms\n ❯ src/b.test.ts (2 tests | 1 failed) 8ms\n   × takes two\n",
    failure="⎯⎯⎯⎯⎯⎯⎯ Failed Tests 1 ⎯⎯⎯⎯⎯⎯⎯\n FAIL  src/b.test.ts > takes two\n"
    "AssertionError: expected 2 to be 1\n ✓ inner\n",
    after=" Test Files  1 failed | 1 passed (2)\n      Tests  1 failed | 4 passed (5)\n",
    noise=("src/a.test.ts",),
)
GO = Run(
    name="go test -v",
    before="=== RUN   TestOne\n--- PASS: TestOne (0.00s)\n=== RUN   TestTwo\n=== PAUSE TestTwo\n",
    failure="=== RUN   TestThree\n    a_test.go:9: looking\n=== RUN   TestThree/inner\n"
    "    a_test.go:12: got 1, want 2\n--- FAIL: TestThree (0.00s)\n    --- PASS: TestThree/other (0.00s)\n"
    "    --- FAIL: TestThree/inner (0.00s)\n",
    after="FAIL\nFAIL\texample.com/a\t0.003s\n?   \texample.com/b\t[no test files]\nok  \texample.com/c\t0.002s\nFAIL\n"
    "=== RUN   TestLast\n--- PASS: TestLast (0.00s)\n",
    noise=("TestOne", "TestTwo", "TestLast"),
)
CARGO = Run(
    name="cargo test",
    before="   Compiling a v0.1.0 (/repo)\n     Running unittests src/lib.rs (target/debug/deps/a-1)\n\n"
    "running 3 tests\ntest tests::one ... ok\ntest tests::two ... ok\ntest tests::three ... FAILED\n\n",
    failure="failures:\n\n---- tests::three stdout ----\nthread 'tests::three' panicked at src/lib.rs:9:9:\n"
    "assertion `left == right` failed\n  left: 1\n right: 2\nrunning 1 test\ntest inner ... ok\n"
    "test result: FAILED. 0 passed; inner\n\nfailures:\n    tests::three\n\n",
    after="test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\n"
    "running 1 test\ntest tests::four ... ok\n",
    noise=("Compiling", "tests::one", "tests::two", "tests::four", "Running"),
)
TAP = Run(
    name="TAP",
    before="TAP version 13\nok 1 - adds one\n  ---\n  duration_ms: 1\n  ...\nok 2 - adds two # SKIP no network\n",
    failure="not ok 3 - takes one\n  ---\n  message: |\n    ok 9 - is no line of ours\n  ...\n"
    "#   Failed test 'takes one'\n",
    after="ok 4 - takes two\n1..4\n# failed 1 of 4\n",
    noise=("adds one", "duration_ms", "takes two"),
)
RUNS = (PYTEST, VERBOSE, UNITTEST, JEST, VITEST, GO, CARGO, TAP)


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_a_failure_stays_to_the_letter_and_noise_falls_away(run: Run) -> None:
    reduced = without_passed(run.text)
    assert reduced is not None
    assert run.failure in reduced
    assert [word for word in run.noise if word in reduced] == []
    assert all(re.search(rf"(?m)^{re.escape(line)}$", run.text) for line in reduced.split("\n"))


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_how_a_run_ended_is_still_told(run: Run) -> None:
    told = {
        "pytest": "1 failed, 3 passed, 1 warning in 0.12s",
        "pytest -v with workers": "1 failed, 2 passed in 0.52s",
        "unittest": "FAILED (failures=1)",
        "jest": "Tests:       1 failed, 3 passed, 4 total",
        "vitest": "Tests  1 failed | 4 passed (5)",
        "go test -v": "FAIL\texample.com/a\t0.003s",
        "cargo test": "test result: FAILED. 2 passed; 1 failed",
        "TAP": "# failed 1 of 4",
    }
    assert told[run.name] in (without_passed(run.text) or "")


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_a_failure_behind_a_cut_stays(run: Run) -> None:
    """If the middle of an output is missing, the section of the rest is unknown."""
    rest = run.failure.split("\n", 3)[-1]
    cut = f"{run.before}[4,000 bytes in all; the middle is left out. It could not be kept]\n{rest}{run.after}"
    assert rest in (without_passed(cut) or cut)


def test_a_summary_of_warnings_is_kept_where_a_failure_may_stand_in_it() -> None:
    cut = PYTEST_WARNINGS.replace("    import outer\n", "[the middle is left out]\nE   assert of another failure\n")
    text = PYTEST_HEAD + PYTEST_FAILURE + cut + PYTEST_TAIL
    assert "E   assert of another failure" in (without_passed(text) or text)


def test_only_the_runs_own_summary_of_warnings_falls_away() -> None:
    """If the run has no warnings, a failing test that prints such a summary is the last to do so."""
    text = PYTEST_HEAD + PYTEST_FAILURE + PYTEST_TAIL.replace(", 1 warning", "")
    assert PYTEST_FAILURE in (without_passed(text) or "")


def test_where_a_cut_stood_is_still_told() -> None:
    """The note names the file with all of it."""
    note = "[4,000 bytes in all; the middle is left out. All of it: read_file or grep /out/1]"
    warnings = PYTEST_WARNINGS.replace("    import outer", note)
    reduced = without_passed(PYTEST_HEAD.replace(".F", "..") + warnings + "=== 4 passed, 1 warning in 0.12s ===\n")
    assert reduced is not None
    assert note in reduced
    assert "DeprecationWarning" not in reduced


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no tests here, 3 of them failed\n" * 20,
        "ok 1 of the things\nok 2 of them\n",
        PYTEST.text + JEST.text,
        "class Passed:\n    ...\n",
    ],
)
def test_what_is_not_known_or_not_one_run_is_left_alone(text: str) -> None:
    assert without_passed(text) is None


@pytest.mark.parametrize("line", ["collected 0 items", "collected 3 items / 1 error", "tests/test_b.py ..F. [100%]"])
def test_a_line_that_says_something_is_wrong_is_no_noise(line: str) -> None:
    text = PYTEST_HEAD + line + "\n========= no tests ran in 0.01s =========\n"
    assert line in (without_passed(text) or "").split("\n")


def test_all_behind_an_unexpected_end_stays() -> None:
    crash = "Traceback (most recent call last):\n  File 'run.py', line 3\ncollected 3 items\nKeyError: 'x'\n"
    assert crash in (without_passed(PYTEST_HEAD + crash + "===== 1 passed in 0.1s =====\n") or "")


def test_a_test_that_was_left_out_on_purpose_is_still_told() -> None:
    assert "ok 2 - adds two # SKIP no network" in (without_passed(TAP.text) or "")


def test_details_of_a_passed_test_end_where_the_next_line_begins() -> None:
    """This holds even if nothing closes them."""
    assert TAP.failure in (without_passed(TAP.text.replace("  ...\nok 2", "ok 2")) or "")


def test_long_outputs_are_read_once() -> None:
    """Each of these once took more than linear time and would not end here."""
    unclosed = "ok 1\n  ---\n" + "  x\n" * 20_000
    assert without_passed(f"{unclosed}ok 2\n1..2\n") == "  ---\n" + "  x\n" * 20_000 + "1..2\n"
    assert without_passed("\n" * 100_000 + "Test Suites: 1 passed, 1 total\n") == "\n\nTest Suites: 1 passed, 1 total\n"


LINES = st.lists(st.sampled_from([line for run in RUNS for line in run.text.split("\n")]), max_size=30)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(RUNS), LINES)
def test_whatever_a_failing_test_prints_stays(run: Run, printed: list[str]) -> None:
    """This includes lines of other runs and ends of sections. The last end is the run's own."""
    assume(run is not TAP)
    opening, rest = run.failure.split("\n", 1)
    if run is UNITTEST:
        heading, rest = rest.split("\n", 1)
        opening = f"{opening}\n{heading}"
    section = "\n".join([opening, *printed, rest])
    reduced = without_passed(run.before + section + run.after)
    assert reduced is None or section in reduced


@settings(max_examples=300, deadline=None)
@given(LINES)
def test_lines_fall_away_and_nothing_else_happens_to_them(lines: list[str]) -> None:
    text = "\n".join(lines)
    rest = iter(lines)
    assert all(line in rest for line in (without_passed(text) or "").split("\n") if line)
