"""A blocking finding keeps an entry out before any check runs; one that asks for attention goes to a review."""

import pytest
from gates import Gate, check

from forgepool.supervisor.messages.answers import CheckResult
from forgepool.supervisor.messages.requests import CheckRequest, EntryRef

TEST = check("! grep -q bad a")
CONFLICT = "<<<<<<< ours\n1\n=======\n2\n>>>>>>> theirs\n"
UNSURE = {"notes.txt": CONFLICT}
"""A conflict marker in prose, which may be the subject of the text."""


def ran(gate: Gate, request: CheckRequest) -> list[str]:
    folder = gate.settings.home / "runs" / "r" / "logs" / "checks" / request.request_id
    return sorted(path.name for path in folder.glob("*.log"))


def asked(gate: Gate, entry: EntryRef, **said: object) -> CheckResult:
    return gate.examine(gate.request(entry, TEST, **said))


def test_what_a_scan_holds_against_an_entry_is_told_and_no_check_is_run(gate: Gate) -> None:
    request = gate.request(gate.entry("one", {"b.py": CONFLICT}, scanned=True), TEST)
    found = gate.examine(request)
    assert (found.verdict, found.failures, found.certificates) == ("findings", (), ())
    worst = found.findings[0]
    assert (worst.weight, worst.path) == ("blocks", "b.py")
    assert found.detail.startswith(f"b.py:{worst.line}: {worst.said} ({worst.rule})")
    assert "=======" in found.diff_tail and "git diff" in found.reproduce and found.patch_id
    assert ran(gate, request) == []


def test_how_many_more_there_are_is_told(gate: Gate) -> None:
    found = asked(gate, gate.entry("one", {"b.py": CONFLICT, "c.py": CONFLICT}, scanned=True))
    assert found.detail.endswith("more such findings") and len(found.findings) > 1


def test_without_anything_to_find_the_checks_decide(gate: Gate) -> None:
    request = gate.request(gate.entry("one", {"b.py": "1\n2\n"}, scanned=True), TEST)
    assert gate.examine(request).verdict == "green"
    assert ran(gate, request) != []


@pytest.mark.parametrize("who", ["the person", "the target"])
def test_what_is_waived_by_whom_it_may_be_is_not_found(gate: Gate, who: str) -> None:
    entry = gate.entry("one", {"b.py": CONFLICT}, scanned=True)
    rules = tuple({each.rule for each in asked(gate, entry).findings})
    if who == "the person":
        entry = entry.model_copy(update={"waive": rules})
    else:
        waive = ", ".join(rules)
        gate.hub.commit({"forgepool.yaml": f"version: 1\nchecks: {{own: test -e a}}\nscans: {{waive: [{waive}]}}\n"})
    found = asked(gate, entry)
    assert (found.verdict, found.findings) == ("green", ())


def test_an_entry_cannot_waive_for_itself(gate: Gate) -> None:
    own = "version: 1\nchecks: {own: test -e a}\nscans: {waive: [conflict-marker]}\n"
    entry = gate.entry("one", {"b.py": CONFLICT, "forgepool.yaml": own}, scanned=True)
    found = asked(gate, entry.model_copy(update={"grants": ("forgepool.yaml",)}))
    assert found.verdict == "findings" and "b.py" in {each.path for each in found.findings}


def test_what_wants_a_look_is_kept_out_where_nobody_looks(gate: Gate) -> None:
    entry = gate.entry("one", dict(UNSURE), scanned=True)
    found = asked(gate, entry)
    assert found.verdict == "findings"
    assert {each.weight for each in found.findings} == {"attention"}


@pytest.mark.parametrize("who", ["the plan", "the target"])
def test_what_wants_a_look_is_let_through_to_a_review(gate: Gate, who: str) -> None:
    """The reviewer is told the finding. Without an approval the entry does not land."""
    if who == "the target":
        gate.hub.commit({"forgepool.yaml": "version: 1\nchecks: {own: test -e a}\nreview: required\n"})
    request = gate.request(gate.entry("one", dict(UNSURE), scanned=True), TEST, reviewed=who == "the plan")
    found = gate.examine(request)
    assert (found.verdict, {each.weight for each in found.findings}) == ("green", {"attention"})
    landed = gate.land(gate.landing(request, found))
    assert landed.outcome == "refused" and "it has no approval" in landed.detail


def test_what_blocks_is_kept_out_whoever_looks(gate: Gate) -> None:
    assert asked(gate, gate.entry("one", {"b.py": CONFLICT}, scanned=True), reviewed=True).verdict == "findings"


def test_the_target_protects_what_it_names(gate: Gate) -> None:
    gate.hub.commit({"forgepool.yaml": "version: 1\nchecks: {own: test -e a}\nscans: {protect: [a]}\n"})
    entry = gate.entry("one", {"a": "2\n"}, scanned=True)
    found = asked(gate, entry)
    assert found.verdict == "findings" and found.findings[0].path == "a"
    assert asked(gate, gate.entry("other", {"b": "2\n"}, scanned=True)).verdict == "green"
    assert asked(gate, entry.model_copy(update={"grants": ("a",)})).verdict == "green"


def test_a_secret_is_not_handed_on_with_the_difference(gate: Gate) -> None:
    key = "AKIA" + "Q3EGZ7XW2LMNKPRT"
    found = asked(gate, gate.entry("one", {"app.py": f'KEY = "{key}"\n'}, scanned=True))
    assert found.verdict == "findings"
    assert key not in found.encode() and "app.py" in found.diff_tail


def test_a_request_that_is_given_up_is_not_tried_by_a_single_check(gate: Gate) -> None:
    request = gate.request(gate.entry("one", {"b": "2\n"}, scanned=True), TEST)
    found = gate.examine(request, stop=lambda: True)
    assert (found.verdict, found.detail) == ("infrastructure", "stopped before the checks had ended")
    assert ran(gate, request) == []


def test_what_stands_ahead_is_scanned_too_since_it_may_land_together(gate: Gate) -> None:
    """Its own trial may still run, or may have found just this."""
    stands = gate.entry("one", {"b.py": CONFLICT}, scanned=True)
    behind = gate.entry("two", {"c.py": "1\n"}, scanned=True)
    found = asked(gate, behind, ahead=(stands,))
    assert (found.verdict, found.about) == ("findings", "one")
    let = stands.model_copy(update={"waive": ("conflict-marker",)})
    assert asked(gate, behind, ahead=(let,)).verdict == "green", "where a person waives it"


def test_the_targets_own_tests_are_run_for_what_stands_ahead_as_well(gate: Gate) -> None:
    """The entry ahead adjusts the tests to itself, and the target's own tests fail on it."""
    gate.hub.commit({"a": "1\n", "tests/test_a.sh": "grep -q 1 a\n"})
    suite = check("for one in tests/test_*; do sh $one || exit 1; done")
    loosened = gate.entry("one", {"a": "2\n", "tests/test_a.sh": "grep -q 2 a\n"})
    behind = gate.entry("two", {"c.py": "1\n"})
    alone = gate.examine(gate.request(loosened, suite))
    assert alone.verdict == "findings", "somebody has to look at it"
    together = gate.examine(gate.request(behind, suite, ahead=(loosened,), decisive=False))
    assert together.verdict == "findings"
    leave = loosened.model_copy(update={"grants": ("tests/**",)})
    assert gate.examine(gate.request(behind, suite, ahead=(leave,), decisive=False)).verdict == "green"
