"""
Test logs without passed tests, and reads without lines that are already shown.

Every failure stays as it is. Known are pytest, unittest (also Django's runner), jest, vitest, go test, cargo test and
TAP. A log that looks like none or several of them is left alone. Only known noise goes. Everything between the first
failure and the last line that can belong to one stays: a failing test may print a test run of its own.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from forgepool.workers.shell.purpose.file_access import Action, Read, Write, touches


def _every(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.MULTILINE)


_CUT = _every(r"(?i)^.*\b(?:left out|elided|truncated|omitted)\b.*$")
"""A mark of omitted text, behind which no line can be attributed."""
_SURPRISE = _every(r"^ *(?:Traceback \(most recent call last\)|panic: |INTERNALERROR>|thread '.*' panicked)")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Form:
    known: Callable[[str], bool]
    opens: Callable[[str], int]
    """Returns where the first failure begins, or the text's length."""
    closes: re.Pattern[str] | None
    """The pattern whose last match ends the last failure; None means the end of the text."""
    noise: re.Pattern[str]
    """Whole lines to remove."""


def without_passed(text: str) -> str | None:
    """Return the log without passed tests; None where its form is unknown or ambiguous."""
    forms = [form for form in _FORMS if form.known(text)]
    if len(forms) != 1:
        return None
    text = _without_warnings(text) if forms[0] is _PYTEST else text
    start, end = _failures(text, forms[0])
    return _calm(text[:start], forms[0]) + text[start:end] + _calm(text[end:], forms[0])


def _failures(text: str, form: _Form) -> tuple[int, int]:
    start = min(form.opens(text), *(_first(pattern, text) for pattern in (_CUT, _SURPRISE)))
    ends = [match.start() for match in form.closes.finditer(text, start)] if form.closes else []
    return start, ends[-1] if ends else len(text)


def _first(pattern: re.Pattern[str], text: str) -> int:
    return match.start() if (match := pattern.search(text)) else len(text)


def _calm(text: str, form: _Form) -> str:
    return re.sub(r"\n{3,}", "\n\n", form.noise.sub("", text))


def _at(pattern: str) -> Callable[[str], int]:
    compiled = _every(pattern)
    return lambda text: _first(compiled, text)


def _having(*patterns: str) -> Callable[[str], bool]:
    """Return a test whether a text contains all patterns."""
    compiled = [_every(pattern) for pattern in patterns]
    return lambda text: all(pattern.search(text) for pattern in compiled)


def _lines(*patterns: str) -> re.Pattern[str]:
    return _every("^(?:" + "|".join(patterns) + r")\n")


_PYTEST_END = r"^(?:=+ )?\d+ \w+(?:, \d+ \w+)* in \d[\d.]*s\b.*$"
_PYTEST_WARNED = _every(r"^(?:=+ )?.*\b\d+ warnings?\b.* in \d[\d.]*s\b.*\s*(?:</output\w*>\s*)?\Z")
_PYTEST_WARNINGS = _every(r"^=+ warnings summary(?: \(final\))? =+\n")
_PYTEST_DOCS = _every(r"^-- Docs: https://docs\.pytest\.org/.*\n(?=\s*^=)")
_PERCENT = r"(?: +\[ *\d+%\])"
_PYTEST = _Form(
    known=_having(rf"^=+ test session starts =+$|{_PYTEST_END}"),
    opens=_at(r"^=+ (?:FAILURES|ERRORS) =+$|^_{3,} .* _{3,}$|^E  "),
    closes=None,
    noise=_lines(
        r"=+ test session starts =+",
        r"platform \S+ -- Python .*",
        r"(?:rootdir|plugins|cachedir|configfile|testpaths|libraries|base tempdir|hypothesis profile|asyncio): ?.*",
        r"(?:collecting \.\.\. ?)*collected [1-9]\d* items?",
        r"(?:bringing up nodes\.\.\.|created: \d.* workers?|\d+ workers \[\d+ items\]|scheduling tests via .*)",
        rf"\S+\.py [.sxX]+{_PERCENT}?",
        rf"(?=[sxX]*\.)[.sxX]+{_PERCENT}?",
        rf"[.sxX]+{_PERCENT}",
        rf"(?=\S*::).* PASSED{_PERCENT}?",
        rf"\[gw\d+\]{_PERCENT}? PASSED .*",
    ),
)


