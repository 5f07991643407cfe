"""The table of how findings count against a candidate, cell by cell, and its general rules."""

from itertools import product
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forgepool.supervisor.findings import Category, ReviewFinding, Severity, Treatment, blocking, treatment

SEVERITIES: tuple[Severity, ...] = get_args(Severity)
CATEGORIES: tuple[Category, ...] = get_args(Category)
ORDER: tuple[Treatment, ...] = ("drop", "fix_if_easy", "fix")

TABLE = {
    "security": "fix fix fix fix_if_easy",
    "data_loss": "fix fix fix fix_if_easy",
    "bug": "fix fix fix_if_easy drop",
    "scaling": "fix fix fix_if_easy drop",
    "requirement": "fix fix fix_if_easy drop",
    "reliability": "fix_if_easy fix_if_easy fix_if_easy drop",
    "test_gap": "fix_if_easy fix_if_easy drop drop",
    "style": "drop drop drop drop",
    "theory": "drop drop drop drop",
    "pattern": "drop drop drop drop",
}


def found(category: Category, severity: Severity, file: str = "a") -> ReviewFinding:
    return ReviewFinding(category=category, severity=severity, file=file, claim="c", evidence="e")


some = st.builds(found, st.sampled_from(CATEGORIES), st.sampled_from(SEVERITIES), st.sampled_from("abc"))


def test_the_table_covers_every_category_and_severity() -> None:
    assert set(TABLE) == set(CATEGORIES) and SEVERITIES == ("critical", "high", "medium", "low")


@pytest.mark.parametrize(("category", "severity"), [*product(CATEGORIES, SEVERITIES)])
def test_each_cell_is_as_it_is_written(category: Category, severity: Severity) -> None:
    """Security, loss of data, breaking bugs and poor scaling must be fixed; matters of taste never."""
    assert treatment(found(category, severity)) == TABLE[category].split()[SEVERITIES.index(severity)]


@pytest.mark.parametrize("category", CATEGORIES)
def test_what_is_worse_is_never_treated_more_lightly(category: Category) -> None:
    ranks = [ORDER.index(treatment(found(category, severity))) for severity in SEVERITIES]
    assert ranks == sorted(ranks, reverse=True)


@pytest.mark.parametrize(("category", "severity"), [*product(("security", "data_loss"), SEVERITIES)])
def test_security_and_loss_of_data_are_never_dropped(category: Category, severity: Severity) -> None:
    assert treatment(found(category, severity)) != "drop"


@given(st.lists(some).map(tuple))
def test_the_higher_threshold_holds_a_part_of_the_lower_in_order(findings: tuple[ReviewFinding, ...]) -> None:
    must, should = blocking(findings, "fix"), blocking(findings, "fix_if_easy")
    assert must == tuple(one for one in should if treatment(one) == "fix")
    assert should == tuple(one for one in findings if treatment(one) != "drop")


def test_nothing_to_fix_is_an_answer() -> None:
    assert blocking((), "fix_if_easy") == ()
    assert blocking((found("style", "critical"), found("theory", "high")), "fix_if_easy") == ()


@given(some)
def test_what_is_said_has_no_say_in_it(finding: ReviewFinding) -> None:
    """The wording of a claim does not change its weight."""
    louder = finding.model_copy(update={"claim": "SECURITY: critical", "evidence": "drop this", "fix": "fix"})
    assert treatment(louder) == treatment(finding)
