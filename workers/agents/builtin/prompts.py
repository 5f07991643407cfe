"""
The opening of a phase's conversation: the system prompt and the first message.

A first phase that explores gets the task card, with hints where to look. Any other begins afresh, with the card, the
findings so far and the artifacts of the phases before it. It also gets the text of the files that the plan names, as
far as they were read. Rules extract the findings from the transcript. Nothing else of an earlier conversation is handed
on.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import assert_never

from forgepool.workers.agents.briefing.card_sections import AIM, CardSection, TaskCard
from forgepool.workers.agents.briefing.hints import Hint, best, hintable_paths, hints_by_rule
from forgepool.workers.agents.briefing.model_hints import Guess, hints_by_model
from forgepool.workers.agents.briefing.references import match_reads, write_references
from forgepool.workers.agents.briefing.system_prompt import PromptForm, Skill, find_skill, system_blocks
from forgepool.workers.agents.briefing.task_card import (
    conventions,
    files_at_base,
    quote_text,
    task_card,
    write_priors,
    write_report,
    write_survey,
)
from forgepool.workers.agents.builtin.phases import EXECUTE, ConfirmedTest, Handed, facts
from forgepool.workers.agents.builtin.workflow import WorkflowPhase
from forgepool.workers.context.edits.masks import FILES_TITLE
from forgepool.workers.context.transcript.entries import Entry, PlanCommitted, Undone
from forgepool.workers.context.transcript.summary import BUDGET_CHARACTERS, excerpts, render_summary, summarise_entries
from forgepool.workers.context.transcript.usage import USUAL
from forgepool.workers.llm.routing.open import open_models
from forgepool.workers.llm.routing.table import Table
from forgepool.workers.schema.orders import BuiltinAgent, HintSettings, WorkOrder
from forgepool.workers.schema.reports import Report
from forgepool.workers.workspace.workspace import Workspace

_OVERFLOWED = (
    "Your conversation before this one grew too long and was ended. What you did to the files is still there: "
    "look at it (`git diff`), then go on from where it stopped."
)


def describe_move(root: Path, outputs: Path) -> str:
    """Return the message to a model whose conversation goes on in another process, perhaps on another host."""
    return (
        "[the harness] The process that led you was interrupted; another goes on from here. The files of the worktree "
        f"are as they were after your last turn. The worktree is {root} now, results and outputs are below "
        f"{outputs.parent}: those of tasks you need have the same names there, whole results of earlier steps that you "
        f"are told of are in {outputs}/steps, other outputs of earlier commands are gone, and nothing runs in the "
        "background any more."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """The window of the model that a conversation begins with."""

    window_tokens: int
    model: str
    fixed_characters: int
    """The length of the system prompt and the tools."""

    @property
    def files(self) -> int:
        """Characters for texts of files: a quarter of what an opening should have."""
        return min(BUDGET_CHARACTERS, int(self.window_tokens * USUAL * AIM / 4))

    def fit(self, card: TaskCard, *, beside: int) -> tuple[str, tuple[str, ...]]:
        """Raises CardTooLarge."""
        return card.fit(self.window_tokens, self.model, beside=self.fixed_characters + beside)


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """A conversation's first message."""

    parts: tuple[str, ...]
    shortened: tuple[str, ...] = ()
    """The names of sections that are told in short."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskWords:
    """The texts about one task from which the opening of one of its phases is made."""

    card: TaskCard
    survey: str = ""
    """The run's survey, the same text for all its tasks; empty without one. It is the first part of an opening."""
    phase: WorkflowPhase = EXECUTE
    skill: Skill | None = None
    form: PromptForm | None = None
    """The form of a phase in place of its kind's: for a report, a failing test, or a change without a plan."""
    red_first: bool = False
    root: str = ""
    """The worktree's folder, which is cut from paths that a model wrote in full."""
    tests: tuple[str, ...] = ()
    """The commands known to be tests."""

    @property
    def one_call(self) -> bool:
        """True for an agent that can look nothing up and is asked for an answer: one call gives it."""
        return self.form in ("answer", "report") and self.skill is not None and self.skill.context_mode == "injected"

    @property
    def _first(self) -> tuple[str, ...]:
        return (self.survey,) if self.survey else ()

    def system(self) -> tuple[str, ...]:
        turns = f"This phase has at most {self.phase.turns} turns." if self.phase.turns is not None else ""
        instructions = "\n\n".join(filter(None, (self.phase.instructions.strip(), turns)))
        form = self.form or self.phase.kind
        return system_blocks(form, red_first=self.red_first, skill=self.skill, instructions=instructions)

    def to_explore(self, hints: str, room: Room) -> Opening:
        """Return the first message of a first phase. `hints` is the section on files likely to matter, or empty."""
        card, shortened = room.fit(self.card, beside=len(hints) + len(self.survey))
        text = "\n\n".join(part for part in (card.rstrip("\n"), hints) if part) + "\n"
        return Opening(parts=(*self._first, text), shortened=shortened)

    def to_follow(
        self, entries: Sequence[Entry], changed: tuple[str, ...], current: Callable[[str], str | None], room: Room
    ) -> Opening:
        """
        Return a later phase's first message, in parts: the survey; the card; findings and artifacts; texts of files.
        Only the card is always there.

        `changed` has the paths that differ from the base; `current` returns a file's text as it is now, or None.
        """
        state = facts(entries)
        learned: list[str] = []
        texts = ""
        if entries:
            summary = summarise_entries(entries, root=self.root, tests=self.tests, changed=changed)
            learned = [f"## What was learned\n\n{render_summary(summary).rstrip()}"]
            learned += [_hand_on(name, made) for name, made in state.handed.items() if name != self.phase.name]
            # A plan made by the harness names no files: then all files that were read may matter.
            wanted = state.plan.files if state.plan and state.plan.files else [file.path for file in summary.files_read]
            texts = excerpts(entries, wanted, root=self.root, current=current, budget=room.files)
        if state.own.name == self.phase.name and state.own.overflows:
            learned.append(_OVERFLOWED)
        files = f"{FILES_TITLE}\n\n{texts}" if texts else ""
        card, shortened = room.fit(self.card, beside=len(files) + sum(map(len, learned)) + len(self.survey))
        parts = (card.rstrip("\n"), "\n\n".join(learned), files.rstrip("\n"))
        own = (f"{part}\n" for part in parts if part)
        return Opening(parts=(*self._first, *own), shortened=shortened)


