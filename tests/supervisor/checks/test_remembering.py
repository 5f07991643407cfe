"""Green results on the same inputs are reused, red ones are not, and the tip's results are known."""

from typing import Any

import pytest
from gates import Gate, check

from forgepool.supervisor.messages.answers import CheckResult
from forgepool.supervisor.messages.requests import CheckRequest, EntryRef

TEST = check("! grep -q bad a b")


def ran(gate: Gate, request: CheckRequest) -> list[str]:
    """Return the runs of a request, by their logs."""
    folder = gate.settings.home / "runs" / "r" / "logs" / "checks" / request.request_id
    return sorted(path.name.removesuffix(".log") for path in folder.glob("*.log"))


def asked(gate: Gate, entry: EntryRef, *checks: Any, **said: Any) -> tuple[CheckResult, list[str]]:
    request = gate.request(entry, *checks or (TEST,), **said)
    request = request.model_copy(
        update={"request_id": f"{request.request_id}-{len(list(gate.settings.home.rglob('r.*')))}"}
    )
    return gate.examine(request), ran(gate, request)


def test_the_same_tree_is_not_checked_twice(gate: Gate) -> None:
    entry = gate.entry("one", {"b": "2\n"})
    first, runs = asked(gate, entry)
    assert runs == ["base-test", "composed-test"]
    again, runs = asked(gate, entry)
    assert (again.verdict, runs) == ("green", [])
    (one,), (other,) = first.certificates, again.certificates
    assert (one.reused, other.reused) == (False, True)
    assert other.seconds == one.seconds, "that of the run"
    assert other.key == one.key


def test_what_was_reused_lands_like_what_was_run(gate: Gate) -> None:
    entry = gate.entry("one", {"b": "2\n"})
    asked(gate, entry)
    request = gate.request(entry, TEST)
    assert gate.land(gate.landing(request, gate.examine(request))).outcome == "landed"


def test_the_tip_is_run_once_for_all_entries(gate: Gate) -> None:
    entries = [gate.entry(f"t{number}", {f"f{number}": "x\n"}) for number in range(3)]
    assert [asked(gate, entry)[1] for entry in entries] == [["base-test", "composed-test"], *[["composed-test"]] * 2]


def test_the_tip_that_has_just_landed_is_not_run_again(gate: Gate) -> None:
    """It was checked as a candidate, on the same bytes."""
    start = gate.hub.tip()
    gate.let_in(gate.entry("first", {"b": "2\n"}, on=start), TEST)
    found, runs = asked(gate, gate.entry("second", {"c": "2\n"}, on=start))
    assert (found.verdict, runs) == ("green", ["composed-test"])


def test_red_is_not_taken_from_memory(gate: Gate) -> None:
    entry = gate.entry("one", {"b": "bad\n"})
    for _ in range(2):
        found, runs = asked(gate, entry)
        assert (found.verdict, runs) == ("red", ["again-test", "base-test", "composed-test"])


def test_a_tip_that_was_red_before_and_is_again_was_red_twice(gate: Gate) -> None:
    gate.hub.commit({"a": "bad\n"})
    entries = [gate.entry(f"t{number}", {f"f{number}": "x\n"}) for number in range(2)]
    first, runs = asked(gate, entries[0])
    assert (first.verdict, runs) == ("base_red", ["base-again-test", "base-test", "composed-test"])
    second, runs = asked(gate, entries[1])
    assert (second.verdict, runs) == ("base_red", ["base-test", "composed-test"])


def test_what_is_red_now_is_not_green_for_having_been_green(gate: Gate) -> None:
    """Checks can read the mirror, which lies outside the checkout. Something changes there."""
    sick = check('test ! -e "$(git rev-parse --git-common-dir)/sick" && ! grep -q bad a')
    entry = gate.entry("one", {"b": "2\n"})
    assert asked(gate, entry, sick)[0].verdict == "green"
    (gate.mirror.path / "sick").touch()
    other = gate.entry("other", {"b": "3\n"})
    found, runs = asked(gate, other, sick)
    assert found.verdict == "base_red", "the tip is remembered as green, and run anew all the same"
    assert "base-test" in runs and "base-again-test" in runs
    found, runs = asked(gate, entry, sick, whole=True)
    assert found.verdict == "base_red"


