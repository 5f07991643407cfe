"""
Going on where another process stopped: the transcript of an attempt, with what an interrupted one left in the hub.

An attempt goes on with an earlier delivery of its own, or with the interrupted attempt that its order names. Turns that
an earlier process had, and that never got into the hub, are asked for again; what they used is counted all the same
where this host still has their transcript.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workers.bench import Bench, transcript_path
from workers.messages import Limits, Spent, WorkOrder
from workers.meter import Meter
from workers.progress import Progress, read_progress
from workers.settings import Settings
from workers.transcript import (
    Entry,
    Resumed,
    Started,
    Transcript,
    TranscriptWrong,
    now,
    parse_transcript,
    read_transcript,
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
    found = own or _kept_earlier(bench)
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


def told_so_far(order: WorkOrder, settings: Settings) -> dict[str, Any]:
    """What a result without an answer of the agent's says: what its models used, as the transcript has it."""
    path = transcript_path(order, settings)
    try:
        entries = read_transcript(path)
    except (OSError, TranscriptWrong):
        entries = []
    if not entries:
        return {}
    includes = attempts_in(entries, but=order.attempt)
    # Who finds nothing in the hub to go on with begins anew: there is no harm in looking.
    return {"spent": Meter.of(Limits(), entries).spent, "includes": includes, "resumable": True}


def _kept_earlier(bench: Bench) -> Progress | None:
    """
    Of the attempt that the order names; where that was interrupted before it had put anything into the hub, of the one
    that it went on with itself. Not of one that came back with reasons: what it did was judged.
    """
    newest = bench.order.resumes
    if newest is None:
        return None
    judged = max((reason.attempt for reason in bench.order.reasons), default=0)
    attempts = range(newest, judged, -1)
    return next((found for attempt in attempts if (found := _kept(bench, attempt)) is not None), None)


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
