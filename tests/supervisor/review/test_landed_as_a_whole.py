"""Landed work is reviewed on the target by a family that wrote none of it, as strictly as a single task."""

from typing import Any

import pytest
from review_kit import Desk, finding, read, script, several, verdict

from forgepool.supervisor.messages.answers import Review
from forgepool.supervisor.messages.requests import Author, LandedTask, ReviewPolicy, ReviewRequest, WaveOf
from forgepool.workers.context.transcript.entries import TurnSaid

PASS = verdict("pass")
CLAUDE = Author(agent="builtin", models=("claude-x",), families=("claude",))
GPT = Author(agent="cli", models=("gpt-x",), families=("gpt",))
COMMAND = Author(agent="command")
ASKED = {"title": "Make a two", "description": "a is two.\n[end 00]", "acceptance": ("grep 2 a",)}
ONE = LandedTask.model_validate({"task": "one", "commit": "c1", **ASKED})
TWO = LandedTask(task="two", title="Add b", commit="c2")


def landed(desk: Desk, text: str, *authors: Author, **said: Any) -> ReviewRequest:
    """Return a request about two landings; the first changes a file that the second does not."""
    before = desk.gate.hub.tip()
    desk.gate.hub.commit({"a": "2\n"})
    tip = desk.gate.hub.commit({"b": "new\n"})
    wave = WaveOf(number=1, tip=tip, tasks=(ONE, TWO), more=("three",), authors=authors or (COMMAND,))
    checked = desk.gate.request(desk.entry({"a": "9\n"})).model_dump(
        exclude={"entries", "decisive", "diagnose", "whole"}
    )
    about = {"request_id": "r.wave-review-1", "base": before, "entries": (), "whole": True, "reviewed": True}
    return ReviewRequest(**(checked | about | {"policy": ReviewPolicy(script=text), "wave": wave} | said))


def conduct(desk: Desk, *turns: Any, **said: Any) -> Review:
    return desk.conduct(landed(desk, script(*turns), **said))


def test_the_whole_difference_is_read_on_the_target_and_passed(desk: Desk) -> None:
    request = landed(desk, script(read("a", "b"), PASS))
    found = desk.conduct(request)
    assert (found.outcome, found.changed, found.read) == ("passed", ("a", "b"), ("a", "b")), found
    assert request.wave is not None and found.tree == desk.gate.mirror.git.text(
        "rev-parse", f"{request.wave.tip}^{{tree}}"
    )
    (told,) = [one.turn.text for one in desk.transcripts(request.request_id)["1-critic"] if isinstance(one, TurnSaid)][
        :1
    ]
    mark = told.partition("The mark of this review is ")[2].partition(".")[0]
    card = f"[quoted {mark}: what the author of task one was asked to do]\nMake a two\n\na is two.\n[end 00]\n\n"
    assert "# Review of a wave of 3 tasks" in told and card in told
    for words in (
        "It must pass: grep 2 a",
        "It landed as c1.",
        "Add b",
        "- three",
        "against the target as it was before",
    ):
        assert words in told, words


def test_what_was_not_read_of_it_makes_no_verdict(desk: Desk) -> None:
    found = conduct(desk, read("a"), PASS, PASS)
    assert (found.outcome, len(found.voids)) == ("void", 2) and found.voids[0].endswith("the changed lines of: b")


def test_what_must_be_mended_in_it_fails_it(desk: Desk) -> None:
    found = conduct(desk, read("a", "b"), verdict("fail", finding("b", 1)))
    assert (found.outcome, found.detail) == ("failed", "1 finding to be mended")


def test_nobody_judges_a_wave_in_which_its_family_had_a_hand(desk: Desk) -> None:
    """One author of the family among two is enough to exclude it. A third family may judge."""
    kin = desk.conduct(landed(desk, script(read("a", "b"), PASS, family="gpt"), CLAUDE, GPT))
    assert kin.outcome == "unreachable" and "claude, gpt" in kin.detail and not desk.folder(kin.request_id).exists()


def test_of_several_reviewers_the_first_of_no_authors_family_is_asked(desk: Desk) -> None:
    text = several(*(script(read("a", "b"), PASS, family=one) for one in ("claude", "gpt", "gemini")))
    found = desk.conduct(landed(desk, text, CLAUDE, GPT))
    assert (found.outcome, found.families) == ("passed", ("gemini",))


def test_one_author_of_no_known_family_leaves_it_to_a_person(desk: Desk) -> None:
    found = desk.conduct(landed(desk, script(PASS), CLAUDE, Author(agent="cli", families=("unknown",))))
    assert found.outcome == "unreachable" and "of no known family" in found.detail


@pytest.mark.parametrize("same", [True, False])
def test_a_verdict_holds_for_the_same_difference_and_for_no_other(desk: Desk, same: bool) -> None:
    request = landed(desk, script(read("a", "b"), PASS))
    patch = desk.conduct(request).patch_id
    known = Review(request_id="r.wave-review-0", token="old", outcome="failed", patch_id=patch if same else "another")
    again = request.model_copy(update={"known": known, "request_id": "r.wave-review-2", "token": "new"})
    found = desk.conduct(again)
    assert (found.outcome, found.token) == ("failed" if same else "passed", "new")
    assert desk.folder("r.wave-review-2").exists() is not same, "nobody is asked twice"


def test_landings_that_come_to_nothing_are_left_to_a_person(desk: Desk) -> None:
    request = landed(desk, script(PASS))
    assert request.wave is not None
    found = desk.conduct(request.model_copy(update={"base": request.wave.tip}))
    assert found.outcome == "void" and "comes to no difference" in found.detail


def test_a_tip_that_the_hub_has_lost_blames_nobody_and_is_no_pass(desk: Desk) -> None:
    request = landed(desk, script(PASS))
    assert request.wave is not None
    gone = request.wave.model_copy(update={"tip": "0123456789" * 4})
    assert desk.conduct(request.model_copy(update={"wave": gone})).outcome == "infrastructure"


@pytest.mark.parametrize(
    ("said", "told"), [({}, True), ({"grants": ("old/**",)}, False), ({"waive": ("shrinkage",)}, False)]
)
def test_what_many_tasks_took_away_together_is_shown_to_the_reviewer(desk: Desk, said: Any, told: bool) -> None:
    desk.gate.hub.commit({f"old/{number}": "x\n" for number in range(4)})
    request = landed(desk, script(read("a", "b"), PASS))
    assert request.wave is not None
    tip = desk.gate.hub.commit({f"old/{number}": None for number in range(4)})
    request = request.model_copy(update={"wave": request.wave.model_copy(update={"tip": tip, **said})})
    assert desk.conduct(request).outcome == "passed"
    shown = "".join(
        one.turn.text for one in desk.transcripts(request.request_id)["1-critic"] if isinstance(one, TurnSaid)
    )
    assert ("(shrinkage) the tree has" in shown) == told
