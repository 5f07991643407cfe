"""Runs of checks as values, with short functions that make them."""

from collections.abc import Iterable

from forgepool.supervisor.checks.results.evidence import RunEvidence
from forgepool.supervisor.checks.results.judging import Ran
from forgepool.supervisor.checks.results.reports import Outcome, ReportedCase, SuiteReport

TESTS = "tests/test_a.py"


def case(name: str, outcome: Outcome, file: str = TESTS) -> ReportedCase:
    return ReportedCase(id=f"{file}::{name}", outcome=outcome, file=file)


def report(passed: Iterable[str] = (), failed: Iterable[str] = (), skipped: Iterable[str] = ()) -> SuiteReport:
    failed = tuple(failed)
    cases = (
        *(case(name, "passed") for name in passed),
        *(case(name, "failed") for name in failed),
        *(case(name, "skipped") for name in skipped),
    )
    return SuiteReport(cases=cases, failures=len(failed))


def told(
    passed: Iterable[str] = (), failed: Iterable[str] = (), skipped: Iterable[str] = (), *, cut_short: bool = False
) -> Ran:
    """Return a run of pytest that reported these tests."""
    passed, failed = tuple(passed), tuple(failed)
    return Ran(
        how="exit",
        status=1 if failed else 0,
        evidence=RunEvidence(
            report=report(passed, failed, skipped),
            runners=("pytest",),
            tests=len(passed) + len(failed),
            failing=len(failed),
            cut_short=cut_short,
        ),
    )


def untold(status: int = 0, *, tests: int | None = None, runners: tuple[str, ...] = (), failing: int = 0) -> Ran:
    """Return a run without a report."""
    return Ran(how="exit", status=status, evidence=RunEvidence(runners=runners, tests=tests, failing=failing))
