"""
Pair the old tests with the new ones, and the assertions of one test with each other, across moves and renames.

A test is looked for in its place, then by its name elsewhere, then by its words. A test found nowhere is gone.
"""

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from forgepool.workers.workspace.scans.languages.suite import Assertion, CodeToken, Suite, SuiteCase, is_code
from forgepool.worktrees.commits.diff import FileDiff

_ALIKE = 0.6
_SAME_NAME = 0.3
_MOST_GUESSES = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """A file before and after the change. The suite is empty if the file does not exist or holds no tests."""

    old_path: str
    path: str
    old: Suite = field(default_factory=Suite)
    new: Suite = field(default_factory=Suite)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocatedCase:
    """A case and its file."""

    file: Versions
    case: SuiteCase


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One test before and after the change."""

    before: LocatedCase
    after: LocatedCase


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairing:
    """All cases of the files that differ."""

    pairs: tuple[Pair, ...]
    gone: tuple[LocatedCase, ...]
    fresh: tuple[LocatedCase, ...]


def pair(files: Sequence[Versions]) -> Pairing:
    """Pair every old case with its new one, if it has one."""
    table = _Table(
        gone=[LocatedCase(file=file, case=case) for file in files for case in file.old.cases.values()],
        fresh=[LocatedCase(file=file, case=case) for file in files for case in file.new.cases.values()],
    )
    table.join(lambda case_: (case_.file.path, case_.case.name))
    table.join(lambda case_: (case_.file.path, case_.case.name.rpartition("::")[2], _all_words(case_)))
    table.join(_all_words)
    table.join(lambda case_: alpha(case_.case.words) if _all_words(case_) else None)
    table.join(lambda case_: _simple(case_.case.name) or None, _SAME_NAME)
    table.guess(lambda case_, other: case_.file is other.file)
    table.guess(lambda case_, other: case_.file is not other.file)
    return Pairing(pairs=tuple(table.pairs), gone=tuple(table.gone), fresh=tuple(table.fresh))


def alpha(words: tuple[CodeToken, ...]) -> tuple[str, ...]:
    """Return the tokens with their names numbered by first occurrence, so that renaming leaves them equal."""
    seen: dict[str, str] = {}
    return tuple(
        seen.setdefault(word.text, f"${len(seen)}") if word.kind == "name" else f"{word.kind}:{word.text}"
        for word in words
    )


def likeness(one: tuple[CodeToken, ...], other: tuple[CodeToken, ...]) -> float:
    """Return the share of tokens that two texts have in common, from 0 to 1, in any order."""
    return _shared(Counter(word.text for word in one), Counter(word.text for word in other))


def _shared(one: Counter[str], other: Counter[str]) -> float:
    total, most = one.total() + other.total(), 2 * min(one.total(), other.total())
    if not total or most < _ALIKE * total / 2:
        return 0.0
    return 2 * (one & other).total() / total


class _Table:
    """The cases without a counterpart so far, and the pairs found."""

    def __init__(self, gone: list[LocatedCase], fresh: list[LocatedCase]) -> None:
        self._gone, self._fresh = {id(case_): case_ for case_ in gone}, {id(case_): case_ for case_ in fresh}
        self.pairs: list[Pair] = []

    @property
    def gone(self) -> list[LocatedCase]:
        return list(self._gone.values())

    @property
    def fresh(self) -> list[LocatedCase]:
        return list(self._fresh.values())

    def join(self, key: Callable[[LocatedCase], Hashable], least: float = 0.0) -> None:
        """Pair the cases with equal keys. None is no key."""
        waiting: dict[Hashable, list[LocatedCase]] = {}
        for case_ in self.fresh:
            waiting.setdefault(key(case_), []).append(case_)
        for case_ in self.gone:
            others = waiting.get(key(case_), []) if key(case_) is not None else []
            if others and likeness(case_.case.words, others[0].case.words) >= least:
                self._take(case_, others.pop(0))

    def guess(self, may: Callable[[LocatedCase, LocatedCase], bool]) -> None:
        """Pair similar cases, the most similar first."""
        if len(self._gone) * len(self._fresh) > _MOST_GUESSES:
            return
        for _, at, to in sorted(self._guesses(may), key=lambda guess: -guess[0]):
            if id(at) in self._gone and id(to) in self._fresh:
                self._take(at, to)

    def _guesses(
        self, may: Callable[[LocatedCase, LocatedCase], bool]
    ) -> Iterator[tuple[float, LocatedCase, LocatedCase]]:
        counted = [(other, Counter(word.text for word in other.case.words)) for other in self.fresh]
        for case_ in self.gone:
            words = Counter(word.text for word in case_.case.words)
            for other, others in counted:
                if may(case_, other) and (alike := _shared(words, others)) >= _ALIKE:
                    yield alike, case_, other

    def _take(self, before: LocatedCase, after: LocatedCase) -> None:
        del self._gone[id(before)], self._fresh[id(after)]
        self.pairs.append(Pair(before=before, after=after))


def _all_words(located: LocatedCase) -> Hashable:
    """Return all words of the case, or None if they are too few to identify it."""
    return located.case.words if len(located.case.words) > 3 else None


def _simple(name: str) -> str:
    for mark in ("::", " > ", "."):
        name = name.rpartition(mark)[2]
    return name


_MOST_GUESSED = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Matched:
    """The assertions that still exist in some form, the lost ones, and the gained ones."""

    met: tuple[tuple[Assertion, Assertion], ...]
    lost: tuple[Assertion, ...]
    gained: tuple[Assertion, ...]


def match(before: Sequence[Assertion], after: Sequence[Assertion]) -> Matched:
    """Pair equal assertions first, then those equal but for names, then the most similar: an edit is no loss."""
    met: list[tuple[Assertion, Assertion]] = []
    lost, gained = list(before), list(after)
    lost = _join(lost, gained, met, lambda each: (each.words, each.relation))
    lost = _join(lost, gained, met, lambda each: (alpha(each.words), each.relation))
    for at, to in _guesses(lost, gained):
        met.append((lost[at], gained[to]))
    taken, given = {id(assertion) for assertion, _ in met}, {id(assertion) for _, assertion in met}
    return Matched(
        met=tuple(met),
        lost=tuple(assertion for assertion in lost if id(assertion) not in taken),
        gained=tuple(assertion for assertion in gained if id(assertion) not in given),
    )


def _join(
    lost: list[Assertion],
    gained: list[Assertion],
    met: list[tuple[Assertion, Assertion]],
    key: Callable[[Assertion], Hashable],
) -> list[Assertion]:
    waiting: dict[Hashable, list[Assertion]] = {}
    for assertion in gained:
        waiting.setdefault(key(assertion), []).append(assertion)
    rest: list[Assertion] = []
    for assertion in lost:
        if others := waiting.get(key(assertion)):
            met.append((assertion, others.pop(0)))
        else:
            rest.append(assertion)
    gained[:] = [assertion for others in waiting.values() for assertion in others]
    return rest


def _guesses(lost: Sequence[Assertion], gained: Sequence[Assertion]) -> list[tuple[int, int]]:
    if len(lost) * len(gained) > _MOST_GUESSED:
        return list(zip(range(len(lost)), range(len(gained)), strict=False))
    alike = ((-likeness(old.words, new.words), at, to) for at, old in enumerate(lost) for to, new in enumerate(gained))
    found: dict[int, int] = {}
    for _, at, to in sorted(alike):
        if at not in found and to not in found.values():
            found[at] = to
    return list(found.items())


_WORD = re.compile(r"[^\W\d]\w*")
_DEFINES = re.compile(
    r"\b(?:def|class|function|func|fn|const|let|var|type|interface|struct|enum|trait|static|void|int|String|boolean)"
    r"\s+(?:\([^)]*\)\s*)?([^\W\d]\w*)|^\s*([A-Z][A-Z0-9_]+)\s*[:=]"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Renames:
    """The words that a change removes from code and adds to it, without tests."""

    removed: frozenset[str]
    added: frozenset[str]
    retired: frozenset[str]
    """Names whose definitions are gone without a replacement."""

    def are_renames(self, old: str, new: str) -> bool:
        """Tell whether the code itself dropped one name and took up the other."""
        return old in self.removed and new in self.added


def renames_in(files: Iterable[FileDiff]) -> Renames:
    """Return the names that a change removes, adds and retires in code."""
    code = [file for file in files if is_code(file.old_path or file.path) or is_code(file.path)]
    removed = [line.text for file in code for line in file.removed]
    added = [line.text for file in code for line in file.added]
    return Renames(removed=_words(removed), added=_words(added), retired=_defined(removed) - _defined(added))


def _words(lines: Iterable[str]) -> frozenset[str]:
    return frozenset(word for line in lines for word in _WORD.findall(line))


def _defined(lines: Iterable[str]) -> frozenset[str]:
    return frozenset(found[1] or found[2] for line in lines for found in _DEFINES.finditer(line))
