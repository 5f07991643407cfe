"""Freezes: by the wall clock, over weeks, years and repeated hours, and which entries land in spite of them."""

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from gate_world import after, decided, green, opened, submitted
from hypothesis import given
from hypothesis import strategies as st

from forgepool.orchestrator.journal.events import CheckSent, EntryReclassed, Event, GateRuled, LandingIntended
from forgepool.orchestrator.journal.queue_rules import BadFreeze, GateRules, freezes, refuse_endless
from forgepool.orchestrator.reports.queue_status import frozen_words, standing_of
from forgepool.orchestrator.state.run import RunState

BERLIN = "Europe/Berlin"
WEEKEND = "fri 16:00 - mon 08:00"


def _at(text: str, zone: str = BERLIN, *, fold: int = 0) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold).timestamp()


def _until(text: str, now: float, zone: str = BERLIN) -> str | None:
    until = freezes(tuple(text.split(" & ")), zone).until(now)
    return None if until is None else datetime.fromtimestamp(until, ZoneInfo(zone)).isoformat()


@pytest.mark.parametrize(
    ("text", "now", "until"),
    [
        (WEEKEND, "2026-11-20 15:59:59", None),
        (WEEKEND, "2026-11-20 16:00", "2026-11-23T08:00:00+01:00"),
        (WEEKEND, "2026-11-22 12:00", "2026-11-23T08:00:00+01:00"),
        (WEEKEND, "2026-11-23 07:59:59", "2026-11-23T08:00:00+01:00"),
        (WEEKEND, "2026-11-23 08:00", None),
        ("mon 08:00 - mon 09:00", "2026-11-23 08:30", "2026-11-23T09:00:00+01:00"),
        ("mon 09:00 - mon 08:00", "2026-11-23 08:30", None),
        ("mon 09:00 - mon 08:00", "2026-11-23 09:30", "2026-11-30T08:00:00+01:00"),
        ("Sat  -  Sun", "2026-11-21 00:00", "2026-11-23T00:00:00+01:00"),
        ("sun - mon 08:00", "2026-11-23 07:00", "2026-11-23T08:00:00+01:00"),
        ("2026-12-20 - 2027-01-04", "2026-12-31 23:59", "2027-01-05T00:00:00+01:00"),
        ("2026-12-20 - 2027-01-04", "2027-01-05 00:00", None),
        ("2026-12-20 18:00 to 2026-12-20 19:30", "2026-12-20 19:00", "2026-12-20T19:30:00+01:00"),
        (f"{WEEKEND} & 2026-11-23 - 2026-11-24", "2026-11-21 00:00", "2026-11-25T00:00:00+01:00"),
    ],
)
def test_a_freeze_ends_when_its_text_says(text: str, now: str, until: str | None) -> None:
    assert _until(text, _at(now)) == until


def test_a_freeze_is_of_the_clock_where_summer_ends_and_begins() -> None:
    """The weekend of 25 October 2026 is an hour longer, and that of 29 March 2026 an hour shorter."""
    assert _until(WEEKEND, _at("2026-10-24 12:00")) == "2026-10-26T08:00:00+01:00"
    assert _until(WEEKEND, _at("2026-03-28 12:00")) == "2026-03-30T08:00:00+02:00"
    lasts = [_at(f"{monday} 08:00") - _at(f"{friday} 16:00") for friday, monday in (("2026-10-23", "2026-10-26"),)]
    assert lasts == [65 * 3600]


def test_an_hour_that_is_shown_twice_belongs_to_the_freeze() -> None:
    """On 25 October the clock goes from 03:00 back to 02:00."""
    assert _until("sat 20:00 - sun 02:30", _at("2026-10-25 02:40")) == "2026-10-25T02:30:00+01:00"
    assert _until("sat 20:00 - sun 02:30", _at("2026-10-25 02:40", fold=1)) is None
    assert _until("sun 02:30 - sun 12:00", _at("2026-10-25 02:31")) is not None


def test_an_hour_that_is_never_shown_freezes_no_other() -> None:
    """On 29 March the clock goes from 02:00 to 03:00."""
    assert _until("sat 20:00 - sun 02:30", _at("2026-03-29 01:59")) == "2026-03-29T03:00:00+02:00"
    assert _until("sun 02:30 - sun 12:00", _at("2026-03-29 01:59")) is None
    assert _until("sun 02:30 - sun 12:00", _at("2026-03-29 03:00")) == "2026-03-29T12:00:00+02:00"
    for window in ("sun 02:00 - sun 03:00", "sun 02:10 - sun 02:20", "2026-03-29 02:00 - 2026-03-29 03:00"):
        begin = _at("2026-03-29 00:00")
        assert [_until(window, begin + minute * 60) for minute in range(0, 240, 5)] == [None] * 48
    assert _until("sun 02:00 - sun 03:00", _at("2026-04-05 02:00")) == "2026-04-05T03:00:00+02:00"


def test_a_week_of_freezes_without_a_gap_is_not_searched_for_its_end_for_ever() -> None:
    """Earlier versions accepted such a freeze, so a journal may hold one."""
    assert freezes(("mon - sun",), "UTC").until(0.0) is not None


