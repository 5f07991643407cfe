"""
The first error lines of a log, for a person who does not want to read all of it.

It names a failing test with its reason, an error with its file and line, and a traceback by the line that raised it. It
knows pytest, unittest, go, cargo, vitest, jest, TAP; ruff, flake8, mypy, pyright, tsc, eslint, black, compilers; make,
npm, shells and Python. It returns the last lines of any other log.
"""

import re
from collections.abc import Iterator, Sequence

_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours and cursor moves
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # titles and links
    r"|\x1b[ -/]*[0-~]"
)
_MOST_CHARACTERS = 300
_LONGEST_LINE = 2_000
_MOST_HEADING = 5
_CUT = "[...]"


def without_escapes(text: str) -> str:
    """Return the text as a terminal would leave it: without colours, and of a line written over, its last state."""
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in _ESCAPES.sub("", text).split("\n"))


def plain_text(text: str) -> str:
    """Return the text without escapes; every other unprintable character is a space, except line ends."""
    return "".join(each if each.isprintable() or each == "\n" else " " for each in without_escapes(text))


def error_lines(log: str, most: int = 3) -> tuple[str, ...]:
    """
    Return the first error lines of a log, one for each error, at most so many.

    Failing tests come before other errors, because a failing test may print anything. What only follows from an error,
    such as `make: *** [test] Error 1`, counts where there is nothing else.
    """
    lines = _lines(log)
    found = _known_errors(lines) or [line.strip() for line in [line for line in lines if line][-most:]]
    return tuple(map(_shortened, found[:most]))


def excerpt(log: str, most_characters: int) -> str:
    """Return the end of a log, headed by its first errors where the end lacks them."""
    end = log[len(log) - most_characters :] if len(log) > most_characters else log
    lacking = [line for line in _known_errors(_lines(log))[:_MOST_HEADING] if line not in _known_errors(_lines(end))]
    if end == log or not lacking:
        return end
    heading = "\n".join((*lacking, _CUT, ""))[:most_characters]
    return heading + log[len(log) - most_characters + len(heading) :]


def _lines(log: str) -> list[str]:
    return [line[:_LONGEST_LINE].rstrip() for line in without_escapes(log).split("\n")]


def _known_errors(lines: Sequence[str]) -> list[str]:
    for find in (_failing_tests, _pytest_assertions, _errors, _consequences):
        if found := list(dict.fromkeys(find(lines))):
            return found
    return []


def _shortened(line: str) -> str:
    return line if len(line) <= _MOST_CHARACTERS else f"{line[: _MOST_CHARACTERS - 3]}..."


_PYTEST_SUMMARY = re.compile(r"(FAILED|ERROR) (\S+\.py\b(?:::.+?)?)( - .*)?$")
_UNITTEST = re.compile(r"(?:FAIL|ERROR): \S+ \(.+\)")
_GO_TEST = re.compile(r" *--- FAIL: (\S+)")
_GO_RUNS = re.compile(r"=== (?:RUN|NAME|CONT) +(\S+)")
_GO_MESSAGE = re.compile(r" +(\S+\.go:\d+: .+)")
_PANIC = re.compile(r"thread '.*' .*panicked at .+")
_VITEST = re.compile(r" *FAIL {1,2}\S.* > .+")
_JEST = re.compile(r" +● (?!Console)\S.*")
_TAP = re.compile(r" *not ok \d+(?!.*# *(?:TODO|SKIP)).*")
_TAP_ERROR = re.compile(r" +error: (.+)")


def _failing_tests(lines: Sequence[str]) -> Iterator[str]:
    go_messages = _go_messages(lines)
    for at, line in enumerate(lines):
        if pytest := _PYTEST_SUMMARY.match(line):
            yield f"{pytest[1]} {pytest[2]}{_pytest_reason(lines, pytest)}"
        elif _UNITTEST.fullmatch(line):
            yield ": ".join((line, *_raised(lines, at)))
        elif go := _GO_TEST.match(line):
            message = go_messages.get(go[1])
            if message or not any(name.startswith(f"{go[1]}/") for name in go_messages):
                yield ": ".join(filter(None, (line.strip(), message)))
        elif _PANIC.match(line):
            yield f"{line} {_line(lines, at + 1)}" if line.endswith(":") else line
        elif _VITEST.match(line) or _JEST.match(line):
            yield f"{line.strip()}: {_next_text(lines, at)}"
        elif _TAP.fullmatch(line):
            yield ": ".join(filter(None, (line.strip(), _tap_reason(lines, at))))


def _go_messages(lines: Sequence[str]) -> dict[str, str]:
    """Return the first message of each test, which follows its name, or with `-v` its first line."""
    messages: dict[str, str] = {}
    test = ""
    for line in lines:
        if named := _GO_RUNS.match(line) or _GO_TEST.match(line):
            test = named[1]
        elif found := _GO_MESSAGE.match(line):
            messages.setdefault(test, found[1])
    return messages


def _tap_reason(lines: Sequence[str], start: int) -> str:
    """Return the `error:` of the YAML block after a test's line."""
    for at, line in enumerate(lines[start + 1 : start + 20], start=start + 1):
        if line.strip() == "..." or _TAP.fullmatch(line):
            break
        if found := _TAP_ERROR.fullmatch(line):
            return found[1].strip("'\"") if not found[1].startswith("|") else _next_text(lines, at)
    return ""


_PYTEST_HEADING = re.compile(r"_{3,} (?:ERROR (?:collecting|at \w+ of) )?(.+?) _{3,}")
_PYTEST_E = re.compile(r"E {2,}(\S.*)")


