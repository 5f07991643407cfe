"""
The treasury of a home for one run: the limits of `treasury.yaml`, and the amounts of all runs.

The truth is in the journals, and Redis holds a projection of them. The run reserves there before it journals and sends
what costs. So a process that dies in between has reserved too much and never too little. This lasts until the run goes
on, another run of its home starts, or the period ends.
"""

import calendar
import fcntl
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from typing import get_args

import structlog

from forgepool.orchestrator.decisions.orders.treasury import (
    PROGRAM,
    AskedAccounts,
    CountedUse,
    LimitStanding,
    Offered,
    Totals,
    TreasuryFacts,
    TreasuryLimit,
    TreasurySource,
    find_accounts_used,
    list_counted,
    restricts,
    sum_counted,
)
from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.journal.events import Event, MoneyGranted, OrderSent, ReviewSent, WaveReviewSent
from forgepool.orchestrator.run.fleet import AccountFinder
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.orchestrator.run.neighbours.other_runs import name_hub
from forgepool.orchestrator.run.neighbours.spending import RunSpending, read_home
from forgepool.orchestrator.run.run_folder import RunOptions
from forgepool.orchestrator.state.run import RunState
from forgepool.workers.llm.routing.table import read_table, unknown
from forgepool.workers.queue.broker import Redis
from forgepool.workers.queue.leases import Present
from forgepool.workers.queue.treasury_cells import (
    LIFE_S,
    SETTLE_S,
    CellAnswer,
    CellWrite,
    WriteKind,
    join_epoch,
    leave_treasury,
    publish_amounts,
    write_amounts,
)
from forgepool.workers.schema.documents import read, read_text, validate
from forgepool.workers.schema.mistakes import DocumentWrong, Mistake
from forgepool.workers.schema.orders import CliProgram
from forgepool.workers.schema.settings import Settings

log = structlog.get_logger()

_PROGRAM_ACCOUNTS = tuple(f"{PROGRAM}{program}" for program in get_args(CliProgram))


def read_treasury(settings: Settings) -> TreasurySource | None:
    """Return the limits of the home; None where it has none. Raises DocumentWrong."""
    path = settings.treasury_file
    if path is None:
        return None
    document = read(read_text(path, str(path)), str(path))
    source = validate(document, TreasurySource)
    wrong = []
    accounts = cache(lambda: (*read_table(settings.models_file).accounts, *_PROGRAM_ACCOUNTS))
    for number, limit in enumerate(source.limits):
        where = document.line(("limits", number))
        if sum(map(bool, (limit.account, limit.project, limit.person))) > 1:
            said = "a limit holds for an account, for a project or for a person; make a limit for each of them"
            wrong.append(Mistake(where, said))
        for key in ("account", "project", "person"):
            if key in limit.model_fields_set and not getattr(limit, key):
                wrong.append(Mistake(where, f"'{key}' of a limit is empty; name one, or leave '{key}' out for all"))
        if limit.account and limit.account not in _PROGRAM_ACCOUNTS and limit.account not in (known := accounts()):
            wrong.append(Mistake(where, unknown("account", limit.account, known)))
        if limit.project and not limit.project.startswith("/") and ":" not in limit.project:
            said = f"no project can be called '{limit.project}'; give the URL or the absolute path of its repository"
            wrong.append(Mistake(where, said))
        if limit.usd is None and limit.tokens is None:
            wrong.append(Mistake(where, "a limit has neither 'usd' nor 'tokens'; give it an amount"))
    if wrong:
        raise DocumentWrong(str(path), wrong)
    named = tuple(one.model_copy(update={"project": name_hub(one.project)}) for one in source.limits)
    return source.model_copy(update={"limits": named})


