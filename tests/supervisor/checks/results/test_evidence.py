"""RunEvidence that a run's output and report give."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from judged_runs import report

from forgepool.supervisor.checks.results.evidence import Counted, RunEvidence, of_run, runners_in
from forgepool.supervisor.checks.results.reports import Collected
from forgepool.workers.sandbox.run.process import Ended

SUMMARIES = [
    ("2 failed, 4 passed, 1 skipped, 1 xfailed, 2 errors, 1 subtests passed in 0.15s", "pytest", 9, 4),
    ("=== 3 passed, 1 warning in 12.00s (0:00:12) ===", "pytest", 3, 0),
    ("5 skipped in 0.01s", "pytest", 0, 0),
    ("no tests ran in 0.01s", "pytest", 0, 0),
    ("Ran 3 tests in 0.001s\n\nFAILED (failures=1, errors=1)", "unittest", 3, 2),
    ("Ran 0 tests in 0.000s\n\nOK", "unittest", 0, 0),
    ("ok  \texample.com/m\t0.002s\n?   \texample.com/n\t[no test files]", "go test", None, 0),
    ("?   \texample.com/m\t[no test files]", "go test", 0, 0),
    ("ok  \texample.com/m\t0.002s [no tests to run]", "go test", 0, 0),
    ("--- FAIL: TestX (0.00s)\nFAIL\nFAIL\texample.com/m\t0.1s", "go test", None, 1),
    ("test result: ok. 3 passed; 0 failed; 1 ignored;\ntest result: FAILED. 1 passed; 2 failed;", "cargo test", 6, 2),
    ("     Summary [   0.01s] 3 tests run: 2 passed, 1 failed, 0 skipped", "nextest", 3, 1),
    ("Tests:       1 failed, 1 skipped, 2 passed, 4 total", "jest or vitest", 3, 1),
    ("      Tests  2 passed | 1 failed (3)", "jest or vitest", 3, 1),
    ("No tests found, exiting with code 0", "jest or vitest", 0, 0),
    ("  5 passing (10ms)\n  1 failing", "mocha", 6, 1),
    ("  0 passing (1ms)", "mocha", 0, 0),
    ("# tests 4\n# pass 3\n# fail 1", "node", 4, 1),
    (
        "Tests run: 3, Failures: 1, Errors: 0, Skipped: 0, Time elapsed: 1 s - in A\n"
        "[ERROR] Tests run: 3, Failures: 1, Errors: 1, Skipped: 0",
        "Maven",
        3,
        2,
    ),
    ("3 examples, 1 failure", "RSpec", 3, 1),
    ("OK (3 tests, 4 assertions)", "PHPUnit", 3, 0),
    ("Tests: 3, Assertions: 2, Errors: 1, Failures: 1.", "PHPUnit", 3, 2),
    ("3 runs, 4 assertions, 1 failures, 1 errors, 0 skips", "minitest", 3, 2),
    ("Failed!  - Failed:     1, Passed:     4, Skipped: 0, Total: 5", "dotnet", 5, 1),
    ("80% tests passed, 1 tests failed out of 5", "ctest", 5, 1),
    ("No tests were found!!!", "ctest", 0, 0),
]


@pytest.mark.parametrize(("output", "runner", "ran", "failing"), SUMMARIES)
def test_each_runners_summary_gives_the_tests_that_ran_and_failed(
    output: str, runner: str, ran: int | None, failing: int
) -> None:
    assert runners_in(f"before\n{output}\nafter\n")[runner] == Counted(ran=ran, failing=failing)


@pytest.mark.parametrize(
    "output", ["All checks passed!", "Success: no issues found in 3 source files", "make: Nothing to be done", ""]
)
def test_output_of_a_command_without_tests_shows_no_runner(output: str) -> None:
    assert runners_in(output) == {}


def ended(folder: Path, output: str) -> Ended:
    log = folder / "log"
    log.write_text(output)
    return Ended(how="exit", status=0, seconds=1, head="", tail=output[-100:], output_bytes=1, dropped_bytes=0, log=log)


def test_evidence_is_made_of_the_report_and_the_output(tmp_path: Path) -> None:
    """The report counts the tests that ran. The output is read as well, with colours removed."""
    run = ended(tmp_path, "\x1b[32m1 failed, 2 passed\x1b[0m in 0.1s\r\n")
    found = of_run(run, Collected(report=report(["a"], ["b"], ["c"])))
    assert (found.tests, found.runners, found.failing) == (2, ("pytest",), 1)
    assert of_run(run, Collected(faults=("x",))) == RunEvidence(faults=("x",), runners=("pytest",), tests=3, failing=1)


def test_a_runner_that_ran_no_tests_is_no_evidence(tmp_path: Path) -> None:
    found = of_run(ended(tmp_path, "no tests ran in 0.01s\n"), Collected())
    assert (found.tests, found.runners) == (0, ())
    assert of_run(ended(tmp_path, "error: no test files found\n"), Collected()).tests == 0
    both = of_run(ended(tmp_path, "no tests ran in 0.01s\n# pass 3\n# fail 0\n"), Collected())
    assert (both.tests, both.runners) == (3, ("node",))


@pytest.mark.parametrize("output", ["All checks passed!\n", "ok  \texample.com/m\t0.002s\n"])
def test_a_number_that_the_output_does_not_give_is_unknown(tmp_path: Path, output: str) -> None:
    assert of_run(ended(tmp_path, output), Collected()).tests is None


def test_a_summary_far_above_the_end_is_found(tmp_path: Path) -> None:
    """Another command may write much after the runner's summary."""
    found = of_run(ended(tmp_path, "3 passed in 0.1s\n" + "compiling\n" * 100_000), Collected())
    assert found.runners == ("pytest",)


@pytest.mark.parametrize(
    "output",
    ["1 a, " * 100_000, "1 a1 " * 100_000, "=" * 500_000, "Tests run: 1, " * 50_000, "ok " * 200_000, " " * 500_000],
)
def test_a_hostile_output_is_read_in_linear_time(output: str) -> None:
    """A backtracking pattern would not end."""
    assert "pytest" not in runners_in(output)


def test_a_real_run_that_stops_early_is_recognised(tmp_path: Path) -> None:
    """pytest's own message says so."""
    (tmp_path / "test_a.py").write_text("def test_a():\n    assert 0\n\ndef test_b():\n    pass\n")
    for options, short in (([], False), (["-x"], True)):
        words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--disable-plugin-autoload", *options]
        said = subprocess.run(words, cwd=tmp_path, env=dict(os.environ), capture_output=True, text=True).stdout
        assert of_run(ended(tmp_path, said), Collected()).cut_short is short, said


def test_a_log_that_is_gone_gives_empty_evidence(tmp_path: Path) -> None:
    run = ended(tmp_path, "3 passed in 0.1s")
    run.log.unlink()
    assert of_run(run, Collected()) == RunEvidence()


def test_evidence_survives_being_written_and_read_back() -> None:
    found = RunEvidence(report=report(["a"], ["b[é]"]), faults=("x",), tests=2)
    assert RunEvidence.model_validate_json(found.encode()) == found
