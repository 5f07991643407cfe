"""A check without a vote is run and reported, and never keeps an entry out."""

import pytest
from gates import Gate, check

from forgepool.supervisor.messages.answers import CheckResult
from forgepool.workers.policy.gate_file.reading import read_gate_file
from forgepool.workers.schema.mistakes import DocumentWrong

GREEN = check("test -e a")


def voteless(gate: Gate, run: str, **said: object) -> CheckResult:
    """Examine and land an entry that is green apart from a check without a vote."""
    gate.unconfined()
    request = gate.request(gate.entry("one", {"b": "2\n"}), GREEN, check(run, "lint", voting=False, **said))
    found = gate.examine(request)
    assert (found.verdict, [one.check for one in found.certificates]) == ("green", ["test"]), found
    landed = gate.land(gate.landing(request, found))
    assert (landed.outcome, landed.commit) == ("landed", found.commit), landed
    return found


@pytest.mark.parametrize(
    ("run", "said", "green"),
    [
        ("echo so much is wrong; exit 3", "is red: it exited with 3", False),
        ("true", "is green", True),
        ("sleep 60", "is red: it did not end in its time", False),
        ("there-is-no-such-program", "is red: it exited with 127", False),
    ],
    ids=["red", "green", "late", "missing"],
)
def test_whatever_it_comes_to_the_entry_lands(gate: Gate, run: str, said: str, green: bool) -> None:
    (told,) = voteless(gate, run, timeout_s=0.5).advice
    assert (told.check, told.green, told.said) == ("lint", green, said)
    assert told.words == f"'lint', which has no vote, {said}"


def test_what_it_may_not_reach_keeps_it_from_being_run_and_nobody_waiting(gate: Gate) -> None:
    (told,) = voteless(gate, "true", network=("registry.example",)).advice
    assert told.green is None
    assert told.said.startswith("could not be run: ")


def test_a_check_with_a_vote_keeps_the_same_entry_out(gate: Gate) -> None:
    gate.unconfined()
    one = gate.entry("one", {"b": "2\n"})
    found = gate.examine(gate.request(one, GREEN, check("! grep 2 b", "lint")))
    assert (found.verdict, found.failures[0].check, found.advice) == ("red", "lint", ())


def test_where_the_others_are_red_it_is_not_asked(gate: Gate) -> None:
    gate.unconfined()
    gone = check(f"touch {gate.folder}/ran", "lint", voting=False)
    found = gate.examine(gate.request(gate.entry("one", {"b": "2\n"}), check("! grep 2 b"), gone))
    assert (found.verdict, (gate.folder / "ran").exists()) == ("red", False)


def test_a_gate_in_which_nothing_votes_lets_nothing_in(gate: Gate) -> None:
    found = gate.examine(gate.request(gate.entry("one", {"b": "2\n"}), check("true", voting=False)))
    assert (found.verdict, "nothing would be demanded" in found.detail) == ("not_configured", True)


def test_the_target_as_a_whole_is_green_without_it(gate: Gate) -> None:
    gate.unconfined()
    request = gate.request(gate.entry("one", {"b": "2\n"}), GREEN, check("exit 1", "lint", voting=False))
    found = gate.examine(request.model_copy(update={"entries": (), "whole": True}))
    assert (found.verdict, [one.green for one in found.advice]) == ("green", [False])


def test_what_has_a_vote_does_not_hang_on_what_has_none() -> None:
    text = "version: 1\nchecks:\n  build: {run: make, voting: false}\n  test: {run: make test, uses: [build]}\n"
    with pytest.raises(DocumentWrong) as wrong:
        read_gate_file(text)
    said = "forgepool.yaml:4: check 'test' uses 'build', which has no vote and could keep it from running; "
    assert wrong.value.mistakes[0].startswith(said)
    read_gate_file(text.replace("{run: make test,", "{run: make test, voting: false,"))
