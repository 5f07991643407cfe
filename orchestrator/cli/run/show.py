"""Commands that show runs: `runs`, `status`, `events`, `logs`, `spend`."""

import re
import shlex
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated

import typer

from forgepool.orchestrator.cli.output.say import complain, printable, say, say_json
from forgepool.orchestrator.cli.output.standing import tell_table, tell_use
from forgepool.orchestrator.cli.output.terminal import print_table, say_output
from forgepool.orchestrator.cli.run.options import Json, JsonList, OptionalRun, Run, Task, find_task
from forgepool.orchestrator.decisions.lead.review import synthesis_lines, view_review
from forgepool.orchestrator.journal.store import JournalUnreadable, Recorded, is_being_written, read
from forgepool.orchestrator.reports.costs import MoneyRow, SpendBy, cost_words, name_amounts, report_spending, usd_words
from forgepool.orchestrator.reports.event_text import sentence
from forgepool.orchestrator.reports.status import standing
from forgepool.orchestrator.run import run_folder
from forgepool.orchestrator.state.task import DONE
from forgepool.workers.schema.settings import Settings
from forgepool.worktrees.errors import UserError

if TYPE_CHECKING:
    from forgepool.orchestrator.reports.leftovers import TaskLog

_FOLLOW_S = 0.3


def register(app: typer.Typer) -> None:
    app.command("runs")(list_runs)
    app.command()(status)
    app.command()(brief)
    app.command()(events)
    app.command()(logs)
    app.command()(spend)


def list_runs(as_json: JsonList = False) -> None:
    """List the runs of this host, the latest first."""
    settings = Settings()
    rows = [_row(settings, name) for name in run_folder.run_names(settings)]
    if as_json:
        keys = ("run", "outcome", "landed", "done", "target", "hub")
        say_json([dict(zip(keys, row, strict=True)) for row in rows])
    elif rows:
        print_table(("run", "outcome", "done", "target", "hub"), [(*row[:2], *row[3:]) for row in rows])
    else:
        say("there are no runs yet; `forgepool run PLAN` starts one")


def _row(settings: Settings, run: str) -> tuple[str, str, str, str, str, str]:
    """Describe one run; an unreadable one does not hide the others."""
    try:
        kept = run_folder.open_run(settings, run)
        now = standing(kept.course, kept.state(), now=time.time(), live=is_being_written(kept.folder))
    except JournalUnreadable as problem:
        complain(str(problem), 0)
        return (run, "unreadable", "", "", "", "")
    landed, done = (sum(task.phase in phases for task in now.tasks) for phases in (("landed",), DONE))
    return (run, now.outcome, f"{landed}/{now.total}", f"{done}/{now.total}", now.target, kept.options.hub)


def status(run: OptionalRun = None, as_json: Json = False) -> None:
    """Show how a run stands: every task, its phase, and what it waits for."""
    kept = run_folder.find(Settings(), run)
    state = kept.state()
    now = standing(kept.course, state, now=time.time(), live=is_being_written(kept.folder))
    if as_json:
        say_json(now.as_json())
        return
    say(f"run {now.run}: {now.outcome}, target {now.target} at {now.tip[:12]}")
    tell_table(now)
    for host, why in now.suspended.items():
        say(f"{host} is suspended: {why}")
    if now.shut:
        say(state.halt_words)
    tell_use(now)
    if kept.plan_file_changed():
        say(f"note: {kept.options.plan_file} has changed since; the run keeps its old plan")


def brief(run: OptionalRun = None, as_json: Json = False) -> None:
    """Show what the task that leads a run thinks: frame, checkpoints, brief, and synthesis with proof and review."""
    kept = run_folder.find(Settings(), run)
    state, lead = kept.state(), kept.course.lead
    if lead is None:
        raise UserError(f"run {state.run} has no task that leads it; a task with 'leads: true' in its plan would")
    waits = state.lead.request if state.tasks[lead].phase == "waiting" else None
    synthesis = [*synthesis_lines(kept.course, state)]
    if as_json:
        notes = [note.model_dump(mode="json") for note in state.lead.notes]
        said = [word.model_dump(mode="json", exclude={"kind", "task"}) for word in state.lead.words]
        told = {"run": state.run, "lead": lead, "phase": state.tasks[lead].phase, "notes": notes, "said": said}
        asks = None if waits is None else waits.model_dump(mode="json", exclude_defaults=True)
        view = view_review(kept.course, state)
        review = None if view is None else view.model_dump(mode="json")
        say_json({**told, "waits_for": asks, "synthesis": "\n".join(synthesis), "synthesis_review": review})
        return
    asked = f" for the reply to its request {waits.number}: {waits.do} {waits.what}".rstrip() if waits else ""
    say(f"run {state.run}: '{lead}' is {state.tasks[lead].phase}{asked}")
    for note in state.lead.notes:
        say(f"\n{note.kind}, {time.strftime('%H:%M:%S', time.localtime(note.at))}")
        for heading, lines in note.parts.items():
            say(f"  {heading.replace('_', ' ')}:")
            for line in lines:
                say(f"    - {printable(line)}")
    for word in state.lead.words:
        say(f"\n{word.by} said: {printable(word.text)}")
    if synthesis:
        say("\nsynthesis")
        for line in synthesis:
            say(f"  {printable(line)}".rstrip())