def _without_warnings(text: str) -> str:
    """
    Remove the last summary of warnings, unless a cut text may hide a failure in it.

    An earlier summary may be the output of a failing test.
    """
    docs = [match.end() for match in _PYTEST_DOCS.finditer(text)]
    if not docs or not _PYTEST_WARNED.search(text):
        return text
    starts = [match.start() for match in _PYTEST_WARNINGS.finditer(text, 0, docs[-1])]
    if not starts:
        return text
    start, end = starts[-1], docs[-1]
    if _CUT.search(text, start, end) and _PYTEST.opens(text) < len(text):
        return text
    return text[:start] + "".join(f"{cut[0]}\n" for cut in _CUT.finditer(text, start, end)) + text[end:]


_WARNING = r"\S+\.py:\d+: \w*Warning: .*(?:\n {2,}\S.*)?"
_UNITTEST = _Form(
    known=_having(r"^Ran \d+ tests? in \d", r"^(?:OK|FAILED|NO TESTS RAN)(?: \(.*\))?$"),
    opens=_at(r"^={70}\n(?:FAIL|ERROR|UNEXPECTED SUCCESS): "),
    closes=_every(r"^-{70}\nRan \d+ tests? in "),
    noise=_lines(
        r"(?=[sx]*\.)[.sx]+",
        r"test\w* \([\w.]+\)(?:\n.*)? \.\.\. ok",
        r"(?:Creating|Cloning|Destroying) test database for alias .*",
        r"Testing against Django installed in .*",
        r"System check identified no issues .*",
        r"Found \d+ test\(s\)\.",
        r" +(?:Applying|Creating table|Synchronizing app|Running deferred SQL).*",
        _WARNING,
    ),
)
_JEST = _Form(
    known=_having(r"^Test Suites: .*\btotal$|^ *Test Files  \d.*\(\d+\)$"),
    opens=_at(r"^[ \t]*(?:FAIL\b|●|⎯+ ?Failed|Error:|AssertionError)"),
    closes=_every(r"^(?:Test Suites: | *Test Files  )"),
    noise=_lines(r"PASS .*(?:\n[ \t]+\S.*)*", r" *[✓√] .*"),
)
_GO_FAILED = _every(r"^ *--- FAIL: (\S+)")
_GO_FAILS = _every(r"^=== RUN +(\S+)$|^ *--- FAIL: |^FAIL\b|^# |^\S+\.go:\d+:")


def _go_failure(text: str) -> int:
    """Return where the first failure begins: with `-v` a test's log comes before the line that reports its failure."""
    failed = set(_GO_FAILED.findall(text))
    for match in _GO_FAILS.finditer(text):
        if match[1] is None or match[1] in failed:
            return match.start()
    return len(text)


_GO = _Form(
    known=_having(r"^ *--- (?:PASS|FAIL|SKIP): \S+ \(\d|^ok  \t\S+\t|^FAIL\t\S+"),
    opens=_go_failure,
    closes=_every(r"^FAIL(?:\t.*)?$"),
    noise=_lines(r"=== (?:RUN|PAUSE|CONT|NAME) .*", r" *--- PASS: .*", r"\?   \t.*\[no test files\]", r"PASS"),
)
_CARGO = _Form(
    known=_having(r"^test result: (?:ok|FAILED)\. "),
    opens=_at(r"^(?:failures:|---- .* stdout ----|error(?:\[|: ))"),
    closes=_every(r"^test result: FAILED\. "),
    noise=_lines(
        r"running \d+ tests?",
        r"test .* \.\.\. ok",
        r" +(?:Compiling|Checking|Fresh|Downloading|Downloaded|Updating|Locking|Adding|Running|Doc-tests) .*",
    ),
)
_TAP = _Form(
    known=_having(r"^1\.\.\d+\s*$", r"^(?:not )?ok \d+"),
    opens=_at(r"^Bail out!"),
    closes=None,
    noise=_lines(r"ok \d+(?!.*# *(?:TODO|SKIP)).*(?:\n +---\n(?: .*\n)*? +\.\.\.)?"),
)
_FORMS = (_PYTEST, _UNITTEST, _JEST, _GO, _CARGO, _TAP)


PRINTED = 0
"""The numbering of lines that show their own numbers."""

