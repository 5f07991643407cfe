"""
Reads the rate limits that every answer tells in its headers, of either vendor's form.

Anything may be written there. A limit that cannot be understood is left out, and no header is a reason for a failure.
"""

from collections.abc import Iterator, Mapping

from forgepool.workers.llm.provider import Allowance, LimitedUnit, RateLimits
from forgepool.workers.llm.wires.resets import LONGEST_S, lower_names, read_http_date, read_moment, read_number

_UNITS: Mapping[str, LimitedUnit] = {
    "requests": "requests",
    "input-tokens": "input",
    "output-tokens": "output",
    "tokens": "tokens",
}
_MOST = 1e12
_CLOCKS_AGREE_S = 2.0
"""The vendor's clock is told in whole seconds: of two that agree, the host's is the better one."""


def read_rate_limits(headers: Mapping[str, str], now: float) -> RateLimits | None:
    """
    Return the limits in the headers of an answer; None where there are none.

    Moments are compared with the vendor's own clock where the answer tells it, and `now` is not near it.
    """
    lower = lower_names(headers)
    theirs = read_http_date(lower.get("date", ""))
    now = theirs if theirs is not None and abs(theirs - now) > _CLOCKS_AGREE_S else now
    found = dict(_allowances(lower, now))
    if "input" in found and "output" in found:
        # Anthropic's limit of tokens repeats the one of the others that has the least left.
        found.pop("tokens", None)
    return RateLimits(allowances=found) if found else None


def _allowances(headers: Mapping[str, str], now: float) -> Iterator[tuple[LimitedUnit, Allowance]]:
    for name, unit in _UNITS.items():
        for form in (f"anthropic-ratelimit-{name}-%s", f"x-ratelimit-%s-{name}"):
            limit, left, reset = (headers.get(form % part, "") for part in ("limit", "remaining", "reset"))
            allowance = _allowance(read_number(limit), read_number(left), read_moment(reset, now), now)
            if allowance is not None:
                yield unit, allowance


def _allowance(limit: float | None, left: float | None, reset: float | None, now: float) -> Allowance | None:
    if limit is None or left is None or not 0 < limit <= _MOST:
        return None
    reset_s = None if reset is None or not 0 <= reset - now <= LONGEST_S else reset - now
    return Allowance(limit=limit, remaining=min(max(0.0, left), limit), reset_s=reset_s)
