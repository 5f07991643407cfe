"""
What this user's own earlier runs of a plan tell of the next one: how long things took, how often they were red, what
they cost. Read from the journals, of which one that cannot be read is named and left out.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.journal.events import (
    CheckAnswered,
    CheckSent,
    LandingAnswered,
    LandingIntended,
    MessageTaken,
    OrderAnswered,
    ReviewAnswered,
    ReviewSent,
    TaskFailed,
    TaskReturned,
)
from forgepool.orchestrator.journal.store import JournalUnreadable, Recorded, read
from forgepool.orchestrator.plan.document import Plan
from forgepool.orchestrator.run.run_folder import open_run, runs_folder
from forgepool.workers.schema.orders import WorkResult
from forgepool.workers.schema.settings import Settings

_RUNS_LOOKED_AT = 5
_MOST_LETTERS = 160
"""Of what is said about a run that is left out."""
Kind = Literal["check", "review", "landing"]
_AT_GATE = ("check_failed", "conflict", "findings")


@dataclass(slots=True, kw_only=True)
class Fit:
    """Observations of the latest runs of a plan, oldest first."""

    runs: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    """A sentence for each run that could not be read."""
    work_s: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """By task, of attempts that brought a candidate."""
    took_s: defaultdict[Kind, list[float]] = field(default_factory=lambda: defaultdict(list))
    usd: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """By task, of attempts by models whose price was known."""
    review_usd: list[float] = field(default_factory=list)
    counted: Counter[str] = field(default_factory=Counter)
    """`attempts` and of these `fruitless`; `judged` candidates at the gate and of these `red`; `reviews`, `failed`."""

    def seconds(self, kind: Kind) -> list[float]:
        """Without those that clocks of other hosts have made impossible."""
        return [one for one in self.took_s.get(kind, ()) if one > 0]

    def share(self, part: str, whole: str) -> float | None:
        """None where there was nothing that it could be a share of."""
        return self.counted[part] / self.counted[whole] if self.counted[whole] else None


def fit(settings: Settings, plan: Plan) -> Fit:
    """From the last five runs of plans of this name, whatever became of them."""
    found, paid = Fit(), PlanIndex(plan, {}).paid
    for folder in _earlier(settings, plan, found)[-_RUNS_LOOKED_AT:]:
        try:
            recorded = list(read(folder))
        except JournalUnreadable as problem:
            found.left_out.append(_sentence(problem))
            continue
        found.runs.append(folder.name)
        _take_in(found, recorded, paid)
    return found


def _earlier(settings: Settings, plan: Plan, found: Fit) -> list[Path]:
    """Oldest first. The name of a run begins with its plan's, but so do those of a plan called `<name>-more`."""
    alike = sorted(runs_folder(settings).glob(f"{plan.name[:40]}-*"), key=lambda path: path.stat().st_mtime)
    earlier = []
    for folder in alike:
        try:
            if open_run(settings, folder.name).plan.name == plan.name:
                earlier.append(folder)
        except JournalUnreadable as problem:
            found.left_out.append(_sentence(problem))
    return earlier


def _sentence(problem: JournalUnreadable) -> str:
    """Its beginning: what a validator adds are lines for somebody else."""
    first, *more = str(problem).splitlines()
    return first[:_MOST_LETTERS] + ("..." if more or len(first) > _MOST_LETTERS else "")


def _take_in(found: Fit, recorded: list[Recorded], paid: frozenset[str]) -> None:
    clock = _Clock()
    for one in recorded:
        clock.note(one)
        match one.event:
            case OrderAnswered(task=task, result=result):
                _worked(found, task, result, is_paid=task in paid)
            case ReviewAnswered(result=result) if result.outcome in ("passed", "failed"):
                found.counted.update(reviews=1, failed=result.outcome == "failed")
                found.took_s["review"].append(result.seconds or clock.since_begun(result.request_id, one.at))
                if result.spent.cost_usd is not None:
                    found.review_usd.append(result.spent.cost_usd)
            case CheckAnswered(result=result) if result.verdict == "green":
                found.took_s["check"].append(result.seconds or clock.since_begun(result.request_id, one.at))
            case LandingAnswered(result=result, entries=entries, task=task) if result.outcome == "landed":
                found.counted.update(judged=len(entries or (task,)))
                if result.request_id in clock.begun:
                    found.took_s["landing"].append(clock.since_begun(result.request_id, one.at))
            case TaskReturned(reason=reason) | TaskFailed(reason=reason) if reason.kind in _AT_GATE:
                found.counted.update(judged=1, red=1)
            case _:
                pass


def _worked(found: Fit, task: str, result: WorkResult, *, is_paid: bool) -> None:
    if result.outcome in ("infrastructure", "needs_human"):
        return
    made = result.outcome == "candidate"
    found.counted.update(attempts=1, fruitless=not made)
    if made:
        found.work_s[task].append(result.finished_at - result.started_at)
    if is_paid and result.spent.cost_usd is not None:
        carried = result.carried.cost_usd if result.carried is not None else 0.0
        found.usd[task].append(max(0.0, result.spent.cost_usd - (carried or 0.0)))


@dataclass(slots=True)
class _Clock:
    """When messages were begun, as far as that was seen; else when they were sent."""

    begun: dict[str, float] = field(default_factory=dict)

    def note(self, one: Recorded) -> None:
        if isinstance(one.event, CheckSent | ReviewSent | LandingIntended | MessageTaken):
            self.begun[one.event.message_id] = one.at

    def since_begun(self, message_id: str, at: float) -> float:
        return at - self.begun.get(message_id, at)