_MARK = re.compile(r"\[lines (\d+)-(\d+) are as in step (\d+)\]")
_LEAST_BLOCK = 120
"""Characters below which known lines stay, since a read in pieces is harder to follow."""
_NEWEST = 8
"""Earlier reads of a file that a new one is compared with."""
_NUMBERED = re.compile(r" *(\d+)[\t→]")
_WRAPPERS = frozenset({"<output>", "</output>"})
"""Lines that one widely recorded agent puts around outputs."""
_CUT_MARK = re.compile(r"\s*(?:\[|<|\.\.\.).*\b(?:left out|elided|truncated|omitted)\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReading:
    """A result that holds the text of a file or a part of it."""

    path: str
    start: int
    """The number of its first line, or `PRINTED` where the lines show their numbers."""


def reading(action: Action, reads: Sequence[Read], whole: str) -> FileReading | None:
    """Recognise a read; None for other results, or where line numbers are uncertain."""
    if action != "read" or len(reads) != 1:
        return None
    lines = whole.split("\n")
    printed = [int(match[1]) for line in lines if (match := _NUMBERED.match(line))]
    if printed and 2 * len(printed) >= len(lines):
        ascending = all(one < other for one, other in pairwise(printed))
        return FileReading(path=reads[0].path, start=PRINTED) if ascending else None
    first = _first_line(reads[0], lines)
    return None if first is None else FileReading(path=reads[0].path, start=first)


@dataclass(slots=True)
class Readings:
    """The lines shown of each file since its last write."""

    _shown: dict[str, dict[bool, list[tuple[int, Mapping[int, str]]]]] = field(default_factory=dict)
    """Steps and the lines each shows, the newest first, by path and by whether numbers are printed."""

    def forget(self, write: Write) -> None:
        """Forget files that a write may have changed."""
        for path in [path for path in self._shown if touches(write, path)]:
            del self._shown[path]

    def take(self, step: int, read: FileReading, shown: str) -> None:
        """Take a result as shown. Lines behind a mark in it do not count as shown here."""
        lines = shown.split("\n")
        numbers = _numbers(lines, read.start)
        known = self._shown.setdefault(read.path, {}).setdefault(read.start == PRINTED, [])
        known.insert(0, (step, {number: line for number, line in zip(numbers, lines, strict=True) if number}))
        del known[_NEWEST:]

    def cut_overlap(self, read: FileReading, text: str, shown_from: int) -> str | None:
        """
        Replace longer runs of lines that a step from `shown_from` on shows by marks such as
        `[lines 40-80 are as in step 12]`.

        None means that nothing can be left out.
        """
        known = self._shown.get(read.path, {}).get(read.start == PRINTED, ())
        earlier = [one for one in known if one[0] >= shown_from]
        if not earlier or refers_to_lines(text):
            return None
        lines = text.split("\n")
        found = _marked(lines, _numbers(lines, read.start), earlier)
        return "\n".join(found) if len(found) < len(lines) else None


def refers_to_lines(text: str) -> bool:
    """Report whether a line of the text is a mark."""
    return any(_MARK.fullmatch(line) for line in text.split("\n"))


def _marked(
    lines: Sequence[str], numbers: Sequence[int | None], earlier: Sequence[tuple[int, Mapping[int, str]]]
) -> list[str]:
    found: list[str] = []
    at = 0
    while at < len(lines):
        step, end = max((_run(lines, numbers, at, step, known) for step, known in earlier), key=lambda run: run[1])
        if end - at > 1 and sum(map(len, lines[at:end])) >= _LEAST_BLOCK:
            found.append(f"[lines {numbers[at]}-{numbers[end - 1]} are as in step {step}]")
            at = end
        else:
            found.append(lines[at])
            at += 1
    return found


def _run(
    lines: Sequence[str], numbers: Sequence[int | None], at: int, step: int, known: Mapping[int, str]
) -> tuple[int, int]:
    """Return the step, and the end of the lines from `at` on that it shows without a gap."""
    end = at
    while end < len(lines) and (number := numbers[end]) is not None and known.get(number) == lines[end]:
        if number != (numbers[at] or 0) + end - at:
            break
        end += 1
    return step, end


def _numbers(lines: Sequence[str], start: int) -> list[int | None]:
    """Return each line's number in its file; None for lines that are not in it."""
    if start == PRINTED:
        return [int(match[1]) if (match := _NUMBERED.match(line)) else None for line in lines]
    found: list[int | None] = []
    number = start
    for at, line in enumerate(lines):
        if line in _WRAPPERS and at in (0, len(lines) - 1):
            found.append(None)
        elif mark := _MARK.fullmatch(line):
            found.append(None)
            number = int(mark[2]) + 1
        else:
            found.append(number)
            number += 1
    return found


def _first_line(read: Read, lines: Sequence[str]) -> int | None:
    """
    Return the number of the first line of a read without numbers; None where that is uncertain.

    A range is trusted if the text has exactly as many lines. A whole file starts at 1, unless its middle is missing.
    """
    if read.part:
        return None
    if read.first is not None and read.last is not None:
        wrapped = sum(line in _WRAPPERS for line in (lines[0], lines[-1]))
        return read.first if len(lines) - wrapped == read.last - read.first + 1 else None
    certain = read.whole and not any(mark in read.path for mark in "*?[") and not any(map(_CUT_MARK.match, lines))
    return 1 if certain else None
