"""`ledger` rebuilds rarely and then keeps what was paid for: its own blocks, the hot files and the latest turns."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from led import CARD, Did, Led, code, edited, ran, read, wrote

from forgepool.workers.context.edits.ledger import lines
from forgepool.workers.context.edits.masks import FILES_TITLE, SURVEY_TITLE
from forgepool.workers.context.edits.state import Cause
from forgepool.workers.context.profiles.ledger import KEEPS, Keep, LedgerProfile, variant
from forgepool.workers.context.transcript.edit import Edit
from forgepool.workers.context.transcript.usage import lengths, turn_length
from forgepool.workers.llm.messages import Text, Turn, user

KEEP = Keep(turns=2, hot_turns=4, hot_tokens=0, ratio=3.0)
"""Keep two turns and no hot files."""
WIDE = Keep(turns=6, hot_turns=12, hot_tokens=4_000, ratio=3.0)
FREE: list[Cause] = ["cold", "switch", "wish", "overflow"]


def one(keep: Keep = KEEP, least_tokens: int = 0) -> LedgerProfile:
    """Return a profile that always keeps this much."""
    return LedgerProfile(keeps=(keep,), first=0, least_tokens=least_tokens, most_lost=9.0)


def step(led: Led, number: int, size: int = 2_000) -> None:
    led.model(ran(f"echo {number}", f"{number}" * (size // len(str(number)))), said=f"Next is number {number}.")


def grown(led: Led, calls: int, size: int = 2_000) -> Led:
    for number in range(calls):
        step(led, number, size)
    return led


def texts(turn: Turn) -> list[str]:
    return [part.text for part in turn.parts if isinstance(part, Text)]


def blocks(led: Led) -> list[str]:
    return [text for turn in led.view.edit.head[:1] for text in texts(turn) if "What happened so far" in text]


def busy(led: Led, calls: int, seed: int = 3) -> Led:
    """Make reads, writes, tests and searches over a few files, and ask before every call."""
    chance = random.Random(seed)
    for number in range(calls):
        path = f"src/f{chance.randrange(6)}.py"
        done = [
            read(path, code(f"name{number}", chance.randrange(5, 90))),
            edited(path, f"old{number}", f"new{number}"),
            ran("pytest -q", f"FAILED tests/t.py::test_{number} - no\n" + "." * chance.randrange(2_000), number % 2),
            ran(f"grep -rn name{number} src", code(f"hit{number}", chance.randrange(30))),
        ][number % 4]
        led.model(done, said=f"I decided on way {number}." if number % 5 == 0 else "")
        led.ask()
    return led


def test_a_rebuild_waits_until_what_it_drops_outweighs_what_it_keeps() -> None:
    """The ratio decides. With steps of one size it waits until three times two of them are dropped."""
    led = Led(profile=one())
    sizes = []
    for number in range(11):
        step(led, number)
        before = led.view.characters
        if led.ask() is not None:
            sizes.append((number, before, led.view.characters))
    ((number, before, after),) = sizes
    written = after - turn_length(led.view.turns[0])
    assert before - after >= KEEP.ratio * written
    # One call earlier there was too little to drop.
    step_size = before // (number + 1)
    assert before - step_size - after < KEEP.ratio * written


def test_every_rebuild_that_is_not_free_pays_for_itself() -> None:
    """It drops a multiple of what must be written. Ledger blocks that stay are not written again."""
    led = Led(profile=one(WIDE))
    again: set[str] = set()

    def check() -> None:
        proposal = led.proposed()
        if proposal is None:
            return
        known = set(blocks(led))
        before = led.view.characters
        led.use(proposal.edit)
        same = sum(len(block) for block in blocks(led) if block in known)
        again.update(known)
        written = led.view.characters - turn_length(led.view.turns[0]) - same
        assert before - led.view.characters >= WIDE.ratio * written

    chance = random.Random(1)
    for number in range(150):
        step(led, number, chance.randrange(100, 4_000))
        check()
    assert len(led.kept) > 3 and again


def test_a_free_rebuild_does_not_wait() -> None:
    """It must drop at least a tenth of what it keeps."""
    for cause in FREE:
        led = grown(Led(profile=one()), 5)
        assert led.ask("call") is None
        proposal = led.ask(cause)
        assert proposal is not None
        assert led.view.edit.cut == 7
        assert led.ask("cold") is None


def test_a_free_rebuild_that_drops_next_to_nothing_is_none() -> None:
    led = Led(profile=one(), card=("c" * 50_000,))
    grown(led, 4)
    assert led.ask("cold") is None
    led.model(ran("echo", "y" * 9_000))
    led.model(ran("echo", "y"))
    led.model(ran("echo", "y"))
    assert led.ask("cold") is not None


def test_a_small_view_is_left_alone_where_nothing_forces() -> None:
    led = grown(Led(profile=one(least_tokens=10_000)), 9)
    assert led.ask("call") is None
    assert led.ask("cold") is not None


def test_near_the_end_of_the_window_a_rebuild_does_not_wait() -> None:
    """The end begins at 70%."""
    led = grown(Led(profile=one(), window_tokens=4_000), 5)
    assert led.view.state().share < 0.70
    assert led.ask() is None
    led.model(ran("echo", "x" * 1_200))
    assert led.view.state().share >= 0.70
    proposal = led.ask()
    assert proposal is not None and "of the window was taken" in proposal.why
    assert led.view.state().share < 0.5


def test_what_nothing_is_gained_by_near_the_end_of_the_window_is_not_looked_at_before_every_call() -> None:
    """The card alone takes most of the window. Once that is known, files are not read again."""
    looked: list[str] = []
    keep = Keep(turns=2, hot_turns=9, hot_tokens=1_000, ratio=3.0)
    led = Led(profile=one(keep), card=("c" * 30_000,), window_tokens=10_000, planned=("a.py",), current=looked.append)
    grown(led, 3, 100)
    assert led.ask() is None
    assert looked == ["a.py"]
    step(led, 4, 100)
    assert led.ask() is None
    assert looked == ["a.py"]
    led.model(ran("echo", "x" * 4_000))
    assert led.ask() is None or len(looked) > 1


def test_what_did_not_pay_yet_is_done_where_there_is_no_choice() -> None:
    """Near the end of the window, or with a cold cache, the price no longer decides."""
    keep = Keep(turns=2, hot_turns=99, hot_tokens=9_000, ratio=6.0)
    causes: list[Cause] = ["call", "cold"]
    for cause in causes:
        led = Led(profile=one(keep), window_tokens=10_000)
        led.model(read("src/a.py", "a" * 3_900))
        while led.view.state().share < 0.70:
            assert led.ask() is None
            step(led, 7, 500)
            if cause == "cold" and led.view.state().share > 0.40:
                break
        assert led.ask(cause) is not None


def test_what_was_found_out_of_one_conversation_is_not_held_of_another() -> None:
    profile = one(Keep(turns=2, hot_turns=9, hot_tokens=1_000, ratio=3.0))
    first = grown(Led(profile=profile, card=("c" * 30_000,), window_tokens=10_000), 3, 100)
    assert first.ask() is None
    second = grown(Led(profile=profile, window_tokens=10_000), 20)
    assert second.ask() is not None


@pytest.mark.parametrize("seed", range(4))
def test_another_process_comes_to_the_same(seed: int) -> None:
    """It may or may not remember earlier questions."""
    left, right = Led(profile=one(WIDE)), Led()
    chance = random.Random(seed)
    for number in range(90):
        size = chance.randrange(200, 3_000)
        step(left, number, size)
        step(right, number, size)
        right.profile = one(WIDE)
        left.ask()
        right.ask()
    assert left.kept == right.kept != []


def test_after_an_overflow_little_is_left() -> None:
    led = grown(Led(profile=LedgerProfile(first=5)), 30)
    assert led.ask() is None
    assert led.ask("overflow") is not None
    assert led.view.edit.cut == led.deed(29).turn


def test_after_an_overflow_one_turn_is_left_where_two_do_not_fit() -> None:
    led = grown(Led(profile=LedgerProfile(), window_tokens=10_000), 3)
    led.model(ran("cat a", "a" * 20_000))
    led.model(ran("cat b", "b" * 16_000))
    assert led.ask("overflow") is not None
    assert led.view.edit.cut == led.deed(5).turn
    assert led.ask("overflow") is None


def test_after_an_overflow_any_gain_will_do() -> None:
    led = Led(profile=LedgerProfile(), card=("c" * 90_000,))
    grown(led, 4, 1_000)
    assert led.ask("cold") is None
    before = led.view.characters
    assert led.ask("overflow") is not None
    assert led.view.characters < before


def test_after_an_overflow_files_that_a_rebuild_left_are_let_go() -> None:
    """No further turn can be dropped."""
    keep = Keep(turns=2, hot_turns=8, hot_tokens=9_000, ratio=1.0)
    led = Led(profile=one(keep))
    led.model(read("src/a.py", "a" * 15_000))
    grown(led, 4)
    led.ask("cold")
    cut = led.view.edit.cut
    assert "aaa" in led.head
    assert led.ask("overflow") is not None
    assert (led.view.edit.cut, "aaa" in led.head) == (cut, False)


def test_after_an_overflow_what_was_refused_before_is_looked_at_again() -> None:
    led = Led(profile=LedgerProfile(), card=("c" * 38_000,), window_tokens=10_000)
    grown(led, 4, 300)
    assert led.view.state().share >= 0.90
    assert led.ask("call") is None
    assert led.ask("overflow") is not None


def test_turns_that_are_not_shown_do_not_come_back() -> None:
    """This holds however much is to be kept now."""
    led = grown(Led(profile=one(WIDE)), 9)
    led.use(Edit(cut=led.deed(9).turn, head=(user(Text(text="another profile's " * 2_000)),)))
    for cause in FREE:
        led.ask(cause)
        assert led.view.edit.cut == led.deed(9).turn


def test_at_the_very_end_of_the_window_little_is_left_too() -> None:
    led = grown(Led(profile=LedgerProfile(first=5), window_tokens=10_000), 18)
    assert led.view.state().share >= 0.90
    assert led.ask() is not None
    assert led.view.edit.cut == led.deed(17).turn


def test_a_ledgers_blocks_are_the_same_bytes_in_the_next_rebuild() -> None:
    """This holds while there is room. The edit says how many parts stay."""
    led = busy(Led(profile=one(WIDE)), 400)
    assert len(led.kept) > 4
    for before, after in zip(led.kept, led.kept[1:], strict=False):
        assert after.head[0].parts[: before.lasting] == before.head[0].parts[: before.lasting]
        assert after.lasting == before.lasting + 1
        assert all("What happened so far" in text for text in texts(before.head[0])[: before.lasting])
    assert led.view.lasting == 1 + led.kept[-1].lasting == 1 + len(led.kept)


def test_a_rebuild_shows_the_card_the_ledger_the_files_and_the_latest_turns() -> None:
    led = busy(Led(profile=one(WIDE), current="now {}".format), 60)
    view = led.view.shown
    assert view[0].parts == (Text(text=CARD),)
    assert [turn.role for turn in view[:3]] == ["user", "user", "assistant"]
    kinds = [text.splitlines()[0] for text in texts(view[1])]
    assert all("What happened so far, steps" in kind for kind in kinds[:-1])
    assert "Files you worked on lately" in kinds[-1]
    assert list(view[2:]) == led.view.turns[led.view.edit.cut :]


def test_each_step_has_its_line_in_one_block() -> None:
    led = busy(Led(profile=one(WIDE)), 200)
    lines = [line for block in blocks(led) for line in block.splitlines()[1:] if line[0].isdigit()]
    dropped = [deed for deed in led.view.deeds if deed.turn < led.view.edit.cut]
    assert [int(line.split()[0]) for line in lines] == [deed.step for deed in dropped]
    assert "step-N.txt" in blocks(led)[0]


def narrow(calls: int) -> Led:
    """Return a conversation in a window where the ledger soon has no room."""
    led = Led(profile=one(Keep(turns=2, hot_turns=4, hot_tokens=0, ratio=1.0)), window_tokens=8_000)
    for number in range(calls):
        long(led, number)
        led.ask()
    return led


def long(led: Led, number: int) -> None:
    path, said = f"src/file{number}.py", f"I decided on way {number}." if number % 4 == 0 else ""
    led.model(
        [
            read(path, "x" * 2_000),
            ran(f"python go{number}.py {'y' * 90}", "KeyError: 'k'", 1),
            ran("pytest -q", f"FAILED tests/t.py::test_{number} - no", 1),
            wrote(path, "z" * 900),
        ][number % 4],
        said=said,
    )
    if number == 2:
        led.hear("Use UTC everywhere.")


def test_a_ledger_that_has_no_room_is_condensed_and_forgets_nothing_that_counts() -> None:
    """It keeps paths, decisions, a person's words, the last test result and the last failure."""
    led = narrow(90)
    assert "in short" in blocks(led)[0]
    head, last = led.head, max(deed.step for deed in led.view.deeds if deed.turn < led.view.edit.cut)
    dropped = led.view.deeds[:last]
    assert all(each.path in head for deed in dropped for each in deed.reads)
    assert all(each.path in head for deed in dropped for each in deed.writes)
    assert all(f"I decided on way {number}." in head for number in range(0, last, 4))
    assert "the person said: Use UTC everywhere." in head
    newest = max(deed.step for deed in dropped if deed.action == "test")
    assert f"test_{newest - 1} - no" in head
    assert f"{max(deed.step for deed in dropped if deed.failed and deed.action == 'run')} ran: python go" in head


