"""
A plan as decisions see it: indexed once, asked often.
"""

import copy
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import ClassVar, Literal, Self

from forgepool.orchestrator.decisions.orders.kept_parts import MOST_KEPT, keep_apart
from forgepool.orchestrator.decisions.orders.treasury import TreasuryFacts
from forgepool.orchestrator.journal.events import EntrySubmitted
from forgepool.orchestrator.journal.queue_events import Card
from forgepool.orchestrator.plan.addition import choose_models, grow_plan
from forgepool.orchestrator.plan.budget import (
    DEFAULT_TURNS,
    DEFAULT_USD,
    Budget,
    BudgetLedger,
    Reservation,
    find_least_share,
)
from forgepool.orchestrator.plan.document import Plan, Task
from forgepool.orchestrator.plan.entries import GateOptions, PlanReview
from forgepool.orchestrator.plan.graph import Graph, TaskNeeds
from forgepool.orchestrator.plan.overlap import Globs
from forgepool.orchestrator.plan.requirements import find_needs
from forgepool.orchestrator.state.phases import Frontier
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import DONE, IN_FLIGHT, TERMINAL, Phase, TaskState
from forgepool.supervisor.gate.affected_checks import ONE_LANE, Lanes
from forgepool.supervisor.messages.requests import Independence, ReviewPolicy
from forgepool.workers.schema.capabilities import Need
from forgepool.workers.schema.orders import (
    AcpAgent,
    BuiltinAgent,
    CliAgent,
    CommandAgent,
    Limits,
    ScriptedAgent,
    Spent,
)

_FIRST = 10**9
"""The priority of a lead's orders and of a survey's, above any that a plan would give."""


