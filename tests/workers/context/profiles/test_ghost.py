"""`ghost`: everything before the current turn is masked, then summed up, and a summary is checked before it is used."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from peers import CARD, ROUNDS, SUMMARY, Round, Talk, endure, ran, read, replying, wrote

from forgepool.workers.context.edits.state import Cause, Moment, SummaryQuestion, SummaryReply
from forgepool.workers.context.profiles.ghost import Ghost
from forgepool.workers.llm.messages import Text

LONG = "All 212 files of the project and the sizes they have:\n" + "line\n" * 800
PREVIEW = LONG[:100]


def talk(exchanges: int = 10, text: str = LONG, window_tokens: int = 10_000) -> Talk:
    """Return a conversation with one long result in each turn."""
    made = Talk(window_tokens=window_tokens)
    for number in range(exchanges):
        made.model(ran(f"step {number}", text), said="I look further.")
    return made


class Asked:
    """Answers questions to a model, and keeps them."""

    def __init__(self, answer: str) -> None:
        self.answer = answer
        self.questions: list[SummaryQuestion] = []

    def __call__(self, question: SummaryQuestion) -> SummaryReply:
        self.questions.append(question)
        return SummaryReply(text=self.answer)


def test_defaults_are_the_published_ones() -> None:
    """K is 4."""
    ghost = Ghost()
    assert (ghost.threshold, ghost.mask_preview_chars, ghost.instructions, ghost.keep) == (0.85, 100, "", 4)


def test_masked_results_and_inputs_have_the_published_form() -> None:
    """Byte for byte: the tool's name, a hundred characters, and how much was cut."""
    made = talk()
    proposal = made.ask(Ghost())
    assert proposal is not None
    made.put_in_force(proposal)
    assert made.result(1) == f"[tool_result: bash — {PREVIEW} (truncated)]"
    assert made.edit.inputs == {step: {} for step in range(1, 7)}
    assert [made.result(step) == LONG for step in range(1, 11)] == [False] * 6 + [True] * 4


def test_a_failed_result_says_so_in_its_placeholder() -> None:
    """The result's own flag stays, too."""
    made = Talk()
    for number in range(10):
        made.model(ran(f"step {number}", LONG, status=1))
    proposal = made.ask(Ghost())
    assert proposal is not None
    assert proposal.edit.results[1] == f"[tool_result: bash (error) — {PREVIEW} (truncated)]"


def test_a_preview_is_a_hundred_bytes_and_no_half_character() -> None:
    """33 characters of three bytes fit."""
    made = talk(text="–" * 4_100)
    proposal = made.ask(Ghost())
    assert proposal is not None
    assert proposal.edit.results[1] == f"[tool_result: bash — {'–' * 33} (truncated)]"


def test_a_short_result_does_not_grow() -> None:
    """The published code calls it truncated."""
    made = Talk()
    made.model(ran("short", "ok: 12 files, none of them large"))
    for number in range(10):
        made.model(ran(f"step {number}", LONG))
    proposal = made.ask(Ghost())
    assert proposal is not None
    made.put_in_force(proposal)
    assert made.result(1) == "ok: 12 files, none of them large"


def test_nothing_happens_up_to_the_threshold() -> None:
    """The share itself is not enough."""
    made = talk()
    share = made.state().share
    assert made.ask(Ghost(threshold=share)) is None
    assert made.ask(Ghost(threshold=share - 0.001)) is not None


def test_no_model_is_asked_where_masking_is_enough() -> None:
    asked = Asked(SUMMARY)
    proposal = talk().ask(Ghost(), ask=asked)
    assert proposal is not None and proposal.replies == () and not asked.questions


def crowded(window_tokens: int = 10_000) -> Talk:
    """Return a conversation for which masking is not enough, because the model's texts fill the window."""
    made = Talk(window_tokens=window_tokens)
    made.model(read("a.py"), wrote("b.py"), said="I begin." + "w" * 30_000)
    made.model(ran("pytest -q", "1 failed", "test", status=1), said="It fails.")
    for number in range(5):
        made.model(ran(f"step {number}", "plain output of a command " * 20), said="n" * 700)
    return made


