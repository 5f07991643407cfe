"""`advisory`: the agent is told how full its window is and asks; then noise goes, and data in use stays."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from peers import ROUNDS, Did, Round, Talk, endure, ran, read, replying, wrote

from forgepool.workers.context.edits.state import Cause, SummaryQuestion, SummaryReply
from forgepool.workers.context.profiles.advisory import Advisory
from forgepool.workers.context.transcript.edit import Edit
from forgepool.workers.llm.messages import ToolCall
from forgepool.workers.schema.confinement import OPEN
from forgepool.workers.shell.purpose.file_access import Read, Write
from forgepool.workers.tools.endings import COMPACT, COMPACT_TOOL
from forgepool.workers.tools.tool import carry_out
from forgepool.workers.tools.workplace import Workplace
from forgepool.worktrees.git.git import Git

TEXT = "text of the file\n" * 30
GLOBBED = Did(tool="glob", arguments={"pattern": "**"}, answer="a.py\nb.py\n" * 40, action="search")
WISH = Did(tool=COMPACT, arguments={"reason": "the API comes next"}, answer="OK", action="end")
NOISY = Advisory(least=0.0)


def noise(*done: Did, edit: Advisory = NOISY) -> dict[int, str]:
    """Return what is removed after these calls, each in its own turn."""
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
    """This holds however full the window is."""
    made = Talk(window_tokens=100)
    for _ in range(5):
        made.model(read("a.py", TEXT))
    assert made.ask(Advisory(), cause) is None
    assert made.ask(Advisory(), "wish") is not None


def test_confirmations_are_noise_and_what_commands_printed_is_not() -> None:
    """A command that wrote may still have shown something, and a refusal is no confirmation."""
    shell = replace(ran("sed -i s/x/y/ a.py; cat a.py", TEXT, "write"), writes=(Write(path="a.py", how="shell"),))
    refused = replace(wrote("b.py"), failed=True, writes=())
    assert noise(wrote("a.py"), shell, refused) == {1: "[done]"}


def test_a_result_is_noise_once_the_same_was_asked_again() -> None:
    """This holds for reads, searches and runs. The newest stays and is named."""
    grep = Did(tool="grep", arguments={"pattern": "x"}, answer=TEXT, action="search")
    found = noise(
        grep, ran("pytest -q", TEXT, "test", status=1), GLOBBED, grep, ran("pytest -q", TEXT, "test"), GLOBBED
    )
    assert found == {step: f"[superseded by step {step + 3}]" for step in (1, 2, 3)}


def test_a_command_that_was_not_run_replaces_no_result() -> None:
    """It was refused, or its file could no longer be read."""
    refused = replace(ran("pytest -q", "not run: refused", "test"), failed=True, status=None)
    gone = replace(ran("cat a.py", "no such file", "read", status=1))
    assert noise(ran("pytest -q", TEXT, "test"), ran("cat a.py", TEXT, "read"), refused, gone) == {}


def test_a_read_is_noise_once_its_lines_were_read_again() -> None:
    """All of its lines must be read again. Writes in between do not matter."""
    assert noise(read("a.py", TEXT, 5, 9), wrote("a.py"), read("a.py", TEXT, 1, 20))[1] == "[superseded by step 3]"
    assert noise(read("a.py", TEXT, 5, 9), read("a.py", TEXT, 6, 20)) == {}
    assert noise(read("a.py", TEXT, 5, 9), read("a.py", TEXT, 1, 8)) == {}
    assert noise(read("a.py", TEXT, 5, 9), read("b.py", TEXT, 1, 20)) == {}
    assert noise(read("a.py", TEXT), read("a.py", TEXT, 1, 20)) == {}


def test_a_read_of_several_files_is_noise_once_all_were_read_again() -> None:
    """If it is unknown what a read showed, it never is."""
    both = replace(ran("cat a.py b.py", TEXT, "read"), reads=(Read(path="a.py"), Read(path="b.py")))
    assert noise(both, read("a.py", TEXT)) == {}
    assert noise(both, read("a.py", TEXT), read("b.py", TEXT)) == {1: "[superseded by step 3]"}
    tail = replace(ran("tail a.py", TEXT, "read"), reads=(Read(path="a.py", part=True),))
    assert noise(tail, replace(tail, arguments={"command": "grep -n x a.py"}), read("a.py", TEXT, 1, 99)) == {}


def test_what_is_not_shown_any_more_replaces_nothing() -> None:
    """Another profile has masked the later read."""
    made = Talk()
    for _ in range(2):
        made.model(read("a.py", TEXT))
    made.model(WISH)
    made.edit = Edit(results={2: "[masked]"})
    proposal = made.ask(NOISY, "wish")
    assert proposal is not None and set(proposal.edit.results) == {2}


def test_data_in_use_is_no_noise() -> None:
    """It is the last read of a file, even a written one, a test's only run, or a search."""
    grep = Did(tool="grep", arguments={"pattern": "x"}, answer=TEXT, action="search")
    assert noise(read("a.py", TEXT), grep, ran("pytest -q", TEXT, "test", status=1)) == {}
    assert set(noise(read("a.py", TEXT), wrote("a.py"))) == {2}


