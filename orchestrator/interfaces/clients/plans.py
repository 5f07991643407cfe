"""Plans of clients: a path or a text, and what a plan may ask for without a person's word."""

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.plan.document import Plan
from forgepool.orchestrator.plan.entries import PlanReview
from forgepool.orchestrator.run import run_folder
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.workers.schema.mistakes import DocumentWrong
from forgepool.workers.schema.orders import CommandAgent
from forgepool.workers.schema.settings import Settings


@contextmanager
def plan_file(plan: str, settings: Settings) -> Iterator[Path]:
    """Yield the file of a plan. A text is written into the home, and its mistakes name it `plan`."""
    if "\n" not in plan and not plan.lstrip().startswith("{"):
        yield Path(plan)
        return
    path = run_folder.plan_texts(settings) / f"{sha256(plan.encode()).hexdigest()[:16]}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(plan, encoding="utf-8")
    try:
        yield path
    except DocumentWrong as wrong:
        raise CannotRun(str(wrong).replace(f"{path}:", "plan:")) from wrong


def refuse_leave(plan: Plan) -> None:
    """Raise CannotRun for a plan by which less is demanded of a change than by default."""
    if leave := leave_of(plan):
        raise CannotRun(
            f"{leave}, which only a person may give; take it out, or have a person start the plan with "
            "`forgepool run PLAN`, or this server with `--may approve`"
        )


def leave_of(plan: Plan) -> str | None:
    """Return the first thing in a plan by which less is demanded of a change than by default; None without any."""
    for task in plan.tasks:
        by_model = not isinstance(task.agent, CommandAgent)
        off = [("grants", task.grants), ("waive", task.waive), ("review: none", by_model and task.review == "none")]
        for key, given in off:
            if given:
                return f"task '{task.id}' has '{key}'"
        if by_model and plan.review == "none":
            return f"plan {plan.name} has 'review: none'"
    if plan.checks == "none":
        return f"plan {plan.name} has 'checks: none'"
    if isinstance(plan.review, PlanReview) and plan.review.policy.script is not None:
        return f"'review' of plan {plan.name} has 'scripted'"
    waived = [check.name for check in plan.checks or () if check.waive]
    return f"check '{waived[0]}' has 'waive'" if waived else None


def why_ask(plan: Plan, above_usd: float) -> str | None:
    """Return why a person has to agree to the cost of a plan; None where its cap is low, or no model is paid."""
    course, cap = PlanIndex(plan, {}), plan.budget.usd
    by_person = isinstance(plan.review, PlanReview) and plan.review.person
    if not course.paid and (by_person or not course.reviewed):
        return None
    if cap is None:
        return f"plan {plan.name} calls models that cost money, and has no cap in US dollars"
    return (
        f"plan {plan.name} may cost {cap:g} USD, more than the {above_usd:g} of this server"
        if cap > above_usd
        else None
    )