def events(
    run: Run,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Keep printing new events until the run stops.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show what has happened in a run, from its journal."""
    kept = run_folder.find(Settings(), run)
    last = _tell_events(kept, 0, as_json=as_json)
    while follow and is_being_written(kept.folder):
        time.sleep(_FOLLOW_S)
        last = _tell_events(kept, last, as_json=as_json)
    _tell_events(kept, last, as_json=as_json)


def logs(
    run: Run,
    task: Task,
    check: Annotated[
        str | None,
        typer.Option(
            "--check", metavar="NAME", help="Print the logs of this check; `agent` and `acceptance` are also names."
        ),
    ] = None,
    attempt: Annotated[int | None, typer.Option(min=1, help="Only this attempt; default: all.")] = None,
) -> int:
    """Print the log of a task's command, acceptance, checks or review; several are listed instead."""
    from forgepool.orchestrator.reports.leftovers import task_logs

    kept, name = find_task(run, task)
    state, recorded = kept.replay()
    found = task_logs(kept.folder, recorded, name)
    found = [log for log in found if attempt in (None, log.attempt) and (check is None or log.is_of(check))]
    here = [log for log in found if log.here]
    if check is not None and here:
        here = [log for log in here if log.path.parent == here[-1].path.parent]
    if len(here) == 1 or (here and check is not None):
        _print_logs(here)
    elif here:
        print_table(("attempt", "log", "path"), [(str(log.attempt), log.name, str(log.path)) for log in here])
        say(f"print one with: forgepool logs {state.run} {shlex.quote(task)} --check NAME --attempt N")
    for log in found:
        if not log.here:
            say(f"attempt {log.attempt}: logs are on host {log.host}, in {log.path}")
    told = state.tasks[name].told
    if told is not None:
        say(f"its checks ran in the merge queue: forgepool logs {told.gate} {told.entry}")
    if not found and told is None:
        return complain(_no_logs(task, task_logs(kept.folder, recorded, name)), 1)
    return 0


def _no_logs(task: str, known_logs: "Sequence[TaskLog]") -> str:
    known = dict.fromkeys(f"{log.name} (attempt {log.attempt})" for log in known_logs)
    there = f"it has: {', '.join(known)}" if known else "it has none yet"
    return f"task '{task}' has no such log; {there}"


def _print_logs(found: "Sequence[TaskLog]") -> None:
    for log in found:
        if len(found) > 1:
            say(f"==> {log.name}, attempt {log.attempt}: {log.path} <==")
        with log.path.open(encoding="utf-8", errors="replace", newline="\n") as lines:
            for line in lines:
                say_output(line.rstrip("\n"))


def _tell_events(kept: run_folder.KeptRun, after: int, *, as_json: bool) -> int:
    last = after
    for one in read(kept.folder, after=after):
        last = one.number
        if as_json:
            say_json({"number": one.number, "at": one.at, **one.event.model_dump(mode="json")})
        else:
            _tell_event(one, kept.options.run)
    return last


def _tell_event(one: Recorded, run: str) -> None:
    said = sentence(one.event, run=run)
    if said is not None:
        say(f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(one.at))} {printable(said)}")


_PERIOD = re.compile(r"([1-9][0-9]{0,4})([hdw])")
_UNITS_S = {"h": 3600, "d": 86_400, "w": 7 * 86_400}


def spend(
    by: Annotated[SpendBy, typer.Option(help="What a row is about.")] = "day",
    since: Annotated[
        str | None, typer.Option(metavar="PERIOD", help="Only what was sent lately: 12h, 7d, 4w. Default: all.")
    ] = None,
    as_json: Json = False,
) -> None:
    """
    Add up what models have used in all runs, queues and plannings of this host.

    Each attempt and review counts once, on the day (UTC) on which it was sent. An unknown price counts as unknown.
    """
    from forgepool.orchestrator.run.neighbours.spending import read_home

    unread: list[str] = []
    start = 0.0 if since is None else time.time() - _seconds_of(since)
    report = replace(
        report_spending(read_home(Settings(), unread=unread, since=start), by, since=start), unread=tuple(unread)
    )
    for problem in unread:
        complain(f"not counted: {problem}", 0)
    if as_json:
        say_json(asdict(report))
        return
    if not report.rows and not report.live:
        say("no model has used anything in the runs of this host" + ("" if since is None else f" in the last {since}"))
        return
    columns = (by, "attempts", "USD", "tokens in", "cached", "out", "not priced")
    total = MoneyRow(name="all", attempts=sum(row.attempts for row in report.rows), used=report.used)
    print_table(columns, [_spend_row(row) for row in (*report.rows, total)])
    for run in report.live:
        held = name_amounts(run.reserved_usd, run.reserved_tokens)
        say(f"{run.run} is under way: {cost_words(run.used)} used, {held} reserved")


def _seconds_of(period: str) -> float:
    found = _PERIOD.fullmatch(period)
    if found is None:
        raise UserError(f"--since is '{period}'; it must be a number of hours, days or weeks, such as 12h, 7d or 4w")
    return int(found[1]) * _UNITS_S[found[2]]


def _spend_row(row: MoneyRow) -> tuple[str, ...]:
    used = row.used
    counts = (used.input_tokens, used.cached_tokens, used.output_tokens)
    unpriced = str(used.unpriced_attempts) if used.unpriced_attempts else ""
    return (row.name, str(row.attempts), usd_words(used.priced_usd), *(f"{count:,}" for count in counts), unpriced)