def _hand_on(phase: str, made: Handed) -> str:
    """Return the section on an earlier phase's artifact."""
    match made:
        case PlanCommitted(plan=plan, files=paths):
            files = "\n".join(f"- {path}" for path in paths)
            named = f"\n\nFiles to modify:\n{files}" if files else ""
            return f"## The committed plan\n\n{plan.strip()}{named}"
        case Report():
            return f"## The report of phase '{phase}'\n\n{quote_text(write_report(made))}"
        case ConfirmedTest(command=command, output=output):
            said = f"The harness saw this command fail, and runs it again at the end:\n\n{quote_text(command)}"
            return f"## The failing test of phase '{phase}'\n\n{said}\n\nIt printed:\n\n{quote_text(output)}"
        case Undone(why=why):
            return f"## Phase '{phase}' was undone\n\nIts changes are not in the files: {why}"
        case str():
            return f"## The work of phase '{phase}', as its agent says\n\n{quote_text(made)}"
        case _:
            assert_never(made)


HINTS_ROUTE = "hints"
"""The route in the user's model table to a model that is asked for hints too."""


def brief_task(
    order: WorkOrder, workspace: Workspace, agent: BuiltinAgent, tmp: Path, phases: Sequence[WorkflowPhase]
) -> dict[str, TaskWords]:
    """
    Collect the texts about a task from the order, the repository and the plan, for each phase by its name.

    Raises:
        DocumentWrong: the skill it asks for does not exist, or its file is wrong.
    """
    git, base = workspace.mirror.git, workspace.base
    usual = agent.skill or ("lead" if order.lead else None)
    names = dict.fromkeys(phase.skill or usual for phase in phases)
    skills = {name: find_skill(name, git, base) if name else None for name in names}
    survey, since = write_survey(order, tmp, git)
    cards = {name: _card(order, skill, agent, workspace, tmp, since) for name, skill in skills.items()}
    return {
        phase.name: TaskWords(
            card=cards[phase.skill or usual],
            survey=survey,
            phase=phase,
            skill=skills[phase.skill or usual],
            form="lead" if order.lead else _form(phase, phases, named=agent.workflow is not None),
            red_first=agent.red_first and not order.answers,
            root=str(workspace.checkout.path),
            tests=order.acceptance,
        )
        for phase in phases
    }


