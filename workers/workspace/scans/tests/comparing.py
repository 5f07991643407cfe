"""
The assertions that tests lost in a change.

An assertion may move, be renamed, merge into another one, or become a row of a table without a loss. A real loss is
reported as a `Weakening`.
"""

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Self

from forgepool.workers.workspace.scans.languages.conditions import OPPOSITE
from forgepool.workers.workspace.scans.languages.suite import Assertion, CallSite, SuiteCase, Value
from forgepool.workers.workspace.scans.tests.pairing import (
    LocatedCase,
    Matched,
    Pair,
    Pairing,
    Renames,
    Versions,
    alpha,
    likeness,
    match,
)
from forgepool.workers.workspace.scans.tests.strictness import (
    constants,
    is_denied,
    is_looser,
    is_stricter,
    is_turned,
    new_names,
    stands_for,
)

_SAME_THING = 0.5


@dataclass(slots=True, kw_only=True)
class _Gain:
    """A new assertion or table in a file's tests. An assertion makes up for one loss, a table for all its literals."""

    file: Versions
    assertion: Assertion | None
    literals: Counter[str]
    names: frozenset[str] = frozenset()
    is_table: bool = False
    used: bool = False


class Spares:
    """Every gain of a change, each given out once."""

    def __init__(self, gains: Sequence[_Gain]) -> None:
        self._by_shape: dict[Hashable, list[_Gain]] = {}
        self._claims: dict[str, list[_Gain]] = {}
        self._tables: dict[str, list[_Gain]] = {}
        self._strongest: dict[str, int] = {}
        self._calls: dict[str, list[tuple[CallSite, tuple[Assertion, ...]]]] = {}
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
            gains += (_gain(fresh.file, each) for each in fresh.case.assertions)
            gains += (_gain(fresh.file, each, is_table=True) for each in fresh.case.rows)
        for file in files:
            gains += _of_support(file)
            gains += _value_gains(file)
        found = cls([each for each in gains if each.assertion is None or _counts(each.assertion)])
        found._calls = {file.path: list(_new_calls(file)) for file in files}
        return found

    def take(self, lost: Assertion, file: Versions) -> bool:
        """Find the lost assertion elsewhere. A gain that makes up for it is used up."""
        for way in (self._same, self._absorbed, self._tabled):
            if (gain := way(lost, file)) is not None:
                gain.used = True
                gain.literals = gain.literals - Counter(lost.literals)
                return True
        return self._passed(lost, file)

    def _passed(self, lost: Assertion, file: Versions) -> bool:
        """Find a new call that passes the literals of the lost assertion to one at least as strict. It serves once."""
        calls = self._calls.get(file.path, [])
        literals = Counter(lost.literals)
        fits = (literals <= Counter(call.literals) and any(stands_for(each, lost) for each in at) for call, at in calls)
        found = next((number for number, fit in enumerate(fits) if fit), None) if literals else None
        return found is not None and calls.pop(found) is not None

    def _same(self, lost: Assertion, file: Versions) -> _Gain | None:
        for gain in self._by_shape.get(_shape(lost), ()):
            claim = gain.assertion
            if claim is None or gain.used:
                continue
            if claim.words == lost.words or likeness(claim.words, lost.words) > _SAME_THING:
                return gain
        return None

    def _absorbed(self, lost: Assertion, file: Versions) -> _Gain | None:
        """Find a new assertion that includes the lost one, as `(a, b) == (1, 2)` includes `a == 1`."""
        names, literals = frozenset(lost.names), Counter(lost.literals)
        for gain in self._claims.get(file.path, ()) if names else ():
            claim = gain.assertion
            if claim is None or claim.strength < lost.strength:
                continue
            if names <= gain.names and literals <= gain.literals:
                return gain
        return None

    def _tabled(self, lost: Assertion, file: Versions) -> _Gain | None:
        """Find a table row with the literals of the lost assertion, checked at least as strictly."""
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


def _shape(assertion: Assertion) -> Hashable:
    return assertion.relation, alpha(assertion.words)


def _gain(file: Versions, new: Assertion, without: Assertion | None = None, *, is_table: bool = False) -> _Gain:
    literals = Counter(new.literals) - Counter(without.literals if without else ())
    if is_table:
        literals += Counter(part for text in literals for part in _values_in(text))
    return _Gain(file=file, assertion=new, literals=literals, names=frozenset(new.names), is_table=is_table)


def _values_in(text: str) -> Iterator[str]:
    """Yield the values of a row that is one text, such as `3, 'a'`."""
    parts = [part.strip() for part in text.strip("'").split(",")] if "," in text else []
    return (each for part in parts for each in (part, f"'{part}'"))


def _counts(assertion: Assertion) -> bool:
    return assertion.strength > 0 and not assertion.swallowed


def _of_matched(matched: Iterable[tuple[Versions, Matched]], *, is_table: bool) -> Iterator[_Gain]:
    for file, case_match in matched:
        yield from (_gain(file, gained, is_table=is_table) for gained in case_match.gained)
        for before, after in case_match.met:
            if before.words != after.words:
                gain = _gain(file, after, before, is_table=is_table)
                gain.used = True
                yield gain


