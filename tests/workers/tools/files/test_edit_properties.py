"""An edit changes only what it names, byte for byte, whatever the file's encoding and line ends."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hypothesis import assume, given
from hypothesis import strategies as st

from forgepool.workers.llm.messages import ToolCall
from forgepool.workers.schema.confinement import OPEN
from forgepool.workers.tools.files.apply_patch import APPLY_PATCH
from forgepool.workers.tools.files.edit import EDIT_FILE
from forgepool.workers.tools.tool import ToolAnswer, carry_out
from forgepool.workers.tools.workplace import Workplace

_LINE = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0�", exclude_categories=["Cs", "Cc"]), max_size=8)
_RAW_LINE = st.one_of(_LINE.map(str.encode), st.sampled_from([b"caf\xe9", b"\xff\xfe!", b"\tx  ", b""]))
_END = st.sampled_from([b"\n", b"\r\n"])
_MARK = st.sampled_from([b"", b"\xef\xbb\xbf"])
_LAST = st.sampled_from([b"", b"last", b"last\n"])


@contextmanager
def _place(data: bytes) -> Iterator[Workplace]:
    with tempfile.TemporaryDirectory() as folder:
        root, tmp = Path(folder).resolve() / "w", Path(folder) / "t"
        root.mkdir()
        tmp.mkdir()
        (root / "f").write_bytes(data)
        yield Workplace(root=root, tmp=tmp, env={}, confined=OPEN, stop=lambda: False, left_s=lambda: 9.0)


def _call(place: Workplace, name: str, **arguments: str) -> ToolAnswer:
    return carry_out(ToolCall(id="1", name=name, arguments=arguments), (EDIT_FILE, APPLY_PATCH), place)


def _patch(*hunk: str) -> str:
    return "\n".join(["*** Begin Patch", "*** Update File: f", "@@", *hunk, "*** End Patch"])


@given(
    mark=_MARK,
    above=st.lists(_RAW_LINE, max_size=4),
    below=st.lists(_RAW_LINE, max_size=4),
    last=_LAST,
    end=_END,
    new=st.lists(_LINE, min_size=1, max_size=3),
)
def test_both_ways_to_edit_leave_all_else_as_it_was(
    mark: bytes, above: list[bytes], below: list[bytes], last: bytes, end: bytes, new: list[str]
) -> None:
    """Two lines are replaced. The new ones get the file's line end, and all other bytes stay."""
    before = mark + b"".join(line + end for line in above)
    after = b"".join(line + end for line in below) + last.replace(b"\n", end)
    assume("the old\nlines here" not in "\n".join(new))
    data = before + after
    # A file of unknown encoding accepts only ASCII.
    assume("".join(new).isascii() or data.decode(errors="replace").encode() == data)
    expected = before + b"".join(line.encode() + end for line in new) + after
    with _place(before + b"the old" + end + b"lines here" + end + after) as place:
        answer = _call(place, "edit_file", path="f", old="the old\nlines here\n", new="\n".join(new) + "\n")
        assert not answer.is_error, answer.text
        assert (place.root / "f").read_bytes() == expected
    with _place(before + b"the old" + end + b"lines here" + end + after) as place:
        answer = _call(place, "apply_patch", input=_patch("-the old", "-lines here", *(f"+{line}" for line in new)))
        assert not answer.is_error, answer.text
        assert (place.root / "f").read_bytes() == expected


@given(ends=st.lists(_END, min_size=3, max_size=8), at=st.integers(min_value=0), last=_LAST, mark=_MARK)
def test_lines_that_stay_keep_their_own_ends(ends: list[bytes], at: int, last: bytes, mark: bytes) -> None:
    """The file mixes line ends, and a line between two context lines is replaced."""
    lines = [f"line {number}".encode() + end for number, end in enumerate(ends)]
    at = at % len(lines)
    changed = [*lines]
    changed[at] = b"new" + ends[at]
    context_above = [f" line {at - 1}"] if at else []
    context_below = [f" line {at + 1}"] if at + 1 < len(lines) else []
    with _place(mark + b"".join(lines) + last) as place:
        answer = _call(place, "apply_patch", input=_patch(*context_above, f"-line {at}", "+new", *context_below))
        assert not answer.is_error, answer.text
        assert (place.root / "f").read_bytes() == mark + b"".join(changed) + last


@given(data=st.binary(max_size=60).filter(lambda data: b"\0" not in data), old=_LINE, new=_LINE)
def test_an_edit_replaces_that_text_or_nothing(data: bytes, old: str, new: str) -> None:
    """Either the one occurrence is replaced, or the file stays and the answer says why."""
    with _place(data) as place:
        answer = _call(place, "edit_file", path="f", old=old, new=new)
        now = (place.root / "f").read_bytes()
    if answer.is_error:
        assert now == data
    else:
        assert data.count(old.encode()) == 1
        assert now == data.replace(old.encode(), new.encode())