def test_a_condensed_ledger_is_not_written_anew_at_every_rebuild() -> None:
    """There is far more to tell than its share of the window, which it still keeps."""
    led = narrow(400)
    shorts = [text for edit in led.kept for text in texts(edit.head[0])[:1] if "in short" in text]
    assert led.view.gauge.tokens(sum(map(len, blocks(led)))) <= led.window_tokens * 0.25
    assert "are left out here" in shorts[-1]
    assert len(shorts) > 10
    assert len(set(shorts)) < len(shorts) / 2


def test_a_ledger_too_long_at_once_is_condensed_at_once() -> None:
    """It happens after another profile had dropped most of a long conversation."""
    led = Led(profile=one(), window_tokens=8_000)
    for number in range(200):
        long(led, number)
    led.ask("switch")
    assert len(blocks(led)) == 1 and "in short" in blocks(led)[0]
    later = narrow(12)
    assert len(blocks(later)) > 1
    for number in range(12, 200):
        long(later, number)
    later.ask()
    assert len(blocks(later)) == 1 and "in short" in blocks(later)[0]
    assert f"steps 1 to {later.view.edit.cut // 2} " in blocks(later)[0]


def test_a_ledger_is_told_from_the_beginning_where_another_profile_was_at_work() -> None:
    """Its own blocks are gone. The other profile's text is dropped, because the ledger knows all of it."""
    led = grown(Led(profile=variant("ledger")), 6)
    led.hear("Use UTC.")
    grown(led, 8)
    led.use(Edit(cut=9, head=(user(Text(text="[the harness] A summary.")),), results={9: "masked"}))
    led.ask("switch")
    told = [*lines(led.view.turns, led.view.deeds, 1, led.view.edit.cut)]
    assert "  the person said: Use UTC." in told
    assert blocks(led)[0].splitlines()[1:] == told
    assert len(blocks(led)) == 1 and "A summary" not in led.text and "masked" not in led.text


