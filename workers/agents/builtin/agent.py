"""
The built-in agent: a model, the tools, and phases that lead from a task to files that are changed.

Here an attempt is put together: where it begins (anew, or where another process stopped), whom it talks to, what it is
told and what it may use. How it goes from there is `attempt`'s.
"""

import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from forgepool.workers.agents.briefing.model_hints import Guess
from forgepool.workers.agents.builtin.attempt import Attempt, Models, PhaseModel
from forgepool.workers.agents.builtin.phases import PhaseCourse, facts
from forgepool.workers.agents.builtin.prompts import TaskWords, brief_task, describe_move, find_hints
from forgepool.workers.agents.builtin.summaries import SummaryModel
from forgepool.workers.agents.builtin.toolbox import Toolbox, serve_tools
from forgepool.workers.agents.contract import AgentAnswer, Assignment, task_variables, write_reasons
from forgepool.workers.agents.families import families_of
from forgepool.workers.agents.render_transcript import narrate_entries
from forgepool.workers.context.profile_switch import read_wished_profile
from forgepool.workers.context.profiles.registry import UnknownProfile
from forgepool.workers.context.transcript.entries import Entry, Noted, Transcript, now
from forgepool.workers.context.transcript.exchanges import exchanges, text_argument
from forgepool.workers.context.transcript.usage import Meter
from forgepool.workers.context.view.choice import begin_with, choose_profile
from forgepool.workers.llm.provider import ModelFailed
from forgepool.workers.llm.routing.chain import ModelChain, Patience
from forgepool.workers.llm.routing.open import keys_of, open_models
from forgepool.workers.llm.routing.table import Table, read_table
from forgepool.workers.llm.scripted import MODEL, ScriptedModel
from forgepool.workers.sandbox.run.background import Background
from forgepool.workers.schema.orders import BuiltinAgent, PhaseName, WorkOrder
from forgepool.workers.schema.redaction import hider
from forgepool.workers.schema.settings import Settings
from forgepool.workers.schema.yaml.mistakes import DocumentWrong
from forgepool.workers.tools.commands.red_phase import CONFIRM, Red, RedPhase
from forgepool.workers.tools.workplace import Workplace
from forgepool.workers.workspace.checkpoints import keep_hub
from forgepool.workers.workspace.resume import begin, limits_with
from forgepool.workers.workspace.workspace import Workspace
from forgepool.worktrees.git.git import Git

_TAIL_CHARACTERS = 16_000
_SCRIPTED_WINDOW = 200_000
_BESIDE = Patience(attempts=2, total_s=60.0, longest_wait_s=10.0)
"""With models that are asked for summaries: what there is without one will do."""
COMPACT_ROUTE = "compact"
"""A kind of work whose model, where the user's table has a route for it, writes summaries of conversations."""