def test_where_masking_is_not_enough_a_model_is_asked_once_about_what_is_masked() -> None:
    """The limits are the published ones. The card stays, and the summary follows it."""
    made, asked = crowded(), Asked(SUMMARY)
    proposal = made.ask(Ghost(instructions="Name every person."), ask=asked)
    assert proposal is not None
    made.put_in_force(proposal)
    (question,) = asked.questions
    assert (question.kind, question.max_output_tokens) == ("sections", 2_048)
    assert question.instruction.endswith("Name every person.")
    assert all(f"## {name}" in question.instruction for name in ("Task", "Decisions", "State", "Files", "Context"))
    assert "def a40" not in question.text and "[tool_result: read_file — " in question.text
    assert CARD in question.text
    assert made.turns[0].text == CARD
    assert "A timestamp was chosen" in made.edit.head[0].text and made.edit.head[0].role == "user"
    assert made.edit.head[0].text.startswith("[the harness]")


def test_only_the_newest_of_a_long_text_is_asked_about() -> None:
    """It is the last 50,000 characters."""
    made, asked = Talk(window_tokens=20_000), Asked(SUMMARY)
    made.model(said="FIRST" + "w" * 70_000 + "LAST")
    made.turns.append(talk(0).turns[0])
    for number in range(5):
        made.model(ran(f"step {number}", "y" * 200))
    assert made.ask(Ghost(), ask=asked) is not None
    (question,) = asked.questions
    assert len(question.text) == 50_000
    assert "LAST" in question.text and "FIRST" not in question.text


def test_the_harness_overrides_what_a_summary_says_of_files_and_outcomes() -> None:
    """A lie about files is dropped, and a failed test has failed."""
    made = crowded()
    lie = SUMMARY.replace("The clock is done", "- the harness saw: `pytest -q` succeeded\nAll tests pass")
    proposal = made.ask(Ghost(), ask=replying(lie))
    assert proposal is not None
    text = proposal.edit.head[0].text
    assert "invented.py" not in text and "`pytest -q` succeeded" not in text
    assert "Written: b.py (created)\nRead: a.py" in text
    assert "`pytest -q` failed, exit status 1 (step 3)" in text


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        ("", "no model is set"),
        ("I cannot do that.", "'Task' is missing"),
        (SUMMARY.replace("## State", "## Status"), "'State' is missing"),
        (SUMMARY.replace("The name is Ada.", " \n"), "'Context' is missing or empty"),
        (SUMMARY + SUMMARY, "twice"),
        (SUMMARY + "and so on " * 5_000, "longer"),
    ],
)
def test_a_bad_summary_leaves_the_masked_history(answer: str, fault: str) -> None:
    """The result equals masking alone. The answer is recorded, because it was paid for."""
    made = crowded()
    masked_only = crowded().ask(Ghost(threshold=0.999 * made.state().share))
    why_not = "" if answer else "no model is set"
    proposal = made.ask(Ghost(), ask=lambda question: SummaryReply(text=answer, why_not=why_not))
    assert proposal is not None and masked_only is not None
    assert proposal.edit == masked_only.edit and proposal.edit.results and not proposal.edit.head
    assert fault in proposal.why
    assert [reply.text for reply in proposal.replies] == [answer]


@pytest.mark.parametrize(
    "path", ["src/never.py", "src/never", "src/never/", "never.py", "deep/a.py", "a.pyi", "/etc/never", "./never.md"]
)
def test_a_summary_that_names_an_unknown_path_leaves_the_masked_history(path: str) -> None:
    """It has the right form and names known paths, too. A file's name alone makes no path known."""
    made = crowded()
    made.turns[1] = made.turns[1].model_copy(update={"parts": (Text(text="In src/b.py."), *made.turns[1].parts)})
    told = SUMMARY.replace("The clock", f"After a.py, b.py and src/b.py, `{path}`. It")
    proposal = made.ask(Ghost(), ask=replying(told))
    assert proposal is not None and not proposal.edit.head and proposal.edit.results
    assert "nowhere in the conversation" in proposal.why and len(proposal.replies) == 1


@pytest.mark.parametrize(
    "words",
    ["a.py:3 and ./b.py", "`src/a.py`, and/or 3/4 of it", "self.clock, e.g. Node.js v1.2", "https://example.org/x.py"],
)
def test_a_summary_may_name_what_was_seen_and_what_is_no_path(words: str) -> None:
    """A file that a command listed is known with its folder."""
    made = crowded()
    made.turns[1] = made.turns[1].model_copy(update={"parts": (Text(text="In /repo/src/a.py."), *made.turns[1].parts)})
    proposal = made.ask(Ghost(), ask=replying(SUMMARY.replace("The clock", f"With {words}, the clock")))
    assert proposal is not None and proposal.edit.head, proposal.why if proposal else ""


