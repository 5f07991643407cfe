"""OpenHands' condenser: beyond 80 items the middle is dropped until half of them are left."""

import pytest
from spoken import Spoken, answering, bash, read, unharmed, window

from forgepool.workers.context.edits.state import SummaryQuestion, SummaryReply
from forgepool.workers.context.profiles.comparators import Condenser, items
from forgepool.workers.context.transcript.edit import Edit
from forgepool.workers.llm.messages import Text, ToolResult, Turn, user

SUMMARY = "COMPLETED: part one of the work, and what it needs. PENDING: the other parts. TESTS: none of them is red."


def long(rounds: int = 45) -> Spoken:
    spoken = Spoken()
    for n in range(rounds):
        spoken.do(f"Thought {n}.", bash(f"step {n}", f"<{n}>" + "x" * 300))
    return spoken


def counted(spoken: Spoken) -> int:
    return sum(items(turn) for turn in spoken.view)


def test_items_are_calls_and_results_and_says() -> None:
    """A text before a call belongs to the call."""
    spoken = Spoken()
    spoken.do("Both.", read("a"), read("b"))
    spoken.hear("Mind this.")
    assert [items(turn) for turn in spoken.turns] == [1, 2, 3]
    assert (
        items(Turn(role="assistant", parts=(Text(text="Hm."),))) == 1 == items(user(ToolResult(call_id="x", text="")))
    )


def test_eighty_items_are_left_alone_and_more_are_halved() -> None:
    spoken = long(39)
    assert counted(spoken) == 79 and spoken.led_by(Condenser(), answering(SUMMARY)) is None
    spoken.do("Thought.", bash("one more", "fine"))
    assert counted(spoken) == 81
    proposal = spoken.led_by(Condenser(), answering(SUMMARY))
    assert proposal is not None and len(proposal.replies) == 1 == spoken.rebuilds
    assert 38 <= counted(spoken) <= 41
    unharmed(spoken)


def test_calls_made_at_once_are_items_of_their_own() -> None:
    spoken = Spoken()
    for n in range(9):
        spoken.do("", *[read(f"{n}/{m}.py", "x" * 200) for m in range(5)])
    assert len(spoken.turns) == 19 and counted(spoken) == 91
    assert spoken.led_by(Condenser(), answering(SUMMARY)) is not None and counted(spoken) <= 46


def test_by_wish_half_of_what_there_is_is_forgotten() -> None:
    spoken = long(20)
    assert counted(spoken) == 41 and spoken.led_by(Condenser(), answering(SUMMARY), cause="wish") is not None
    assert 18 <= counted(spoken) <= 21


def test_the_first_ones_stay_as_they_are_and_so_do_the_last() -> None:
    """OpenHands keeps four: the system prompt, the task, and one call with its result."""
    spoken = long()
    spoken.led_by(Condenser(), answering(SUMMARY))
    assert spoken.view[:3] == spoken.turns[:3]
    assert SUMMARY in spoken.view[3].text and spoken.view[4:] == spoken.turns[spoken.edit.cut :]


@pytest.mark.parametrize(("first", "kept"), [(1, 1), (2, 1), (3, 3), (4, 3), (5, 5)])
def test_what_is_kept_first_ends_with_the_results_of_its_calls(first: int, kept: int) -> None:
    spoken = long()
    spoken.led_by(Condenser(keep_first=first), answering(SUMMARY))
    assert spoken.view[:kept] == spoken.turns[:kept] and SUMMARY in spoken.view[kept].text


def test_the_model_is_shown_what_is_forgotten_and_nothing_else() -> None:
    spoken = long()
    spoken.led_by(Condenser(), answering(SUMMARY))
    (question,) = spoken.asked
    assert question.kind == "prose" and "<1>" in question.text and "<0>" not in question.text
    assert "<44>" not in question.text and "Acceptance" not in question.text
    assert all(name in question.instruction for name in ("USER_CONTEXT", "TASK_TRACKING", "VERSION_CONTROL"))


def test_a_summary_is_summed_up_into_the_next() -> None:
    """The calls kept first stay, and are not part of the question."""
    spoken = long()
    spoken.led_by(Condenser(), answering(SUMMARY))
    for n in range(45, 80):
        spoken.do(f"Thought {n}.", bash(f"step {n}", f"<{n}>" + "x" * 300))
        spoken.led_by(Condenser(), answering(f"Second. {SUMMARY}"))
    assert spoken.rebuilds == 2
    again = spoken.asked[1].text
    assert SUMMARY in again and "<0>" not in again and "<40>" in again and "<5>" not in again
    assert spoken.view[:3] == spoken.turns[:3] and spoken.text.count(SUMMARY) == 1
    unharmed(spoken)


def test_what_the_harness_saw_stands_beside_the_summary() -> None:
    spoken = Spoken()
    for n in range(45):
        spoken.do("", read(f"src/{n}.py", "x" * 400))
    spoken.hear("Mind the docs.")
    spoken.led_by(Condenser(), answering(SUMMARY))
    assert "src/7.py" in spoken.text and "src/20.py" in spoken.text


def test_after_an_overflow_it_is_tried_five_times_with_less_and_less() -> None:
    """At last only the last exchange stays."""
    spoken = long(20)
    spoken.gauge = window(2_000)
    tried: list[int] = []

    def fifth(question: SummaryQuestion) -> SummaryReply:
        tried.append(len(question.text))
        return SummaryReply(text=SUMMARY if len(tried) == 5 else "", why_not="too long")

    assert spoken.led_by(Condenser(), fifth) is None
    proposal = spoken.led_by(Condenser(), fifth, cause="overflow")
    assert proposal is not None and len(proposal.replies) == 5 and spoken.rebuilds == 1
    assert tried == sorted(tried, reverse=True) and tried[4] < 0.5 * tried[0]
    assert SUMMARY in spoken.view[1].text and spoken.view[2:] == spoken.turns[-2:]
    unharmed(spoken)


def test_an_overflow_that_nobody_can_sum_up_changes_nothing() -> None:
    spoken = long(20)
    proposal = spoken.led_by(Condenser(), answering(""), cause="overflow")
    assert proposal is not None and proposal.edit == Edit() and len(spoken.asked) == 5
    assert spoken.led_by(Condenser(), answering(SUMMARY), cause="overflow") is None
