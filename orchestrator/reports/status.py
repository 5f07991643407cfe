"""How a run stands, for people and programs: derived from its state, never stored."""

from dataclasses import asdict, dataclass, replace
from functools import cached_property

from forgepool.orchestrator.decisions.locks import find_tasks_held_elsewhere, waits_for
from forgepool.orchestrator.decisions.orders.kept_work import KeptStanding, list_kept
from forgepool.orchestrator.decisions.orders.money import find_held_for_money, short_of_budget
from forgepool.orchestrator.decisions.orders.shut_models import find_shut_until, find_treasury_wait
from forgepool.orchestrator.decisions.orders.start_orders import find_lack, find_tasks_held_by_base
from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.decisions.queue.delegation import gate_words
from forgepool.orchestrator.decisions.reasons import (
    author_in,
    author_words,
    count_of,
    finding_lines,
    flaky_words,
    survey_words,
    word_verdicts,
)
from forgepool.orchestrator.decisions.reviews.post_merge import base_words, list_unreviewed
from forgepool.orchestrator.decisions.reviews.task_reviews import short_of_budget_for_review
from forgepool.orchestrator.plan.readiness import Waiting, why_waiting
from forgepool.orchestrator.reports.costs import ReportedLedger, RunBill, bill
from forgepool.orchestrator.reports.event_text import answer_with
from forgepool.orchestrator.reports.host_text import clock
from forgepool.orchestrator.reports.queue_status import EntryStanding, place_words, standings
from forgepool.orchestrator.state.review import ReviewState
from forgepool.orchestrator.state.run import RunState, branch_of
from forgepool.orchestrator.state.task import TERMINAL, TaskState