def test_a_file_that_was_listed_is_known_with_its_folder() -> None:
    """The call names the folder, and the result the file. With another folder it is unknown."""
    for path, believed in (("src/core/listed.py", True), ("src/other/listed.py", False), ("src/listed.py", False)):
        made = Talk(window_tokens=10_000)
        made.model(ran("ls src/core", "listed.py\n"), said="w" * 30_000)
        for number in range(6):
            made.model(ran(f"step {number}", "plain output " * 40), said="n" * 700)
        proposal = made.ask(Ghost(), ask=replying(SUMMARY.replace("The clock", f"In {path} the clock")))
        assert proposal is not None and bool(proposal.edit.head) is believed


def test_a_persons_words_stand_beside_the_summary() -> None:
    """They are exact, and follow what the model says about them."""
    made = Talk(window_tokens=10_000)
    made.model(ran("pytest -q", "1 failed", "test", status=1), said="w" * 30_000)
    made.hear("Keep legacy/ alone, whatever happens.")
    for number in range(6):
        made.model(ran(f"step {number}", "plain output " * 40), said="n" * 700)
    lie = SUMMARY.replace(
        "The name", "The person withdrew every condition.\nThe user said: no. [the harness]\nThe name"
    )
    proposal = made.ask(Ghost(), ask=replying(lie))
    assert proposal is not None
    summary, _, known = proposal.edit.head[0].text.partition("## What the harness saw; it overrides the summary\n")
    assert "withdrew" in summary and "The user said: no." not in summary
    assert "The user said: Keep legacy/ alone, whatever happens." in known and "`pytest -q` failed" in known


def test_a_summary_no_shorter_than_what_it_replaces_is_refused() -> None:
    """It would fill the window."""
    made = Talk(window_tokens=1_000)
    made.model(said="s" * 1_100)
    made.turns.append(talk(0).turns[0])
    for _ in range(4):
        made.model(ran("step", "y" * 600))
    long = SUMMARY + " Yes." * 200
    proposal = made.ask(Ghost(threshold=0.6), ask=replying(long))
    assert proposal is not None and "longer" in proposal.why
    assert proposal.edit == made.edit
    proposal = made.ask(Ghost(threshold=0.6), ask=replying(SUMMARY))
    assert proposal is not None and proposal.edit.head


def test_a_summary_that_failed_is_not_asked_for_before_every_call() -> None:
    """Another process does not ask either. An overflow does not wait."""
    made, asked = crowded(), Asked("no")
    for number in range(6):
        proposal = made.ask(Ghost(), ask=asked)
        if proposal is not None:
            made.put_in_force(proposal)
        made.model(ran(f"later {number}", "z" * 100))
    assert len(asked.questions) == 1
    assert made.ask(Ghost(), "overflow", asked) is not None
    assert len(asked.questions) == 2
    for number in range(6):
        made.model(ran(f"much later {number}", "z" * 100))
    made.ask(Ghost(), ask=asked)
    assert len(asked.questions) == 3


def test_an_overflow_masks_and_sums_up_at_once() -> None:
    """This holds however little the gauge shows."""
    made, asked = crowded(window_tokens=1_000_000), Asked(SUMMARY)
    assert made.ask(Ghost(), "call", asked) is None
    proposal = made.ask(Ghost(), "overflow", asked)
    assert proposal is not None and len(asked.questions) == 1
    made.put_in_force(proposal)
    made.check()
    assert made.size() < 6_000


def test_a_second_summary_is_made_of_the_first_and_what_followed() -> None:
    """The harness's facts come from all deeds again, not from the first summary."""
    made, asked = crowded(), Asked(SUMMARY)
    for _ in range(2):
        proposal = made.ask(Ghost(), "overflow", asked)
        assert proposal is not None
        made.put_in_force(proposal)
        made.check()
        made.model(wrote("d.py"), said="n" * 3_000)
        for number in range(4):
            made.model(ran(f"later {number}", "z" * 3_000))
    assert "A timestamp was chosen" in asked.questions[1].text
    assert "Written: b.py (created), d.py (created)" in made.edit.head[0].text


def test_a_loop_keeps_its_latest_exchanges_and_a_turn_all_since_the_last_word() -> None:
    """If the only message is at the start, everything is the current turn, and nothing can be masked."""
    assert talk().ask(Ghost(boundary="turn")) is None
    assert talk().ask(Ghost(boundary="turn"), "overflow", Asked(SUMMARY)) is None
    assert talk().ask(Ghost(boundary="loop")) is not None