def _pytest_reason(lines: Sequence[str], summary: re.Match[str]) -> str:
    """Return the summary's reason, or the first `E` line of the test where pytest shortened or omitted the reason."""
    reason = summary[3] or ""
    if reason and not reason.endswith("..."):
        return reason
    path, _, name = summary[2].partition("::")
    wanted = name.replace("::", ".") or path
    headings = [(at, found[1]) for at, line in enumerate(lines) if (found := _PYTEST_HEADING.fullmatch(line))]
    own = [number for number, (_, name) in enumerate(headings) if name == wanted]
    if len(own) != 1:
        return reason
    start = headings[own[0]][0]
    end = headings[own[0] + 1][0] if own[0] + 1 < len(headings) else len(lines)
    first = next((found[1] for line in lines[start:end] if (found := _PYTEST_E.match(line))), None)
    return f" - {first}" if first else reason


def _pytest_assertions(lines: Sequence[str]) -> Iterator[str]:
    for at, line in enumerate(lines):
        if (found := _PYTEST_E.match(line)) and not _PYTEST_E.match(_line(lines, at - 1)):
            yield found[1]


_TRACEBACK = "Traceback (most recent call last):"
_TRACE_PLACE = re.compile(r' +File "(.+)", line (\d+)')


def _raised(lines: Sequence[str], start: int) -> Iterator[str]:
    """Yield the last line of the next traceback, if one comes before the next heading."""
    begun = False
    for line in lines[start + 1 : start + 200]:
        if line.startswith("====="):
            return
        if begun and line and not line.startswith(" "):
            yield line
            return
        begun = begun or line == _TRACEBACK


_PLACED = re.compile(
    r"\s*(?:vet: )?(?:"
    r"\S+?:\d+(?::\d+)?:? (?:- )?(?:fatal )?error\b.*"  # mypy, pyright, tsc --pretty, compilers
    r"|\S+\(\d+,\d+\): error .*"  # tsc
    r"|\S+?:\d+:\d+: (?:[A-Z]+\d{2,} |[A-Z]\d{4}: |invalid-syntax).*"  # ruff, flake8, pylint
    r"|\S+\.go:\d+:\d+: .*"
    r")"
)
_ABOVE_PLACE = re.compile(r"(?:error(?:\[\w+\])?: |[A-Z]+\d{2,} |[a-z]+(?:-[a-z]+)*: ).+")
_PLACE_BELOW = re.compile(r" *--> (\S+)")
_ESLINT = re.compile(r" +(\d+:\d+) +error +(.+)")
_SAID = re.compile(
    r"(?:error|fatal|panic|[Ee]rror|ERROR|FATAL|ImportError while \w+)\b(?:\[\w+\])?(?:: | while)(?!usage:).+"
    r"|(?!npm )[\w.+/'-]+: (?:error|fatal): .+"
    r"|(?:[\w./+-]+|.*: line \d+|.*: \d+): .*(?:not found|No such file or directory|Permission denied)"
    r"|.*\bNo module named \S+"
    r"|(?:\w+\.)*\w*(?:Error|Exception)(?: \[\w+\])?: .+"
    r"|make(?:\[\d+\])?: \*\*\* No rule .+"
    r"|npm (?:error|ERR!) (?:Missing script|missing script|could not determine).*"
    r"|(?:would reformat|Would reformat:) \S.*"
    r"|FAIL Required test coverage .+|Coverage failure: .+"
)
_FOLLOWS = re.compile(
    r"make(?:\[\d+\])?: \*\*\* (?!No rule).+"
    r"|npm (?:error|ERR!) (?!Missing script|missing script|could not).+"
    r"|error: could not compile .+|error: test failed, .+"
    r"|FAILED \(.+\)|Found \d+ errors?\b.*|FAIL\t.+"
)


def _errors(lines: Sequence[str]) -> Iterator[str]:
    file = ""
    for at, line in enumerate(lines):
        if line == _TRACEBACK:
            yield from _where_raised(lines, at)
        elif (below := _PLACE_BELOW.match(_line(lines, at + 1))) and _ABOVE_PLACE.fullmatch(line):
            yield f"{below[1]}: {line}"
        elif _FOLLOWS.fullmatch(line):
            continue
        elif eslint := _ESLINT.fullmatch(line):
            yield f"{file}:{eslint[1]} {' '.join(eslint[2].split())}"
        elif _PLACED.fullmatch(line) or (_SAID.fullmatch(line) and not _is_end_of_traceback(lines, at)):
            yield f"{line} {_next_text(lines, at)}" if line.endswith(":") else line.strip()
        if line and not line.startswith(" "):
            file = line


def _where_raised(lines: Sequence[str], at: int) -> Iterator[str]:
    """Yield the place and the message of a traceback, as in `app.py:6: KeyError: 'a'`."""
    place = ""
    for line in lines[at + 1 : at + 200]:
        if found := _TRACE_PLACE.match(line):
            place = f"{found[1]}:{found[2]}: "
        elif line and not line.startswith(" "):
            yield f"{place}{line}"
            return


def _is_end_of_traceback(lines: Sequence[str], at: int) -> bool:
    """Report whether this line ends a traceback, which is already reported."""
    return any(_TRACE_PLACE.match(_line(lines, at - back)) for back in (1, 2, 3))


def _consequences(lines: Sequence[str]) -> Iterator[str]:
    return (line for line in lines if _FOLLOWS.fullmatch(line))


def _line(lines: Sequence[str], at: int) -> str:
    return lines[at] if 0 <= at < len(lines) else ""


def _next_text(lines: Sequence[str], at: int) -> str:
    return next((line.strip() for line in lines[at + 1 :] if line.strip()), "")
