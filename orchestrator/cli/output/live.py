"""
Progress while a run goes on: a table that moves on a terminal, plain lines elsewhere.

A listener of the run loop: it is told of every recorded event and of every turn, and never holds the loop up.
"""

import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from forgepool.orchestrator.cli.output.say import printable
from forgepool.orchestrator.cli.output.terminal import out, table
from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.journal.store import Recorded
from forgepool.orchestrator.reports.event_text import answer_with, sentence, telling_lines
from forgepool.orchestrator.reports.status import Waits
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import TERMINAL, Phase

_REDRAW_S = 0.25
_MOST_ROWS = 18
_SHOWN_FIRST: tuple[Phase, ...] = (
    "running",
    "testing",
    "landing",
    "reviewing",
    "reviewed",
    "candidate",
    "given",
    "queued",
    "answered",
    "pending",
)


@dataclass(slots=True)
class Display:
    """Where progress goes, and what has been shown."""

    course: PlanIndex
    console: Console
    live: Live | None
    started: float = field(default_factory=time.monotonic)
    _drawn: float = 0.0

    def listen(self, state: RunState, recorded: Sequence[Recorded]) -> None:
        """Told by the loop after every turn, with the events it has just journaled."""
        for one in recorded:
            self._tell(one, state.run)
        if self.live is not None and time.monotonic() > self._drawn + _REDRAW_S:
            self._drawn = time.monotonic()
            self.live.update(self._picture(state), refresh=True)

    def _tell(self, recorded: Recorded, run: str) -> None:
        said = sentence(recorded.event, run=run)
        if said is None:
            return
        stamp = time.strftime("%H:%M:%S", time.localtime(recorded.at))
        # As `Text`: a style given to `print` would colour the table below it as well.
        self.console.print(Text(f"{stamp} {printable(said)}", event_style(recorded.event)))
        for line in telling_lines(recorded):
            self.console.print(f"         | {printable(line)}", markup=False)

    def _picture(self, state: RunState) -> Group:
        elapsed = time.monotonic() - self.started
        counts = Counter(task.phase for task in state.tasks.values())
        words = [
            f"{counts[phase]} {phase.replace('_', ' ')}"
            for phase in (*_SHOWN_FIRST, *sorted(TERMINAL))
            if counts[phase]
        ]
        head = Text(f"{_clock(elapsed)} elapsed, {self._eta(state, elapsed)}: " + ", ".join(words))
        return Group(head, table(("task", "phase", "for", ""), self._rows(state)))

    def _rows(self, state: RunState) -> list[tuple[str, str, str, str]]:
        now = time.time()
        waits = Waits(self.course, state)
        asking = [task for task in state.tasks.values() if task.question]
        going_on = [task for task in state.tasks.values() if task.phase not in TERMINAL]
        going_on.sort(key=lambda task: _SHOWN_FIRST.index(task.phase))
        asked = [
            (task.id, "asks", _clock(now - task.since), f"{task.question} ({answer_with(state.run, task.id)})")
            for task in asking[:_MOST_ROWS]
        ]
        rows = [
            (
                task.id,
                waits.phase_name(task),
                _clock(now - task.since) if task.since else "",
                waits.reason(task),
            )
            for task in going_on[:_MOST_ROWS]
        ]
        return [*asked, *self._at_target(state, now), *rows]

    def _at_target(self, state: RunState, now: float) -> list[tuple[str, str, str, str]]:
        """What is done to the target itself, while nothing is let in."""
        owed = {"all checks": state.wave.message, "a review of the whole": state.wave_review.review.message}
        return [
            (state.target, "looked at", _clock(now - message.issued_at), f"{what}; {state.holder(message) or 'waits'}")
            for what, message in owed.items()
            if message is not None
        ]

    def _eta(self, state: RunState, elapsed: float) -> str:
        """By the pace so far: an honest guess needs at least a few tasks that have ended."""
        ended = sum(task.phase in TERMINAL for task in state.tasks.values())
        if ended < 3:
            return "no estimate yet"
        return f"about {_clock(elapsed / ended * (len(state.tasks) - ended))} to go"


def event_style(event: e.Event) -> str:
    """The colour of an event's line; its words say the same."""
    match event:
        case e.LandingAnswered(result=result) if result.outcome == "landed":
            return "green"
        case e.EntryTold(answer=answer) if answer.word == "landed":
            return "green"
        case e.TaskFailed() | e.GateHalted():
            return "red"
        case e.TaskReturned() | e.TaskBlocked() | e.TaskCancelled() | e.TaskParked() | e.MessageLost():
            return "yellow"
        case _:
            return ""


@contextmanager
def display(course: PlanIndex, *, as_json: bool) -> Iterator[Display]:
    """A moving table on a terminal, plain lines elsewhere; on standard error when the answer is to be JSON."""
    console = out(stderr=as_json)
    # Not `console.is_terminal`: with FORCE_COLOR that is true of a pipe as well.
    if not (sys.stderr if as_json else sys.stdout).isatty() or not sys.stdin.isatty():
        yield Display(course, console, None)
        return
    with Live(console=console, auto_refresh=False, transient=True) as live:
        shown = Display(course, console, live)
        yield shown


def _clock(seconds: float) -> str:
    whole = int(max(0.0, seconds))
    return (
        f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}" if whole >= 3600 else f"{whole // 60}:{whole % 60:02}"
    )
