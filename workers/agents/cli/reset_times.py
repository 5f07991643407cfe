"""
When a limit ends, from words that name a time of day: `resets Nov 24, 4:58pm (UTC)`, `try again at 7:38 AM`.
"""

import re
from datetime import datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

from forgepool.workers.llm.wires.resets import resets_at, retry_after_s

_MOST_CHARACTERS = 8_000
_LONGEST_S = 35 * 86_400.0
_CLOCK = re.compile(
    r"(?:resets|try again at|available again at)\s+"
    r"(?:(?P<month>[A-Z][a-z]{2})[a-z]* (?P<day>\d{1,2})(?:st|nd|rd|th)?,?\s+(?:(?P<year>\d{4}),?\s+)?(?:at\s+)?)?"
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d{2}))?\s*(?P<half>[ap])\.?m\b\.?(?:\s*\((?P<zone>[\w/+-]+)\))?",
    re.IGNORECASE,
)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


def reset_time(text: str, now: float, *, zone: tzinfo | None = None) -> float | None:
    """
    Unix seconds at which the limit a text tells of ends; None where it does not say.

    A time of day is the next such time, in the zone the text names, else in the one given, else in this host's.
    """
    text = text[:_MOST_CHARACTERS]
    try:
        if (moment := resets_at({}, text, now)) is not None:
            return moment
        if match := _CLOCK.search(text):
            return _next(match, now, _zone(match["zone"]) or zone)
        wait_s = retry_after_s({}, text, now)
    except (ValueError, OverflowError):
        return None  # a date that does not exist, or no number after all
    return None if wait_s is None else now + wait_s


def likely(moment: float | None, now: float) -> float | None:
    """Within what limits last, from now to 35 days: a slip of a program must not shut it off for a century."""
    return None if moment is None else min(max(moment, now), now + _LONGEST_S)


def _next(match: re.Match[str], now: float, zone: tzinfo | None) -> float | None:
    today = datetime.fromtimestamp(now, zone).astimezone(zone)
    hour = int(match["hour"]) % 12 + (12 if match["half"].lower() == "p" else 0)
    try:
        found = today.replace(hour=hour, minute=int(match["minute"] or 0), second=0, microsecond=0)
        if match["month"] is None:
            return (found if found > today else found + timedelta(days=1)).timestamp()
        month = _MONTHS.index(match["month"].lower()) + 1
        found = found.replace(month=month, day=int(match["day"]), year=int(match["year"] or today.year))
        is_next_years = match["year"] is None and found < today - timedelta(days=1)
        return (found.replace(year=found.year + 1) if is_next_years else found).timestamp()
    except (ValueError, OverflowError):
        return None


def _zone(name: str | None) -> tzinfo | None:
    try:
        return ZoneInfo(name) if name else None
    except (ValueError, OSError, LookupError):
        return None
