"""
The comparison of profiles on recordings: a row for each, relative to the cost of never removing anything.

Two bounds stand beside them. The oracle removes each piece when it is last needed, on the cheapest schedule of
rewrites; the floor does so without paying for rewrites.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, inf
from typing import TypedDict

from forgepool.workers.context.profiles import registry
from forgepool.workers.context.profiles.registry import Off
from forgepool.workers.context.replay.cost import Prices, ReplayBill, tokens, total
from forgepool.workers.context.replay.needs import Needs, general, needs, words
from forgepool.workers.context.replay.recording import Recording
from forgepool.workers.context.replay.simulation import ReplayOutcome, ReplayTerms, simulate, system_characters
from forgepool.workers.context.transcript.usage import length, turn_length
from forgepool.workers.llm.messages import Part, ToolCall, ToolResult

SIZES = (0.0, 50.0, 200.0, 800.0, 3_000.0)
"""Tokens below which a piece is never removed, one value for each schedule tried."""
_MOST_EVENTS = 400
"""The number of calls tried as events; in longer recordings every second, third... call."""
_INPUT_CHARACTERS = 200
"""Characters from which a call's arguments count as a piece of their own."""


@dataclass(frozen=True, slots=True)
class _Piece:
    tokens: float
    born: int
    """The number of the first call that sees it, from 0."""
    dead: float
    """The number of the first call that does not need it; infinite where it never goes."""


@dataclass(slots=True, kw_only=True)
class _Life:
    """A recording as pieces in order, with the size of each answer."""

    system: float
    pieces: list[_Piece] = field(default_factory=list)
    outputs: list[float] = field(default_factory=list)

    @property
    def calls(self) -> int:
        return len(self.outputs)


def floor(recording: Recording, wanted: Mapping[int, Needs], prices: Prices, *, inputs: bool) -> ReplayOutcome:
    life = _life(recording, wanted, inputs=inputs)
    bill = ReplayBill(calls=life.calls, output=sum(life.outputs))
    new, gone = _by_call(life, 0.0)
    held = 0.0
    for call in range(life.calls):
        held -= gone[call]
        system = life.system
        bill.cached += held + (system if call else 0.0)
        bill.written += new[call] + (0.0 if call else system)
        held += new[call]
        bill.prompts += held + system
        bill.peak = max(bill.peak, held + system)
    return ReplayOutcome(bill=bill)


def oracle(recording: Recording, wanted: Mapping[int, Needs], prices: Prices, *, inputs: bool) -> ReplayOutcome:
    life = _life(recording, wanted, inputs=inputs)
    found = [_scheduled(life, size, prices) for size in SIZES]
    return min(found, key=lambda outcome: outcome.bill.cost_usd(prices))


def _life(recording: Recording, wanted: Mapping[int, Needs], *, inputs: bool) -> _Life:
    """Divide a recording into pieces. A need keeps its newest source alive, unless something permanent shows it."""
    life, last_use = _Life(system=tokens(system_characters(recording))), _Uses()
    parts: list[tuple[Part, int]] = []
    for place, turn in enumerate(recording.turns):
        if turn.role == "assistant":
            last_use.need(wanted.get(place, Needs()), life.calls)
            life.outputs.append(tokens(turn_length(turn)))
        for part in turn.parts:
            goes = isinstance(part, ToolResult) or (inputs and isinstance(part, ToolCall) and _is_large(part))
            last_use.show(part, len(parts) if goes else None)
            parts.append((part, life.calls))
    for number, (part, born) in enumerate(parts):
        dead = last_use.dead(number, born)
        life.pieces.append(_Piece(tokens(length(part)), born, dead))
    return life


@dataclass(slots=True)
class _Uses:
    """The last call that needs each piece."""

    _newest: dict[str, int] = field(default_factory=dict)
    """The newest removable piece that shows each name or line."""
    _stays: set[str] = field(default_factory=set)
    _last: dict[int, int] = field(default_factory=dict)

    def show(self, part: Part, number: int | None) -> None:
        """Take a part; `number` is None for one that stays."""
        text = words(part)
        shown = {*(f"n {name}" for name in text.names), *(f"l {line}" for line in text.lines)}
        if number is None:
            self._stays |= shown
        else:
            self._last[number] = -1
            self._newest.update(dict.fromkeys(shown, number))

    def need(self, wanted: Needs, call: int) -> None:
        words_needed = [f"n {need.name}" for need in wanted.names]
        words_needed += [f"l {line}" for anchor in wanted.anchors for line in anchor.lines]
        for word in words_needed:
            if word not in self._stays and word in self._newest:
                self._last[self._newest[word]] = call

    def dead(self, number: int, born: int) -> float:
        return max(self._last[number], born) + 1 if number in self._last else inf


def _is_large(call: ToolCall) -> bool:
    return length(call) >= _INPUT_CHARACTERS


def _by_call(life: _Life, size: float) -> tuple[list[float], list[float]]:
    """Return the new tokens at each call, and those that may go from each call on."""
    new, gone = [0.0] * (life.calls + 1), [0.0] * (life.calls + 1)
    for piece in life.pieces:
        new[min(piece.born, life.calls)] += piece.tokens
        if piece.dead < life.calls and piece.tokens >= size:
            gone[int(piece.dead)] += piece.tokens
    return new, gone


