"""
The system prompt of a phase, as blocks, the most lasting first.
"""

from functools import cache
from importlib import resources

from forgepool.workers.agents.briefing.skills.role import Skill
from forgepool.workers.schema.orders import PhaseName


def system_blocks(phase: PhaseName, *, red_first: bool = False, skill: Skill | None = None) -> tuple[str, ...]:
    """
    What all tasks share; the phase's; the skill's. The same arguments give the same bytes.

    The first block is the same for any arguments.
    """
    own = (prompt(phase), prompt("red_first")) if red_first else (prompt(phase),)
    return (prompt("invariant"), "\n\n".join(own), *((skill.text,) if skill is not None else ()))


@cache
def prompt(name: str) -> str:
    """The text of `<name>.md`."""
    return (
        resources.files("forgepool.workers.agents.briefing.prompts")
        .joinpath(f"{name}.md")
        .read_text(encoding="utf-8")
        .strip()
    )
