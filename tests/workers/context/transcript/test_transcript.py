from pathlib import Path

import pytest

from forgepool.workers.context.transcript.entries import (
    Answered,
    ConversationStarted,
    Entry,
    Finished,
    Transcript,
    TranscriptWrong,
    TurnSaid,
    conversation,
    read_transcript,
)
from forgepool.workers.llm.messages import Text, ToolCall, ToolResult, Turn, user
from forgepool.workers.schema.orders import Spent

STARTED = ConversationStarted(at=1.0, order_id="r.t.1", model="scripted", system=("be good",), tools=("bash",))
CARD = user(Text(text="the task: ünïcode\nand lines"))
CALLING = Turn(role="assistant", parts=(ToolCall(id="a", name="bash"), ToolCall(id="b", name="bash")))
ENTRIES: list[Entry] = [
    STARTED,
    TurnSaid(at=2.0, turn=CARD),
    TurnSaid(at=3.0, turn=CALLING),
    Answered(at=4.0, iteration=1, seconds=0.5, result=ToolResult(call_id="a", text="one")),
    Answered(at=5.0, iteration=1, seconds=0.5, result=ToolResult(call_id="b", text="two", is_error=True)),
    TurnSaid(at=6.0, turn=Turn(role="assistant", parts=(Text(text="well"),))),
]


def write(path: Path, entries: list[Entry]) -> None:
    with Transcript(path) as transcript:
        for entry in entries:
            transcript.append(entry)


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    """All entries are equal and in order. Opening the file again appends to it."""
    write(tmp_path / "below" / "t.jsonl", ENTRIES[:3])
    write(tmp_path / "below" / "t.jsonl", ENTRIES[3:])
    assert read_transcript(tmp_path / "below" / "t.jsonl") == ENTRIES


def test_an_entry_is_in_the_file_before_append_returns(tmp_path: Path) -> None:
    """A process killed right afterwards loses nothing, because there is no buffer."""
    with Transcript(tmp_path / "t.jsonl") as transcript:
        for number, entry in enumerate(ENTRIES, start=1):
            transcript.append(entry)
            assert len(read_transcript(tmp_path / "t.jsonl")) == number


def test_a_torn_last_line_is_ignored_at_every_byte(tmp_path: Path) -> None:
    """Wherever a writer was killed, the complete entries are read, and another writer continues after them."""
    write(tmp_path / "whole.jsonl", ENTRIES[:3])
    whole = (tmp_path / "whole.jsonl").read_bytes()
    torn = tmp_path / "torn.jsonl"
    for size in range(len(whole) + 1):
        torn.write_bytes(whole[:size])
        kept = whole[:size].count(b"\n")
        assert read_transcript(torn) == ENTRIES[:kept]
        write(torn, [ENTRIES[5]])
        assert read_transcript(torn) == [*ENTRIES[:kept], ENTRIES[5]]


def test_a_long_torn_line_is_forgotten(tmp_path: Path) -> None:
    """The torn line is longer than one read of the file's end."""
    write(tmp_path / "t.jsonl", ENTRIES[:1])
    with (tmp_path / "t.jsonl").open("ab") as file:
        file.write(b'{"kind": "said' + b"x" * 200_000)
    write(tmp_path / "t.jsonl", ENTRIES[1:2])
    assert read_transcript(tmp_path / "t.jsonl") == ENTRIES[:2]


def test_a_spoilt_line_before_the_last_is_not_passed_over(tmp_path: Path) -> None:
    """An interruption cannot cause it: the file was changed, and the error names the line."""
    write(tmp_path / "t.jsonl", ENTRIES[:1])
    with (tmp_path / "t.jsonl").open("ab") as file:
        file.write(b"not an entry\n")
    with pytest.raises(TranscriptWrong, match=r"t\.jsonl:2: not an entry"):
        read_transcript(tmp_path / "t.jsonl")


def test_no_file_is_no_entries(tmp_path: Path) -> None:
    assert read_transcript(tmp_path / "none.jsonl") == []


def test_results_are_joined_into_the_turn_the_model_is_shown() -> None:
    """Results follow in one user's turn, in the order of the calls."""
    turns = conversation(ENTRIES)
    assert [turn.role for turn in turns] == ["user", "assistant", "user", "assistant"]
    assert [(result.call_id, result.text) for result in turns[2].results] == [("a", "one"), ("b", "two")]


def test_a_conversation_is_what_was_said_since_the_last_start() -> None:
    """An earlier interrupted one in the file does not count."""
    finished = Finished(at=9.0, ended="finished", detail="done", spent=Spent())
    assert conversation([*ENTRIES, STARTED, *ENTRIES[1:4], finished]) == conversation(ENTRIES[:4])


def test_a_transcript_is_for_its_owner_only(tmp_path: Path) -> None:
    """It may contain anything that was in the files."""
    write(tmp_path / "t.jsonl", ENTRIES)
    assert (tmp_path / "t.jsonl").stat().st_mode & 0o077 == 0