def _of_support(file: Versions) -> Iterator[_Gain]:
    called = {call.name for case in file.new.cases.values() for call in case.calls if not call.swallowed}
    for name, case in file.new.support.items():
        before = file.old.support.get(name)
        known = {each.words for each in before.assertions} if before is not None else set()
        if case.form != "other" and name.rpartition("::")[2].rpartition(".")[2] in called:
            yield from (_gain(file, each) for each in case.assertions if each.words not in known)


def _new_calls(file: Versions) -> Iterator[tuple[CallSite, tuple[Assertion, ...]]]:
    """Yield the calls of helpers that a file's tests did not make before, with the assertions of the helpers."""
    known = {(call.name, call.literals) for case in file.old.cases.values() for call in case.calls}
    for case in file.new.cases.values():
        shared = [each for each in case.assertions if each.by and _counts(each)]
        for call in case.calls if shared else ():
            asserted = tuple(each for each in shared if each.by == call.name)
            if asserted and (call.name, call.literals) not in known and not call.swallowed and not call.guards:
                yield call, asserted


def _value_gains(file: Versions) -> Iterator[_Gain]:
    """Yield new tables with names of their own that tests run with."""
    run_with = {name for case in file.new.cases.values() for row in case.rows for name in row.names}
    known = {value.words for value in file.old.values}
    for value in file.new.values:
        if value.name in run_with and value.words not in known:
            before = Counter(text for each in file.old.values if each.name == value.name for text in each.literals)
            literals = Counter(value.literals) - before
            yield _Gain(file=file, assertion=None, literals=literals, is_table=True)


