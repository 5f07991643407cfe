"""`forge`: gentle, moderate and aggressive, by rules alone; a level that has acted waits until there was room again."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from peers import CARD, ROUNDS, Round, Talk, endure, ran, read, wrote

from forgepool.workers.context.profiles.forge import ForgeProfile
from forgepool.workers.context.transcript.edit import Edit
from forgepool.workers.llm.messages import Text, user
from forgepool.workers.shell.purpose.file_access import Write

OUTPUT = "".join(f"line {number}\n" for number in range(1, 602))
SOURCE = "".join(f"{number:6}\tdef function_{number}():\n" for number in range(1, 41))
WINDOW = 20_000


def talk() -> Talk:
    """Return a long output, a read and some short outputs, about a tenth of the window."""
    made = Talk(window_tokens=WINDOW)
    made.model(ran("make", OUTPUT), said="I build.")
    made.model(read("src/a.py", SOURCE))
    made.model(ran("date", "today"))
    for number in range(5):
        made.model(ran(f"step {number}", "short"))
    return made


def after(made: Talk, share: float, forge: ForgeProfile | None = None) -> str | None:
    """Fill the window to this share, ending with five short results, and return the level that acted."""
    made.fill(share)
    for number in range(5):
        made.model(ran(f"last {number}", f"result {number}"))
    proposal = made.ask(forge or ForgeProfile())
    if proposal is None:
        return None
    made.put_in_force(proposal)
    made.check()
    return proposal.why.partition(":")[0]


def test_defaults_are_the_published_ones() -> None:
    """So is the number of newest results that are kept."""
    forge = ForgeProfile()
    assert (forge.gentle, forge.moderate, forge.aggressive, forge.reset) == (0.40, 0.70, 0.90, 0.40)
    assert (forge.keep, forge.most_lines) == (5, 500)


def test_gentle_shortens_long_outputs_to_both_ends_and_counts() -> None:
    """Only outputs are shortened, to the first and the last twenty lines."""
    made = talk()
    assert after(made, 0.39) is None
    assert after(made, 0.41) == "gentle"
    lines = made.result(1).split("\n")
    assert lines[:20] == OUTPUT.split("\n")[:20]
    assert lines[20] == "[561 of 601 lines left out, 4,409 characters]"
    assert lines[21] == "line 582" and lines[40].startswith("line 601 [forge: gentle, ")
    assert (made.result(2), made.result(3)) == (SOURCE, "today")


@pytest.mark.parametrize(("lines", "shortened"), [(500, False), (501, True)])
def test_an_output_of_five_hundred_lines_is_not_too_long(lines: int, shortened: bool) -> None:
    """The last line may or may not have a line end."""
    for end in ("\n", ""):
        made = talk()
        text = "\n".join(f"line {number}" for number in range(lines)) + end
        made.deeds[0] = replace(
            made.deeds[0], whole=text, result=made.deeds[0].result.model_copy(update={"text": text})
        )
        assert (after(made, 0.45) == "gentle") == shortened


def test_moderate_turns_reads_into_what_they_found() -> None:
    """It keeps paths and defined names. Outputs are not shortened a second time."""
    made = talk()
    assert after(made, 0.45) == "gentle"
    gentle = made.result(1)
    assert after(made, 0.71) == "moderate"
    assert made.result(1) == gentle
    names = ", ".join(f"function_{number}" for number in range(1, 13))
    assert made.result(2).startswith(f"[read src/a.py, found {names} and 28 more; 40 lines] [forge: moderate, ")


def test_moderate_does_what_gentle_did_not() -> None:
    """A window that fills at once skips the level but not its work."""
    made = talk()
    assert after(made, 0.71) == "moderate"
    assert "561 of 601 lines" in made.result(1) and made.result(2).startswith("[read src/a.py, found")


def test_aggressive_puts_facts_in_place_of_the_conversation() -> None:
    """The card and the newest results stay. The harness tells files, outcomes and a person's words."""
    made = talk()
    made.plan = "1. Do it."
    made.model(wrote("src/b.py"))
    made.hear("Use UTC.")
    made.model(ran("pytest -q", "1 failed", "test", status=1))
    made.model(ran("rm nothing", "rm: no such file", status=1))
    assert after(made, 0.95) == "aggressive"
    head = made.edit.head[0].text
    assert head.startswith("[the harness]") and "I build." not in head
    assert "Written: src/b.py (created)\nRead: src/a.py" in head
    assert "`pytest -q` failed, exit status 1 (step 10)" in head
    assert "step 11, rm nothing: rm: no such file" in head
    assert "## The committed plan\n1. Do it." in head and "Use UTC." in head
    assert [made.result(step) for step in range(12, 17)] == [f"result {number}" for number in range(5)]
    assert made.turns[0].text == CARD and made.edit.opening is None


def test_facts_are_the_same_after_many_rebuilds() -> None:
    """They come from all deeds each time, so nothing gets lost."""
    made = talk()
    made.model(wrote("first.py"))
    made.hear("Use UTC.")
    for _ in range(20):
        assert after(made, 0.95) == "aggressive"
        head = made.edit.head[0].text
        assert "first.py (created)" in head and "Use UTC." in head and "src/a.py" in head
    assert made.rebuilds == 20