_AT_WORK = ("running", "testing", "reviewing")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStanding:
    """One line of `status`."""

    task: str
    phase: str
    attempts: int
    commit: str | None
    seconds: float | None
    """Seconds from its first start to its end, or to now; to the last event where no process runs the run."""
    host: str
    detail: str
    question: str
    """Question of its agent to a person; empty where there is none."""
    missing: tuple[str, ...]
    """Gaps that its agent named in what it was given or could find."""
    wanted: str
    """Reason a person is needed: `trouble`, `question`, `budget`, `review`; empty where none is."""
    author: str
    """Agent, models and families that made its candidate."""
    review: "ReviewStanding | None"
    """None where its candidate needs no review and has none."""
    flaky: tuple[str, ...]
    """Checks that failed, then passed on the same tree, with the tests where known."""
    red_base: tuple[str, ...]
    """Tests that fail on the target itself."""
    used: RunBill
    """Usage of models, including reviews."""
    used_by_reviews: RunBill
    kept: tuple[KeptStanding, ...] = ()
    """The files that its attempts have left, until it has landed."""
    context: float | None = None
    """The share of the model's window that a running task fills, from 0 to 1, to a tenth; None where none was told."""
    mends: int | None = None
    """The attempt whose work its last one began with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewStanding:
    """A review of a candidate, and its outcome."""

    outcome: str
    """The reviewer's outcome; `approved` by a person; empty until there is one."""
    models: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    person: str = ""
    read: int = 0
    changed: int = 0
    """Files changed; `read` counts those that were read."""
    held: tuple[str, ...] = ()
    """Findings that block the candidate."""
    dropped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeStanding:
    """The integration review of what has landed."""

    review: ReviewStanding
    since: str
    """Commit from which the last or next review starts; empty where there was none."""
    tip: str
    tasks: tuple[str, ...]
    """Landed tasks that no integration review has passed."""
    detail: str
    used: RunBill
    waits: str = ""
    """The limit of the treasury that it waits for, as a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    run: str
    target: str
    tip: str
    outcome: str
    """
    `running`, `paused`, `landed` (all tasks), `done` (all; some had no changes or were there already) or `incomplete`;
    of a queue `serving` or `not served`.
    """
    shut: str
    """Reason why landing is paused, or the run stops; empty for neither."""
    suspended: dict[str, str]
    """Hosts that get no orders for now, with the reason and the end of the pause."""
    tasks: tuple[TaskStanding, ...]
    total: int
    """Their number, but for a survey that has ended without a report."""
    whole: WholeStanding | None
    """None where the plan has no integration review."""
    used: RunBill
    budget: ReportedLedger
    """The cap, and what counts against it: spent, or reserved by orders under way or lost."""

    def as_json(self) -> dict[str, object]:
        ledger = {"cap": self.budget.cap.model_dump(), "usd": self.budget.usd, "tokens": self.budget.tokens}
        return {**asdict(self), "budget": ledger}


def standing(course: PlanIndex, state: RunState, *, now: float, live: bool) -> Standing:
    waits = Waits(course, state, live=live)
    until = now if live else state.at
    stands = {one.entry: one for one in standings(state, now)} if course.serving else {}
    return Standing(
        run=state.run,
        target=state.target,
        tip=state.tip,
        outcome=outcome_of(course, state, live=live, gate=course.serving),
        shut=state.halted,
        suspended={
            name: f"{health.why}; probed at {clock(health.until, state.at)}"
            for name, health in state.hosts.items()
            if health.until
        },
        tasks=tuple(
            _named(_task(waits, one, until), stands.get(branch_of(state, one.id))) for one in state.tasks.values()
        ),
        total=course.count_tasks(state),
        whole=_whole(course, state),
        used=bill(state.uses()),
        budget=course.ledger(state),
    )


def _whole(course: PlanIndex, state: RunState) -> WholeStanding | None:
    if course.integration_review == "never":
        return None
    own = state.wave_review
    return WholeStanding(
        review=_review_standing(course, own.review),
        since=own.review.base or own.since,
        tip=own.tip,
        tasks=list_unreviewed(state),
        detail=own.review.detail or (own.review.answer.detail if own.review.answer else ""),
        waits=state.treasury_words if state.all_ended and list_unreviewed(state) else "",
        used=bill(own.review.uses.values()),
    )


def outcome_of(course: PlanIndex, state: RunState, *, live: bool, gate: bool = False) -> str:
    """
    Return `running`, `paused`, `landed` (all tasks), `done` (all; some had no changes or were there already) or
    `incomplete`; for a queue `serving` or `not served`.
    """
    if gate:
        return "serving" if live else "not served"
    if not state.finished:
        return "running" if live else "paused"
    if len(course.find_done(state)) < len(state.tasks):
        return "incomplete"
    return "landed" if state.count("landed") == course.count_tasks(state) else "done"


def _named(task: TaskStanding, entry: EntryStanding | None) -> TaskStanding:
    """Return the line; that of a queue's entry with the queue's own words."""
    return task if entry is None else replace(task, task=entry.entry, phase=entry.state, detail=entry.why)


def _task(waits: "Waits", task: TaskState, now: float) -> TaskStanding:
    end = task.ended or now
    host = task.landed_on_host if task.phase == "landed" else task.holder
    return TaskStanding(
        task=task.id,
        phase=waits.phase_name(task),
        attempts=task.attempt,
        commit=task.commit or None,
        seconds=round(max(0.0, end - task.first_started), 2) if task.first_started else None,
        host=task.result.host if task.result else host,
        detail=_how_it_ended(waits, task) if task.phase in TERMINAL else waits.reason(task),
        question=task.question,
        missing=task.missing,
        wanted=task.parked_for or "",
        author=author_words(author_in(waits.course, waits.state, task)) if task.result else "",
        review=review_standing(waits.course, task),
        flaky=flaky_words(task.verdict) if task.verdict else (),
        red_base=task.verdict.red_base if task.verdict else (),
        used=bill((*task.uses.values(), *task.review.uses.values())),
        used_by_reviews=bill(task.review.uses.values()),
        kept=tuple(list_kept(waits.state, task)),
        mends=task.mends,
        context=round(task.context_share, 2) if task.phase == "running" and task.context_share else None,
    )


def review_standing(course: PlanIndex, task: TaskState) -> ReviewStanding | None:
    """Return how the review of a task's candidate stands; None where it needs none and has none."""
    answer, person = task.review.answer, task.review.person
    if answer is None or task.phase == "reported":
        wanted = course.wants_review(task) and bool(task.candidate)
        return _review_standing(course, task.review) if wanted or person else None
    return _review_standing(course, task.review)


