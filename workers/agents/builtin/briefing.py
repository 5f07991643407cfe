"""
What can be told of one task: the card with everything that git and the plan know of it, and hints at where to look.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from forgepool.workers.agents.briefing.hints.hint import best
from forgepool.workers.agents.briefing.hints.model import Guess, hints_by_model
from forgepool.workers.agents.briefing.hints.rules import hintable_paths, hints_by_rule
from forgepool.workers.agents.briefing.material import conventions, files_at_base
from forgepool.workers.agents.briefing.skills.library import find_skill
from forgepool.workers.agents.briefing.skills.role import Skill
from forgepool.workers.agents.briefing.task_card import task_card
from forgepool.workers.agents.builtin.prompts import TaskWords
from forgepool.workers.llm.routing.open import open_models
from forgepool.workers.llm.routing.table import Table
from forgepool.workers.schema.orders import BuiltinAgent, WorkOrder
from forgepool.workers.workspace.upstream import write_priors
from forgepool.workers.workspace.workspace import Workspace

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
