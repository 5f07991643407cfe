from collections.abc import Callable

import pytest

from forgepool.workers.tools.tool import ToolAnswer
from forgepool.workers.tools.workplace import Workplace

Use = Callable[..., ToolAnswer]


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"a\r\nb\r\n", "a\nb", "x\ny", b"x\r\ny\r\n"),
        (b"a\r\nb\r\n", "a\r\nb", "x\ny", b"x\r\ny\r\n"),
        (b"a\r\nb\r\n", "a", "x\ny", b"x\r\ny\r\nb\r\n"),
        (b"a\nb\n", "a\r\nb", "x\r\ny", b"x\ny\n"),
        (b"a\r\nb\r\nc\nd\n", "c\nd", "x\ny", b"a\r\nb\r\nx\ny\n"),
        (b"a\r\nb\r\n", "\nb", "\nx\ny", b"a\r\nx\r\ny\r\n"),
    ],
)
def test_a_text_is_found_whatever_its_line_ends(
    use: Use, place: Workplace, before: bytes, old: str, new: str, after: bytes
) -> None:
    """The model need not know them. New lines end as the lines at that place do."""
    path = place.root / "f"
    path.write_bytes(before)
    answer = use("edit_file", path="f", old=old, new=new)
    assert not answer.is_error, answer.text
    assert path.read_bytes() == after


@pytest.mark.parametrize(
    ("before", "old", "new", "told"),
    [
        (b"a\r\nb\nc\n", "a\nb\nc", "x", "it spans lines of both kinds of end, CR LF and LF"),
        (b"a\r\nb\r\n", "a\nb\n", "a\r\nb\r\n", "differ in line ends only, which are kept; nothing to do"),
        (b"caf\xe9 = 1\n", "caf\ufffd = 1", "x", "bytes that are no UTF-8, shown as \ufffd: give text without them"),
        (b"\xff\xfea\0b\0", "a", "x", "f: is UTF-16 text, which tools do not edit; use bash with iconv"),
        (b"a\nb\n", "a\nb\nc", "x", "nearest is lines 1-3: line 3 is '', you gave 'c'"),
    ],
)
def test_what_bytes_stand_in_the_way_is_named(
    use: Use, place: Workplace, before: bytes, old: str, new: str, told: str
) -> None:
    """Line ends and encodings are invisible, so the answer names them. The file does not change."""
    path = place.root / "f"
    path.write_bytes(before)
    answer = use("edit_file", path="f", old=old, new=new)
    assert answer.is_error
    assert told in answer.text
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"a\r\nb", b"a\r\nb\r\nnew"),
        (b"a\r\nb\r\n", b"a\r\nb\r\nnew\r\n"),
        (b"a\nb", b"a\nb\nnew"),
        (b"\xef\xbb\xbfa\nb\n", b"\xef\xbb\xbfa\nb\nnew\n"),
        (b"", b"new\n"),
    ],
)
def test_a_line_patched_in_at_the_end_ends_as_the_file_does(
    use: Use, place: Workplace, before: bytes, after: bytes
) -> None:
    """A last line without a line end gets one first."""
    (place.root / "f").write_bytes(before)
    patch = "*** Begin Patch\n*** Update File: f\n@@\n+new\n*** End Patch"
    assert use("apply_patch", input=patch).text.endswith("M f")
    assert (place.root / "f").read_bytes() == after
