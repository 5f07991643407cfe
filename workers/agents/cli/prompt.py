"""
What a program is told: how its work is taken, where the repository's rules are, and the task card.
"""

from pathlib import Path

from forgepool.workers.agents.briefing.task_card import task_card
from forgepool.workers.agents.contract import Assignment

_TOLD_FIRST = (
    "You work alone, in this folder, a git worktree; nobody answers questions. Change what the task below asks for and "
    "nothing else. Do not commit, stash, switch branches or push: what you leave in the files is taken as your work, "
    "and others commit it. Tests and linters are run on it afterwards; run them yourself first. When everything is "
    "done, end with a summary of what you changed."
)
_RULES = ("AGENTS.md", "CLAUDE.md", "CONTRIBUTING.md")


def write_prompt(assignment: Assignment, priors: str) -> Path:
    """In a file: a card may be longer than a command line can be, and a command line is seen by everybody."""
    parts = [_TOLD_FIRST]
    # The programs are kept from reading a repository's settings, and some of them read its rules only with these.
    parts += [f"The repository's rules are in {name}: read them first." for name in _rules(assignment.worktree)]
    prompt = assignment.tmp / "prompt.md"
    prompt.write_text(
        "\n\n".join([*parts, task_card(assignment.order, priors=priors)]), encoding="utf-8", errors="replace"
    )
    return prompt


def _rules(worktree: Path) -> list[str]:
    return [name for name in _RULES if (worktree / name).is_file()]
