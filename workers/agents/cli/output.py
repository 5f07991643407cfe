"""
Reads what the programs print: JSON whose shape changes between versions, texts of any length, words for trouble.

`WORDINGS` are the programs' own words; vendors' codes and words are `workers.llm.wires.faults`'. An unknown
wording is no known trouble, and the attempt has failed.
"""

import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

from pydantic import JsonValue

from forgepool.workers.agents.cli.program import ProgramFailure
from forgepool.workers.llm.provider import Trouble
from forgepool.workers.llm.wires import faults
from forgepool.workers.llm.wires.resets import resets_at, retry_after_s

MOST_CHARACTERS = 32_000
"""Characters of a text in a transcript."""
_MOST_DEPTH = 40
_MOST_NUMBER = 1e300
_MOST_COUNT = 10**11
_MOST_COST_USD = 1e6
# Vendors show a part of a key that is wrong.
_KEY = re.compile(r"\b(sk|pk|key)-[\w*.-]{4,}", re.IGNORECASE)

Json = Mapping[str, JsonValue]


def json_object(line: str) -> Json | None:
    """Parse a line; None where it is not one JSON object, as a warning between the events."""
    if not line.startswith("{"):
        return None
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def at(value: JsonValue | Json, *path: str) -> JsonValue:
    """Return the value at a path of keys, or None."""
    for key in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value if not isinstance(value, Mapping) else dict(value)


def text_at(value: JsonValue | Json, *path: str) -> str:
    item = at(value, *path)
    return _whole(item) if isinstance(item, str) else ""


def object_at(value: JsonValue | Json, *path: str) -> dict[str, JsonValue]:
    item = at(value, *path)
    return item if isinstance(item, dict) else {}


def objects_at(value: JsonValue | Json, *path: str) -> Iterator[dict[str, JsonValue]]:
    """Yield the objects of the list at a path."""
    item = at(value, *path)
    yield from (each for each in item if isinstance(each, dict)) if isinstance(item, list) else ()


def count_at(value: JsonValue | Json, *path: str) -> int:
    """Return the count at a path; 0 where there is none, or an impossible one."""
    item = at(value, *path)
    return item if isinstance(item, int) and not isinstance(item, bool) and 0 <= item <= _MOST_COUNT else 0


def cost(usd: float | None) -> float | None:
    """Return a possible amount; None for any other."""
    return usd if usd is not None and 0 <= usd <= _MOST_COST_USD else None


def number_at(value: JsonValue | Json, *path: str) -> float | None:
    item = at(value, *path)
    if isinstance(item, bool) or not isinstance(item, int | float):
        return None
    return float(item) if abs(item) < _MOST_NUMBER else None


def clip_text(text: str) -> str:
    """Cut the middle out of a text that is too long for a transcript."""
    if len(text) > MOST_CHARACTERS:
        left_out = len(text) - MOST_CHARACTERS
        half = MOST_CHARACTERS // 2
        text = f"{text[:half]}\n[{left_out:,} characters are left out]\n{text[-half:]}"
    return _whole(text)


def clip_object(value: Json) -> dict[str, JsonValue]:
    """Clip every text in an object, such as a call's arguments; infinite and absurd numbers become None."""
    return {_whole(key): _clipped_value(each, _MOST_DEPTH) for key, each in value.items()}


def _clipped_value(value: JsonValue, depth: int) -> JsonValue:
    if depth == 0:
        return None
    match value:
        case str():
            return clip_text(value)
        case list():
            return [_clipped_value(each, depth - 1) for each in value]
        case dict():
            return {_whole(key): _clipped_value(each, depth - 1) for key, each in value.items()}
        case float() if not abs(value) < _MOST_NUMBER:
            return None
        case _:
            return value


def _whole(text: str) -> str:
    """Replace half characters, which JSON can name and no file can hold."""
    return text.encode("utf-8", errors="replace").decode("utf-8")


def one_line(text: str, most: int = 300) -> str:
    """Return a text as part of a sentence, without keys."""
    return _KEY.sub("[key]", " ".join(text.split()))[:most].rstrip(". ")


_MOST_WORDING_CHARACTERS = 8_000
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
    Return the Unix seconds at which the limit in a text ends; None where it does not say.

    A time of day is the next such time, in the text's zone, else in the given one, else in this host's.
    """
    text = text[:_MOST_WORDING_CHARACTERS]
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
    """Clamp the end of a limit to the next 35 days: a program's mistake must not shut it off for a century."""
    return None if moment is None else min(max(moment, now), now + _LONGEST_S)


