"""
The findings of linters and type checkers, read from their output or from SARIF files.

The forms of ruff, mypy, ESLint, tsc and SARIF are understood. File, rule and message identify a finding, since its line
changes with every edit above it. Several that agree in all three are counted. Line numbers, addresses, and the order
of items in braces are ignored in a message.

Output that may be incomplete is never read in part. A tool counts as silent if it crashed, or counts more findings than
its output holds. So does one whose exit status is not the usual one for findings.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote, urlsplit

from forgepool.supervisor.checks.results.reports import ReportedCase, SuiteReport

_RULE = r"(?P<rule>[A-Z]{1,10}\d{1,6}|(?!error|warning|note)[a-z]+(?:-[a-z]+)*(?=:))"
_LINES = tuple(
    re.compile(form, re.MULTILINE)
    for form in (
        # mypy
        r"^(?P<path>\S[^:\n]*):(?P<line>\d+)(?::\d+){0,3}: (?P<level>error|warning): (?P<message>.*?)"
        r"(?:  \[(?P<rule>[\w-]+)\])?$",
        # tsc, without and with --pretty
        r"^(?P<path>\S.*?)\((?P<line>\d+),\d+\): (?P<level>error|warning) (?P<rule>TS\d+): (?P<message>.*)$",
        r"^(?P<path>\S.*?):(?P<line>\d+):\d+ - (?P<level>error|warning) (?P<rule>TS\d+): (?P<message>.*)$",
        # ruff in its concise form, and flake8
        rf"^(?P<path>\S[^:\n]*):(?:cell \d+:)?(?P<line>\d+):(?:\d+:)? {_RULE}:? (?:\[\*\] )?(?P<message>.*)$",
        # ruff in its full form
        rf"^{_RULE}:? (?:\[\*\] )?(?P<message>.*)\n *--> (?P<path>.+?):(?:cell \d+:)?(?P<line>\d+):\d+$",
    )
)
_ESLINT_FILE = re.compile(r"^(?P<path>[^\s:].*)$")
_ESLINT_LINE = re.compile(r"^ +(?P<line>\d+):\d+ +(?P<level>error|warning) +(?P<message>.*?)(?:  +(?P<rule>\S+))?$")
_COUNTS = re.compile(r"^Found (\d+) errors?\b|^✖ (\d+) problems?\b|^(\d+) files? would be reformatted\b", re.MULTILINE)
_BROKEN = re.compile(
    r"^error TS\d+: .*|^Traceback \(most recent call last\)|.*\bINTERNAL ERROR\b.*|^thread '.*' panicked.*",
    re.MULTILINE,
)
_MADE = re.compile(r"^make(?:\[\d+\])?: \*\*\* \[.*\] Error (\d+)", re.MULTILINE)
_LINE_NUMBER = re.compile(r"\b(lines?) \d+")
_ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]+\b")
_SET = re.compile(r"\{([^{}]*)\}")
_DOCUMENT = re.compile(r"^[\[{]", re.MULTILINE)
_FORMS = "SARIF, ruff, mypy, eslint, tsc"


class UnreadableOutput(ValueError):
    """The output tells no findings, or may not tell all of them; a clause that follows "its output"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One finding of a linter or type checker."""

    path: str
    line: int
    rule: str
    message: str
    fails: bool = True
    """It makes the tool fail; a mere warning may not."""

    @property
    def key(self) -> str:
        """
        Return the key of a finding, which stays the same when lines are added above it and when the tool runs again.
        """
        message = _ADDRESS.sub("at 0xN", _LINE_NUMBER.sub(r"\1 N", self.message))
        message = _SET.sub(_in_order, message)
        return f"{self.path}: {self.rule} {message}" if self.rule else f"{self.path}: {message}"


def report_of_problems(output: str, documents: Sequence[str], status: int, checkout: str) -> SuiteReport:
    """
    A report that has each finding as a case, of a run that ended with this status.

    Raises:
        UnreadableOutput: the findings are not known, or not all of them.
    """
    try:
        found = _read(output, documents, checkout)
    except UnreadableOutput:
        if status == 0:
            return SuiteReport(problems=True)
        raise
    if status and not found:
        raise UnreadableOutput(f"names no finding in a form that can be read ({_FORMS})")
    if status not in (0, 1) and not _is_usual(status, found, output):
        raise UnreadableOutput(
            f"comes with status {status}, where a tool that has done its work and found something ends with 1"
        )
    if status and (broken := _BROKEN.search(output)) is not None:
        raise UnreadableOutput(f"says that the tool broke: {broken[0].strip()[:200]}")
    if not any(one.fails for one in found):
        found = [replace(one, fails=True) for one in found]
    return _report(found, failing=status != 0)


def with_names_of(report: SuiteReport, renames: Mapping[str, str]) -> SuiteReport:
    """The same findings, under the names that their files have now."""
    cases = tuple(
        case.model_copy(update={"id": renames[case.file] + case.id.removeprefix(case.file), "file": renames[case.file]})
        if case.file in renames
        else case
        for case in report.cases
    )
    return report.model_copy(update={"cases": cases})


def _in_order(members: re.Match[str]) -> str:
    """Sort what stands in braces: a set of Python is written in another order by each process."""
    return f"{{{', '.join(sorted(each.strip() for each in members[1].split(',')))}}}"


def _is_usual(status: int, found: Sequence[Problem], output: str) -> bool:
    """tsc ends with 2 where it wrote files all the same, and `make` with 2 where a command of it failed."""
    of_make = _MADE.findall(output)
    return status == 2 and (all(one.rule.startswith("TS") for one in found) or of_make[:1] == ["1"])


def _report(found: Iterable[Problem], *, failing: bool) -> SuiteReport:
    ordered = sorted(found, key=lambda one: (one.path, one.line))
    lines: dict[str, list[int]] = {}
    for one in ordered:
        lines.setdefault(one.key, []).append(one.line)
    seen: Counter[str] = Counter()
    cases: list[ReportedCase] = []
    for one in ordered:
        seen[one.key] += 1
        number = f" ({seen[one.key]})" if seen[one.key] > 1 else ""
        place = f"{one.path}:{','.join(str(line) for line in lines[one.key])}"
        cases.append(
            ReportedCase(
                id=one.key + number,
                outcome="failed" if failing and one.fails else "skipped",
                file=one.path,
                error=f"{place}: {one.rule} {one.message}" if one.rule else f"{place}: {one.message}",
            )
        )
    return SuiteReport(cases=tuple(cases), failures=sum(case.outcome == "failed" for case in cases), problems=True)


def _read(output: str, documents: Sequence[str], checkout: str) -> list[Problem]:
    values = [value for text in documents for value in _json(text)] if documents else list(_json(output))
    if documents and not values:
        raise UnreadableOutput("is in a report that is no JSON")
    found = [each for value in values for each in _of_json(value)]
    if not found and not documents:
        found = [*_of_lines(output), *_of_eslint(output)]
        _count(found, output)
    return [replace(one, path=_relative(one.path, checkout)) for one in found]


def _count(found: Sequence[Problem], output: str) -> None:
    counts = [int(number) for match in _COUNTS.findall(output) for number in match if number]
    if counts and sum(counts) != len(found):
        raise UnreadableOutput(f"counts {sum(counts)} findings, and {len(found)} of them can be read")


def _of_lines(output: str) -> Iterator[Problem]:
    taken: set[int] = set()
    for form in _LINES:
        for match in form.finditer(output):
            if match.start() in taken:
                continue
            taken.add(match.start())
            parts = match.groupdict()
            yield Problem(
                path=parts["path"],
                line=int(parts["line"]),
                rule=parts["rule"] or "",
                message=parts["message"].strip(),
                fails=parts.get("level") != "warning",
            )


def _of_eslint(output: str) -> Iterator[Problem]:
    """Its form `stylish`: a file's name, then its findings, indented."""
    path = ""
    for line in output.splitlines():
        if (match := _ESLINT_LINE.match(line)) is not None and path:
            rule, fails = match["rule"] or "", match["level"] == "error"
            yield Problem(path=path, line=int(match["line"]), rule=rule, message=match["message"], fails=fails)
        elif (named := _ESLINT_FILE.match(line)) is not None:
            path = named["path"]