def _scheduled(life: _Life, size: float, prices: Prices) -> ReplayOutcome:
    tables = _Tables.of(life, size)
    step = max(1, ceil(life.calls / _MOST_EVENTS))
    places = [0, *range(1, life.calls, step)]
    best: dict[int, tuple[float, int]] = {0: (0.0, 0)}
    for at in places[1:]:
        best[at] = min(_arrivals(tables, places, best, at, prices), default=(inf, 0))
    last = min(places, key=lambda place: best[place][0] + prices.cached * tables.read(place, life.calls))
    events = []
    while last:
        events.append(last)
        last = best[last][1]
    return _paid(life, tables, events[::-1])


def _arrivals(
    tables: "_Tables", places: Sequence[int], best: Mapping[int, tuple[float, int]], at: int, prices: Prices
) -> Iterable[tuple[float, int]]:
    """Yield the cost of an event after each earlier one."""
    rewritten = tables.rewritten(at)
    dearer = prices.written - prices.cached
    for before in places:
        if before >= at:
            break
        cost = prices.cached * (tables.read(before, at) + tables.left[at]) + dearer * rewritten[before]
        yield best[before][0] + cost, before


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tables:
    """Sums over a recording, for one size, without the system prompt, which costs the same in all schedules."""

    pieces: Sequence[_Piece]
    """All pieces."""
    new: Sequence[float]
    left: Sequence[float]
    """The tokens before each call that are still needed."""
    grown: Sequence[float]
    """All tokens before each call."""
    area: Sequence[float]
    """The sum of `grown` up to each call."""

    @classmethod
    def of(cls, life: _Life, size: float) -> "_Tables":
        new, gone = _by_call(life, size)
        pieces = [piece if piece.tokens >= size else _Piece(piece.tokens, piece.born, inf) for piece in life.pieces]
        left, grown, area = [0.0], [0.0], [0.0]
        for call in range(life.calls):
            left.append(left[-1] + new[call] - gone[call + 1])
            grown.append(grown[-1] + new[call])
            area.append(area[-1] + grown[-1])
        return cls(pieces=pieces, new=new, left=left, grown=grown, area=area)

    def read(self, event: int, until: int) -> float:
        """Return the tokens that the calls between two events read from the cache."""
        calls = until - event - 1
        if calls <= 0:
            return 0.0
        return calls * (self.left[event] - self.grown[event]) + self.area[until - 1] - self.area[event]

    def rewritten(self, at: int) -> list[float]:
        """Return the kept tokens behind the first removed piece, for each earlier event."""
        behind, kept = [0.0] * len(self.pieces), 0.0
        first = [inf] * (at + 1)
        for place in range(len(self.pieces) - 1, -1, -1):
            piece = self.pieces[place]
            if piece.born >= at:
                continue
            if piece.dead <= at:
                first[int(piece.dead)] = place
            else:
                kept += piece.tokens
            behind[place] = kept
        found, earliest = [0.0] * at, inf
        for before in range(at - 1, -1, -1):
            earliest = min(earliest, first[before + 1])
            found[before] = behind[int(earliest)] if earliest < inf else 0.0
        return found


def _paid(life: _Life, tables: _Tables, events: Sequence[int]) -> ReplayOutcome:
    bill = ReplayBill(calls=life.calls, output=sum(life.outputs))
    outcome = ReplayOutcome(bill=bill)
    before, held = 0, 0.0
    for call in range(life.calls):
        rewritten = 0.0
        if call in events:
            outcome.rebuilds += tables.left[call] < held - 0.01
            rewritten, held, before = tables.rewritten(call)[before], tables.left[call], call
        system = life.system
        bill.cached += held - rewritten + (system if call else 0.0)
        bill.written += tables.new[call] + rewritten + (0.0 if call else system)
        held += tables.new[call]
        bill.prompts += held + system
        bill.peak = max(bill.peak, held + system)
    return outcome


APPEND_ONLY, UNCACHED = "append-only", "uncached"
_BOUNDS = {
    "oracle": (oracle, False),
    "oracle+inputs": (oracle, True),
    "floor": (floor, False),
    "floor+inputs": (floor, True),
}


class Columns(TypedDict):
    """A row for programs. A share is None where it has no meaning."""

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
    """A recording with the needs of its calls."""

    recording: Recording
    needs: dict[int, Needs]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    name: str
    outcomes: Sequence[ReplayOutcome]
    """The outcome on each recording."""
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
        """Return a share in percent; 0 where there is nothing."""
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
    """Return the names of all rows, in order."""
    return (APPEND_ONLY, UNCACHED, *registry.names(), *_BOUNDS)


def cases(recordings: Sequence[Recording]) -> list[ReplayCase]:
    """Find the needs of all recordings, except for names common to three projects."""
    texts: dict[str, list[str]] = defaultdict(list)
    for recording in recordings:
        texts[recording.project] += (result.text for turn in recording.turns for result in turn.results)
    unimportant = general(texts)
    return [ReplayCase(recording, needs(recording.turns, unimportant)) for recording in recordings]


def compare(found: Sequence[ReplayCase], names: Sequence[str], terms: ReplayTerms) -> Iterator[Row]:
    """
    Yield a row for each name, in order.

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
    """Replay one recording for one row."""
    if name in _BOUNDS:
        bound, inputs = _BOUNDS[name]
        return bound(case.recording, case.needs, terms.prices, inputs=inputs)
    if name in (APPEND_ONLY, UNCACHED):
        return simulate(case.recording, case.needs, Off(), terms, messages_cached=name == APPEND_ONLY)
    entry = registry.find_profile(name)
    return simulate(case.recording, case.needs, entry.make(), terms, birth=entry.birth)
