"""
Going on where another process stopped: the transcript of an attempt, with what an interrupted one left in the hub.

An attempt goes on with an earlier delivery of its own, or with the interrupted attempt that its order names. Turns that
an earlier process had, and that never got into the hub, are asked for again; what they used is counted all the same
where this host still has their transcript.
"""

from dataclasses import dataclass
from pathlib import Path

from workers.bench import Bench
from workers.messages import Limits, Spent
from workers.meter import Meter
from workers.progress import Progress, read_progress
from workers.transcript import (
    Entry,
    Resumed,
    Started,
    Transcript,
    TranscriptWrong,
    now,
    parse_transcript,
)
from worktrees.git import CommitId


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """An open transcript, and where the attempt's own progress ref is now."""

    transcript: Transcript
    tip: CommitId | None


def begin(bench: Bench) -> Beginning:
    """
    The attempt's transcript, with the files as it left them; a fresh one and the base's files where nothing is kept.

    Raises:
        GitFailed: the hub could not be asked.
    """
    path = bench.transcript
    delivered_before = path.exists() or bench.order.resent
    own = _kept(bench, bench.order.attempt) if delivered_before else None
    earlier = bench.order.resumes
    found = own or (_kept(bench, earlier) if earlier is not None else None)
    left = _left_here(bench, found) if found else b""
    _set_aside(path)
    if found is None:
        return Beginning(transcript=Transcript(path), tip=None)
    bench.checkout.take(found.files)
    path.write_bytes(found.transcript)
    transcript = Transcript(path)
    transcript.append(Resumed(at=now(), order_id=bench.order.order_id, lost=_used(left)))
    return Beginning(transcript=transcript, tip=own.commit if own else None)


def attempts_in(entries: list[Entry], *, but: int) -> tuple[int, ...]:
    """The attempts whose conversations are in a transcript, in their order."""
    ids = [entry.order_id for entry in entries if isinstance(entry, Started | Resumed)]
    found = dict.fromkeys(int(one.rpartition(".")[2]) for one in ids)
    return tuple(one for one in found if one != but)


def _kept(bench: Bench, attempt: int) -> Progress | None:
    """What the hub keeps of an attempt that began where this one does, and can be read."""
    found = read_progress(bench.mirror, bench.order.run, bench.order.task, attempt)
    if found is None or found.base != bench.base:
        return None
    try:
        parse_transcript(found.transcript, "progress")
    except TranscriptWrong:
        return None
    return found


def _left_here(bench: Bench, found: Progress) -> bytes:
    """What this host's own transcript of the attempt has beyond what the hub was given."""
    path = bench.logs.parent / str(found.attempt) / bench.transcript.name
    try:
        data = path.read_bytes()
    except OSError:
        return b""
    return data[len(found.transcript) :] if data.startswith(found.transcript) else b""


def _used(left: bytes) -> Spent:
    try:
        return Meter.of(Limits(), parse_transcript(left, "transcript")).spent
    except TranscriptWrong:
        return Spent()


def _set_aside(path: Path) -> None:
    """The transcript of an earlier delivery stays readable, under another name."""
    if not path.exists():
        return
    number = 1
    while (other := path.with_name(f"transcript-{number}.jsonl")).exists():
        number += 1
    path.rename(other)
