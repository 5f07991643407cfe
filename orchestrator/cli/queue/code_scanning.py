"""The findings of a gate check in the forms of code hosts: SARIF 2.1.0, GitHub's annotations, and a job summary."""

import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from forgepool.orchestrator.launch.gate_check import GateCheckAnswer
from forgepool.supervisor.findings import Threshold, blocking
from forgepool.workers.schema.error_lines import plain_text

Level = Literal["error", "warning", "note"]
_LEVELS: dict[str, Level] = {"blocks": "error", "attention": "warning", "note": "note"}
_COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}
_GATE_FILE = "forgepool.yaml"
_MOST_NAMES = 10
_OF_ADDRESS = re.compile(r":(?=//)|(?<=www)\.", re.IGNORECASE)
"""Makes a link of a bare address in markdown."""
_MOST_ANNOTATIONS = 10
"""GitHub shows ten of each level for a step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeRemark:
    """One finding with its place; without a path it is about the whole change."""

    level: Level
    rule: str
    words: str
    path: str = ""
    line: int = 0


def publish(
    answer: GateCheckAnswer, threshold: Threshold, *, sarif: Path | None, summary: Path | None, annotate: bool
) -> None:
    """Write the findings to these files, the summary behind what is there; annotations go to standard error."""
    remarks = remarks_of(answer, threshold)
    if annotate:
        sys.stderr.writelines(f"{line}\n" for line in annotations(remarks))
    if sarif is not None:
        sarif.write_text(sarif_log(remarks))
    if summary is not None:
        with summary.open("a") as file:
            file.write(job_summary(answer, remarks))


def remarks_of(answer: GateCheckAnswer, threshold: Threshold) -> list[CodeRemark]:
    """Return everything that scans, checks and reviewers found, errors first."""
    return sorted(_remarks(answer, threshold), key=lambda one: [*_COMMANDS].index(one.level))


def _remarks(answer: GateCheckAnswer, threshold: Threshold) -> Iterator[CodeRemark]:
    if answer.result is not None:
        for scan in answer.result.findings:
            path = "" if scan.path == "." else scan.path
            yield CodeRemark(level=_LEVELS[scan.weight], rule=scan.rule, words=scan.said, path=path, line=scan.line)
        for failure in answer.result.failures:
            what = f"the set-up of '{failure.check}'" if failure.setup else f"check '{failure.check}'"
            found = _names(failure.tests) or failure.reason or failure.how.replace("_", " ")
            yield CodeRemark(level="error", rule=failure.check, words=f"{what} is red: {found}")
            # Problems begin with their place, as the tool printed them.
            yield from (CodeRemark(level="error", rule=failure.check, words=problem) for problem in failure.problems)
    if answer.review is not None:
        held = blocking(answer.review.findings, threshold)
        for finding in answer.review.findings:
            level: Level = "error" if finding in held else "note"
            words = f"{finding.claim} {finding.evidence}" + (f" Fix: {finding.fix}" if finding.fix else "")
            yield CodeRemark(
                level=level, rule=f"review/{finding.category}", words=words, path=finding.file, line=finding.line
            )


def _names(tests: Sequence[str]) -> str:
    more = f" and {len(tests) - _MOST_NAMES} more" if len(tests) > _MOST_NAMES else ""
    return ", ".join(tests[:_MOST_NAMES]) + more


def sarif_log(remarks: Sequence[CodeRemark]) -> str:
    """Return one SARIF log with one run. A remark about the whole change has its place in the gate file."""
    rules = sorted({one.rule for one in remarks})
    driver = {"name": "forgepool", "version": version("forgepool"), "rules": [{"id": rule} for rule in rules]}
    log = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": [_result(one) for one in remarks]}],
    }
    return json.dumps(log, indent=1) + "\n"


def _result(one: CodeRemark) -> dict[str, object]:
    # GitHub refuses a whole log for one result without a place.
    place: dict[str, object] = {"artifactLocation": {"uri": quote(one.path or _GATE_FILE)}}
    if one.line or not one.path:
        place["region"] = {"startLine": one.line or 1}
    return {
        "ruleId": one.rule,
        "level": one.level,
        "message": {"text": one.words},
        "locations": [{"physicalLocation": place}],
    }


def annotations(remarks: Sequence[CodeRemark]) -> Iterator[str]:
    """Yield the lines by which a step of GitHub Actions annotates a change."""
    left = dict.fromkeys(_COMMANDS, _MOST_ANNOTATIONS)
    for one in remarks:
        left[one.level] -= 1
        if left[one.level] < 0:
            continue
        place = {"file": one.path, "line": str(one.line or "")} if one.path else {}
        keys = {**place, "title": f"forgepool: {one.rule}"}
        told = ",".join(f"{key}={_escape(value, ':,')}" for key, value in keys.items() if value)
        yield f"::{_COMMANDS[one.level]} {told}::{_escape(one.words)}"


def _escape(text: str, more: str = "") -> str:
    return "".join(f"%{ord(each):02X}" if each in f"%\r\n{more}" else each for each in plain_text(text))


def job_summary(answer: GateCheckAnswer, remarks: Sequence[CodeRemark]) -> str:
    """Return the summary of a job in markdown: the verdict, the checks, and the findings as a table."""
    verdict = {"passes": "passes", "nothing": "passes: nothing changes", "refused": "does not pass"}
    lines = [f"### Forgepool: {verdict.get(answer.verdict, 'no verdict')}", "", _cell(answer.why), ""]
    if answer.result is not None and answer.result.certificates:
        green = ", ".join(f"`{one.check}`" for one in answer.result.certificates)
        lines += [f"Green checks: {green}", ""]
    if remarks:
        lines += ["| level | rule | place | finding |", "|---|---|---|---|"]
        lines += [
            f"| {one.level} | {_cell(one.rule)} | {_cell(f'{one.path}:{one.line}' if one.line else one.path)} "
            f"| {_cell(one.words)} |"
            for one in remarks
        ]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    """Make text one line of markdown in which nothing is a link, a tag or a column."""
    plain = " ".join(plain_text(text).split())
    marked = "".join(f"&#{ord(each)};" if each in "|<>&[]`!*_@#\\" else each for each in plain)
    return _OF_ADDRESS.sub(lambda found: f"&#{ord(found[0])};", marked)
