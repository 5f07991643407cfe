import pytest

from forgepool.workers.tools.commands.runners import find_failed_runner, looks_broken, plain, why_broken


@pytest.mark.parametrize(
    ("output", "runner"),
    [
        ("===== 1 failed, 2 passed in 0.12s =====", "pytest"),
        ("12 failed, 1 error in 61.10s (0:01:01)", "pytest"),
        ("FAILED tests/test_a.py::test_x - assert 1 == 2", "pytest"),
        ("Ran 3 tests in 0.001s\n\nFAILED (failures=1)", "unittest"),
        ("Ran 3 tests in 0.001s\n\nFAILED (errors=1)", "unittest"),
        ("--- FAIL: TestShelf (0.00s)\n    shelf_test.go:9: got 1\nFAIL", "go test"),
        ("test result: FAILED. 3 passed; 1 failed; 0 ignored", "cargo test"),
        ("Tests:       1 failed, 4 passed, 5 total", "jest or vitest"),
        ("      Tests  2 failed | 3 passed (5)", "jest or vitest"),
        ("  1 passing (5ms)\n  1 failing", "mocha"),
        ("ℹ tests 2\nℹ fail 1", "node"),
        ("ok 1 - a\nnot ok 2 - b", "TAP"),
        ("Tests run: 3, Failures: 0, Errors: 1, Skipped: 0", "Maven"),
        ("3 tests completed, 1 failed", "Gradle"),
        ("2 examples, 1 failure", "RSpec"),
        ("Tests: 2, Assertions: 2, Failures: 1.", "PHPUnit"),
        ("4 runs, 4 assertions, 1 failures, 0 errors, 0 skips", "minitest"),
        ("Failed!  - Failed:     1, Passed:     0", "dotnet"),
        ("0% tests passed, 1 tests failed out of 1", "ctest"),
        ("3 passed in 0.10s", None),
        ("0 failed in 0.1s", None),
        ("2 errors in 0.10s", None),
        ("not ok 1 - b # TODO later", None),
        ("Tests:       0 total", None),
        ("test result: ok. 3 passed; 0 failed", None),
        ("Tests run: 3, Failures: 0, Errors: 0", None),
        ("Ran 1 test in 0.0s\n\nImportError: Failed to import test module: x\n\nFAILED (errors=1)", None),
        ("", None),
    ],
)
def test_a_failed_test_is_known_by_its_runner_s_words(output: str, runner: str | None) -> None:
    assert find_failed_runner(output) == runner


@pytest.mark.parametrize(
    ("output", "why"),
    [
        ("!!!! Interrupted: 1 error during collection !!!!", "the tests could not be collected"),
        ("______ ERROR collecting test_x.py ______", "the tests could not be collected"),
        ("ERROR: file or directory not found: x", "pytest was called wrongly"),
        ("INTERNALERROR> Traceback", "pytest itself broke"),
        ("no tests ran in 0.01s", "no test was collected"),
        ("collected 0 items", "no test was collected"),
        ("Ran 0 tests in 0.000s", "no test was collected"),
        ("No tests found, exiting with code 1", "no test was found"),
        ("?   \texample.com/a\t[no test files]", "no test was found"),
        ("ImportError: Failed to import test module: test_x", "a test module could not be imported"),
        ("FAIL\texample.com/a [build failed]", "the tests could not be built"),
        ("error: could not compile `a` (lib test)", "the tests could not be built"),
        ("[ERROR] COMPILATION ERROR :", "the tests could not be built"),
        ("  ● Test suite failed to run", "a test file could not be loaded"),
        ("== 1 passed, 2 errors in 0.01s ==", "a test's preparation broke"),
        ("1 failed in 0.1s", None),
        ("assert 'a' == 'b'", None),
    ],
)
def test_a_run_that_broke_is_known_by_its_words(output: str, why: str | None) -> None:
    assert why_broken(output) == why


@pytest.mark.parametrize(
    ("output", "broken"),
    [
        ("Traceback ...\nModuleNotFoundError: No module named 'x'", True),
        ("  File 'x.py', line 1\nSyntaxError: invalid syntax", True),
        ("Error: Cannot find module './x'", True),
        ("./t.sh: line 1: syntax error near unexpected token", True),
        ("sh: 1: foo: not found", True),
        ("AssertionError: 1 != 2", False),
        ("expected a SyntaxError, got none", False),
    ],
)
def test_a_script_that_broke_looks_like_it(output: str, broken: bool) -> None:
    assert looks_broken(output) is broken


def test_colours_do_not_hide_the_words() -> None:
    """Some runners always print colours."""
    assert find_failed_runner(plain("\x1b[31m\x1b[1m1 failed\x1b[0m\x1b[31m in 0.02s\x1b[0m\r\n")) == "pytest"
