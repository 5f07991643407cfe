"""
Adds up which models a task or a run used, how much, and what it cost. Pure.

Each attempt counts its own usage; a lost one counts what the hub knows of it. A missing price is reported as unknown,
not as zero.
"""

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import PlainSerializer

from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.decisions.reasons import count_of, stretch
from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.journal.store import Recorded
from forgepool.orchestrator.plan.budget import Budget, BudgetLedger, Use
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import TaskState

if TYPE_CHECKING:
    from forgepool.orchestrator.run.neighbours.spending import RunSpending, SpendLine


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBill:
    models: tuple[str, ...] = ()
    turns: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    """Input tokens that came from the providers' caches."""
    cost_usd: float | None = 0.0
    """None where part of it is unknown."""
    priced_usd: float = 0.0
    """The part of the cost that is known."""
    unpriced_attempts: int = 0
    unanswered_attempts: int = 0
    """Attempts under way, or lost without a report; their usage is not included."""

    @property
    def counts(self) -> bool:
        """True if any usage is worth reporting."""
        return bool(self.input_tokens or self.output_tokens) or self.cost_usd != 0.0

    @property
    def cached_share(self) -> float:
        """0 to 1."""
        return self.cached_tokens / self.input_tokens if self.input_tokens else 0.0


def bill(uses: Iterable[Use]) -> RunBill:
    counted = [use for use in uses if use.ended != "untaken" or use.spent is not None]
    spent = [own for use in counted if (own := use.own) is not None]
    costs = [usage.cost_usd for usage in spent]
    priced = sum(cost for cost in costs if cost is not None)
    unpriced = costs.count(None)
    return RunBill(
        models=tuple(dict.fromkeys(model for use in counted for model in use.models)),
        turns=sum(one.turns for one in spent),
        input_tokens=sum(one.input_tokens for one in spent),
        output_tokens=sum(one.output_tokens for one in spent),
        cached_tokens=sum(one.cached_tokens for one in spent),
        cost_usd=None if unpriced else priced,
        priced_usd=priced,
        unpriced_attempts=unpriced,
        unanswered_attempts=sum(use.own is None for use in counted),
    )


def add_bills(bills: Iterable[RunBill]) -> RunBill:
    every = list(bills)
    return RunBill(
        models=tuple(dict.fromkeys(model for one in every for model in one.models)),
        turns=sum(one.turns for one in every),
        input_tokens=sum(one.input_tokens for one in every),
        output_tokens=sum(one.output_tokens for one in every),
        cached_tokens=sum(one.cached_tokens for one in every),
        cost_usd=None if any(one.cost_usd is None for one in every) else sum(one.priced_usd for one in every),
        priced_usd=sum(one.priced_usd for one in every),
        unpriced_attempts=sum(one.unpriced_attempts for one in every),
        unanswered_attempts=sum(one.unanswered_attempts for one in every),
    )


def find_landing_attempts(task: TaskState) -> set[int]:
    """Return the attempt that made what landed, with those whose conversation it has continued."""
    found = set[int]()
    number: int | None = task.made_by if task.phase == "landed" else None
    while number is not None and number not in found:
        found.add(number)
        number = task.uses[number].resumes if number in task.uses else None
    return found


def bill_waste(tasks: Iterable[TaskState]) -> RunBill:
    """Add up the attempts that did not land."""
    return bill(use for task in tasks for number, use in task.uses.items() if number not in find_landing_attempts(task))


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerTotals:
    """A budget's cap, and what counts against it."""

    cap: Budget
    usd: float
    tokens: int

    @classmethod
    def of(cls, ledger: BudgetLedger) -> "LedgerTotals":
        return cls(cap=ledger.cap, usd=ledger.usd, tokens=ledger.tokens)


