"""
The settings a person gave a queue as they opened it. They are journaled, so that every reader of the journal follows
the same ones.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from forgepool.workers.schema.orders import Message

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_EXAMPLE = 'say, for instance, "fri 16:00 - mon 08:00" or "2026-12-20 - 2027-01-04"'
_SIDE = re.compile(r"([a-z]{3}|\d{4}-\d\d-\d\d)(?: (\d?\d):(\d\d))?")
_BETWEEN = re.compile(r"\s+(?:-|–|to)\s+")
_DAY = timedelta(days=1)
_WEEK_MIN = 7 * 24 * 60
_NEVER = f"and nothing but hotfixes would land any more; {_EXAMPLE}"
_CHAINED = 100
"""Freezes that follow upon one another without a gap: beyond so many it is not asked when they end."""


class BadFreeze(Exception):
    """It cannot be read as a time. One sentence, with one that can."""


@dataclass(frozen=True, slots=True)
class WeekSpan:
    """A span of the week on the wall's clock; the end is no part of it."""

    begin: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class Weekly:
    """Each week from one day and time of day to another, of the same week or the next."""

    day: int
    at: time
    lasts: timedelta

    def near(self, day: date) -> Iterator[WeekSpan]:
        """Yield the spans that may contain the day."""
        for back in range(8):
            if (day - back * _DAY).weekday() == self.day:
                begin = datetime.combine(day - back * _DAY, self.at)
                yield WeekSpan(begin, begin + self.lasts)

    def minutes(self) -> range:
        """Since the beginning of Monday."""
        begin = (self.day * 24 + self.at.hour) * 60 + self.at.minute
        return range(begin, begin + self.lasts // timedelta(minutes=1))


@dataclass(frozen=True, slots=True)
class Once:
    span: WeekSpan

    def near(self, day: date) -> Iterator[WeekSpan]:
        yield self.span


@dataclass(frozen=True, slots=True)
class Freezes:
    """All of a gate's."""

    windows: tuple[Weekly | Once, ...] = ()
    zone: ZoneInfo | None = None
    """None: the machine's."""

    def until(self, now: float) -> float | None:
        """
        When what lasts now will end, with all that follows upon it without a gap (Unix seconds); None where nothing
        does. One without an end that could be told ends when it was last looked.
        """
        end = now
        for _ in range(_CHAINED):
            later = self._end(end)
            if later is None:
                break
            end = later
        return end if end > now else None

    def _end(self, now: float) -> float | None:
        day = datetime.fromtimestamp(now, self.zone).date()
        spans = (span for window in self.windows for span in window.near(day))
        ends = (self._last(span.end) for span in spans if self._first(span.begin) <= now)
        return max((end for end in ends if end > now), default=None)

    def _first(self, clock: datetime) -> float:
        return min(self._moments(clock))

    def _last(self, clock: datetime) -> float:
        return max(self._moments(clock))

    def _moments(self, clock: datetime) -> tuple[float, float]:
        first, second = (clock.replace(tzinfo=self.zone, fold=fold).timestamp() for fold in (0, 1))
        if first <= second:
            return first, second
        change = second + bisect_left(range(int(second), int(first)), clock, key=self._shown)
        return change, change

    def _shown(self, moment: float) -> datetime:
        return datetime.fromtimestamp(moment, self.zone).replace(tzinfo=None, fold=0)


@lru_cache(maxsize=64)
def freezes(texts: tuple[str, ...], zone: str) -> Freezes:
    """
    Parse freezes as a person wrote them; an empty zone is the machine's.

    Raises:
        BadFreeze: one of them is no time, or there is no such zone.
    """
    return Freezes(tuple(_window(text) for text in texts), _zone(zone))


def refuse_endless(texts: tuple[str, ...], zone: str) -> None:
    """
    Those that a person gives now. One that has the whole week is read where it was journaled, and is taken no more.

    Raises:
        BadFreeze: as `freezes`; or those of the week leave none of it.
    """
    weekly = [one for one in freezes(texts, zone).windows if isinstance(one, Weekly)]
    frozen = {minute % _WEEK_MIN for one in weekly for minute in one.minutes()}
    if len(frozen) == _WEEK_MIN:
        given = " and ".join(f"'{text}'" for text in texts)
        raise BadFreeze(f"{given}: that is the whole week, {_NEVER}")


def _zone(name: str) -> ZoneInfo | None:
    try:
        return ZoneInfo(name) if name else None
    except (ValueError, OSError, KeyError) as unknown:
        raise BadFreeze(f"there is no time zone '{name}'; say, for instance, Europe/Berlin or UTC") from unknown


def _window(text: str) -> Weekly | Once:
    sides = [_SIDE.fullmatch(" ".join(side.split())) for side in _BETWEEN.split(text.strip().lower())]
    if len(sides) != 2 or sides[0] is None or sides[1] is None:
        raise BadFreeze(f"'{text}' is no time from which and to which nothing lands; {_EXAMPLE}")
    begin, end = sides[0], sides[1]
    try:
        if begin[1] in _DAYS and end[1] in _DAYS:
            return _weekly(text, begin, end)
        if begin[1] not in _DAYS and end[1] not in _DAYS:
            return _once(text, begin, end)
    except ValueError as wrong:
        raise BadFreeze(f"'{text}' has what is no day or no time of day; {_EXAMPLE}") from wrong
    raise BadFreeze(f"'{text}' is of a day of the week and of a date; give two of one kind: {_EXAMPLE}")


def _weekly(text: str, begin: re.Match[str], end: re.Match[str]) -> Weekly:
    first, at = _DAYS.index(begin[1]), _time(begin)
    from_, to = timedelta(hours=at.hour, minutes=at.minute), _DAYS.index(end[1]) * _DAY + _end_of(end)
    lasts = to - first * _DAY - from_
    if not lasts:
        raise BadFreeze(f"'{text}' ends where it begins, which is the whole week, {_NEVER}")
    return Weekly(first, at, lasts if lasts > timedelta(0) else lasts + 7 * _DAY)


def _once(text: str, begin: re.Match[str], end: re.Match[str]) -> Once:
    first = datetime.combine(_date(begin), _time(begin))
    last = datetime.combine(_date(end), time()) + _end_of(end)
    if last <= first:
        raise BadFreeze(f"'{text}' ends before it begins; {_EXAMPLE}")
    return Once(WeekSpan(first, last))


def _date(side: re.Match[str]) -> date:
    """Parse a date within the years that every machine's clock knows. Raises ValueError."""
    if not 1971 <= (found := date.fromisoformat(side[1])).year <= 2999:
        raise ValueError(found)
    return found


def _time(side: re.Match[str]) -> time:
    return time(int(side[2]), int(side[3])) if side[2] else time()


def _end_of(side: re.Match[str]) -> timedelta:
    """Since the beginning of the day: a day without a time ends when it does."""
    at = _time(side)
    return timedelta(hours=at.hour, minutes=at.minute) if side[2] else _DAY


def describe_windows(texts: Sequence[str]) -> str:
    """`fri 16:00 - mon 08:00 and ...`, as it was written."""
    return " and ".join(" ".join(text.split()) for text in texts)


class GateRules(Message):
    freezes: tuple[str, ...] = ()
    """Within which nothing but hotfixes lands, as they were written."""
    zone: str = ""
    """The zone of the freezes; empty for the machine's."""
    most_of_one: int | None = None
    """Entries of one submitter that may be in cars at once while others wait; None is no cap."""

    def frozen_until(self, now: float) -> float | None:
        """Unix seconds; None where nothing is frozen."""
        return freezes(self.freezes, self.zone).until(now) if self.freezes else None

    def clock(self, at: float) -> str:
        """
        Return the time in the zone of the freezes, such as `Mon 2026-11-23 08:00`, with the zone's name where one was
        given.
        """
        shown = datetime.fromtimestamp(at, freezes((), self.zone).zone).strftime("%a %Y-%m-%d %H:%M")
        return f"{shown} {self.zone}".rstrip()

    def describe_rules(self) -> list[str]:
        """A sentence for each rule; none where nothing was set."""
        said = [f"nothing but hotfixes lands {describe_windows(self.freezes)}"] if self.freezes else []
        cap = self.most_of_one
        return said + ([f"of one submitter, {cap} at once are tested while others wait"] if cap is not None else [])
