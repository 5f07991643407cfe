"""
What the model of a phase is told: the system's blocks, and the first thing that is said in its conversation.

PLAN hears the task card, with hints at where to look. EXECUTE begins afresh: the card again, word for word, what was
learned (by rules, from the transcript), the plan, and the text of the files it names as far as it was read. Nothing of
the conversation before is handed on but by these.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from forgepool.workers.agents.briefing.prompts.blocks import system_blocks
from forgepool.workers.agents.briefing.skills.role import Skill
from forgepool.workers.agents.builtin.phases import facts
from forgepool.workers.context.edits.masks import FILES_TITLE
from forgepool.workers.context.transcript.entries import Entry, PlanCommitted
from forgepool.workers.context.transcript.summary import excerpts, render_summary, summarise_entries
from forgepool.workers.schema.orders import PhaseName

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
