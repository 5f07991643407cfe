"""
The contents of the pages, made of the read model: what a template prints, and in which order. No HTTP in here.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from forgepool.orchestrator.decisions.reasons import author_in, author_words, finding_lines
from forgepool.orchestrator.interfaces.web.actions import actions_of
from forgepool.orchestrator.interfaces.words import Tone, phase_words, state_words, tone
from forgepool.orchestrator.journal.events import CheckAnswered, OrderAnswered
from forgepool.orchestrator.journal.store import Recorded, read
from forgepool.orchestrator.reports.attention import attention
from forgepool.orchestrator.reports.costs import bill, bill_words, budget_words, describe_forecast
from forgepool.orchestrator.reports.event_text import sentence
from forgepool.orchestrator.reports.home import RunLook
from forgepool.orchestrator.reports.leftovers import TaskLog, task_logs
from forgepool.orchestrator.reports.queue_board import gate_sentence
from forgepool.orchestrator.reports.queue_status import (
    EntryStanding,
    explain_task,
    frozen_words,
    standing_of,
    standings,
)
from forgepool.orchestrator.reports.status import Waits, outcome_of, review_standing
from forgepool.orchestrator.state.run import RunState, branch_of
from forgepool.orchestrator.state.task import DONE, TERMINAL, Phase, TaskState
from forgepool.workers.agents.render_transcript import NarratedLine, lines
from forgepool.workers.context.transcript.entries import TranscriptWrong, parse_transcript
from forgepool.workers.workspace.scans.findings import finding_words
from forgepool.workers.workspace.workspace import TRANSCRIPT, attempt_logs

Row = TypeVar("Row")

ROWS = 100
"""Tasks, or entries, on one page."""
REPORT_LINES = 2000
_MOST_EVENTS = 40
_MOST_WANTS = 10
"""Rows of what needs a person, on the page of one run; the start page has them all."""
_MOST_LINES = 400
_MOST_BYTES = 64_000
"""Bytes of the end of a log, and the lines of the end of a transcript, that a page shows."""
_TRANSCRIPT_BYTES = 2_000_000

GROUPS: Mapping[str, tuple[Phase, ...]] = {
    "needs you": ("needs_human",),
    "at work": tuple(phase for phase in ("running", "answered", "testing", "reviewing", "reviewed", "landing")),
    "waiting": ("queued", "given", "candidate", "waiting", "pending"),
    "not landed": ("failed", "blocked", "cancelled"),
    "done": ("landed", "no_changes", "reported", "already_there"),
}
"""The filters of a list of tasks, and the order of its rows: what needs a person or goes on comes first."""
_ORDER: dict[Phase, int] = {
    phase: at
    for at, phase in enumerate(
        phase for group in ("needs you", "at work", "not landed", "waiting", "done") for phase in GROUPS[group]
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRow:
    """One line of a run's tasks."""

    task: str
    title: str
    words: str
    """Its state."""
    tone: Tone
    attempts: int
    why: str
    commit: str
    since: float
    """Unix seconds of its last change of state."""
    seconds: float | None
    """Seconds from its first start to its end; None where it has not ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFilter:
    """The part of a list that is asked for."""

    show: str = ""
    """One of `GROUPS`, or empty for all."""
    words: str = ""
    """Text in the id or the title."""
    page: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RowPage(Generic[Row]):
    """One page of a list."""

    rows: Sequence[Row]
    found: int
    page: int
    pages: int


def cut_page(found: Sequence[Row], wanted: RowFilter) -> RowPage[Row]:
    pages = max(1, -(-len(found) // ROWS))
    page = min(wanted.page, pages)
    return RowPage(rows=found[(page - 1) * ROWS : page * ROWS], found=len(found), page=page, pages=pages)


def run_page(look: RunLook, wanted: RowFilter) -> dict[str, object]:
    """Return what the page of a run shows."""
    state = look.state
    return {
        **head(look),
        "part": list_tasks(look, wanted),
        "wanted": wanted,
        "groups": {name: state.count(*phases) for name, phases in GROUPS.items()},
        "said": recent_events(look),
        "actions": actions_of(look, None) if look.alive.live else [],
        "budget": list(budget_words(look.course.ledger(state))),
        "bill": bill_words(bill(state.uses())),
        "forecast": describe_forecast(state.forecast) if state.forecast is not None else "",
        "suspended": {name: one.why for name, one in state.hosts.items() if one.until},
    }


def list_tasks(look: RunLook, wanted: RowFilter) -> RowPage[TaskRow]:
    """Return one page of a run's tasks: first those that need a person, then those at work."""
    state, course = look.state, look.course
    group = GROUPS.get(wanted.show)
    tasks = state.in_phase(*group) if group else list(state.tasks.values())
    needle = wanted.words.lower()
    if needle:
        tasks = [task for task in tasks if needle in task.id.lower() or needle in course.tasks[task.id].title.lower()]
    tasks.sort(key=lambda task: _ORDER[task.phase])
    part, waits = cut_page(tasks, wanted), Waits(course, state, live=look.alive.live)
    return RowPage(
        rows=[_row(look, waits, task) for task in part.rows], found=part.found, page=part.page, pages=part.pages
    )


