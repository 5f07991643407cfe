"""
Judges a planner's draft: the reader's mistakes, keys that only a person writes, and the faults of its validation.

A planner cannot widen what its own plan may do. The keys by which less is demanded of a change, or by which work goes
elsewhere, are a person's; only `grants` is left to it, and a plan with grants is never run without a person's answer.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from forgepool.orchestrator.cli.planning.faults import find_faults
from forgepool.orchestrator.cli.planning.goal import Goal
from forgepool.orchestrator.cli.run.check import find_problems
from forgepool.orchestrator.plan.document import Plan, parse_plan
from forgepool.orchestrator.plan.fan_out import TaskFields
from forgepool.orchestrator.plan.validation.facts import PlanLimits
from forgepool.orchestrator.plan.validation.goal import render_requirements
from forgepool.orchestrator.plan.validation.lines import PlanLines
from forgepool.orchestrator.run.hub import CannotRun, Hub, read_plan
from forgepool.workers.schema.documents import Located
from forgepool.workers.schema.mistakes import DocumentWrong, Mistake, Where
from forgepool.workers.schema.settings import Settings
from forgepool.worktrees.commits.changes import tree_paths
from forgepool.worktrees.git.git import CommitId

NAME = "plan.yaml"
"""The name of a draft in sentences about it."""
DRAFTS = "draft-*.yaml"
"""The files of the drafts in the folder of a planning."""
_OF_PLAN = ("target", "review", "budget", "assets", "landing", "survey")
_OF_TASKS = ("waive", "review", "policy", "network", "unattended", "unchanged", "env")
_OF_CHECKS = ("waive", "network", "baseline", "traced")
_AGENTS = ("cli", "acp", "scripted")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanDraft:
    """A plan as the planner wrote it, and the verdict on it."""

    text: str
    covers: Mapping[str, tuple[str, ...]]
    """The tasks that fulfil each requirement, by the planner's word."""
    why: str
    plan: Plan | None = None
    """None where it cannot be read."""
    errors: tuple[str, ...] = ()
    faults: tuple[Mistake, ...] = ()
    """The warnings of the validation."""

    def warnings(self, *, after: int = 0) -> list[str]:
        """Return the warnings as sentences, with the lines that they have after so many others."""
        return [_sentence(line + after if line else 0, wrong) for line, wrong in self.faults]


