"""
A reviewer's findings about a change, by category and severity; and which of them must be fixed.

A reviewer's finding goes through the **ROI filter**: a table over category and severity says `fix`, `fix_if_easy` or
`drop`. It decides what is held against a candidate and what the next attempt is told; nothing of what it drops is lost,
the report has it. Nothing to fix is an answer like any other.
"""

from typing import Literal

from pydantic import Field

from forgepool.workers.schema.orders import Message

Severity = Literal["critical", "high", "medium", "low"]
Category = Literal[
    "security",
    "data_loss",
    "bug",
    "scaling",
    "reliability",
    "test_gap",
    "requirement",
    "style",
    "theory",
    "pattern",
]
"""
`bug` breaks what a user does; `requirement`: what the task asked for is not done; `theory` could not be shown to
happen; `pattern` is a wish for another way of doing the same.
"""


class ReviewFinding(Message):
    """A reviewer's finding, in its own words. Where `file` is no file of the composed tree, the verdict is void."""

    severity: Severity
    category: Category
    file: str = Field(min_length=1)
    line: int = Field(default=0, ge=0)
    claim: str = Field(min_length=1)
    """The fault that it claims."""
    evidence: str = Field(min_length=1)
    """The input, the steps or the lines that show it."""
    fix: str = ""
    """The fix that the reviewer proposes."""


Treatment = Literal["fix", "fix_if_easy", "drop"]
Threshold = Literal["fix", "fix_if_easy"]
"""The findings that count against a candidate: `fix` alone, or `fix_if_easy` as well."""

_TABLE: dict[Category, tuple[Treatment, Treatment, Treatment, Treatment]] = {
    "security": ("fix", "fix", "fix", "fix_if_easy"),
    "data_loss": ("fix", "fix", "fix", "fix_if_easy"),
    "bug": ("fix", "fix", "fix_if_easy", "drop"),
    "scaling": ("fix", "fix", "fix_if_easy", "drop"),
    "requirement": ("fix", "fix", "fix_if_easy", "drop"),
    "reliability": ("fix_if_easy", "fix_if_easy", "fix_if_easy", "drop"),
    "test_gap": ("fix_if_easy", "fix_if_easy", "drop", "drop"),
    "style": ("drop", "drop", "drop", "drop"),
    "theory": ("drop", "drop", "drop", "drop"),
    "pattern": ("drop", "drop", "drop", "drop"),
}
"""By severity, worst first. Security and loss of data are never dropped."""
_SEVERITIES: tuple[Severity, ...] = ("critical", "high", "medium", "low")


def treatment(finding: ReviewFinding) -> Treatment:
    """
    Return the treatment of a finding, by category and severity alone.

    Source: the ROI filter of Project Forge 1.2, section 4.1, made a table.
    """
    return _TABLE[finding.category][_SEVERITIES.index(finding.severity)]


def blocking(findings: tuple[ReviewFinding, ...], threshold: Threshold) -> tuple[ReviewFinding, ...]:
    """Return the findings that are held against the candidate, in their order."""
    held = {"fix"} if threshold == "fix" else {"fix", "fix_if_easy"}
    return tuple(one for one in findings if treatment(one) in held)
