"""
A run as a tree of steps: the run, its tasks, their attempts, and in these the orders, checks, reviews and landings.

It is folded from the journal's events, and knows no tracing library; what stands below an order comes from its
transcript. A check or a landing of several tasks stands below each of them. Pure.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.interfaces.export.conventions import Fact, StepKind, StepResult, result_of
from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.journal.store import Recorded
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import TERMINAL
from forgepool.supervisor.messages.answers import CheckResult, Landing, Review
from forgepool.workers.context.transcript.entries import Answered, ConversationStarted, Entry, Resumed, TurnSaid
from forgepool.workers.llm.messages import Usage
from forgepool.workers.schema.orders import Spent, WorkResult
from forgepool.worktrees.git.git import without_password

StepKey = tuple[str, ...]
"""The kind, the task, the attempt and the message: the same for the same step, whenever the run is exported."""
ROOT: StepKey = ("run",)
FactValue = str | int | float | Sequence[str]


@dataclass(slots=True, kw_only=True)
class TraceStep:
    """One step of a run."""

    kind: StepKind
    key: StepKey
    parent: StepKey | None
    start: float
    """Unix seconds."""
    end: float | None = None
    """None while it is under way."""
    facts: dict[Fact, FactValue] = field(default_factory=dict)
    result: StepResult | None = None
    why: str = ""
    """One sentence about a failure."""
    error: str = ""
    """The kind of the failure in one word."""

    def close(self, at: float, outcome: str, why: str = "") -> None:
        self.end, self.result = at, result_of(outcome)
        self.facts["outcome"] = outcome
        self.error, self.why = (outcome, why) if self.result in ("failure", "error") else ("", "")


@dataclass(slots=True, kw_only=True)
class _Tree:
    course: PlanIndex
    steps: dict[StepKey, TraceStep]
    attempts: dict[str, TraceStep] = field(default_factory=dict)
    """By task, the last attempt."""
    beside: dict[str, TraceStep] = field(default_factory=dict)
    """By task, the attempt that races this one."""
    sent: dict[str, list[TraceStep]] = field(default_factory=dict)
    """By message that is not answered."""

    def take(self, event: e.Event, at: float) -> None:
        match event:
            case e.OrderSent():
                front = None if event.races is None else self.attempts.pop(event.task, None)
                self._begin_attempt(event.task, event.attempt, event.base, at)
                planned = self.course.tasks.get(event.task)
                agent = planned.agent.kind if planned is not None else ""
                self._send("order", event.message_id, [event.task], at, base=event.base, agent=agent)
                if front is not None:
                    self.beside[event.task], self.attempts[event.task] = self.attempts[event.task], front
            case e.EntrySubmitted():
                self._begin_attempt(event.task, event.revision, "", at)
            case e.CheckSent():
                self._send("check", event.message_id, event.car or [event.task], at, base=event.base)
            case e.ReviewSent():
                self._send("review", event.message_id, [event.task], at, base=event.base)
            case e.LandingIntended():
                entries = event.entries or [event.task]
                self._send("landing", event.message_id, entries, at, base=event.base, commit=event.commit)
            case e.WaveSent():
                self._send("check", event.message_id, [], at, base=event.base)
            case e.WaveReviewSent():
                self._send("review", event.message_id, [], at, base=event.base)
            case _:
                self._take_answer(event, at)

    def _take_answer(self, event: e.Event, at: float) -> None:
        match event:
            case e.MessageTaken():
                for step in self.sent.get(event.message_id, ()):
                    step.facts["worker"] = f"{event.host}/{event.pid}"
            case e.MessageLost():
                self._close(event.message_id, at, "lost", event.why)
            case e.CheckCancelled():
                self._close(event.message_id, at, "cancelled")
            case e.OrderAnswered(result=result):
                self._take_front(event)
                self._close(result.order_id, at, result.outcome, result.detail, result)
            case e.CheckAnswered(result=answer) | e.WaveAnswered(result=answer):
                self._close(answer.request_id, at, answer.verdict, _words(answer), answer)
            case e.ReviewAnswered(result=review) | e.WaveReviewAnswered(result=review):
                self._close(review.request_id, at, review.outcome, review.detail or review.summary, review)
            case e.LandingAnswered(result=landing):
                self._close(landing.request_id, at, landing.outcome, landing.detail, landing)
            case _:
                pass
        self._end_attempt(event, at)
        self._note_task(getattr(event, "task", ""), at)

    def _take_front(self, event: e.OrderAnswered) -> None:
        """Let the first candidate of two attempts that race take the front."""
        task, front, racer = event.task, self.attempts.get(event.task), self.beside.get(event.task)
        if racer is None or front is None or event.result.outcome != "candidate":
            return
        orders = [step for steps in self.sent.values() for step in steps if step.kind == "order"]
        if racer.facts["attempt"] == event.result.attempt and any(step.parent == front.key for step in orders):
            self.attempts[task], self.beside[task] = racer, front

    def _settle_race(self, event: e.RacerWithdrawn | e.RacerPromoted, at: float) -> None:
        racer = self.beside.pop(event.task, None)
        if isinstance(event, e.RacerPromoted):
            self.attempts |= {} if racer is None else {event.task: racer}
            return
        self._close(event.message_id, at, "cancelled", event.why)
        if racer is not None:
            racer.close(at, "cancelled", event.why)

    def _end_attempt(self, event: e.Event, at: float) -> None:
        match event:
            case e.LandingAnswered(result=landing) if landing.outcome == "landed":
                for task in event.entries or (event.task,):
                    self._close_attempt(task, at, "landed")
            case e.TaskReturned() | e.TaskFailed() | e.TaskRejected():
                self._close_attempt(event.task, at, event.reason.kind, event.reason.summary)
            case e.TaskCancelled():
                self._close_attempt(event.task, at, "cancelled")
            case e.RacerWithdrawn() | e.RacerPromoted():
                self._settle_race(event, at)
            case e.EntryTold() if event.answer.word == "landed":
                self._close_attempt(event.task, at, "landed")
            case _:
                pass

    def _note_task(self, task: str, at: float) -> None:
        """Let a task's step last until its last event."""
        if task:
            self._task(task, at).end = at

    def _task(self, task: str, at: float) -> TraceStep:
        key: StepKey = ("task", task)
        if key not in self.steps:
            planned = self.course.tasks.get(task)
            facts: dict[Fact, FactValue] = {"task": task, "title": planned.title if planned is not None else ""}
            self.steps[key] = TraceStep(kind="task", key=key, parent=ROOT, start=at, facts=facts)
        return self.steps[key]

    def _begin_attempt(self, task: str, number: int, base: str, at: float) -> None:
        before = self.attempts.get(task)
        if before is not None and before.end is None:
            before.close(at, "lost", "it was lost or interrupted, and another attempt took its place")
        key: StepKey = ("attempt", task, str(number))
        facts: dict[Fact, FactValue] = {"task": task, "attempt": number}
        if base:
            facts["base"] = base
        step = TraceStep(kind="attempt", key=key, parent=self._task(task, at).key, start=at, facts=facts)
        self.steps[key] = self.attempts[task] = step

    def _close_attempt(self, task: str, at: float, outcome: str, why: str = "") -> None:
        if (attempt := self.attempts.get(task)) is not None:
            attempt.close(at, outcome, why)

    def _send(self, kind: StepKind, message: str, tasks: Sequence[str], at: float, **facts: str) -> None:
        """Begin the steps of a message: below each of these tasks, or below the run where it is about none."""
        for task in tasks or ("",):
            attempt = self.attempts.get(task)
            key: StepKey = (kind, task, message)
            step = TraceStep(kind=kind, key=key, parent=attempt.key if attempt is not None else ROOT, start=at)
            step.facts["message"] = message
            if task:
                step.facts["task"] = task
            if len(tasks) > 1:
                step.facts["together"] = tuple(tasks)
            for name in ("base", "commit", "agent"):
                if facts.get(name):
                    step.facts[name] = facts[name]
            self.steps[key] = step
            self.sent.setdefault(message, []).append(step)

    def _close(
        self,
        message: str,
        at: float,
        outcome: str,
        why: str = "",
        result: WorkResult | CheckResult | Review | Landing | None = None,
    ) -> None:
        for step in self.sent.pop(message, ()):
            step.close(at, outcome, why)
            if result is not None and not isinstance(result, Review) and result.commit:
                step.facts["commit"] = result.commit
            if result is not None and result.host:
                step.facts.setdefault("worker", result.host)
            if isinstance(result, WorkResult | Review) and result.models:
                step.facts.update(_usage(result.models, result.spent))


