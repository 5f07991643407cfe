"""`advisory`: the agent is told, and asks; then noise goes, and data in use stays."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from peers import ROUNDS, Did, Round, Talk, endure, ran, read, replying, wrote

from forgepool.workers.context.edits.state import Cause, SummaryQuestion, SummaryReply
from forgepool.workers.context.history.actions import Read, Write
from forgepool.workers.context.profiles.advisory import Advisory
from forgepool.workers.context.transcript.edit import Edit
from forgepool.workers.llm.messages import ToolCall
from forgepool.workers.schema.confinement import OPEN
from forgepool.workers.tools.endings import COMPACT, COMPACT_TOOL
from forgepool.workers.tools.tool import carry_out
from forgepool.workers.tools.workplace import Workplace
from forgepool.worktrees.git.git import Git

TEXT = "text of the file\n" * 30
GLOBBED = Did(tool="glob", arguments={"pattern": "**"}, answer="a.py\nb.py\n" * 40, action="search")
WISH = Did(tool=COMPACT, arguments={"reason": "the API comes next"}, answer="OK", action="end")
NOISY = Advisory(least=0.0)


def noise(*done: Did, edit: Advisory = NOISY) -> dict[int, str]:
    """What is removed after these calls, each in its turn."""
    made = Talk()
    for each in done:
        made.model(each)
    made.model(WISH)
    proposal = made.ask(edit, "wish")
    assert proposal is not None
    made.put_in_force(proposal)
    made.check()
    return dict(proposal.edit.results)


@pytest.mark.parametrize("cause", ["call", "cold", "red", "overflow", "switch"])
def test_nothing_is_removed_unasked(cause: Cause) -> None:
    """However full the window."""
    made = Talk(window_tokens=100)
    for _ in range(5):
        made.model(read("a.py", TEXT))
    assert made.ask(Advisory(), cause) is None
    assert made.ask(Advisory(), "wish") is not None


def test_confirmations_are_noise_and_what_commands_printed_is_not() -> None:
    """A command that wrote may have shown something all the same; a refusal is no confirmation."""
    shell = replace(ran("sed -i s/x/y/ a.py; cat a.py", TEXT, "write"), writes=(Write(path="a.py", how="shell"),))
    refused = replace(wrote("b.py"), failed=True, writes=())
    assert noise(wrote("a.py"), shell, refused) == {1: "[done]"}


def test_a_result_is_noise_once_the_same_was_asked_again() -> None:
    """Reads, searches, runs; the newest stays, and is named."""
    grep = Did(tool="grep", arguments={"pattern": "x"}, answer=TEXT, action="search")
    found = noise(
        grep, ran("pytest -q", TEXT, "test", status=1), GLOBBED, grep, ran("pytest -q", TEXT, "test"), GLOBBED
    )
    assert found == {step: f"[superseded by step {step + 3}]" for step in (1, 2, 3)}


def test_a_command_that_was_not_run_replaces_no_result() -> None:
    """A refused call, and a file that could not be read any more."""
    refused = replace(ran("pytest -q", "not run: refused", "test"), failed=True, status=None)
    gone = replace(ran("cat a.py", "no such file", "read", status=1))
    assert noise(ran("pytest -q", TEXT, "test"), ran("cat a.py", TEXT, "read"), refused, gone) == {}


def test_a_read_is_noise_once_its_lines_were_read_again() -> None:
    """All of them, whatever was written in between."""
    assert noise(read("a.py", TEXT, 5, 9), wrote("a.py"), read("a.py", TEXT, 1, 20))[1] == "[superseded by step 3]"
    assert noise(read("a.py", TEXT, 5, 9), read("a.py", TEXT, 6, 20)) == {}
    assert noise(read("a.py", TEXT, 5, 9), read("a.py", TEXT, 1, 8)) == {}
    assert noise(read("a.py", TEXT, 5, 9), read("b.py", TEXT, 1, 20)) == {}
    assert noise(read("a.py", TEXT), read("a.py", TEXT, 1, 20)) == {}


def test_a_read_of_several_files_is_noise_once_all_were_read_again() -> None:
    """And one of which it is not known what it showed, never."""
    both = replace(ran("cat a.py b.py", TEXT, "read"), reads=(Read(path="a.py"), Read(path="b.py")))
    assert noise(both, read("a.py", TEXT)) == {}
    assert noise(both, read("a.py", TEXT), read("b.py", TEXT)) == {1: "[superseded by step 3]"}
    tail = replace(ran("tail a.py", TEXT, "read"), reads=(Read(path="a.py", part=True),))
    assert noise(tail, replace(tail, arguments={"command": "grep -n x a.py"}), read("a.py", TEXT, 1, 99)) == {}


def test_what_is_not_shown_any_more_replaces_nothing() -> None:
    """A later read that was masked by another profile meanwhile."""
    made = Talk()
    for _ in range(2):
        made.model(read("a.py", TEXT))
    made.model(WISH)
    made.edit = Edit(results={2: "[masked]"})
    proposal = made.ask(NOISY, "wish")
    assert proposal is not None and set(proposal.edit.results) == {2}


def test_data_in_use_is_no_noise() -> None:
    """A read since which nothing was read, though the file was written; the only run of a test; a search."""
    grep = Did(tool="grep", arguments={"pattern": "x"}, answer=TEXT, action="search")
    assert noise(read("a.py", TEXT), grep, ran("pytest -q", TEXT, "test", status=1)) == {}
    assert set(noise(read("a.py", TEXT), wrote("a.py"))) == {2}


def test_a_listing_is_noise_once_files_came_or_went() -> None:
    """A change inside of a file leaves it as it was; and what was searched for is data."""
    edited = replace(wrote("a.py"), writes=(Write(path="a.py", how="edit"),))
    listed = ran("ls -l src", TEXT, "search")
    assert set(noise(GLOBBED, listed, edited)) == {3}
    assert set(noise(GLOBBED, listed, ran("ls src | grep x", TEXT, "search"), wrote("a.py"))) == {1, 2, 4}


def test_only_a_result_that_is_shown_in_full_replaces_another() -> None:
    """One that was shortened at its birth refers to the earlier; then the earlier stays."""
    again = replace(read("a.py"), answer="[identical to the result of step 1 (read_file a.py)]", whole=TEXT)
    assert noise(read("a.py", TEXT), again) == {}
    capped = replace(read("a.py"), answer="[1,000 characters are left out here]", whole=TEXT)
    assert noise(read("a.py", TEXT), capped) == {}


def test_what_the_model_has_not_seen_stays() -> None:
    """The same read twice in one turn, and in the newest."""
    made = Talk()
    made.model(read("a.py", TEXT), read("a.py", TEXT), WISH)
    proposal = made.ask(NOISY, "wish")
    assert proposal is not None and proposal.edit == made.edit


def test_a_wish_is_refused_where_there_is_too_little_noise() -> None:
    """With the reason; nothing is asked of a model for it."""
    made = Talk()
    made.model(read("a.py", TEXT * 20))
    made.model(wrote("b.py"))
    made.model(WISH)
    proposal = made.ask(Advisory(brief=True), "wish")
    assert proposal is not None
    assert proposal.edit == made.edit and proposal.replies == ()
    assert proposal.why == "nothing is removed: 1% of what is shown is noise"


def briefed(answer: str) -> tuple[Talk, list[SummaryQuestion], str]:
    """After a wish that a model was asked for."""
    made, asked = Talk(), list[SummaryQuestion]()
    for _ in range(3):
        made.model(read("a.py", TEXT))
    made.model(WISH)

    def reply(question: SummaryQuestion) -> SummaryReply:
        asked.append(question)
        return replying(answer)(question)

    proposal = made.ask(Advisory(brief=True), "wish", reply)
    assert proposal is not None and len(proposal.replies) == 1
    made.put_in_force(proposal)
    made.check()
    return made, asked, proposal.why


def test_a_brief_is_told_at_the_beginning() -> None:
    """A model is asked about the conversation as it is shown, with the agent's reason."""
    made, asked, _ = briefed("The clock is done. The API is next.")
    (question,) = asked
    assert (question.kind, question.text, question.max_output_tokens) == ("brief", "", 400)
    assert "the API comes next" in question.instruction
    assert made.edit.head[-1].text.endswith("\nThe clock is done. The API is next.")
    assert made.edit.results == {1: "[superseded by step 3]", 2: "[superseded by step 3]"}


