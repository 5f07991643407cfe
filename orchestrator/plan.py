"""
The plan file: what a person wrote, read into a `Plan` in which nothing is left to default, merge or fan out.

Every mistake is one sentence with file and line. Which tasks may start when is decided in `readiness`.
"""

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from orchestrator.fanout import CannotFanOut, TaskEntry, TaskFields, for_each, merged
from orchestrator.overlap import BadGlob, parse
from supervisor.definitions import CheckDefinition, WrittenChecksOrNone, check_mistakes, definitions
from workers.documents import (
    MAX_MISTAKES,
    DocumentWrong,
    Duration,
    Located,
    Mistake,
    Slug,
    nearest,
    read,
    read_text,
    slug,
    validate,
)
from workers.messages import AgentSpec, CommandAgent, Limits, Message, ScriptedAgent

PlanWrong = DocumentWrong

_MOST_TASKS = 100_000
_MOST_NEEDS = 1_000_000
_NO_BRANCH = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|//|@\{|^[-/]|[/.]$|^@$|^HEAD$|(^|/)\.|\.lock(/|$)")


class Need(Message):
    """A task that must have landed before; `full` hands its whole output on instead of a summary."""

    id: str
    full: bool = False


class Task(Message):
    """One unit of work, complete."""

    id: Slug
    title: str = Field(default_factory=lambda given: str(given.get("id", "")))
    description: str = ""
    type: str = "code"
    needs: tuple[Need, ...] = ()
    files: tuple[str, ...] | None = None
    """Globs it may write; None is undeclared."""
    reads: tuple[str, ...] = ()
    acceptance: tuple[str, ...] = ()
    agent: AgentSpec
    priority: int = 0
    attempts: int = Field(default=2, ge=1, le=10)
    limits: Limits = Limits()
    env: dict[str, str] = Field(default_factory=dict)
    duration_s: Duration | None = None
    """How long its author thinks it takes; only the order of tasks follows from it."""


class _Policy(Message):
    """What is said of a whole plan, in the file and in the plan alike."""

    version: Literal[1] = 1
    name: Slug
    base: Annotated[str, Field(min_length=1)] | None = None
    """A branch, tag or commit; None is the hub's default branch."""
    undeclared: Literal["optimistic", "exclusive"] = "optimistic"
    scope: Literal["extend", "strict"] = "extend"
    reads: Literal["block", "ignore"] = "block"
    landing: Literal["merge", "squash"] = "merge"


class Plan(_Policy):
    """Tasks to be done on a target branch, and what must be green there."""

    target: str = Field(default_factory=lambda given: f"forgepool/{given.get('name', '')}")
    checks: tuple[CheckDefinition, ...] | Literal["none"] | None = None
    """None: the plan is silent, and the target's own `forgepool.yaml` must speak."""
    tasks: tuple[Task, ...]


