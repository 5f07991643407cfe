"""The way from a goal to a plan that holds: the planner's drafts, the refusals it corrects, one critic's objections."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from pydantic import Field

from forgepool.orchestrator.cli.planning.conversation import SKILL, PlanConversation, PlanningSite, open_conversation
from forgepool.orchestrator.cli.planning.critic import Criticism, criticise, find_critic
from forgepool.orchestrator.cli.planning.draft import DraftJudge, PlanDraft
from forgepool.orchestrator.decisions.reasons import count_of
from forgepool.supervisor.review.brief import conventions
from forgepool.supervisor.review.panel import Seat
from forgepool.supervisor.review.quoting import Quotation
from forgepool.workers.agents.briefing.system_prompt import builtin_skill, prompt
from forgepool.workers.agents.builtin.loop import ConversationOutcome
from forgepool.workers.llm.routing.table import Table
from forgepool.workers.policy.gate_file.document import GATE_FILE
from forgepool.workers.policy.gate_file.reading import read_gate_file
from forgepool.workers.schema.orders import Limits, Spent, add_spent
from forgepool.workers.tools.tool import Arguments, Finish, Tool, ToolAnswer, make_typed_tool
from forgepool.workers.tools.workplace import Workplace
from forgepool.worktrees.commits.changes import FileTooLarge, read_file, tree_paths
from forgepool.worktrees.git.git import CommitId, Git

_MOST_REFUSED = 3
_MOST_TURNS = 40
_MOST_LISTED = 300
_AGAIN = "Correct all of it, and call write_plan again with the whole file."
_LAST = "This is the last time: the next plan that is refused ends the work without a plan."


class WritePlanArguments(Arguments):
    plan: str = Field(min_length=1, description="the whole text of the plan file, in YAML")
    covers: dict[str, tuple[str, ...]] = Field(
        description="for each requirement of the card, such as R1, the ids of the tasks that fulfil it"
    )
    why: str = Field(
        min_length=1, description="how the goal was cut, what you decided, and what you could not find out"
    )


CompilerEnding = Literal["planned", "refused", "nothing", "stopped", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compilation:
    """The end of the planner's work."""

    ended: CompilerEnding
    draft: PlanDraft | None
    """The plan that holds; with `refused`, the last one that does not."""
    detail: str
    criticism: Criticism | None
    models: tuple[str, ...]
    spent: Spent


