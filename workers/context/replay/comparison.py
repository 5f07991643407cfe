"""
Recordings under every profile: one row for each, beside what they cost when nothing is ever removed.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypedDict

from forgepool.workers.context.profiles import registry
from forgepool.workers.context.profiles.off import Off
from forgepool.workers.context.replay.cost import ReplayBill, total
from forgepool.workers.context.replay.needs import Needs, general, needs
from forgepool.workers.context.replay.oracle import floor, oracle
from forgepool.workers.context.replay.recording import Recording
from forgepool.workers.context.replay.simulation import ReplayOutcome, ReplayTerms, simulate

APPEND_ONLY, UNCACHED = "append-only", "uncached"
_BOUNDS = {
    "oracle": (oracle, False),
    "oracle+inputs": (oracle, True),
    "floor": (floor, False),
    "floor+inputs": (floor, True),
}


class Columns(TypedDict):
    """A row, as programs are given it. A share is None where there is nothing to be a share of, or it means nothing."""

    profile: str
    cost_usd: float
    cost_vs_append_pct: float | None
    cost_with_refetch_pct: float | None
    fresh_tokens: int
    written_tokens: int
    cached_tokens: int
    hit_rate: float
    peak_tokens: int
    mean_tokens: int
    rebuilds: int
    model_calls: int
    needs_lost_pct: float
    steps_hit_pct: float
    anchors_lost_pct: float


@dataclass(frozen=True, slots=True)
class ReplayCase:
    """A recording, and what its calls needed."""

    recording: Recording
    needs: dict[int, Needs]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    name: str
    outcomes: Sequence[ReplayOutcome]
    """By recording."""
    terms: ReplayTerms
    append_usd: float
    bill: ReplayBill = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "bill", total(outcome.bill for outcome in self.outcomes))

    @property
    def cost_usd(self) -> float:
        return self.bill.cost_usd(self.terms.prices)

    @property
    def refused(self) -> list[str]:
        return [each for outcome in self.outcomes for each in outcome.refused]

    @property
    def with_refetch_usd(self) -> float:
        return self.cost_usd + sum(outcome.refetch_usd for outcome in self.outcomes)

    def share(self, part: Callable[[ReplayOutcome], int], whole: Callable[[ReplayOutcome], int]) -> float:
        """In percent; 0 where there is nothing."""
        of = sum(map(whole, self.outcomes))
        return 100 * sum(map(part, self.outcomes)) / of if of else 0.0

    @property
    def steps_hit_pct(self) -> float:
        return self.share(lambda each: each.calls_hit, lambda each: each.calls_with_needs)

    def against(self, usd: float) -> float | None:
        return round(100 * (usd / self.append_usd - 1), 2) if self.append_usd else None

    @property
    def columns(self) -> Columns:
        return Columns(
            profile=self.name,
            cost_usd=round(self.cost_usd, 6),
            cost_vs_append_pct=self.against(self.cost_usd),
            cost_with_refetch_pct=self.against(self.with_refetch_usd),
            fresh_tokens=round(self.bill.fresh),
            written_tokens=round(self.bill.written),
            cached_tokens=round(self.bill.cached),
            hit_rate=round(self.bill.hit_rate, 4),
            peak_tokens=round(self.bill.peak),
            mean_tokens=round(self.bill.mean),
            rebuilds=sum(each.rebuilds for each in self.outcomes),
            model_calls=sum(each.model_calls for each in self.outcomes),
            needs_lost_pct=round(self.share(lambda each: each.needs_lost, lambda each: each.needs), 2),
            steps_hit_pct=round(self.steps_hit_pct, 2),
            anchors_lost_pct=round(self.share(lambda each: each.anchors_lost, lambda each: each.anchors), 2),
        )


def row_names() -> tuple[str, ...]:
    """All there can be, in the order of the whole table."""
    return (APPEND_ONLY, UNCACHED, *registry.names(), *_BOUNDS)


def cases(recordings: Sequence[Recording]) -> list[ReplayCase]:
    """With the needs of all; what the recordings of three projects name is needed by none."""
    texts: dict[str, list[str]] = defaultdict(list)
    for recording in recordings:
        texts[recording.project] += (result.text for turn in recording.turns for result in turn.results)
    unimportant = general(texts)
    return [ReplayCase(recording, needs(recording.turns, unimportant)) for recording in recordings]


def compare(found: Sequence[ReplayCase], names: Sequence[str], terms: ReplayTerms) -> Iterator[Row]:
    """
    A row for each name, in that order.

    Raises:
        UnknownProfile: one of the names is none of `row_names`; before there is any row.
    """
    for name in names:
        if name not in row_names():
            raise registry.UnknownProfile(name)
    append = [outcome_of(APPEND_ONLY, case, terms) for case in found]
    append_usd = total(outcome.bill for outcome in append).cost_usd(terms.prices)
    for name in names:
        outcomes = append if name == APPEND_ONLY else [outcome_of(name, case, terms) for case in found]
        yield Row(name=name, outcomes=outcomes, terms=terms, append_usd=append_usd)


def outcome_of(name: str, case: ReplayCase, terms: ReplayTerms) -> ReplayOutcome:
    """One recording in one row."""
    if name in _BOUNDS:
        bound, inputs = _BOUNDS[name]
        return bound(case.recording, case.needs, terms.prices, inputs=inputs)
    if name in (APPEND_ONLY, UNCACHED):
        return simulate(case.recording, case.needs, Off(), terms, messages_cached=name == APPEND_ONLY)
    entry = registry.find_profile(name)
    return simulate(case.recording, case.needs, entry.make(), terms, birth=entry.birth)