Stop = Callable[[], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lead:
    """Who leads an attempt, with what words, and where to."""

    models: Models
    words: TaskWords
    hints: Callable[[], Guess] = Guess
    course: PhaseCourse = field(default_factory=PhaseCourse)
    hide: Callable[[str], str] = str
    profile: str = ""
    """The context profile; empty is the worker's own."""


def perform_builtin(assignment: Assignment, bench: Workspace, agent: BuiltinAgent, *, stop: Stop) -> AgentAnswer:
    order = assignment.order
    try:
        table = read_table(bench.settings.models_file)
        words = brief_task(order, bench, agent, assignment.tmp)
        models = TableModels(order=order, agent=agent, table=table, words=words, settings=bench.settings)

        def hints() -> Guess:
            return find_hints(order, bench, table, stop=stop) if agent.hints else Guess()

        lead = Lead(models=models, words=words, hints=hints, hide=hider(keys_of(table)), profile=agent.context or "")
        return _perform(assignment, bench, lead, stop=stop)
    except DocumentWrong as wrong:
        return _to_be_mended(wrong)
    except UnknownProfile as wrong:
        return AgentAnswer(ended="failed", detail=str(wrong), trouble="unavailable")


def perform_scripted(assignment: Assignment, bench: Workspace, script: str, *, stop: Stop) -> AgentAnswer:
    order = assignment.order
    try:
        model = ScriptedModel(script, attempt=order.attempt, name=f"script of task '{order.task}'")
        words = brief_task(order, bench, BuiltinAgent(), assignment.tmp)
        lead = Lead(models=OneModel(model), words=words, course=PhaseCourse(plan_first=model.plans))
        return _perform(assignment, bench, lead, stop=stop)
    except ModelFailed as wrong:
        return AgentAnswer(ended="failed", detail=str(wrong))
    except DocumentWrong as wrong:
        return _to_be_mended(wrong)
    except UnknownProfile as wrong:
        return AgentAnswer(ended="failed", detail=str(wrong), trouble="unavailable")


def _to_be_mended(wrong: DocumentWrong) -> AgentAnswer:
    """The table of models, that of tools, or a skill: a person wrote it, and a person has to mend it."""
    return AgentAnswer(ended="failed", detail="; ".join(wrong.mistakes), trouble="unavailable")


@dataclass(frozen=True, slots=True)
class OneModel:
    """The scripted model, for every phase."""

    model: ScriptedModel

    def families(self, names: Iterable[str]) -> tuple[str, ...]:
        """The script's own word; by name where somebody else had a hand in it."""
        own = [self.model.family] if MODEL in (names := tuple(names)) else []
        return tuple(dict.fromkeys((*own, *families_of(name for name in names if name != MODEL))))

    def open(self, phase: PhaseName, *, stronger: bool) -> PhaseModel:
        return PhaseModel(
            provider=self.model,
            name=MODEL,
            family=MODEL,
            price=lambda given, answered: 0.0,
            window_tokens=_SCRIPTED_WINDOW,
        )

    def beside(self, phase: PhaseName, model: str) -> SummaryModel | None:
        """Nobody: a script has its own next turn, whatever it is asked."""
        return None

    def compact(self) -> SummaryModel | None:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableModels:
    """Whom the model table names for the task."""

    order: WorkOrder
    agent: BuiltinAgent
    table: Table
    words: TaskWords
    settings: Settings

    def families(self, names: Iterable[str]) -> tuple[str, ...]:
        return families_of(names, self.table)

    def open(self, phase: PhaseName, *, stronger: bool) -> PhaseModel:
        chain = self._chain(self.order.type, phase, model=self._named(phase), escalated=stronger)
        first = chain.contenders[0].candidate
        name = chain.model or first.model
        return PhaseModel(
            provider=chain,
            name=name,
            family=self.table.family(name) or first.family,
            price=chain.price,
            window_tokens=self.table.models[name].window_tokens,
        )

    def beside(self, phase: PhaseName, model: str) -> SummaryModel | None:
        chain = self._chain(self.order.type, phase, model=model)
        # Others have nothing of the conversation in their caches.
        own = tuple(one for one in chain.contenders if one.candidate.model == model)
        chain = replace(chain, contenders=own, patience=_BESIDE)
        return SummaryModel(provider=chain, price=chain.price)

    def compact(self) -> SummaryModel | None:
        if COMPACT_ROUTE not in self.table.routes:
            return None
        chain = replace(self._chain(COMPACT_ROUTE, "execute"), patience=_BESIDE)
        return SummaryModel(provider=chain, price=chain.price)

    def _chain(
        self, task_type: str, phase: PhaseName, *, model: str | None = None, escalated: bool = False
    ) -> ModelChain:
        return open_models(
            self.table,
            task_type=task_type,
            phase=phase,
            model=model,
            escalated=escalated,
            capped=self.order.limits.cost_usd is not None,
            settings=self.settings,
        )

    def _named(self, phase: PhaseName) -> str | None:
        """A person's own word counts for more than the skill's."""
        skill = self.words.skill.model if self.words.skill else None
        return self.agent.models.get(phase) or self.agent.model or skill


def _perform(assignment: Assignment, bench: Workspace, lead: Lead, *, stop: Stop) -> AgentAnswer:
    wished = bench.order.context
    profile = choose_profile(by_person=wished, in_plan=lead.profile, in_settings=bench.settings.context)
    beginning = begin(bench)
    transcript = beginning.transcript
    begin_with(transcript, profile.name, by_person=wished)
    meter = Meter.of(limits_with(assignment.order, transcript.entries), transcript.entries)
    workplace = _workplace(assignment, bench.checkout.slot.pristine, meter, stop)
    with ExitStack() as until_the_end:
        until_the_end.enter_context(transcript)
        toolbox = _toolbox(bench, lead.words, workplace, transcript, until_the_end)
        attempt = Attempt(
            assignment=assignment,
            bench=bench,
            course=lead.course,
            models=lead.models,
            words=lead.words,
            hints=lead.hints,
            toolbox=toolbox,
            transcript=transcript,
            keeper=until_the_end.enter_context(keep_hub(assignment.order, bench.checkout, transcript, beginning.tip)),
            meter=meter,
            workplace=workplace,
            stop=stop,
            profile=profile,
            wanted=lambda: read_wished_profile(bench.settings.broker_url, bench.order.run, bench.order.task),
            hide=lead.hide,
        )
        if beginning.resumed and not facts(transcript.entries).ended:
            attempt.say(describe_move(workplace.root, workplace.outputs))
        answer = attempt.lead()
    return _with_log(answer, transcript, assignment.log)


def _toolbox(
    bench: Workspace, words: TaskWords, workplace: Workplace, transcript: Transcript, until_the_end: ExitStack
) -> Toolbox:
    """The attempt's tools, with the programs that serve some of them running."""
    programs = until_the_end.enter_context(
        serve_tools(workplace.root, workplace.env, workplace.confined, bench.settings)
    )
    for warning in programs.warnings:
        transcript.append(Noted(at=now(), text=warning))
    return Toolbox(
        background=until_the_end.enter_context(Background()),
        may_touch=lambda paths: bench.may_touch(paths, stop=workplace.stop, left_s=workplace.left_s),
        unchanged=bench.why_unchanged,
        policy=bench.policy(),
        red=_red_phase(words, transcript.entries),
        skill=words.skill,
        more=programs.tools,
    )


def _red_phase(words: TaskWords, entries: list[Entry]) -> RedPhase | None:
    """What was confirmed before an interruption stays confirmed."""
    if not words.red_first:
        return None
    confirmed = [one for one in exchanges(entries) if one.call.name == CONFIRM and one.worked]
    if not confirmed:
        return RedPhase()
    command = text_argument(confirmed[-1].call.arguments, "command")
    return RedPhase(confirmed=Red(command=command, status=1, tail=confirmed[-1].result.text, iteration=0))


def _workplace(assignment: Assignment, git: Git, meter: Meter, stop: Stop) -> Workplace:
    reasons = write_reasons(assignment.order, assignment.tmp)
    ends_at = meter.began + assignment.order.limits.wall_s
    return Workplace(
        root=assignment.worktree.resolve(),
        git=git,
        tmp=assignment.tmp,
        env={**assignment.env, **task_variables(assignment.order, reasons)},
        stop=lambda: stop() or time.monotonic() >= ends_at,
        left_s=lambda: ends_at - time.monotonic(),
        confined=assignment.confined,
        readable=(assignment.tmp,),
    )


def _with_log(answer: AgentAnswer, transcript: Transcript, log: Path) -> AgentAnswer:
    """The transcript once more, as a person reads it, where a command's log would be."""
    text = narrate_entries(transcript.entries)
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(text, encoding="utf-8", errors="replace")
    return replace(answer, log_tail=answer.log_tail or text[-_TAIL_CHARACTERS:])
