"""The contents of the terminal's screens, made of the read model: rows, lines and actions. No terminal in here."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

from forgepool.orchestrator.decisions.reasons import author_in, author_words, finding_lines, stretch
from forgepool.orchestrator.interfaces.web import pages
from forgepool.orchestrator.interfaces.web.actions import WebAction, actions_of
from forgepool.orchestrator.interfaces.web.diff import WebDiff, change_of, diff_of
from forgepool.orchestrator.interfaces.words import Tone, attempt_words, moment, state_words, tone
from forgepool.orchestrator.reports.attention import AttentionRow, attention
from forgepool.orchestrator.reports.costs import bill, bill_words, budget_words
from forgepool.orchestrator.reports.home import HomeView, RunLook, RunSummary
from forgepool.orchestrator.reports.queue_status import frozen_words
from forgepool.orchestrator.reports.status import outcome_of
from forgepool.orchestrator.run.run_folder import NoSuchRun
from forgepool.orchestrator.state.run import branch_of, with_branches
from forgepool.orchestrator.state.task import DONE, TaskState
from forgepool.workers.schema.orders import CommandAgent
from forgepool.workers.workspace.scans.findings import finding_words

Tab = Literal["about", "transcript", "diff", "log"]
TABS: tuple[Tab, ...] = get_args(Tab)
_BAD = ("failed", "conflict", "unexpected end", "trouble")
_MOST_WANTS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A screen: the home, a run of it, or a task of the run."""

    run: str = ""
    task: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PaneRow:
    """One row of a list, which leads to a place."""

    place: Place
    tone: Tone
    cells: tuple[str, ...]
    """A word, a name and a sentence, cut to the width of the terminal."""
    command: str = ""
    """The one command that ends it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPane:
    """The content of a screen with lists."""

    title: str
    facts: Sequence[str]
    wants: Sequence[PaneRow]
    """The rows that need a person."""
    heading: str
    rows: Sequence[PaneRow]
    actions: Sequence[WebAction] = ()
    page: int = 1
    pages: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPane:
    """The content of the screen of a task, or of an entry of a queue."""

    title: str
    tone: Tone
    state: str
    heading: str
    """The name of what is shown, such as that of a log."""
    lines: Sequence[tuple[str, str]]
    """Each line with its kind, such as `added` or `head`."""
    actions: Sequence[WebAction]
    follows: Path | None = None
    """The file that grows while a task is at work."""
    log: int = 0
    """The number of the log that is shown."""


def home_pane(home: HomeView) -> ListPane:
    """Return the rows of everything that needs a person, and all runs and queues."""
    runs = home.summaries()
    live = sum(one.live for one in runs)
    return ListPane(
        title="Forgepool",
        facts=[f"{home.name}: runs and queues: {len(runs)}, live: {live}"],
        wants=_want_rows(home.attention(), with_run=True),
        heading="Runs and queues" if runs else "There are no runs yet. `forgepool demo` shows one.",
        rows=[PaneRow(place=Place(run=one.run), tone=tone(one.outcome), cells=_run_cells(one)) for one in runs],
    )


def _run_cells(one: RunSummary) -> tuple[str, ...]:
    if one.trouble:
        return one.outcome, one.run, one.trouble
    count = f"{one.waiting} queued, {one.landed} landed" if one.gate else f"{one.done} of {one.total} done"
    return one.outcome, one.run, f"{count}; target {one.target}; last event {moment(one.at)}"


def _want_rows(rows: Sequence[AttentionRow], *, with_run: bool) -> list[PaneRow]:
    return [
        PaneRow(
            place=Place(run=row.run, task=row.task),
            tone="bad" if row.cause in _BAD else "want",
            cells=(row.cause, (f"{row.name} of {row.run}" if row.task else row.run) if with_run else row.about, said),
            command=row.command,
        )
        for row in rows[:_MOST_WANTS]
        for said in (row.sentence,)
    ]


def run_pane(home: HomeView, run: str, wanted: pages.RowFilter) -> ListPane:
    """Return what needs a person in a run or a queue, and its tasks or entries. Raises NoSuchRun, JournalUnreadable."""
    return home.view(run).look(lambda look: _run_pane(look, wanted))


def _run_pane(look: RunLook, wanted: pages.RowFilter) -> ListPane:
    state, gate, live = look.state, look.kept.options.gate, look.alive.live
    rows, page, last = _entry_rows(look, wanted) if gate else _task_rows(look, wanted)
    filtered = f" with '{wanted.words}'" if wanted.words else ""
    paged = f", page {page} of {last}" if last > 1 else ""
    return ListPane(
        title=f"{look.kept.options.run}: {outcome_of(look.course, state, live=live, gate=gate)}",
        facts=list(_facts(look)),
        wants=_want_rows(attention(look.course, state, look.alive), with_run=False),
        heading=f"{'Entries' if gate else 'Tasks'}{filtered}{paged}",
        rows=rows,
        actions=actions_of(look, None) if gate or live else (),
        page=page,
        pages=last,
    )


def _facts(look: RunLook) -> Iterator[str]:
    state = look.state
    target = f"target {state.target or look.kept.options.target} at {state.tip[:12]}"
    if not look.kept.options.gate:
        budget = "".join(f"; {line}" for line in budget_words(look.course.ledger(state)))
        yield f"{target}; {state.count(*DONE)} of {look.course.count_tasks(state)} done{budget}"
        yield from (f"{name} is suspended: {one.why}" for name, one in state.hosts.items() if one.until)
        return
    yield f"{target}; {len(state.train.line.entries)} in the queue"
    if paused := state.paused or state.halted:
        yield f"The queue is paused: {paused}"
    if frozen := frozen_words(state, look.alive.now):
        yield frozen


def _task_rows(look: RunLook, wanted: pages.RowFilter) -> tuple[list[PaneRow], int, int]:
    """Return one page of tasks, its number, and the number of the last."""
    part, run = pages.list_tasks(look, wanted), look.state.run
    rows = [
        PaneRow(place=Place(run=run, task=row.task), tone=row.tone, cells=(row.words, row.task, row.why or row.commit))
        for row in part.rows
    ]
    return rows, part.page, part.pages


def _entry_rows(look: RunLook, wanted: pages.RowFilter) -> tuple[list[PaneRow], int, int]:
    part, run = pages.list_entries(look, wanted), look.state.run
    rows = [
        PaneRow(
            place=Place(run=run, task=task),
            tone=its_tone,
            cells=(state_words(one.state), f"{one.place or '-':>2} {one.entry}", f"{one.why} ({one.klass})"),
            command=one.next,
        )
        for task, one, its_tone in part.rows
    ]
    return rows, part.page, part.pages


def task_pane(home: HomeView, place: Place, tab: Tab, log: int | None, diff: WebDiff | None = None) -> TaskPane:
    """
    Return one tab of a task or an entry. A diff that is not given is made here.

    Raises:
        NoSuchRun: there is no such run or task.
        JournalUnreadable: there is no readable journal.
    """

    def make(look: RunLook) -> tuple[TaskPane, tuple[str, str, str, str]]:
        task = look.state.tasks.get(place.task)
        if task is None:
            raise NoSuchRun(f"'{place.task[:80]}' is not in {place.run} any more; go back to the list")
        return _task_pane(look, task, tab, log), change_of(look.state, task)

    pane, change = home.view(place.run).look(make)
    if tab != "diff":
        return pane
    # A diff may take long: the run can be looked at meanwhile.
    diff = diff or diff_of(home.settings, *change)
    cut = [("", "(the rest is cut)")] if diff.is_cut else []
    lines = [("", diff.trouble)] if diff.trouble else [*diff.lines, *cut]
    return replace(pane, heading=change[2][:12], lines=lines)


def _task_pane(look: RunLook, task: TaskState, tab: Tab, log: int | None) -> TaskPane:
    words, its_tone, why = pages.describe_state(look, task)
    heading, lines, follows, number = "", list[tuple[str, str]](), None, 0
    if tab == "about":
        lines = list(_about(look, task, why))
    elif tab == "transcript":
        files, follows = pages.read_files(look, task, None), pages.transcript_file(look, task)
        heading = files.transcript_note
        lines = [(line.kind, line.text) for line in files.transcript] or [("", _no_transcript(look, task))]
    elif tab == "log":
        files = pages.read_files(look, task, log)
        lines = [("", line) for line in files.log_text.splitlines()]
        lines = lines or [("", "The log is empty." if files.log else "There is no log here yet.")]
        if files.log is not None:
            number, follows = files.logs.index(files.log), files.log.path
            heading = f"{files.log.name}, attempt {files.log.attempt} (log {number + 1} of {len(files.logs)})"
    return TaskPane(
        title=f"{branch_of(look.state, task.id)} of {look.state.run}",
        tone=its_tone,
        state=words,
        heading=heading,
        lines=lines,
        actions=actions_of(look, task),
        follows=follows,
        log=number,
    )


def _no_transcript(look: RunLook, task: TaskState) -> str:
    by_command = isinstance(look.course.tasks[task.id].agent, CommandAgent) and task.id not in look.state.submitted
    return "A command has no transcript." if by_command else "There is no transcript here yet."


def _about(look: RunLook, task: TaskState, why: str) -> Iterator[tuple[str, str]]:
    card, name = look.course.tasks[task.id], branch_of(look.state, task.id)
    if card.title not in (task.id, name):
        yield "head", card.title
    yield from (("", line) for line in why.splitlines())
    yield from (("", f"  {line}") for line in card.description.splitlines())
    if task.id not in look.state.submitted:
        yield "", f"attempts: {attempt_words(task, card.attempts)}"
    for label, said in _facts_of_task(look, task):
        yield "", f"{label}: {said}"
    for one in task.verdict.findings if task.verdict else ():
        yield "", f"scan, {one.weight}: {finding_words(one)}"
    if task.review.answer:
        yield from (("", one) for one in finding_lines(task.review.answer, look.course.review_policy.threshold))
    for reason in reversed(task.reasons):
        yield "head", f"Attempt {reason.attempt} came back: {with_branches(look.state, reason.summary)}"
        yield from (("", f"  {one}") for one in (*reason.findings, *reason.tests))
        if reason.reproduce:
            yield "", f"  see it again: {reason.reproduce}"
        yield from (("", f"  | {line}") for line in reason.log_tail.splitlines()[-20:])


def _facts_of_task(look: RunLook, task: TaskState) -> Iterator[tuple[str, str]]:
    """Yield what there is to say about a task, each with its label."""
    card = look.course.tasks[task.id]
    if task.result:
        yield "written by", author_words(author_in(look.course, look.state, task))
    yield from (("acceptance", line) for line in card.acceptance)
    yield from (("criterion", line) for line in card.criteria)
    if task.commit:
        yield "landed as", task.commit[:12]
    elif task.candidate:
        yield "candidate", task.candidate[:12]
    for one in task.certificates:
        yield "check", f"{one.check} passed in {stretch(one.seconds)} on {one.host}{one.traced_words}"
    for failed in task.verdict.failures if task.verdict else ():
        yield "check", f"{failed.check} failed {', '.join(failed.tests)}"
    if used := bill_words(bill((*task.uses.values(), *task.review.uses.values()))):
        yield "used", used
