"""
The board of a queue: how its entries stand, as everybody reads it who does not share the queue's home.

The queue keeps it in the hub as one blob, and puts up another only when something has changed. Beside it lies the
queue's sign (`orchestrator.merge_queue.publish`), whose beat says when the queue was last at work. Everybody who
may push to the hub can write both: nothing lands because of them, and a landing they tell of is looked up in the
target's history.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, JsonValue

from forgepool.orchestrator.decisions.queue.submissions import entry_name
from forgepool.orchestrator.decisions.reasons import count_of
from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.journal.events import EntryRefused
from forgepool.orchestrator.journal.store import JournalUnreadable, read
from forgepool.orchestrator.reports.event_text import describe_confinement, sentence, together
from forgepool.orchestrator.reports.queue_status import (
    EntryStanding,
    explain_task,
    findings_of,
    frozen_words,
    overload,
    standing_of,
    standings,
)
from forgepool.orchestrator.state.fold import apply
from forgepool.orchestrator.state.run import RunState, branch_of, with_branches
from forgepool.orchestrator.state.task import IllegalStep
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


def gate_sentence(event: e.Event, state: RunState) -> str | None:
    """Return one line with the branches' own names; None where a person need not read of the event."""
    line = _sentence(event, state.run)
    return None if line is None else with_branches(state, line + _reported(event))


def _reported(event: e.Event) -> str:
    """What scans found that holds nothing up, of what is green; empty where they found nothing."""
    if not isinstance(event, e.CheckAnswered) or event.result.verdict != "green":
        return ""
    notes = sum(one.weight == "note" for one in event.result.findings)
    return f"; scans report {count_of(notes, 'finding')}, and hold nothing up" if notes else ""


def _sentence(event: e.Event, run: str) -> str | None:
    match event:
        case e.RunStarted():
            return f"{event.target} is at {event.tip[:12]}{describe_confinement(event.sandbox)}"
        case e.RunResumed():
            return f"resumed; the target is at {event.tip[:12]}{describe_confinement(event.sandbox)}"
        case e.RunPaused():
            return None
        case e.GateHalted():
            return f"the queue is paused: {event.why}"
        case e.GateRuled():
            return "; ".join(event.rules.describe_rules()) or "no freezes, and no limit for one submitter"
        case e.LandingAnswered() if event.result.by_hub:
            return _not_taken(event)
        case e.TaskFailed():
            return f"{event.task}: returned: {event.reason.summary}"
        case e.TaskBlocked():
            return f"{event.task}: returned: it needs '{event.by}', which will not land"
        case e.TaskCancelled():
            return f"{event.task}: withdrawn"
        case _:
            return sentence(event, run=run)


def _not_taken(event: e.LandingAnswered) -> str:
    entries, words = event.entries or (event.task,), event.result.detail
    if len(entries) > 1:
        return f"{together(entries)}: not landed, {words}; each is tried by itself"
    return f"{event.task}: not landed, {words}; it is kept back until: forgepool queue retry {event.task}"


T = TypeVar("T")
_MOST_REFUSALS_KEPT = 1000


class QueueView:
    """Reads only, and may be asked by several threads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.Lock()
        self._state = RunState.blank(())
        self._refused: dict[str, EntryRefused] = {}

    def look(self, ask: Callable[[RunState], T]) -> T:
        """
        What is asked of the state as it is now; it must not be kept, nor changed.

        Raises:
            JournalUnreadable: there is no journal that could be read.
        """
        with self._lock:
            self._go_on()
            return ask(self._state)

    def refusal(self, name: str) -> EntryRefused | None:
        """Why what was last submitted under the name was not taken in; None where it was, or is long ago."""
        with self._lock:
            self._go_on()
            return self._refused.get(name)

    def _go_on(self) -> None:
        for one in read(self.folder, after=self._state.number):
            try:
                apply(self._state, one.event, number=one.number, at=one.at)
            except IllegalStep as impossible:
                self._state, self._refused = RunState.blank(()), {}
                raise JournalUnreadable(
                    f"{self.folder / 'journal.db'} tells what cannot be: {impossible}"
                ) from impossible
            match one.event:
                case EntryRefused() as refused:
                    self._refused.pop(refused.name, None)
                    self._refused[refused.name] = refused
                case event:
                    self._refused.pop(getattr(event, "task", ""), None)
            if len(self._refused) > _MOST_REFUSALS_KEPT:
                del self._refused[next(iter(self._refused))]
