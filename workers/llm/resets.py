"""When to ask again: what headers and wordings say of it, in seconds."""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_RETRY_TEXT = re.compile(r"(?:try again|retry)\s+(?:in|after)\s+((?:[\d.]+\s*(?:ms|[smh])[a-z]*\s*)+)", re.IGNORECASE)
_DURATION = re.compile(r"([\d.]+)\s*(ms|[smhd])", re.IGNORECASE)
_UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DATE = re.compile(r"(\d{4}-\d{2}-\d{2})(?:T|\s+(?:at\s+)?)(\d{2}:\d{2}(?::\d{2})?)(?:\.\d+)?\s*(?:Z|UTC|\+00:00)")
_UNIX = re.compile(r"(?:resets?[ _]at|reset|\|)\D{0,4}(\d{10})\b", re.IGNORECASE)
_RESET = re.compile(r"(?:anthropic|x)-ratelimit-(?:(.+)-)?reset(?:-(.+))?")
_MILLISECONDS = 100_000_000_000


def retry_after_s(headers: Mapping[str, str], message: str, now: float) -> float | None:
    """Seconds the vendor asks to wait, by header or in words; None where it does not say."""
    lower = {name.lower(): value for name, value in headers.items()}
    for name, unit_s in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        if (number := _number(lower.get(name, ""))) is not None:
            return max(0.0, number * unit_s)
    if (date := _http_date(lower.get("retry-after", ""))) is not None:
        return max(0.0, date - now)
    match = _RETRY_TEXT.search(message)
    return _duration_s(match[1]) if match else None


def resets_at(headers: Mapping[str, str], message: str, now: float) -> float | None:
    """
    Unix seconds at which the limit that was met is gone; None where that is not said. Words come before headers,
    since headers tell of limits that were not met as well; of those that are used up, the last to come back counts.
    """
    if match := _DATE.search(message):
        return datetime.fromisoformat(f"{match[1]}T{match[2]}").replace(tzinfo=UTC).timestamp()
    if match := _UNIX.search(message):
        return float(match[1])
    lower = {name.lower(): value for name, value in headers.items()}
    return max(_used_up(lower, now), default=None)


def _used_up(headers: Mapping[str, str], now: float) -> Iterator[float]:
    for name, value in headers.items():
        match = _RESET.fullmatch(name)
        if match is None:
            continue
        left = headers.get(_left_name(name))
        if left in (None, "0") and (moment := _moment(value, now)) is not None:
            yield moment


def _left_name(reset_name: str) -> str:
    return reset_name.replace("-reset", "-remaining", 1)


def _moment(text: str, now: float) -> float | None:
    """A date, Unix seconds or milliseconds, or a span from now."""
    if (number := _number(text)) is not None:
        if number > _MILLISECONDS:
            return number / 1000
        return number if number > now / 2 else now + number
    if match := _DATE.search(text):
        return datetime.fromisoformat(f"{match[1]}T{match[2]}").replace(tzinfo=UTC).timestamp()
    span_s = _duration_s(text)
    return None if span_s is None else now + span_s


def _duration_s(text: str) -> float | None:
    parts = _DURATION.findall(text)
    return sum(float(number) * _UNIT_S[unit.lower()] for number, unit in parts) if parts else None


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if abs(number) < float("inf") else None


def _http_date(text: str) -> float | None:
    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError):
        return None