Kind = Literal["removed", "row_removed", "loosened", "guarded", "swallowed", "edited", "silent"]
_EXPECTED = re.compile(r"(expect|want|golden|correct|should)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Weakening:
    """Something that a test no longer demands."""

    kind: Kind
    at: LocatedCase
    """The test as it is now."""
    before: Assertion | Value
    after: Assertion | Value | None = None


def compare(
    pairing: Pairing, files: Sequence[Versions], renames: Renames, data: Mapping[str, Sequence[Counter[str]]]
) -> tuple[tuple[Weakening, ...], tuple[LocatedCase, ...]]:
    """
    Return the losses in tests that still exist and in the functions beside them, and the tests that are gone.

    A test whose every assertion exists elsewhere does not count as gone.
    """
    pairs = [*pairing.pairs, *_support(files)]
    claims = [match(each.before.case.assertions, each.after.case.assertions) for each in pairs]
    tables = [match(each.before.case.rows, each.after.case.rows) for each in pairs]
    places = [pair.after.file for pair in pairs]
    spares = Spares.of(pairing, files, zip(places, claims, strict=True), zip(places, tables, strict=True))
    found: list[Weakening] = []
    for pair, claim, table in zip(pairs, claims, tables, strict=True):
        found += _of_pair(pair, claim, table, spares, renames, data.get(pair.after.file.path, ()))
    for file in files:
        found += _of_values(_file_values(file), _used(file), data.get(file.path, ()))
    gone = (each for each in pairing.gone if not _is_elsewhere(each, spares))
    return tuple({_key(each): each for each in found}.values()), tuple(gone)


def _is_elsewhere(gone: LocatedCase, spares: Spares) -> bool:
    claims = (*gone.case.assertions, *(row for row in gone.case.rows if row.literals))
    return bool(gone.case.assertions) and all([spares.take(each, gone.file) for each in claims])


def _key(loss: Weakening) -> tuple[object, ...]:
    """Identify a loss. A loss in a function that many tests call counts once."""
    shared = isinstance(loss.before, Assertion) and loss.before.shared
    return loss.kind, loss.at.file.path, loss.before.line, loss.before.text, None if shared else loss.at.case.name


def _support(files: Sequence[Versions]) -> Iterator[Pair]:
    for file in files:
        for name, case in file.old.support.items():
            after = file.new.support.get(name)
            if after is not None and case.assertions:
                yield Pair(before=LocatedCase(file=file, case=case), after=LocatedCase(file=file, case=after))


def _of_pair(
    pair: Pair, claim: Matched, table: Matched, spares: Spares, renames: Renames, data: Sequence[Counter[str]]
) -> Iterator[Weakening]:
    at = pair.after
    lost = [each for each in claim.lost if not _is_implied(each, at.case) and not spares.take(each, at.file)]
    if at.case.name in at.file.new.support:
        # Helpers assert that something exists to satisfy the type checker.
        lost = [each for each in lost if each.relation != "something"]
    if lost and not at.case.assertions:
        yield Weakening(kind="silent", at=at, before=lost[0])
        return
    yield from (Weakening(kind="removed", at=at, before=each) for each in lost)
    rows = list(data) if any(not row.literals for row in at.case.rows) else []
    for each in table.lost:
        # A row that only names a table has none of the table's literals.
        if each.literals and not spares.take(each, at.file) and not _take_row(each, rows):
            yield Weakening(kind="row_removed", at=at, before=each)
    tables = (both for both in table.met if both[1].literals or not _take_row(both[0], rows))
    for before, after in (*claim.met, *tables):
        if (kind := _became(before, after, pair, renames)) is not None:
            yield Weakening(kind=kind, at=at, before=before, after=after)
    yield from _of_values([(at, pair.before.case.values, at.case.values)], _names(pair), data)


def _take_row(lost: Assertion, rows: list[Counter[str]]) -> bool:
    """Find the row in the data that the test now runs with. Each row of the data serves once."""
    literals = Counter(lost.literals)
    if literals not in rows:
        return False
    rows.remove(literals)
    return True


def _is_implied(lost: Assertion, case: SuiteCase) -> bool:
    """Tell whether a weak assertion is implied: `x` exists if another assertion says what `x` is."""
    if lost.strength > 1:
        return False
    return any(each.strength > 1 and set(lost.names) <= set(each.names) for each in case.assertions)


def _became(before: Assertion, after: Assertion, pair: Pair, renames: Renames) -> Kind | None:
    # Assertions that always hold are reported as tautologies.
    if before.strength == 0 or after.strength == 0:
        return None
    if after.swallowed and not before.swallowed:
        return "swallowed"
    stricter = is_stricter(before, after)
    if not stricter and OPPOSITE.get(before.relation) == after.relation and before.strength <= after.strength:
        return "edited"
    if not stricter and is_looser(before, after):
        return "loosened"
    if after.guards > before.guards:
        return "guarded"
    is_edited = not stricter and (is_denied(before, after) or _is_edited(before, after, pair, renames))
    return "edited" if is_edited else None


def _is_edited(before: Assertion, after: Assertion, pair: Pair, renames: Renames) -> bool:
    if before.words == after.words:
        return False
    lost = Counter(before.literals) - Counter(after.literals)
    gained = Counter(after.literals) - Counter(before.literals)
    if lost and (gained or lost - _literals_named(after, pair)):
        return True
    if not lost and not gained and before.literals != after.literals and not is_turned(before, after):
        return True
    return any(
        not _is_renamed(old, new, old in constants(before), after, pair, renames)
        for old, new in new_names(before, after)
    )


def _literals_named(after: Assertion, pair: Pair) -> Counter[str]:
    """Count the literals behind the names in an assertion, and in the rows of its test."""
    if after.shared:
        return Counter(word.text for word in pair.after.case.words if word.kind == "literal")
    names = set(after.names)
    case, suite = pair.after.case, pair.after.file.new
    values = (text for value in (*case.values, *suite.values) if value.name in names for text in value.literals)
    cells = (text for row in case.rows for literal in row.literals for text in (literal, *_values_in(literal)))
    return Counter(values) + Counter(cells)


def _is_renamed(old: str, new: str, constant: bool, after: Assertion, pair: Pair, renames: Renames) -> bool:
    if renames.are_renames(old, new) or (after.shared and not constant):
        return True
    file = pair.after.file
    was, now = {value.name for value in file.old.values}, {value.name for value in file.new.values}
    if old in was - now and new in now - was:
        return True
    gone = all(word.text != old for word in pair.after.case.words)
    unknown = all(word.text != new for word in pair.before.case.words)
    return gone and unknown and not constant


def _file_values(file: Versions) -> list[tuple[LocatedCase, tuple[Value, ...], tuple[Value, ...]]]:
    """Return the values of the file itself, and those that its functions return."""
    known = next(iter(file.new.cases.values()), next(iter(file.new.support.values()), None))
    if known is None:
        return []
    found = [(LocatedCase(file=file, case=known), file.old.values, file.new.values)]
    for name, case in file.old.support.items():
        if (after := file.new.support.get(name)) is not None:
            simple = name.rpartition("::")[2]
            returned = [tuple(one for one in each.values if one.name == simple) for each in (case, after)]
            found.append((LocatedCase(file=file, case=after), returned[0], returned[1]))
    return found


def _of_values(
    found: Iterable[tuple[LocatedCase, tuple[Value, ...], tuple[Value, ...]]],
    used: frozenset[str],
    data: Sequence[Counter[str]],
) -> Iterator[Weakening]:
    in_data = sum(data, Counter[str]())
    for at, before, after in found:
        for value in before:
            now = [new_value for new_value in after if new_value.name == value.name]
            if value.name not in used or not now or any(new_value.words == value.words for new_value in now):
                continue
            lost = Counter(value.literals) - Counter(text for new_value in now for text in new_value.literals) - in_data
            spelled_out = value.is_constant and all(new_value.is_constant for new_value in now)
            if spelled_out or (lost and (value.is_spelled_out or _EXPECTED.match(value.name))):
                yield Weakening(kind="edited", at=at, before=value, after=now[0])


def _names(pair: Pair) -> frozenset[str]:
    sides = (*pair.before.case.assertions, *pair.after.case.assertions)
    return frozenset(name for each in sides for name in each.names)


def _used(file: Versions) -> frozenset[str]:
    cases = (*file.old.cases.values(), *file.new.cases.values())
    return frozenset(name for case in cases for each in (*case.assertions, *case.rows) for name in each.names)