def test_the_newest_results_are_never_touched() -> None:
    """This holds for every level."""
    for share in (0.45, 0.70, 0.92):
        made = Talk(window_tokens=WINDOW)
        made.fill(share)
        for number in range(5):
            made.model(ran(f"step {number}", OUTPUT) if number % 2 else read(f"{number}.py", SOURCE))
        proposal = made.ask(ForgeProfile())
        assert (proposal is None) == (share < 0.90)
        assert proposal is None or (proposal.edit.cut, dict(proposal.edit.results)) == (3, {})
        shorter = made.ask(ForgeProfile(keep=3, aggressive=2.0))
        assert shorter is not None and set(shorter.edit.results) == ({2} if share == 0.45 else {1, 2})


def test_a_level_that_has_acted_rests_until_there_was_room_again() -> None:
    """New outputs alone do not wake it. A higher level does not wait."""
    made = Talk(window_tokens=WINDOW)
    made.model(ran("make", OUTPUT), said="w" * 32_000)
    assert after(made, 0.47) == "gentle"
    assert made.state().share > 0.40
    for share in (0.55, 0.65):
        made.model(ran("make again", OUTPUT))
        assert after(made, share) is None, share
    assert after(made, 0.72) == "moderate"
    assert set(made.edit.results) == {1, 7, 13}
    made.model(ran("make again", OUTPUT))
    assert after(made, 0.80) is None


def test_a_level_acts_again_once_there_was_room() -> None:
    """Its rebuild left less than the reset, which another process can see from the mark."""
    made = talk()
    assert after(made, 0.41) == "gentle"
    assert made.state().share < 0.40
    made.model(ran("make", OUTPUT))
    assert after(made, 0.42) == "gentle"
    assert made.rebuilds == 2


def test_aggressive_does_not_act_for_little() -> None:
    """If the kept results fill the window, it would rewrite all of it before every call."""
    made = talk()
    made.model(*(ran(f"step {number}", "k" * 15_000) for number in range(5)))
    assert made.state().share > 0.90
    assert made.ask(ForgeProfile(gentle=0.89, moderate=0.89)) is not None
    proposal = made.ask(ForgeProfile(gentle=0.89, moderate=0.89))
    assert proposal is not None and not proposal.edit.head


def test_an_overflow_is_aggressive_at_once() -> None:
    """This holds however little the gauge shows."""
    made = talk()
    made.window_tokens = 1_000_000
    assert made.ask(ForgeProfile()) is None
    proposal = made.ask(ForgeProfile(), "overflow")
    assert proposal is not None
    made.put_in_force(proposal)
    made.check()
    assert made.edit.cut > 1 and made.edit.head


def test_what_another_profile_told_is_carried_along() -> None:
    """A switch during the run loses no summary, and neither does the next rebuild."""
    made = talk()
    made.edit = Edit(cut=3, head=(user(Text(text="[the harness] Summary: the name is Ada.")),))
    for _ in range(3):
        assert after(made, 0.95) == "aggressive"
        assert made.edit.head[0].text.count("the name is Ada.") == 1


def test_facts_tell_what_is_so_last() -> None:
    """A written file is not listed as read only. For a test the newest run counts."""
    made = talk()
    made.model(wrote("b.py"), wrote("c.py"), read("c.py"))
    made.model(replace(wrote("b.py"), writes=(Write(path="b.py", how="edit"),)))
    made.model(ran("make", "failed", "build", status=2), ran("pytest", "failed", "test", status=1))
    made.model(ran("make", "ok", "build"))
    assert after(made, 0.95) == "aggressive"
    head = made.edit.head[0].text
    assert "Written: c.py (created), b.py (edited)\nRead: src/a.py\n" in head
    assert "- " not in head and head.count("`make`") == 1
    assert head.index("`pytest` failed, exit status 1 (step 14)") < head.index(
        "`make` succeeded, exit status 0 (step 15)"
    )
    assert "What failed lately" not in head


def test_a_long_read_is_no_output() -> None:
    """It is left to the level for reads."""
    made = Talk(window_tokens=WINDOW)
    made.model(read("long.py", OUTPUT))
    assert after(made, 0.45) is None
    assert after(made, 0.72) == "moderate"


def test_the_newest_mark_is_the_one_that_counts() -> None:
    """It is the last among the texts. A rebuild of everything replaces all earlier marks."""
    made = talk()
    made.edit = Edit(results={1: OUTPUT, 2: "read [forge: gentle, 30% left]"})
    assert after(made, 0.75) == "moderate"
    assert list(made.edit.results)[-1] == 1
    made.fill(0.95)
    made.model(*(ran(f"one {number}", "x") for number in range(2)))
    made.model(*(ran(f"other {number}", "x") for number in range(4)))
    first = len(made.deeds) - 5
    made.edit = Edit(results={first: "kept [forge: gentle, 9% left]"})
    proposal = made.ask(ForgeProfile())
    assert proposal is not None and set(proposal.edit.results) == {first}
    assert proposal.edit.results[first].startswith("kept [forge: aggressive, ")


@settings(max_examples=300)
@given(ROUNDS, st.integers(0, 5), st.integers(800, 6_000), st.integers(5, 500))
def test_every_view_is_whole(rounds: Sequence[Round], keep: int, window_tokens: int, most_lines: int) -> None:
    """This holds for any conversation at any time, however often it was rebuilt."""
    endure(ForgeProfile(keep=keep, most_lines=most_lines), rounds, window_tokens)
