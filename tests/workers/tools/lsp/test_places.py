import pytest
from hypothesis import given
from hypothesis import strategies as st

from forgepool.workers.tools.lsp.documents import (
    Spot,
    TextChange,
    apply_changes,
    columns_of,
    lines_of,
    plain_name,
    units,
)

_TEXTS = st.text(alphabet="ab𝔘é\r\n ", max_size=40)


def test_a_name_is_found_whole() -> None:
    """A part of a longer name does not count."""
    line = "open(opened, reopen, open2, $open, x.open)"
    assert columns_of(line, "open") == [0, line.rindex("open")]


def test_columns_count_utf16_units() -> None:
    """A character outside the basic plane counts as two columns, and an accented one as one."""
    assert columns_of("'𝔘é' + name", "name") == [8]
    assert units("𝔘é") == 3


@pytest.mark.parametrize(
    ("symbol", "plain"), [("open", "open"), ("Shop.open", "open"), ("a::b::c()", "c"), ("Shop#open", "open")]
)
def test_of_a_name_with_owners_the_last_part_counts(symbol: str, plain: str) -> None:
    """A model names a method with its class, but the text has only the method's name."""
    assert plain_name(symbol) == plain


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_change_keeps_every_line_end(end: str) -> None:
    """Unchanged text stays byte for byte."""
    text = f"one{end}𝔘 two{end}three"
    after = apply_changes(text, [TextChange(Spot(1, 3), Spot(1, 6), "2"), TextChange(Spot(0, 0), Spot(0, 3), "1")])
    assert after == f"1{end}𝔘 2{end}three"


def test_a_spot_past_the_end_is_the_end() -> None:
    """The protocol allows a column past its line and a line past the text."""
    assert (
        apply_changes("ab\ncd", [TextChange(Spot(0, 99), Spot(0, 99), "!"), TextChange(Spot(9, 0), Spot(9, 0), "?")])
        == "ab!\ncd?"
    )


def test_changes_that_overlap_are_refused() -> None:
    """Neither of two changes to the same characters is right."""
    with pytest.raises(ValueError, match="overlap"):
        apply_changes("abcdef", [TextChange(Spot(0, 0), Spot(0, 3), "x"), TextChange(Spot(0, 2), Spot(0, 4), "y")])


@given(text=_TEXTS, new=_TEXTS, data=st.data())
def test_a_change_replaces_exactly_what_lies_between_its_spots(text: str, new: str, data: st.DataObject) -> None:
    """Spots taken from the text name the same characters as slicing."""
    lines = lines_of(text)
    ends = [0]
    for line in lines[:-1]:
        after = ends[-1] + len(line)
        ends.append(after + (2 if text[after : after + 2] == "\r\n" else 1))

    def spot() -> tuple[int, Spot]:
        line = data.draw(st.integers(0, len(lines) - 1))
        index = data.draw(st.integers(0, len(lines[line])))
        return ends[line] + index, Spot(line, units(lines[line][:index]))

    (begin, start), (end, stop) = sorted([spot(), spot()])
    assert apply_changes(text, [TextChange(start, stop, new)]) == text[:begin] + new + text[end:]
