"""A check finds the output only of the checks it uses, and cheap checks run before expensive ones."""

import pytest
from gates import check

from forgepool.workers.policy.gate_file.document import CheckDefinition
from forgepool.workers.workspace.checks.lines import line_of, lines_of


def one(name: str, *uses: str, cost_s: float | None = None) -> CheckDefinition:
    return check("make", name, uses=uses, cost_s=cost_s)


def told(*checks: CheckDefinition, **costs: float) -> list[tuple[str, str]]:
    """Return each chain of checks, and the checks it decides."""
    lines = lines_of(checks, lambda each: costs.get(each.name))
    return [
        (
            " ".join(each.name for each in line.checks),
            " ".join(each.name for each in line.checks if each.name in line.decides),
        )
        for line in lines
    ]


def test_checks_that_use_nothing_have_a_checkout_each() -> None:
    assert told(one("a"), one("b")) == [("a", "a"), ("b", "b")]


def test_what_uses_another_is_run_in_its_checkout_right_behind_it() -> None:
    assert told(one("build"), one("lint"), one("test", "build")) == [("build test", "build test"), ("lint", "lint")]


def test_of_two_that_use_the_same_one_neither_finds_what_the_other_has_left() -> None:
    found = told(one("build"), one("test", "build"), one("docs", "build"))
    assert found == [("build test", "build test"), ("build docs", "docs")]


def test_what_uses_two_finds_both_and_lets_neither_find_the_other() -> None:
    found = told(one("a"), one("b"), one("c", "a", "b"))
    assert found == [("a b c", "a c"), ("b", "b")]


def test_what_is_used_by_what_is_used_comes_first() -> None:
    checks = (one("c", "b"), one("b", "a"), one("a"))
    assert [each.name for each in line_of(checks[0], checks)] == ["a", "b", "c"]
    assert told(*checks) == [("a b c", "a b c")]


@pytest.mark.parametrize("circle", [("a", "a"), ("a", "b", "b", "a")])
def test_a_circle_that_came_this_far_ends_all_the_same(circle: tuple[str, ...]) -> None:
    pairs = list(zip(circle[::2], circle[1::2], strict=True))
    checks = tuple(one(name, used) for name, used in pairs)
    assert {name for line in lines_of(checks) for name in line.decides} == set(circle)


def test_the_cheap_come_before_the_dear_by_what_is_said_and_else_by_what_was_measured() -> None:
    checks = (one("slow", cost_s=60.0), one("measured"), one("quick", cost_s=1.0))
    assert [line for line, _ in told(*checks, measured=5.0, slow=0.1)] == ["quick", "measured", "slow"]


def test_of_what_nobody_knows_the_cost_the_order_is_as_written_and_behind_the_rest() -> None:
    checks = (one("b"), one("a"), one("known", cost_s=3600.0))
    assert [line for line, _ in told(*checks)] == ["known", "b", "a"]


def test_what_uses_something_dear_stays_behind_it_however_cheap_it_is() -> None:
    checks = (one("test", "build", cost_s=1.0), one("build", cost_s=60.0), one("lint", cost_s=5.0))
    assert [line for line, _ in told(*checks)] == ["lint", "build test"]