@pytest.mark.parametrize(
    "texts",
    [
        ("mon - sun",),
        ("tue - mon",),
        ("sun - sat",),
        ("fri 16:00 - fri 16:00",),
        ("mon - wed", "2026-12-20 - 2026-12-21", "thu - sun"),
    ],
)
def test_what_leaves_nothing_of_the_week_is_refused(texts: tuple[str, ...]) -> None:
    with pytest.raises(BadFreeze, match=r"the whole week, and nothing but hotfixes would land any more; say, for"):
        refuse_endless(texts, "UTC")


@pytest.mark.parametrize(
    "texts",
    [("mon - sat",), ("mon 00:01 - mon 00:00",), ("mon - wed", "thu - sun 23:59"), ("2026-12-20 - 2027-12-31",)],
)
def test_what_leaves_a_minute_of_the_week_is_taken(texts: tuple[str, ...]) -> None:
    refuse_endless(texts, "UTC")


@given(st.integers(0, 4_000_000_000))
def test_who_waits_for_the_end_of_a_freeze_finds_it_ended(now: int) -> None:
    found = freezes((WEEKEND, "wed 02:30 - wed 03:10"), BERLIN)
    until = found.until(now)
    if until is not None:
        assert until > now and found.until(until) is None
        assert timedelta(seconds=until - now) <= timedelta(hours=66)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("weekend", "'weekend' is no time from which and to which"),
        ("fri 25:00 - mon 08:00", "no day or no time of day"),
        ("foo 16:00 - bar 08:00", "no day or no time of day"),
        ("2026-02-30 - 2026-03-01", "no day or no time of day"),
        ("2026-12-20 - 9999-12-31", "no day or no time of day"),
        ("0001-01-01 - 2026-12-31", "no day or no time of day"),
        ("fri 16:00 - 2026-12-01", "of a day of the week and of a date"),
        ("2026-12-02 - 2026-12-01", "ends before it begins"),
        ("fri 16:00 - fri 16:00", "ends where it begins"),
    ],
)
def test_what_is_no_time_is_told_with_one_that_is(text: str, said: str) -> None:
    with pytest.raises(BadFreeze, match=said) as refused:
        freezes((text,), "")
    assert 'for instance, "fri 16:00 - mon 08:00" or "2026-12-20 - 2027-01-04"' in str(refused.value)


def test_a_zone_that_nobody_knows_is_told() -> None:
    with pytest.raises(BadFreeze, match="there is no time zone 'Berlin'; say, for instance, Europe/Berlin"):
        freezes((), "Berlin")


NOW, LATER = _at("2026-11-21 12:00", "UTC"), _at("2026-11-23 08:00", "UTC")


def _ruled(*events: Event) -> RunState:
    return opened(GateRuled(rules=GateRules(freezes=(WEEKEND,), zone="UTC")), *events)


def _answered(state: RunState, *, now: float) -> list[CheckSent]:
    """Answer all trials that start now with green."""
    tried = list[CheckSent]()
    while sent := [one for one in decided(state, now=now) if isinstance(one, CheckSent)]:
        tried += sent
        after(state, *sent, *(green(one) for one in sent), at=now)
    return tried


def test_in_a_freeze_each_is_tried_alone_and_once_and_nothing_lands_before_it_ends() -> None:
    state = _ruled(submitted("a"), submitted("b"))
    tried = _answered(state, now=NOW)
    assert [(one.ahead, one.car) for one in tried] == [((), ("a",)), ((), ("b",))]
    assert decided(state, now=LATER - 1) == []
    (landing,) = decided(state, now=LATER)
    assert isinstance(landing, LandingIntended) and landing.entries == ("a",)


def test_a_hotfix_lands_in_a_freeze_past_what_was_green_before_it() -> None:
    """It also passes an entry that changes the gate itself, behind which no other entry is tried."""
    state = opened(submitted("a"), submitted("b"))
    sent = [*decided(state), *decided(after(state, *decided(state)))]
    assert {one.car for one in sent if isinstance(one, CheckSent)} == {("a",), ("b",)}
    after(state, GateRuled(rules=GateRules(freezes=(WEEKEND,), zone="UTC")), submitted("hot"))
    state.train.apart.add("a")
    after(state, EntryReclassed(task="hot", klass="hotfix"))
    while dissolved := [one for one in decided(state, now=NOW) if not isinstance(one, CheckSent | LandingIntended)]:
        after(state, *dissolved, at=NOW)
    _answered(state, now=NOW)
    (landing,) = decided(state, now=NOW)
    assert isinstance(landing, LandingIntended) and landing.entries == ("hot",)


def test_who_waits_in_a_freeze_is_told_until_when() -> None:
    state = _ruled(submitted("a"))
    assert standing_of(state, state.tasks["a"], NOW).code == "frozen"
    _answered(state, now=NOW)
    stand = standing_of(state, state.tasks["a"], NOW)
    words = "only hotfixes land in main before Mon 2026-11-23 08:00 UTC; it passed its checks alone"
    assert (stand.state, stand.code, stand.why) == ("green", "frozen", words)
    assert frozen_words(state, NOW) == "only hotfixes land before Mon 2026-11-23 08:00 UTC"
    assert frozen_words(state, LATER) is None
