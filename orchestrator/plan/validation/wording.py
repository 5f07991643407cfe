"""Rules about the words of tasks: they say something, only once, and what they use is made before."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

from forgepool.orchestrator.plan.document import Task
from forgepool.orchestrator.plan.validation.case import Case, is_by_model
from forgepool.orchestrator.plan.validation.facts import Fault
from forgepool.workers.schema.mistakes import nearest
from forgepool.workers.schema.orders import BuiltinAgent

_FEWEST_WORDS = 4
_SAME_FROM = 8
_SHARE = 0.9
_TEXT = re.compile(r"\w[\w./-]*")
_QUOTED = re.compile(r"`([A-Za-z_][\w.]{2,80})(?:\(\))?`")
_MAKING = re.compile(
    r"\b(?:add|create|define|introduce|implement|write|provide|extract|expose|declare)(?:s|es|ing)?\b"
    r"((?:\s+(?:an?|the|new|public|private|pure|small|helper|function|class|method|constant|exception|type|module"
    r"|decorator|dataclass|property|called|named|enum|protocol))*)\s+`([A-Za-z_][\w.]*)(?:\(\))?`",
    re.IGNORECASE,
)


def find_vague(case: Case) -> Iterator[Fault]:
    """Yield a fault for each task of a model whose words are shorter than a sentence."""
    for task in case.plan.tasks:
        count = len(_TEXT.findall(f"{'' if task.title == task.id else task.title}\n{task.description}"))
        if is_by_model(task) and count < _FEWEST_WORDS:
            wrong = "has no description that says what to do; write at least one sentence"
            yield case.fault("vague", task, ("description",), wrong, "warning" if count else "error")


def find_duplicates(case: Case) -> Iterator[Fault]:
    """Yield a fault for each task that says the same as an earlier one about the same files, or only a part of it."""
    alike: dict[tuple[str, ...] | None, list[tuple[Task, frozenset[str]]]] = defaultdict(list)
    for task in case.plan.tasks:
        if not is_by_model(task):
            continue
        mine, before = _vocabulary(task), alike[None if task.files is None else tuple(sorted(task.files))]
        for other, theirs in before:
            small, large = sorted((mine, theirs), key=len)
            if mine == theirs and task.acceptance == other.acceptance:
                yield case.fault("duplicate", task, (), f"says the same as '{other.id}'; remove one of the two")
                break
            if len(small) >= _SAME_FROM and len(small & large) >= _SHARE * len(small):
                wrong = (
                    f"says what '{other.id}' says about the same files; make one task of them, or say the difference"
                )
                yield case.fault("duplicate", task, (), wrong, "warning")
                break
        before.append((task, mine))


def _vocabulary(task: Task) -> frozenset[str]:
    return frozenset(word.lower().rstrip(".") for word in _TEXT.findall(task.description or task.title))


def find_used_early(case: Case) -> Iterator[Fault]:
    """Yield a fault for each use of a name that the base lacks and that only a task makes which is not needed."""
    if case.facts.names is None:
        return
    mentioned: dict[str, list[Task]] = defaultdict(list)
    makers: dict[str, list[str]] = defaultdict(list)
    for task in case.plan.tasks:
        text = f"{task.title}\n{task.description}"
        for name in dict.fromkeys(map(_last, _QUOTED.findall(text))):
            mentioned[name].append(task)
        for _, name in _MAKING.findall(text):
            makers[_last(name)].append(task.id)
    for name, tasks in mentioned.items():
        if name not in case.facts.names and len(tasks) > 1:
            yield from _early(case, name, tasks, makers[name])


def _early(case: Case, name: str, tasks: list[Task], makers: list[str]) -> Iterator[Fault]:
    for task in tasks:
        if task.id in makers:
            continue
        if makers and not any(case.is_before(maker, task.id) for maker in makers):
            wrong = f"uses `{name}`, which only '{makers[0]}' makes; add '{makers[0]}' to its needs"
            yield case.fault("used-before-made", task, ("description",), wrong)
        elif not makers and not any(_ordered(case, task.id, other.id) for other in tasks if other is not task):
            wrong = f"names `{name}`, which the base lacks and other tasks name, too; say which makes it, and need that"
            yield case.fault("used-before-made", task, ("description",), wrong, "warning")


def _ordered(case: Case, first: str, second: str) -> bool:
    return case.is_before(first, second) or case.is_before(second, first)


def _last(name: str) -> str:
    return name.rstrip(".").rpartition(".")[2]


def find_quoted_names(texts: Iterable[str]) -> frozenset[str]:
    """Return the names in backticks whose presence in the base the rules ask for."""
    return frozenset(_last(name) for text in texts for name in _QUOTED.findall(text)) - {""}


def find_unknown_agents(case: Case) -> Iterator[Fault]:
    """Yield a fault for each skill and model that the host does not have, and each workflow that does not fit."""
    for task in case.plan.tasks:
        if (why := case.facts.workflows.get(task.id)) is not None:
            yield case.fault("unfit-workflow", task, ("agent",), f"cannot have its workflow: {why}")
        if not isinstance(task.agent, BuiltinAgent):
            continue
        agent, skills, models = task.agent, case.facts.skills, case.facts.models
        phases = case.facts.phases.get(task.id, ())
        named = [(name, "skill", skills) for name in (agent.skill, *(phase.skill for phase in phases))]
        by_phase = (agent.model, *agent.models.values(), *(phase.model for phase in phases), *task.ladder)
        named += [(name, "model", models) for name in by_phase]
        for name, noun, known in dict.fromkeys(named):
            if name is not None and known is not None and name not in known:
                like = nearest(name, known)
                meant = f"did you mean '{like[0]}'?" if like else f"{noun}s are: {', '.join(sorted(known))}"
                where = "attempts" if noun == "model" and name in task.ladder else "agent"
                yield case.fault(f"unknown-{noun}", task, (where,), f"has the unknown {noun} '{name}'; {meant}")
            elif noun == "skill" and (why := case.facts.wrong_skills.get(name or "")) is not None:
                yield case.fault("unfit-skill", task, ("agent",), f"cannot have its skill '{name}': {why}")
