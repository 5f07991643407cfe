"""One submission, followed through its queue to its end. No terminal in here."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from forgepool.orchestrator.launch.prerequisites import CannotReach
from forgepool.orchestrator.merge_queue.remote.hub import HubLook, HubQueue
from forgepool.orchestrator.merge_queue.submit import Submitted
from forgepool.orchestrator.reports.queue_board import BoardEntry
from forgepool.worktrees.git.git import GitFailed

LOOK_S = 1.5
"""Seconds between two looks at the hub."""
LOOKS_GONE = 4
"""Looks in a row at which neither the hub nor the board has an entry: a board may be late, or unreadable."""
PATIENCE_S = 600.0
"""Seconds for which a hub that does not answer is asked again."""

Outcome = Literal["landed", "returned"]
_WORDS = {"waits": "queued", "tested": "testing"}


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryProgress:
    """A line for the person who waits; with the outcome, it is the last one."""

    line: str
    outcome: Outcome | None = None
    entry: BoardEntry | None = None
    is_gone: bool = False
    """Neither the hub nor the board has it. It is believed after some looks."""


def follow_entry(queue: HubQueue, mine: Submitted) -> Iterator[EntryProgress]:
    """
    Each change, until the entry has landed or was returned.

    Raises:
        CannotReach: the hub has not answered for a long time.
    """
    before, answered, gone = "", time.monotonic(), 0
    while True:
        try:
            progress = progress_of(queue, queue.look(), mine)
            answered = time.monotonic()
        except GitFailed as trouble:
            progress = EntryProgress(line=f"the hub does not answer, and is asked again: {trouble}")
            if time.monotonic() > answered + PATIENCE_S:
                raise CannotReach(
                    f"{mine.hub} has not answered for {PATIENCE_S / 60:.0f} minutes: {trouble}"
                ) from trouble
        gone = gone + 1 if progress.is_gone else 0
        if 0 < gone < LOOKS_GONE:
            time.sleep(LOOK_S)
            continue
        if progress.line != before:
            yield progress
        if progress.outcome is not None:
            return
        before = progress.line
        time.sleep(LOOK_S)


def progress_of(queue: HubQueue, look: HubLook, mine: Submitted) -> EntryProgress:
    """Raises GitFailed where the hub cannot be asked what has landed."""
    entry = look.entry(mine.name)
    if look.submitted.get(mine.ref) == mine.tag:
        waits = "queued; the queue takes it in when it looks at the hub again"
        late = f"queued; {look.silence}, and it will be picked up when one starts"
        return EntryProgress(line=late if look.silence else waits)
    if look.board is None:
        if queue.contains(look, mine.commit):
            return EntryProgress(line=f"landed; {mine.target} has it", outcome="landed")
        if mine.ref in look.submitted or look.silence:
            return _gone(look, mine)
        return EntryProgress(line=f"the queue of {mine.target} does not show here how entries stand; ask on its host")
    refused = [one.why for one in look.board.refused if one.name == mine.name and one.commit == mine.commit]
    if entry is None or (refused and entry.stand.commit != mine.commit):
        return _not_there(queue, look, mine, refused[-1] if refused else "")
    if entry.stand.commit != mine.commit:
        return EntryProgress(line=f"returned; {entry.stand.commit[:12]} was submitted in its place", outcome="returned")
    return _standing(queue, look, mine, entry)


def _not_there(queue: HubQueue, look: HubLook, mine: Submitted, why: str) -> EntryProgress:
    if queue.contains(look, mine.commit):
        return EntryProgress(line=f"landed; {mine.target} has {mine.commit[:12]} already", outcome="landed")
    if why:
        return EntryProgress(line=f"returned; it was not taken in: {why}", outcome="returned")
    in_line = sum(one.stand.place is not None for one in look.board.entries) if look.board is not None else 0
    if mine.ref not in look.submitted and look.board is not None and look.board.in_line > in_line:
        return EntryProgress(line="queued; it stands behind those that the queue shows here")
    return _gone(look, mine)


def _gone(look: HubLook, mine: Submitted) -> EntryProgress:
    """Tell of what neither the hub nor the queue has: a queue shows an entry before it takes the ref away."""
    what = (
        "another submission was made in its place"
        if mine.ref in look.submitted
        else "it was withdrawn before a queue took it in"
    )
    return EntryProgress(line=f"returned; {what}", outcome="returned", is_gone=True)


def _standing(queue: HubQueue, look: HubLook, mine: Submitted, entry: BoardEntry) -> EntryProgress:
    stand = entry.stand
    if stand.state == "landed" and stand.code == "lost":
        return EntryProgress(line=f"returned; {stand.why}", outcome="returned", entry=entry)
    if stand.state == "landed":
        if queue.has_landed(look, mine.name, mine.commit, mine.tip):
            return EntryProgress(line=f"landed as {stand.landed_as[:12]}", outcome="landed", entry=entry)
        where = f"{mine.target} does not have {stand.landed_as[:12]}"
        return EntryProgress(line=f"the queue says that it has landed, and {where}; it is asked again")
    if stand.state in ("returned", "withdrawn"):
        why = stand.why if stand.state == "returned" else "withdrawn"
        return EntryProgress(line=f"returned; {why}", outcome="returned", entry=entry)
    quiet = f" ({look.silence})" if look.silence else ""
    return EntryProgress(line=f"{_WORDS.get(stand.state, stand.state)}; {stand.why}{quiet}")
