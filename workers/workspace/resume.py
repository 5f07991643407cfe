"""
Going on where another process stopped: the transcript of an attempt, with what an interrupted one left in the hub.

An attempt goes on with an earlier delivery of its own, or with the interrupted attempt that its order names. Turns that
an earlier process had, and that never got into the hub, are asked for again; what they used is counted all the same
where this host still has their transcript.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from forgepool.workers.context.transcript.entries import (
    CheckpointKept,
    ConversationStarted,
    Entry,
    Resumed,
    Transcript,
    TranscriptWrong,
    TurnSaid,
    now,
    parse_transcript,
    read_transcript,
)
from forgepool.workers.context.transcript.usage import Meter
from forgepool.workers.schema.orders import Limits, Spent, WorkOrder
from forgepool.workers.schema.settings import Settings
from forgepool.workers.workspace.checkpoints import AttemptProgress, read_progress
from forgepool.workers.workspace.workspace import Workspace, transcript_path
from forgepool.worktrees.git.git import CommitId


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """An open transcript, and where the attempt's own progress ref is now."""

    transcript: Transcript
    tip: CommitId | None
    resumed: bool = False
    """Whether it goes on with a conversation."""


def begin(workspace: Workspace) -> Beginning:
    """
    The attempt's transcript, with the files as it left them; a fresh one and the base's files where nothing is kept.

    Raises:
        GitFailed: the hub could not be asked.
    """
    path = workspace.transcript
    own = _kept(workspace, workspace.order.attempt)
    found = own or _kept_earlier(workspace)
    lost, counted = _lost_here(workspace, found)
    if found is not None:
        workspace.checkout.take(found.files)
    text = found.transcript if found is not None else b""
    if found is not None or counted:
        resumed = Resumed(at=now(), order_id=workspace.order.order_id, lost=lost, counted=counted)
        text += resumed.model_dump_json().encode() + b"\n"
    _write_whole(path, text)
    return Beginning(transcript=Transcript(path), tip=own.commit if own else None, resumed=found is not None)


def _write_whole(path: Path, data: bytes) -> None:
    """All of it at once; what was there before stays readable, under another name."""
    fresh = path.with_name(f"{path.name}.new")
    file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(file, "wb") as opened:
        opened.write(data)
    if path.exists():
        number = 1
        while (other := path.with_name(f"{path.stem}-{number}{path.suffix}")).exists():
            number += 1
        other.hardlink_to(path)
    fresh.replace(path)


def attempts_in(entries: list[Entry], *, but: int) -> tuple[int, ...]:
    """The attempts whose conversations are in a transcript, in their order."""
    ids = [entry.order_id for entry in entries if isinstance(entry, ConversationStarted | Resumed)]
    counted = [one for entry in entries if isinstance(entry, Resumed) for one in entry.counted]
    found = dict.fromkeys([*(int(one.rpartition(".")[2]) for one in ids), *counted])
    return tuple(one for one in found if one != but)


def sum_carried_in(entries: Sequence[Entry], *, attempt: int) -> Spent:
    """What other attempts had used of a conversation when this one went on with it."""
    if not attempts_in([*entries], but=attempt):
        return Spent()
    for at, entry in enumerate(entries):
        if isinstance(entry, ConversationStarted | Resumed) and int(entry.order_id.rpartition(".")[2]) == attempt:
            # What was lost to the hub is told by whoever goes on: of turns before its own.
            return Meter.of(Limits(), entries[: at + 1]).spent
    return Meter.of(Limits(), entries).spent


def sum_carried_over(order: WorkOrder, settings: Settings) -> Spent | None:
    """As its transcript on this host tells; None where that cannot be read."""
    try:
        return sum_carried_in(read_transcript(transcript_path(order, settings)), attempt=order.attempt)
    except (OSError, TranscriptWrong):
        return None


def limits_with(order: WorkOrder, entries: Sequence[Entry]) -> Limits:
    """Its limits, less what they allow for as used already and is not found so: it may use no more by itself."""
    found, limits = sum_carried_in(entries, attempt=order.attempt), order.limits
    usd = max(0.0, (order.carried.cost_usd or 0.0) - (found.cost_usd or 0.0))
    tokens = max(0, order.carried.tokens - found.tokens)
    return limits.model_copy(
        update={
            "cost_usd": None if limits.cost_usd is None else limits.cost_usd - usd,
            "tokens": None if limits.tokens is None else limits.tokens - tokens,
        }
    )


def sum_so_far(order: WorkOrder, settings: Settings) -> dict[str, Any]:
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
    spent, carried = Meter.of(Limits(), entries).spent, sum_carried_in(entries, attempt=order.attempt)
    return {"spent": spent, "includes": includes, "carried": carried, "resumable": True}


def _kept_earlier(workspace: Workspace) -> AttemptProgress | None:
    """
    Of the attempt that the order names; where that was interrupted before it had put anything into the hub, of the one
    that it went on with itself. Not of one that came back with reasons: what it did was judged.
    """
    newest = workspace.order.resumes
    if newest is None:
        return None
    judged = max((reason.attempt for reason in workspace.order.reasons), default=0)
    attempts = range(newest, judged, -1)
    return next((found for attempt in attempts if (found := _kept(workspace, attempt)) is not None), None)


def _kept(workspace: Workspace, attempt: int) -> AttemptProgress | None:
    """What the hub keeps of an attempt that began where this one does, up to the last turn that was complete."""
    found = read_progress(workspace.mirror, workspace.order.run, workspace.order.task, attempt)
    if found is None or found.base != workspace.base:
        return None
    try:
        entries = parse_transcript(found.transcript, "progress")
    except TranscriptWrong:
        return None
    whole = next((at for at in range(len(entries), 0, -1) if isinstance(entries[at - 1], CheckpointKept)), 0)
    lines = found.transcript.split(b"\n")[:whole]
    return replace(found, transcript=b"".join(line + b"\n" for line in lines)) if whole else None


def _lost_here(workspace: Workspace, found: AttemptProgress | None) -> tuple[Spent, tuple[int, ...]]:
    """
    What was used by turns that are not in what is gone on with, as the newest transcript this host has of them tells,
    which tells of those before it too; and by which other attempts.
    """
    known = found.transcript if found is not None else b""
    newest = workspace.order.resumes or workspace.order.attempt
    first = min(newest, found.attempt) if found is not None else newest
    for attempt in (workspace.order.attempt, *range(newest, first - 1, -1)):
        data = _local(workspace, attempt)
        beyond = data[len(known) :] if data.startswith(known) else b""
        entries = _readable(beyond)
        spent = Meter.of(Limits(), entries).spent
        if spent != Spent() or any(isinstance(entry, TurnSaid | Resumed) for entry in entries):
            others = {attempt, *attempts_in(entries, but=workspace.order.attempt)} - {workspace.order.attempt}
            return spent, tuple(sorted(others))
    return Spent(), ()


def _local(workspace: Workspace, attempt: int) -> bytes:
    path = workspace.logs.parent / str(attempt) / workspace.transcript.name
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _readable(data: bytes) -> list[Entry]:
    try:
        return parse_transcript(data, "transcript")
    except TranscriptWrong:
        return []
