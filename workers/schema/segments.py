"""
One segment of a glob, between two `/`: a plain name, or a name with wildcards in it. Pure.

How segments make a glob is told in `globs`.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import TypeVar

Charset = tuple[tuple[int, int], ...]
"""Disjoint, ascending ranges of code points, without `/`."""
Unit = TypeVar("Unit")

_ANY: Charset = ((0, 0x2E), (0x30, 0x10FFFF))
_LAST = 0x10FFFF
SPECIAL = re.compile(r"[*?\[{}\\]")
ATOM = re.compile(r"\[[!^]?+\]?+[^\]/]*\]|.", re.DOTALL)
"""A class is one atom, a first `]` in it being a character; everything else is one atom a character."""


class BadGlob(ValueError):
    """One sentence: what is wrong with a glob; what would be right."""

    def __init__(self, glob: str, wrong: str) -> None:
        super().__init__(f"glob '{glob}': {wrong}")
        self.glob = glob


@dataclass(frozen=True)
class Wild:
    """A segment with wildcards in it: units are sets of characters, None is `*`. `**` has no units."""

    text: str
    units: tuple[Charset | None, ...] = field(compare=False)

    @cached_property
    def regex(self) -> str:
        """Runs between stars are found leftmost and kept (atomic): no name takes exponential time."""
        runs = [""]
        for unit in self.units:
            if unit is None:
                runs.append("")
            else:
                runs[-1] += _class_regex(unit)
        if not any(runs):
            return "[^/]+"
        first, *middle = runs
        last = [f"[^/]*{middle.pop()}"] if middle else []
        return "".join([first, *(f"(?>[^/]*?{run})" for run in middle), *last])

    @cached_property
    def names(self) -> re.Pattern[str]:
        return re.compile(self.regex)

    @cached_property
    def ends(self) -> tuple[str, str]:
        """The literal text before its first wildcard, and that after its last one, reversed."""
        return _literal_start(self.units), _literal_start(self.units[::-1])


Segment = str | Wild
DEEP = Wild("**", ())
"""Any number of segments, also none. Compared by identity: there is no other."""


@lru_cache(maxsize=65536)
def segment(glob: str, text: str) -> Segment:
    """
    The segment `text` of this glob.

    Raises:
        BadGlob: `**` is not alone, or a class is unclosed, empty, backwards, or of a kind that is not known.
    """
    if text == "**":
        return DEEP
    if not SPECIAL.search(text):
        return text
    atoms = ATOM.findall(text)
    if any(one == two == "*" for one, two in pairwise(atoms)):
        raise BadGlob(glob, "'**' must be a whole segment; write **/*.py instead of **.py")
    units = tuple(_unit(glob, atom) for atom in atoms)
    if all(unit and len(unit) == 1 and unit[0][0] == unit[0][1] for unit in units):
        return "".join(chr(unit[0][0]) for unit in units if unit)
    return Wild(text, units)


def has_extension(name: Segment) -> bool:
    """Whether there is a literal `.` in it after its first character."""
    return "." in (name[1:] if isinstance(name, str) else ATOM.findall(name.text)[1:])


def names_meet(a: Segment, b: Segment) -> bool:
    """Whether one name fits both. Neither is `**`."""
    if isinstance(a, str):
        return a == b if isinstance(b, str) else b.names.fullmatch(a) is not None
    if isinstance(b, str):
        return a.names.fullmatch(b) is not None
    for one, other in zip(a.ends, b.ends, strict=True):
        if not (one.startswith(other) or other.startswith(one)):
            return False
    return _wilds_meet(a, b)


def meet_in_order(a: Sequence[Unit], b: Sequence[Unit], star: Unit, one_meets: Callable[[Unit, Unit], bool]) -> bool:
    """
    Whether two sequences have a common reading, `star` standing for any run of units.

    `row[j]` says whether what is read of `a` and the first j units of `b` have one: the product of two
    automata whose states are the places in the sequences. Exact, as every unit alone has a reading.
    """
    row = [True]
    for unit in b:
        row.append(row[-1] and unit is star)
    for mine in a:
        new = [row[0] and mine is star]
        for at, theirs in enumerate(b):
            if mine is star or theirs is star:
                new.append(row[at + 1] or new[at])
            else:
                new.append(row[at] and one_meets(mine, theirs))
        if True not in new:
            return False
        row = new
    return row[-1]


@lru_cache(maxsize=65536)
def _wilds_meet(a: Wild, b: Wild) -> bool:
    return meet_in_order(a.units, b.units, None, _units_meet)


def _literal_start(units: Sequence[Charset | None]) -> str:
    text = ""
    for unit in units:
        if not unit or len(unit) > 1 or unit[0][0] != unit[0][1]:
            break
        text += chr(unit[0][0])
    return text


def _units_meet(a: Charset | None, b: Charset | None) -> bool:
    return a is not None and b is not None and bool(_both(a, b))


def _unit(glob: str, atom: str) -> Charset | None:
    match atom:
        case "*":
            return None
        case "?":
            return _ANY
        case "[":
            raise BadGlob(glob, "'[' is not closed; write [[] for a real one")
        case _ if len(atom) == 1:
            return ((ord(atom), ord(atom)),)
        case _:
            return _charset(glob, atom)


def _charset(glob: str, atom: str) -> Charset:
    """The characters of `[...]`."""
    inside = atom[1:-1]
    if "[:" in inside:
        raise BadGlob(glob, "classes like [:alpha:] are not known; write the ranges, as in [a-z]")
    negated, ranges = inside[0] in "!^", list[tuple[int, int]]()
    for first, last in re.findall(r"(.)(?:-(.))?", inside[negated:], re.DOTALL):
        if last and last < first:
            raise BadGlob(glob, f"the range {first}-{last} is empty; write {last}-{first}")
        ranges.append((ord(first), ord(last or first)))
    others = _complement(ranges)
    if not (found := _both(others if negated else _complement(others), _ANY)):
        raise BadGlob(glob, f"no name has a character of {atom}; name one that a name can have")
    return found


def _complement(ranges: Iterable[tuple[int, int]]) -> Charset:
    found, at = list[tuple[int, int]](), 0
    for low, high in sorted(ranges):
        if low > at:
            found.append((at, low - 1))
        at = max(at, high + 1)
    return (*found, (at, _LAST)) if at <= _LAST else tuple(found)


def _both(a: Charset, b: Charset) -> Charset:
    pairs = ((max(x[0], y[0]), min(x[1], y[1])) for x in a for y in b)
    return tuple((low, high) for low, high in pairs if low <= high)


def _class_regex(unit: Charset) -> str:
    return "[" + "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in unit) + "]"
