"""
Reads a plan file into a `Plan`, with defaults merged in and every `for_each` expanded.

Every mistake is one sentence with file and line. `readiness` decides which tasks may start when.
"""

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from forgepool.orchestrator.plan.agents import read_agents, read_ladders
from forgepool.orchestrator.plan.entries import (
    SURVEY,
    PlanPolicy,
    PlanReading,
    PlanReview,
    PlanSource,
    ReviewEntry,
    WrittenTask,
    check_answers,
    check_groups,
    check_hosts,
    check_ids,
    check_policies,
    check_silences,
    context_of,
    fan_out_entries,
    gate_of,
    review_of,
)
from forgepool.orchestrator.plan.fan_out import AgentEntry, BuiltinEntry, TaskEntry
from forgepool.orchestrator.plan.graph import check_cycles, needs_of_all
from forgepool.workers.policy.gate_file.document import CheckDefinition, definitions
from forgepool.workers.policy.gate_file.reading import check_mistakes
from forgepool.workers.schema.documents import Located, read, read_text, validate
from forgepool.workers.schema.globs import BadGlob, parse
from forgepool.workers.schema.mistakes import DocumentWrong, Duration, Mistake, Slug
from forgepool.workers.schema.orders import (
    AgentSpec,
    Asset,
    CommandAgent,
    Limits,
    Message,
)
from forgepool.workers.schema.policy_rules import RuleEntry, Unattended, VerifyTerms

PlanWrong = DocumentWrong

_NONE_STANDING: Mapping[str, Collection[str]] = {}
_NO_BRANCH = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|//|@\{|^[-/]|[/.]$|^@$|^HEAD$|(^|/)\.|\.lock(/|$)")


class TaskNeed(Message):
    """A task that must have landed before; `full` passes its whole output on instead of a summary."""

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
    """Globs of the files it may write; None is undeclared."""
    reads: tuple[str, ...] = ()
    context: tuple[str, ...] = Field(default=(), exclude_if=lambda references: not references)
    """Files, and lines of files, whose text its agent is given. Those of needs are in `needs`."""
    answers: bool = Field(default=False, exclude_if=lambda answers: not answers)
    """It ends with a report, and takes no lock. Left out of a written plan where false, so that older digests stay."""
    surveys: bool = Field(default=False, exclude_if=lambda surveys: not surveys)
    """It is the plan's survey: the tasks that need it wait for its end, and go on however it ends."""
    leads: AgentSpec | None = Field(default=None, exclude_if=lambda led: led is None)
    """Set for the task that leads its run: the agent of the tasks that it dispatches. It answers, too."""
    acceptance: tuple[str, ...] = ()
    """Commands that must pass, the guards at the end."""
    guards: tuple[str, ...] = Field(default=(), exclude_if=lambda guards: not guards)
    """Those of them that pass on the base, too. Left out of a written plan without any, so that older digests stay."""
    criteria: tuple[str, ...] = Field(default=(), exclude_if=lambda criteria: not criteria)
    """Sentences that its reviewer answers one by one. Left out of a written plan without any, as `runs_on` is."""
    verify: VerifyTerms | None = Field(default=None, exclude_if=lambda terms: terms is None)
    """The bounds of the target's checks in VERIFY; None runs none there."""
    agent: AgentSpec
    priority: int = 0
    attempts: int = Field(default=2, ge=1, le=10)
    ladder: tuple[str, ...] = Field(default=(), exclude_if=lambda models: not models)
    """The models of its attempts, in order. A task that leads has them for those that it dispatches."""
    unchanged: Literal["ok", "fail"] = "fail"
    """`ok`: an attempt that changes nothing has done the task."""
    limits: Limits = Limits()
    env: dict[str, str] = Field(default_factory=dict)
    policy: tuple[RuleEntry, ...] = ()
    unattended: Unattended = "deny"
    network: tuple[str, ...] = ()
    runs_on: tuple[str, ...] = Field(default=(), exclude_if=lambda labels: not labels)
    """Labels that its host must have. Left out of a written plan without any, so that older digests stay."""
    grants: tuple[str, ...] = ()
    """Globs of protected paths and tests that it may change."""
    waive: tuple[str, ...] = ()
    """Rules of the gate's scans that are waived for it."""
    review: Literal["none"] | None = None
    """None leaves it to the plan's `review`."""
    duration_s: Duration | None = None
    """Its author's estimate, which affects only the order of tasks."""


class Plan(PlanPolicy):
    """Tasks for a target branch, and the checks that must pass there."""

    target: str = Field(default_factory=lambda given: f"forgepool/{given.get('name', '')}")
    checks: tuple[CheckDefinition, ...] | Literal["none"] | None = None
    """None leaves the checks to the target's own `forgepool.yaml`, which must then name some."""
    review: PlanReview | Literal["none"] | None = None
    """None leaves the reviewers of models' candidates to the reviewing host."""
    assets: tuple[Asset, ...] = ()
    """Files beside the plan file that its tasks can read, with folders expanded."""
    tasks: tuple[Task, ...]