def test_a_listing_is_noise_once_files_came_or_went() -> None:
    """A change inside a file does not affect it. A text search is data."""
    edited = replace(wrote("a.py"), writes=(Write(path="a.py", how="edit"),))
    listed = ran("ls -l src", TEXT, "search")
    assert set(noise(GLOBBED, listed, edited)) == {3}
    assert set(noise(GLOBBED, listed, ran("ls src | grep x", TEXT, "search"), wrote("a.py"))) == {1, 2, 4}


def test_only_a_result_that_is_shown_in_full_replaces_another() -> None:
    """A shortened result refers to the earlier one, which therefore stays."""
    again = replace(read("a.py"), answer="[identical to the result of step 1 (read_file a.py)]", whole=TEXT)
    assert noise(read("a.py", TEXT), again) == {}
    capped = replace(read("a.py"), answer="[1,000 characters are left out here]", whole=TEXT)
    assert noise(read("a.py", TEXT), capped) == {}


def test_what_the_model_has_not_seen_stays() -> None:
    """The same file is read twice in one turn, and that turn is the newest."""
    made = Talk()
    made.model(read("a.py", TEXT), read("a.py", TEXT), WISH)
    proposal = made.ask(NOISY, "wish")
    assert proposal is not None and proposal.edit == made.edit


def test_a_wish_is_refused_where_there_is_too_little_noise() -> None:
    """The reason is given, and no model is asked."""
    made = Talk()
    made.model(read("a.py", TEXT * 20))
    made.model(wrote("b.py"))
    made.model(WISH)
    proposal = made.ask(Advisory(brief=True), "wish")
    assert proposal is not None
    assert proposal.edit == made.edit and proposal.replies == ()
    assert proposal.why == "nothing is removed: 1% of the view is noise"


def briefed(answer: str) -> tuple[Talk, list[SummaryQuestion], str]:
    """Return the conversation after a request for which a model was asked."""
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
    """The model is asked about the shown conversation, with the agent's reason."""
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
    """A longer one is cut after a complete sentence. Without one it is left out, and noise still goes."""
    made, _, why = briefed(answer)
    told = made.edit.head[-1].text.partition("\n")[2] if made.edit.head else ""
    assert told.count(".") == kept
    assert ("no brief" in why) == (kept == 0)
    assert set(made.edit.results) == {1, 2}


def test_a_brief_longer_than_what_was_removed_is_left_out() -> None:
    """It would make the view longer."""
    made = Talk()
    made.model(wrote("a.py"))
    made.model(WISH)
    proposal = made.ask(Advisory(brief=True, least=0.0), "wish", replying("It is going well."))
    assert proposal is not None and proposal.edit.head == () and set(proposal.edit.results) == {1}


def test_a_brief_of_words_that_are_none_is_left_out() -> None:
    """The limit of 150 words does not limit the size of one word."""
    made = Talk()
    for _ in range(20):
        made.model(read("a.py", TEXT))
    made.model(WISH)
    proposal = made.ask(Advisory(brief=True), "wish", replying(f"{'w' * 20} " * 149))
    assert proposal is not None and "too long to be any" in proposal.why and not proposal.edit.head


def test_a_new_brief_takes_the_place_of_the_one_before() -> None:
    made, _, _ = briefed("The first.")
    for _ in range(3):
        made.model(read("b.py", TEXT))
    made.model(WISH)
    proposal = made.ask(Advisory(brief=True), "wish", replying("The second."))
    assert proposal is not None
    (head,) = proposal.edit.head
    assert "The second." in head.text and "The first." not in head.text


def test_the_agent_is_told_once_how_full_its_window_is() -> None:
    """It is told at the share and not again. Any process can see that in the conversation."""
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
    """The agent no longer sees it."""
    made = Talk()
    made.fill(0.51)
    made.hear(Advisory().nudge(made.state()) or "")
    made.model(ran("next", "x"))
    made.edit = made.edit.model_copy(update={"cut": 3})
    made.fill(0.51)
    assert Advisory().nudge(made.state()) is not None


def test_the_tool_says_what_will_happen_and_changes_nothing(tmp_path: Path) -> None:
    """It needs a reason, and is offered in PLAN, too."""
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
    """This holds for any conversation at any time."""
    endure(Advisory(least=0.0, brief=brief), rounds, window_tokens=3_000)
