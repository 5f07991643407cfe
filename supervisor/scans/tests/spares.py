"""What the tests of a change gained: where an assertion that is missing from its test may have gone."""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Self

from forgepool.supervisor.scans.languages.suite import Assertion
from forgepool.supervisor.scans.tests.matching import Matched
from forgepool.supervisor.scans.tests.pairing import Pairing, Versions, alpha, likeness

_SAME_THING = 0.5


@dataclass(slots=True, kw_only=True)
class _Gain:
    """Something new in a file's tests. It makes up for one loss, a table for as many as its literals go."""

    file: Versions
    assertion: Assertion | None
    literals: Counter[str]
    names: frozenset[str] = frozenset()
    is_table: bool = False
    used: bool = False


class Spares:
    """Every gain, each given out once."""

    def __init__(self, gains: Sequence[_Gain]) -> None:
        self._by_shape: dict[Hashable, list[_Gain]] = {}
        self._claims: dict[str, list[_Gain]] = {}
        self._tables: dict[str, list[_Gain]] = {}
        self._strongest: dict[str, int] = {}
        for gain in gains:
            if gain.assertion is not None:
                self._by_shape.setdefault(_shape(gain.assertion), []).append(gain)
            if not gain.is_table:
                self._claims.setdefault(gain.file.path, []).append(gain)
            else:
                self._tables.setdefault(gain.file.path, []).append(gain)

    @classmethod
    def of(
        cls,
        pairing: Pairing,
        files: Sequence[Versions],
        claims: Iterable[tuple[Versions, Matched]],
        tables: Iterable[tuple[Versions, Matched]],
    ) -> Self:
        gains = [*_of_matched(claims, is_table=False), *_of_matched(tables, is_table=True)]
        for fresh in pairing.fresh:
            gains += (_gain(fresh.file, one) for one in fresh.case.assertions)
            gains += (_gain(fresh.file, one, is_table=True) for one in fresh.case.rows)
        for file in files:
            gains += _of_support(file)
            gains += _of_values(file)
        return cls([one for one in gains if one.assertion is None or _counts(one.assertion)])

    def take(self, lost: Assertion, file: Versions) -> bool:
        """Is what is lost to be found elsewhere? What makes up for it makes up for nothing else."""
        for way in (self._same, self._absorbed, self._tabled):
            if (gain := way(lost, file)) is not None:
                gain.used = True
                gain.literals = gain.literals - Counter(lost.literals)
                return True
        return False

    def _same(self, lost: Assertion, file: Versions) -> _Gain | None:
        for gain in self._by_shape.get(_shape(lost), ()):
            one = gain.assertion
            if one is None or gain.used:
                continue
            if one.words == lost.words or likeness(one.words, lost.words) > _SAME_THING:
                return gain
        return None

    def _absorbed(self, lost: Assertion, file: Versions) -> _Gain | None:
        """`assert (a, b) == (1, 2)` says what `assert a == 1` did."""
        names, literals = frozenset(lost.names), Counter(lost.literals)
        for gain in self._claims.get(file.path, ()) if names else ():
            one = gain.assertion
            if one is not None and one.strength >= lost.strength and names <= gain.names and literals <= gain.literals:
                return gain
        return None

    def _tabled(self, lost: Assertion, file: Versions) -> _Gain | None:
        """A row of a table that has what the assertion had, run through an assertion that is as strong."""
        tables = self._tables.get(file.path, ())
        if not lost.literals or not tables or self._strength(file) < lost.strength:
            return None
        literals = Counter(lost.literals)
        free = (gain for gain in tables if gain.assertion is None or not gain.used)
        return next((gain for gain in free if literals <= gain.literals), None)

    def _strength(self, file: Versions) -> int:
        if file.path not in self._strongest:
            found = (one.strength for case in file.new.cases.values() for one in case.assertions)
            self._strongest[file.path] = max(found, default=0)
        return self._strongest[file.path]


def _shape(one: Assertion) -> Hashable:
    return one.relation, alpha(one.words)


def _gain(file: Versions, one: Assertion, without: Assertion | None = None, *, is_table: bool = False) -> _Gain:
    literals = Counter(one.literals) - Counter(without.literals if without else ())
    return _Gain(file=file, assertion=one, literals=literals, names=frozenset(one.names), is_table=is_table)


def _counts(one: Assertion) -> bool:
    return one.strength > 0 and not one.swallowed


def _of_matched(matched: Iterable[tuple[Versions, Matched]], *, is_table: bool) -> Iterator[_Gain]:
    for file, one in matched:
        yield from (_gain(file, gained, is_table=is_table) for gained in one.gained)
        for before, after in one.met:
            if before.words != after.words:
                gain = _gain(file, after, before, is_table=is_table)
                gain.used = True
                yield gain


def _of_support(file: Versions) -> Iterator[_Gain]:
    called = {call.name for case in file.new.cases.values() for call in case.calls if not call.swallowed}
    for name, case in file.new.support.items():
        before = file.old.support.get(name)
        known = {one.words for one in before.assertions} if before is not None else set()
        if case.form != "other" and name.rpartition("::")[2].rpartition(".")[2] in called:
            yield from (_gain(file, one) for one in case.assertions if one.words not in known)


def _of_values(file: Versions) -> Iterator[_Gain]:
    """Tables with names of their own, as far as tests are run with them."""
    run_with = {name for case in file.new.cases.values() for row in case.rows for name in row.names}
    known = {value.words for value in file.old.values}
    for value in file.new.values:
        if value.name in run_with and value.words not in known:
            before = Counter(text for one in file.old.values if one.name == value.name for text in one.literals)
            literals = Counter(value.literals) - before
            yield _Gain(file=file, assertion=None, literals=literals, is_table=True)
