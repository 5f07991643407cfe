"""Several reviewers judge separately and then see one another's findings; a rule decides where they disagree."""

import pytest
from review_kit import CLAUDE, COMMAND, Desk, Turn, finding, read, script, several, verdict

from forgepool.supervisor.messages.answers import Review
from forgepool.supervisor.messages.requests import Author, ReviewPolicy
from forgepool.workers.context.transcript.entries import ConversationStarted, TurnSaid

TWO = {"a": "2\n", "b": "2\n"}
LOOK = read("a", "b")
PASS = verdict("pass", summary="nothing found")
HOLD = verdict("fail", finding("a", claim="a is off by one"), summary="one found")


def debated(desk: Desk, *scripts: str, author: Author = COMMAND, **said: int) -> Review:
    usual = {"reviewers": 2, "rounds": 2}
    policy = ReviewPolicy(script=several(*scripts), **(usual | said))
    return desk.review(TWO, policy, author=author)


def left(*turns: Turn) -> str:
    return script(LOOK, *turns, family="left")


def right(*turns: Turn) -> str:
    return script(LOOK, *turns, family="right")


def third(*turns: Turn) -> str:
    return script(LOOK, *turns, family="third")


def test_who_agrees_is_asked_no_further(desk: Desk) -> None:
    found = debated(desk, left(PASS, HOLD), right(PASS, HOLD), rounds=5)
    assert (found.outcome, found.families, found.spent.turns) == ("passed", ("left", "right"), 4), found
    assert sorted(desk.transcripts()) == ["1-left", "2-right"]
    assert "[2 reviewers, 1 round]" in found.summary


def test_in_the_first_round_nobody_hears_of_another(desk: Desk) -> None:
    debated(desk, left(HOLD, HOLD), right(PASS, PASS))
    first = next(entry.turn.text for entry in desk.transcripts()["2-right"] if isinstance(entry, TurnSaid))
    assert "off by one" not in first and "reviewer A" not in first
    assert "a is off by one" in desk.told("2-right").split("Other reviewers")[1]
    assert "reviewer B" in desk.told("1-left") and "left" not in desk.told("2-right")


def test_what_the_other_takes_up_is_agreed(desk: Desk) -> None:
    found = debated(desk, left(HOLD, HOLD), right(PASS, HOLD), rounds=5)
    assert (found.outcome, len(found.findings), found.spent.turns) == ("failed", 1, 6)
    assert "[2 reviewers, 2 rounds]" in found.summary


def test_what_is_withdrawn_counts_no_longer(desk: Desk) -> None:
    found = debated(desk, left(HOLD, PASS), right(PASS, PASS), rounds=5)
    assert (found.outcome, found.findings, found.spent.turns) == ("passed", (), 6)


def test_without_a_judge_what_one_keeps_counts(desk: Desk) -> None:
    """Two reviewers without a finding do not outvote one with a finding."""
    found = debated(desk, left(PASS, PASS), right(HOLD, HOLD), third(PASS, PASS), reviewers=3)
    assert (found.outcome, [one.claim for one in found.findings]) == ("failed", ["a is off by one"])
    assert "no judge could be had" in found.summary


@pytest.mark.parametrize(("says", "outcome"), [(PASS, "passed"), (HOLD, "failed")])
def test_where_they_do_not_agree_a_third_family_decides(desk: Desk, says: Turn, outcome: str) -> None:
    found = debated(desk, left(HOLD, HOLD), right(PASS, PASS), third(says))
    assert (found.outcome, found.families) == (outcome, ("left", "right", "third"))
    assert found.read == ("a", "b") and sorted(desk.transcripts()) == ["1-left", "2-right", "3-third"]
    assert ("dismissed by the judge: a:1 a is off by one" in found.summary) == (outcome == "passed")
    assert "a is off by one" in desk.told("3-third")


def test_a_judge_has_to_read_as_well(desk: Desk) -> None:
    """A judge who has not read the change counts as no judge."""
    blind = script(PASS, PASS, family="third")
    found = debated(desk, left(HOLD, HOLD), right(PASS, PASS), blind)
    assert found.outcome == "failed" and len(found.voids) == 2


def test_who_agrees_needs_no_judge(desk: Desk) -> None:
    debated(desk, left(HOLD), right(HOLD), third(PASS))
    assert sorted(desk.transcripts()) == ["1-left", "2-right"]


