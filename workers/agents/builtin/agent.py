"""
The built-in agent: a model and tools, led in phases from a task to changed files.

This module assembles an attempt: its beginning (from scratch, or where another process stopped), its models, prompts
and tools. `attempt.py` then leads it from phase to phase.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from forgepool.workers.agents.briefing.model_hints import Guess
from forgepool.workers.agents.briefing.references import split_reference
from forgepool.workers.agents.briefing.system_prompt import find_skill
from forgepool.workers.agents.builtin.attempt import Attempt
from forgepool.workers.agents.builtin.models import Models, OneModel, TableModels
from forgepool.workers.agents.builtin.phases import ConfirmedTest, Handed, PhaseCourse, facts
from forgepool.workers.agents.builtin.prompts import TaskWords, brief_task, describe_move, find_hints
from forgepool.workers.agents.builtin.toolbox import Toolbox, serve_tools
from forgepool.workers.agents.builtin.workflow import WorkflowPhase, find_workflow, why_unfit
from forgepool.workers.agents.contract import AgentAnswer, Assignment, task_variables
from forgepool.workers.agents.lead.rules import LeadStanding, read_standing
from forgepool.workers.agents.lead.tools import guard, lead_tools
from forgepool.workers.agents.render_transcript import write_log
from forgepool.workers.context.profile_switch import read_wished_profile
from forgepool.workers.context.profiles.registry import UnknownProfile
from forgepool.workers.context.transcript.entries import Entry, Noted, Transcript, now
from forgepool.workers.context.transcript.usage import Meter
from forgepool.workers.context.view.live import begin_with, choose_profile
from forgepool.workers.llm.provider import ModelFailed
from forgepool.workers.llm.routing.open import keys_of
from forgepool.workers.llm.routing.table import read_table
from forgepool.workers.llm.scripted import ScriptedModel
from forgepool.workers.sandbox.run.background import Background
from forgepool.workers.schema.logs import hider
from forgepool.workers.schema.mistakes import DocumentWrong, Mistake
from forgepool.workers.schema.orders import BuiltinAgent
from forgepool.workers.schema.reports import DispatchedTask, Evidence
from forgepool.workers.tools.commands.red_phase import Red, RedPhase
from forgepool.workers.tools.endings import ASK
from forgepool.workers.tools.tool import Tool
from forgepool.workers.tools.workplace import Workplace
from forgepool.workers.workspace.budget_part import BudgetPart
from forgepool.workers.workspace.checkpoints import keep_hub
from forgepool.workers.workspace.resume import begin, limits_with
from forgepool.workers.workspace.workspace import Workspace
from forgepool.worktrees.git.git import Git

Stop = Callable[[], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptParts:
    """The parts of an attempt that differ between a script and real models."""

    models: Models
    words: Mapping[str, TaskWords]
    hints: Callable[[], Guess] = Guess
    course: PhaseCourse = field(default_factory=PhaseCourse)
    hide: Callable[[str], str] = str
    profile: str = ""
    """The plan's context profile; empty leaves the choice to the worker's settings."""


def perform_builtin(assignment: Assignment, workspace: Workspace, agent: BuiltinAgent, *, stop: Stop) -> AgentAnswer:
    order = assignment.order

    def make_parts() -> AttemptParts:
        table = read_table(workspace.settings.models_file)
        workflow = _workflow(workspace, agent)
        course = PhaseCourse(answers=order.answers, leads=bool(order.lead), workflow=workflow)
        words = brief_task(order, workspace, agent, assignment.tmp, course.phases)
        models = TableModels(order=order, agent=agent, table=table, settings=workspace.settings)

        def hints() -> Guess:
            return find_hints(order, workspace, agent, table, stop=stop) if agent.hints else Guess()

        return AttemptParts(
            models=models,
            words=words,
            hints=hints,
            course=course,
            hide=hider(keys_of(table)),
            profile=agent.context or "",
        )

    return _perform(assignment, workspace, make_parts, stop=stop)


def perform_scripted(assignment: Assignment, workspace: Workspace, script: str, *, stop: Stop) -> AgentAnswer:
    order = assignment.order

    def make_parts() -> AttemptParts:
        model = ScriptedModel(script, attempt=order.attempt, name=f"script of task '{order.task}'")
        course = PhaseCourse(plan_first=model.plans, answers=order.answers, leads=bool(order.lead))
        words = brief_task(order, workspace, BuiltinAgent(), assignment.tmp, course.phases)
        return AttemptParts(models=OneModel(model), words=words, course=course)

    try:
        return _perform(assignment, workspace, make_parts, stop=stop)
    except ModelFailed as wrong:
        return AgentAnswer(ended="failed", detail=str(wrong))


def _workflow(workspace: Workspace, agent: BuiltinAgent) -> tuple[WorkflowPhase, ...]:
    """
    Return the phases that the agent names, or none.

    Raises:
        DocumentWrong: there is no such workflow, its file is wrong, or the task cannot have it.
    """
    if agent.workflow is None:
        return ()
    order = workspace.order
    workflow = find_workflow(agent.workflow, workspace.mirror.git, workspace.base)
    wrong = why_unfit(workflow, answers=order.answers, leads=bool(order.lead))
    if wrong is not None:
        raise DocumentWrong(f"task '{order.task}'", [Mistake(0, wrong)])
    return workflow.phases


def _perform(
    assignment: Assignment, workspace: Workspace, make_parts: Callable[[], AttemptParts], *, stop: Stop
) -> AgentAnswer:
    try:
        return _lead_attempt(assignment, workspace, make_parts(), stop=stop)
    except DocumentWrong as wrong:
        # A person has to correct models.yaml, tools.yaml, or a skill.
        own = any(each.startswith((".forgepool/", "workflow '", "skill '")) for each in wrong.mistakes)
        branch, commit = workspace.order.target.removeprefix("refs/heads/"), workspace.base[:12]
        read = f" (read from branch '{branch}' at {commit}; push the correction to that branch)" if own else ""
        return AgentAnswer(ended="failed", detail="; ".join(wrong.mistakes) + read, trouble="unavailable")
    except UnknownProfile as wrong:
        return AgentAnswer(ended="failed", detail=str(wrong), trouble="unavailable")


def _lead_attempt(assignment: Assignment, workspace: Workspace, parts: AttemptParts, *, stop: Stop) -> AgentAnswer:
    order = assignment.order
    wished = order.context
    profile = choose_profile(by_person=wished, in_plan=parts.profile, in_settings=workspace.settings.context)
    beginning = begin(workspace)
    transcript = beginning.transcript
    begin_with(transcript, profile.name, by_person=wished)
    meter = Meter.of(limits_with(order, transcript.entries), transcript.entries)
    workplace = _workplace(assignment, workspace.checkout.slot.pristine, meter, stop)
    meter.priced_usd = order.priced_usd
    if order.shared and workspace.settings.broker_url is not None:
        meter.part = BudgetPart(
            order=order,
            broker_url=workspace.settings.broker_url,
            stop=workplace.stop,
            left_s=workplace.left_s,
            known=order.limits,
        )
    with ExitStack() as until_the_end:
        until_the_end.enter_context(transcript)
        toolbox = _toolbox(workspace, parts.words, workplace, transcript, until_the_end)
        attempt = Attempt(
            assignment=assignment,
            workspace=workspace,
            course=parts.course,
            models=parts.models,
            words=parts.words,
            hints=parts.hints,
            toolbox=toolbox,
            transcript=transcript,
            keeper=until_the_end.enter_context(keep_hub(order, workspace.checkout, transcript, beginning.tip)),
            meter=meter,
            workplace=workplace,
            stop=stop,
            profile=profile,
            wanted=lambda: read_wished_profile(workspace.settings.broker_url, order.run, order.task),
            hide=parts.hide,
        )
        if beginning.resumed and not facts(transcript.entries).ended:
            attempt.say(describe_move(workplace.root, workplace.outputs))
        answer = attempt.lead()
    tail = write_log(transcript.entries, assignment.log)
    return replace(answer, log_tail=answer.log_tail or tail)


def _toolbox(
    workspace: Workspace,
    words: Mapping[str, TaskWords],
    workplace: Workplace,
    transcript: Transcript,
    until_the_end: ExitStack,
) -> Toolbox:
    """Assemble the attempt's tools, and start the programs that serve some of them."""
    programs = until_the_end.enter_context(
        serve_tools(workplace.root, workplace.env, workplace.confined, workspace.settings)
    )
    for warning in programs.warnings:
        transcript.append(Noted(at=now(), text=warning))
    return Toolbox(
        background=until_the_end.enter_context(Background()),
        may_touch=lambda paths: workspace.may_touch(paths, stop=workplace.stop, left_s=workplace.left_s),
        unchanged=workspace.why_unchanged,
        policy=workspace.policy(),
        reds=_red_phases(words.values(), transcript.entries),
        fetches=bool(workspace.order.network),
        find_wrong=workspace.find_wrong_citations,
        leading=_lead_tools(workspace, transcript.entries) if workspace.order.lead else (),
        more=programs.tools,
    )


