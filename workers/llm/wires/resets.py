"""
Reads from headers and messages when to ask again.

Anything may be written there. What is no time counts as none. No time is further off than five weeks: the longest limit
is a month, and a mistake must not shut a model off for ever.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

LONGEST_S = 35 * 86_400.0
_READ_CHARACTERS = 4_000
_HEADER_CHARACTERS = 100

_UNITS = {
    r"ms|milliseconds?|millis": 0.001,
    r"s|secs?|seconds?": 1.0,
    r"m|mins?|minutes?": 60.0,
    r"h|hrs?|hours?": 3600.0,
    r"d|days?": 86_400.0,
    r"w|weeks?": 604_800.0,
    r"months?": 30 * 86_400.0,
}
_SPAN = rf"[0-9]{{1,12}}(?:\.[0-9]{{1,9}})?\s{{0,3}}(?:{'|'.join(_UNITS)})(?![a-z])"
_RETRY_TEXT = re.compile(
    rf"(?:try again|retry)\s{{1,3}}(?:in|after)\s{{1,3}}({_SPAN}(?:(?:,|\s|and){{0,6}}{_SPAN}){{0,6}})", re.IGNORECASE
)
_DURATION = re.compile(
    r"(?<![0-9.])([0-9]{1,12}(?:\.[0-9]{1,9})?)\s{0,3}(?:" + "|".join(f"({unit})" for unit in _UNITS) + r")(?![a-z])",
    re.IGNORECASE,
)
_DATE = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:T|\s{1,3}(?:at\s{1,3})?)([0-9]{2}:[0-9]{2}(?::[0-9]{2})?)"
    r"(\.[0-9]{1,9})?\s{0,3}(?:Z|UTC|\+00:00)"
)
_UNIX = re.compile(r"(?:resets?[ _]at|reset|\|)[^0-9]{0,4}([0-9]{10})\b", re.IGNORECASE)
_RESET = re.compile(r"(?:anthropic|x)-ratelimit-(?:(.+)-)?reset(?:-(.+))?")
_MILLISECONDS = 100_000_000_000


def retry_after_s(headers: Mapping[str, str], message: str, now: float) -> float | None:
    """Return the seconds the vendor asks to wait, by header or in words; None where it does not say."""
    lower = lower_names(headers)
    for name, unit_s in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        if (number := read_number(lower.get(name, ""))) is not None:
            return _wait_s(number * unit_s)
    if (date := read_http_date(lower.get("retry-after", ""))) is not None:
        return _wait_s(date - now)
    match = _RETRY_TEXT.search(message[:_READ_CHARACTERS])
    span_s = _duration_s(match[1]) if match else None
    return None if span_s is None else _wait_s(span_s)


def resets_at(headers: Mapping[str, str], message: str, now: float) -> float | None:
    """
    Return the Unix time at which the limit ends, never before now; None where that is not said.

    Words come before headers, which also tell of limits that were not reached. Of those used up, the last to end
    counts.
    """
    found = _in_words(message[:_READ_CHARACTERS])
    if found is None:
        found = max(_used_up(lower_names(headers), now), default=None)
    return None if found is None else now + _wait_s(found - now)


def _in_words(message: str) -> float | None:
    if (date := _date(message)) is not None:
        return date
    match = _UNIX.search(message)
    return float(match[1]) if match else None


def lower_names(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value[:_HEADER_CHARACTERS] for name, value in headers.items()}


def _wait_s(seconds: float) -> float:
    return min(max(0.0, seconds), LONGEST_S)


def _used_up(headers: Mapping[str, str], now: float) -> Iterator[float]:
    for name, value in headers.items():
        match = _RESET.fullmatch(name)
        if match is None:
            continue
        left = headers.get(_left_name(name))
        if left in (None, "0") and (moment := read_moment(value, now)) is not None:
            yield moment


def _left_name(reset_name: str) -> str:
    return reset_name.replace("-reset", "-remaining", 1)


def read_moment(text: str, now: float) -> float | None:
    """Read a date, Unix seconds or milliseconds, or a span from now."""
    if (number := read_number(text)) is not None:
        if number > _MILLISECONDS:
            return number / 1000
        return number if number > now / 2 else now + number
    if (date := _date(text)) is not None:
        return date
    span_s = _duration_s(text)
    return None if span_s is None else now + span_s


def _duration_s(text: str) -> float | None:
    parts = _DURATION.findall(text)
    sizes = tuple(_UNITS.values())
    return sum(float(number) * sizes[_place(units)] for number, *units in parts) if parts else None


def _place(units: list[str]) -> int:
    return next(place for place, unit in enumerate(units) if unit)


def _date(text: str) -> float | None:
    match = _DATE.search(text)
    if match is None:
        return None
    try:
        whole = datetime.fromisoformat(f"{match[1]}T{match[2]}").replace(tzinfo=UTC).timestamp()
        return whole + float(match[3] or 0)
    except (ValueError, OverflowError):
        return None


def read_number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if abs(number) < float("inf") else None


def read_http_date(text: str) -> float | None:
    # A zone may be any number, of which neither the library nor the calendar can make a date.
    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, OverflowError, IndexError, OSError, AttributeError):
        return None
