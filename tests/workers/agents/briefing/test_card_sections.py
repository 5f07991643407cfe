"""A card within a window: what is told in short, in which order, and what never is."""

import pytest

from forgepool.workers.agents.briefing.card_sections import CardSection, CardTooLarge, TaskCard


def section(name: str, *lengths: int, rank: int = 0, close: bool = False) -> CardSection:
    return CardSection(name=name, forms=tuple(name[0] * length for length in lengths), rank=rank, close=close)


CARD = TaskCard(
    sections=(
        section("own", 100),
        section("conventions", 50, 10, rank=3),
        section("first", 90, 20, 2, rank=0),
        section("second", 80, 20, 2, rank=0, close=True),
        section("texts", 60, 30, 0, rank=1),
    )
)


def test_a_card_with_room_is_whole() -> None:
    text, shortened = CARD.within(1_000)
    assert (text, shortened) == (CARD.whole, ())
    assert text.split("\n\n")[2] == f"{'f' * 90}\n{'s' * 80}"


def test_sections_are_shortened_by_rank_and_the_longest_first_until_it_fits() -> None:
    for room, shortened in (
        (380, ("first",)),
        (300, ("first", "second")),
        (250, ("first", "second", "texts")),
        (190, ("conventions", "first", "second", "texts")),
        (122, ("conventions", "first", "second", "texts")),
    ):
        text, names = CARD.within(room)
        assert len(text) <= room and names == shortened and "o" * 100 in text


def test_own_words_that_fill_the_window_are_named_with_the_way_out() -> None:
    with pytest.raises(CardTooLarge) as wrong:
        CARD.fit(100, "m", beside=200)
    assert str(wrong.value).startswith("the task's first message is about ")
    assert "most of it is own (about 25 tokens): shorten that, or name a model with a larger window" in str(wrong.value)
