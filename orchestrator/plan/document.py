"""
The plan file: what a person wrote, read into a `Plan` in which nothing is left to default, merge or fan out.

Every mistake is one sentence with file and line. Which tasks may start when is decided in `readiness`.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from forgepool.orchestrator.plan.entries import (
    PlanPolicy,
    PlanReading,
    PlanReview,
    PlanSource,
    WrittenTask,
    check_groups,
    check_hosts,
    check_ids,
    check_policies,
    check_silences,
    fan_out_entries,
    gate_of,
    review_of,
    script_in,
)
from forgepool.orchestrator.plan.fan_out import BuiltinEntry, TaskEntry
from forgepool.orchestrator.plan.graph import check_cycles, needs_of_all
from forgepool.orchestrator.plan.overlap import BadGlob, parse
from forgepool.supervisor.gate_file.document import CheckDefinition, definitions
from forgepool.supervisor.gate_file.reading import check_mistakes
from forgepool.workers.schema.documents import Located, read, read_text, validate
from forgepool.workers.schema.mistakes import DocumentWrong, Duration, Mistake, Slug
from forgepool.workers.schema.orders import (
    AgentSpec,
    BuiltinAgent,
    CliAgent,
    CommandAgent,
    Limits,
    Message,
    PhaseName,
    ScriptedAgent,
    Unattended,
)
from forgepool.workers.schema.policy_rules import RuleEntry
from forgepool.workers.workspace.assets import MOST_BYTES, MOST_FILES, Asset, assets_in

PlanWrong = DocumentWrong

_NO_BRANCH = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|//|@\{|^[-/]|[/.]$|^@$|^HEAD$|(^|/)\.|\.lock(/|$)")


class TaskNeed(Message):
    """A task that must have landed before; `full` hands its whole output on instead of a summary."""

    id: str
    full: bool = False


class Task(Message):
    """One unit of work, complete."""

    id: Slug
    title: str = Field(default_factory=lambda given: str(given.get("id", "")))
    description: str = ""
    type: str = "code"
    needs: tuple[TaskNeed, ...] = ()
    files: tuple[str, ...] | None = None
    """Globs it may write; None is undeclared."""
    reads: tuple[str, ...] = ()
    acceptance: tuple[str, ...] = ()
    agent: AgentSpec
    priority: int = 0
    attempts: int = Field(default=2, ge=1, le=10)
    unchanged: Literal["ok", "fail"] = "fail"
    """`ok`: an attempt that changes nothing has done the task."""
    limits: Limits = Limits()
    env: dict[str, str] = Field(default_factory=dict)
    policy: tuple[RuleEntry, ...] = ()
    unattended: Unattended = "deny"
    network: tuple[str, ...] = ()
    grants: tuple[str, ...] = ()
    """Globs of protected paths and tests that it may change."""
    waive: tuple[str, ...] = ()
    """Rules of the gate's scans that do not hold for it."""
    review: Literal["none"] | None = None
    """None: as the plan has it."""
    duration_s: Duration | None = None
    """How long its author thinks it takes; only the order of tasks follows from it."""


class Plan(PlanPolicy):
    """Tasks to be done on a target branch, and what must be green there."""

    target: str = Field(default_factory=lambda given: f"forgepool/{given.get('name', '')}")
    checks: tuple[CheckDefinition, ...] | Literal["none"] | None = None
    """None: the plan is silent, and the target's own `forgepool.yaml` must speak."""
    review: PlanReview | Literal["none"] | None = None
    """None: the candidates of models are reviewed by whom the reviewing host has for it."""
    assets: tuple[Asset, ...] = ()
    """Files beside the plan file that its tasks are given, folders expanded."""
    tasks: tuple[Task, ...]


def load_plan(path: Path, *, files: Callable[[], Sequence[str]]) -> Plan:
    """
    The plan in a file. `files` gives the paths of the repository's tree; asked only if there is a `for_each`.

    Raises:
        PlanWrong: with every mistake found, or because the file cannot be read.
    """
    return parse_plan(read_text(path, str(path)), str(path), path.parent, files)