class _PlanSource(_Policy):
    version: Literal[1]
    target: str | None = None
    checks: WrittenChecksOrNone | None = None
    defaults: TaskFields = TaskFields()
    tasks: tuple[TaskEntry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Written:
    """A task, and the place in `tasks` of the entry it was written as."""

    entry: TaskEntry
    index: int
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """A plan file while it is read: its lines, and the mistakes found so far."""

    document: Located
    source: _PlanSource
    wrong: list[Mistake]

    def refuse(self, index: int, where: Sequence[str | int], sentence: str) -> None:
        """At the line of the task's own words, or of the defaults where it has none of its own."""
        own = not where or where[0] in self.source.tasks[index].model_fields_set
        inherited = not own and where[0] in self.source.defaults.model_fields_set
        place = ("defaults", *where) if inherited else ("tasks", index, *where)
        self.wrong.append(Mistake(self.document.line(place), sentence))


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
    source = validate(document, _PlanSource)
    reading = _Reading(document=document, source=source, wrong=[])
    reading.wrong.extend(_about_plan(document, source))
    written = _written(reading, files)
    _check_ids(reading, written)
    _check_groups(reading, written)
    _check_globs(reading, written)
    agents = _agents(reading, written, folder)
    needs = _needs(reading, written)
    _check_cycles(reading, written, needs)
    if reading.wrong:
        raise PlanWrong(name, reading.wrong)
    tasks = tuple(_task(each.entry, agents[each.entry.id], needs[each.entry.id]) for each in written)
    policy = {name: getattr(source, name) for name in _Policy.model_fields}
    target = {"target": source.target} if source.target else {}
    checks = source.checks if source.checks is None or source.checks == "none" else definitions(source.checks)
    return Plan(**policy, **target, checks=checks, tasks=tasks)


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


def _about_plan(document: Located, source: _PlanSource) -> Iterator[Mistake]:
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


def _written(reading: _Reading, files: Callable[[], Sequence[str]]) -> list[_Written]:
    """Every task, entries with `for_each` fanned out."""
    found: list[_Written] = []
    tree: Sequence[str] | None = None
    for index, plain in enumerate(reading.source.tasks):
        entry = merged(reading.source.defaults, plain)
        line = reading.document.line(("tasks", index))
        if entry.for_each is None:
            if entry.group is not None:
                reading.refuse(index, ("group",), f"task '{entry.id}' has a 'group' without a 'for_each'; remove it")
            found.append(_Written(entry=entry, index=index, line=line))
            continue
        tree = files() if tree is None else tree
        found.extend(_Written(entry=each, index=index, line=line) for each in _fanned_out(reading, entry, index, tree))
        if len(found) > _MOST_TASKS:
            reading.refuse(index, ("for_each",), f"the plan has more than {_MOST_TASKS:,} tasks; split it")
            break
    return found


def _fanned_out(reading: _Reading, entry: TaskEntry, index: int, tree: Sequence[str]) -> list[TaskEntry]:
    try:
        return for_each(entry, tree)
    except CannotFanOut as error:
        reading.refuse(index, error.where, f"task '{entry.id}' {error.sentence}")
    except BadGlob as error:
        reading.refuse(index, ("for_each", "files"), f"'for_each' of task '{entry.id}' has the {error}")
    return []


def _check_ids(reading: _Reading, written: Iterable[_Written]) -> None:
    """Ids become parts of refs and of file names, so they differ also where case does not count."""
    first: dict[str, _Written] = {}
    for each in written:
        _check_slug(reading, each.index, "id", each.entry.id)
        before = first.setdefault(each.entry.id.lower(), each)
        if before is not each:
            same = before.entry.id == each.entry.id
            like = "" if same else f" as '{before.entry.id}'; case does not tell ids apart"
            sentence = f"the id '{each.entry.id}' is given twice (first on line {before.line}{like}); change one"
            reading.refuse(each.index, ("id",), sentence)


def _check_groups(reading: _Reading, written: Iterable[_Written]) -> None:
    lines = {each.entry.id: each.line for each in written}
    for index, entry in enumerate(reading.source.tasks):
        if (group := entry.group_name) is None:
            continue
        _check_slug(reading, index, "group" if entry.group else "id", group)
        if group in lines:
            sentence = f"the group '{group}' has the name of a task or group on line {lines[group]}; give it another"
            reading.refuse(index, ("group",), sentence)
        lines.setdefault(group, reading.document.line(("tasks", index)))


def _check_slug(reading: _Reading, index: int, key: str, text: str) -> None:
    try:
        slug(text)
    except ValueError as error:
        reading.refuse(index, (key,), f"the {key} of task '{text}' {error}")


def _check_globs(reading: _Reading, written: Iterable[_Written]) -> None:
    for each in written:
        for key, globs in (("files", each.entry.files or ()), ("reads", each.entry.reads)):
            for at, glob in enumerate(globs):
                if wrong := _glob_wrong(glob):
                    reading.refuse(each.index, (key, at), f"'{key}' of task '{each.entry.id}' has the {wrong}")


@lru_cache(maxsize=65536)
def _glob_wrong(glob: str) -> str | None:
    if glob.startswith("/"):
        return f"glob '{glob}': it begins at the root of the disk; write it relative to the repository's root"
    try:
        parse(glob)
    except BadGlob as error:
        return str(error)
    return None


def _agents(reading: _Reading, written: Iterable[_Written], folder: Path) -> dict[str, AgentSpec]:
    """Each task's agent, scripts read from their files, each file once."""
    found: dict[str, AgentSpec] = {}
    scripts: dict[str, str | DocumentWrong] = {}
    for each in written:
        agent = each.entry.agent
        if agent is None:
            sentence = f"task '{each.entry.id}' has no agent; write 'agent: {{command: ...}}' there or in 'defaults'"
            reading.refuse(each.index, (), sentence)
        elif agent.command is not None:
            found[each.entry.id] = CommandAgent(run=agent.command)
        elif agent.scripted is not None:
            if agent.scripted not in scripts:
                scripts[agent.scripted] = _script(folder, agent.scripted)
            match scripts[agent.scripted]:
                case DocumentWrong() as wrong:
                    sentence = f"task '{each.entry.id}' has a script that cannot be used: {wrong}"
                    reading.refuse(each.index, ("agent", "scripted"), sentence)
                case script:
                    found[each.entry.id] = ScriptedAgent(script=script)
    return found


def _script(folder: Path, name: str) -> str | DocumentWrong:
    try:
        text = read_text(folder / name, name)
    except DocumentWrong as wrong:
        return wrong
    return text if text.strip() else DocumentWrong(name, [Mistake(1, "is empty")])


def _needs(reading: _Reading, written: Sequence[_Written]) -> dict[str, dict[str, bool]]:
    """What each task needs, groups replaced by their members; True where its full output is wanted."""
    names: dict[str, list[str]] = {each.entry.id: [each.entry.id] for each in written}
    for entry in reading.source.tasks:
        if entry.group_name:
            names.setdefault(entry.group_name, [])
    for each in written:
        if group := reading.source.tasks[each.index].group_name:
            names[group].append(each.entry.id)
    found: dict[str, dict[str, bool]] = {}
    count = 0
    for each in written:
        found[each.entry.id] = _needs_of(reading, each, names)
        count += len(found[each.entry.id])
        if count > _MOST_NEEDS:
            sentence = f"makes more than {_MOST_NEEDS:,} needs in all; put one task between the two groups"
            reading.refuse(each.index, ("needs",), f"task '{each.entry.id}' {sentence}")
            return {}
    return found


def _needs_of(reading: _Reading, task: _Written, names: Mapping[str, Sequence[str]]) -> dict[str, bool]:
    found: dict[str, bool] = {}
    for at, text in enumerate(task.entry.needs):
        name, colon, depth = text.partition(":")
        if colon and depth != "full":
            wrong = f"needs '{text}'; write '{name}' or '{name}:full'"
        elif name not in names:
            wrong = f"needs '{name}', which is not in the plan; tasks are: {_nearest_first(reading, name, names)}"
        elif task.entry.id in names[name]:
            wrong = "needs itself; remove the need"
        else:
            found.update({each: found.get(each, False) or bool(colon) for each in names[name]})
            continue
        reading.refuse(task.index, ("needs", at), f"task '{task.entry.id}' {wrong}")
    return found


def _nearest_first(reading: _Reading, name: str, names: Mapping[str, object]) -> str:
    """At most ten names; beyond the mistakes that are shown, likeness is not worth its time."""
    like = nearest(name, names, 10) if len(reading.wrong) < MAX_MISTAKES else []
    shown = list(dict.fromkeys([*like, *islice(names, 10)]))[:10]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more else "")


