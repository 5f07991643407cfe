"""
The board of a queue: how its entries stand, for readers who do not share the queue's home. Also its events as
sentences, and a live view of its journal.

The queue keeps the board in the hub as one blob and replaces it only when something has changed. Beside it lies the
queue's sign, whose beat says when the queue was last active. Everyone who may push to the hub can forge both. Nothing
lands because of them, and a landing they report is verified in the target's history.
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
"""Seconds after its last beat for which a queue counts as active."""
GONE_S = 300
"""Seconds after which it counts as gone. Between the two, its clock or the reader's may be off."""

_MOST_IN_LINE = 200
_MOST_ENDED = 60
_MOST_REFUSED = 40
_MOST_LOG = 2000
_MOST_TEXT = 4000
_MOST_FINDINGS = 20

T = TypeVar("T")
_MOST_REFUSALS_KEPT = 1000


class _Said(BaseModel):
    """A part of the board. Unknown fields are ignored, because a later version may have more."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class BoardEntry(_Said):
    stand: EntryStanding
    explained: str
    reasons: tuple[dict[str, JsonValue], ...] = ()
    """Reasons why it was returned, the latest last."""
    findings: tuple[dict[str, JsonValue], ...] = ()
    """All scan findings in its change."""

    def as_json(self) -> dict[str, object]:
        return {**asdict(self.stand), "reasons": list(self.reasons), "findings": list(self.findings)}


class BoardRefusal(_Said):
    """A submission that the queue did not accept."""

    name: str
    commit: str
    why: str


class RequestReply(_Said):
    """The outcome of a request that was pushed to the hub."""

    done: bool
    said: str


class Board(_Said):
    """The state of one queue."""

    gate: str
    target: str
    tip: str
    hub: str = ""
    at: float = 0.0
    """Unix seconds of publication, by the queue's clock."""
    in_line: int = 0
    paused: str = ""
    shut: str = ""
    """The reason why the queue paused itself."""
    frozen: str = ""
    """One sentence during a freeze; else empty."""
    frozen_until: float | None = None
    overload: str | None = None
    entries: tuple[BoardEntry, ...] = ()
    """Queued entries in queue order, then ended ones, the latest first."""
    refused: tuple[BoardRefusal, ...] = ()
    answers: Mapping[str, RequestReply] = {}
    """Outcomes of requests, by the last part of their ref."""

    def status_json(self) -> dict[str, object]:
        """The answer of `queue status --json`."""
        shown = self.model_dump(include={"gate", "target", "tip", "frozen_until", "overload"})
        entries = [asdict(entry.stand) for entry in self.entries]
        # Earlier versions read `shut` for a queue that paused itself.
        return {**shown, "paused": self.paused or self.shut, "shut": self.shut, "entries": entries}


def board_of(state: RunState, now: float, trials: int) -> Board:
    """Return the board with every entry of the journal."""
    return _board(state, now, trials, tuple(_entry(state, stand, now) for stand in standings(state, now)))


def public_board(state: RunState, now: float, trials: int, answers: Mapping[str, RequestReply]) -> Board:
    """Return the board for the hub. Each copy costs its size there, so everything in it is bounded."""
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
            BoardRefusal(
                name=branch_of(state, refusal.name), commit=refusal.commit, why=with_branches(state, refusal.why)
            )
            for refusal in state.refused.values()
        ),
    )


def entry_of(state: RunState, name: str, now: float) -> BoardEntry:
    return _entry(state, standing_of(state, state.tasks[name], now), now)


def _entry(state: RunState, stand: EntryStanding, now: float) -> BoardEntry:
    task = state.tasks[entry_name(stand.entry)]
    reasons = tuple(reason.model_dump(mode="json") for reason in task.reasons)
    findings = tuple(one.model_dump(mode="json") for one in findings_of(task))
    return BoardEntry(stand=stand, explained=explain_task(state, task, now), reasons=reasons, findings=findings)


def _cut(entry: BoardEntry) -> BoardEntry:
    """Keep the latest reason and the end of its log."""
    reasons = tuple(
        {**reason, "log_tail": str(reason.get("log_tail", ""))[-_MOST_LOG:], "diff_tail": "", "tried": ""}
        for reason in entry.reasons[-1:]
    )
    cut = {"explained": entry.explained[:_MOST_TEXT], "reasons": reasons, "findings": entry.findings[:_MOST_FINDINGS]}
    return entry.model_copy(update=cut)


def gate_sentence(event: e.Event, state: RunState) -> str | None:
    """Return one line about an event, with the branches' own names; None for one that people need not see."""
    line = _sentence(event, state.run)
    return None if line is None else with_branches(state, line + _reported(event))


def _reported(event: e.Event) -> str:
    """Count the scan notes of a change that passed, as the end of a sentence."""
    if not isinstance(event, e.CheckAnswered) or event.result.verdict != "green":
        return ""
    notes = sum(finding.weight == "note" for finding in event.result.findings)
    return f"; scans report {count_of(notes, 'finding')}, which do not block" if notes else ""


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
        return f"{together(entries)}: not landed, {words}; each is retried alone"
    return f"{event.task}: not landed, {words}; retry it with: forgepool queue retry {event.task}"


class QueueView:
    """A queue's journal, for readers that look often: each event is read once. Read-only and thread-safe."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.Lock()
        self._state = RunState.blank(())
        self._refused: dict[str, EntryRefused] = {}

    def look(self, ask: Callable[[RunState], T]) -> T:
        """
        Apply `ask` to the current state. It must neither keep nor change the state.

        Raises:
            JournalUnreadable: there is no readable journal.
        """
        with self._lock:
            self._go_on()
            return ask(self._state)

    def refusal(self, name: str) -> EntryRefused | None:
        """Return the refusal of the last submission under the name; None if it was accepted or is long ago."""
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
                    f"{self.folder / 'journal.db'} has an impossible event: {impossible}"
                ) from impossible
            match one.event:
                case EntryRefused() as refused:
                    self._refused.pop(refused.name, None)
                    self._refused[refused.name] = refused
                case event:
                    self._refused.pop(getattr(event, "task", ""), None)
            if len(self._refused) > _MOST_REFUSALS_KEPT:
                del self._refused[next(iter(self._refused))]