@dataclass(slots=True, kw_only=True)
class TreasuryDesk:
    """One run's side of the treasury. Every method but `leave` may raise BrokerAway."""

    client: Redis
    run: str
    project: str
    person: str
    settings: Settings
    source: TreasurySource
    is_held: bool
    """The home's runs keep limits together that hold work back, by `hold_treasury`."""
    accounts: AccountFinder
    settle_s: float = SETTLE_S
    """0 on a Redis of the run's own, where no other can be."""
    life_s: float = LIFE_S
    asked: AskedAccounts = field(default_factory=AskedAccounts)
    uncounted: tuple[str, ...] = ()
    """Sentences on journals of this home that could not be read, so that the limits know nothing of their amounts."""
    _read_at: float = 0.0
    """The time of the file when it was read."""
    _epoch: str = ""
    _present: tuple[str, ...] = ()
    _quiet_until: float = 0.0

    def note_accounts(self, course: PlanIndex, present: Sequence[Present]) -> None:
        """Take in which accounts the run may ask; a table that cannot be read leaves them as they were."""
        with suppress(DocumentWrong):
            self.asked = self.accounts.find(course, present)

    def look(self, state: RunState, now: float) -> TreasuryFacts:
        """Tell the other runs what this one has, and return how the limits stand."""
        self._read_again()
        standings = self._list_standings(now)
        if not standings:
            return TreasuryFacts(current=(), asked=self.asked)
        answer = self._write(state, standings, "tell", now)
        if answer.outcome == "lost":
            return TreasuryFacts(current=tuple(standings), open=False, asked=self.asked)
        return TreasuryFacts(
            asked=self.asked,
            uncounted=self.uncounted,
            current=tuple(
                replace(one, others=Totals(*others)) for one, others in zip(standings, answer.others, strict=True)
            ),
            open=answer.outcome == "open" and not self._is_quiet,
        )

    def reserve(self, state: RunState, events: Sequence[Event], now: float) -> tuple[list[Event], bool]:
        """
        Reserve for what costs. Return the events that may be taken, and whether some may not: these are decided on
        again, by what the others have by then.
        """
        taken: list[Event] = []
        added: list[CountedUse] = []
        refused = False
        for event in events:
            costs = _cost_of(state, event, now)
            if costs is not None and not self._reserve(state, [*added, costs], now):
                refused = True
                continue
            added += [] if costs is None else [costs]
            taken.append(event)
        return taken, refused

    def leave(self) -> None:
        leave_treasury(self.client, self.run)

    def _reserve(self, state: RunState, added: Sequence[CountedUse], now: float) -> bool:
        """Reserve for the last of these beside the others."""
        held_by = ("", *added[-1].accounts)
        cells = [one for one in self._list_standings(now) if one.limit.account in held_by and restricts(state, one)]
        if not cells:
            return True
        if self._is_quiet or any(one.limit.period(added[-1].at) != one.period for one in cells):
            return False
        kind: WriteKind = "review" if added[-1].review else "order"
        return self._write(state, cells, kind, now, added).outcome == "open"

    def _write(
        self,
        state: RunState,
        standings: Sequence[LimitStanding],
        kind: WriteKind,
        now: float,
        added: Sequence[CountedUse] = (),
    ) -> CellAnswer:
        counted = [*list_counted(state, self.asked.offered), *added]
        writes = [
            CellWrite(
                cell=one.cell,
                mine=sum_counted(counted, one.limit, one.period),
                cap_usd=one.caps[0],
                kept_usd=one.parts()[0],
                cap_tokens=one.caps[1],
                kept_tokens=one.parts()[1],
            )
            for one in standings
        ]
        answer = CellAnswer("lost")
        if self._epoch:
            answer = write_amounts(self.client, self._epoch, self.run, kind, writes, life_s=self.life_s)
        if answer.outcome == "lost":
            self._join(now)
            answer = write_amounts(self.client, self._epoch, self.run, kind, writes, life_s=self.life_s)
        self._present = answer.present or self._present
        return answer

    def _join(self, now: float) -> None:
        """
        Enter the epoch that Redis is in, and publish what the runs of this home have that no process runs. The others
        of this home, and all that were seen before, are waited for.
        """
        year, month, *_ = time.gmtime(now)
        begun = calendar.timegm((year, month, 1, 0, 0, 0))
        unread: list[str] = []
        home = [one for one in read_home(self.settings, unread=unread, since=begun) if one.run != self.run]
        for problem in unread:
            log.warning("treasury.not_counted", run=self.run, why=problem)
        self.uncounted = tuple(unread)
        expected = {*self._present, *(one.run for one in home if one.live)} - {self.run}
        self._epoch = join_epoch(self.client, self.run, expected=sorted(expected), settle_s=self.settle_s)
        for spending in home:
            if spending.live:
                continue
            counted = list(_list_spent(spending, self.asked.offered))
            limits = [one for one in self.source.limits if _holds_for(one, spending.project, spending.person)]
            cells = [LimitStanding(limit=one, at=now) for one in limits]
            amounts = {one.cell: sum_counted(counted, one.limit, one.period) for one in cells}
            used = [(cell, each) for cell, each in amounts.items() if any(each)]
            publish_amounts(self.client, self._epoch, spending.run, used, life_s=self.life_s)

    def _list_standings(self, now: float) -> list[LimitStanding]:
        """Return the limits of this run in their present periods."""
        limits = (one for one in self.source.limits if _holds_for(one, self.project, self.person))
        return [LimitStanding(limit=one, at=now, kept=self.source.kept_for_reviews) for one in limits]

    def _read_again(self) -> None:
        """Take in the file where a person has changed it; one that cannot be read leaves the limits as they were."""
        path = self.settings.treasury_file
        try:
            at = 0.0 if path is None else path.stat().st_mtime
        except OSError:
            return
        if at == self._read_at:
            return
        try:
            source = read_treasury(self.settings)
        except DocumentWrong as wrong:
            log.warning("treasury.unreadable", run=self.run, why=str(wrong))
            source = None
        if source is not None and (self.is_held or not _holds_back(source)):
            self.source = source
            if self._read_at:
                # There may be cells in which no run has written yet.
                self._epoch, self._quiet_until = "", time.monotonic() + self.settle_s
        self._read_at = at

    @property
    def _is_quiet(self) -> bool:
        return time.monotonic() < self._quiet_until