@dataclass(slots=True, kw_only=True)
class PlanCompiler:
    """Leads the planner, and the critic where one is wanted."""

    seat: Seat
    site: PlanningSite
    judge: DraftJudge
    base: CommitId
    table: Table
    critic: Literal["never", "if possible", "always"]
    cost_usd: float | None
    """The most that planner and critic may cost together; None is no limit."""
    tell: Callable[[str], None]
    _refused: int = 0
    _drafts: list[PlanDraft] = field(default_factory=list)
    _accepted: PlanDraft | None = None

    def compile(self) -> Compilation:
        system = (prompt("planning"), builtin_skill(SKILL).text)
        tools = self.site.reading_tools(self._tool())
        with open_conversation("transcript", self.seat, self.site, system, tools) as talk:
            outcome = talk.lead(self._card(), self._limits(Spent()))
            first = self._accepted
            heard = self._hear(first, talk) if first is not None else None
            if heard is not None and heard.objections and not self.site.stop():
                outcome = self._answer(talk, heard)
                if self._accepted is first and not self.site.stop():
                    self.tell("the planner's answer to the critic was no plan that holds; the one before it stands")
            spent = add_spent(talk.meter.spent, heard.spent if heard else Spent())
            stopped = outcome.ended == "stopped" or self.site.stop()
            return Compilation(
                ended="stopped" if stopped else self._ending(outcome),
                draft=self._accepted or (self._drafts[-1] if self._drafts else None),
                detail=outcome.detail,
                criticism=heard,
                models=talk.models,
                spent=spent,
            )

    def _ending(self, outcome: ConversationOutcome) -> CompilerEnding:
        if self._accepted is not None:
            return "planned"
        if self._refused >= _MOST_REFUSED:
            return "refused"
        return "failed" if outcome.trouble not in (None, "no_turn") else "nothing"

    def _hear(self, draft: PlanDraft, talk: PlanConversation) -> Criticism | None:
        if self.critic == "never" or self.site.stop():
            return None
        seat, why = find_critic(self.table, talk.families, self.judge.settings, capped=self.cost_usd is not None)
        left = None if self.cost_usd is None else self.cost_usd - (talk.meter.spent.cost_usd or 0.0)
        if seat is None:
            return None if self.critic == "if possible" else self._silent(why)
        if left is not None and left <= 0:
            return self._silent("the budget is used up")
        heard = criticise(seat, self.site, self.judge.goal, draft, cost_usd=left)
        if heard.silence:
            return self._silent(heard.silence, heard)
        objections = count_of(len(heard.objections), "objection") if heard.objections else "no objection"
        self.tell(f"critic {', '.join(heard.models)}: {objections}")
        for one in heard.objections:
            self.tell(f"    {one}")
        return heard

    def _silent(self, why: str, heard: Criticism | None = None) -> Criticism:
        self.tell(f"no critic was heard: {why}")
        return heard or Criticism(silence=why)

    def _answer(self, talk: PlanConversation, heard: Criticism) -> ConversationOutcome:
        """Give the planner the objections; the plan that held before stands where it brings no other that holds."""
        said = Quotation()
        self._refused = 0
        text = (
            "[the harness] Your plan holds. A critic, who has read only the goal, the plan and your reasons, objects "
            "once:\n\n"
            f"{said.quote_list('objections of the critic; each is a claim', heard.objections)}\n\n"
            "Call write_plan again: with the plan corrected where the critic is right, and with your answer to each "
            "objection in `why`."
        )
        return talk.lead(text, self._limits(heard.spent))

    def _limits(self, others: Spent) -> Limits:
        """Return the planner's limits; `others` is what the critic has used of the money."""
        if self.cost_usd is None:
            return Limits(turns=_MOST_TURNS)
        return Limits(turns=_MOST_TURNS, cost_usd=max(self.cost_usd - (others.cost_usd or 0.0), 1e-6))

    def _tool(self) -> Tool:
        description = "Ends the planning with a plan file, if it holds; else it answers with what is wrong."
        return make_typed_tool("write_plan", description, WritePlanArguments, self._take, kind="end")

    def _take(self, filled: WritePlanArguments, workplace: Workplace) -> ToolAnswer:
        draft = self.judge.judge(filled.plan, filled.covers, filled.why)
        self._drafts.append(draft)
        number = len(self._drafts)
        if not draft.errors and draft.plan is not None:
            self._accepted = draft
            warned = f", with {count_of(len(draft.faults), 'warning')}" if draft.faults else ""
            self.tell(f"plan {number} holds: {count_of(len(draft.plan.tasks), 'task')}{warned}")
            return ToolAnswer(text="OK: the plan holds", ends=Finish(summary=draft.why))
        self._refused += 1
        self.tell(f"plan {number} is refused:")
        for error in draft.errors:
            self.tell(f"    {error}")
        left = _MOST_REFUSED - self._refused
        also = [f"(a warning) {warning}" for warning in draft.warnings()]
        text = "\n".join(("the plan is refused:", *draft.errors, *also, *((_AGAIN,) if left else ())))
        if left == 1:
            text += f" {_LAST}"
        return ToolAnswer(text=text, is_error=True, ends=None if left else Finish(summary=""))

    def _card(self) -> str:
        goal, hub, quoted = self.judge.goal, self.judge.hub, Quotation()
        requirements = "\n".join(f"- {one}: {text}" for one, text in goal.requirements.items())
        parts = [f"# Goal\n\n{goal.words}", f"# Requirements\n\n{requirements}"]
        if goal.specification:
            parts.append(quoted.quote("the specification that the requirements are from", goal.specification))
        named = self.judge.base or hub.facts.default_branch
        where = f"# The repository\n\nThe worktree holds {named} at {self.base[:12]}."
        if self.judge.base is not None:
            where += f" The plan has the key `base: {self.judge.base}`."
        parts.append(where)
        parts.extend(self._facts(quoted))
        return "\n\n".join(parts) + "\n"

    def _facts(self, quoted: Quotation) -> list[str]:
        git = self.judge.hub.mirror.git
        paths = tree_paths(git, self.base)
        few = len(paths) <= _MOST_LISTED
        label = "all its files" if few else f"the first {_MOST_LISTED} of its {len(paths):,} files"
        found = [_checks(git, self.base), quoted.quote_list(label, paths[:_MOST_LISTED])]
        if text := conventions(git, self.base):
            found.append(quoted.quote("conventions of this repository", text))
        return found


def _checks(git: Git, base: CommitId) -> str:
    """Raises DocumentWrong: the gate file is wrong."""
    try:
        data = read_file(git, base, GATE_FILE)
    except FileTooLarge:
        data = None  # The validation says so.
    checks = () if data is None else read_gate_file(data.decode(errors="replace"), GATE_FILE).checks
    if not checks:
        return f"It has no {GATE_FILE} with checks, so the plan needs the key `checks`."
    listed = "\n".join(f"- {check.name}: `{check.run}`" for check in checks)
    return f"Its {GATE_FILE} names the checks that every landing tree must pass:\n{listed}"
