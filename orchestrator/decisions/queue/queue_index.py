"""What decisions see of a gate in place of a plan: whoever has been submitted, one task each."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.journal.events import EntrySubmitted
from forgepool.orchestrator.journal.queue_events import Card
from forgepool.orchestrator.plan.document import Plan, Task
from forgepool.orchestrator.plan.entries import GateOptions
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import TaskState
from forgepool.workers.schema.orders import CommandAgent

_NOTHING = CommandAgent(run="true")
"""Nobody works on an entry: it comes as it is."""

PeoplesReview = Literal["none", "review", "approval"]


@dataclass(frozen=True)
class GateCourse(PlanIndex):
    """Its entries, as they were submitted last."""

    entries: Mapping[str, EntrySubmitted]
    people: PeoplesReview = "none"
    """What entries of people want besides their checks: nothing, a model's review, or a person's approval."""

    serving: ClassVar[bool] = True

    @cached_property
    def tasks(self) -> dict[str, Task]:
        return {one: _task(entry) for one, entry in self.entries.items()}

    @cached_property
    def reviewed(self) -> frozenset[str]:
        """What models have made is reviewed, and what a run would not let land without."""
        return frozenset(
            one
            for one, entry in self.entries.items()
            if not _of_no_model(entry) or self.people != "none" or (entry.card is not None and entry.card.reviewed)
        )

    def wants_person(self, task: TaskState) -> bool:
        entry = self.entries.get(task.id)
        return self.people == "approval" and entry is not None and _of_no_model(entry)


def _of_no_model(entry: EntrySubmitted) -> bool:
    """A person's, or what a run's command has made."""
    author = entry.author
    return author.is_person or (entry.card is not None and author.agent == "command" and not author.families)


def gate_plan(name: str, target: str) -> Plan:
    """The plan of a gate: no tasks, and the target's own checks."""
    return Plan(version=1, name=name, target=target, tasks=(), gate=GateOptions(order="cheap_first"))


def gate_course(plan: Plan, state: RunState, people: PeoplesReview = "none") -> GateCourse:
    return GateCourse(plan, {}, dict(state.submitted), people)


def _said(card: Card | None) -> dict[str, object]:
    """What a run says of its task. It asks for more to be looked at, and lets nothing more in."""
    if card is None:
        return {}
    return {
        "description": card.description,
        "acceptance": card.acceptance,
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