def _check_cycles(reading: _Reading, written: Sequence[_Written], needs: Mapping[str, Iterable[str]]) -> None:
    at = {each.entry.id: each for each in written}
    for cycle in _cycles(needs):
        task = at[cycle[0]]
        names = [*cycle, cycle[0]] if len(cycle) <= 10 else [*cycle[:8], "...", cycle[-1], cycle[0]]
        sentence = f"task '{task.entry.id}' waits for itself: {' -> '.join(names)}; remove one of these needs"
        reading.refuse(task.index, ("needs",), sentence)


def _cycles(needs: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """
    Cycles among needs, each begun at its first task; at least one of every tangle. Linear, and no recursion.

    Each task that can never start needs another such: followed from task to task, they lead into a cycle.
    """
    stuck = _stuck(needs)
    next_of = {task: next(need for need in needs[task] if need in stuck) for task in needs if task in stuck}
    order = {task: at for at, task in enumerate(needs)}
    found: list[list[str]] = []
    seen: dict[str, str] = {}
    for start in next_of:
        path: list[str] = []
        task = start
        while task not in seen:
            seen[task] = start
            path.append(task)
            task = next_of[task]
        if seen[task] == start:
            cycle = path[path.index(task) :]
            first = cycle.index(min(cycle, key=order.__getitem__))
            found.append([*cycle[first:], *cycle[:first]])
    return found


def _stuck(needs: Mapping[str, Iterable[str]]) -> set[str]:
    """What remains when every task whose needs can be met has been taken away."""
    waiting = {task: set(of) for task, of in needs.items()}
    dependents: dict[str, list[str]] = defaultdict(list)
    for task, of in waiting.items():
        for need in of:
            dependents[need].append(task)
    free = [task for task, of in waiting.items() if not of]
    while free:
        done = free.pop()
        del waiting[done]
        for task in dependents[done]:
            waiting[task].discard(done)
            if not waiting[task]:
                free.append(task)
    return set(waiting)


def _one_line(title: str) -> str:
    """Titles become subjects of commits and are shown on terminals; file names get into them."""
    return "".join(each if each.isprintable() else "?" for each in " ".join(title.split()))


def _task(entry: TaskEntry, agent: AgentSpec, needs: Mapping[str, bool]) -> Task:
    return Task(
        id=entry.id,
        title=_one_line(entry.title or "") or entry.id,
        description=entry.description,
        type=entry.type,
        needs=tuple(Need(id=each, full=full) for each, full in needs.items()),
        files=entry.files,
        reads=entry.reads,
        acceptance=entry.acceptance,
        agent=agent,
        priority=entry.priority,
        attempts=entry.attempts,
        limits=Limits.model_validate(entry.limits.model_dump()),
        env=entry.env,
        duration_s=entry.duration_s,
    )