def hot_led(**more: Any) -> Led:
    keep = Keep(turns=2, hot_turns=8, hot_tokens=1_000, ratio=1.0)
    return Led(profile=one(keep), **more)


def test_the_text_of_a_file_lately_read_stays() -> None:
    led = hot_led()
    led.model(read("src/a.py", code("kept", 20)))
    grown(led, 4)
    led.ask("cold")
    assert led.deed(1).turn < led.view.edit.cut
    assert f"=== src/a.py (step 1)\n{code('kept', 20)}" in led.head
    assert led.view.edit.lasting == 1 and len(led.view.edit.head[0].parts) == 2


def test_the_text_of_a_file_read_long_ago_goes() -> None:
    led = hot_led()
    led.model(read("src/a.py", code("kept", 20)))
    grown(led, 9)
    led.ask("cold")
    assert "Files you worked on" not in led.head
    assert "1 read src/a.py (kept_1" in led.head


def test_files_whose_text_is_out_of_date_are_told_as_they_are_now() -> None:
    """They were written after they were read, or the plan names them."""
    files = {"src/a.py": "now a", "src/p.py": "now p"}
    led = hot_led(planned=("src/p.py",), current=files.get)
    led.model(read("src/a.py", "then a"))
    led.model(edited("src/a.py"))
    grown(led, 4)
    led.ask("cold")
    assert "=== src/a.py, as it is now (step 2)\nnow a" in led.head
    assert "=== src/p.py, as it is now (step 0)\nnow p" in led.head
    assert "then a" not in led.head


