"""The limits in the headers of every answer are read in both vendors' forms, and nothing that is no limit counts."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from vendors.answers import Say, Wire
from vendors.asking import WIRES, never, provider, request
from vendors.limits import Buckets, limited
from vendors.server import VendorServer

from forgepool.workers.llm.provider import Allowance, LlmEvent, ModelFailed, RateLimits
from forgepool.workers.llm.wires.rate_limits import read_rate_limits
from forgepool.workers.llm.wires.resets import LONGEST_S

_NOW = 1_790_000_000.0
"""2026-09-21T14:13:20Z."""
_ANTHROPIC = {
    "Anthropic-Ratelimit-Requests-Limit": "50",
    "anthropic-ratelimit-requests-remaining": "49",
    "anthropic-ratelimit-requests-reset": "2026-09-21T14:13:21.200Z",
    "anthropic-ratelimit-input-tokens-limit": "40000",
    "anthropic-ratelimit-input-tokens-remaining": "39000",
    "anthropic-ratelimit-input-tokens-reset": "2026-09-21T14:13:22Z",
    "anthropic-ratelimit-output-tokens-limit": "8000",
    "anthropic-ratelimit-output-tokens-remaining": "0",
    "anthropic-ratelimit-output-tokens-reset": "2026-09-21T14:14:20Z",
    "anthropic-ratelimit-tokens-limit": "48000",
    "anthropic-ratelimit-tokens-remaining": "39000",
    "anthropic-ratelimit-tokens-reset": "2026-09-21T14:14:20Z",
}


def read(headers: dict[str, str]) -> dict[str, Allowance]:
    found = read_rate_limits(headers, _NOW)
    return {} if found is None else dict(found.allowances)


def test_anthropics_limits_are_those_of_requests_input_and_output() -> None:
    found = read(_ANTHROPIC)
    assert found.keys() == {"requests", "input", "output"}
    assert found["requests"].reset_s == pytest.approx(1.2)
    assert found["input"] == Allowance(limit=40_000, remaining=39_000, reset_s=2.0)
    assert found["output"] == Allowance(limit=8_000, remaining=0, reset_s=60.0)


def test_openais_limits_are_those_of_requests_and_tokens() -> None:
    found = read(
        {
            "x-ratelimit-limit-requests": "500",
            "x-ratelimit-remaining-requests": "499",
            "x-ratelimit-reset-requests": "120ms",
            "x-ratelimit-limit-tokens": "30000",
            "x-ratelimit-remaining-tokens": "28000",
            "x-ratelimit-reset-tokens": "6m0s",
        }
    )
    assert found["requests"].reset_s == pytest.approx(0.12)
    assert found["tokens"] == Allowance(limit=30_000, remaining=28_000, reset_s=360.0)


def test_a_moment_is_read_by_the_vendors_clock_where_this_hosts_is_wrong() -> None:
    found = read(_ANTHROPIC | {"date": "Mon, 21 Sep 2026 14:03:20 GMT"})
    assert found["input"].reset_s == pytest.approx(602.0)


@pytest.mark.parametrize(
    ("part", "text", "means"),
    [
        ("limit", "", None),
        ("limit", "many", None),
        ("limit", "0", None),
        ("limit", "-5", None),
        ("limit", "nan", None),
        ("limit", "inf", None),
        ("limit", "1e300", None),
        ("remaining", "", None),
        ("remaining", "junk", None),
        ("remaining", "-3", Allowance(limit=50, remaining=0, reset_s=1.2)),
        ("remaining", "70", Allowance(limit=50, remaining=50, reset_s=1.2)),
        ("reset", "", Allowance(limit=50, remaining=49)),
        ("reset", "soon", Allowance(limit=50, remaining=49)),
        ("reset", "2020-01-01T00:00:00Z", Allowance(limit=50, remaining=49)),
        ("reset", "9999-12-31T23:59:59Z", Allowance(limit=50, remaining=49)),
        ("reset", "99999-99-99T99:99:99Z", Allowance(limit=50, remaining=49)),
    ],
)
def test_an_odd_value_is_no_limit_or_no_time(part: str, text: str, means: Allowance | None) -> None:
    name = "Anthropic-Ratelimit-Requests-Limit" if part == "limit" else f"anthropic-ratelimit-requests-{part}"
    found = read(_ANTHROPIC | {name: text})
    got = found.get("requests")
    assert (got is None) == (means is None)
    if got is not None and means is not None:
        assert (got.limit, got.remaining) == (means.limit, means.remaining)
        assert got.reset_s == (None if means.reset_s is None else pytest.approx(means.reset_s))


_NAMES = [
    *(
        f"anthropic-ratelimit-{unit}-{part}"
        for unit in ("requests", "tokens")
        for part in ("limit", "remaining", "reset")
    ),
    *(f"x-ratelimit-{part}-{unit}" for unit in ("requests", "tokens") for part in ("limit", "remaining", "reset")),
    "date",
]
_VALUES = st.one_of(
    st.text(max_size=40),
    st.floats().map(str),
    st.integers().map(str),
    st.datetimes().map(lambda when: f"{when.isoformat()}Z"),
)


@given(st.dictionaries(st.sampled_from(_NAMES), _VALUES))
def test_whatever_the_headers_are_every_number_can_be_computed_with(headers: dict[str, str]) -> None:
    for allowance in read(headers).values():
        assert 0 <= allowance.remaining <= allowance.limit < math.inf and allowance.limit > 0
        assert allowance.reset_s is None or 0 <= allowance.reset_s <= LONGEST_S


@pytest.mark.parametrize("wire", WIRES)
def test_an_answer_and_a_refusal_tell_their_limits(wire: Wire) -> None:
    units = {"input": 5_000, "output": 900} if wire == "anthropic" else {"tokens": 5_000}
    heard: list[LlmEvent] = []
    with VendorServer(limited(lambda seen: Say(text="hello"), Buckets(requests=1, **units))) as server:
        asked = provider(wire, server)
        asked.ask(request(), stop=never, hear=heard.append)
        with pytest.raises(ModelFailed) as refused:
            asked.ask(request(), stop=never, hear=heard.append)
    (limits,) = (event for event in heard if isinstance(event, RateLimits))
    assert limits.allowances.keys() == {"requests", *units}
    assert limits.allowances["requests"].remaining == 0
    assert limits.allowances["requests"].reset_s == pytest.approx(60.0, abs=3.0)
    assert refused.value.trouble == "rate_limit" and refused.value.limits is not None
    assert refused.value.retry_after_s is not None and 50 < refused.value.retry_after_s <= 60
