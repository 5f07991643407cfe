"""
Evidence that a command did its work: its report, and its runner's own lines in the output.

A build or a linter has no such evidence, and none is required. The comparison with the target's tip, in `judging`,
decides what is required; this module reads one run. Code that the command runs can forge both output and report. So
evidence can weaken an exit status, and never strengthen it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from forgepool.supervisor.checks.results.problems import UnreadableOutput, report_of_problems
from forgepool.supervisor.checks.results.reports import Collected, ReportOptions, SuiteReport, collect
from forgepool.workers.sandbox.run.process import Ended
from forgepool.workers.schema.orders import Message
from forgepool.workers.tools.commands.runners import find_failed_runner, find_passed_runner, plain, why_broken

_MOST_BYTES = 2 * 1024 * 1024
_MOST_BYTES_OF_PROBLEMS = 64 * 1024 * 1024
_NO_TESTS = ("no test was collected", "no test was found")


class RunEvidence(Message):
    """The evidence of one run."""

    report: SuiteReport | None = None
    faults: tuple[str, ...] = ()
    """Why reports that are there say nothing, a sentence each."""
    runners: tuple[str, ...] = ()
    """Test runners that say in the output that they ran some test."""
    tests: int | None = None
    """How many tests ran; None where nothing tells, as of a build."""
    failing: int = 0
    """How many of them failed, by the summaries in the output, as far as these tell."""
    cut_short: bool = False
    """The runner says that it stopped at a failure: what is behind it never ran."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """A runner's count of its tests; None if it only shows that there were some."""

    ran: int | None
    failing: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Summary:
    """Lines in which a runner sums up, and the numbers in them, which are added."""

    line: str
    ran: str
    failing: str


_SUMMARIES = {
    "pytest": _Summary(
        line=r"^=* ?(?:\d+ [a-z]+(?: [a-z]+)?(?:, \d+ [a-z]+(?: [a-z]+)?)*|no tests ran) in \d[\d.]*s.*$",
        ran=r"(\d+) (?:passed|failed|errors?|xpassed|xfailed)\b",
        failing=r"(\d+) (?:failed|errors?)\b",
    ),
    "unittest": _Summary(
        line=r"^Ran \d+ tests? in .*$|^FAILED \(.*\)$",
        ran=r"^Ran (\d+) ",
        failing=r"\b(?:failures|errors)=(\d+)",
    ),
    "cargo test": _Summary(line=r"^test result: .*$", ran=r"\b(\d+) (?:passed|failed);", failing=r"\b(\d+) failed;"),
    "nextest": _Summary(
        line=r"^[ \t]*Summary \[.*$", ran=r"\b(\d+) tests? run\b", failing=r"\b(\d+) (?:failed|timed out)\b"
    ),
    "jest or vitest": _Summary(
        line=r"^[ \t]*Tests:?[ \t]+\d.*$|^No tests? (?:files? )?found\b.*$",
        ran=r"\b(\d+) (?:passed|failed)\b",
        failing=r"\b(\d+) failed\b",
    ),
    "mocha": _Summary(line=r"^[ \t]*\d+ (?:passing|failing)\b.*$", ran=r"(\d+) ", failing=r"(\d+) failing"),
    "node": _Summary(line=r"^(?:#|ℹ) (?:pass|fail) \d+$", ran=r" (\d+)$", failing=r"fail (\d+)$"),
    "Maven": _Summary(
        line=r"Tests run: \d+, Failures: \d+, Errors: \d+, Skipped: \d+[ \t]*$",
        ran=r"Tests run: (\d+)",
        failing=r"(?:Failures|Errors): (\d+)",
    ),
    "RSpec": _Summary(line=r"^\d+ examples?, .*$", ran=r"^(\d+) ", failing=r"(\d+) failures?"),
    "PHPUnit": _Summary(
        line=r"^OK \(\d+ tests?.*$|^Tests: \d+, .*$|^No tests executed!",
        ran=r"(?:\(|Tests: )(\d+)",
        failing=r"(?:Failures|Errors): (\d+)",
    ),
    "minitest": _Summary(
        line=r"^\d+ (?:runs|tests), \d+ assertions, .*$", ran=r"^(\d+) ", failing=r"(\d+) (?:failures|errors)"
    ),
    "dotnet": _Summary(
        line=r"^[ \t]*(?:Passed|Failed)! +- +Failed: +\d+, .*$",
        ran=r"(?:Failed|Passed): +(\d+)",
        failing=r"Failed: +(\d+)",
    ),
    "ctest": _Summary(
        line=r"^\d+% tests passed, .*$|^No tests were found!+$", ran=r"out of (\d+)", failing=r"(\d+) tests? failed"
    ),
}
_GO_PACKAGE = re.compile(r"^(?:ok[ \t]+|FAIL\t|\?[ \t]+|-{3} FAIL: )\S.*$", re.MULTILINE)
_GO_EMPTY = re.compile(r"\[no tests to run\]|\[no test files\]")
_GO_FAILED = re.compile(r"^--- FAIL: ", re.MULTILINE)
_CUT_SHORT = re.compile(
    r"^!+ (?:stopping after |xdist\.dsession\.Interrupted: |Interrupted: |_pytest\.outcomes\.Exit)", re.M
)


