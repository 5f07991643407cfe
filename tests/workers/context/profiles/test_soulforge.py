"""SoulForge's compactions: when they act, what replaces the cut part, and that no planted fact is lost."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spoken import CARD, Act, Spoken, answering, bash, create, edit, grep, read, unharmed, window

from forgepool.workers.context.edits.masks import HARNESS
from forgepool.workers.context.edits.state import Ask, Cause, Moment, SummaryQuestion, SummaryReply, nobody
from forgepool.workers.context.profiles.comparators import Compact, Condenser
from forgepool.workers.context.profiles.soulforge import DETAILS, SoulforgeV1, SoulforgeV2
from forgepool.workers.context.transcript.edit import Edit
from forgepool.workers.context.transcript.usage import Gauge
from forgepool.workers.llm.messages import Text, ToolResult, Turn, user

PATHS = ("src/auth.py", "src/session.py", "src/clock.py", "tests/test_auth.py", "docs/sessions.md")
TESTS = ("tests/test_auth.py::test_idle_session_ends", "tests/test_auth.py::test_clock_is_injected")
DECISIONS = ("keep the clock as an argument of Session", "choosing a monotonic clock over wall time")
FOUND = "the refresh path never reads last_seen"
REQUIREMENTS = ("Do not change the cookie's name.", "Python 3.9 must keep working.")
FACTS = (*PATHS, *TESTS, *DECISIONS, FOUND, *REQUIREMENTS)

SUMMARY = (
    "The session ends after idle_s seconds; src/session.py holds it, and the red test was made green. Docs remain."
)


def worked(**options: object) -> Spoken:
    """Return twenty-nine messages of an ordinary fix, with all the facts to recall."""
    spoken = Spoken(**options)
    code = "def load():\n" + "    line = 1\n" * 300
    spoken.do("Sure, looking at it.", grep("idle", "src/auth.py:3: idle"), read("src/auth.py", code))
    spoken.hear(REQUIREMENTS[0])
    spoken.do("", read("src/session.py", code + "# session"))
    spoken.do(f"I found that {FOUND}.", read("src/clock.py", code))
    spoken.do(f"I'll {DECISIONS[0]}.", create("tests/test_auth.py", "def test_a(): ...\n"))
    red = "\n".join(["." * 900, *(f"FAILED {name} - AssertionError" for name in TESTS), "." * 900, "2 failed in 0.3s"])
    spoken.do("", bash("pytest -q tests/auth", red, status=1, action="test"))
    spoken.do(f"It is done by {DECISIONS[1]}.", edit("src/session.py", "time.time()", "self.clock()"))
    spoken.do("", bash("pytest -q tests/auth", "1 passed, 0 failed", action="test"))
    spoken.hear(REQUIREMENTS[1])
    spoken.do("Now the docs.", create("docs/sessions.md", "# Sessions\n"))
    for n in range(6):
        spoken.do("", bash(f"git log -{n}", f"commit {n}\n" + "x" * 1_500))
    return spoken


def grown(spoken: Spoken, characters: int, *, each: int = 2_000) -> None:
    """Add this many characters without facts."""
    for n in range(characters // each):
        spoken.do("", bash(f"sed -n {n}p log", "z" * each))


def due(spoken: Spoken, gauge: Gauge | None = None) -> Spoken:
    """Put the conversation into a window that it fills to 80%."""
    spoken.gauge = gauge or window(spoken.state.shown_characters // 4 * 10 // 8)
    return spoken


def recalled(spoken: Spoken) -> float:
    return sum(fact in spoken.text for fact in FACTS) / len(FACTS)


def never(question: SummaryQuestion) -> SummaryReply:
    raise AssertionError(f"a model was asked for {question.kind}")


def test_thirty_four_messages_become_six_with_all_that_was_planted_and_without_a_model() -> None:
    """At most six are left: the card with the state, and the last four."""
    spoken = worked()
    while len(spoken.turns) < 35:
        spoken.do("", bash("git status", "clean"))
    spoken.turns.pop()
    spoken.deeds.pop()
    spoken.turns[-1] = Turn(role="assistant", parts=(Text(text="Done with this part."),))
    assert len(spoken.turns) == 34
    before = spoken.state.shown_characters
    proposal = due(spoken).led_by(SoulforgeV2(), never)
    assert proposal is not None and not spoken.asked
    assert len(spoken.sides) <= 6 and spoken.state.shown_characters < before
    assert recalled(spoken) == 1.0
    unharmed(spoken)


@pytest.mark.parametrize("rebuilds", [1, 2, 5, 20])
@pytest.mark.parametrize("ask", [never, nobody])
def test_facts_are_recalled_after_any_number_of_rebuilds(rebuilds: int, ask: Ask) -> None:
    """The original forgets its state at every compaction, and the task at the second."""
    spoken = worked(gauge=window(12_000))
    while spoken.rebuilds < rebuilds:
        grown(spoken, 2_000)
        spoken.led_by(SoulforgeV2(), ask)
    assert recalled(spoken) == 1.0 and CARD in spoken.turns[0].text
    unharmed(spoken)


def test_a_failed_compaction_loses_no_state() -> None:
    """With v1 nothing changes. A later v2 has the same state as without the failure."""
    spoken, other = due(worked()), due(worked())
    failed = spoken.led_by(SoulforgeV1(), answering(""))
    assert failed is not None and failed.edit == Edit() and failed.replies
    spoken.led_by(SoulforgeV2(), never)
    other.led_by(SoulforgeV2(), never)
    assert spoken.edit == other.edit and recalled(spoken) == 1.0


def test_the_last_four_messages_stay_and_no_call_loses_its_result() -> None:
    spoken = due(worked())
    spoken.led_by(SoulforgeV2(), never)
    assert spoken.view[2:] == spoken.turns[-4:]
    assert spoken.view[1].role == "user" and spoken.view[1].text.startswith(HARNESS)


def test_a_boundary_that_would_begin_with_results_moves_back_to_their_calls() -> None:
    spoken = due(worked())
    spoken.led_by(SoulforgeV2(keep_recent=3), never)
    assert spoken.view[2:] == spoken.turns[-4:]


def test_the_card_is_told_once() -> None:
    spoken = due(worked())
    spoken.led_by(SoulforgeV2(), never)
    assert spoken.text.count("Sessions must end after") == 1


def test_a_committed_plan_that_stands_above_is_not_told_again() -> None:
    above, apart = due(worked(card=f"{CARD}\n\n1. mend it", plan="1. mend it")), due(worked(plan="1. mend it"))
    for spoken in (above, apart):
        spoken.led_by(SoulforgeV2(), never)
        assert spoken.text.count("1. mend it") == 1


def test_results_can_be_read_again_where_there_is_an_archive() -> None:
    spoken = due(worked(archive=".forgepool/context"))
    spoken.led_by(SoulforgeV2(), never)
    assert ".forgepool/context/step-N.txt" in spoken.text and "**bash** (step 6) ran: pytest" in spoken.text


@pytest.mark.parametrize("profile", [SoulforgeV2(), SoulforgeV1()])
def test_they_fire_above_the_trigger_and_with_six_messages(profile: SoulforgeV2 | SoulforgeV1) -> None:
    spoken = worked()
    full = spoken.state.shown_characters // 4
    for share, fires in ((0.69, False), (0.72, True)):
        spoken.gauge = window(int(full / share))
        assert (profile.propose(spoken.state, Moment(cause="call", ask=answering(SUMMARY))) is not None) is fires
    few = Spoken(gauge=window(1_000))
    few.do("", bash("a", "x" * 9_000))
    few.do("", bash("b", "y"))
    shorter = replace(profile, keep_recent=2)
    assert len(few.turns) == 5 and few.led_by(shorter, answering(SUMMARY)) is None
    few.do("", bash("c", "z"))
    assert few.led_by(shorter, answering(SUMMARY)) is not None


def test_a_threshold_in_tokens_takes_the_place_of_the_share() -> None:
    spoken = worked()
    tokens = spoken.state.shown_characters // 4
    assert spoken.led_by(SoulforgeV2(trigger_tokens=tokens), never) is None
    assert spoken.led_by(SoulforgeV2(trigger_tokens=tokens - 1), never) is not None


def test_after_a_rebuild_it_rests_until_the_trigger_is_passed_again() -> None:
    """It is armed below the reset and acts at the trigger. Another process comes to the same."""
    spoken = worked(gauge=window(12_000))
    moments = []
    for n in range(200):
        grown(spoken, 2_000)
        full = spoken.state.share
        if spoken.led_by(SoulforgeV2(), never) is not None:
            assert full > 0.7 and spoken.state.share < 0.4
            moments.append(n)
        else:
            assert full <= 0.7
    apart = [later - earlier for earlier, later in pairwise(moments)]
    assert min(apart) >= 0.3 * 12_000 * 4 / 2_100


def test_what_stays_above_the_reset_is_not_rebuilt_at_every_call() -> None:
    """The card alone is half of the window, so new text arms it and not the share."""
    spoken = worked(card=CARD + "c" * 26_000, gauge=window(12_000))
    for _ in range(60):
        grown(spoken, 1_000, each=1_000)
        if spoken.led_by(SoulforgeV2(), never) is not None:
            assert spoken.state.share > 0.4
    assert 2 <= spoken.rebuilds <= 60 // 5
    assert spoken.state.share < 1.0


def test_nothing_is_replaced_by_what_is_not_shorter() -> None:
    spoken = Spoken(gauge=window(1_000))
    for n in range(4):
        spoken.do(f"I decided to take the way number {n} here.", create(f"{n}.py", f"{n}"))
    spoken.do("", bash("x", "y" * 3_000))
    proposal = spoken.led_by(SoulforgeV2(), answering("COMPLETE"))
    assert proposal is None or proposal.edit == Edit()


@pytest.mark.parametrize(
    ("profile", "cause"), [(SoulforgeV1(), "wish"), (Compact(), "wish"), (Condenser(), "overflow")]
)
def test_no_model_is_asked_where_there_is_nothing_to_replace(
    profile: SoulforgeV1 | Condenser | Compact, cause: Cause
) -> None:
    """This holds however full the window is, and before a call also for a little text beside the card."""
    spoken = worked()
    spoken.led_by(profile, answering(SUMMARY), cause=cause)
    assert spoken.rebuilds == 1 and spoken.led_by(profile, never, cause=cause) is None
    small = Spoken(card=CARD + "c" * 600_000)
    for n in range(8):
        small.do("", bash(f"echo {n}", "ok"))
    assert small.state.share > 0.7 and small.led_by(profile, never) is None


def test_a_model_that_was_asked_before_a_crash_is_not_asked_again() -> None:
    """The question is recorded before its answer. v2 continues without the answer, and v1 waits for more text."""
    for profile, rebuilt in ((SoulforgeV2(), True), (SoulforgeV1(), False)):
        spoken = little()
        with pytest.raises(KeyboardInterrupt):
            spoken.led_by(profile, killed)
        proposal = spoken.led_by(profile, never)
        assert (proposal is not None and spoken.rebuilds == 1) is rebuilt


def killed(question: SummaryQuestion) -> SummaryReply:
    raise KeyboardInterrupt


def test_an_overflow_needs_no_threshold_and_keeps_the_last_exchange_alone() -> None:
    spoken = worked()
    grown(spoken, 20_000)
    assert spoken.state.share < 0.1
    assert spoken.led_by(SoulforgeV2(), never) is None
    assert spoken.led_by(SoulforgeV2(), never, cause="overflow") is not None
    assert spoken.view[2:] == spoken.turns[-2:]


def little(rounds: int = 11) -> Spoken:
    """Return a conversation in which the rules find little, so that a model is asked."""
    spoken = Spoken()
    for n in range(rounds):
        spoken.do("w" * 2_500 if n == 1 else "", bash(f"cat part-{n}", f"<{n}>" + "x" * 3_000))
    return due(spoken)


def test_gaps_are_filled_only_under_fifteen_slots() -> None:
    """It is asked once with the published numbers: 2,048 tokens, and the oldest 12,000 characters."""
    spoken = little()
    proposal = spoken.led_by(SoulforgeV2(), answering("- the parts come in the order of their numbers"))
    assert proposal is not None and len(proposal.replies) == 1
    (question,) = spoken.asked
    assert (question.kind, question.max_output_tokens) == ("gaps", 2_048)
    talk = question.text.partition("# Conversation\n\n")[2]
    assert len(talk) <= 12_000 and talk.startswith("[user]\n# Task T7") and "<0>" in talk
    messages = talk.split("\n\n")
    assert max(map(len, messages)) == 2_000 and max(message.count("x") for message in messages) < 1_500
    assert len(talk) > 11_900 and "<8>" not in talk
    assert f"{DETAILS}\n- the parts come in the order" in spoken.text


def test_without_a_model_or_unwanted_gaps_are_not_filled() -> None:
    for profile, ask in ((SoulforgeV2(llm_extraction=False), never), (SoulforgeV2(), nobody)):
        spoken = little()
        proposal = spoken.led_by(profile, ask)
        assert proposal is not None and proposal.replies == () and "no model was asked" in proposal.why
        assert DETAILS not in spoken.text


USELESS = {
    "empty": "",
    "complete": "COMPLETE",
    "complete-and-more": "COMPLETE. There is nothing to add to the record.",
    "short": "nothing much here",
    "oversized": "word " * 6_000,
    "lying": "- the fix is in lib/invented/thing.py and in lib/other/made_up.py",
}


@pytest.mark.parametrize("answer", USELESS.values(), ids=USELESS)
def test_a_useless_filling_leaves_the_state_alone(answer: str) -> None:
    spoken, bare = little(), little()
    spoken.led_by(SoulforgeV2(), answering(answer))
    bare.led_by(SoulforgeV2(), nobody)
    assert spoken.edit == bare.edit != Edit() and len(spoken.asked) == 1


def test_what_a_model_added_once_is_carried_on() -> None:
    """This holds whether or not the next rebuild asks a model."""
    spoken = little(5)
    spoken.led_by(SoulforgeV2(), answering("- the first thing that was missing"))
    for n in range(8):
        spoken.do("", bash(f"cat more-{n}", "x" * 3_000))
    spoken.led_by(SoulforgeV2(), answering("- the second thing that was missing"), cause="wish")
    assert "- the first thing that was missing\n- the second thing" in spoken.text
    for n in range(12):
        spoken.do("", bash(f"cat other-{n}", "x" * 3_000))
    spoken.led_by(SoulforgeV2(), never, cause="wish")
    assert spoken.rebuilds == 3 and "- the first thing that was missing\n- the second thing" in spoken.text


def test_v1_has_one_model_summarise_all_older_messages() -> None:
    """
    It gets every message and 8,192 tokens of output. The harness's facts stand beside the summary and override it.
    """
    spoken = due(worked())
    proposal = spoken.led_by(SoulforgeV1(), answering(SUMMARY))
    assert proposal is not None and len(proposal.replies) == 1
    (question,) = spoken.asked
    assert (question.kind, question.max_output_tokens) == ("prose", 8_192)
    assert all(fact in question.text for fact in FACTS)
    assert SUMMARY in spoken.text and "src/session.py (edited)" in spoken.text
    assert all(text in spoken.text for text in REQUIREMENTS)
    assert spoken.view[2:] == spoken.turns[-4:]
    unharmed(spoken)


def test_v1_sums_up_its_own_summary_with_what_came_since() -> None:
    spoken = due(worked())
    spoken.led_by(SoulforgeV1(), answering(SUMMARY))
    grown(spoken, 6_000)
    spoken.led_by(SoulforgeV1(), answering(f"Again: {SUMMARY}"), cause="wish")
    assert SUMMARY in spoken.asked[1].text and FOUND not in spoken.asked[1].text.partition(SUMMARY)[2]
    assert spoken.text.count(SUMMARY) == 1


def bad(question: SummaryQuestion) -> SummaryReply:
    return SummaryReply(why_not="the model answered nothing for 60 s")


BAD: dict[str, Ask] = {
    "failing": bad,
    "empty": answering("  \n"),
    "short": answering("All is well so far."),
    "oversized": answering("word " * 20_000),
    "growing": answering("src/auth.py is long. " * 1_400),
    "lying": answering("The work is done in lib/invented/thing.py and lib/other/made_up.py; the rest is only tests."),
    "nobody": nobody,
}
ASKING: dict[str, Callable[[], SoulforgeV1 | Compact | Condenser]] = {
    "soulforge-v1": SoulforgeV1,
    "compact": lambda: Compact(trigger_tokens=500),
    "condenser": lambda: Condenser(max_items=20),
}


@pytest.mark.parametrize("name", ASKING)
@pytest.mark.parametrize("ask", BAD.values(), ids=BAD)
def test_a_bad_summary_leaves_the_history_as_it_is(name: str, ask: Ask) -> None:
    """The reason is given. No process tries again before the conversation has grown."""
    spoken = due(worked())
    proposal = spoken.led_by(ASKING[name](), ask)
    assert proposal is not None and proposal.edit == Edit() and ", but " in proposal.why
    assert spoken.view == spoken.turns and spoken.rebuilds == 0
    assert bool(proposal.replies) is (ask is not nobody)
    assert spoken.led_by(ASKING[name](), never) is None
    grown(spoken, 20_000)
    assert spoken.led_by(ASKING[name](), answering(SUMMARY)) is not None and spoken.rebuilds == 1


def test_switching_to_v2_has_the_state_of_all_that_was_said_before() -> None:
    """The original begins only with the next message."""
    spoken = due(worked())
    spoken.led_by(SoulforgeV1(), answering(SUMMARY))
    grown(spoken, 20_000)
    spoken.led_by(SoulforgeV2(), never, cause="wish")
    assert recalled(spoken) == 1.0 and SUMMARY not in spoken.text


def test_a_result_that_refers_to_one_that_is_cut_is_shown_with_it() -> None:
    """It arrived as "identical to step 3", so cutting step 3 must not empty it."""
    spoken = due(worked())
    spoken.do("", read("src/session.py"))
    text = "[identical to the result of step 3 (read_file src/session.py)]"
    short = ToolResult(call_id=f"c{len(spoken.deeds)}", text=text)
    spoken.turns[-1] = user(short)
    spoken.deeds[-1] = replace(spoken.deeds[-1], result=short, whole=spoken.deeds[2].whole)
    spoken.led_by(SoulforgeV2(), never)
    assert spoken.edit.cut > spoken.deeds[2].turn and spoken.deeds[2].whole in spoken.text


ACTS = st.sampled_from(
    [
        read("a.py", "x" * 400),
        edit("a.py", "x", "y"),
        create("b/c.py", "1\n" * 200),
        bash("pytest", "FAILED t::x" + "." * 500, status=1, action="test"),
        bash("pytest", "fine", action="test"),
        grep("p", "a.py:1: p"),
    ]
)
ROUNDS = st.lists(
    st.tuples(
        st.sampled_from(["", "We should keep it as it is now.", "Plain remark here."]),
        st.lists(ACTS, max_size=3),
        st.sampled_from(["", "", "A further wish of mine."]),
    ),
    min_size=1,
    max_size=30,
)
ANSWERS = st.lists(st.sampled_from(["", SUMMARY, "COMPLETE", "z" * 90_000, f"{SUMMARY}\n" * 4]), min_size=1, max_size=4)
CAUSES: st.SearchStrategy[Cause] = st.sampled_from(["call", "call", "call", "cold", "overflow", "wish", "switch"])
PROFILES = {
    "soulforge-v2": SoulforgeV2(trigger_tokens=900),
    "soulforge-v1": SoulforgeV1(trigger_tokens=900),
    "odd": SoulforgeV2(trigger_tokens=700, keep_recent=3),
    "compact": Compact(trigger_tokens=800, keep_turns=3),
    "condenser": Condenser(max_items=16),
}


@settings(max_examples=40)
@given(
    rounds=ROUNDS,
    answers=ANSWERS,
    causes=st.lists(CAUSES, min_size=30, max_size=30),
    names=st.lists(st.sampled_from(sorted(PROFILES)), min_size=1, max_size=3),
)
def test_any_conversation_can_be_shown_whatever_is_done_to_it(
    rounds: list[tuple[str, list[Act], str]], answers: list[str], causes: list[Cause], names: list[str]
) -> None:
    """Each profile, or several in turn, act with any answers of models."""
    spoken = Spoken(gauge=window(4_000))
    for n, (said, acts, heard) in enumerate(rounds):
        spoken.do(said, *acts)
        if heard or not acts:
            spoken.hear(heard or f"{HARNESS} Go on.")
        before = spoken.state.shown_characters
        asked = len(spoken.asked)
        proposal = spoken.led_by(
            PROFILES[names[n % len(names)]],
            lambda question: SummaryReply(text=answers[len(spoken.asked) % len(answers)]),
            cause=causes[n],
        )
        unharmed(spoken)
        assert spoken.state.shown_characters <= before
        if proposal is not None:
            assert len(spoken.asked) - asked == len(proposal.replies)