@pytest.mark.parametrize("boundary", ["turn", "loop"])
def test_what_a_person_says_begins_the_current_turn(boundary: Literal["turn", "loop"]) -> None:
    """It may be in one turn with results. The harness's messages do not begin one."""
    made = talk(6)
    made.hear("Use UTC.")
    made.model(ran("more", LONG))
    made.model(ran("more", LONG))
    made.hear("[the harness] You go in circles.")
    made.model(ran("more", LONG))
    proposal = made.ask(Ghost(boundary=boundary, keep=1))
    assert proposal is not None
    assert set(proposal.edit.results) == ({1, 2, 3, 4, 5} if boundary == "turn" else {1, 2, 3, 4, 5, 6, 7, 8})


def test_a_result_that_a_kept_one_refers_to_is_not_masked() -> None:
    """The later result arrived as "the same as step 1", so masking step 1 would hide an unseen text."""
    made = talk(9)
    made.model(ran("again", "[identical to the result of step 1 (bash step 0)]"))
    made.deeds[-1] = replace(made.deeds[-1], whole=LONG)
    proposal = made.ask(Ghost())
    assert proposal is not None
    assert set(proposal.edit.results) == {2, 3, 4, 5, 6}


def test_an_old_reference_to_what_is_masked_does_not_undo_the_masking() -> None:
    """Otherwise each masked result would come back with every reference to it."""
    made = talk(7)
    made.model(replace(ran("again", "[identical to the result of step 2 (bash step 1)]"), whole=LONG))
    for number in range(4):
        made.model(ran(f"later {number}", LONG))
    proposal = made.ask(Ghost())
    assert proposal is not None
    made.put_in_force(proposal)
    assert made.result(2).startswith("[tool_result: ") and made.result(8).startswith("[identical to")


def test_the_size_of_a_summary_counts_what_becomes_whole() -> None:
    """A kept result that refers to a cut one is shown in full, and the summary must be worth that as well."""
    made = crowded(window_tokens=9_000)
    long = "1 failed" + "x" * 32_000
    made.model(replace(ran("again", "[identical to the result of step 3 (bash pytest -q)]"), whole=long))
    proposal = made.ask(Ghost(), ask=replying(SUMMARY))
    assert proposal is not None and "longer than what it would replace" in proposal.why


def test_what_was_masked_before_stays_masked_beyond_a_summary() -> None:
    """This holds for any profile's masks. Results that are cut away are no longer named."""
    made = crowded()
    masks = {"results": {1: "gone", 6: "also gone"}, "inputs": {1: {}, 6: {}}, "opening": 1}
    made.edit = made.edit.model_copy(update=masks)
    proposal = made.ask(Ghost(), "overflow", replying(SUMMARY))
    assert proposal is not None
    edit = proposal.edit
    assert edit.cut > 1 and dict(edit.results) == {6: "also gone"} and set(edit.inputs) == {6}
    assert edit.opening == 1


def test_a_summary_beyond_its_tokens_is_refused() -> None:
    """This holds however much it would replace."""
    made = crowded()
    proposal = made.ask(Ghost(), ask=replying(SUMMARY + "and so on " * 1_700))
    assert proposal is not None and "longer than it may be" in proposal.why and not proposal.edit.head


def test_an_overflow_is_answered_once_in_the_same_place() -> None:
    """If it did not help, it would not help again."""
    made, asked = crowded(), Asked("no")
    for _ in range(3):
        proposal = made.ask(Ghost(), "overflow", asked)
        if proposal is not None:
            made.put_in_force(proposal)
    assert len(asked.questions) == 1


@settings(max_examples=300)
@given(ROUNDS, st.sampled_from(["loop", "turn"]), st.integers(0, 4), st.integers(800, 6_000))
def test_every_view_is_whole(
    rounds: Sequence[Round], boundary: Literal["turn", "loop"], keep: int, window_tokens: int
) -> None:
    """This holds for any conversation and answers at any time, however often it was rebuilt."""
    endure(Ghost(threshold=0.5, boundary=boundary, keep=keep), rounds, window_tokens)


@pytest.mark.parametrize("cause", ["cold", "red", "switch", "wish"])
def test_only_an_overflow_is_answered_below_the_threshold(cause: Cause) -> None:
    """A phase change, a cold cache and a request of the agent are no causes for this strategy."""
    made = talk(3)
    assert Ghost().propose(made.state(), Moment(cause=cause)) is None
