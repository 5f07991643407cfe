"""All rules in their order."""

from collections.abc import Callable, Iterator, Sequence

from forgepool.orchestrator.plan.document import Plan
from forgepool.orchestrator.plan.validation.case import Case
from forgepool.orchestrator.plan.validation.facts import Fault, PlanFacts, PlanLimits, Requirement
from forgepool.orchestrator.plan.validation.goal import find_too_dear, find_uncovered
from forgepool.orchestrator.plan.validation.lines import PlanLines
from forgepool.orchestrator.plan.validation.paths import (
    find_likely_outside,
    find_many_files,
    find_named_outside,
    find_overlaps,
    find_protected,
    find_unmatched,
)
from forgepool.orchestrator.plan.validation.proof import find_green, find_missing_files, find_unfailing, find_unproven
from forgepool.orchestrator.plan.validation.wording import (
    find_duplicates,
    find_unknown_agents,
    find_used_early,
    find_vague,
)

_NO_LIMITS = PlanLimits()
_RULES: tuple[Callable[[Case], Iterator[Fault]], ...] = (
    find_vague,
    find_duplicates,
    find_unknown_agents,
    find_unmatched,
    find_protected,
    find_overlaps,
    find_named_outside,
    find_likely_outside,
    find_many_files,
    find_unproven,
    find_unfailing,
    find_missing_files,
    find_green,
    find_used_early,
    find_uncovered,
    find_too_dear,
)


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
    if not plan.tasks:
        wrong = "the plan has no tasks; a goal that needs no work is answered, not planned"
        return [Fault(rule="no-tasks", sentence=wrong, line=lines.of_plan("tasks"))]
    case = Case(plan=plan, lines=lines, facts=facts, requirements=requirements, limits=limits)
    faults = dict.fromkeys(fault for rule in _RULES for fault in rule(case))
    return sorted(faults, key=lambda fault: fault.line)
