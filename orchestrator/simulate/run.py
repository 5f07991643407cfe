"""
Plays a plan on a virtual clock: `decide` decides, `RunState` folds the events, and a drawn world answers.

Nothing here decides anything. The clock begins at 0, and jumps to the next answer.
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from forgepool.orchestrator.decisions.decide import decide
from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.decisions.results import receive_answer
from forgepool.orchestrator.journal.events import (
    CheckSent,
    Event,
    LandingIntended,
    OrderSent,
    ReviewSent,
    RunStarted,
    WaveReviewSent,
    WaveSent,
)
from forgepool.orchestrator.simulate.world import PlanTerms, PlanWorld, Said, Sent
from forgepool.orchestrator.state.fold import apply
from forgepool.orchestrator.state.run import RunState

RUN = "simulated"
Place = Literal["worker", "check", "review", "landing", "wave"]
_SENDINGS = (OrderSent, CheckSent, ReviewSent, LandingIntended, WaveSent, WaveReviewSent)
_MOST_TURNS_EACH = 400
"""Decisions of a run, for each task; a run with more would never end."""


class StandsStill(RuntimeError):
    """The run has not ended, and no answer is due."""


@dataclass(slots=True, kw_only=True)
class SimulatedSpan:
    """The time of an attempt on a worker, a trial at the gate, a review, a landing, or a post-merge check."""

    place: Place
    lane: int
    """The number of the worker, or of the parallel trial or review, from 0."""
    tasks: tuple[str, ...]
    begins_s: float
    ends_s: float = -1.0
    """Below 0 while it is under way."""
    how: Literal["", "good", "red", "cancelled"] = ""


SimulationWatch = Callable[[RunState, float], None]
"""Called after each decision with the state and the time in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Money:
    """The cost of a run."""

    known_usd: float = 0.0
    paid: int = 0
    """Attempts and reviews by paid models."""
    unknown: int = 0
    """The number of `paid` whose cost is unknown."""
    unlimited: int = 0
    """The number of `paid` with neither a cost limit nor a part of a budget."""
    most_usd: float | None = 0.0
    """The budget, else the sum of reservations; None where one of `paid` has no limit either."""


@dataclass(slots=True, kw_only=True)
class Played:
    """A run played to its end."""

    seed: int
    makespan_s: float
    state: RunState
    spans: list[SimulatedSpan]
    money: Money

    @property
    def phases(self) -> Counter[str]:
        return Counter(task.phase for task in self.state.tasks.values())

    @property
    def all_landed(self) -> bool:
        return self.state.count("landed", "reported") == len(self.state.tasks)


def play(index: PlanIndex, terms: PlanTerms, seed: int, *, watch: SimulationWatch = lambda state, now: None) -> Played:
    """
    Play the plan once, with the outcomes of the seed.

    Raises:
        StandsStill: the run does not end.
    """
    run = _Run(index=index, world=PlanWorld(terms=terms, seed=seed), watch=watch)
    run.to_its_end()
    return Played(seed=seed, makespan_s=run.now, state=run.state, spans=run.spans, money=run.money())


