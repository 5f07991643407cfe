"""
What the model of a phase is told: the system's blocks, and the first thing that is said in its conversation.

PLAN hears the task card, with hints at where to look. EXECUTE begins afresh: the card again, word for word, what was
learned (by rules, from the transcript), the plan, and the text of the files it names as far as it was read. Nothing of
the conversation before is handed on but by these.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from forgepool.workers.agents.briefing.hints import best, hintable_paths, hints_by_rule
from forgepool.workers.agents.briefing.model_hints import Guess, hints_by_model
from forgepool.workers.agents.briefing.system_prompt import Skill, find_skill, system_blocks
from forgepool.workers.agents.briefing.task_card import conventions, files_at_base, task_card, write_priors
from forgepool.workers.agents.builtin.phases import facts
from forgepool.workers.context.edits.masks import FILES_TITLE
from forgepool.workers.context.transcript.entries import Entry, PlanCommitted
from forgepool.workers.context.transcript.summary import excerpts, render_summary, summarise_entries
from forgepool.workers.llm.routing.open import open_models
from forgepool.workers.llm.routing.table import Table
from forgepool.workers.schema.orders import BuiltinAgent, PhaseName, WorkOrder
from forgepool.workers.workspace.workspace import Workspace

_OVERFLOWED = (
    "Your conversation before this one grew too long and was ended. What you did to the files is still there: "
    "look at it (`git diff`), then go on from where it stopped."
)


def describe_move(root: Path, outputs: Path) -> str:
    """What a model is told whose conversation goes on in another process, perhaps on another host."""
    return (
        "[the harness] The process that led you was interrupted; another goes on from here. The files of the worktree "
        f"are as they were after your last turn. The worktree is {root} now, results and outputs are below "
        f"{outputs.parent}: those of tasks you need have the same names there, whole results of earlier steps that you "
        f"are told of are in {outputs}/steps, other outputs of earlier commands are gone, and nothing runs in the "
        "background any more."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskWords:
    card: str
    """The task, word for word."""
    skill: Skill | None = None
    red_first: bool = False
    root: str = ""
    """The worktree's folder, for paths that a model wrote in full."""
    tests: tuple[str, ...] = ()
    """Commands known to be tests."""

    def system(self, phase: PhaseName) -> tuple[str, ...]:
        return system_blocks(phase, red_first=self.red_first, skill=self.skill)

    def to_plan(self, hints: str) -> str:
        """`hints`: the section on files likely to matter; empty where there are none."""
        return "\n\n".join(part for part in (self.card.rstrip("\n"), hints) if part) + "\n"

    def to_execute(
        self, entries: Sequence[Entry], changed: tuple[str, ...], current: Callable[[str], str | None]
    ) -> tuple[str, ...]:
        """
        The card; what was learned, and the plan; the texts of files. The last two where there are any.

        `changed`: paths that are not as the base has them; `current` has a file's text as it is now, or None.
        """
        found = facts(entries)
        learned: list[str] = []
        texts = ""
        if entries:
            summary = summarise_entries(entries, root=self.root, tests=self.tests, changed=changed)
            learned = [f"## What was learned\n\n{render_summary(summary).rstrip()}"]
            learned += [_plan(found.plan)] if found.plan else []
            # A plan made up by the harness names no files: then all that was read may matter.
            wanted = found.plan.files if found.plan and found.plan.files else [one.path for one in summary.files_read]
            texts = self._texts(entries, wanted, current)
        if found.overflows:
            learned.append(_OVERFLOWED)
        parts = (self.card.rstrip("\n"), "\n\n".join(learned), texts.rstrip("\n"))
        return tuple(f"{part}\n" for part in parts if part)

    def _texts(self, entries: Sequence[Entry], paths: Sequence[str], current: Callable[[str], str | None]) -> str:
        texts = excerpts(entries, paths, root=self.root, current=current)
        return f"{FILES_TITLE}\n\n{texts}" if texts else ""


def _plan(plan: PlanCommitted) -> str:
    files = "\n".join(f"- {path}" for path in plan.files)
    named = f"\n\nFiles to modify:\n{files}" if files else ""
    return f"## The committed plan\n\n{plan.plan.strip()}{named}"


HINTS_ROUTE = "hints"
"""A kind of work whose model, where the user's table has a route for it, is asked for hints besides the rules."""


def brief_task(order: WorkOrder, bench: Workspace, agent: BuiltinAgent, tmp: Path) -> TaskWords:
    """
    Raises:
        DocumentWrong: the skill it asks for is none, or is written wrongly.
    """
    git, base = bench.mirror.git, bench.base
    skill = find_skill(agent.skill, git, base) if agent.skill else None
    card = task_card(
        order,
        conventions=conventions(git, base),
        priors=write_priors(order.priors, tmp, git),
        files=_files(order, skill, bench),
    )
    return TaskWords(
        card=card,
        skill=skill,
        red_first=agent.red_first,
        root=str(bench.checkout.path),
        tests=order.acceptance,
    )


def find_hints(order: WorkOrder, bench: Workspace, table: Table, *, stop: Callable[[], bool]) -> Guess:
    """Files likely to matter, by rules, and by a model where the table has one for it; with what asking it took."""
    git, base = bench.mirror.git, bench.base
    found = hints_by_rule(order, git, base)
    if HINTS_ROUTE not in table.routes:
        return Guess(hints=found)
    capped = order.limits.cost_usd is not None
    chain = open_models(table, task_type=HINTS_ROUTE, phase="plan", capped=capped, settings=bench.settings)
    guess = hints_by_model(chain, order, git, base, stop=stop)
    there = frozenset(hintable_paths(git, base))
    return replace(guess, hints=best((*found, *guess.hints), there))


def _files(order: WorkOrder, skill: Skill | None, bench: Workspace) -> str:
    """For who cannot look for himself: what the task names, then what seems likely."""
    if skill is None or skill.context_mode == "autonomous":
        return ""
    git, base = bench.mirror.git, bench.base
    there = frozenset(hintable_paths(git, base))
    paths = dict.fromkeys((*order.files, *(hint.path for hint in hints_by_rule(order, git, base))))
    return files_at_base(git, base, [path for path in paths if path in there])
