"""
What the output of a test command says: did a test run and fail, or did the run break before one could? Pure.

The exit status alone cannot tell the two apart; the words that test runners have for them can.
"""

import re
from collections.abc import Mapping

_FAILED = {
    "pytest": r"^=* ?[1-9]\d* failed\b.* in \d[\d.]*|^FAILED \S+::",
    "unittest": r"^FAILED \((?:.*, )?failures=[1-9]",
    "go test": r"^[ \t]*--- FAIL: ",
    "cargo test": r"^test result: FAILED\..* [1-9]\d* failed;",
    "jest or vitest": r"^[ \t]*Tests:? +(?:.*\W)?[1-9]\d* failed",
    "mocha": r"^[ \t]*[1-9]\d* failing\b",
    "node": r"^(?:#|ℹ) fail [1-9]",
    "TAP": r"^[ \t]*not ok \d+(?!.*# (?:TODO|SKIP))",
    "Maven": r"Tests run: \d+, (?:Failures: [1-9]|Failures: \d+, Errors: [1-9])",
    "Gradle": r"^\d+ tests? completed, [1-9]\d* failed",
    "RSpec": r"^\d+ examples?, [1-9]\d* failure",
    "PHPUnit": r"^Tests: \d+, .*(?:Failures|Errors): [1-9]",
    "minitest": r"^\d+ (?:runs|tests), \d+ assertions, (?:[1-9]\d* failures|\d+ failures, [1-9]\d* errors)",
    "dotnet": r"^[ \t]*(?:Failed! +- +)?Failed: +[1-9]",
    "ctest": r"\b[1-9]\d* tests? failed out of \d+",
}
"""How runners say that at least one test ran and failed."""

_BROKEN = {
    "the tests could not be collected": r"\berrors? during collection\b|^_* ?ERROR collecting ",
    "pytest was called wrongly": r"^ERROR: (?:file or directory )?not found|^ERROR: usage|^py\.?test.*: error: ",
    "pytest itself broke": r"^INTERNALERROR>",
    "no test was collected": r"\bno tests ran\b|\bcollected 0 items\b|^Ran 0 tests",
    "no test was found": r"\bno tests? (?:files? )?found\b|\[no test files\]",
    "a test module could not be imported": r"\bFailed to import test module\b",
    "the tests could not be built": r"\[(?:build|setup) failed\]|\bcould not compile\b|\bcompilation (?:error|failed)",
    "a test file could not be loaded": r"\bTest suite failed to run\b|^[ \t]*FAIL [^\[\n]*\[.*\]$",
    "a test's preparation broke": r"^=* ?(?:.*, )?[1-9]\d* errors? in \d[\d.]*",
}
"""How they say that there was nothing that could fail."""

_ERRORS_ONLY = r"^FAILED \(errors=[1-9]"
"""Of unittest: tests that raised, or modules that could not be imported, which it counts as tests."""

_BROKEN_SCRIPT = (
    r"^[ \t]*(?:\w+: )?(?:SyntaxError|IndentationError|TabError|ImportError|ModuleNotFoundError)\b"
    r"|\bCannot find module\b|\bsyntax error\b|\bcommand not found\b|: not found$|\bNo such file or directory\b"
)

_PASSED = {
    "pytest": r"^=* ?[1-9]\d* passed\b.* in \d[\d.]*",
    "unittest": r"^OK(?: \(.*\))?$",
    "go test": r"^(?:ok[ \t]+\S+|PASS$)",
    "cargo test": r"^test result: ok\.",
    "jest or vitest": r"^[ \t]*Tests:? +[1-9]\d* passed",
    "mocha": r"^[ \t]*[1-9]\d* passing\b",
    "node": r"^(?:#|ℹ) fail 0$",
    "Maven": r"Tests run: [1-9]\d*, Failures: 0, Errors: 0",
    "RSpec": r"^[1-9]\d* examples?, 0 failures",
    "PHPUnit": r"^OK \(\d+ tests?",
    "minitest": r"^\d+ (?:runs|tests), \d+ assertions, 0 failures, 0 errors",
    "dotnet": r"^[ \t]*Passed! +- ",
    "ctest": r"^100% tests passed",
}
"""How they say that all tests that ran have passed."""

_SAYS_PASSED = r"\bpass(?:ed|es|ing)?\b|\bok\b|\bsuccess"

_MOST_CHARACTERS = 200_000
"""Of the end of an output, where runners sum up."""

_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def plain(output: str) -> str:
    """Without colours, and with plain line ends."""
    return _COLOUR.sub("", output).replace("\r\n", "\n")


def find_failed_runner(output: str) -> str | None:
    """The runner that says that a test ran and failed; None when none does."""
    output = output[-_MOST_CHARACTERS:]
    named = _named(_FAILED, output)
    if named is None and re.search(_ERRORS_ONLY, output, re.MULTILINE) and why_broken(output) is None:
        return "unittest"
    return named


def find_passed_runner(output: str) -> str | None:
    """The runner that says that its tests have passed; None when none does."""
    return _named(_PASSED, output[-_MOST_CHARACTERS:])


def says_passed(line: str) -> bool:
    """Whether a line sounds as if something had passed: nothing to tell a failure by."""
    return re.search(_SAYS_PASSED, line, re.IGNORECASE) is not None and "not ok" not in line


def _named(runners: Mapping[str, str], output: str) -> str | None:
    return next((runner for runner, words in runners.items() if re.search(words, output, re.MULTILINE)), None)


def why_broken(output: str) -> str | None:
    """What kept the tests from running, in words; None when nothing of the kind is told."""
    output = output[-_MOST_CHARACTERS:]
    found = (why for why, words in _BROKEN.items() if re.search(words, output, re.MULTILINE | re.IGNORECASE))
    return next(found, None)


def looks_broken(output: str) -> bool:
    """Whether a script of no known runner seems to have broken, not failed."""
    return re.search(_BROKEN_SCRIPT, output[-_MOST_CHARACTERS:], re.MULTILINE) is not None
