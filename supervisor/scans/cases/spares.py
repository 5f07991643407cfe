"""What the tests of a change gained: where an assertion that is missing from its test may have gone."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

from supervisor.scans.cases.matching import Matched
from supervisor.scans.cases.pairing import Pairing, Versions, alpha, likeness
from supervisor.scans.cases.suite import Assertion, Case

_SAME_THING = 0.5


@dataclass(slots=True, kw_only=True)
class _Gain:
    """Something new in a file's tests. It makes up for one loss, a table for as many as its literals go."""

    file: Versions
    assertion: Assertion | None
    literals: Counter[str]
    used: bool = False


class Spares:
    """Every gain, each given out once."""

    def __init__(self, gains: Sequence[_Gain]) -> None:
        self._gains = gains

    @classmethod
    def of(cls, pairing: Pairing, files: Sequence[Versions], matched: Sequence[tuple[Versions, Matched]]) -> Self:
        gains = [*_of_matched(matched)]
        for fresh in pairing.fresh:
            gains += (_gain(fresh.file, one) for one in (*fresh.case.assertions, *fresh.case.rows))
        for file in files:
            gains += _of_support(file)
            gains += _of_values(file)
        return cls([one for one in gains if one.assertion is None or _counts(one.assertion)])

    def take(self, lost: Assertion, file: Versions) -> bool:
        """Is what is lost to be found elsewhere? What makes up for it makes up for nothing else."""
        ways = (self._same(lost), self._absorbed(lost, file), self._tabled(lost, file))
        return any(way is not None and _spend(way, lost) for way in ways)

    def _same(self, lost: Assertion) -> _Gain | None:
        shape = alpha(lost.words)
        for gain in self._gains:
            one = gain.assertion
            if one is None or gain.used or one.relation != lost.relation or alpha(one.words) != shape:
                continue
            if one.words == lost.words or likeness(one.words, lost.words) > _SAME_THING:
                return gain
        return None

    def _absorbed(self, lost: Assertion, file: Versions) -> _Gain | None:
        """`assert (a, b) == (1, 2)` says what `assert a == 1` did."""
        for gain in self._gains:
            one = gain.assertion
            if one is None or gain.file is not file or one.strength < lost.strength or not lost.names:
                continue
            if set(lost.names) <= set(one.names) and _holds(gain.literals, Counter(lost.literals)):
                return gain
        return None

    def _tabled(self, lost: Assertion, file: Versions) -> _Gain | None:
        """A row of a table that has what the assertion had, run through an assertion that is as strong."""
        if not lost.literals:
            return None
        if not any(one.strength >= lost.strength for case in file.new.cases.values() for one in case.assertions):
            return None
        rows = (gain for gain in self._gains if gain.file is file and (gain.assertion is None or not gain.used))
        return next((gain for gain in rows if _holds(gain.literals, Counter(lost.literals))), None)


def _spend(gain: _Gain, lost: Assertion) -> bool:
    gain.used = True
    gain.literals = gain.literals - Counter(lost.literals)
    return True


def _holds(there: Counter[str], wanted: Counter[str]) -> bool:
    return not wanted - there


def _gain(file: Versions, one: Assertion, without: Assertion | None = None) -> _Gain:
    literals = Counter(one.literals)
    return _Gain(file=file, assertion=one, literals=literals - Counter(without.literals) if without else literals)


def _counts(one: Assertion) -> bool:
    return one.strength > 0 and not one.swallowed


def _of_matched(matched: Sequence[tuple[Versions, Matched]]) -> Iterator[_Gain]:
    for file, one in matched:
        yield from (_gain(file, gained) for gained in one.gained)
        for before, after in one.met:
            if before.words != after.words:
                gain = _gain(file, after, before)
                gain.used = True
                yield gain


def _of_support(file: Versions) -> Iterator[_Gain]:
    called = {name for case in file.new.cases.values() for name in case.calls}
    for name, case in file.new.support.items():
        before = file.old.support.get(name, Case(name=name, line=0, text="", words=()))
        known = Counter(one.words for one in before.assertions)
        if name.rpartition("::")[2].rpartition(".")[2] in called:
            yield from (_gain(file, one) for one in case.assertions if not known[one.words])


def _of_values(file: Versions) -> Iterator[_Gain]:
    before = Counter(text for value in file.old.values for text in value.literals)
    after = Counter(text for value in file.new.values for text in value.literals)
    if gained := after - before:
        yield _Gain(file=file, assertion=None, literals=gained)
