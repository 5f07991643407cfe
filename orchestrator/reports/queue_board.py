"""
The board of a queue: how its entries stand, as everybody reads it who does not share the queue's home.

The queue keeps it in the hub as one blob, and puts up another only when something has changed. Beside it lies the
queue's sign (`orchestrator.merge_queue.publish`), whose beat says when the queue was last at work. Everybody who
may push to the hub can write both: nothing lands because of them, and a landing they tell of is looked up in the
target's history.
"""

from collections.abc import Mapping
from dataclasses import asdict

from pydantic import BaseModel, ConfigDict, JsonValue

from forgepool.orchestrator.decisions.queue.submissions import entry_name
from forgepool.orchestrator.reports.queue_status import (
    EntryStanding,
    explain_task,
    findings_of,
    frozen_words,
    overload,
    standing_of,
    standings,
)
from forgepool.orchestrator.state.run import RunState, branch_of, with_branches
from forgepool.worktrees.git.git import without_password

BEAT_S = 15
"""Seconds between two beats of a queue's sign."""
BEATS = 24 * 3600 // BEAT_S
"""
A beat is the time of the day, so that a hub keeps no more than these however long a queue stands. The board, which is
put up again every `RENEWED_S`, tells the days apart.
"""
RENEWED_S = 12 * 3600
HEARD_S = 60
"""Seconds after its last beat for which a queue counts as at work."""
GONE_S = 300
"""Seconds after which it counts as gone. In between its clock, or the reader's, may be a little wrong."""

_MOST_IN_LINE = 200
_MOST_ENDED = 60
_MOST_REFUSED = 40
_MOST_LOG = 2000
_MOST_TEXT = 4000
_MOST_FINDINGS = 20


class _Said(BaseModel):
    """A later version may say more."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class BoardEntry(_Said):
    stand: EntryStanding
    explained: str
    reasons: tuple[dict[str, JsonValue], ...] = ()
    """Reasons for which it was returned, the latest last."""
    findings: tuple[dict[str, JsonValue], ...] = ()
    """All that scans found of its change."""

    def as_json(self) -> dict[str, object]:
        return {**asdict(self.stand), "reasons": list(self.reasons), "findings": list(self.findings)}


class BoardRefusal(_Said):
    """A submission that was not taken in."""

    name: str
    commit: str
    why: str


class RequestReply(_Said):
    """The outcome of a request that was pushed to the hub."""

    done: bool
    said: str


class Board(_Said):
    """How one queue stands."""

    gate: str
    target: str
    tip: str
    hub: str = ""
    at: float = 0.0
    """Unix seconds at which it was put up, by the queue's clock."""
    in_line: int = 0
    paused: str = ""
    shut: str = ""
    """The reason for which the queue has paused itself."""
    frozen: str = ""
    """One sentence in a freeze."""
    frozen_until: float | None = None
    overload: str | None = None
    entries: tuple[BoardEntry, ...] = ()
    """Entries in line, in its order; then ended ones, the latest first."""
    refused: tuple[BoardRefusal, ...] = ()
    answers: Mapping[str, RequestReply] = {}
    """Outcomes of requests, by the last word of their refs."""

    def status_json(self) -> dict[str, object]:
        """The answer of `queue status --json`."""
        shown = self.model_dump(include={"gate", "target", "tip", "frozen_until", "overload"})
        entries = [asdict(one.stand) for one in self.entries]
        # `shut` is the word of earlier versions, for a queue that paused itself.
        return {**shown, "paused": self.paused or self.shut, "shut": self.shut, "entries": entries}


def board_of(state: RunState, now: float, trials: int) -> Board:
    """Return all that the journal knows of the queue's entries."""
    return _board(state, now, trials, tuple(_entry(state, one, now) for one in standings(state, now)))


def public_board(state: RunState, now: float, trials: int, answers: Mapping[str, RequestReply]) -> Board:
    """Return the board as it goes into the hub, where each copy costs its size: everything in it has an end."""
    shown = standings(state, now, in_line=_MOST_IN_LINE, ended=_MOST_ENDED)
    board = _board(state, now, trials, tuple(_cut(_entry(state, one, now)) for one in shown))
    return board.model_copy(update={"refused": board.refused[-_MOST_REFUSED:], "answers": dict(answers)})


def _board(state: RunState, now: float, trials: int, entries: tuple[BoardEntry, ...]) -> Board:
    return Board(
        gate=state.run,
        target=state.target,
        tip=state.tip,
        hub=without_password(state.hub),
        at=now,
        in_line=len(state.train.line.entries),
        paused=state.paused,
        shut=state.halted,
        frozen=frozen_words(state, now) or "",
        frozen_until=state.rules.frozen_until(now),
        overload=overload(state, now, trials),
        entries=entries,
        refused=tuple(
            BoardRefusal(name=branch_of(state, one.name), commit=one.commit, why=with_branches(state, one.why))
            for one in state.refused.values()
        ),
    )


def entry_of(state: RunState, name: str, now: float) -> BoardEntry:
    return _entry(state, standing_of(state, state.tasks[name], now), now)


def _entry(state: RunState, stand: EntryStanding, now: float) -> BoardEntry:
    task = state.tasks[entry_name(stand.entry)]
    reasons = tuple(one.model_dump(mode="json") for one in task.reasons)
    findings = tuple(one.model_dump(mode="json") for one in findings_of(task))
    return BoardEntry(stand=stand, explained=explain_task(state, task, now), reasons=reasons, findings=findings)


def _cut(entry: BoardEntry) -> BoardEntry:
    """Its latest reason alone, and of a log its end."""
    reasons = tuple(
        {**one, "log_tail": str(one.get("log_tail", ""))[-_MOST_LOG:], "diff_tail": "", "tried": ""}
        for one in entry.reasons[-1:]
    )
    cut = {"explained": entry.explained[:_MOST_TEXT], "reasons": reasons, "findings": entry.findings[:_MOST_FINDINGS]}
    return entry.model_copy(update=cut)
