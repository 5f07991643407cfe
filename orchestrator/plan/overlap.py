"""
Do two sets of globs meet? Pure: no tree is read here, no file opened. How a glob is read is told in
`workers.schema.globs`.

Two globs meet when some path is covered by both, whether such a file exists today or not: either task may
make it. The answer is exact, with one addition on the careful side: a literal name that the other glob goes
through (`docs/v1.2` and `docs/v1.2/*.md`) is a directory, whatever it looks like.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import islice
from typing import Generic, Self, TypeVar

from forgepool.workers.schema import globs as reading
from forgepool.workers.schema.globs import (
    DEEP,
    BadGlob,
    Pattern,
    Tree,
    Way,
    escape,
    meet_in_order,
    names_meet,
    normal,
    parse,
)

__all__ = [
    "NOTHING",
    "BadGlob",
    "Globs",
    "OverlapIndex",
    "Pattern",
    "Tree",
    "escape",
    "find_shared_files",
    "meet",
    "parse",
]

Owner = TypeVar("Owner", bound=Hashable)

# Fewer pairs than this are compared one by one: quicker than to make an index of them.
_FEW_PAIRS = 64


@dataclass(frozen=True)
class Globs:
    """What a task writes, or reads: patterns, each once, in the order given."""

    patterns: tuple[Pattern, ...]

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(self.patterns)

    @classmethod
    def of(cls, globs: Iterable[str], tree: Tree | None = None) -> Self:
        """
        Raises:
            BadGlob: one of them is not a glob.
        """
        found = dict.fromkeys(parse(glob) for glob in globs)
        return cls(tuple(tree.settle(pattern) if tree else pattern for pattern in found))

    @classmethod
    def exactly(cls, paths: Iterable[str]) -> Self:
        """These real files and no others."""
        return cls(tuple(map(reading.exactly, dict.fromkeys(paths))))

    def __or__(self, other: "Globs") -> "Globs":
        return Globs(tuple(dict.fromkeys((*self.patterns, *other.patterns))))

    def __bool__(self) -> bool:
        return bool(self.patterns)

    def ways(self) -> Iterator[Way]:
        return (way for pattern in self.patterns for way in pattern.ways)

    def covers(self, path: str) -> bool:
        path = normal(path)
        return path in self._names or any(way.matches(path) for way in self._wider)

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(way.literal for way in self.ways() if way.literal is not None)

    @cached_property
    def _wider(self) -> tuple[Way, ...]:
        return tuple(way for way in self.ways() if way.literal is None or way.tail is None)

    def meets(self, other: "Globs") -> bool:
        return self.witness(other) is not None

    def witness(self, other: "Globs") -> tuple[str, str] | None:
        """The first two globs that meet, ours and theirs."""
        if len(self.patterns) * len(other.patterns) <= _FEW_PAIRS:
            pairs = ((mine, theirs) for mine in self.patterns for theirs in other.patterns)
            return next(((mine.text, theirs.text) for mine, theirs in pairs if meet(mine, theirs)), None)
        for mine in self.patterns:
            if found := other._places.meeting(Globs((mine,))):
                return mine.text, other.patterns[min(found)].text
        return None

    @cached_property
    def _places(self) -> "OverlapIndex[int]":
        return OverlapIndex({at: Globs((pattern,)) for at, pattern in enumerate(self.patterns)})


NOTHING = Globs(())


class OverlapIndex(Generic[Owner]):
    """
    Who meets these globs? Asked of thousands.

    Two globs can meet only where the literal head of one begins the head of the other, so a question looks
    at the folders on the way to its own head and at those below it; and where all that both cover ends in a
    certain name, only if it is the same.
    """

    def __init__(self, owners: Mapping[Owner, Globs]) -> None:
        self._root: _Folder[Owner] = _Folder()
        for owner, globs in owners.items():
            for way in globs.ways():
                folder = self._root
                for name in way.head:
                    folder = folder.below.setdefault(name, _Folder())
                # What goes through a literal name ends in another, so it must be found without its tail.
                tail = way.tail if way.literal is None else None
                folder.here.setdefault(tail, []).append((owner, way))

    def meeting(self, globs: Globs) -> frozenset[Owner]:
        """All owners whose globs meet these."""
        found: set[Owner] = set()
        for way in globs.ways():
            for owner, theirs in self._near(way):
                if owner not in found and _ways_meet(way, theirs):
                    found.add(owner)
        return frozenset(found)

    def _near(self, way: Way) -> Iterator[tuple[Owner, Way]]:
        folder = self._root
        for name in way.head:
            yield from folder.ending_in(way.tail)
            if (below := folder.below.get(name)) is None:
                return
            folder = below
        tail = way.tail if way.literal is None else None
        folders = [folder]
        while folders:
            folder = folders.pop()
            yield from folder.ending_in(tail)
            folders.extend(folder.below.values())


@dataclass(frozen=True)
class _Folder(Generic[Owner]):
    """Whose globs have a literal head that ends here, by the name all that they cover ends in."""

    here: dict[str | None, list[tuple[Owner, Way]]] = field(default_factory=dict)
    below: dict[str, "_Folder[Owner]"] = field(default_factory=dict)

    def ending_in(self, tail: str | None) -> Iterator[tuple[Owner, Way]]:
        if tail is None:
            for some in self.here.values():
                yield from some
        else:
            yield from self.here.get(tail, ())
            yield from self.here.get(None, ())


def find_shared_files(a: Globs, b: Globs, files: Sequence[str], limit: int = 5) -> tuple[str, ...]:
    """The first files of a tree that both cover: for a person to see why two tasks wait for one another."""
    return tuple(islice((path for path in files if a.covers(path) and b.covers(path)), limit))


@lru_cache(maxsize=65536)
def meet(a: Pattern, b: Pattern) -> bool:
    """Whether some path is covered by both."""
    return any(_ways_meet(mine, theirs) for mine in a.ways for theirs in b.ways)


def _ways_meet(a: Way, b: Way) -> bool:
    depth = min(len(a.head), len(b.head))
    if a.head[:depth] != b.head[:depth]:
        return False
    for one, other in ((a, b), (b, a)):
        if one.literal is not None and len(one.head) == depth:
            return True
        # What one needs at its end lies below anything the other needs at its start.
        if one.segments[-1] is DEEP and other.segments[depth:][:1] == (DEEP,):
            return True
    last, other_last = a.segments[-1], b.segments[-1]
    if last is not DEEP and other_last is not DEEP and not names_meet(last, other_last):
        return False
    return meet_in_order(a.segments[depth:], b.segments[depth:], DEEP, names_meet)