def _review_standing(course: PlanIndex, review: ReviewState) -> ReviewStanding:
    answer, person = review.answer, review.person
    if answer is None:
        return ReviewStanding(outcome="approved" if person else "", person=person.by if person else "")
    lines = list(finding_lines(answer, course.review_policy.threshold))
    return ReviewStanding(
        outcome="approved" if person else answer.outcome,
        models=answer.models,
        families=answer.families,
        person=person.by if person else "",
        read=len(set(answer.read) & set(answer.changed)),
        changed=len(answer.changed),
        held=tuple(line.removeprefix("held: ") for line in lines if line.startswith("held: ")),
        dropped=tuple(line.removeprefix("dropped: ") for line in lines if line.startswith("dropped: ")),
    )


def _how_it_ended(waits: "Waits", task: TaskState) -> str:
    how = f"asks: {task.question} ({answer_with(waits.run, task.id)})" if task.question else task.detail
    return f"{how}{survey_words(waits.course, task)}"


def tell_verdict(course: PlanIndex, state: RunState) -> str:
    """Return the run's outcome in one sentence."""
    phases = [task.phase for task in state.tasks.values() if not survey_words(course, task)]
    return word_verdicts(phases, state.target)[0]


class Waits:
    """Explains what tasks wait for in one state. Facts about all of them are looked up once."""

    def __init__(self, course: PlanIndex, state: RunState, *, live: bool = True) -> None:
        self.course = self._course = course = course.grow_with(state)
        self.state = state
        self.live = live
        """True while a process runs the run."""
        self.run = state.run
        self._resumed = f"waits for `forgepool resume {state.run}`"
        self._done = course.find_done(state)
        self._in_flight = course.in_flight(state)
        self._wanted = course.find_wanted_locks(state)
        self._held_elsewhere = find_tasks_held_elsewhere(state, state.at)
        self._overtaken = {task.id: task.overtaken for task in state.in_phase("pending") if task.overtaken}

    def phase_name(self, task: TaskState) -> str:
        """
        Return the phase. A pending task that lacks nothing but a slot is `ready`; one that was at work when the
        run's process ended is `interrupted`.
        """
        if not self.live and task.phase in _AT_WORK:
            return "interrupted"
        if task.phase != "pending":
            return task.phase
        waiting = self._why(task)
        shut = find_shut_until(self._course, self.state, task) > self.state.at
        if shut or find_lack(self._course, self.state, task) or task.id in self._held_elsewhere:
            return "pending"
        return "pending" if waiting.needs or waiting.lock or waiting.reserved else "ready"

    def reason(self, task: TaskState) -> str:
        """Return in a few words what a task waits for, or who works on it."""
        if not self.live and task.phase in _AT_WORK:
            return self._resumed
        match task.phase:
            case "candidate":
                other = waits_for(self._course, self.state, task)
                return f"waits for '{other}', which locks paths that it changed without declaring" if other else ""
            case "reviewing":
                return self._reviewing(task)
            case "queued":
                return self.state.halt_words if self.state.halted else place_words(self.state, task)
            case "testing":
                return place_words(self.state, task)
            case "given":
                return gate_words(self.state, task)
            case "waiting":
                request = self.state.lead.request
                return f"rests for the reply to its request {request.number}, {request.do}" if request else ""
            case "pending":
                return self._pending(task)
            case "running" if task.holder and (task.rebuilds or task.context_share):
                share = f", context {task.context_share:.0%}" if task.context_share else ""
                rebuilt = f", rebuilt {count_of(task.rebuilds, 'time')}" if task.rebuilds else ""
                return f"{task.holder}{share}{rebuilt}"
            case _:
                return task.holder or ("no worker has taken it yet" if task.message else "")

    def _reviewing(self, task: TaskState) -> str:
        review = task.review
        if review.message is not None:
            return f"under review on {review.holder}" if review.holder else "no reviewer has taken it yet"
        if self.state.halted:
            return self.state.halt_words
        if review.batch is not None and review.batch.ticket is not None:
            return f"its review is in a batch, and is made live after {clock(review.batch.until, self.state.at)}"
        if review.limit_until > self.state.at:
            return f"its review waits until {clock(review.limit_until, self.state.at)} for a model's rate limit"
        if self.state.treasury_words:
            return f"its review waits: {self.state.treasury_words}"
        if short_of_budget_for_review(self._course, self.state):
            return "its review waits for budget that others may leave"
        again = f"; the last review failed: {review.detail}" if review.troubles else ""
        return f"waits for a reviewer{again}"

    def _pending(self, task: TaskState) -> str:
        if task.restorable:
            return f"{task.detail}; waits for its lock"
        if (until := max(task.limit_until, find_shut_until(self._course, self.state, task))) > self.state.at:
            return f"waits until {clock(until, self.state.at)} for the model's rate limit"
        if task.id in self._held_by_base:
            return base_words(self.state)
        waiting = self._why(task)
        if not waiting.needs and (lack := find_lack(self._course, self.state, task)):
            return f"no present host has {' and '.join(lack)}"
        if waiting.needs:
            return f"needs {', '.join(waiting.needs[:4])}"
        if waiting.lock is not None:
            other, theirs, _ = waiting.lock
            return f"waits for '{other}', which holds {theirs}"
        if waiting.reserved is not None:
            other, theirs, _ = waiting.reserved
            return f"lets '{other}' go first, which has waited long for {theirs}"
        if task.id in self._held_elsewhere:
            by = self.state.elsewhere[task.id]
            return f"waits for run {by.run}, which is at work on {by.path}"
        if (short := self._money(task)) is not None:
            return short
        waits = "waits for a worker" if self.live else self._resumed
        return f"{waits}; the last attempt failed: {task.detail}" if task.troubles else waits

    def _money(self, task: TaskState) -> str | None:
        if task.id not in self._course.paid:
            return None
        if words := find_treasury_wait(self._course, self.state, task):
            return f"waits: {words}"
        short = self._short_of_budget(task)
        first = self._first_short
        behind = first is not None and self._course.graph.rank[task.id] > self._course.graph.rank[first]
        return f"waits behind '{first}', which waits for budget" if short is None and behind else short

    def _short_of_budget(self, task: TaskState) -> str | None:
        return short_of_budget(self._course, self.state, task, self._held_for_money)

    @cached_property
    def _held_for_money(self) -> frozenset[str]:
        return find_held_for_money(self._course, self.state)

    @cached_property
    def _held_by_base(self) -> frozenset[str]:
        return find_tasks_held_by_base(self._course, self.state)

    @cached_property
    def _first_short(self) -> str | None:
        """The first task that waits only for budget; later tasks wait behind it."""
        pending = self.state.in_phase("pending") if self._course.budget(self.state).capped else []
        able = (task for task in pending if self.phase_name(task) == "ready" and task.not_before <= self.state.at)
        short = [task.id for task in able if self._short_of_budget(task) is not None]
        return min(short, key=self._course.graph.rank.__getitem__, default=None)

    def _why(self, task: TaskState) -> Waiting:
        return why_waiting(
            self._course.graph,
            task.id,
            landed=self._done,
            in_flight=self._in_flight,
            overtaken=self._overtaken,
            wanted=self._wanted,
        )