@pytest.mark.parametrize(
    ("answer", "kept"),
    [
        ("One two three four five. " * 30, 30),
        ("One two three four five. " * 31, 30),
        (f"A short one. {'word ' * 150}.", 1),
        ("word " * 151, 0),
        ("w" * 5_000, 0),
        ("", 0),
    ],
)
def test_a_brief_has_a_hundred_and_fifty_words_at_the_most(answer: str, kept: int) -> None:
    """A longer one ends after a whole sentence; where there is none it is left out, and noise goes all the same."""
    made, _, why = briefed(answer)
    told = made.edit.head[-1].text.partition("\n")[2] if made.edit.head else ""
    assert told.count(".") == kept
    assert ("no brief" in why) == (kept == 0)
    assert set(made.edit.results) == {1, 2}


def test_a_brief_longer_than_what_was_removed_is_left_out() -> None:
    """Compaction that makes more of it is none."""
    made = Talk()
    made.model(wrote("a.py"))
    made.model(WISH)
    proposal = made.ask(Advisory(brief=True, least=0.0), "wish", replying("It is going well."))
    assert proposal is not None and proposal.edit.head == () and set(proposal.edit.results) == {1}


def test_a_brief_of_words_that_are_none_is_left_out() -> None:
    """150 of them may be anything."""
    made = Talk()
    for _ in range(20):
        made.model(read("a.py", TEXT))
    made.model(WISH)
    proposal = made.ask(Advisory(brief=True), "wish", replying(f"{'w' * 20} " * 149))
    assert proposal is not None and "too long to be any" in proposal.why and not proposal.edit.head