def test_hot_files_have_no_more_than_a_tenth_of_the_window() -> None:
    led = Led(profile=one(Keep(turns=2, hot_turns=8, hot_tokens=90_000, ratio=1.0)), window_tokens=10_000)
    led.model(read("src/a.py", "a" * 3_000))
    led.model(read("src/b.py", "b" * 3_000))
    grown(led, 3, 500)
    led.ask("cold")
    assert "b" * 3_000 in led.head and "a" * 3_000 not in led.head


def test_the_texts_of_files_behind_the_plan_are_not_shown_any_longer_than_they_are_new() -> None:
    """They count as dropped, too."""
    led = hot_led(card=(CARD, "the plan", f"{FILES_TITLE}\n\n" + "texts " * 5_000), planned=("src/p.py",))
    grown(led, 4, 100)
    led.ask("cold")
    assert led.view.shown[0].parts == (Text(text=CARD), Text(text="the plan"))
    surveyed = hot_led(card=(SURVEY_TITLE, CARD, "the plan", f"{FILES_TITLE}\n" + "texts " * 5_000), planned=("p",))
    grown(surveyed, 4, 100)
    surveyed.ask("cold")
    assert surveyed.view.shown[0].parts == (Text(text=SURVEY_TITLE), Text(text=CARD), Text(text="the plan"))
    moved = hot_led(
        card=(CARD, "the plan", FILES_TITLE, "[the harness] The worktree is elsewhere now."), planned=("p",)
    )
    grown(moved, 5, 100)
    moved.ask("cold")
    assert len(moved.view.shown[0].parts) == 4, "what is behind them would go with them"
    plain = hot_led(card=(CARD, "more", "words " * 50))
    grown(plain, 5)
    plain.ask("cold")
    assert plain.view.rebuilds == 1
    assert len(plain.view.shown[0].parts) == 3