def of_run(ended: Ended, collected: Collected) -> RunEvidence:
    """Return the evidence of a command that has ended, from its report and the last 2 MiB of its log."""
    output = plain(_tail(ended.log, _MOST_BYTES).decode(errors="replace"))
    counted = runners_in(output)
    report = collected.report
    return RunEvidence(
        report=report,
        faults=collected.faults,
        runners=tuple(sorted(runner for runner, said in counted.items() if said.ran != 0)),
        tests=len(report.ids("passed", "failed")) if report and not report.problems else _tests(counted, output),
        failing=sum(said.failing for said in counted.values()),
        cut_short=_CUT_SHORT.search(output) is not None,
    )


def of_asked(ended: Ended, asked: ReportOptions) -> RunEvidence:
    """The same, of a command that was asked for reports; where none tells tests, a baseline has its findings read."""
    collected = collect(asked)
    if not asked.baseline or collected.report is not None or ended.how != "exit" or ended.status is None:
        return of_run(ended, collected)
    try:
        log = _tail(ended.log, _MOST_BYTES_OF_PROBLEMS).decode(errors="replace")
        report = report_of_problems(plain(log), collected.documents, ended.status, str(asked.checkout))
    except UnreadableOutput as wrong:
        faults = (*collected.faults, f"its output {wrong}")
        return of_run(ended, Collected(faults=faults))
    if collected.faults:
        return of_run(ended, collected)
    return of_run(ended, Collected(report=report))


def runners_in(output: str) -> dict[str, Counted]:
    """
    Every runner that sums up in an output (`workers.tools.commands.runners.plain`), and how many tests it says ran.
    """
    found = dict(_summed_up(output))
    if (packages := _GO_PACKAGE.findall(output)) and "go test" not in found:
        ran = None if any(not _GO_EMPTY.search(line) for line in packages) else 0
        found["go test"] = Counted(ran=ran, failing=len(_GO_FAILED.findall(output)))
    for runner in (find_failed_runner(output), find_passed_runner(output)):
        if runner is not None:
            found.setdefault(runner, Counted(ran=None, failing=0))
    return found


def _summed_up(output: str) -> Iterator[tuple[str, Counted]]:
    for runner, words in _SUMMARIES.items():
        lines = re.findall(words.line, output, re.MULTILINE)
        if lines:
            yield runner, Counted(ran=_sum(words.ran, lines), failing=_sum(words.failing, lines))


def _sum(number: str, lines: list[str]) -> int:
    return sum(int(digits[:9]) for line in lines for digits in re.findall(number, line))


def _tests(counted: dict[str, Counted], output: str) -> int | None:
    """How many ran by what is said; None also where one of several runners does not say."""
    if not counted:
        return 0 if why_broken(output) in _NO_TESTS else None
    total = 0
    for said in counted.values():
        if said.ran is None:
            return None
        total += said.ran
    return total


def _tail(log: Path, most_bytes: int) -> bytes:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - most_bytes))
            return file.read(most_bytes)
    except OSError:
        return b""