def parse_plan(text: str, name: str, folder: Path, files: Callable[[], Sequence[str]]) -> Plan:
    """
    The plan in a text. Files it names (scripts) are looked for in `folder`.

    The form is checked first; what entries mean to one another only when the form is right.

    Raises:
        PlanWrong: with every mistake found.
    """
    document = read(text, name)
    source = validate(document, PlanSource)
    reading = PlanReading(document=document, source=source, wrong=[])
    reading.wrong.extend(_about_plan(document, source))
    written = fan_out_entries(reading, files)
    check_ids(reading, written)
    check_groups(reading, written)
    _check_globs(reading, written)
    check_policies(reading)
    check_hosts(reading, written)
    check_silences(reading)
    review, gate = review_of(reading, folder), gate_of(reading)
    assets = _assets(reading, folder)
    agents = _agents(reading, written, folder)
    needs = needs_of_all(reading, written)
    check_cycles(reading, written, needs)
    if reading.wrong:
        raise PlanWrong(name, reading.wrong)
    tasks = tuple(_task(each.entry, agents[each.entry.id], needs[each.entry.id]) for each in written)
    policy = {name: getattr(source, name) for name in PlanPolicy.model_fields} | {"gate": gate}
    target = {"target": source.target} if source.target else {}
    checks = source.checks if source.checks is None or source.checks == "none" else definitions(source.checks)
    return Plan(**policy, **target, checks=checks, review=review, assets=assets, tasks=tasks)


