"""
Names of packages that are easily taken for well-known ones.

`known.txt` holds, for each ecosystem, names that many projects depend on (`python:`), and further popular names that
only happen to be similar to them (`python+`). A name in the file is never told.
"""

import re
from functools import cache
from pathlib import Path
from typing import Literal

Ecosystem = Literal["python", "javascript", "rust"]
_LEAST = 5
"""Letters of a well-known name from which another letter counts. Shorter names have too many honest neighbours."""
_LEAST_SWAPPED = 4
_CONFUSED = (("rn", "m"), ("vv", "w"), ("0", "o"), ("1", "l"), ("i", "l"), ("5", "s"), ("-", ""))


def find_original(ecosystem: Ecosystem, name: str) -> str | None:
    """Return the well-known package that a name could be taken for, if it is neither that one nor known itself."""
    popular, neighbours = _known()[ecosystem]
    plain = normal_name(name)
    if plain in popular or plain in neighbours:
        return None
    return next((each for each in popular if is_alike(plain, each)), None)


def normal_name(name: str) -> str:
    """Return the name as registries compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def is_alike(name: str, known: str) -> bool:
    """Tell whether two different names differ in one letter, in two swapped ones, or only to a close look."""
    if len(known) < _LEAST_SWAPPED or abs(len(name) - len(known)) > 2:
        return False
    return _look(name) == _look(known) or _is_swapped(name, known) or (len(known) >= _LEAST and _is_edited(name, known))


def _look(name: str) -> str:
    for one, other in _CONFUSED:
        name = name.replace(one, other)
    return name


def _is_swapped(name: str, known: str) -> bool:
    at = _first_difference(name, known)
    return name == known[:at] + known[at : at + 2][::-1] + known[at + 2 :]


def _is_edited(name: str, known: str) -> bool:
    """Tell whether one letter was added, left out or replaced."""
    at = _first_difference(name, known)
    longer = len(name) - len(known)
    return abs(longer) <= 1 and name[at + (longer >= 0) :] == known[at + (longer <= 0) :]


def _first_difference(name: str, known: str) -> int:
    both = zip(name, known, strict=False)
    return next((at for at, (one, other) in enumerate(both) if one != other), min(len(name), len(known)))


@cache
def _known() -> dict[str, tuple[dict[str, None], frozenset[str]]]:
    """Return, for each ecosystem, the popular names in their order, and the names similar to them."""
    found: dict[str, list[str]] = {}
    for line in Path(__file__).with_name("known.txt").read_text(encoding="utf-8").splitlines():
        kind, *names = line.split()
        found.setdefault(kind, []).extend(names)
    kinds = (kind for kind in found if kind.endswith(":"))
    return {kind[:-1]: (dict.fromkeys(found[kind]), frozenset(found[f"{kind[:-1]}+"])) for kind in kinds}