def _holds_back(source: TreasurySource) -> bool:
    return any(one.at_limit != "warn" for one in source.limits)


def _holds_for(limit: TreasuryLimit, project: str, person: str) -> bool:
    return limit.project in ("", project) and limit.person in ("", person)


def _cost_of(state: RunState, event: Event, now: float) -> CountedUse | None:
    """Return what an event reserves beyond what is reserved already; None where it costs nothing."""
    match event:
        case ReviewSent(task=name) if state.tasks[name].review.batch is not None:
            return None  # A request about a batch has its money.
        case WaveReviewSent() if state.wave_review.review.batch is not None:
            return None
        case OrderSent() | ReviewSent() | WaveReviewSent():
            usd, tokens, at = event.reserved_usd or 0.0, event.reserved_tokens or 0, event.issued_at
            accounts = event.accounts
        case MoneyGranted():
            use = state.tasks[event.task].uses[event.attempt]
            usd = (event.reserved_usd or 0.0) - (use.reserved_usd or 0.0)
            tokens, at = (event.reserved_tokens or 0) - (use.reserved_tokens or 0), use.sent_at
            accounts = use.accounts
        case _:
            return None
    review = not isinstance(event, OrderSent | MoneyGranted)
    return CountedUse(at, review, usd, tokens, accounts, accounts) if usd or tokens else None


def _list_spent(spending: RunSpending, offered: Offered) -> Iterator[CountedUse]:
    for line in spending.lines:
        usd = line.counted_usd if line.what != "planning" or line.spent is None else line.spent.cost_usd or 0.0
        tokens = line.counted_tokens if line.what != "planning" or line.spent is None else line.spent.tokens
        # A planning reserves nothing, and counts with all accounts that offer its models.
        through = tuple(account for model in line.models for account in offered.get(model, ()))
        accounts = through if line.what == "planning" else line.accounts
        used = find_accounts_used(accounts, line.models, offered)
        yield CountedUse(line.at, line.what == "review", usd, tokens, accounts, used)


def open_desk(
    settings: Settings, source: TreasurySource | None, options: RunOptions, client: Redis, *, alone: bool
) -> TreasuryDesk | None:
    """Return a run's side of the treasury; None without limits. `alone` says that the Redis is the run's own."""
    if source is None:
        return None
    return TreasuryDesk(
        client=client,
        run=options.run,
        project=name_hub(options.hub),
        person=options.person,
        settings=settings,
        source=source,
        is_held=_holds_back(source),
        settle_s=0.0 if alone else SETTLE_S,
        accounts=AccountFinder(models_file=settings.models_file),
    )


@contextmanager
def hold_treasury(settings: Settings, *, alone: bool) -> Iterator[TreasurySource | None]:
    """
    Yield the limits of the home, which its runs keep together: by one Redis, or one run after another.

    Raises:
        CannotRun: a run would have a Redis of its own beside another run.
        DocumentWrong: the file cannot be read.
    """
    source = read_treasury(settings)
    if source is None or not _holds_back(source):
        yield source
        return
    with (settings.home / "treasury.lock").open("a") as held:
        try:
            fcntl.flock(held, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CannotRun(
                f"{settings.treasury_file} limits all runs of this home together, and one that has a Redis of its own "
                "cannot go on beside another; wait for that, or give all runs and queues one Redis with --broker"
            ) from None
        yield source