def _words(result: CheckResult) -> str:
    """Return why a check was not green."""
    failed = ", ".join(f"'{one.check}'" for one in result.failures)
    return result.detail or (f"not green: {failed}" if failed else "")


def _usage(models: Sequence[str], spent: Spent | Usage) -> dict[Fact, FactValue]:
    found: dict[Fact, FactValue] = {
        "model": ", ".join(models),
        "input_tokens": spent.input_tokens,
        "output_tokens": spent.output_tokens,
        "cached_tokens": spent.cached_tokens,
    }
    return found if spent.cost_usd is None else {**found, "cost_usd": spent.cost_usd}


def trace_conversation(order: TraceStep, entries: Iterable[Entry]) -> Iterator[TraceStep]:
    """Yield the answers of models and the calls of tools in one order, as its transcript has them."""
    message, said_in, since, tools = order.facts["message"], "", order.start, dict[str, str]()
    for number, entry in enumerate(entries):
        match entry:
            case ConversationStarted() | Resumed():
                said_in = entry.order_id
            case TurnSaid(turn=turn) if turn.model:
                tools |= {call.id: call.name for call in turn.calls}
                if said_in == message:
                    yield _step_below(order, "chat", number, since, entry.at, _usage([turn.model], turn.usage))
            case Answered(result=result) if result.call_id in tools and said_in == message:
                step = _step_below(
                    order, "tool", number, entry.at - entry.seconds, entry.at, {"tool": tools[result.call_id]}
                )
                if result.is_error:
                    step.close(entry.at, "failed", "the tool answered with an error")
                yield step
            case _:
                pass
        since = entry.at


