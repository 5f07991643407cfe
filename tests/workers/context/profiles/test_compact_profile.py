"""Compaction at the live prefix: the question, what is kept, and when it happens."""

from spoken import Spoken, answering, bash, edit, unharmed

from forgepool.workers.context.profiles.comparators import Compact

SUMMARY = "Done: the first half, in src/a.py. To do: the second half; the parser drops the last line, which is red."
PROFILE = Compact(trigger_tokens=2_000)


def filled(characters: int) -> Spoken:
    spoken = Spoken()
    spoken.do("", edit("src/a.py", "old", "new"))
    spoken.hear("Keep the cookie's name.")
    grown(spoken, characters)
    return spoken


def grown(spoken: Spoken, characters: int) -> None:
    for n in range(characters // 500):
        spoken.do("", bash(f"sed -n {n}p log", "z" * 500))


def test_it_fires_above_its_tokens_all_of_the_request_counted() -> None:
    spoken = filled(7_000)
    assert spoken.state.shown_characters < 8_000 and spoken.led_by(PROFILE, answering(SUMMARY)) is None
    spoken.gauge.fixed_characters = 4_000
    assert spoken.led_by(PROFILE, answering(SUMMARY)) is not None and spoken.rebuilds == 1


def test_the_conversation_itself_is_asked() -> None:
    """The question has no text of its own and follows the cached conversation."""
    spoken = filled(9_000)
    proposal = spoken.led_by(PROFILE, answering(SUMMARY))
    (question,) = spoken.asked
    assert question.text == "" and question.kind == "prose" and question.instruction
    assert proposal is not None and len(proposal.replies) == 1


def test_what_stays_is_the_card_the_summary_the_users_words_and_the_last_turns() -> None:
    spoken = filled(9_000)
    spoken.led_by(PROFILE, answering(SUMMARY))
    head = spoken.view[1].text
    assert SUMMARY in head and "Keep the cookie's name." in head and "src/a.py (edited)" in head
    assert spoken.view[2:] == spoken.turns[-4:]
    unharmed(spoken)


def test_more_turns_are_kept_where_they_are_wanted() -> None:
    spoken = filled(9_000)
    spoken.led_by(Compact(trigger_tokens=2_000, keep_turns=8), answering(SUMMARY))
    assert spoken.view[2:] == spoken.turns[-8:]


def test_of_the_users_words_the_newest_within_twenty_thousand_tokens_stay() -> None:
    spoken = filled(0)
    for n in range(40):
        spoken.do("", bash("x", "y"))
        spoken.hear(f"<{n}>" + "w" * 3_900)
    spoken.led_by(PROFILE, answering(SUMMARY))
    kept = [n for n in range(38) if f"<{n}>" in spoken.view[1].text]
    assert kept == list(range(18, 38))


def test_it_rests_after_a_compaction_until_the_trigger_is_passed_again() -> None:
    spoken = filled(0)
    moments = []
    for n in range(100):
        grown(spoken, 500)
        if spoken.led_by(PROFILE, answering(SUMMARY)) is not None:
            moments.append(n)
    assert len(moments) == len(spoken.asked) == spoken.rebuilds
    assert 4 <= len(moments) <= 10
