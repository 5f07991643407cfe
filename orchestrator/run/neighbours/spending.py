"""
The use of models by all runs, queues and plannings of a home, attempt by attempt, as their journals have it.

The lines of a run that no process writes are kept beside its journal: the journal is read again only once it has grown.
"""

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal

from pydantic import Field

from forgepool.orchestrator.journal.store import JournalUnreadable, is_being_written, last_number
from forgepool.orchestrator.plan.budget import Use
from forgepool.orchestrator.run import run_folder
from forgepool.orchestrator.run.neighbours.other_runs import name_hub
from forgepool.orchestrator.run.run_folder import KeptRun
from forgepool.orchestrator.state.run import RunState
from forgepool.workers.schema.orders import Message, Spent
from forgepool.workers.schema.settings import Settings

_FILE = "spend.json"
_FORM = 1
"""The form of the kept lines; lines of another form are made again."""


class SpendLine(Message):
    """The use of one attempt, review or planning."""

    task: str = ""
    """Empty for the review of all that landed, and for a planning."""
    what: Literal["attempt", "review", "planning"] = "attempt"
    at: float
    """Unix seconds at which it was sent."""
    models: tuple[str, ...] = ()
    accounts: tuple[str, ...] = Field(default=(), exclude_if=lambda accounts: not accounts)
    """The accounts that it reserved with."""
    spent: Spent | None = None
    """Its own use as far as it is known, without that of attempts that it goes on from."""
    counted_usd: float = 0.0
    counted_tokens: int = 0
    """The amounts that count against budgets: its reservation, until its use is known."""
    answered: bool = True

    @property
    def use(self) -> Use:
        return Use(spent=self.spent, models=self.models)

    @property
    def held_usd(self) -> float:
        """The amount that counts beyond the known use of one under way, or without an answer."""
        known = 0.0 if self.spent is None else self.spent.cost_usd or 0.0
        return 0.0 if self.answered else max(0.0, self.counted_usd - known)

    @property
    def held_tokens(self) -> int:
        known = 0 if self.spent is None else self.spent.tokens
        return 0 if self.answered else max(0, self.counted_tokens - known)


class RunSpending(Message):
    """The use of one run, queue or planning."""

    run: str
    project: str
    """Its repository, by one name for the usual ways to write the address."""
    person: str = ""
    """The person who started it."""
    lines: tuple[SpendLine, ...] = ()
    live: bool = False
    """True while a process runs it."""
    number: int = 0
    """The number of the last event of its journal."""
    form: int = _FORM


def read_home(settings: Settings, *, unread: list[str], since: float = 0.0) -> Iterator[RunSpending]:
    """
    Yield the use of each run, queue and planning of the home with an event since then. `unread` receives a sentence for
    each journal that cannot be read.
    """
    for name in run_folder.run_names(settings):
        if _changed_at(run_folder.runs_folder(settings) / name) < since:
            continue
        try:
            yield read_spending(settings, name)
        except JournalUnreadable as problem:
            unread.append(str(problem))
    for path in sorted(run_folder.plan_texts(settings).glob(f"*/{_FILE}")):
        if (kept := _read_kept(path)) is not None:
            yield kept


def _changed_at(folder: Path) -> float:
    """Return when a journal was written last; 0 where there is none."""
    return max((path.stat().st_mtime for path in folder.glob("journal.db*")), default=0.0)


def read_spending(settings: Settings, name: str) -> RunSpending:
    """Return the use of one run or queue. Raises JournalUnreadable."""
    folder = run_folder.runs_folder(settings) / name
    live, number = is_being_written(folder), _last_number(folder)
    kept = None if live else _read_kept(folder / _FILE)
    if kept is not None and kept.number == number:
        return kept
    run = run_folder.open_run(settings, name, with_course=False)
    state = run.state()
    found = RunSpending(
        run=name,
        project=name_hub(run.options.hub),
        person=run.options.person,
        lines=tuple(_list_lines(run, state)),
        live=live,
        number=state.number,
    )
    if not live:
        keep_spending(folder, found)
    return found


def _last_number(folder: Path) -> int:
    try:
        return last_number(folder)
    except sqlite3.DatabaseError as problem:
        raise JournalUnreadable(f"{folder / 'journal.db'} cannot be read as a journal: {problem}") from problem


def keep_spending(folder: Path, spending: RunSpending) -> None:
    """Keep the lines in a folder, where it can be written."""
    path = folder / f"{_FILE}.{os.getpid()}"
    with suppress(OSError):
        path.write_text(spending.encode(), encoding="utf-8")
        path.replace(folder / _FILE)


def _read_kept(path: Path) -> RunSpending | None:
    try:
        kept = RunSpending.model_validate_json(path.read_bytes())
    except (OSError, ValueError):
        return None
    return kept if kept.form == _FORM else None


def _list_lines(run: KeptRun, state: RunState) -> Iterator[SpendLine]:
    course = run.course.grow_with(state)
    for task in (*state.tasks.values(), *state.removed.values()):
        is_free = task.id in course.tasks and task.id not in course.paid
        yield from _lines_of(task.uses.values(), task.id, "attempt", is_free=is_free)
        yield from _lines_of(task.review.uses.values(), task.id, "review", is_free=False)
    yield from _lines_of(state.wave_review.review.uses.values(), "", "review", is_free=False)


def _lines_of(
    uses: Iterable[Use], task: str, what: Literal["attempt", "review"], *, is_free: bool
) -> Iterator[SpendLine]:
    """Yield a line for each; none for a message that no worker had begun, nor for a command's attempts."""
    for use in uses:
        own, counted = use.own, bool(use.counted_usd or use.counted_tokens)
        if (use.ended == "untaken" and use.spent is None) or (is_free and own is None and not counted):
            continue
        if own is not None and not counted and not own.tokens and own.cost_usd == 0.0:
            continue
        yield SpendLine(
            task=task,
            what=what,
            at=use.sent_at,
            models=use.models,
            accounts=use.accounts,
            spent=own,
            counted_usd=use.counted_usd,
            counted_tokens=use.counted_tokens,
            answered=use.spent is not None,
        )