def _json(text: str) -> Iterator[Any]:
    """Each JSON document that begins at the beginning of a line."""
    decoder, end = json.JSONDecoder(), 0
    for match in _DOCUMENT.finditer(text):
        if match.start() < end:
            continue
        try:
            value, end = decoder.raw_decode(text, match.start())
        except (ValueError, RecursionError):
            if text.startswith('{"', match.start()):
                raise UnreadableOutput("has JSON that is cut off") from None
            continue
        yield value


def _of_json(value: Any) -> Iterator[Problem]:
    """
    Raises:
        UnreadableOutput: it is of a known form, and lacks what each of that form has.
    """
    try:
        match value:
            case {"runs": list(runs)}:
                for run in runs:
                    yield from _of_sarif(run)
            case {"file": str(), "severity": str()} if value["severity"] != "note":
                yield _problem(value["file"], value["line"], value["code"], value["message"], value["severity"])
            case {"filename": str(), "code": _, "location": location}:
                yield _problem(value["filename"], location["row"], value["code"], value["message"])
            case {"filePath": str(path), "messages": list(messages)}:
                for one in messages:
                    level = "error" if one["severity"] == 2 else "warning"
                    yield _problem(path, one.get("line"), one["ruleId"], one["message"], level)
            case [*values]:
                for each in values:
                    yield from _of_json(each)
    except (KeyError, TypeError, ValueError, IndexError, RecursionError) as lacking:
        raise UnreadableOutput(f"has a finding that lacks something: {lacking}") from lacking


def _of_sarif(run: dict[str, Any]) -> Iterator[Problem]:
    if any(not one.get("executionSuccessful", True) for one in run.get("invocations", ())):
        raise UnreadableOutput("says that the tool did not end well")
    for one in run["results"]:
        if one.get("level") in ("note", "none") or one.get("suppressions"):
            continue
        place = one["locations"][0]["physicalLocation"]
        line = place.get("region", {}).get("startLine")
        rule = one.get("ruleId") or one["rule"]["id"]
        yield _problem(_path(place["artifactLocation"]["uri"]), line, rule, one["message"]["text"])


def _path(uri: str) -> str:
    return unquote(urlsplit(uri).path if uri.startswith("file:") else uri)


def _problem(path: str, line: int | None, rule: str | None, message: str, level: str = "error") -> Problem:
    text = " ".join(message.split())
    return Problem(path=path, line=int(line or 0), rule=rule or "", message=text, fails=level == "error")


def _relative(path: str, checkout: str) -> str:
    return path.removeprefix(f"{checkout.rstrip('/')}/").removeprefix("./")