def head(look: RunLook) -> dict[str, object]:
    """Return what every page about a run shows at its top."""
    state, gate = look.state, look.kept.options.gate
    wants = attention(look.course, state, look.alive)
    return {
        "run": look.kept.options.run,
        "gate": gate,
        "number": state.number,
        "state_tip": state.tip,
        "last": state.at,
        "target": state.target or look.kept.options.target,
        "hub": look.kept.options.hub,
        "live": look.alive.live,
        "outcome": outcome_of(look.course, state, live=look.alive.live, gate=gate),
        "began": look.began,
        "attention": wants[:_MOST_WANTS],
        "more_wants": max(0, len(wants) - _MOST_WANTS),
        "done": state.count(*DONE),
        "total": look.course.count_tasks(state),
    }


def _row(look: RunLook, waits: Waits, task: TaskState) -> TaskRow:
    phase = waits.phase_name(task)
    why = _how_it_stands(task, waits)
    return TaskRow(
        task=task.id,
        title=look.course.tasks[task.id].title,
        words=phase_words(task, phase),
        tone=tone(task.phase),
        attempts=task.last_attempt,
        why=why,
        commit=task.commit[:12],
        since=task.since,
        seconds=max(0.0, task.ended - task.first_started) if task.first_started and task.ended else None,
    )


def _how_it_stands(task: TaskState, waits: Waits) -> str:
    if task.question:
        return task.question
    if task.phase in TERMINAL:
        return task.detail.partition("; forgepool ")[0]
    return waits.reason(task)


def queue_page(look: RunLook, wanted: RowFilter) -> dict[str, object]:
    """Return what the page of a merge queue shows: entries in order, then those that ended last."""
    state, now = look.state, look.alive.now
    waiting = len(state.train.line.entries)
    part = list_entries(look, wanted)
    return {
        **head(look),
        "part": part,
        "wanted": wanted,
        "waiting": waiting,
        "paused": state.paused or state.halted,
        "frozen": frozen_words(state, now) or "",
        "suspects": _suspects(state),
        "said": recent_events(look),
        "actions": actions_of(look, None),
    }


def list_entries(look: RunLook, wanted: RowFilter) -> RowPage[tuple[str, EntryStanding, Tone]]:
    """Return one page of a queue's entries, each with the name of its task and the look of its state."""
    state = look.state
    found = standings(state, look.alive.now, ended=500)
    if needle := wanted.words.lower():
        found = [one for one in found if needle in one.entry.lower() or needle in one.by.lower()]
    names = {branch_of(state, one): one for one in state.submitted}
    return cut_page([(names.get(one.entry, one.entry), one, tone(one.state)) for one in found], wanted)


def _suspects(state: RunState) -> list[list[str]]:
    """Return the batches that a check has refused: each of their entries may be the cause."""
    trials = state.train.line.trials.values()
    cars = dict.fromkeys(trial.car for trial in trials if trial.state == "red" and len(trial.car) > 1)
    alone = [(one,) for one in state.train.doubted]
    return [[branch_of(state, one) for one in car] for car in (*cars, *alone)]


def recent_events(look: RunLook, most: int = _MOST_EVENTS) -> list[tuple[float, str]]:
    """Return the last events as sentences, the latest first."""
    recorded = read(look.kept.folder, after=max(0, look.state.number - 3 * most))
    said = [(one.at, words) for one in recorded if (words := _sentence(look, one)) is not None]
    return said[: -most - 1 : -1]


def _sentence(look: RunLook, one: Recorded) -> str | None:
    if look.kept.options.gate:
        return gate_sentence(one.event, look.state)
    return sentence(one.event, run=look.state.run)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFiles:
    """The parts of a task that are read from files."""

    logs: Sequence[TaskLog]
    tabs: Sequence["LogTab"]
    log: TaskLog | None
    """The one whose end is shown."""
    log_text: str
    transcript: Sequence[NarratedLine]
    transcript_note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTab:
    """One log among those of its task."""

    number: int
    name: str
    """Its own among those of the attempt."""
    is_red: bool
    """An answer names it as the reason of a failure."""
    log: TaskLog


def task_page(look: RunLook, task: TaskState, log: int | None) -> dict[str, object]:
    """Return what the page of a task or an entry shows."""
    state, course = look.state, look.course
    card = course.tasks[task.id]
    words, its_tone, why = describe_state(look, task)
    answer, used = task.review.answer, bill((*task.uses.values(), *task.review.uses.values()))
    return {
        **head(look),
        # A copy: the page is rendered when others may look at the run again, and take in new events.
        "task": copy(task),
        "name": branch_of(state, task.id),
        "card": card,
        "words": words,
        "tone": its_tone,
        "why": why,
        "entry": state.submitted.get(task.id),
        "actions": actions_of(look, task),
        "needs": list(_needs(state, card.needs)),
        "author": author_words(author_in(course, state, task)) if task.result else "",
        "review": review_standing(course, task),
        "dropped": [one for one in finding_lines(answer, course.review_policy.threshold)] if answer else [],
        "scans": [(one, finding_words(one)) for one in (task.verdict.findings if task.verdict else ())],
        "used": bill_words(used) if used.counts else "",
        "files": read_files(look, task, log),
        "candidate": task.commit or task.candidate,
        "terminal": task.phase in TERMINAL,
    }