def load_plan(path: Path, *, files: Callable[[], Sequence[str]], name: str = "") -> Plan:
    """
    Read the plan in a file. `files` returns the paths of the repository's tree; it is only called for a `for_each`.
    `name` is the file's name in mistakes; without one it is the path.

    Raises:
        PlanWrong: with every mistake found, or because the file cannot be read.
    """
    name = name or str(path)
    return parse_plan(read_text(path, name), name, path.parent, files)


def parse_plan(text: str, name: str, folder: Path, files: Callable[[], Sequence[str]]) -> Plan:
    """
    Read the plan in a text. The scripts and assets that it names are in `folder`.

    The form is checked first; ids, needs and other relations between entries only when the form is right.

    Raises:
        PlanWrong: with every mistake found.
    """
    document = read(text, name)
    source = validate(document, PlanSource)
    reading = PlanReading(document=document, source=_with_survey(source), wrong=[])
    reading.wrong.extend(_about_plan(document, source))
    review, gate = review_of(reading, folder), gate_of(reading)
    assets = _assets(reading, folder)
    tasks = read_tasks(reading, folder, files)
    tasks = await_survey(tasks) if source.survey is not None else tasks
    policy = {name: getattr(source, name) for name in PlanPolicy.model_fields} | {"gate": gate}
    target = {"target": source.target} if source.target else {}
    checks = source.checks if source.checks is None or source.checks == "none" else definitions(source.checks)
    return Plan(**policy, **target, checks=checks, review=review, assets=assets, tasks=tasks)


def read_tasks(
    reading: PlanReading,
    folder: Path,
    files: Callable[[], Sequence[str]],
    standing: Mapping[str, Collection[str]] = _NONE_STANDING,
) -> tuple[Task, ...]:
    """
    Read the tasks that are written. `standing` has the needs of those that stand already, which these may need.

    Raises:
        PlanWrong: with every mistake found, those noted in `reading` before among them.
    """
    written = fan_out_entries(reading, files)
    check_ids(reading, written, standing)
    check_groups(reading, written)
    _check_globs(reading, written)
    check_answers(reading, written)
    check_policies(reading)
    check_hosts(reading, written)
    check_silences(reading)
    _check_criteria(reading, written)
    agents = read_agents(reading, written, folder)
    ladders = read_ladders(reading, written, agents)
    needs = needs_of_all(reading, written, standing)
    every: dict[str, Collection[str]] = {**standing, **needs}
    check_cycles(reading, written, {one: [need for need in of if need in every] for one, of in every.items()})
    context = context_of(reading, written, needs, files, standing)
    if reading.wrong:
        raise PlanWrong(reading.document.name, reading.wrong)
    return tuple(
        _task(each.entry, *agents[name], ladders[name], needs[name], context[name])
        for each in written
        for name in (each.entry.id,)
    )


def await_survey(tasks: Iterable[Task]) -> tuple[Task, ...]:
    """Return the tasks; those that models do need the survey, before all their other needs."""
    return tuple(map(_await_survey, tasks))


def _await_survey(task: Task) -> Task:
    if task.id == SURVEY:
        return task.model_copy(update={"surveys": True})
    if isinstance(task.agent, CommandAgent):
        return task
    others = (need for need in task.needs if need.id != SURVEY)
    return task.model_copy(update={"needs": (TaskNeed(id=SURVEY, full=True), *others)})


