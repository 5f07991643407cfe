"""When to ask again, according to headers and texts."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from forgepool.workers.llm.wires.resets import LONGEST_S, resets_at, retry_after_s

_NOW = 1_790_000_000.0


@pytest.mark.parametrize(
    ("headers", "message", "seconds"),
    [
        ({"Retry-After": "7"}, "", 7),
        ({"retry-after": "soon"}, "", None),
        ({"retry-after": "-3"}, "", 0),
        ({"retry-after-ms": "20", "retry-after": "9"}, "", 0.02),
        ({}, "Rate limit reached. Please try again in 1.5s. Visit ...", 1.5),
        ({}, "Please try again in 6m0s.", 360),
        ({}, "Please try again in 20ms.", 0.02),
        ({}, "Please try again in 2 days.", 2 * 86_400),
        ({}, "try again in 1 hour, 5 minutes and 2 seconds", 3902),
        ({}, "try again in 5 months", LONGEST_S),
        ({}, "try again in 1.2.3s", None),
        ({"retry-after": "1e300"}, "", LONGEST_S),
        ({}, "nothing", None),
    ],
)
def test_a_wait_is_read_from_headers_and_words(headers: dict[str, str], message: str, seconds: float | None) -> None:
    """Headers come first, and the wait is never negative."""
    found = retry_after_s(headers, message, _NOW)
    assert found == (seconds if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize(
    ("headers", "message", "moment"),
    [
        ({}, "You will regain access on 2026-10-01 at 00:00 UTC.", 1790812800.0),
        ({}, "limit reached|1790003600", 1790003600.0),
        ({"anthropic-ratelimit-requests-reset": "2026-10-01T00:00:00Z"}, "", 1790812800.0),
        (
            {
                "anthropic-ratelimit-requests-remaining": "9",
                "anthropic-ratelimit-requests-reset": "2027-12-01T00:00:00Z",
                "anthropic-ratelimit-tokens-remaining": "0",
                "anthropic-ratelimit-tokens-reset": "2026-10-01T00:00:00Z",
            },
            "",
            1790812800.0,
        ),
        ({"x-ratelimit-reset-tokens": "6m0s", "x-ratelimit-remaining-tokens": "0"}, "", _NOW + 360),
        ({"x-ratelimit-reset-tokens": "6m0s", "x-ratelimit-remaining-tokens": "12"}, "", None),
        ({"X-RateLimit-Reset": "1790000060000"}, "", _NOW + 60),
        ({"x-ratelimit-reset": "60"}, "", _NOW + 60),
        ({"x-ratelimit-reset": "1790000060"}, "", _NOW + 60),
        ({}, "limit reached|9999999999", _NOW + LONGEST_S),
        ({}, "You will regain access on 2020-01-01 at 00:00 UTC.", _NOW),
        ({}, "You will regain access on 2026-02-30 at 00:00 UTC.", None),
        ({"x-ratelimit-reset-requests": "nonsense"}, "", None),
        ({}, "", None),
    ],
)
def test_the_end_of_a_limit_is_read_from_headers_and_words(
    headers: dict[str, str], message: str, moment: float | None
) -> None:
    """Only limits that are used up count."""
    assert resets_at(headers, message, _NOW) == moment


_ODD = st.sampled_from(
    [
        "2026-02-30T00:00:00Z",
        "2026-01-01T24:00Z",
        "9999-12-31 23:59 UTC",
        "0000-00-00 00:00 UTC",
        "...",
        "1.2.3s",
        "9" * 400,
        "1e999",
        "nan",
        "-inf",
        "try again in ... s",
        f"try again in {'9' * 400} days",
        "Fri, 31 Dec 9999 23:59:59 -9999",
        "Fri, 31 Dec 9999 23:59:59 +99999999999999999999",
        "Thu, 01 Jan 0001 00:00:00 GMT",
        "reset 9999999999",
    ]
)
_NAMES = ("retry-after", "retry-after-ms", "x-ratelimit-reset", "anthropic-ratelimit-tokens-reset")


@given(_ODD | st.text(), _ODD | st.text())
@example("Fri, 31 Dec 9999 23:59:59 -9999", "")
def test_whatever_is_written_a_time_is_near_or_none(header: str, message: str) -> None:
    """No exception is raised, and no mistake disables a model forever."""
    for name in _NAMES:
        wait_s = retry_after_s({name: header}, message, _NOW)
        assert wait_s is None or 0 <= wait_s <= LONGEST_S
        moment = resets_at({name: header}, message, _NOW)
        assert moment is None or _NOW <= moment <= _NOW + LONGEST_S
