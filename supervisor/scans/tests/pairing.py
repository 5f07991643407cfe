"""
Which case of the old tests is which of the new ones, whatever became of its file and its name.

A case is looked for where it was, then by its name elsewhere, then by what it says; one that is found nowhere is gone.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field

from forgepool.supervisor.scans.languages.suite import CodeToken, Suite, SuiteCase

_ALIKE = 0.6
_SAME_NAME = 0.3
_MOST_GUESSES = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """A file before and after; an empty suite where it does not exist, or holds no tests."""

    old_path: str
    path: str
    old: Suite = field(default_factory=Suite)
    new: Suite = field(default_factory=Suite)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocatedCase:
    """A case, and the file that it is in."""

    file: Versions
    case: SuiteCase


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """The same test, before and after."""

    before: LocatedCase
    after: LocatedCase


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairing:
    """All cases of the files that differ."""

    pairs: tuple[Pair, ...]
    gone: tuple[LocatedCase, ...]
    fresh: tuple[LocatedCase, ...]


def pair(files: Sequence[Versions]) -> Pairing:
    """Every old case with its new one, where there is one."""
    table = _Table(
        gone=[LocatedCase(file=file, case=case) for file in files for case in file.old.cases.values()],
        fresh=[LocatedCase(file=file, case=case) for file in files for case in file.new.cases.values()],
    )
    table.join(lambda one: (one.file.path, one.case.name))
    table.join(lambda one: (one.file.path, one.case.name.rpartition("::")[2], _said(one)))
    table.join(_said)
    table.join(lambda one: alpha(one.case.words) if len(one.case.words) > 3 else None)
    table.join(lambda one: _simple(one.case.name) or None, _SAME_NAME)
    table.guess(lambda one, other: one.file is other.file)
    table.guess(lambda one, other: one.file is not other.file)
    return Pairing(pairs=tuple(table.pairs), gone=tuple(table.gone), fresh=tuple(table.fresh))


def alpha(words: tuple[CodeToken, ...]) -> tuple[str, ...]:
    """The tokens with their names numbered in the order in which they first occur: what renaming leaves alone."""
    seen: dict[str, str] = {}
    return tuple(
        seen.setdefault(word.text, f"${len(seen)}") if word.kind == "name" else f"{word.kind}:{word.text}"
        for word in words
    )


def likeness(one: tuple[CodeToken, ...], other: tuple[CodeToken, ...]) -> float:
    """From 0 to 1: how many tokens two texts share, whatever their order."""
    return _shared(Counter(word.text for word in one), Counter(word.text for word in other))


def _shared(one: Counter[str], other: Counter[str]) -> float:
    total, most = one.total() + other.total(), 2 * min(one.total(), other.total())
    if not total or most < _ALIKE * total / 2:
        return 0.0
    return 2 * (one & other).total() / total


class _Table:
    """Cases that are still without their counterpart, and those that have one."""

    def __init__(self, gone: list[LocatedCase], fresh: list[LocatedCase]) -> None:
        self._gone, self._fresh = {id(one): one for one in gone}, {id(one): one for one in fresh}
        self.pairs: list[Pair] = []

    @property
    def gone(self) -> list[LocatedCase]:
        return list(self._gone.values())

    @property
    def fresh(self) -> list[LocatedCase]:
        return list(self._fresh.values())

    def join(self, key: Callable[[LocatedCase], Hashable], least: float = 0.0) -> None:
        """Pairs what has the same key; None is no key."""
        waiting: dict[Hashable, list[LocatedCase]] = {}
        for one in self.fresh:
            waiting.setdefault(key(one), []).append(one)
        for one in self.gone:
            others = waiting.get(key(one), []) if key(one) is not None else []
            if others and likeness(one.case.words, others[0].case.words) >= least:
                self._take(one, others.pop(0))

    def guess(self, may: Callable[[LocatedCase, LocatedCase], bool]) -> None:
        """Pairs what is alike, the likest first."""
        if len(self._gone) * len(self._fresh) > _MOST_GUESSES:
            return
        for _, at, to in sorted(self._guesses(may), key=lambda guess: -guess[0]):
            if id(at) in self._gone and id(to) in self._fresh:
                self._take(at, to)

    def _guesses(
        self, may: Callable[[LocatedCase, LocatedCase], bool]
    ) -> Iterator[tuple[float, LocatedCase, LocatedCase]]:
        counted = [(other, Counter(word.text for word in other.case.words)) for other in self.fresh]
        for one in self.gone:
            words = Counter(word.text for word in one.case.words)
            for other, others in counted:
                if may(one, other) and (alike := _shared(words, others)) >= _ALIKE:
                    yield alike, one, other

    def _take(self, before: LocatedCase, after: LocatedCase) -> None:
        del self._gone[id(before)], self._fresh[id(after)]
        self.pairs.append(Pair(before=before, after=after))


def _said(one: LocatedCase) -> Hashable:
    """What the whole case says; too little of it says nothing."""
    return one.case.words if len(one.case.words) > 3 else None


def _simple(name: str) -> str:
    for mark in ("::", " > ", "."):
        name = name.rpartition(mark)[2]
    return name