@dataclass(slots=True, kw_only=True)
class _Run:
    index: PlanIndex
    world: PlanWorld
    watch: SimulationWatch
    state: RunState = field(init=False)
    now: float = 0.0
    due: list[tuple[float, int, Said]] = field(default_factory=list)
    spans: list[SimulatedSpan] = field(default_factory=list)
    open: dict[str, SimulatedSpan] = field(default_factory=dict)
    """The spans under way, by message id."""
    lanes: defaultdict[Place, set[int]] = field(default_factory=lambda: defaultdict(set))
    """The occupied lanes."""
    bills: list[tuple[float | None, float | None]] = field(default_factory=list)
    """Cost and reservation of each paid attempt and review."""

    def __post_init__(self) -> None:
        self.state = RunState.blank(self.index.tasks)
        self._record(RunStarted(run=RUN, plan_digest="", hub="", target=self.index.plan.target, tip="tip"))

    def to_its_end(self) -> None:
        for _ in range(_MOST_TURNS_EACH * (len(self.index.tasks) + 10)):
            self._decide()
            self.watch(self.state, self.now)
            if self.state.finished:
                return
            self._go_on()
        raise StandsStill(f"the simulated run has not ended by {self.now:g} s")

    def _decide(self) -> None:
        terms = self.world.terms
        while events := decide(
            self.index,
            self.state,
            now=self.now,
            order_slots=terms.workers,
            check_slots=terms.trials,
            review_slots=terms.reviews if self.index.reviewed or terms.reviewed else 0,
            draining=False,
        ):
            for event in events:
                self._record(event)
            for event in events:
                if isinstance(event, _SENDINGS):
                    self._send(event)

    def _record(self, event: Event) -> None:
        apply(self.state, event, number=self.state.number + 1, at=self.now)

    def _go_on(self) -> None:
        """Go on to the next answer, and to all others at the same time."""
        if not self.due:
            phases = dict(Counter(task.phase for task in self.state.tasks.values()))
            raise StandsStill(f"the simulated run stands still at {self.now:g} s: {phases}")
        self.now = self.due[0][0]
        while self.due and self.due[0][0] == self.now:
            _, _, answer = heapq.heappop(self.due)
            events = receive_answer(self.index, self.state, answer)
            for event in events:
                self._record(event)
            self._close(answer, in_vain=not events)
        self._close_needless()

    def _send(self, sent: Sent) -> None:
        takes, answer = self._answer(sent)
        heapq.heappush(self.due, (self.now + takes, self.state.number * 1000 + len(self.spans), answer))
        place = _PLACES[type(sent)]
        self._close_needless()
        lane = next(lane for lane in range(len(self.lanes[place]) + 1) if lane not in self.lanes[place])
        self.lanes[place].add(lane)
        span = SimulatedSpan(place=place, lane=lane, tasks=_tasks_of(sent), begins_s=self.now)
        self.spans.append(span)
        self.open[sent.message_id] = span

    def _answer(self, sent: Sent) -> tuple[float, Said]:
        world, tasks = self.world, self.state.tasks
        match sent:
            case OrderSent():
                if sent.task in self.index.paid:
                    self.bills.append((world.usd(sent), sent.reserved_usd))
                return world.work(sent, RUN)
            case CheckSent():
                spec = (*sent.ahead, *(sent.car or (sent.task,)))
                return world.check(sent, {task: tasks[task].made_by for task in spec})
            case ReviewSent():
                if self.index.review_policy.script is None:
                    self.bills.append((world.review_usd(sent), sent.reserved_usd))
                return world.review(sent, tasks[sent.task].made_by)
            case LandingIntended():
                return world.land(sent)
            case WaveSent():
                return world.wave(sent)
            case WaveReviewSent():
                if self.index.review_policy.script is None:
                    self.bills.append((world.review_usd(sent), sent.reserved_usd))
                return world.wave_review(sent)

    def _close(self, answer: Said, *, in_vain: bool) -> None:
        span = self.open.pop(answer.order_id if answer.kind == "work" else answer.request_id, None)
        if span is not None:
            self._end(span, "cancelled" if in_vain else _how(answer))

    def _close_needless(self) -> None:
        """End the spans whose answers are no longer awaited."""
        at_gate = {message.message_id for message in self.state.train.messages()}
        for message_id, span in list(self.open.items()):
            if message_id not in at_gate and not self._is_owed(message_id, span):
                self._end(self.open.pop(message_id), "cancelled")

    def _is_owed(self, message_id: str, span: SimulatedSpan) -> bool:
        """Return whether an attempt, review or post-merge check is still awaited."""
        if span.place == "wave":
            return self.state.wave.message is not None
        of_wave = self.state.wave_review.review.message
        if of_wave is not None and of_wave.message_id == message_id:
            return True
        task = span.tasks[-1]
        beside = (self.state.racers[task],) if task in self.state.racers else ()
        return any(one.message_id == message_id for each in (self.state.tasks[task], *beside) for one in each.messages)

    def _end(self, span: SimulatedSpan, how: Literal["good", "red", "cancelled"]) -> None:
        span.ends_s, span.how = self.now, how
        self.lanes[span.place].discard(span.lane)

    def money(self) -> Money:
        reserved = [most for _, most in self.bills if most is not None]
        cap = self.index.budget(self.state).usd
        unlimited = len(self.bills) - len(reserved)
        known = [cost for cost, _ in self.bills if cost is not None]
        return Money(
            known_usd=sum(known),
            paid=len(self.bills),
            unknown=len(self.bills) - len(known),
            unlimited=unlimited,
            most_usd=cap if cap is not None else None if unlimited else sum(reserved),
        )


_PLACES: dict[type, Place] = {
    OrderSent: "worker",
    CheckSent: "check",
    ReviewSent: "review",
    LandingIntended: "landing",
    WaveSent: "wave",
    WaveReviewSent: "review",
}


def _tasks_of(sent: Sent) -> tuple[str, ...]:
    match sent:
        case CheckSent():
            return sent.car or (sent.task,)
        case LandingIntended():
            return sent.entries or (sent.task,)
        case WaveSent() | WaveReviewSent():
            return sent.tasks
        case _:
            return (sent.task,)


def _how(answer: Said) -> Literal["good", "red"]:
    match answer.kind:
        case "work":
            return "good" if answer.outcome in ("candidate", "reported") else "red"
        case "check":
            return "good" if answer.verdict == "green" else "red"
        case "review":
            return "good" if answer.outcome == "passed" else "red"
        case _:
            return "good"