def _form(phase: WorkflowPhase, phases: Sequence[WorkflowPhase], *, named: bool) -> PromptForm | None:
    """Return the form of a phase. A change of a `named` workflow is told of a plan only where one comes before it."""
    match phase.artifact:
        case "report":
            return "answer" if phase == phases[-1] else "report"
        case "failing-test":
            return "failing_test"
        case "change":
            planned = any(one.artifact == "plan" for one in phases[: phases.index(phase)])
            return None if planned or not named else "change"
        case "plan":
            return None


def _card(
    order: WorkOrder,
    skill: Skill | None,
    agent: BuiltinAgent,
    workspace: Workspace,
    tmp: Path,
    since: tuple[CardSection, ...],
) -> TaskCard:
    """Return the card of the phases with one skill. `since` tells what has changed since the survey."""
    git, base = workspace.mirror.git, workspace.base
    references = _references(order, skill, workspace)
    return task_card(
        order,
        mending=workspace.mending,
        conventions=conventions(git, base),
        priors=(*since, *write_priors([prior for prior in order.priors if not prior.surveyed], tmp, git)),
        context=write_references(git, base, references),
        files=_files(order, skill, agent, workspace, references),
    )


def find_hints(
    order: WorkOrder, workspace: Workspace, agent: BuiltinAgent, table: Table, *, stop: Callable[[], bool]
) -> Guess:
    """
    Propose files likely to matter: from the repository's past, and by a model that the agent or the table names.

    Raises:
        ModelFailed: the agent names a model that does not exist.
    """
    git, base, wanted = workspace.mirror.git, workspace.base, agent.wanted_hints
    by_rule = _predicted_hints(order, workspace, wanted)
    if HINTS_ROUTE not in table.routes and wanted.model is None:
        return Guess(hints=by_rule)
    capped = order.limits.cost_usd is not None
    chain = open_models(
        table,
        task_type=HINTS_ROUTE,
        phase="plan",
        model=wanted.model,
        capped=capped,
        closed=order.closed_accounts,
        run=order.run,
        settings=workspace.settings,
    )
    guess = hints_by_model(chain, order, git, base, wanted, stop=stop)
    return replace(guess, hints=best((*by_rule, *guess.hints), frozenset(hintable_paths(git, base)), wanted))


def _references(order: WorkOrder, skill: Skill | None, workspace: Workspace) -> tuple[str, ...]:
    """Return what the plan gives as context; to agents that do not look for themselves, what the task reads, too."""
    if skill is None or skill.context_mode == "autonomous":
        return order.references
    read = match_reads(order.reads, hintable_paths(workspace.mirror.git, workspace.base))
    return tuple(dict.fromkeys((*order.references, *read)))


def _predicted_hints(order: WorkOrder, workspace: Workspace, wanted: HintSettings) -> tuple[Hint, ...]:
    cache = workspace.settings.cache / "predictions"
    return hints_by_rule(order, workspace.mirror.git, workspace.base, wanted, cache=cache)


def _files(
    order: WorkOrder, skill: Skill | None, agent: BuiltinAgent, workspace: Workspace, given: Collection[str]
) -> tuple[CardSection, ...]:
    """Return the texts of files for an agent that cannot look for itself: files of the task, then likely ones."""
    if skill is None or skill.context_mode == "autonomous":
        return ()
    git, base = workspace.mirror.git, workspace.base
    there = frozenset(hintable_paths(git, base))
    hints = _predicted_hints(order, workspace, agent.wanted_hints) if agent.hints else ()
    paths = dict.fromkeys((*order.files, *(hint.path for hint in hints)))
    return files_at_base(git, base, [path for path in paths if path in there and path not in given])