def describe_state(look: RunLook, task: TaskState) -> tuple[str, Tone, str]:
    """Return the state of a task or an entry in words, the look of that, and why."""
    state, now = look.state, look.alive.now
    if look.kept.options.gate:
        stand = standing_of(state, task, now)
        return state_words(stand.state), tone(stand.state), explain_task(state, task, now)
    waits = Waits(look.course, state, live=look.alive.live)
    return phase_words(task, waits.phase_name(task)), tone(task.phase), _how_it_stands(task, waits)


def _needs(state: RunState, needs: Sequence[object]) -> Iterator[tuple[str, Tone]]:
    for need in needs:
        name = str(getattr(need, "id", need))
        if name in state.tasks:
            yield name, tone(state.tasks[name].phase)


def read_files(look: RunLook, task: TaskState, log: int | None) -> TaskFiles:
    """
    Return the list of a task's logs, the end of one, and the transcript.

    Unless a log is asked for, the last red one of the latest attempt is shown, else the latest.
    """
    # A search of their texts costs far less than reading every event of a large run.
    recorded = list(read(look.kept.folder, about=task.id))
    logs = task_logs(look.kept.folder, recorded, task.id)
    tabs = _tabs(logs, recorded)
    shown = logs[log] if log is not None and log < len(logs) and logs[log].here else None
    here = [one for one in reversed(tabs) if one.log.here]
    if shown is None and here:
        shown = max(here, key=lambda one: one.is_red and one.log.attempt == here[0].log.attempt).log
    transcript, note = _transcript(look, task)
    return TaskFiles(
        logs=logs,
        tabs=tabs,
        log=shown,
        log_text=read_end(shown.path, _MOST_BYTES) if shown is not None else "",
        transcript=transcript,
        transcript_note=note,
    )


def _tabs(logs: Sequence[TaskLog], recorded: Sequence[Recorded]) -> list[LogTab]:
    """Number logs of one name in one attempt, as of two checks of one candidate, and mark those of failures."""
    red = set[tuple[str, ...]]()  # Without the folder of the run, since a home can be moved.
    for one in recorded:
        match one.event:
            case CheckAnswered(result=checked):
                red.update(Path(failure.log).parts[-2:] for failure in checked.failures)
            case OrderAnswered(result=result) if result.outcome not in ("candidate", "no_change", "needs_human"):
                red.add(Path(result.log).parts[-2:])
            case _:
                pass
    named = Counter[tuple[int, str]]()
    tabs = []
    for number, log in enumerate(logs):
        named[log.attempt, log.name] += 1
        count = named[log.attempt, log.name]
        name = f"{log.name} {count}" if count > 1 else log.name
        tabs.append(LogTab(number=number, name=name, is_red=log.path.parts[-2:] in red, log=log))
    return tabs


def transcript_file(look: RunLook, task: TaskState) -> Path | None:
    """Return the transcript of the latest attempt that has one on this host."""
    for attempt in range(task.last_attempt, 0, -1):
        path = attempt_logs(look.kept.folder, task.id, attempt) / TRANSCRIPT
        if path.is_file():
            return path
    return None


def _transcript(look: RunLook, task: TaskState) -> tuple[list[NarratedLine], str]:
    path = transcript_file(look, task)
    if path is None:
        return [], ""
    with path.open("rb") as kept:
        begins = max(0, path.stat().st_size - _TRANSCRIPT_BYTES)
        kept.seek(begins)
        data = kept.read(_TRANSCRIPT_BYTES)
    data = data.partition(b"\n")[2] if begins else data  # The first line is a part of one.
    try:
        said = list(lines(parse_transcript(data, path.name), most_lines=30))
    except TranscriptWrong as wrong:
        return [], str(wrong)
    cut = len(said) > _MOST_LINES or begins > 0
    whole = f"forgepool transcript {look.state.run} {task.id} --full"
    return said[-_MOST_LINES:], f"A part of it; all of it: {whole}" if cut else ""


def read_end(path: Path, most: int) -> str:
    """Return the last bytes of a file as text, from the beginning of a line."""
    try:
        with path.open("rb") as log:
            size = path.stat().st_size
            log.seek(max(0, size - most))
            text = log.read(most).decode("utf-8", "replace")
    except OSError as gone:
        return f"({gone.strerror})"
    return text if size <= most else f"(the last {most // 1000} kB)\n{text.partition(chr(10))[2]}"