@dataclass(frozen=True)
class PlanIndex:
    """A plan, indexed for decisions. Built once a run."""

    serving: ClassVar[bool] = False
    """True for a queue: no worker works on its entries, and it never ends."""

    plan: Plan
    learned_s: Mapping[str, float]
    """Seconds tasks took in earlier runs of this plan, where the plan itself says nothing."""
    learned_use: Mapping[str, Sequence[Spent]] = field(default_factory=dict, kw_only=True)
    """The use of finished tasks of earlier runs, by kind of work."""
    lanes: Lanes = field(default=ONE_LANE, kw_only=True)
    """Which checks of the target a change can turn red."""

    added: tuple[Task, ...] = field(default=(), kw_only=True)
    """Those of the plan's tasks that were added to the run, and are not in the plan's file."""
    dropped: tuple[str, ...] = field(default=(), kw_only=True)
    models: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    """By task, the model that a person has chosen since."""
    rungs: Mapping[str, int] = field(default_factory=dict, kw_only=True)
    """By task, the place, from 1, of its model in its ladder, where that may not be the first."""
    racing: frozenset[str] = field(default=frozenset(), kw_only=True)
    """The tasks whose first attempt may race one by the second model of its ladder."""
    treasury: TreasuryFacts | None = field(default=None, kw_only=True)
    """The limits on all runs together; None where there are none."""

    def within(self, treasury: TreasuryFacts | None) -> Self:
        """Return the index with other facts of the treasury; all that is indexed stays."""
        if self.treasury == treasury:
            return self
        _ = self.graph  # Indexed once, for both: the state keeps what may start by it.
        found = copy.copy(self)
        object.__setattr__(found, "treasury", treasury)
        return found

    def grow_with(self, state: RunState) -> "PlanIndex":
        """
        Return the index with the tasks that were added to the run, and without those that were dropped. Their models
        are those that a person or their ladders have chosen. It is the same index if nothing differs.
        """
        same = self.added == state.added and self.dropped == state.dropped
        if same and self.models == state.models and self.rungs == state.rungs:
            return self
        grown = self.plan if same else grow_plan(self.plan, state.added, state.dropped)
        plan, models, rungs = choose_models(grown, state.models, state.rungs), state.models, state.rungs
        index = replace(self, plan=plan, added=state.added, dropped=state.dropped, models=models, rungs=rungs)
        if same and "graph" in self.__dict__:
            # It knows no models, and tasks climb often: the frontier is kept with it.
            index.__dict__["graph"] = self.graph
        return index

    @cached_property
    def tasks(self) -> dict[str, Task]:
        return {task.id: task for task in self.plan.tasks}

    @cached_property
    def declared(self) -> dict[str, Globs | None]:
        """The globs each task may write; None where it declares none."""
        return {task.id: None if task.files is None else Globs.of(task.files) for task in self.plan.tasks}

    @cached_property
    def paid(self) -> frozenset[str]:
        """Return the tasks done by paid models."""
        return frozenset(
            task.id for task in self.plan.tasks if isinstance(task.agent, BuiltinAgent | CliAgent | AcpAgent)
        )

    def limits(self, task: str) -> Limits:
        """
        Return the limits of an attempt at the task: its own and, for a paid model, the defaults. A lead has no
        defaults, since its one conversation lasts as long as the run.
        """
        own = self.tasks[task].limits
        if task not in self.paid or task == self.lead:
            return own
        usd, turns = own.cost_usd, own.turns
        defaults = {"cost_usd": DEFAULT_USD if usd is None else usd, "turns": DEFAULT_TURNS if turns is None else turns}
        return own.model_copy(update=defaults)

    @cached_property
    def reviewed(self) -> frozenset[str]:
        """Tasks whose candidates may not land without an approval, as the plan has it; its target may want more."""
        review = self.plan.review
        if review == "none":
            return frozenset()
        commands = review is not None and review.commands
        return frozenset(
            task.id
            for task in self.plan.tasks
            if task.review != "none" and (commands or not isinstance(task.agent, CommandAgent))
        )

    def wants_review(self, task: TaskState) -> bool:
        """Tell whether its candidate needs an approval to land, by the plan or by the target's gate file."""
        return task.id in self.reviewed or task.reviewed

    def wants_person(self, task: TaskState) -> bool:
        """Tell whether only a person's approval lets it land."""
        review = self.plan.review
        return isinstance(review, PlanReview) and review.person and task.id in self.reviewed

    @cached_property
    def review_policy(self) -> ReviewPolicy:
        review = self.plan.review
        return ReviewPolicy() if review is None or review == "none" else review.policy

    @property
    def independence(self) -> Independence:
        """Return the independence that the plan asks of reviewers."""
        review = self.plan.review
        return review.independence if isinstance(review, PlanReview) else "other_family"

    @property
    def integration_review(self) -> Literal["never", "end", "each"]:
        """When what has landed is reviewed as a whole. A gate's never is: it has no end, and no waves."""
        return "never" if self.serving else self.plan.gate.integration_review

    @cached_property
    def lead(self) -> str | None:
        """Return the task that leads the run, if one does."""
        return next((task.id for task in self.plan.tasks if task.leads is not None), None)

    @cached_property
    def conversing(self) -> frozenset[str]:
        """Tasks whose conversation another worker can go on with, wherever the first one was lost."""
        return frozenset(task.id for task in self.plan.tasks if isinstance(task.agent, BuiltinAgent | ScriptedAgent))

    @cached_property
    def graph(self) -> Graph:
        return Graph(
            [
                TaskNeeds(
                    id=task.id,
                    needs=tuple(need.id for need in task.needs),
                    writes=self.declared[task.id],
                    # One that answers reads its base, whatever others write meanwhile.
                    reads=Globs.of(() if task.answers else task.reads),
                    # A lead that waits for a slot behind its own tasks could not adapt.
                    priority=_FIRST if task.leads is not None or task.surveys else task.priority,
                    duration_s=task.duration_s,
                    position=position,
                    soft=task.surveys,
                )
                for position, task in enumerate(self.plan.tasks)
            ],
            learned=self.learned_s,
            undeclared=self.plan.undeclared,
            reads_block=self.plan.reads == "block",
        )

    @cached_property
    def host_needs(self) -> Mapping[str, tuple[Need, ...]]:
        """By task, what it needs of its host."""
        return {task.id: find_needs(task) for task in self.plan.tasks}

    @cached_property
    def unlike_needs(self) -> Mapping[tuple[Need, ...], str]:
        """The different sets of such needs, each with one of its tasks."""
        return {needs: task for task, needs in self.host_needs.items()}

    def lock(self, task: TaskState) -> Globs | None:
        """Return the lock of a task in flight: its declared globs, and the paths it touched or was granted."""
        declared = self.declared[task.id]
        return declared if not task.extra else _with_exactly(declared, task.extra)

    def touches(self, task: TaskState) -> Globs:
        """Return the known changes of an interrupted task, and the paths it holds next."""
        known = Globs.exactly((*task.interrupted_paths, *task.wanted))
        declared = self.declared[task.id]
        return known if declared is None else declared | known

    def in_flight(self, state: RunState) -> dict[str, Globs | None]:
        return {task.id: self.lock(task) for task in state.in_phase(*IN_FLIGHT)}

    def find_wanted_locks(self, state: RunState) -> dict[str, Globs]:
        """Return the paths, beyond the declared ones, that waiting tasks hold from their start."""
        return {task.id: Globs.exactly(task.wanted) for task in state.phases.pending_again() if task.wanted}

    def frontier(self, state: RunState) -> Frontier:
        """Return the pending tasks whose needs are done. It is made once for a plan, and kept up by the state."""
        known = state.phases.frontier
        if known is None or known.graph is not self.graph:
            known = state.phases.frontier = Frontier(self.graph, state.tasks.values())
        return known

    def find_done(self, state: RunState) -> Set[str]:
        """Name the tasks that satisfy what needs them: those that are done, and a survey that has ended in any way."""
        ended = {one for one in self.graph.soft if state.tasks[one].phase in TERMINAL}
        return state.find_done() | ended if ended else state.find_done()

    def count_tasks(self, state: RunState) -> int:
        """Count the tasks, but for a survey that has ended without a report: they have gone on without it."""
        return len(state.tasks) - sum(state.tasks[one].phase in TERMINAL - DONE for one in self.graph.soft)

    def budget(self, state: RunState) -> Budget:
        """The run's: the plan's, unless a person has set another since; less where the treasury leaves less."""
        own = self.plan.budget if state.budget is None else state.budget
        return own if self.treasury is None else self.treasury.restrict(own, state).cap

    def ledger(self, state: RunState) -> BudgetLedger:
        own = self.plan.budget if state.budget is None else state.budget
        return BudgetLedger.of(own, state.uses()) if self.treasury is None else self.treasury.restrict(own, state)

    def ledger_for(self, state: RunState, task: str = "") -> BudgetLedger:
        """Return the ledger for an order or a review of a task: what is kept apart for the lead counts as spent."""
        return self.ledger(state).with_reserved(Reservation() if task == self.lead else self.reserve_for_lead(state))

    def reserve_for_lead(self, state: RunState) -> Reservation:
        """Return what is kept apart for the lead, as long as it goes on."""
        lead = None if self.lead is None or self.lead not in self.paid else state.tasks[self.lead]
        if lead is None or lead.phase in TERMINAL:
            return Reservation()
        return keep_apart(self.budget(state), lead.uses.values())

    def ledger_for_order(self, state: RunState, task: str) -> BudgetLedger:
        """Return the ledger for an order of a task: what reviews of work under way will need counts as spent, too."""
        return self.ledger_for(state, task).with_reserved(self.reserve_for_reviews(state, task))

    def reserve_for_reviews(self, state: RunState, task: str) -> Reservation:
        """
        Return what is kept apart for the reviews of work under way, and of this task, so that what is made can land.

        It is the least share of the budget for each, and a quarter of the budget at most. The lead keeps none. Beyond
        that, it is what the treasury keeps.
        """
        kept = self._keep_for_due_reviews(state, task)
        if self.treasury is None:
            return kept
        ledger, left = self.ledger(state), self.treasury.left(state, review=False, task=state.tasks[task])
        usd, tokens = kept.usd, kept.tokens
        if left.usd is not None and ledger.left_usd is not None:
            usd = max(usd or 0.0, ledger.left_usd - left.usd)
        if left.tokens is not None and ledger.left_tokens is not None:
            tokens = max(tokens or 0, ledger.left_tokens - left.tokens)
        return Reservation(usd=usd, tokens=tokens)

    def _keep_for_due_reviews(self, state: RunState, task: str) -> Reservation:
        cap = self.budget(state)
        if not cap.capped or task == self.lead or self.review_policy.script is not None:
            return Reservation()
        due = sum(self._lacks_review(one) for one in state.in_phase(*_BEFORE_REVIEW) if one.id != task)
        due += self._lacks_review(state.tasks[task])
        share = find_least_share(cap)
        return Reservation(
            usd=None if cap.usd is None else min(due * (share.usd or 0.0), cap.usd * MOST_KEPT),
            tokens=None if cap.tokens is None else min(due * (share.tokens or 0), int(cap.tokens * MOST_KEPT)),
        )

    def _lacks_review(self, task: TaskState) -> bool:
        review = task.review
        under_way = review.passed or review.message is not None or review.batch is not None
        return self.wants_review(task) and not (under_way or self.wants_person(task))


