"""
A reviewer's verdict: the form it fills in, and whether it counts. Pure, but for what lines a file has.
"""

from collections.abc import Callable, Iterator
from typing import Literal

from pydantic import Field

from forgepool.supervisor.findings import ReviewFinding, Threshold, blocking
from forgepool.workers.shell.purpose.file_access import normal_path
from forgepool.workers.tools.tool import Arguments

_MOST_CHARACTERS = 4_000
"""The most characters of each text in it, since it travels and is shown."""

LastLine = Callable[[str], int | None]
"""The number of a file's last line; None where there is no such file."""


class Criterion(Arguments):
    number: int
    met: bool
    evidence: str = Field(min_length=1, description="the file, the lines or the behaviour that show it")


class VerdictForm(Arguments):
    verdict: Literal["pass", "fail"]
    findings: tuple[ReviewFinding, ...] = Field(
        max_length=100, description="all of them, each with a file of the tree; may be empty"
    )
    confidence: float = Field(description="from 0 to 1")
    summary: str = Field(min_length=1, description="what you looked at and how, in a few sentences")
    files_read: tuple[str, ...] = Field(default=(), description="the changed files that you have read")
    criteria: tuple[Criterion, ...] = Field(
        default=(), description="an answer to each criterion of the task, by its number; empty where it has none"
    )


def settle_form(form: VerdictForm, *, root: str) -> VerdictForm:
    """The same with paths in one spelling and texts of bearable length."""
    findings = tuple(
        one.model_copy(
            update={
                "file": normal_path(one.file, root),
                "claim": one.claim[:_MOST_CHARACTERS],
                "evidence": one.evidence[:_MOST_CHARACTERS],
                "fix": one.fix[:_MOST_CHARACTERS],
            }
        )
        for one in form.findings
    )
    criteria = tuple(one.model_copy(update={"evidence": one.evidence[:_MOST_CHARACTERS]}) for one in form.criteria)
    return form.model_copy(
        update={"findings": findings, "summary": form.summary[:_MOST_CHARACTERS], "criteria": criteria}
    )


def objections(form: VerdictForm, threshold: Threshold, last_line: LastLine, *, criteria: int = 0) -> Iterator[str]:
    """
    Why the form does not count, apart from what was read; none where it does.

    `criteria` is the number of the task's criteria.
    """
    held = blocking(form.findings, threshold)
    if not 0.0 <= form.confidence <= 1.0:
        yield f"confidence is {form.confidence:g}; give a number from 0 to 1"
    if form.verdict == "fail" and not form.findings:
        yield "it fails without a finding; say what is wrong, or pass"
    if form.verdict == "pass" and held:
        yield f"it passes with {_named(held[0])} which must be mended; fail, or judge it again"
    for finding in form.findings:
        last = last_line(finding.file)
        if last is None:
            yield f"there is no file {finding.file!r} in the tree under review; name one that is there"
        elif finding.line > last:
            yield f"{finding.file} has {last} lines, and a finding names line {finding.line}; name the line itself"
    yield from _unanswered(form, criteria)


def _unanswered(form: VerdictForm, criteria: int) -> Iterator[str]:
    answered = [one.number for one in form.criteria]
    for number in range(1, criteria + 1):
        if answered.count(number) != 1:
            yield f"criterion {number} is answered {answered.count(number)} times; answer each once, with evidence"
    for one in form.criteria:
        if not 1 <= one.number <= criteria:
            yield f"there is no criterion {one.number}; the task has {criteria}"
        elif not one.met and form.verdict == "pass":
            yield f"it passes although criterion {one.number} is not met; fail, with a finding that shows it"


def _named(finding: ReviewFinding) -> str:
    return f"a {finding.severity} {finding.category} finding in {finding.file}"
