"""Validates a plan file against the repository that it is for, with the requirements beside it and a forecast."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from forgepool.orchestrator.cli.simulate import default_terms, play_plan
from forgepool.orchestrator.launch.plan_facts import gather_facts
from forgepool.orchestrator.plan.document import Plan
from forgepool.orchestrator.plan.validation.facts import Estimate, Fault, PlanLimits, Requirement
from forgepool.orchestrator.plan.validation.goal import read_requirements
from forgepool.orchestrator.plan.validation.lines import PlanLines
from forgepool.orchestrator.plan.validation.validate import validate
from forgepool.orchestrator.run.hub import Hub
from forgepool.workers.schema.settings import Settings

_NO_LIMITS = PlanLimits()


def find_faults(
    plan: Plan,
    path: Path,
    hub: Hub,
    settings: Settings,
    *,
    limits: PlanLimits = _NO_LIMITS,
    stop: Callable[[], bool] = lambda: False,
) -> list[Fault]:
    """
    Return the faults of the plan that was read from this file. Its acceptance commands run once, on the base.

    Requirements are those that `plan.why.md` names, beside `plan.yaml`.

    Raises:
        DocumentWrong: the target's gate file or the models file is invalid.
        GitFailed, OSError, Unusable: the repository cannot be read.
    """
    facts = gather_facts(
        plan, hub, settings, folder=path.parent, stop=stop, estimate=estimate_plan(plan, hub, settings)
    )
    lines = PlanLines.of(path.read_text(encoding="utf-8-sig"), str(path), lambda: facts.paths)
    return validate(plan, lines, facts, requirements_beside(path), limits)


def estimate_plan(plan: Plan, hub: Hub, settings: Settings) -> Estimate:
    """Return the forecast of a plan on this machine, with the costs of its earlier runs where it has any."""
    found = play_plan(plan, hub, replace(default_terms(), from_runs=True), settings).found
    return Estimate(
        makespan_s=found.makespan_s.median,
        cost_usd=None if found.unknown else found.known_usd.p95,
        most_usd=found.most_usd,
    )


def requirements_beside(path: Path) -> tuple[Requirement, ...] | None:
    """Return the requirements in `plan.why.md`, beside `plan.yaml`; None where it is missing or has none."""
    why = path.with_suffix(".why.md")
    return (why.is_file() and read_requirements(why.read_text(encoding="utf-8", errors="replace"))) or None
