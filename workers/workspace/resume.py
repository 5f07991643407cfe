"""
Resumes where another process stopped, from the checkpoint that it left in the hub.

An attempt resumes an earlier delivery of its own, or the interrupted attempt that its order names. Turns that never got
into the hub are asked for again; their usage still counts where this host has their transcript.
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
from forgepool.workers.schema.orders import BuiltinAgent, Limits, ScriptedAgent, Spent, WorkOrder
from forgepool.workers.schema.settings import Settings
from forgepool.workers.workspace.checkpoints import AttemptProgress, read_progress
from forgepool.workers.workspace.workspace import Workspace, transcript_path
from forgepool.worktrees.git.git import CommitId


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """An open transcript, and the commit that the attempt's own progress ref points to."""

    transcript: Transcript
    tip: CommitId | None
    resumed: bool = False
    """True when it goes on with a conversation."""


def begin(workspace: Workspace) -> Beginning:
    """
    Restore the transcript and files of the checkpoint, if there is one; else begin with the base's files.

    Raises:
        GitFailed: the hub could not be reached.
    """
    path = workspace.transcript
    own = _kept(workspace, workspace.order.attempt)
    checkpoint = own or _kept_earlier(workspace)
    lost, counted = _lost_here(workspace, checkpoint)
    if checkpoint is not None:
        workspace.checkout.take(checkpoint.files)
    text = checkpoint.transcript if checkpoint is not None else b""
    if checkpoint is not None or counted:
        resumed = Resumed(at=now(), order_id=workspace.order.order_id, lost=lost, counted=counted)
        text += resumed.model_dump_json().encode() + b"\n"
    _write_whole(path, text)
    return Beginning(transcript=Transcript(path), tip=own.commit if own else None, resumed=checkpoint is not None)


def _write_whole(path: Path, data: bytes) -> None:
    """Replace the file at once; its earlier content stays readable under another name."""
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
    """Return the attempts whose conversations are in a transcript, in order, without attempt `but`."""
    ids = [entry.order_id for entry in entries if isinstance(entry, ConversationStarted | Resumed)]
    counted = [attempt for entry in entries if isinstance(entry, Resumed) for attempt in entry.counted]
    attempts = dict.fromkeys([*(int(order_id.rpartition(".")[2]) for order_id in ids), *counted])
    return tuple(attempt for attempt in attempts if attempt != but)


def sum_carried_in(entries: Sequence[Entry], *, attempt: int) -> Spent:
    """Return the usage of other attempts in a conversation before this attempt resumed it."""
    if not attempts_in([*entries], but=attempt):
        return Spent()
    for at, entry in enumerate(entries):
        if isinstance(entry, ConversationStarted | Resumed) and int(entry.order_id.rpartition(".")[2]) == attempt:
            # Its `Resumed` entry includes the turns before its own that the hub lost.
            return Meter.of(Limits(), entries[: at + 1]).spent
    return Meter.of(Limits(), entries).spent


def sum_carried_over(order: WorkOrder, settings: Settings) -> Spent | None:
    """Return the usage carried over, read from this host's transcript; None where that cannot be read."""
    try:
        return sum_carried_in(read_transcript(transcript_path(order, settings)), attempt=order.attempt)
    except (OSError, TranscriptWrong):
        return None


def limits_with(order: WorkOrder, entries: Sequence[Entry]) -> Limits:
    """Return the order's limits, less the carried-over usage they allow for that the transcript does not show."""
    shown, limits = sum_carried_in(entries, attempt=order.attempt), order.limits
    usd = max(0.0, (order.carried.cost_usd or 0.0) - (shown.cost_usd or 0.0))
    tokens = max(0, order.carried.tokens - shown.tokens)
    return limits.model_copy(
        update={
            "cost_usd": None if limits.cost_usd is None else limits.cost_usd - usd,
            "tokens": None if limits.tokens is None else limits.tokens - tokens,
        }
    )


def sum_so_far(order: WorkOrder, settings: Settings) -> dict[str, Any]:
    """Return the fields of a result without an agent's answer: its models' usage, read from the transcript."""
    path = transcript_path(order, settings)
    try:
        entries = read_transcript(path)
    except (OSError, TranscriptWrong):
        entries = []
    if not entries:
        return {}
    includes = attempts_in(entries, but=order.attempt)
    # It does no harm: an attempt that finds no checkpoint in the hub begins anew.
    resumable = isinstance(order.agent, BuiltinAgent | ScriptedAgent)
    spent, carried = Meter.of(Limits(), entries).spent, sum_carried_in(entries, attempt=order.attempt)
    return {"spent": spent, "includes": includes, "carried": carried, "resumable": resumable}


def _kept_earlier(workspace: Workspace) -> AttemptProgress | None:
    """
    Return the checkpoint of the attempt that the order resumes, or of one before it that it had resumed itself.

    Attempts that came back with reasons are left out: their work was judged.
    """
    newest = workspace.order.resumes
    if newest is None:
        return None
    judged = max((reason.attempt for reason in workspace.order.reasons), default=0)
    attempts = range(newest, judged, -1)
    return next(filter(None, (_kept(workspace, attempt) for attempt in attempts)), None)


def _kept(workspace: Workspace, attempt: int) -> AttemptProgress | None:
    """Return an attempt's checkpoint up to its last complete turn; None where it began from another base."""
    progress = read_progress(workspace.mirror, workspace.order.run, workspace.order.task, attempt)
    if progress is None or progress.base != workspace.base:
        return None
    try:
        entries = parse_transcript(progress.transcript, "progress")
    except TranscriptWrong:
        return None
    whole = next((at for at in range(len(entries), 0, -1) if isinstance(entries[at - 1], CheckpointKept)), 0)
    lines = progress.transcript.split(b"\n")[:whole]
    return replace(progress, transcript=b"".join(line + b"\n" for line in lines)) if whole else None


def _lost_here(workspace: Workspace, checkpoint: AttemptProgress | None) -> tuple[Spent, tuple[int, ...]]:
    """
    Return the usage of turns that the checkpoint lacks, and the other attempts that had them.

    The newest transcript on this host tells of them, and of those before it.
    """
    known = checkpoint.transcript if checkpoint is not None else b""
    newest = workspace.order.resumes or workspace.order.attempt
    first = min(newest, checkpoint.attempt) if checkpoint is not None else newest
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