def describe_ladders(course: PlanIndex, state: RunState, recorded: Sequence[Recorded]) -> Iterator[str]:
    """
    Yield, for each place in the tasks' ladders, its attempts, landings and cost, and landings in doubt since; then the
    races.
    """
    landed: tuple[str, ...] = ()
    at: dict[str, int] = {}
    made: defaultdict[int, list[tuple[TaskState, int]]] = defaultdict(list)
    red: set[str] = set()
    for one in recorded:
        match one.event:
            case e.OrderSent(task=name, attempt=attempt) if name in course.tasks and course.tasks[name].ladder:
                if course.lead != name and name not in course.models:
                    made[one.event.rung or at.get(name, 1)].append((state.tasks[name], attempt))
            case e.TaskReturned() | e.TaskRejected() | e.RacerPromoted() if one.event.rung:
                at[one.event.task] = one.event.rung
            case e.TaskRetried(task=name, afresh=True):
                at.pop(name, None)
            case e.WaveSent(tasks=tasks):
                landed = tasks
            case e.WaveAnswered(result=result) if result.verdict not in ("green", "infrastructure"):
                red.update(landed)
            case _:
                pass
    for rung, attempts in sorted(made.items()):
        uses = [task.uses[number] for task, number in attempts if number in task.uses]
        ended = [task.id for task, number in attempts if task.phase == "landed" and task.made_by == number]
        cost = bill(uses)
        models = f" ({', '.join(cost.models)})" if cost.models else ""
        doubted = len(red.intersection(ended))
        since = f" ({doubted} before a post-merge check that was red)" if doubted else ""
        counts = f"attempts: {len(attempts)}, landed: {len(ended)}{since}"
        yield f"model {rung} of its ladder{models}: {counts}, {cost_words(cost)}"
    sent = [one.event for one in recorded if isinstance(one.event, e.OrderSent) and one.event.task in course.tasks]
    yield from (_describe_race(state.tasks[one.task], (one.races, one.attempt)) for one in sent if one.races)


def _describe_race(task: TaskState, pair: Sequence[int]) -> str:
    won = [number for number in pair if task.phase == "landed" and task.made_by == number]
    lost = [task.uses[number] for number in pair if number not in won and number in task.uses]
    ended = f"attempt {won[0]} landed; the other" if won else "neither has landed; both"
    return f"race of attempts {pair[0]} and {pair[1]} of '{task.id}': {ended}: {cost_words(bill(lost))}"


ReportedLedger = Annotated[BudgetLedger, PlainSerializer(LedgerTotals.of, return_type=LedgerTotals)]
"""A budget that programs are shown by its totals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoneyRow:
    """The usage of one task, or of one model."""

    name: str
    """The names of models that shared an attempt stand together."""
    attempts: int
    used: RunBill


@dataclass(frozen=True, slots=True, kw_only=True)
class MoneyReport:
    """The usage of a run, by task and by model, the most expensive first."""

    used: RunBill
    waste: RunBill
    """The part of attempts that did not land."""
    reserved_usd: float
    reserved_tokens: int
    """Held for attempts under way, and for lost ones whose usage is not fully known."""
    budget: ReportedLedger
    tasks: tuple[MoneyRow, ...]
    models: tuple[MoneyRow, ...]


def report_money(state: RunState, ledger: BudgetLedger) -> MoneyReport:
    """Add up a run's usage. A review counts with its task, and one of all that landed with none."""
    by_task: dict[str, list[Use]] = {}
    by_model: dict[str, list[Use]] = {}
    for task in state.tasks.values():
        if uses := [*task.uses.values(), *task.review.uses.values()]:
            by_task[task.id] = uses
    for use in state.uses():
        by_model.setdefault(_name_models(use), []).append(use)
    held = (ledger.under_way, ledger.lost)
    return MoneyReport(
        used=bill(state.uses()),
        waste=bill_waste(state.tasks.values()),
        reserved_usd=sum(one.usd or 0.0 for one in held),
        reserved_tokens=sum(one.tokens or 0 for one in held),
        budget=ledger,
        tasks=_rows_of(by_task),
        models=_rows_of(by_model),
    )


