"""
A plan on a virtual clock: what `decisions.decide` decides, folded by `RunState`, answered by a world that is drawn.

Nothing here decides anything. The clock stands at 0 when the run begins, and goes on to the next answer.
"""

import heapq
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Literal, Protocol

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
"""Moments of a run, for each task; more of them would be a run that never ends."""


class StandsStill(RuntimeError):
    """Nobody owes an answer, and the run has not ended."""


@dataclass(slots=True, kw_only=True)
class SimulatedSpan:
    """Something under way: an attempt on a worker, a trial at the gate, a review, a landing, a wave."""

    place: Place
    lane: int
    """Which worker, or which of the trials or reviews at once; from 0."""
    tasks: tuple[str, ...]
    begins_s: float
    ends_s: float = -1.0
    """Below 0 as long as it is under way."""
    how: Literal["", "good", "red", "cancelled"] = ""


class SimulationWatch(Protocol):
    """Somebody who looks on, each time that all is decided."""

    def __call__(self, state: RunState, now: float) -> None: ...


def _unwatched(state: RunState, now: float) -> None:
    """Nobody looks on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Money:
    """What was paid for."""

    known_usd: float = 0.0
    paid: int = 0
    """Attempts and reviews by models that somebody pays for."""
    unknown: int = 0
    """Of these, how many nobody knows the cost of."""
    unlimited: int = 0
    """Of these, how many have neither a limit of cost nor a part of a budget."""
    most_usd: float | None = 0.0
    """The budget, or without one what was reserved for all of them; None where one of these had no limit either."""


@dataclass(slots=True, kw_only=True)
class Played:
    """A run that was played to its end."""

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
        return len(self.state.in_phase("landed")) == len(self.state.tasks)


def play(course: PlanIndex, terms: PlanTerms, seed: int, *, watch: SimulationWatch = _unwatched) -> Played:
    """
    Raises:
        StandsStill: nothing is decided any more, and no answer would come.
    """
    run = _Run(course=course, world=PlanWorld(terms=terms, seed=seed), watch=watch)
    run.to_its_end()
    return Played(seed=seed, makespan_s=run.now, state=run.state, spans=run.spans, money=run.money())


@dataclass(slots=True, kw_only=True)
class _Run:
    course: PlanIndex
    world: PlanWorld
    watch: SimulationWatch
    state: RunState = field(init=False)
    now: float = 0.0
    due: list[tuple[float, int, Said]] = field(default_factory=list)
    spans: list[SimulatedSpan] = field(default_factory=list)
    open: dict[str, SimulatedSpan] = field(default_factory=dict)
    """By message id."""
    lanes: defaultdict[Place, set[int]] = field(default_factory=lambda: defaultdict(set))
    """Those that are taken."""
    bills: list[tuple[float | None, float | None]] = field(default_factory=list)
    """Of each attempt and review that is paid for: what it cost, and what was reserved for it."""

    def __post_init__(self) -> None:
        self.state = RunState.blank(self.course.tasks)
        self._record(RunStarted(run=RUN, plan_digest="", hub="", target=self.course.plan.target, tip="tip"))

    def to_its_end(self) -> None:
        for _ in range(_MOST_TURNS_EACH * (len(self.course.tasks) + 10)):
            self._decide()
            self.watch(self.state, self.now)
            if self.state.finished:
                return
            self._go_on()
        raise StandsStill(f"the simulated run has not ended by {self.now:g} s")

    def _decide(self) -> None:
        terms = self.world.terms
        while events := decide(
            self.course,
            self.state,
            now=self.now,
            order_slots=terms.workers,
            check_slots=terms.trials,
            review_slots=terms.reviews if self.course.reviewed or terms.reviewed else 0,
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
        """To the next answer, with all that come at the same time."""
        if not self.due:
            raise StandsStill(f"the simulated run stands still at {self.now:g} s: {dict(Counter(self._phases()))}")
        self.now = self.due[0][0]
        while self.due and self.due[0][0] == self.now:
            _, _, answer = heapq.heappop(self.due)
            events = receive_answer(self.course, self.state, answer)
            for event in events:
                self._record(event)
            self._close(answer, in_vain=not events)
        self._close_needless()

    def _phases(self) -> list[str]:
        return [task.phase for task in self.state.tasks.values()]

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
                if sent.task in self.course.paid:
                    self.bills.append((world.usd(sent), sent.reserved_usd))
                return world.work(sent, RUN)
            case CheckSent():
                spec = (*sent.ahead, *(sent.car or (sent.task,)))
                return world.check(sent, {one: tasks[one].made_by for one in spec})
            case ReviewSent():
                if self.course.review_policy.script is None:
                    self.bills.append((world.review_usd(sent), sent.reserved_usd))
                return world.review(sent, tasks[sent.task].made_by)
            case LandingIntended():
                return world.land(sent)
            case WaveSent():
                return world.wave(sent)
            case WaveReviewSent():
                if self.course.review_policy.script is None:
                    self.bills.append((world.review_usd(sent), sent.reserved_usd))
                return world.wave_review(sent)

    def _close(self, answer: Said, *, in_vain: bool) -> None:
        span = self.open.pop(answer.order_id if answer.kind == "work" else answer.request_id, None)
        if span is not None:
            self._end(span, "cancelled" if in_vain else _how(answer))

    def _close_needless(self) -> None:
        """What nobody waits for any more has left its place."""
        at_gate = {one.message_id for one in self.state.train.messages()}
        for message_id, span in list(self.open.items()):
            if message_id not in at_gate and not self._is_owed(message_id, span):
                self._end(self.open.pop(message_id), "cancelled")

    def _is_owed(self, message_id: str, span: SimulatedSpan) -> bool:
        """An attempt, a review or a wave; what is owed to a task is seen without a look at all others."""
        if span.place == "wave":
            return self.state.wave.message is not None
        of_wave = self.state.wave_review.review.message
        if of_wave is not None and of_wave.message_id == message_id:
            return True
        return any(one.message_id == message_id for one in self.state.tasks[span.tasks[-1]].messages)

    def _end(self, span: SimulatedSpan, how: Literal["good", "red", "cancelled"]) -> None:
        span.ends_s, span.how = self.now, how
        self.lanes[span.place].discard(span.lane)

    def money(self) -> Money:
        reserved = [most for _, most in self.bills if most is not None]
        cap = self.course.budget(self.state).usd
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
            return "good" if answer.outcome == "candidate" else "red"
        case "check":
            return "good" if answer.verdict == "green" else "red"
        case "review":
            return "good" if answer.outcome == "passed" else "red"
        case _:
            return "good"