def kept_turns(profile: LedgerProfile, hit: int, calls: int = 100) -> int | None:
    """Return the turns that a free rebuild keeps for an agent with these losses; None if it keeps all."""
    led = grown(Led(profile=profile), 30)
    led.view.rebuilds = 1
    led.view.losses.calls, led.view.losses.hit = calls, hit
    if led.ask("cold") is None:
        return None
    return sum(turn.role == "assistant" for turn in led.view.shown)


def test_an_agent_that_lost_more_is_left_more() -> None:
    """The profile moves from the tightest to the widest setting, and keeps everything once the budget is spent."""
    keeps = [Keep(turns=turns, hot_turns=4, hot_tokens=0, ratio=1.0) for turns in (2, 4, 6, 8)]
    found = [kept_turns(LedgerProfile(keeps=keeps, most_lost=0.12), hit) for hit in range(0, 20, 2)]
    assert found[0] == 2 and found[-1] is None
    sizes = [99 if each is None else each for each in found]
    assert sizes == sorted(sizes) and set(sizes) == {2, 4, 6, 8, 99}


def test_an_agent_that_has_not_lost_anything_yet_is_left_what_the_variant_begins_with() -> None:
    for name, keep in (("ledger-cheap", KEEPS[0]), ("ledger", KEEPS[1]), ("ledger-safe", KEEPS[3])):
        led = grown(Led(profile=variant(name)), 30)
        assert led.profile.name == name
        led.ask("cold")
        assert led.view.edit.cut == led.deed(30 - keep.turns + 1).turn