def _next(match: re.Match[str], now: float, zone: tzinfo | None) -> float | None:
    today = datetime.fromtimestamp(now, zone).astimezone(zone)
    hour = int(match["hour"]) % 12 + (12 if match["half"].lower() == "p" else 0)
    try:
        moment = today.replace(hour=hour, minute=int(match["minute"] or 0), second=0, microsecond=0)
        if match["month"] is None:
            return (moment if moment > today else moment + timedelta(days=1)).timestamp()
        month = _MONTHS.index(match["month"].lower()) + 1
        moment = moment.replace(month=month, day=int(match["day"]), year=int(match["year"] or today.year))
        is_next_years = match["year"] is None and moment < today - timedelta(days=1)
        return (moment.replace(year=moment.year + 1) if is_next_years else moment).timestamp()
    except (ValueError, OverflowError):
        return None


def _zone(name: str | None) -> tzinfo | None:
    try:
        return ZoneInfo(name) if name else None
    except (ValueError, OSError, LookupError):
        return None


@dataclass(frozen=True, slots=True)
class Wording:
    pattern: str
    trouble: Trouble
    source: str


WORDINGS = (
    # Limits that end at a stated time.
    Wording(r"hit your .{0,40}\blimit", "usage_limit", "claude 2.1.329 and codex 0.169.0, run against a local 429"),
    Wording(r"usage limit reached", "usage_limit", "claude before 2: 'Claude AI usage limit reached|<unix seconds>'"),
    Wording(r"out of (usage )?credits|requires usage credits", "usage_limit", "claude 2.1.329, its text"),
    Wording(r"^Quota exceeded\b", "usage_limit", "codex 0.169.0, run against a local 429 insufficient_quota"),
    # No key, or a wrong one.
    Wording(r"Invalid API key|Not logged in|Please run /login", "authentication", "claude 2.1.329, run"),
    Wording(r"status 40[13]\b", "authentication", "codex 0.169.0, run: 'unexpected status 401 Unauthorized'"),
    Wording(
        r"Missing environment variable", "authentication", "codex 0.169.0, its text for an env_key that is not set"
    ),
    Wording(r"litellm\.(AuthenticationError|PermissionDeniedError)", "authentication", "aider 0.86.2, run"),
    # Conversations too long for the model.
    Wording(r"ran out of room in the model's context window", "overflow", "codex 0.169.0, run"),
    Wording(r"has hit a token limit|litellm\.ContextWindowExceededError", "overflow", "aider 0.86.2, its text"),
    # Trouble that passes.
    Wording(r"last status: 429|litellm\.RateLimitError", "rate_limit", "codex 0.169.0 and aider 0.86.2, run"),
    Wording(r"status 5(03|29)\b|at capacity|Overloaded errors", "overloaded", "codex 0.169.0 and claude 2.1.329, run"),
    Wording(r"litellm\.(ServiceUnavailableError|InternalServerError)", "server", "aider 0.86.2, run"),
    Wording(r"status 5\d\d\b", "server", "codex 0.169.0, run"),
    Wording(r"stream (disconnected|closed) before", "truncated", "codex 0.169.0, run"),
    Wording(r"Connection lost mid-response", "truncated", "claude 2.1.329, run against a stream that was cut"),
    Wording(
        r"litellm\.(APIConnectionError|Timeout)|error sending request", "connection", "aider 0.86.2; codex 0.169.0"
    ),
    Wording(
        r"Connection (refused|error|closed)|ECONNREFUSED|Unable to connect", "connection", "claude 2.1.329; opencode"
    ),
)


def failure(
    said: str, *, status: int | None = None, codes: Iterable[str] = (), headers: dict[str, str] | None = None
) -> ProgramFailure:
    """Classify a failure by the program's words and, if it reports them, the vendor's status, codes and headers."""
    now = time.time()
    said = clip_text(said)
    reply = faults.FaultReply(status=status, codes=tuple(codes), message=said, headers=headers or {})
    trouble = _trouble(reply)
    ends = reset_time(said, now) or _by_header(reply, now) if trouble == "usage_limit" else None
    return ProgramFailure(said=said, trouble=trouble, resets_at=likely(ends, now))


def _by_header(reply: faults.FaultReply, now: float) -> float | None:
    try:
        return resets_at(reply.headers, "", now)
    except (ValueError, OverflowError):
        return None


def _trouble(reply: faults.FaultReply) -> Trouble | None:
    """Classify: a used-up limit first, then the program's words, then the vendor's."""
    vendors = faults.trouble(reply)
    if vendors == "usage_limit":
        return vendors
    own = next((word.trouble for word in WORDINGS if re.search(word.pattern, reply.message, re.IGNORECASE)), None)
    if own is not None:
        return own
    # Without status and code, `server` stands for everything unknown.
    return None if vendors == "server" and reply.status is None else vendors
