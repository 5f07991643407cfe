"""
Rules about the goal that a plan serves: each requirement has a task, each task a requirement, and the cost is bearable.

The table of requirements is kept beside the plan, in `plan.why.md`, since a run does not need it.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import dropwhile, takewhile

from forgepool.orchestrator.plan.validation.case import Case
from forgepool.orchestrator.plan.validation.facts import Fault, Requirement
from forgepool.workers.schema.mistakes import nearest

_ROW = re.compile(r"^\| *(R\d+) *\| *((?:[^|\\\n]|\\.)*?) *\| *([^|\n]*?) *\| *$")
_HEAD = "| requirement | text | tasks |\n|---|---|---|"


def read_requirements(text: str) -> tuple[Requirement, ...]:
    """
    Read the first table with rows `| R1 | text | task, task |` of a Markdown text; a cell has `\\|` for a bar.

    A planner's reasons come after the table, and rows among them are not requirements.
    """
    rows = [_ROW.match(line) for line in text.splitlines()]
    table = takewhile(lambda row: row is not None, dropwhile(lambda row: row is None, rows))
    return tuple(
        Requirement(id=row[1], text=row[2].replace("\\|", "|"), tasks=tuple(re.findall(r"[\w.-]+", row[3])))
        for row in table
        if row is not None
    )


def render_requirements(requirements: Sequence[Requirement]) -> str:
    """Return the Markdown table that `read_requirements` reads."""
    rows = (
        f"| {each.id} | {' '.join(each.text.split()).replace('|', chr(92) + '|')} | {', '.join(each.tasks)} |"
        for each in requirements
    )
    return "\n".join((_HEAD, *rows, ""))


def find_uncovered(case: Case) -> Iterator[Fault]:
    """Yield a fault for each requirement without a task, and each task without a requirement."""
    if case.requirements is None:
        return
    covering: set[str] = set()
    line = case.lines.of_plan("tasks")
    for requirement in case.requirements:
        for name in requirement.tasks:
            if name not in case.tasks:
                like = nearest(name, case.tasks)
                meant = f"; did you mean '{like[0]}'?" if like else ""
                wrong = f"requirement {requirement.id} names the task '{name}', which is not in the plan{meant}"
                yield Fault(rule="uncovered", sentence=wrong, line=line)
        if case.tasks.keys().isdisjoint(requirement.tasks):
            wrong = (
                f"requirement {requirement.id} ({requirement.text}) has no task; add one, or name the one that meets it"
            )
            yield Fault(rule="uncovered", sentence=wrong, line=line)
        elif not any(case.tasks[name].files != () for name in requirement.tasks if name in case.tasks):
            wrong = f"requirement {requirement.id} ({requirement.text}) is met by tasks alone that change nothing"
            yield Fault(rule="only-answered", sentence=wrong, line=line, level="warning")
        covering.update(requirement.tasks)
    for task in case.plan.tasks:
        if task.id not in covering and task.leads is None:
            wrong = "meets no requirement; name the one that it meets, or remove the task"
            yield case.fault("without-requirement", task, (), wrong)


def find_too_dear(case: Case) -> Iterator[Fault]:
    """Yield a fault where the forecast exceeds the money or the time that there is."""
    estimate = case.facts.estimate
    if estimate is None:
        return
    line = case.lines.of_plan("budget")
    most = case.plan.budget.usd if case.limits.cost_usd is None else case.limits.cost_usd
    if most is not None and estimate.cost_usd is not None and estimate.cost_usd > most:
        wrong = f"the plan would cost ${estimate.cost_usd:.2f}, and ${most:.2f} are allowed; make it smaller"
        yield Fault(rule="over-budget", sentence=wrong, line=line)
    elif most is not None and estimate.most_usd is not None and estimate.most_usd > most:
        wrong = f"the limits of its attempts add up to ${estimate.most_usd:.2f}, and ${most:.2f} are allowed"
        yield Fault(rule="over-budget", sentence=wrong, line=line, level="warning")
    longest = case.limits.makespan_s
    if longest is not None and estimate.makespan_s > longest:
        wrong = f"the plan would take {estimate.makespan_s:.0f} s, and {longest:.0f} s are allowed"
        yield Fault(rule="too-long", sentence=f"{wrong}; remove needs between tasks, or tasks", line=line)