def test_of_an_agent_that_lost_too_much_the_most_is_kept_at_the_end_of_the_window() -> None:
    led = grown(Led(profile=LedgerProfile(), window_tokens=20_000), 30)
    led.view.rebuilds = 1
    led.view.losses.calls = led.view.losses.hit = 50
    assert 0.70 <= led.view.state().share < 0.90
    assert led.ask() is not None
    assert led.view.edit.cut == led.deed(30 - KEEPS[-1].turns + 1).turn


def test_what_is_lost_is_found_out_by_the_view() -> None:
    """An agent that keeps returning to dropped results is left more."""

    def led(back: bool) -> Led:
        made = Led(profile=LedgerProfile(most_lost=0.2))
        for number in range(120):
            far = f"value_{number - 30}_x" if back and number > 30 else f"value_{number}_x"
            made.model(ran(f"grep {far} src", f"value_{number}_x " + "f" * 3_000))
            made.ask()
        return made

    near, far = led(False), led(True)
    assert far.view.losses.hit > 10 * max(1, near.view.losses.hit)
    assert far.view.characters > 1.5 * near.view.characters or far.view.rebuilds < near.view.rebuilds


_DID = st.sampled_from([read("a.py", "x" * 4_000), ran("ls", ""), edited("a.py"), ran("pytest -q", "no", 1)])


@given(
    st.sampled_from(["ledger", "ledger-cheap", "ledger-safe"]),
    st.lists(st.lists(_DID, max_size=3), max_size=4),
    st.sampled_from(["call", "red", *FREE]),
    st.sampled_from([200, 2_000, 200_000]),
)
@settings(max_examples=150)
def test_a_short_conversation_is_never_too_short(name: str, rounds: list[list[Did]], cause: Cause, window: int) -> None:
    """Each proposal is valid and smaller, and shows the latest turn."""
    led = Led(profile=variant(name), window_tokens=window)
    for done in rounds:
        led.model(*done)
    sizes = [lengths(led.view.turns)]
    # Asked twice at once: after its first rebuild an agent that lost nothing yet is left less.
    while led.ask(cause) is not None:
        sizes.append(led.view.characters)
        assert sizes[-1] < sizes[-2]
        assert led.view.shown[-1] == led.view.turns[-1]
    assert len(sizes) <= 3


def test_why_is_told() -> None:
    whys: dict[Cause, Callable[[str], bool]] = {
        "cold": lambda why: why.startswith("the cache was cold: about "),
        "overflow": lambda why: why.startswith("the window was full: about "),
        "wish": lambda why: why.startswith("the agent wished it: about "),
        "switch": lambda why: why.startswith("the profile was changed: about "),
    }
    for cause, is_right in whys.items():
        led = grown(Led(profile=one()), 6)
        proposal = led.ask(cause)
        assert proposal is not None and is_right(proposal.why) and proposal.why.endswith("tokens dropped")
