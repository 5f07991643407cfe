"""
The opening of a phase's conversation: the system prompt and the first message.

PLAN gets the task card, with hints where to look. EXECUTE begins afresh, with the card, the findings so far and the
plan. It also gets the text of the files that the plan names, as far as they were read. Rules extract the findings from
the transcript. Nothing else of the earlier conversation is handed on.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from forgepool.workers.agents.briefing.card_sections import AIM, CardSection, TaskCard
from forgepool.workers.agents.briefing.hints import Hint, best, hintable_paths, hints_by_rule
from forgepool.workers.agents.briefing.model_hints import Guess, hints_by_model
from forgepool.workers.agents.briefing.references import match_reads, write_references
from forgepool.workers.agents.briefing.system_prompt import Skill, find_skill, system_blocks
from forgepool.workers.agents.briefing.task_card import (
    conventions,
    files_at_base,
    task_card,
    write_priors,
    write_survey,
)
from forgepool.workers.agents.builtin.phases import facts
from forgepool.workers.context.edits.masks import FILES_TITLE
from forgepool.workers.context.transcript.entries import Entry, PlanCommitted
from forgepool.workers.context.transcript.summary import BUDGET_CHARACTERS, excerpts, render_summary, summarise_entries
from forgepool.workers.context.transcript.usage import USUAL
from forgepool.workers.llm.routing.open import open_models
from forgepool.workers.llm.routing.table import Table
from forgepool.workers.schema.orders import BuiltinAgent, HintSettings, PhaseName, WorkOrder
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
    """The texts about one task from which the openings are made."""

    card: TaskCard
    survey: str = ""
    """The run's survey, the same text for all its tasks; empty without one. It is the first part of an opening."""
    skill: Skill | None = None
    form: Literal["", "answer", "lead"] = ""
    """The form of a task that ends with a report, in place of its phase."""
    red_first: bool = False
    root: str = ""
    """The worktree's folder, which is cut from paths that a model wrote in full."""
    tests: tuple[str, ...] = ()
    """The commands known to be tests."""

    @property
    def one_call(self) -> bool:
        """True for an agent that can look nothing up and is asked for an answer: one call gives it."""
        return self.form == "answer" and self.skill is not None and self.skill.context_mode == "injected"

    @property
    def _first(self) -> tuple[str, ...]:
        return (self.survey,) if self.survey else ()

    def system(self, phase: PhaseName) -> tuple[str, ...]:
        return system_blocks(self.form or phase, red_first=self.red_first, skill=self.skill)

    def to_plan(self, hints: str, room: Room) -> Opening:
        """Return PLAN's first message. `hints` is the section on files likely to matter, or empty."""
        card, shortened = room.fit(self.card, beside=len(hints) + len(self.survey))
        text = "\n\n".join(part for part in (card.rstrip("\n"), hints) if part) + "\n"
        return Opening(parts=(*self._first, text), shortened=shortened)

    def to_execute(
        self, entries: Sequence[Entry], changed: tuple[str, ...], current: Callable[[str], str | None], room: Room
    ) -> Opening:
        """
        Return EXECUTE's first message, in parts: the survey, if any; the card; findings and plan, if any; texts of
        files, if any.

        `changed` has the paths that differ from the base; `current` returns a file's text as it is now, or None.
        """
        state = facts(entries)
        learned: list[str] = []
        texts = ""
        if entries:
            summary = summarise_entries(entries, root=self.root, tests=self.tests, changed=changed)
            learned = [f"## What was learned\n\n{render_summary(summary).rstrip()}"]
            learned += [_plan(state.plan)] if state.plan else []
            # A plan made by the harness names no files: then all files that were read may matter.
            wanted = state.plan.files if state.plan and state.plan.files else [file.path for file in summary.files_read]
            texts = excerpts(entries, wanted, root=self.root, current=current, budget=room.files)
        if state.overflows:
            learned.append(_OVERFLOWED)
        files = f"{FILES_TITLE}\n\n{texts}" if texts else ""
        card, shortened = room.fit(self.card, beside=len(files) + sum(map(len, learned)) + len(self.survey))
        parts = (card.rstrip("\n"), "\n\n".join(learned), files.rstrip("\n"))
        own = (f"{part}\n" for part in parts if part)
        return Opening(parts=(*self._first, *own), shortened=shortened)


def _plan(plan: PlanCommitted) -> str:
    files = "\n".join(f"- {path}" for path in plan.files)
    named = f"\n\nFiles to modify:\n{files}" if files else ""
    return f"## The committed plan\n\n{plan.plan.strip()}{named}"


HINTS_ROUTE = "hints"
"""The route in the user's model table to a model that is asked for hints too."""


def brief_task(order: WorkOrder, workspace: Workspace, agent: BuiltinAgent, tmp: Path) -> TaskWords:
    """
    Collect the texts about a task from the order, the repository and the plan.

    Raises:
        DocumentWrong: the skill it asks for does not exist, or its file is wrong.
    """
    git, base = workspace.mirror.git, workspace.base
    name = agent.skill or ("lead" if order.lead else None)
    skill = find_skill(name, git, base) if name else None
    references = _references(order, skill, workspace)
    survey, since = write_survey(order, tmp, git)
    priors = [prior for prior in order.priors if not prior.surveyed]
    card = task_card(
        order,
        conventions=conventions(git, base),
        priors=(*since, *write_priors(priors, tmp, git)),
        context=write_references(git, base, references),
        files=_files(order, skill, agent, workspace, references),
    )
    return TaskWords(
        card=card,
        survey=survey,
        skill=skill,
        form="lead" if order.lead else "answer" if order.answers else "",
        red_first=agent.red_first and not order.answers,
        root=str(workspace.checkout.path),
        tests=order.acceptance,
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
        table, task_type=HINTS_ROUTE, phase="plan", model=wanted.model, capped=capped, settings=workspace.settings
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
