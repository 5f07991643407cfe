"""Tools about plans: check one, forecast it, start it as a process that outlives the client."""

from dataclasses import dataclass
from typing import Annotated

from mcp.server.elicitation import AcceptedElicitation, ElicitationResult
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.resolve import Elicit, Resolve
from pydantic import BaseModel, Field

from forgepool.orchestrator.cli.run.check import describe_plan, find_problems
from forgepool.orchestrator.cli.run.schema import make_schema
from forgepool.orchestrator.cli.simulate import default_terms, forecast_plan
from forgepool.orchestrator.interfaces.clients.detached import RunLauncher
from forgepool.orchestrator.interfaces.clients.plans import plan_file, refuse_leave, why_ask
from forgepool.orchestrator.interfaces.mcp.mcp_server import ForgepoolServer
from forgepool.orchestrator.run import run_folder
from forgepool.orchestrator.run.hub import CannotRun, open_hub, read_plan
from forgepool.workers.schema.mistakes import DocumentWrong
from forgepool.workers.schema.settings import Settings

PlanSource = Annotated[
    str,
    Field(description="The plan: the path of a YAML file, or its text. A text has no scripts or assets beside it."),
]
Repo = Annotated[str, Field(description="Path or URL of the repository the target lives in.")]
Workers = Annotated[int | None, Field(ge=1, le=256, description="Tasks at once; default: one for each processor.")]
BudgetUsd = Annotated[
    float | None,
    Field(gt=0, description="Cap on the cost of the run, in place of the plan's. Ask the user for it."),
]


class RunBudget(BaseModel):
    """The person's answer to how much a run may cost."""

    budget_usd: float | None = Field(default=None, gt=0, description="The most that the run may cost, in US dollars.")


def describe_schema() -> dict[str, object]:
    return dict(make_schema("plan"))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanTools:
    settings: Settings
    launcher: RunLauncher
    ask_above_usd: float
    may_approve: bool

    def check_plan(self, plan: PlanSource, repo: Repo = ".") -> dict[str, object]:
        """
        Check a plan and preview it; nothing is started. Answers with the mistakes and their lines, or with the order,
        what runs together, what conflicts, and the problems of this machine.
        """
        try:
            with plan_file(plan, self.settings) as path:
                hub = open_hub(repo, self.settings)
                read = read_plan(path, hub)
                problems = find_problems(read, hub, self.settings, path.parent)
                return {"valid": True, **describe_plan(read, hub, problems)}
        except (DocumentWrong, CannotRun) as wrong:
            found = wrong if isinstance(wrong, DocumentWrong) else wrong.__cause__
            if not isinstance(found, DocumentWrong):
                raise
            return {"valid": False, "mistakes": [_place(each) for each in str(wrong).splitlines()]}

    def simulate_plan(self, plan: PlanSource, repo: Repo = ".", workers: Workers = None) -> dict[str, object]:
        """Forecast how long a plan takes, what it costs and what limits it, on a virtual clock; nothing is started."""
        with plan_file(plan, self.settings) as path:
            found = forecast_plan(path, repo, default_terms(workers), self.settings).as_json()
        return {key: each for key, each in found.items() if key != "middle"}

    def run_plan(
        self,
        plan: PlanSource,
        budget: "Annotated[ElicitationResult[RunBudget], Resolve(ask_budget)]",
        repo: Repo = ".",
        workers: Workers = None,
        budget_usd: BudgetUsd = None,
    ) -> dict[str, object]:
        """
        Start a plan, and answer with the name of its run at once: ask status with it. The run is a process of its own
        and outlives this client. A run that may cost more than this server's limit, or without a cap, needs a person's
        word: the client is asked for it, or `budget_usd` gives it. Grants, waivers and a review that is switched off
        are refused: only a person gives them.
        """
        if not isinstance(budget, AcceptedElicitation):
            raise CannotRun("the cost was not agreed to, so nothing was started")
        cap = budget.data.budget_usd
        with plan_file(plan, self.settings) as path:
            read = read_plan(path, open_hub(repo, self.settings))
            if not self.may_approve:
                refuse_leave(read)
            if cap is None and (why := why_ask(read, self.ask_above_usd)) is not None:
                raise CannotRun(f"{why}; give a cap as `budget_usd`")
            run = run_folder.new_run_id(read.name)
            options = [*(("--workers", str(workers)) if workers else ()), *(("--budget-usd", f"{cap}") if cap else ())]
            begun = self.launcher.begin(run, path, read, repo, *options)
        return {"run": run, "begun": begun, "tasks": len(read.tasks), "target": read.target, "budget_usd": cap}


def _place(mistake: str) -> dict[str, object]:
    """Return the line and the sentence of a mistake."""
    head, _, rest = mistake.partition(": ")
    line = head.rpartition(":")[2]
    return {"line": int(line), "sentence": rest} if line.isdecimal() else {"line": 0, "sentence": mistake}


def ask_budget(plan: str, repo: str, budget_usd: float | None, context: Context) -> RunBudget | Elicit[RunBudget]:
    """Return the cap that was given, or none where none is needed; else the question to the person at the client."""
    server = context.mcp_server
    assert isinstance(server, ForgepoolServer), "its tool belongs to no other"
    if budget_usd is not None:
        return RunBudget(budget_usd=budget_usd)
    settings = Settings()
    with plan_file(plan, settings) as path:
        why = why_ask(read_plan(path, open_hub(repo, settings)), server.ask_above_usd)
    can_ask = context.client_capabilities is not None and context.client_capabilities.elicitation is not None
    if why is None or not can_ask:
        return RunBudget()
    return Elicit(f"{why[:1].upper()}{why[1:]}. How much may it cost?", RunBudget)