def test_what_ended_otherwise_than_well_is_run_again_even_where_that_is_accepted(gate: Gate) -> None:
    """pytest exits with 5 where there are no tests, and the check waives `no_tests`."""
    none = check("echo 'no tests ran in 0.01s'; exit 5", "test", waive=("no_tests",))
    entry = gate.entry("one", {"b": "2\n"})
    for _ in range(2):
        found, runs = asked(gate, entry, none)
        assert found.verdict == "green" and "composed-test" in runs


def test_a_request_for_the_whole_set_reuses_nothing(gate: Gate) -> None:
    entry = gate.entry("one", {"b": "2\n"})
    asked(gate, entry)
    found, runs = asked(gate, entry, whole=True)
    assert (found.verdict, runs) == ("green", ["base-test", "composed-test"])
    assert not found.certificates[0].reused


def test_another_definition_does_not_reuse_what_the_first_one_said(gate: Gate) -> None:
    entry = gate.entry("one", {"b": "2\n"})
    asked(gate, entry)
    assert asked(gate, entry, check("! grep -q worse a b"))[1] == ["base-test", "composed-test"]


def test_what_a_used_check_is_now_decides_whether_its_user_is_run(gate: Gate) -> None:
    entry = gate.entry("one", {"b": "2\n"})
    test = check("grep -q built out", uses=("build",))
    asked(gate, entry, check("echo built > out && test -e out", "build"), test)
    found, runs = asked(gate, entry, check("echo broken > out && test -e out", "build"), test)
    assert found.verdict == "base_red" and "composed-for-test-test" in runs


def test_where_nothing_holds_commands_everything_is_run_every_time(gate: Gate) -> None:
    gate.unconfined()
    entry = gate.entry("one", {"b": "2\n"})
    assert [asked(gate, entry)[1] for _ in range(2)] == [["base-test", "composed-test"]] * 2


@pytest.mark.parametrize(
    ("path", "runs"), [("docs/a.md", []), ("src/a", ["composed-test"]), ("else", ["composed-test"])]
)
def test_a_check_with_paths_is_not_run_for_what_it_does_not_depend_on(gate: Gate, path: str, runs: list[str]) -> None:
    """The other check covers `docs`. A path that neither covers counts for both."""
    gate.hub.commit({"src/a": "1\n", "docs/a.md": "1\n"})
    test = check("! grep -rq bad src", "test", paths=("src",))
    docs = check("! grep -rq bad docs", "docs", paths=("docs",))
    asked(gate, gate.entry("first", {"else0": "1\n"}), test, docs)
    found, told = asked(gate, gate.entry("second", {path: "2\n"}), test, docs)
    assert found.verdict == "green"
    assert [each for each in told if each.endswith("test")] == runs
    request = gate.request(gate.entry("third", {path: "3\n"}), test, docs)
    assert gate.land(gate.landing(request, gate.examine(request))).outcome == "landed"


def test_the_cheapest_is_run_first_once_it_is_known_which_that_is(gate: Gate) -> None:
    slow, quick = check("sleep 0.5; ! grep -q bad a", "slow"), check("! grep -q bad a", "quick")
    bad = gate.entry("bad", {"a": "bad\n"})
    assert asked(gate, bad, slow, quick)[0].failures[0].check == "slow", "nothing is known yet"
    asked(gate, gate.entry("good", {"b": "2\n"}), slow, quick)
    assert asked(gate, bad, slow, quick)[0].failures[0].check == "quick"


def test_what_the_definition_says_of_the_cost_counts_from_the_start(gate: Gate) -> None:
    slow, quick = check("! grep -q bad a", "slow", cost_s=60.0), check("! grep -q bad a", "quick", cost_s=1.0)
    assert asked(gate, gate.entry("bad", {"a": "bad\n"}), slow, quick)[0].failures[0].check == "quick"
