"""All rules in their order."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from forgepool.orchestrator.plan.document import Plan
from forgepool.orchestrator.plan.validation.facts import Fault, PlanFacts, PlanLimits, Requirement
from forgepool.orchestrator.plan.validation.lines import PlanLines
from forgepool.supervisor.checks.cannot_fail import why_unfailing

_NO_LIMITS = PlanLimits()


def validate(
    plan: Plan,
    lines: PlanLines,
    facts: PlanFacts,
    requirements: Sequence[Requirement] | None = None,
    limits: PlanLimits = _NO_LIMITS,
) -> list[Fault]:
    """
    Return every fault of a plan, by line.

    `requirements` are those of the plan's goal; None, for a plan without a written goal, silences their rules.
    """
    case = Case(plan=plan, lines=lines, facts=facts, requirements=requirements, limits=limits)
    faults = [fault for rule in _RULES for fault in rule(case)]
    return sorted(dict.fromkeys(faults), key=lambda fault: fault.line)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A plan with all that its rules look at."""

    plan: Plan
    lines: PlanLines
    facts: PlanFacts
    requirements: Sequence[Requirement] | None
    limits: PlanLimits

    def fault(self, rule: str, task: str, where: Sequence[str | int], sentence: str) -> Fault:
        return Fault(rule=rule, task=task, sentence=sentence, line=self.lines.of_task(task, *where))


def _find_unfailing(case: Case) -> Iterator[Fault]:
    for task in case.plan.tasks:
        for at, command in enumerate(task.acceptance):
            if why := why_unfailing(command):
                sentence = f"task '{task.id}' is accepted by `{command}`, which cannot fail: {why}"
                yield case.fault("cannot-fail", task.id, ("acceptance", at), sentence)


def _find_unmatched(case: Case) -> Iterator[Fault]:
    return iter(())


_RULES: tuple[Callable[[Case], Iterator[Fault]], ...] = (_find_unfailing, _find_unmatched)