def _name_models(use: Use) -> str:
    return ", ".join(use.models) or "(not known)"


def _rows_of(uses: dict[str, list[Use]]) -> tuple[MoneyRow, ...]:
    rows = [MoneyRow(name=name, attempts=len(some), used=bill(some)) for name, some in uses.items()]
    spent = [row for row in rows if row.used.counts]
    return tuple(sorted(spent, key=lambda row: (-row.used.priced_usd, -row.used.input_tokens, row.name)))


SpendBy = Literal["day", "project", "model", "task"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSpending:
    """The money of a run or queue that a process runs."""

    run: str
    used: RunBill
    reserved_usd: float
    reserved_tokens: int
    """Held for attempts under way, and for lost ones whose usage is not fully known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendReport:
    """The usage of all runs, queues and plannings of a home; each attempt counts once, when it was sent."""

    by: SpendBy
    since: float
    """Unix seconds; 0 for all."""
    used: RunBill
    rows: tuple[MoneyRow, ...]
    """Days in their order, all else the most expensive first."""
    live: tuple[LiveSpending, ...]
    unread: tuple[str, ...] = ()
    """A sentence for each journal that cannot be read, and is not counted."""


def report_spending(spendings: "Iterable[RunSpending]", by: SpendBy, *, since: float = 0.0) -> SpendReport:
    grouped: dict[str, list[Use]] = {}
    live: list[LiveSpending] = []
    for spending in spendings:
        lines = [line for line in spending.lines if line.at >= since]
        for line in lines:
            grouped.setdefault(_name_row(by, spending, line), []).append(line.use)
        if spending.live:
            live.append(
                LiveSpending(
                    run=spending.run,
                    used=bill(line.use for line in lines),
                    reserved_usd=sum(line.held_usd for line in lines),
                    reserved_tokens=sum(line.held_tokens for line in lines),
                )
            )
    rows = _rows_of(grouped)
    return SpendReport(
        by=by,
        since=since,
        used=bill(use for uses in grouped.values() for use in uses),
        rows=tuple(sorted(rows, key=lambda row: row.name)) if by == "day" else rows,
        live=tuple(live),
    )


def _name_row(by: SpendBy, spending: "RunSpending", line: "SpendLine") -> str:
    match by:
        case "day":
            return time.strftime("%Y-%m-%d", time.gmtime(line.at))
        case "project":
            return spending.project
        case "model":
            return _name_models(line.use)
        case "task":
            without = "(planning)" if line.what == "planning" else "(all that landed)"
            return f"{spending.run} {line.task or without}"


def bill_words(of: RunBill) -> str:
    """
    Describe a bill: `claude-x: 12,345 tokens in (80% cached), 678 out, 0.12 USD`. Without counts, name only the models.
    """
    if not of.counts:
        return ", ".join(of.models)
    cached = f" ({of.cached_share:.0%} cached)" if of.cached_tokens else ""
    tokens = f"{of.input_tokens:,} tokens in{cached}, {of.output_tokens:,} out, {cost_words(of)}"
    return f"{', '.join(of.models)}: {tokens}" if of.models else tokens


def cost_words(of: RunBill) -> str:
    if of.cost_usd is not None:
        return f"{usd_words(of.cost_usd)} USD"
    return f"cost unknown (known part: {usd_words(of.priced_usd)} USD)" if of.priced_usd else "cost unknown"


def usd_words(amount: float) -> str:
    """Format an amount in cents, with more digits below one cent."""
    return f"{amount:.2f}" if amount >= 0.01 or amount <= 0 else f"{amount:.4f}"


def budget_words(ledger: BudgetLedger) -> Iterator[str]:
    """Yield the state of each capped budget, with the part reserved or of unknown use."""
    if ledger.cap.usd is not None:
        held = _held_words(_usd(ledger.under_way.usd), _usd(ledger.lost.usd))
        yield f"{ledger.usd:.2f} of {ledger.cap.usd:.2f} USD spent or reserved{held}"
    if ledger.cap.tokens is not None:
        held = _held_words(_tokens(ledger.under_way.tokens), _tokens(ledger.lost.tokens))
        yield f"{ledger.tokens:,} of {ledger.cap.tokens:,} tokens spent or reserved{held}"


def _held_words(under_way: str, lost: str) -> str:
    said = []
    if under_way:
        said.append(f"{under_way} reserved for attempts under way")
    if lost:
        said.append(f"{lost} held for lost or cancelled attempts, whose usage is not fully known")
    return f" ({'; '.join(said)})" if said else ""


def _usd(amount: float | None) -> str:
    return f"{amount:.2f} USD" if amount and amount >= 0.005 else ""


def _tokens(amount: int | None) -> str:
    return f"{amount:,} tokens" if amount else ""


def name_amounts(usd: float | None, tokens: int | None) -> str:
    both = ("" if usd is None else f"{usd:.2f} USD", "" if tokens is None else f"{tokens:,} tokens")
    return " and ".join(one for one in both if one)


def describe_money(event: e.Event) -> str | None:
    """Return what happens to an attempt's part of the budget, or to its race, as a sentence."""
    match event:
        case e.MoneyGranted(reserved_usd=usd, reserved_tokens=tokens):
            return f"{event.task}: its part of the budget is now {name_amounts(usd, tokens)}, as it asked"
        case e.MoneyQueued():
            return f"{event.task}: waits for more of the budget, and goes on with its part meanwhile"
        case e.BudgetAwaited():
            return f"{event.task}: has used its part of the budget, and goes on when there is more"
        case e.RacerPromoted():
            return f"{event.task}: attempt {event.attempt}, which raced the one that came back, takes its place"
        case e.RacerWithdrawn():
            return f"{event.task}: attempt {event.attempt} is withdrawn from its race: {event.why}"
        case e.TreasuryLimited(words=words):
            passed = f"{event.by or 'a person'} lets this run go on until then: {words}"
            return {"waits": f"work waits: {words}", "passed": passed}.get(event.effect, words)
        case _:
            return None


def describe_forecast(forecast: e.RunForecast) -> str:
    """Return a forecast as the end of a sentence."""
    least, middle, most = map(stretch, forecast.seconds)
    said = f"{middle} ({least} to {most})"
    return f"{said}, and {_forecast_usd(forecast.usd)}" if forecast.usd and forecast.usd[-1] else said


def _forecast_usd(usd: tuple[float, float, float]) -> str:
    least, middle, most = map(usd_words, usd)
    return f"{middle} USD ({least} to {most})"


def describe_terms(event: e.BudgetSet | e.RunForecast) -> str:
    """Return in one sentence what a run may use, or what it is expected to."""
    if isinstance(event, e.BudgetSet):
        return f"the run's budget is {name_amounts(event.budget.usd, event.budget.tokens) or 'without a cap'} now"
    by = count_of(len(event.runs), "earlier run") if event.runs else "the plan's durations"
    return f"forecast from {by}: {describe_forecast(event)}"


def compare_forecast(state: RunState, took_s: float) -> Iterator[str]:
    """Yield how long a run took, and its cost, against its forecast; nothing where there was none."""
    forecast = state.forecast
    if forecast is None:
        return
    least, middle, most = map(stretch, forecast.seconds)
    yield f"time: {middle} ({least} to {most}) was forecast, {stretch(took_s)} was taken"
    used = bill(state.uses())
    if forecast.usd is not None and (forecast.usd[-1] or used.counts):
        unknown = " and what has no known price" if used.unpriced_attempts else ""
        yield f"cost: {_forecast_usd(forecast.usd)} was forecast, {usd_words(used.priced_usd)} USD{unknown} was used"
