"""One planning: from a person's words to a plan file in the home, or to the reason why there is none."""

import re
import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from forgepool.orchestrator.cli.output.say import complain, tell_slow
from forgepool.orchestrator.cli.planning.compiler import Compilation, PlanCompiler
from forgepool.orchestrator.cli.planning.conversation import open_site
from forgepool.orchestrator.cli.planning.draft import DRAFTS, NAME, DraftJudge, PlanDraft, with_budget
from forgepool.orchestrator.cli.planning.files import PlanFiles, render, with_lead
from forgepool.orchestrator.cli.planning.goal import Goal, read_goal
from forgepool.orchestrator.cli.run.check import interruptible
from forgepool.orchestrator.cli.simulate import PlanForecast, default_terms, play_plan
from forgepool.orchestrator.plan.document import Plan
from forgepool.orchestrator.plan.validation.facts import PlanLimits
from forgepool.orchestrator.reports.costs import usd_words
from forgepool.orchestrator.run.hub import CannotRun, Hub, open_hub, read_plan
from forgepool.orchestrator.run.neighbours.other_runs import name_hub
from forgepool.orchestrator.run.neighbours.spending import RunSpending, SpendLine, keep_spending
from forgepool.orchestrator.simulate.forecast_text import summary_line
from forgepool.supervisor.review.panel import Seat, make_seat
from forgepool.workers.llm.routing.chain import ModelChain
from forgepool.workers.llm.routing.open import keys_of, open_models
from forgepool.workers.llm.routing.table import DEFAULT_TYPE, Table, read_table
from forgepool.workers.schema.logs import hider
from forgepool.workers.schema.mistakes import DocumentWrong
from forgepool.workers.schema.orders import PhaseName
from forgepool.workers.schema.settings import Settings
from forgepool.worktrees.git.git import CommitId

ROUTE = "plan"
"""The kind of work whose models plan."""
INTERRUPTED = 130
_LEAST_USD = 0.01
_PHASES_OF_LEAD: tuple[PhaseName, ...] = ("plan", "execute")
_STATUS = {"stopped": INTERRUPTED, "failed": 3}


