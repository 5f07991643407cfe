"""
Where a text that is not in a file was probably meant to be, and what is different there.
"""

import difflib
from collections import Counter
from collections.abc import Sequence

_MOST_LINES = 20_000
_MOST_CHARACTERS = 1_000_000
_MOST_COMPARED = 2_000
_MOST_PLACES = 50
"""Of one line; what stands in more places (`}`) says nothing of where."""
_COMPARED_CHARACTERS = 400
_SHOWN_CHARACTERS = 160
_LIKE = 0.7


def near_miss(text: str, old: str) -> str:
    """The end of a sentence, for the model: the region most like the wanted text, and how the two differ."""
    wanted = _trimmed(old[:_MOST_CHARACTERS].split("\n"))
    lines = text[:_MOST_CHARACTERS].split("\n")[:_MOST_LINES]
    at = closest(lines, wanted)
    if at is None:
        return "; read the file again" + _unreadable(old)
    there = lines[at : at + len(wanted)]
    where = f"line {at + 1}" if len(wanted) == 1 else f"lines {at + 1}-{at + len(there)}"
    return f"; nearest is {where}: {difference(there, wanted, at + 1)}{_unreadable(old)}"


def closest(lines: Sequence[str], wanted: Sequence[str]) -> int | None:
    """The index at which most of the wanted lines stand in their places, white space aside; None when none is like."""
    places: dict[str, list[int]] = {}
    for at, line in enumerate(lines):
        places.setdefault(line.strip(), []).append(at)
    votes = Counter(
        at - offset
        for offset, line in enumerate(wanted)
        if line.strip()
        for at in places.get(line.strip(), ())[:_MOST_PLACES]
    )
    starts = {start: count for start, count in votes.items() if start >= 0}
    if starts:
        return min(starts, key=lambda start: (-starts[start], start))
    return _alike(places, wanted)


def difference(there: Sequence[str], wanted: Sequence[str], first: int) -> str:
    """The first line in which two regions differ, and in what; `first` is the number of the first line there."""
    for offset, line in enumerate(wanted):
        if offset >= len(there):
            return f"the file ends after line {first + len(there) - 1}"
        if there[offset] != line:
            return _line_difference(there[offset], line, first + offset)
    return "they are the same but for line ends"


def _line_difference(there: str, wanted: str, number: int) -> str:
    if there.rstrip() == wanted.rstrip():
        return f"line {number} differs in white space at its end only; it is {_quoted(there)}"
    if there.strip() == wanted.strip():
        kind = "tabs and blanks" if _tabbed(there) != _tabbed(wanted) else "indentation"
        return f"line {number} differs in {kind} only; it is {_quoted(there)}"
    if "".join(there.split()) == "".join(wanted.split()):
        return f"line {number} differs in white space only; it is {_quoted(there)}"
    return f"line {number} is {_quoted(there)}, you gave {_quoted(wanted)}"


def _alike(places: dict[str, list[int]], wanted: Sequence[str]) -> int | None:
    """Where a line like the longest of the wanted ones stands."""
    offset = max(range(len(wanted)), key=lambda index: len(wanted[index].strip()), default=0)
    if not wanted or not (longest := wanted[offset].strip()) or len(longest) > _COMPARED_CHARACTERS:
        return None
    short = [line for line in places if 0 < len(line) <= _COMPARED_CHARACTERS]
    # Those of like length first: no other can be alike, and comparing takes time.
    short = sorted(short, key=lambda line: abs(len(line) - len(longest)))[:_MOST_COMPARED]
    near = difflib.get_close_matches(longest, short, n=1, cutoff=_LIKE)
    return max(0, places[near[0]][0] - offset) if near else None


def _unreadable(old: str) -> str:
    if "�" not in old:
        return ""
    return "; the file holds bytes that are no UTF-8, shown as �: give text without them"


def _trimmed(lines: list[str]) -> list[str]:
    """Without the empty lines at both ends, which say nothing of the place."""
    full = [at for at, line in enumerate(lines) if line.strip()]
    return lines[full[0] : full[-1] + 1] if full else []


def _tabbed(line: str) -> bool:
    return "\t" in line[: len(line) - len(line.lstrip())]


def _quoted(line: str) -> str:
    return repr(line if len(line) <= _SHOWN_CHARACTERS else f"{line[:_SHOWN_CHARACTERS]}...")
