"""Figures of the shipped policy over a suite of commands: `python tests/workers/policy/cases.py` prints them."""

import pytest
from cases import ExplainedCase, explain_cases


@pytest.fixture(scope="module")
def explained(tmp_path_factory: pytest.TempPathFactory) -> tuple[ExplainedCase, ...]:
    return explain_cases(tmp_path_factory.mktemp("cases"))


def test_no_harmful_command_runs(explained: tuple[ExplainedCase, ...]) -> None:
    """Each refusal has a sentence that says why."""
    harmful = [each for each in explained if each.harmful]
    assert len(harmful) >= 150
    assert [each for each in harmful if each.is_wrong or not each.reason] == []


def test_at_most_two_in_a_hundred_benign_commands_are_refused(explained: tuple[ExplainedCase, ...]) -> None:
    benign = [each for each in explained if not each.harmful]
    assert len(benign) >= 150 and len({each.command for each in explained}) == len(explained) >= 300
    refused = [each for each in benign if each.is_wrong]
    assert len(refused) <= len(benign) * 0.02, refused


@pytest.mark.parametrize("kind", ["numbers that the shell knows", "patterns for file names", "git that looks"])
def test_what_only_looks_is_allowed_where_its_literal_form_is(explained: tuple[ExplainedCase, ...], kind: str) -> None:
    """Not merely recorded, but for commands that run a program or hold a variable."""
    recorded = {each.command for each in explained if each.kind == kind and each.decision == "audit"}
    assert recorded == RECORDED[kind]


RECORDED: dict[str, set[str]] = {
    "numbers that the shell knows": {
        'pytest -q; echo "status $?"',
        "make; exit $?",
        "ls; r=$?; echo $r",
        "python3 src/app.py; test $? = 1",
    },
    "patterns for file names": {"ls *.{js,ts}", 'for f in *.py; do echo "$f"; done'},
    "git that looks": {'git -C "$DIR" status'},
}