HowMuch = Literal["never", "if possible", "always"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOrder:
    """The wish of a person."""

    words: str
    specification: Path | None
    repo: str
    base: str | None
    critic: HowMuch
    budget_usd: float | None
    workers: int | None
    lead: HowMuch
    """A task is added that leads the others to the goal."""
    settings: Settings
    tell: Callable[[str], None]

    def run_words(self, path: Path) -> str:
        """Return the command that runs the plan in this file."""
        return shlex.join(["forgepool", "run", str(path), *([] if self.repo == "." else ["--repo", self.repo])])


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFile:
    """A plan that holds, in a file that nothing has run yet."""

    path: Path
    why: Path
    files: PlanFiles
    plan: Plan
    hub: Hub
    compiled: Compilation
    draft: PlanDraft
    forecast: PlanForecast

    @property
    def summary(self) -> str:
        return summary_line(self.forecast.course, self.forecast.found)


@dataclass(slots=True, kw_only=True)
class PlanningSession:
    order: PlanOrder
    goal: Goal
    hub: Hub
    base: CommitId
    table: Table
    folder: Path

    def lead(self, seat: Seat) -> PlannedFile | int:
        """Return the plan, or the exit status after its sentence has been printed."""
        order, began = self.order, time.time()
        try:
            with interruptible() as stop:
                hide = hider(keys_of(self.table))
                judge = DraftJudge(
                    goal=self.goal,
                    hub=self.hub,
                    base=order.base,
                    settings=order.settings,
                    folder=self.folder,
                    limits=PlanLimits(cost_usd=order.budget_usd),
                    stop=stop,
                )
                with open_site(self.hub, self.base, order.settings, self.folder, hide=hide, stop=stop) as site:
                    compiler = PlanCompiler(
                        seat=seat,
                        site=site,
                        judge=judge,
                        base=self.base,
                        table=self.table,
                        critic=order.critic,
                        cost_usd=order.budget_usd,
                        tell=order.tell,
                    )
                    compiled = compiler.compile()
                    self._keep_spending(compiled, began)
        except KeyboardInterrupt:
            return complain(f"interrupted; {self._kept()}", INTERRUPTED)
        if compiled.ended != "planned" or compiled.draft is None:
            return self._complain_of(compiled)
        return self._finish(compiled, compiled.draft)

    def _keep_spending(self, compiled: Compilation, began: float) -> None:
        line = SpendLine(what="planning", at=began, models=compiled.models, spent=compiled.spent)
        project = name_hub(self.hub.facts.url)
        person = self.order.settings.person
        keep_spending(self.folder, RunSpending(run=self.folder.name, project=project, person=person, lines=(line,)))

    def _complain_of(self, compiled: Compilation) -> int:
        match compiled.ended:
            case "refused":
                last = self._drafts()[-1]
                mend = f"the last draft is {last}: correct it, then `{self.order.run_words(last)}`"
                return complain(f"there is no plan: the planner's plans were all refused; {mend}", 1)
            case "stopped":
                return complain(f"interrupted; {self._kept()}", INTERRUPTED)
            case _:
                return complain(f"there is no plan: {compiled.detail}; {self._kept()}", _STATUS.get(compiled.ended, 1))

    def _kept(self) -> str:
        if drafts := self._drafts():
            return f"the last draft is {drafts[-1]}"
        return f"the conversation is in {self.folder / 'transcript.log'}"

    def _drafts(self) -> list[Path]:
        return sorted(self.folder.glob(DRAFTS))

    def _finish(self, compiled: Compilation, draft: PlanDraft) -> PlannedFile | int:
        order, path = self.order, self.folder / NAME
        left = self._left(compiled)
        if left is not None and left < _LEAST_USD:
            path.write_text(draft.text, encoding="utf-8")
            spent = f"{usd_words(compiled.spent.cost_usd or 0.0)} of the {order.budget_usd:g} USD"
            return complain(f"planning has cost {spent}, which leaves nothing for the tasks; the plan is {path}", 1)
        led = draft if order.lead == "never" else self._with_lead(draft, path)
        draft = draft if isinstance(led, str) else led
        path.write_text(with_budget(draft.text, left), encoding="utf-8")
        if isinstance(led, str):
            alone = f"no lead can be added to the plan: {led}"
            if order.lead == "always":
                return complain(f"{alone}; without one, `{order.run_words(path)}` runs it", 2)
            order.tell(f"{alone}; there will be no synthesis")
        plan = read_plan(path, self.hub)
        forecast = play_plan(plan, self.hub, default_terms(order.workers), order.settings)
        named = f"{order.base or self.hub.facts.default_branch} at {self.base[:12]}"
        line = summary_line(forecast.course, forecast.found)
        files = render(self.goal, compiled, draft, base=named, forecast=line, left_usd=left)
        why = files.write(path)
        return PlannedFile(
            path=path,
            why=why,
            files=files,
            plan=plan,
            hub=self.hub,
            compiled=compiled,
            draft=draft,
            forecast=forecast,
        )

    def _with_lead(self, draft: PlanDraft, path: Path) -> PlanDraft | str:
        """Return the draft with a lead, or why the plan with it cannot be read, as where its defaults forbid one."""
        taken = {task.id for task in draft.plan.tasks} if draft.plan else set()
        led = with_lead(draft, self.goal, "lead" if "lead" not in taken else "lead-of-all")
        if led is None:
            return "its tasks are not written in block style"
        path.write_text(led.text, encoding="utf-8")
        try:
            return replace(led, plan=read_plan(path, self.hub, name=NAME))
        except DocumentWrong as wrong:
            return str(wrong).splitlines()[0]

    def _left(self, compiled: Compilation) -> float | None:
        if self.order.budget_usd is None:
            return None
        return self.order.budget_usd - (compiled.spent.cost_usd or 0.0)


def plan_goal(order: PlanOrder) -> PlannedFile | int:
    """
    Return the plan for a goal, or the exit status after its sentence has been printed.

    Raises:
        UserError, InfrastructureError: there is no model, no repository or no base; the sentence says which.
    """
    settings = order.settings
    goal = read_goal(order.words, order.specification)
    if order.specification is not None and [*goal.requirements.values()] == [goal.title]:
        counts = "list items, numbered headings and lines with must or shall count"
        order.tell(f"warning: {order.specification} has no requirement, so the goal is the only one; {counts}")
    table = read_table(settings.models_file)
    seat = _planner(table, order)
    if order.lead != "never" and settings.broker_url is None and (why := _why_no_lead(table, settings)) is not None:
        if order.lead == "always":
            raise CannotRun(f"no model can be asked to lead: {why}, or leave out --lead; nothing was planned")
        order = replace(order, lead="never")
    with tell_slow("reading the repository; the first copy of a large one takes a while"):
        hub = open_hub(order.repo, settings)
        base = hub.base_of(order.base)
        hub.mirror.ensure(base)
    session = PlanningSession(
        order=order, goal=goal, hub=hub, base=base, table=table, folder=_new_folder(settings, goal)
    )
    count = len(goal.requirements)
    asked = f"{count} requirements" if count > 1 else "one requirement"
    order.tell(f"{seat.first} plans on {order.base or hub.facts.default_branch} at {base[:12]}; {asked}")
    return session.lead(seat)


def _planner(table: Table, order: PlanOrder) -> Seat:
    capped = order.budget_usd is not None
    chain = open_models(table, task_type=ROUTE, phase="plan", capped=capped, settings=order.settings)
    if not chain.model:
        raise CannotRun(f"no model can be asked for a plan: {_mend(chain)} (`forgepool models` lists all)")
    return make_seat(1, chain.contenders, chain, table)


def _why_no_lead(table: Table, settings: Settings) -> str | None:
    """Return what would let a model of this host lead the plan's tasks; None where one can."""
    chains = (open_models(table, task_type=DEFAULT_TYPE, phase=phase, settings=settings) for phase in _PHASES_OF_LEAD)
    return next((_mend(chain) for chain in chains if not chain.model), None)


def _mend(chain: ModelChain) -> str:
    """Return what would let one of the models be asked."""
    keys = dict.fromkeys(one.candidate.wants_key for one in chain.contenders if one.candidate.wants_key)
    others = (f"{one.candidate.model}: {one.wanting}" for one in chain.contenders if not one.candidate.wants_key)
    return "; ".join([f"set {' or '.join(keys)}"] * bool(keys) + [*others])


def _new_folder(settings: Settings, goal: Goal) -> Path:
    """Make the folder of one planning, named by its goal and time."""
    name = re.sub(r"[^a-z0-9]+", "-", goal.title.lower())[:40].strip("-") or "plan"
    stem, number = f"{name}-{time.strftime('%Y%m%d-%H%M%S')}", 1
    while True:
        folder = settings.home / "plans" / (stem if number == 1 else f"{stem}-{number}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            number += 1
        else:
            return folder
