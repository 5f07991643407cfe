"""
The tests a command ran, and how each ended, read from the JUnit XML that its runner wrote.

The check's definition names the files by globs; without any, pytest is asked for one. A file counts when the command
wrote it: an earlier file with the same content does not. One unreadable file makes all of them worthless, since it may
hold the failure.

Why not a plugin for pytest, or a file for each of several runs: a plugin is code in a process that may have neither our
Python nor our paths. And pytest has no name that differs from run to run. Of several runs in one command the last
report stays. Failures of all of them are counted in the output (`evidence`), and a report with fewer is not complete.
A run of pytest by a test writes the same file, and the run around it writes last.
"""

import errno
import hashlib
import os
import re
import secrets
import shlex
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from forgepool.supervisor.checks.results.junit import JunitCase, Outcome, UnreadableReport, read_junit, to_line
from forgepool.workers.policy.gate_file.document import CheckDefinition
from forgepool.workers.schema.globs import DEEP, BadGlob, Pattern, parse
from forgepool.workers.schema.orders import Message
from forgepool.worktrees.git.beneath import LISTED, Beneath

_MOST_BYTES = 32 * 1024 * 1024
_MOST_BYTES_IN_ALL = 64 * 1024 * 1024
_MOST_FILES = 5000
_MOST_LOOKED_AT = 500_000
_MOST_FAULTS = 5
_SETTINGS = ("pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "pyproject.toml", "tox.ini", "setup.cfg")
_MOST_SETTINGS_BYTES = 1024 * 1024
_OWN = re.compile(r"junit-?xml|no:junit")
_WORD = re.compile(r"[\w.@+-]+(?:/[\w.@+-]+)*")
_WORST: Mapping[Outcome, int] = {"skipped": 0, "passed": 1, "failed": 2}


class ReportedCase(Message):
    """One test, by the worst that was said of it."""

    id: str
    """`tests/test_a.py::TestX::test_y[1]` for pytest; else what the runner calls its class, `::`, and its name."""
    outcome: Outcome
    file: str = ""
    """The file that the runner names, relative to its own working folder."""
    seconds: float = 0.0
    error: str = ""
    """For a failed test, the beginning of the runner's message."""

    @property
    def function(self) -> str:
        """The id without parameters."""
        return function_of(self.id)


class SuiteReport(Message):
    """All tests that a command's reports name, by id, each once."""

    cases: tuple[ReportedCase, ...] = ()
    failures: int = 0
    """How often a failure is told; more than failed tests where several have one id."""
    problems: bool = False
    """Its cases are findings of a linter or type checker (`problems`): one that it does not name is not there."""

    def ids(self, *outcomes: Outcome) -> frozenset[str]:
        """Return the ids of the tests that ended in one of these ways."""
        return frozenset(case.id for case in self.cases if case.outcome in outcomes)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions:
    """The options that make a command report, and the places where its reports are looked for."""

    env: Mapping[str, str]
    """The command's whole environment."""
    checkout: Path
    patterns: tuple[Pattern, ...] = ()
    before: Mapping[str, str] | None = None
    """Digests of the reports that lay there already."""
    pytest: Path | None = None
    """The file pytest is to write, outside the checkout; None where it was not asked."""
    baseline: bool = False
    """Findings of linters are read as well, from the output or from files in JSON."""
    faults: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """The reports found. Without any, either none was written, or `faults` says why none could be read."""

    report: SuiteReport | None = None
    faults: tuple[str, ...] = ()
    documents: tuple[str, ...] = ()
    """Texts of the files in JSON, of a check that has a baseline."""


def function_of(test: str) -> str:
    """The id of a test without its parameters: `a.py::test_x` of `a.py::test_x[1-b]`."""
    return test.partition("[")[0] if test.endswith("]") else test


def ask(
    check: CheckDefinition, checkout: Path, tmp: Path, env: Mapping[str, str], left_out: Sequence[str] = ()
) -> ReportOptions:
    """
    Prepare the reports of a check. Call it just before the command, after its set-up; `tmp` is a folder the command may
    write. pytest collects no test of the files that are `left_out`.

    pytest is not asked where its settings have a report written already: the option can be given once, and that other
    file would be missing. Such a check names the file in its `reports`.
    """
    baseline = check.baseline is not None
    if baseline:
        # mypy would break its messages where the width of a terminal ends, which depends on the line's number.
        env = {**env, "MYPY_FORCE_TERMINAL_WIDTH": "10000"}
    if check.reports:
        try:
            patterns = tuple(parse(glob) for glob in check.reports)
        except BadGlob as bad:
            return ReportOptions(env=env, checkout=checkout, faults=(f"'reports' of check '{check.name}': {bad}",))
        before = _digests(checkout, patterns)
        return ReportOptions(env=env, checkout=checkout, patterns=patterns, before=before, baseline=baseline)
    if _reports_already(check.run, checkout):
        return ReportOptions(env=env, checkout=checkout, baseline=baseline)
    path = tmp / f"report-{secrets.token_hex(8)}.xml"
    # Family xunit1: it tells the file of each test, and no fixture warns that it cannot be used with the other one.
    # One module that cannot be imported would else keep all tests from running, and nothing would be known of them.
    options: tuple[str, ...] = ("-o", "junit_family=xunit1", "--continue-on-collection-errors", f"--junitxml={path}")
    options += tuple(f"--ignore={file}" for file in left_out)
    both = " ".join(filter(None, (env.get("PYTEST_ADDOPTS", ""), shlex.join(options))))
    return ReportOptions(env={**env, "PYTEST_ADDOPTS": both}, checkout=checkout, pytest=path, baseline=baseline)


def collect(asked: ReportOptions) -> Collected:
    """Collect the command's reports. Call it once the command has ended."""
    faults, told, found = list(asked.faults), list[JunitCase](), 0
    documents: list[str] = []
    left = _MOST_BYTES_IN_ALL
    try:
        for folder, name in _written(asked):
            try:
                content = _content(folder, name, min(_MOST_BYTES, left))
                if asked.before is not None and asked.before.get(name) == _digest(content):
                    continue
                left -= len(content)
                if asked.baseline and name.endswith((".sarif", ".json")):
                    documents.append(content.decode(errors="replace"))
                    continue
                found += 1
                told += read_junit(content, checkout=str(asked.checkout))
            except UnreadableReport as wrong:
                faults.append(f"the report {to_line(name)} {wrong}")
    except UnreadableReport as wrong:
        faults.append(f"the checkout {wrong}")
    if faults or not found:
        return Collected(faults=tuple(faults[:_MOST_FAULTS]), documents=tuple(documents))
    return Collected(report=report_of(told))


def report_of(told: Iterable[JunitCase]) -> SuiteReport:
    """Tests of one id made one: failed where one of them is, skipped where all are."""
    cases: dict[str, ReportedCase] = {}
    failures = 0
    for one in told:
        failures += one.outcome == "failed"
        case = ReportedCase(id=one.id, outcome=one.outcome, file=one.file, seconds=one.seconds, error=one.error)
        first = cases.get(one.id)
        cases[one.id] = case if first is None else _worse(first, case)
    return SuiteReport(cases=tuple(cases.values()), failures=failures)


def _worse(one: ReportedCase, other: ReportedCase) -> ReportedCase:
    worse = max(one, other, key=lambda case: _WORST[case.outcome])
    return worse.model_copy(update={"seconds": one.seconds + other.seconds})


def _written(asked: ReportOptions) -> Iterator[tuple[Path, str]]:
    """The folder and the name in it of every report there is."""
    if asked.pytest is not None:
        if os.path.lexists(asked.pytest):
            yield asked.pytest.parent, asked.pytest.name
        return
    for name in _matching(asked.checkout, asked.patterns):
        yield asked.checkout, name


def _content(folder: Path, name: str, most_bytes: int) -> bytes:
    """
    Raises:
        UnreadableReport: it is no regular file, leads elsewhere, or is larger than that.
    """
    try:
        with Beneath(folder) as beneath:
            return beneath.read(Path(name), most_bytes=most_bytes)
    except OSError as trouble:
        match trouble.errno:
            case errno.EFBIG:
                why = (
                    f"has more than {most_bytes // 1024} KiB, or with the others more than {_MOST_BYTES_IN_ALL // 1024}"
                )
            case errno.ELOOP | errno.EXDEV | errno.EINVAL | errno.ENXIO | errno.EISDIR:
                why = "is no regular file; a report is one"
            case _:
                why = f"cannot be read: {trouble.strerror}"
        raise UnreadableReport(why) from trouble


def _digests(checkout: Path, patterns: tuple[Pattern, ...]) -> dict[str, str]:
    """
    Return the digests of all files there. An unreadable one has none, and is reported if it is still unreadable
    afterwards.
    """
    found: dict[str, str] = {}
    left = _MOST_BYTES_IN_ALL
    with suppress(UnreadableReport):
        for name in _matching(checkout, patterns):
            with suppress(UnreadableReport):
                content = _content(checkout, name, min(_MOST_BYTES, left))
                left -= len(content)
                found[name] = _digest(content)
    return found


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _matching(checkout: Path, patterns: tuple[Pattern, ...]) -> list[str]:
    """
    Return the names that the globs cover, without folders; links are not followed, and count as names.

    Raises:
        UnreadableReport: the folders hold more names than are read, or more reports than any suite writes.
    """
    ways = [way for pattern in patterns for way in pattern.ways]
    tops = {way.literal or "/".join(way.head) for way in ways}
    deepest = None if any(DEEP in way.segments for way in ways) else max((len(way.segments) for way in ways), default=0)
    found: set[str] = set()
    looked_at = 0
    with suppress(OSError), Beneath(checkout) as beneath:
        for top in tops:
            for name in _files(beneath, top, deepest):
                looked_at += 1
                if any(pattern.matches(name) for pattern in patterns):
                    found.add(name)
                if looked_at > _MOST_LOOKED_AT or len(found) > _MOST_FILES:
                    raise UnreadableReport(
                        f"holds more than {_MOST_FILES} reports, or too many files; name fewer folders"
                    )
    return sorted(found)


def _files(beneath: Beneath, top: str, deepest: int | None) -> Iterator[str]:
    """The file itself, or all below the folder, to a depth."""
    with suppress(OSError):
        state = beneath.state(Path(top))
        if state is None or not stat.S_ISDIR(state.st_mode):
            yield from [top] if state is not None else []
            return
    waiting = [top]
    while waiting:
        folder = waiting.pop()
        with suppress(OSError), beneath.folder(Path(folder), flags=LISTED) as here, os.scandir(here) as entries:
            for entry in entries:
                name = f"{folder}/{entry.name}" if folder else entry.name
                if not entry.is_dir(follow_symlinks=False):
                    yield name
                elif name != ".git" and (deepest is None or name.count("/") + 1 < deepest):
                    waiting.append(name)


def _reports_already(run: str, checkout: Path) -> bool:
    """Tell whether pytest's settings that the command may read ask for a report already, or turn all reports off."""
    if "no:junit" in run:
        return True
    words = {Path(word) for word in _WORD.findall(run) if ".." not in word.split("/")}
    folders = {Path(), *words, *(parent for word in words for parent in word.parents)}
    with suppress(OSError), Beneath(checkout) as beneath:
        return any(_OWN.search(_settings(beneath, folder / name)) for folder in sorted(folders) for name in _SETTINGS)
    return False


def _settings(beneath: Beneath, path: Path) -> str:
    with suppress(OSError):
        state = beneath.state(path)
        if state is not None and stat.S_ISREG(state.st_mode):
            return beneath.read(path, most_bytes=_MOST_SETTINGS_BYTES).decode(errors="replace")
    return ""
