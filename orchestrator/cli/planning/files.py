"""The files of a compiled plan: the plan itself, and beside it the reasons for it."""

import difflib
import json
import os
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from forgepool.orchestrator.cli.output.say import printable
from forgepool.orchestrator.cli.planning.compiler import Compilation
from forgepool.orchestrator.cli.planning.critic import Criticism
from forgepool.orchestrator.cli.planning.draft import PlanDraft, with_budget
from forgepool.orchestrator.cli.planning.goal import Goal
from forgepool.orchestrator.plan.validation.goal import render_requirements
from forgepool.orchestrator.reports.costs import usd_words
from forgepool.workers.schema.mistakes import Mistake
from forgepool.worktrees.errors import UserError

_WIDTH = 100
_LEADING = "Collect their results, dispatch more only for what they leave open, and end with a synthesis."


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFiles:
    """The text of a plan file and of the reasons beside it."""

    plan: str
    why: str
    warnings: list[str]
    """The warnings that remain, with the lines of this file."""

    def write(self, path: Path) -> Path:
        """Write the plan there and the reasons beside it; return the latter's path. Raises UserError."""
        why = path.with_suffix(".why.md")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self.plan, encoding="utf-8")
            why.write_text(self.why, encoding="utf-8")
        except OSError as trouble:
            raise UserError(f"{path} cannot be written: {trouble.strerror}; name another file") from trouble
        return why

    def differences(self, path: Path) -> list[str]:
        """Return the lines of a diff from the file to this plan; none where the file has the same text."""
        try:
            before = path.read_text(encoding="utf-8", errors="replace")
        except OSError as trouble:
            raise UserError(f"{path} cannot be read: {trouble.strerror}; name another file") from trouble
        lines = difflib.unified_diff(
            before.splitlines(), self.plan.splitlines(), str(path), "the new plan", lineterm=""
        )
        return list(lines)


def refuse_unwritable(output: Path | None) -> None:
    """Raises UserError: no file can be written there."""
    if output is None:
        return
    if output.is_dir():
        raise UserError(f"{output} is a folder; name a file in it, such as {output / 'plan.yaml'}")
    there = next(one for one in (output, *output.absolute().parents) if one.exists())
    if not os.access(there, os.W_OK) or (there != output and not there.is_dir()):
        why = "may not be written" if there == output or there.is_dir() else "is no folder"
        raise UserError(f"{output} cannot be written, because {there} {why}; name another file")


_FIRST = re.compile(r"^tasks:[ \t]*(?:#.*)?\n(?:[ \t]*(?:#.*)?\n)*(?P<pad>[ \t]*)- ", re.MULTILINE)
"""The beginning of the list of tasks, in block style."""


def with_lead(draft: PlanDraft, goal: Goal, name: str) -> PlanDraft | None:
    """Return the draft with a further first task, which leads; None where its list of tasks is not in block style."""
    text, found = draft.text, _FIRST.search(draft.text)
    if found is None:
        return None
    demands = "\n".join(f"{one}: {demand}" for one, demand in goal.requirements.items())
    told = f"{goal.words}\n\n{demands}\n\nThe plan's other tasks are dispatched already. {_LEADING}"
    keys = (
        f"- id: {name}",
        f"  title: {json.dumps(_plain(f'Lead: {goal.title}'), ensure_ascii=False)}",
        f"  description: {json.dumps(told, ensure_ascii=False)}",
        "  leads: true",
        "  agent: {builtin: {}}",
    )
    at = found.start("pad")
    before = text[:at].count("\n")
    faults = tuple(Mistake(line + len(keys) if line > before else line, wrong) for line, wrong in draft.faults)
    return replace(draft, text=text[:at] + "".join(f"{found['pad']}{key}\n" for key in keys) + text[at:], faults=faults)


def render(
    goal: Goal, compiled: Compilation, draft: PlanDraft, *, base: str, forecast: str, left_usd: float | None
) -> PlanFiles:
    head = [f"# {line}\n" for line in _head(goal, compiled, base, forecast)]
    warnings = draft.warnings(after=len(head))
    why = _why(goal, compiled, draft, warnings)
    return PlanFiles(plan="".join(head) + with_budget(draft.text, left_usd), why=why, warnings=warnings)


def _head(goal: Goal, compiled: Compilation, base: str, forecast: str) -> Iterator[str]:
    title = goal.title if len(goal.title) <= _WIDTH else f"{goal.title[: _WIDTH - 3]}..."
    yield f"Goal: {_plain(title)}"
    models = ", ".join(compiled.models)
    yield f"Planned {time.strftime('%Y-%m-%d %H:%M')} on {base} by {models}, which cost {_cost(compiled)}."
    yield _plain(f"Forecast: {forecast}")
    yield "The reasons are in the file beside this one that ends in .why.md."


def _cost(compiled: Compilation) -> str:
    cost = compiled.spent.cost_usd
    return "an unknown amount" if cost is None else f"{usd_words(cost)} USD"


def _why(goal: Goal, compiled: Compilation, draft: PlanDraft, warnings: Sequence[str]) -> str:
    parts = [f"# Why this plan\n\n{goal.words}", "## Requirements"]
    parts.append(render_requirements(goal.requirements_met(draft.covers)).rstrip())
    parts += ["## The planner's reasons", draft.why.strip()]
    if warnings:
        parts += ["## Warnings that remain", "\n".join(f"- {warning}" for warning in warnings)]
    if (heard := compiled.criticism) is not None:
        parts += ["## The critic", _criticism(heard)]
    # Models wrote most of it, and people print such files on terminals.
    return "\n".join(map(printable, "\n\n".join(parts).split("\n"))) + "\n"


def _criticism(heard: Criticism) -> str:
    if heard.silence:
        return f"None was heard: {heard.silence}."
    if not heard.objections:
        return f"{', '.join(heard.models)} had no objection."
    said = "\n".join(f"- {one}" for one in heard.objections)
    return f"{', '.join(heard.models)} objected to the plan before this one, or to this one:\n\n{said}"


def _plain(text: str) -> str:
    """Make a text safe within a comment of one line."""
    return "".join(each if each.isprintable() else " " for each in text)