@dataclass(slots=True, kw_only=True)
class DraftJudge:
    """Judges drafts for one goal on one base."""

    goal: Goal
    hub: Hub
    base: str | None
    """The base that a person named."""
    settings: Settings
    folder: Path
    limits: PlanLimits
    stop: Callable[[], bool]
    _number: int = field(default=0)

    def judge(self, text: str, covers: Mapping[str, tuple[str, ...]], why: str) -> PlanDraft:
        """Keep a draft in the folder, and judge it. Once its form is right, its acceptance commands run on the base."""
        self._number += 1
        path = self.folder / f"draft-{self._number}.yaml"
        text = f"{text.strip()}\n"
        path.write_text(text, encoding="utf-8", errors="replace")
        draft = PlanDraft(text=text, covers=covers, why=why)
        if text.startswith("{"):
            return replace(draft, errors=(f"{NAME}:1: the plan is written as JSON; write it in YAML's block style",))
        try:
            plan = read_plan(path, self.hub, name=NAME)
        except DocumentWrong as wrong:
            return replace(draft, errors=tuple(str(wrong).splitlines()))
        except CannotRun as wrong:
            return replace(draft, errors=(str(wrong),))
        return self._validate(replace(draft, plan=plan), plan, path)

    def _validate(self, draft: PlanDraft, plan: Plan, path: Path) -> PlanDraft:
        tip = self.hub.tip_for(plan)
        self.hub.mirror.ensure(tip)
        lines = PlanLines.of(draft.text, NAME, lambda: tree_paths(self.hub.mirror.git, tip))
        covers = _without_groups(draft.covers, lines)
        errors = [_sentence(line, wrong) for line, wrong in self._liberties(lines, plan)]
        errors += find_problems(plan, self.hub, self.settings, path.parent)
        errors += self._unextendable(draft.text, tip) if not errors else ()
        if errors:
            # The acceptance commands are not run for a plan that takes more than it may.
            return replace(draft, errors=tuple(errors))
        path.with_suffix(".why.md").write_text(
            render_requirements(self.goal.requirements_met(covers)), encoding="utf-8"
        )
        faults = find_faults(plan, path, self.hub, self.settings, limits=self.limits, stop=self.stop)
        known = self.goal.requirements
        strange = (f"'covers' names {one}, which is no requirement" for one in covers if one not in known)
        found = (_sentence(fault.line, fault.sentence) for fault in faults if fault.level == "error")
        warned = (Mistake(fault.line, fault.sentence) for fault in faults if fault.level == "warning")
        return replace(draft, covers=covers, errors=(*strange, *found), faults=tuple(warned))

    def _unextendable(self, text: str, tip: CommitId) -> tuple[str, ...]:
        """Return the mistakes of the text with a budget behind it, as the plan is written in the end."""
        try:
            parse_plan(with_budget(text, 1.0), NAME, self.folder, lambda: tree_paths(self.hub.mirror.git, tip))
        except DocumentWrong as wrong:
            more = "the plan cannot be continued by a line; write plain block style that begins at the left margin"
            return (f"{NAME}: {more}", *str(wrong).splitlines())
        return ()

    def _liberties(self, lines: PlanLines, plan: Plan) -> Iterator[Mistake]:
        """Yield the keys that are a person's, and a name or base that is not the plan's to choose."""
        assert lines.reading is not None
        document, source = lines.reading.document, lines.reading.source
        yield from (_persons(document, (key,)) for key in _OF_PLAN if key in source.model_fields_set)
        if source.checks == "none":
            yield Mistake(document.line(("checks",)), "'checks: none' is a person's to write; name a check")
        for check in plan.checks if isinstance(plan.checks, tuple) else ():
            for key in (*(key for key in _OF_CHECKS if getattr(check, key)), *(() if check.voting else ("voting",))):
                yield Mistake(document.line(("checks",)), f"'{key}' of check '{check.name}' is a person's to write")
        places: list[tuple[Where, TaskFields]] = [(("defaults",), source.defaults)]
        places += [(("tasks", at), entry) for at, entry in enumerate(source.tasks)]
        for where, fields in places:
            yield from (_persons(document, (*where, key)) for key in _OF_TASKS if key in fields.model_fields_set)
            if fields.agent is not None and (kind := next(iter(fields.agent.model_fields_set))) in _AGENTS:
                line = document.line((*where, "agent"))
                yield Mistake(line, f"'agent: {kind}' is a person's to choose; write 'builtin: {{}}' or a 'command'")
        for at, entry in enumerate(source.tasks):
            if entry.leads is not None:
                yield _persons(document, ("tasks", at, "leads"))
        if source.base != self.base:
            right = "leave it out" if self.base is None else f"write 'base: {self.base}'"
            yield Mistake(document.line(("base",)), f"'base' is not the commit that was planned on; {right}")
        if plan.target in self.hub.heads:
            line = document.line(("name",))
            yield Mistake(line, f"'name' is '{plan.name}', and the branch {plan.target} exists; choose another name")


def with_budget(text: str, left_usd: float | None) -> str:
    """Return a plan's text, with a budget of what planning has left of the person's."""
    return text if left_usd is None else f"{text}budget: {{usd: {left_usd:.4f}}}\n"


def _without_groups(covers: Mapping[str, Sequence[str]], lines: PlanLines) -> dict[str, tuple[str, ...]]:
    """Put the tasks of a `for_each` in the place of its entry's id or group."""
    assert lines.reading is not None
    members: dict[str, list[str]] = {}
    for task, index in lines.places.items():
        entry = lines.reading.source.tasks[index]
        members.setdefault(entry.group_name or entry.id, []).append(task)
    return {
        one: tuple(dict.fromkeys(task for name in tasks for task in members.get(name, [name])))
        for one, tasks in covers.items()
    }


def _sentence(line: int, wrong: str) -> str:
    return f"{NAME}:{line}: {wrong}" if line else f"{NAME}: {wrong}"


def _persons(document: Located, where: Where) -> Mistake:
    return Mistake(document.line(where), f"'{where[-1]}' is a key that only a person writes; leave it out")