_BEFORE_REVIEW: tuple[Phase, ...] = ("running", "answered", "candidate", "queued", "testing", "reviewing")


def describe_work(task: Task) -> str:
    """Return the kind of a task's work, its type and agent: tasks of one kind are expected to cost alike."""
    agent = task.agent
    return f"{task.type} {agent.model or ''}" if isinstance(agent, BuiltinAgent) else task.type


@lru_cache(maxsize=4096)
def _with_exactly(declared: Globs | None, extra: tuple[str, ...]) -> Globs:
    """Return a lock with these paths. It is asked for at every decision while its task is in flight."""
    exact = Globs.exactly(extra)
    return exact if declared is None else declared | exact


_NOTHING = CommandAgent(run="true")
"""A stand-in: no worker works on an entry, it comes as it is."""

PeoplesReview = Literal["none", "review", "approval"]


@dataclass(frozen=True)
class GateCourse(PlanIndex):
    """Its entries, as they were submitted last."""

    entries: Mapping[str, EntrySubmitted]
    people: PeoplesReview = "none"
    """The requirement for people's entries beside their checks: none, a model's review, or a person's approval."""

    serving: ClassVar[bool] = True

    @cached_property
    def tasks(self) -> dict[str, Task]:
        return {one: _task(entry) for one, entry in self.entries.items()}

    @cached_property
    def reviewed(self) -> frozenset[str]:
        """Return the entries that need a review: those made by models, and those their run would not land without."""
        return frozenset(
            one
            for one, entry in self.entries.items()
            if not _of_no_model(entry) or self.people != "none" or (entry.card is not None and entry.card.reviewed)
        )

    def wants_person(self, task: TaskState) -> bool:
        entry = self.entries.get(task.id)
        return self.people == "approval" and entry is not None and _of_no_model(entry)


def _of_no_model(entry: EntrySubmitted) -> bool:
    """A person's, or what a command has made."""
    author = entry.author
    return author.is_person or (author.agent == "command" and not author.families)


def gate_plan(name: str, target: str) -> Plan:
    """The plan of a gate: no tasks, and the target's own checks."""
    return Plan(version=1, name=name, target=target, tasks=(), gate=GateOptions(order="cheap_first"))


def gate_course(plan: Plan, state: RunState, people: PeoplesReview = "none") -> GateCourse:
    return GateCourse(plan, {}, dict(state.submitted), people)


def _said(card: Card | None) -> dict[str, object]:
    """Return the run's own words on its task. They can ask for more scrutiny, never for less."""
    if card is None:
        return {}
    return {
        "description": card.description,
        "acceptance": card.acceptance,
        "criteria": card.criteria,
        "files": card.files,
    }


def _task(entry: EntrySubmitted) -> Task:
    return Task.model_construct(
        **{
            **_BLANK,
            "id": entry.task,
            "title": entry.title,
            "grants": entry.grants,
            "waive": entry.waive,
            "needs": (),
            **_said(entry.card),
        }
    )


_BLANK = dict(Task(id="blank", agent=_NOTHING, attempts=1))