@pytest.mark.parametrize("says", [PASS, HOLD])
def test_one_verdict_that_stands_is_enough(desk: Desk, says: Turn) -> None:
    found = debated(desk, script(PASS, PASS, family="left"), right(says))
    assert found.outcome == ("passed" if says is PASS else "failed")
    assert found.read == ("a", "b") and "[no verdict of scripted: of the 2 changed files 0" in found.summary


def test_where_no_verdict_stands_nothing_passes(desk: Desk) -> None:
    found = debated(desk, script(PASS, PASS, family="left"), script(read("a"), PASS, PASS, family="right"))
    assert (found.outcome, len(found.voids)) == ("void", 4)


def test_a_verdict_stands_that_a_later_round_did_not_replace(desk: Desk) -> None:
    """Its author stops answering, and the finding still counts."""
    silent = {"say": "hm"}
    found = debated(desk, left(HOLD, silent, silent), right(PASS, PASS))
    assert (found.outcome, [one.claim for one in found.findings]) == ("failed", ["a is off by one"])


def test_of_fewer_families_than_wanted_those_review_and_it_is_said(desk: Desk) -> None:
    author = Author(agent="scripted", models=("scripted",), families=("left",))
    found = debated(desk, left(HOLD), right(PASS), right(HOLD), author=author, reviewers=3)
    assert (found.outcome, found.families) == ("passed", ("right",))
    assert "[3 reviewers were asked for, and 1 could be had]" in found.summary


def test_the_judge_is_not_of_the_authors_family_either(desk: Desk) -> None:
    author = Author(agent="scripted", models=("scripted",), families=("third",))
    found = debated(desk, left(HOLD, HOLD), right(PASS, PASS), third(PASS), author=author)
    assert (found.outcome, found.families) == ("failed", ("left", "right"))


def test_the_same_finding_by_two_is_told_once(desk: Desk) -> None:
    other = verdict("fail", finding("a", claim="a is one too large"), finding("b"))
    found = debated(desk, left(HOLD), right(other), rounds=1)
    assert [one.claim for one in found.findings] == ["a is off by one", "line 1 of b is wrong"]


def test_what_has_to_be_mended_by_one_alone_is_enough_in_one_round(desk: Desk) -> None:
    assert debated(desk, left(PASS), right(HOLD), rounds=1).outcome == "failed"


def test_the_confidence_is_that_of_the_least_sure(desk: Desk) -> None:
    assert debated(desk, left(verdict("pass", confidence=0.4)), right(PASS)).confidence == 0.4


def test_one_reviewer_hears_of_no_debate(desk: Desk) -> None:
    found = desk.review(TWO, ReviewPolicy(script=several(left(HOLD), right(PASS)), rounds=3), author=CLAUDE)
    assert (found.outcome, found.families, found.summary) == ("failed", ("left",), "one found")


def system(desk: Desk, name: str) -> str:
    return "\n".join(
        block for entry in desk.transcripts()[name] if isinstance(entry, ConversationStarted) for block in entry.system
    )


LENSES = ("review-security", "review-tests", "mine")
MINE = "---\nname: mine\ndescription: What we look for.\n---\nLook at the units of every number.\n"


def test_lenses_are_dealt_out_and_a_single_reviewer_has_all(desk: Desk) -> None:
    """A repository's own lens is read from the target, never from the change under review."""
    desk.gate.hub.commit({".forgepool/skills/mine.md": MINE})
    policy = ReviewPolicy(script=several(left(PASS), right(PASS)), reviewers=2, lenses=LENSES)
    assert desk.review(TWO, policy, author=COMMAND).outcome == "passed"
    first, second = system(desk, "1-left"), system(desk, "2-right")
    assert "Your lens: security" in first and "units of every number" in first and "Your lens: tests" not in first
    assert "Your lens: tests" in second and "Your lens: security" not in second
    alone = ReviewPolicy(script=third(PASS), lenses=LENSES[:2])
    assert desk.review(TWO, alone, author=COMMAND, request_id="r.one.1.review-1").outcome == "passed"
    assert all(words in system(desk, "1-third") for words in ("Your lens: security", "Your lens: tests"))


def test_a_lens_that_is_no_skill_is_no_pass(desk: Desk) -> None:
    policy = ReviewPolicy(script=third(PASS), lenses=("review-securty",))
    found = desk.review(TWO, policy, author=COMMAND)
    assert (found.outcome, "did you mean review-security" in found.detail) == ("not_configured", True), found