def plan_digest(plan: Plan) -> str:
    """SHA-256 of the expanded plan: equal for equal plans, however they were written."""
    canonical = json.dumps(plan.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def dump_plan(plan: Plan) -> str:
    """The expanded plan as JSON, for `read_expanded`."""
    return plan.model_dump_json(indent=1)


def read_expanded(text: str) -> Plan:
    """
    The plan that `dump_plan` wrote.

    Raises:
        PlanWrong: the text is not an expanded plan.
    """
    try:
        return Plan.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise PlanWrong("expanded plan", [Mistake(0, f"is damaged at '{place}': {first['msg']}")]) from error


def _about_plan(document: Located, source: PlanSource) -> Iterator[Mistake]:
    """What is wrong with the plan as a whole."""
    if not source.tasks:
        yield Mistake(document.line(("tasks",)), "'tasks' is empty; write at least one task")
    if source.checks is not None and source.checks != "none":
        yield from check_mistakes(document, source.checks)
    target = source.target
    if target is None and source.base == f"forgepool/{source.name}":
        yield Mistake(
            document.line(("base",)),
            f"'base' would be the target, too; write 'target: {source.base}' if that is meant",
        )
    if source.base is not None and source.base != "HEAD" and _NO_BRANCH.search(source.base):
        sentence = f"'base' is '{source.base}'; it must be a branch, a tag or a commit"
        yield Mistake(document.line(("base",)), sentence)
    if target is not None and (_NO_BRANCH.search(target) or not target):
        yield Mistake(
            document.line(("target",)),
            f"'target' is '{target}', which git takes for no branch; 'forgepool/{source.name}' would be one",
        )
    if target is not None and target.startswith("refs/"):
        short = target.removeprefix("refs/heads/")
        yield Mistake(document.line(("target",)), f"'target' must be a branch's short name, such as '{short}'")


def _check_globs(reading: PlanReading, written: Iterable[WrittenTask]) -> None:
    for each in written:
        entry = each.entry
        for key, globs in (("files", entry.files or ()), ("reads", entry.reads), ("grants", entry.grants)):
            for at, glob in enumerate(globs):
                if wrong := _glob_wrong(glob):
                    reading.refuse(each.index, (key, at), f"'{key}' of task '{entry.id}' has the {wrong}")


@lru_cache(maxsize=65536)
def _glob_wrong(glob: str) -> str | None:
    if glob.startswith("/"):
        return f"glob '{glob}': it begins at the root of the disk; write it relative to the repository's root"
    try:
        parse(glob)
    except BadGlob as error:
        return str(error)
    return None


def _agents(reading: PlanReading, written: Iterable[WrittenTask], folder: Path) -> dict[str, AgentSpec]:
    """Each task's agent, scripts read from their files, each file once."""
    found: dict[str, AgentSpec] = {}
    scripts: dict[str, str | DocumentWrong] = {}
    for each in written:
        agent = each.entry.agent
        if agent is None:
            sentence = f"task '{each.entry.id}' has no agent; write 'agent: {{builtin: {{}}}}' there or in 'defaults'"
            reading.refuse(each.index, (), sentence)
        elif agent.builtin is not None:
            found[each.entry.id] = _builtin(agent.builtin, each.entry)
        elif agent.cli is not None:
            found[each.entry.id] = CliAgent(program=agent.cli.program, model=agent.cli.model)
        elif agent.command is not None:
            found[each.entry.id] = CommandAgent(run=agent.command)
        elif agent.scripted is not None:
            if agent.scripted not in scripts:
                scripts[agent.scripted] = script_in(folder, agent.scripted)
            match scripts[agent.scripted]:
                case DocumentWrong() as wrong:
                    sentence = f"task '{each.entry.id}' has a script that cannot be used: {wrong}"
                    reading.refuse(each.index, ("agent", "scripted"), sentence)
                case script:
                    found[each.entry.id] = ScriptedAgent(script=script)
    return found


def _assets(reading: PlanReading, folder: Path) -> tuple[Asset, ...]:
    """The files that the plan carries, each once; what cannot be carried is a mistake at its line."""
    found: dict[str, Asset] = {}
    line = reading.document.line(("assets",))
    for at, path in enumerate(reading.source.assets):
        try:
            found |= {asset.path: asset for asset in assets_in(folder, path)}
        except (OSError, ValueError) as wrong:
            said = wrong.strerror if isinstance(wrong, OSError) else wrong
            reading.wrong.append(Mistake(reading.document.line(("assets", at)), f"'assets' has {path}, which {said}"))
    if len(found) > MOST_FILES:
        reading.wrong.append(Mistake(line, f"'assets' has more than {MOST_FILES:,} files; name those that are needed"))
    if sum((folder / path).stat().st_size for path in found) > MOST_BYTES:
        most = f"{MOST_BYTES // 1_000_000} MB"
        reading.wrong.append(Mistake(line, f"'assets' has more than {most}; commit what is large, or fetch it"))
    return tuple(found.values())


def _builtin(written: BuiltinEntry, task: TaskEntry) -> BuiltinAgent:
    chosen: dict[PhaseName, str | None] = {"plan": written.models.plan, "execute": written.models.execute}
    return BuiltinAgent(
        model=written.model,
        models={phase: model for phase, model in chosen.items() if model is not None},
        red_first=written.red_first,
        hints=written.hints and not task.disable_file_hints,
        skill=written.skill,
        context=written.context,
    )


def _one_line(title: str) -> str:
    """Titles become subjects of commits and are shown on terminals; file names get into them."""
    return "".join(each if each.isprintable() else "?" for each in " ".join(title.split()))


def _task(entry: TaskEntry, agent: AgentSpec, needs: Mapping[str, bool]) -> Task:
    by_command = isinstance(agent, CommandAgent)
    return Task(
        id=entry.id,
        title=_one_line(entry.title or "") or entry.id,
        description=entry.description,
        type=entry.type,
        needs=tuple(TaskNeed(id=each, full=full) for each, full in needs.items()),
        files=entry.files,
        reads=entry.reads,
        acceptance=entry.acceptance,
        agent=agent,
        priority=entry.priority,
        # A command makes the same of the same tree a second time, and may find its work done.
        attempts=entry.attempts or (1 if by_command else 2),
        unchanged=entry.unchanged or ("ok" if by_command else "fail"),
        limits=Limits.model_validate(entry.limits.model_dump()),
        env=entry.env,
        policy=entry.policy,
        unattended=entry.unattended,
        network=entry.network,
        grants=entry.grants,
        waive=entry.waive,
        review=entry.review,
        duration_s=entry.duration_s,
    )