def test_a_new_brief_takes_the_place_of_the_one_before() -> None:
    """It is told once."""
    made, _, _ = briefed("The first.")
    for _ in range(3):
        made.model(read("b.py", TEXT))
    made.model(WISH)
    proposal = made.ask(Advisory(brief=True), "wish", replying("The second."))
    assert proposal is not None
    (head,) = proposal.edit.head
    assert "The second." in head.text and "The first." not in head.text


def test_the_agent_is_told_once_how_full_its_window_is() -> None:
    """Not below the share, and not again: it is read from the conversation, by whichever process."""
    made = Talk()
    made.fill(0.49)
    assert Advisory().nudge(made.state()) is None
    made.fill(0.51)
    told = Advisory().nudge(made.state())
    assert told is not None and told.startswith("[the harness] The context is 51% full.") and f"`{COMPACT}`" in told
    made.hear(told)
    for share in (0.52, 0.6, 0.95):
        made.fill(share)
        assert Advisory().nudge(made.state()) is None, share


@pytest.mark.parametrize(("left", "again"), [(8_000, False), (100, True)])
def test_the_agent_is_told_again_only_after_there_was_room(left: int, again: bool) -> None:
    """A rebuild that left two fifths of the window or more does not count."""
    made = Talk()
    made.model(ran("first", "x" * 9_000))
    made.model(ran("second", "x" * 8_000))
    made.fill(0.51)
    told = Advisory().nudge(made.state())
    assert told is not None
    made.hear(told)
    made.edit = made.edit.model_copy(update={"results": {1: "x" * left, 2: "x" * left}})
    made.fill(0.55)
    assert (Advisory().nudge(made.state()) is not None) == again


def test_a_nudge_that_was_cut_away_may_be_given_again() -> None:
    """The agent cannot see it any more."""
    made = Talk()
    made.fill(0.51)
    made.hear(Advisory().nudge(made.state()) or "")
    made.model(ran("next", "x"))
    made.edit = made.edit.model_copy(update={"cut": 3})
    made.fill(0.51)
    assert Advisory().nudge(made.state()) is not None


def test_the_tool_says_what_will_happen_and_changes_nothing(tmp_path: Path) -> None:
    """It wants a reason, and is offered where tools only read."""
    place = Workplace(
        root=tmp_path,
        git=Git(git_dir=tmp_path / ".git", work_tree=tmp_path),
        tmp=tmp_path,
        env={},
        confined=OPEN,
        stop=lambda: False,
        left_s=lambda: 20.0,
        iteration=1,
    )
    answer = carry_out(ToolCall(id="1", name="compact", arguments={"reason": "now"}), (COMPACT_TOOL,), place)
    assert (answer.is_error, answer.ends) == (False, None) and "before your next turn" in answer.text
    assert carry_out(ToolCall(id="1", name="compact", arguments={}), (COMPACT_TOOL,), place).is_error
    assert (COMPACT_TOOL.name, COMPACT_TOOL.kind) == ("compact", "read")


@settings(max_examples=300)
@given(ROUNDS, st.booleans())
def test_every_view_is_whole(rounds: Sequence[Round], brief: bool) -> None:
    """Any conversation, whenever it is asked for."""
    endure(Advisory(least=0.0, brief=brief), rounds, window_tokens=3_000)
