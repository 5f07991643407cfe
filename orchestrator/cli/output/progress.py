"""
A run on the terminal: its progress, as a moving table or as plain lines elsewhere, and how it ended.

The run loop passes every recorded event and every turn to `Display.listen`, which never blocks it.
"""

import math
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from forgepool.orchestrator.cli.output.say import printable, say, say_json
from forgepool.orchestrator.cli.output.standing import tally, tell_table, tell_use
from forgepool.orchestrator.cli.output.terminal import out, table
from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.decisions.queue.delegation import why_held_up
from forgepool.orchestrator.decisions.reasons import count_of
from forgepool.orchestrator.decisions.reviews.post_merge import where_to_look
from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.journal.store import Recorded
from forgepool.orchestrator.reports.event_text import answer_with, sentence, shorten_list, telling_lines
from forgepool.orchestrator.reports.leftovers import mirror_of, refs_left
from forgepool.orchestrator.reports.proof.bundle import PAGE
from forgepool.orchestrator.reports.status import Waits, standing
from forgepool.orchestrator.run.run_folder import KeptRun
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import TERMINAL, Phase
from forgepool.workers.schema.settings import Settings
from forgepool.worktrees.git.git import GitFailed

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
    "waiting",
    "pending",
)


@dataclass(slots=True)
class Display:
    """Prints progress, and remembers what it has drawn."""

    course: PlanIndex
    console: Console
    live: Live | None
    started: float = field(default_factory=time.monotonic)
    _drawn: float = 0.0

    def listen(self, state: RunState, recorded: Sequence[Recorded]) -> None:
        """Take the events of a turn of the loop."""
        self.course = self.course.grow_with(state)
        for record in recorded:
            self._tell(record, state.run)
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
        head = Text(f"{_clock(elapsed)} elapsed{self._eta(state, time.time())}: " + ", ".join(words))
        return Group(head, table(("task", "phase", "for", "where or why"), self._rows(state)))

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
        """List checks and reviews of the target itself, during which nothing lands."""
        owed = {"all checks": state.wave.message, "a review of the whole": state.wave_review.review.message}
        return [
            (state.target, "checking", _clock(now - message.issued_at), f"{what}; {state.holder(message) or 'waits'}")
            for what, message in owed.items()
            if message is not None
        ]

    def _eta(self, state: RunState, now: float) -> str:
        """Return the longest path left, or nothing unless the plan or an earlier run says how long each task takes."""
        graph, learned = self.course.graph, self.course.learned_s
        left = 0.0
        for task in state.tasks.values():
            if task.phase in TERMINAL:
                continue
            if task.id not in graph.tasks or (graph.tasks[task.id].duration_s is None and task.id not in learned):
                return ""
            ran = now - task.since if task.phase == "running" else 0.0 if task.phase == "pending" else math.inf
            left = max(left, graph.remaining_path_s(task.id) - min(ran, graph.duration_s[task.id]))
        return f", at least {_clock(left)} to go" if left else ""


def event_style(event: e.Event) -> str:
    """Return the colour of an event's line; its words say the same."""
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
    """Yield a display: a moving table on a terminal, plain lines elsewhere; on standard error with `--json`."""
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


def exit_status(course: PlanIndex, state: RunState, ending: str) -> int:
    """Return 0 if all landed or needed nothing, 1 if something did not, 3 for infrastructure, 130 if interrupted."""
    if ending == "interrupted":
        return 130
    if ending == "halted":
        return 3 if state.halted_by_infrastructure or state.gate_away else 1
    return 0 if len(course.find_done(state)) == len(state.tasks) else 1


def tell_outcome(
    kept: KeptRun,
    state: RunState,
    ending: str,
    *,
    as_json: bool,
    before: str = "",
    settings: Settings | None = None,
) -> None:
    """Print how the run ended, and what to type next. `before` precedes each command, such as variables."""
    now = standing(kept.course, state, now=time.time(), live=False)
    if as_json:
        say_json(now.as_json() | {"ending": ending, "exit_status": exit_status(kept.course, state, ending)})
        return
    tell_table(now)
    tell_use(now)
    say(f"\n{tally(now)} on {now.target}, which is at {now.tip[:12]}")
    if ending == "halted" and not state.halted:
        say(why_held_up(state, patient=False))
    for line in where_to_look(state.wave.base_red) if state.wave.base_red is not None else ():
        say(f"    {printable(line)}")
    forgepool = f"{before}forgepool"
    if ending != "ended":
        say(f"resume:      {forgepool} resume {now.run}")
    if len(state.find_done()) < len(state.tasks):
        say(f"logs:        {forgepool} logs {now.run} TASK")
    say(f"journal:     {kept.folder / 'journal.db'}")
    say(f"report:      {forgepool} report {now.run}")
    if (page := kept.folder / PAGE).is_file():
        say(f"page:        {page}")
    say(f"history:     git log --graph --oneline {now.target}")
    if state.in_phase("already_there"):
        say("repeat:      forgepool run PLAN --again also repeats what is already there")
    if ending == "ended":
        _tell_leftovers(kept, state, settings or Settings())


def _tell_leftovers(kept: KeptRun, state: RunState, settings: Settings) -> None:
    """Print what the run leaves in its hub of tasks that change files; nothing where the hub cannot be asked."""
    try:
        left = refs_left(mirror_of(kept.options.hub, settings), state)
    except GitFailed:
        return
    tasks = kept.course.grow_with(state).tasks
    found = {name: refs for name, refs in left.items() if name not in tasks or tasks[name].files != ()}
    if found:
        refs = count_of(sum(map(len, found.values())), "ref")
        names = shorten_list(list(found))
        say(f"kept:        {refs} in the hub, the work of {names}")
        say(f"             get it: forgepool salvage {state.run}; remove it: forgepool clean {state.run} --hub --yes")
