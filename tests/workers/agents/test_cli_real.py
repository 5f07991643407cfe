"""The real programs, where they are installed, against a local server. None of them ever reaches a vendor."""

import sys
from pathlib import Path
from typing import get_args

import pytest

sys.path.append(str(Path(__file__).parent))

from cli_kit import KEY, MODELS, Place, addresses, folder_of, writes_b
from vendors.server import VendorServer

from workers.messages import CliProgram
from workers.transcript import Answered, Finished, Said, Started, read_transcript

PROGRAMS = get_args(CliProgram)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_edits_a_file(program: CliProgram, tmp_path: Path) -> None:
    """Given a task, a key and a server's address, it changes the worktree, commits nothing and leaves nothing else."""
    place, path = Place(tmp_path / "p", program), folder_of(program)
    with VendorServer(writes_b(place.worktree), strict=False) as server:
        answer = place.perform(path=path, given=addresses(server.url))
    assert server.invalid == []
    assert (answer.ended, answer.detail) == ("finished", f"{program} finished")
    assert "b.txt has the new word." in answer.claimed_summary
    assert place.changed() == ["b.txt"]
    assert (place.worktree / "b.txt").read_text() == "new\n"
    assert place.git("rev-list", "--all", "--count") == "1\n"
    assert {seen.key for seen in server.seen} == {KEY}
    assert "Put the word new into b.txt." in "".join(server.seen[0].texts)
    assert answer.models == (MODELS[program],)
    assert answer.spent.turns == (1 if program == "aider" else 2)
    assert answer.spent.input_tokens > 100
    _is_whole(place, program)


def _is_whole(place: Place, program: CliProgram) -> None:
    """What was asked, what was said and done, and the end, in the transcript."""
    entries = [entry for entry in read_transcript(place.folder / "logs" / "transcript.jsonl")]
    assert isinstance(entries[0], Started)
    assert isinstance(entries[-1], Finished)
    turns = [entry.turn for entry in entries if isinstance(entry, Said)]
    calls = {call.id for turn in turns for call in turn.calls}
    assert calls == {entry.result.call_id for entry in entries if isinstance(entry, Answered)}
    assert bool(calls) == (program != "aider")
    assert KEY not in (place.folder / "logs" / "transcript.jsonl").read_text()