def _step_below(
    order: TraceStep, kind: StepKind, number: int, start: float, end: float, facts: dict[Fact, FactValue]
) -> TraceStep:
    step = TraceStep(kind=kind, key=(kind, *order.key[1:], str(number)), parent=order.key, start=start, facts=facts)
    step.close(end, "answered")
    return step


def trace_run(course: PlanIndex, state: RunState, recorded: Iterable[Recorded]) -> list[TraceStep]:
    """Return the steps of a run; without an event there is none."""
    tree = _Tree(course=course, steps={})
    for one in recorded:
        if ROOT not in tree.steps:
            facts: dict[Fact, FactValue] = {"plan": course.plan.name, "run": state.run, "target": state.target}
            facts["hub"] = without_password(state.hub)
            tree.steps[ROOT] = TraceStep(kind="run", key=ROOT, parent=None, start=one.at, facts=facts)
        tree.take(one.event, one.at)
    for task in state.tasks.values():
        if (step := tree.steps.get(("task", task.id))) is not None and task.phase in TERMINAL:
            step.close(task.ended, task.phase, task.detail)
    if ROOT in tree.steps:
        failed = state.count("failed")
        if state.finished:
            tree.steps[ROOT].close(state.at, "failed" if failed else "landed", f"{failed} of its tasks failed")
        if state.tip:
            tree.steps[ROOT].facts["commit"] = state.tip
    return list(tree.steps.values())
