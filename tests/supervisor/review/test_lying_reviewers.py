"""Reviewers that pass a change unread, or in a form that does not count. None gets through."""

import pytest
from review_kit import Desk, Turn, calls, finding, read, script, several, verdict

from forgepool.supervisor.messages.requests import ReviewPolicy

PASS, FAIL = verdict("pass"), verdict("fail", finding("a", 5))
BASE = {"a": "".join(f"{n}\n" for n in range(1, 41)), "c": "".join(f"{n}\n" for n in range(1, 31))}
CHANGE = {
    "a": "".join("new\n" if n in (5, 35) else f"{n}\n" for n in range(1, 41)),
    "b": "x\ny\nz\n",
    "c": "".join(f"{n}\n" for n in range(1, 31) if n != 15),
}
"""Two lines of `a` are others, `b` is new, and `c` has lost its line 15."""


def page(path: str, start: int, lines: int) -> Turn:
    return {"tool": "read_file", "path": path, "start": start, "lines": lines}


ALL = calls(page("a", 1, 40), page("b", 1, 3), page("c", 1, 29))
UNREAD: dict[str, list[Turn]] = {
    "nothing": [],
    "searches that show it all": [calls(*({"tool": "grep", "pattern": ".", "path": p, "context": 50} for p in "abc"))],
    "names": [calls({"tool": "glob", "pattern": "*"})],
    "what stands before the changes": [calls(page("a", 1, 4), page("b", 1, 3), page("c", 1, 13))],
    "what stands between them": [calls(page("a", 6, 29), page("b", 1, 3), page("c", 1, 29))],
    "what stands after them": [calls(page("a", 36, 5), page("b", 1, 3), page("c", 16, 14))],
    "the first change of two": [calls(page("a", 1, 34), page("b", 1, 3), page("c", 1, 29))],
    "the second change of two": [calls(page("a", 6, 35), page("b", 1, 3), page("c", 1, 29))],
    "a new file but its last line": [calls(page("a", 1, 40), page("b", 1, 2), page("c", 1, 29))],
    "a new file but its first line": [calls(page("a", 1, 40), page("b", 2, 2), page("c", 1, 29))],
    "all but the gap": [calls(page("a", 1, 40), page("b", 1, 3), page("c", 1, 13), page("c", 16, 14))],
    "the first line of each": [calls(page("a", 1, 1), page("b", 1, 1), page("c", 1, 1))],
    "two files of three": [read("a", "b")],
    "one file of three": [read("b")],
    "other files": [read("nowhere", "a.orig", "../a")],
    "pages beyond the end": [calls(page("a", 99, 9), page("b", 99, 9), page("c", 99, 9))],
    "the same page again and again": [calls(page("a", 1, 5)), calls(page("a", 1, 5)), calls(page("a", 2, 4))],
}
LATE = {**PASS, "calls": [*ALL["calls"], *PASS["calls"]]}
ENDINGS: dict[str, list[Turn]] = {
    "says it twice": [PASS, PASS],
    "claims to have read it": [verdict("pass", summary="read every line of a, b and c", confidence=1.0)] * 2,
    "looks while it says so, then talks": [LATE, {"say": "As I said, it passes."}, {"say": "It passes."}],
}
TWICE = calls(*PASS["calls"], *PASS["calls"])
FORMS: dict[str, list[Turn]] = {
    "two passes in one turn": [TWICE, TWICE],
    "a pass and a fail in one turn": [calls(*PASS["calls"], *FAIL["calls"])] * 2,
    "a fail and a pass in one turn": [calls(*FAIL["calls"], *PASS["calls"])] * 2,
    "a form that is none, and a pass": [calls({"tool": "verdict", "verdict": "yes"}, *PASS["calls"])] * 2,
    "three in one turn, then words": [calls(*PASS["calls"] * 3), {"say": "It passes."}, {"say": "It passes."}],
    "two in one turn, then a page and one beyond the chances": [TWICE, TWICE, ALL, PASS],
    "a pass with what must be mended": [verdict("pass", finding("a", 5))] * 2,
    "a fail without a finding": [verdict("fail")] * 2,
    "a finding in no file": [verdict("pass", finding("nowhere", 1, severity="low"))] * 2,
    "a finding on no line": [verdict("pass", finding("b", 9, severity="low"))] * 2,
    "more than certain": [verdict("pass", confidence=2.0)] * 2,
    "words alone": [{"say": '{"verdict": "pass"}'}, {"say": "PASS"}],
}
LIES: dict[str, list[Turn]] = {
    **{f"read {what}; {how}": [*turns, *end] for what, turns in UNREAD.items() for how, end in ENDINGS.items()},
    **{f"read it all; {how}": [ALL, *turns] for how, turns in FORMS.items()},
}


@pytest.fixture
def changed(desk: Desk) -> Desk:
    desk.gate.hub.commit(BASE)
    return desk


def test_no_lying_reviewer_passes_a_change(changed: Desk) -> None:
    """There are more than sixty, side by side before the same change, and no verdict of any of them counts."""
    assert len(LIES) >= 60
    scripts = (script(*turns, family=f"liar-{number}") for number, turns in enumerate(LIES.values()))
    policy = ReviewPolicy(script=several(*scripts)).model_copy(update={"reviewers": len(LIES)})
    found = changed.review(CHANGE, policy)
    assert found.outcome == "void" and len(found.families) == len(LIES)
    assert found.detail.count("scripted: ") == len(LIES), "each has ended without a verdict"


HONEST: dict[str, tuple[list[Turn], int]] = {
    "whole files": ([ALL, PASS], 0),
    "the changed places alone": (
        [calls(page("a", 5, 1), page("a", 35, 1)), calls(page("b", 1, 3), page("c", 14, 1)), PASS],
        0,
    ),
    "the line after the gap": ([calls(page("a", 1, 40), page("b", 1, 3), page("c", 15, 1)), PASS], 0),
    "one page too few, told, read, and said again": ([calls(page("a", 1, 34)), read("b", "c"), PASS, ALL, PASS], 1),
    "two verdicts at once, told, and one": ([ALL, TWICE, PASS], 1),
}


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_reviewer_passes_it(changed: Desk, name: str) -> None:
    turns, voids = HONEST[name]
    found = changed.review(CHANGE, script(*turns))
    assert (found.outcome, len(found.voids)) == ("passed", voids), found


def test_a_reviewer_is_told_which_line_it_has_not_seen(changed: Desk) -> None:
    found = changed.review(CHANGE, script(calls(page("a", 1, 34)), read("b", "c"), PASS, ALL, PASS))
    assert found.voids[0].endswith("read_file has not shown you the changed lines of: a (line 35 and others)")


@pytest.mark.parametrize(("seen", "outcome"), [(1_000, "passed"), (999, "void")])
def test_of_a_very_long_change_a_part_is_read_and_the_share_is_told(desk: Desk, seen: int, outcome: str) -> None:
    long = "".join(f"line {n}\n" for n in range(1_200))
    found = desk.review({"new": long}, script(calls(page("new", 1, seen)), PASS, PASS))
    assert found.outcome == outcome, found
    share = "[1,000 of the 1,200 changed lines of new were shown to a reviewer]"
    assert (share in found.summary) is (outcome == "passed")