def plan_digest(plan: Plan) -> str:
    """Return the SHA-256 of the expanded plan, equal for equal plans, however they were written."""
    canonical = json.dumps(plan.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def dump_plan(plan: Plan) -> str:
    """Return the expanded plan as JSON, for `read_expanded`."""
    return plan.model_dump_json(indent=1)


def read_expanded(text: str) -> Plan:
    """
    Read a plan that `dump_plan` wrote.

    Raises:
        PlanWrong: the text is not an expanded plan.
    """
    try:
        return Plan.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise PlanWrong("expanded plan", [Mistake(0, f"is damaged at '{place}': {first['msg']}")]) from error


def _with_survey(source: PlanSource) -> PlanSource:
    """Return the plan with its survey as the last of its tasks; it inherits no work from the defaults."""
    if source.survey is None:
        return source
    from forgepool.workers.agents.briefing.system_prompt import prompt  # Late: it loads git.

    usual = source.defaults.agent
    if usual is not None and usual.builtin is not None:
        usual = AgentEntry(
            builtin=usual.builtin.model_copy(update={"skill": None, "workflow": None, "red_first": False})
        )
    elif usual is None or usual.scripted is None:
        usual = AgentEntry(builtin=BuiltinEntry())
    about = source.survey.about.strip()
    nothing = dict.fromkeys(("files", "reads", "context", "acceptance", "guards", "criteria", "grants", "waive"), ())
    survey = TaskEntry(
        **nothing,
        id=SURVEY,
        title="Survey of the repository",
        description="\n\n".join(
            [prompt("survey"), *([f"The plan asks for this as well:\n\n{about}"] if about else [])]
        ),
        type="survey",
        answers=True,
        agent=source.survey.agent or usual,
        network=(),
        unattended="deny",
    )
    return source.model_copy(update={"tasks": (*source.tasks, survey)})


def _about_plan(document: Located, source: PlanSource) -> Iterator[Mistake]:
    """Yield mistakes that concern the plan as a whole."""
    if not source.tasks:
        yield Mistake(document.line(("tasks",)), "'tasks' is empty; write at least one task")
    if source.checks is not None and source.checks != "none":
        yield from check_mistakes(document, source.checks)
    target = source.target
    if target is None and source.base == f"forgepool/{source.name}":
        yield Mistake(
            document.line(("base",)), f"'base' would be the target, too; write 'target: {source.base}' if that is meant"
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


def _check_criteria(reading: PlanReading, written: Iterable[WrittenTask]) -> None:
    """Check that a reviewer answers the criteria; inherited ones count for the tasks that are reviewed."""
    review = reading.source.review
    commands = isinstance(review, ReviewEntry) and review.commands
    for each in written:
        entry = each.entry
        by_command = entry.agent is not None and entry.agent.command is not None and not commands
        idle = entry.answers or entry.leads is not None or entry.files == ()
        inherited = "criteria" not in reading.source.tasks[each.index].model_fields_set
        unread = "none" in (review, entry.review) or ((by_command or idle) and not inherited)
        if entry.criteria and unread:
            wrong = "has 'criteria', and no reviewer looks at its work; remove them, or have it reviewed"
            reading.refuse(each.index, ("criteria",), f"task '{entry.id}' {wrong}")


@lru_cache(maxsize=65536)
def _glob_wrong(glob: str) -> str | None:
    if glob.startswith("/"):
        return f"glob '{glob}': it begins at the root of the disk; write it relative to the repository's root"
    try:
        parse(glob)
    except BadGlob as error:
        return str(error)
    return None


def _assets(reading: PlanReading, folder: Path) -> tuple[Asset, ...]:
    """Return the plan's assets, each once; an unusable one is a mistake at its line."""
    if not reading.source.assets:
        return ()
    from forgepool.workers.workspace.assets import MOST_BYTES, MOST_FILES, assets_in

    assets: dict[str, Asset] = {}
    line = reading.document.line(("assets",))
    for at, path in enumerate(reading.source.assets):
        try:
            assets |= {asset.path: asset for asset in assets_in(folder, path)}
        except (OSError, ValueError) as wrong:
            why = wrong.strerror if isinstance(wrong, OSError) else wrong
            reading.wrong.append(Mistake(reading.document.line(("assets", at)), f"'assets' has {path}, which {why}"))
    if len(assets) > MOST_FILES:
        reading.wrong.append(Mistake(line, f"'assets' has more than {MOST_FILES:,} files; name those that are needed"))
    if sum((folder / path).stat().st_size for path in assets) > MOST_BYTES:
        most = f"{MOST_BYTES // 1_000_000} MB"
        reading.wrong.append(Mistake(line, f"'assets' has more than {most}; commit what is large, or fetch it"))
    return tuple(assets.values())


def _one_line(title: str) -> str:
    """Make a title safe as a commit subject and on a terminal: file names get into it."""
    return "".join(each if each.isprintable() else "?" for each in " ".join(title.split()))


def _task(
    entry: TaskEntry,
    agent: AgentSpec,
    led: AgentSpec | None,
    ladder: tuple[str, ...],
    needs: Mapping[str, bool],
    context: tuple[str, ...],
) -> Task:
    by_command = isinstance(agent, CommandAgent)
    given = {name: getattr(entry, name) for name in Task.model_fields.keys() & TaskEntry.model_fields.keys()}
    read = {
        "title": _one_line(entry.title or "") or entry.id,
        "acceptance": (*entry.acceptance, *entry.guards),
        "needs": tuple(TaskNeed(id=each, full=full) for each, full in needs.items()),
        "agent": agent.model_copy(update={"model": ladder[0], "models": {}}) if ladder and led is None else agent,
        "ladder": ladder,
        "context": context,
        "leads": led,
        "answers": entry.answers or led is not None,
        "files": () if entry.answers or led is not None else entry.files,
        # A command would do the same a second time, and may find its work done. What may write nothing changes nothing.
        "attempts": entry.attempts if isinstance(entry.attempts, int) else len(ladder) or (1 if by_command else 2),
        "unchanged": entry.unchanged or ("ok" if by_command or entry.files == () else "fail"),
        "limits": Limits.model_validate(entry.limits.model_dump()),
    }
    return Task(**given | read)
