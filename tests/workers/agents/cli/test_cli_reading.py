"""The pure parts: wordings, times of day, and readers of arbitrary lines."""

import copy
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from cli_kit import RECORDINGS, reader_of
from hypothesis import given, settings
from hypothesis import strategies as st

from forgepool.workers.agents.cli.output import WORDINGS, failure, json_object, reset_time
from forgepool.workers.agents.cli.performing import PROGRAMS
from forgepool.workers.agents.cli.record import Record, Redaction
from forgepool.workers.context.transcript.entries import Transcript, read_transcript
from forgepool.workers.schema.orders import CliProgram, Limits

_NOW = datetime(2026, 11, 21, 5, 38, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("You've hit your 5-hour limit · resets 7:38am (UTC)", datetime(2026, 11, 21, 7, 38, tzinfo=UTC)),
        ("You've hit your session limit · resets 3am (UTC)", datetime(2026, 11, 22, 3, tzinfo=UTC)),
        ("hit your weekly limit · resets Nov 24, 4:58pm (UTC)", datetime(2026, 11, 24, 16, 58, tzinfo=UTC)),
        ("hit your weekly limit · resets Jan 2 at 12am (UTC)", datetime(2027, 1, 2, tzinfo=UTC)),
        ("resets 12pm (America/New_York)", datetime(2026, 11, 21, 17, tzinfo=UTC)),
        ("or try again at 7:38 AM.", datetime(2026, 11, 21, 12, 38, tzinfo=UTC)),
        ("or try again at Nov 24th, 2026 4:58 PM.", datetime(2026, 11, 24, 21, 58, tzinfo=UTC)),
        ("Try again in 3 hours 5 minutes", _NOW + timedelta(hours=3, minutes=5)),
        ("Claude AI usage limit reached|1795246687", datetime.fromtimestamp(1795246687, UTC)),
        ("regain access on 2026-12-01 at 00:00 UTC.", datetime(2026, 12, 1, tzinfo=UTC)),
        ("try again at 29:99 PM", None),
        ("resets Feb 31, 1pm (UTC)", None),
        ("your limit is reached", None),
    ],
)
def test_a_reset_is_read_from_words(text: str, expected: datetime | None) -> None:
    """A time of day means the next one, in the named zone or in the host's (here five hours behind)."""
    found = reset_time(text, _NOW.timestamp(), zone=timezone(timedelta(hours=-5)))
    assert found == (expected.timestamp() if expected is not None else None)


@pytest.mark.parametrize(
    ("said", "trouble"),
    [
        ("You’ve hit your usage limit.", "usage_limit"),
        ("Claude AI usage limit reached|1795246687", "usage_limit"),
        ("exceeded retry limit, last status: 429 Too Many Requests", "rate_limit"),
        ("unexpected status 500 Internal Server Error: x", "server"),
        ("Not logged in · Please run /login", "authentication"),
        ("Your credit balance is too low", "usage_limit"),
        ("Incomplete response returned, reason: max_output_tokens", None),
        ("the tests are red", None),
    ],
)
def test_trouble_is_told_by_its_words(said: str, trouble: str | None) -> None:
    """Unknown text is no failure of the model's, because that would be retried for nothing."""
    assert failure(said).trouble == trouble


def test_every_wording_has_its_source() -> None:
    assert all(any(program in word.source for program in PROGRAMS) for word in WORDINGS)


_LINES = {
    program: [line for path in sorted((RECORDINGS / program).iterdir()) for line in path.read_text().splitlines()]
    for program in PROGRAMS
}
_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["", "\ud800", 10**400])
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of everything inside a value."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, each in inside for place in [(*path, key), *_places(each, (*path, key))]]


def _changed(line: str, draw: Callable[..., Any]) -> str:
    """Draw a recorded line with one part replaced."""
    event = json_object(line)
    if event is None:
        return line[: draw(st.integers(0, len(line)))]
    changed = copy.deepcopy(dict(event))
    *above, last = draw(st.sampled_from(_places(changed)))
    here: Any = changed
    for key in above:
        here = here[key]
    here[last] = draw(_JSON)
    return json.dumps(changed)


@pytest.mark.parametrize("program", PROGRAMS)
@settings(max_examples=60)
@given(data=st.data())
def test_no_line_stops_a_reader(program: CliProgram, tmp_path_factory: pytest.TempPathFactory, data: Any) -> None:
    """Events of other versions and shapes are recorded or left out, and the transcript can be read back."""
    folder = tmp_path_factory.mktemp("read")
    chosen = data.draw(st.lists(st.sampled_from(_LINES[program]), max_size=4))
    lines = [_changed(line, data.draw) for line in chosen]
    with Transcript(folder / "t.jsonl") as transcript:
        record = Record(
            transcript, reader_of(program, folder), Limits(turns=3, tokens=100, cost_usd=1.0), Redaction(())
        )
        record.hear("\n".join(lines).encode(errors="replace"))
        record.end()
        assert record.sum_spent(1.0).input_tokens >= 0
        assert read_transcript(folder / "t.jsonl") == transcript.entries