def _lead_tools(workspace: Workspace, entries: list[Entry]) -> tuple[Tool, ...]:
    def standing() -> LeadStanding:
        return read_standing(entries, workspace.order.lead)

    def find_wrong(task: DispatchedTask) -> Sequence[str]:
        # With needs, a file may be one that these still make.
        files = () if task.needs else tuple(split_reference(reference).path for reference in task.context)
        wrong = [*workspace.find_wrong_citations([Evidence(path=path) for path in files])]
        try:
            if task.skill is not None:
                find_skill(task.skill, workspace.mirror.git, workspace.base)
        except DocumentWrong as unknown:
            wrong += unknown.mistakes
        return wrong

    return (*lead_tools(standing, find_wrong), guard(ASK, standing))


def _red_phases(words: Iterable[TaskWords], entries: list[Entry]) -> dict[str, RedPhase]:
    """Begin phases that need a failing test; one confirmed before an interruption stays confirmed."""
    made = facts(entries).handed
    return {
        one.phase.name: RedPhase(_seen(made.get(one.phase.name)))
        for one in words
        if one.phase.artifact == "failing-test" or (one.red_first and one.phase.kind == "execute")
    }


def _seen(made: Handed | None) -> Red | None:
    if not isinstance(made, ConfirmedTest):
        return None
    return Red(command=made.command, status=1, tail=made.output, iteration=0)


def _workplace(assignment: Assignment, git: Git, meter: Meter, stop: Stop) -> Workplace:
    def left_s() -> float:
        return meter.began + assignment.order.limits.wall_s + meter.waited_s - time.monotonic()

    return Workplace(
        root=assignment.worktree.resolve(),
        git=git,
        tmp=assignment.tmp,
        env={**assignment.env, **task_variables(assignment.order, assignment.tmp)},
        stop=lambda: stop() or left_s() <= 0,
        left_s=left_s,
        confined=assignment.confined,
        readable=(assignment.tmp,),
    )
