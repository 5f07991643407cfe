"""Programs with hostile output: floods, disguised keys, impossible numbers and dates."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_kit import KEY, Place, reader_of
from hypothesis import given, settings
from hypothesis import strategies as st

from forgepool.workers.agents.cli.output import failure, likely, reset_time
from forgepool.workers.agents.cli.performing import PROGRAMS
from forgepool.workers.agents.cli.program import Closed, Used, UsedInAll
from forgepool.workers.agents.cli.record import Record, Redaction
from forgepool.workers.context.transcript.entries import Finished, Noted, Transcript, read_transcript
from forgepool.workers.schema.orders import CliProgram, Limits


@pytest.fixture
def transcript(tmp_path: Path) -> Iterator[Transcript]:
    with Transcript(tmp_path / "t.jsonl") as made:
        yield made


def _record(transcript: Transcript, program: CliProgram) -> Record:
    return Record(transcript, reader_of(program, transcript.path.parent), Limits(), Redaction([KEY]))


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_flood_ends_with_the_wall_clock(tmp_path: Path, program: CliProgram) -> None:
    """However fast it prints, the time limit holds, and the recorded remarks are bounded."""
    place = Place(tmp_path / "p", program, limits=Limits(wall_s=1, idle_s=60))
    place.stand_in("exec yes 'Warning: y'")
    began = time.monotonic()
    answer = place.perform()
    assert answer.ended == "timeout"
    assert time.monotonic() - began < 10
    transcript = place.folder / "logs" / "transcript.jsonl"
    assert sum(isinstance(each, Noted) for each in read_transcript(transcript)) == 1_000


def test_the_latest_remarks_are_kept_and_no_more(transcript: Transcript) -> None:
    """The last ones may say why it ended. Earlier ones are in the transcript."""
    record = _record(transcript, "claude")
    record.hear(b"".join(f"remark {number}\n".encode() for number in range(100)))
    assert list(record.remarks) == [f"remark {number}" for number in range(60, 100)]


def test_short_lines_are_cut_in_linear_time(transcript: Transcript) -> None:
    """Megabytes of short lines arrive at once."""
    record = _record(transcript, "codex")
    began = time.process_time()
    record.hear((b"y" * 40 + b"\n") * 100_000)
    assert time.process_time() - began < 8


def test_a_transcript_that_is_full_ends_the_program(transcript: Transcript) -> None:
    """It counts as a limit like any other."""
    record = _record(transcript, "codex")
    line = json.dumps({"type": "item.completed", "item": {"id": "1", "type": "agent_message", "text": "x" * 30_000}})
    for _ in range(200):
        record.hear(f"{line}\n".encode() * 50)
        if record.enough:
            break
    assert record.over == "said more than a transcript can hold"
    assert transcript.size < 130 * 1024 * 1024


@pytest.mark.parametrize(
    "written",
    [
        KEY,
        "".join(f"\\u{ord(each):04x}" for each in KEY),
        KEY.replace("-", "\\u002d"),
        f"{KEY[:9]}\\n{KEY[9:]}",
        "x" * 15_996 + KEY + "y" * 30_000,
    ],
)
def test_a_key_is_taken_out_however_it_is_written(tmp_path: Path, written: str) -> None:
    """It is removed from transcript, log, summary and detail: escaped, split over two lines, or at a cut."""
    place = Place(tmp_path / "p", "codex")
    said = f'{{"type":"item.completed","item":{{"id":"1","type":"agent_message","text":"it is {written}"}}}}'
    (tmp_path / "said").write_text(f'{said}\n{{"type":"turn.completed","usage":{{}}}}\n')
    place.stand_in(f"cat {tmp_path / 'said'}")
    answer = place.perform()
    assert answer.ended == "finished"
    logs = place.folder / "logs"
    seen = [answer.claimed_summary, answer.detail, answer.log_tail, (logs / "agent.log").read_text()]
    seen += [each.summary for each in read_transcript(logs / "transcript.jsonl") if isinstance(each, Finished)]
    seen += [(logs / "transcript.jsonl").read_text()]
    for text in seen:
        assert KEY[:-3] not in text.replace("\\n", "").replace("\n", "")
    assert "[key]" in (logs / "agent.log").read_text() or len(written) > 1000


@pytest.mark.parametrize(
    ("line", "cost", "tokens"),
    [
        ("Tokens: 1k sent, 2 received. Cost: $1.2.3 message, $1 session.", None, 1_002),
        ("Tokens: 1k sent, 2 received. Cost: $0.25 message, $1 session.", 0.25, 1_002),
        (f"Tokens: {'9' * 400} sent, 2 received. Cost: ${'9' * 400} message, $1 session.", None, 2),
        ("Tokens: ,., sent, 1.5M received.", None, 1_500_000),
    ],
)
def test_aiders_numbers_are_believed_within_reason(tmp_path: Path, line: str, cost: float | None, tokens: int) -> None:
    """A number that cannot be read or cannot be true is unknown."""
    used = [each for each in reader_of("aider", tmp_path).read(line) if isinstance(each, Used)]
    assert [(each.usage.cost_usd, each.usage.input_tokens + each.usage.output_tokens) for each in used] == [
        (cost, tokens)
    ]


@pytest.mark.parametrize("cost", [-1.0, 1e12])
def test_a_cost_that_cannot_be_is_unknown(tmp_path: Path, cost: float) -> None:
    """Negative or enormous token counts are unknown, too."""
    event = {
        "type": "result",
        "total_cost_usd": cost,
        "modelUsage": {"m": {"inputTokens": -5, "outputTokens": 10**30}},
    }
    used = [each for each in reader_of("claude", tmp_path).read(json.dumps(event)) if isinstance(each, UsedInAll)]
    assert [(each.usage.cost_usd, each.usage.input_tokens, each.usage.output_tokens) for each in used] == [(None, 0, 0)]


@pytest.mark.parametrize(
    "text",
    [
        "usage limit reached, resets at 2026-02-31 10:00 UTC",
        "usage limit reached, try again in 1.2.3 hours",
        "hit your limit, resets Feb 31, 1pm (UTC)",
        f"hit your limit, try again in {'9' * 400} hours",
        "hit your limit · resets 99:99pm (No/Where)",
    ],
)
def test_dates_that_do_not_exist_are_no_dates(text: str) -> None:
    """No exception is raised."""
    assert reset_time(text, time.time()) in (None, float("inf"))
    assert failure(text).resets_at is None or failure(text).resets_at < time.time() + 36 * 86_400  # type: ignore[operator]


def test_a_reset_is_within_what_limits_last() -> None:
    """A wrong date shuts a program off neither for a century nor for a time in the past."""
    now = time.time()
    assert (likely(now + 1e9, now), likely(now - 5, now), likely(None, now)) == (now + 35 * 86_400, now, None)
    assert likely(now + 60, now) == now + 60
    shut = failure("Claude AI usage limit reached|9999999999").resets_at
    assert shut is not None
    assert shut < now + 36 * 86_400


@pytest.mark.parametrize("program", PROGRAMS)
@settings(max_examples=60, deadline=None)
@given(
    lines=st.lists(
        st.sampled_from(["Tokens: 1 sent, 1 received.", "litellm.XError x", "Applied edit to b"])
        | st.text(max_size=30).map(lambda text: f"litellm.RateLimitError: usage limit reached, resets {text}")
        | st.from_regex(r"Tokens: [\d.,]{1,9}[kM]? sent, [\d.,]{1,9} received\.( Cost: \$[\d.]{1,9} message, )?")
        | st.text(max_size=30),
        max_size=6,
    )
)
def test_plain_words_stop_no_reader(
    program: CliProgram, tmp_path_factory: pytest.TempPathFactory, lines: list[str]
) -> None:
    """Each reader continues after any line."""
    reader = reader_of(program, tmp_path_factory.mktemp("words"))
    for line in lines:
        list(reader.read(line))


def test_a_report_within_aiders_answer_is_not_its_end(tmp_path: Path) -> None:
    """The model may print that line itself, so only the last text counts, except for the names of edited files."""
    reader = reader_of("aider", tmp_path)
    report = "Tokens: 1 sent, 1 received."

    def last(*lines: str) -> Closed:
        return [each for line in lines for each in reader.read(line) if isinstance(each, Closed)][-1]

    assert last("I shall say:", report, "and then do it").failure is not None
    assert last("more", report).failure is None
    assert last("b.txt").failure is not None
    assert last("Applied edit to b.txt").failure is None
