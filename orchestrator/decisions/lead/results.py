"""Results as a lead is told them: a header each, and the summary where it asks. Pure."""

from collections.abc import Iterable, Iterator, Sequence

from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.decisions.reasons import one_line
from forgepool.orchestrator.journal.events import LeadReplied, LeadSpoken
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import TERMINAL, TaskState
from forgepool.workers.schema.reports import LeadResult

_LINE_CHARACTERS = 160
_ASKED_CHARACTERS = 200
_SUMMARY_CHARACTERS = 4_000


def find_behind(course: PlanIndex, lead: str) -> frozenset[str]:
    """Return the lead and all that waits for it, directly or through others. It would wait for these for ever."""
    return frozenset((lead, *course.graph.after_all([lead])))


def find_open(course: PlanIndex, state: RunState, lead: str) -> list[TaskState]:
    """Return the tasks whose results a lead has not collected; those that wait for the lead itself have none for it."""
    behind = find_behind(course, lead)
    known = state.lead.collected
    others = (task for task in state.tasks.values() if task.id not in behind)
    return [task for task in others if task.phase not in TERMINAL or known.get(task.id) != task.phase]


def plan_lines(course: PlanIndex, state: RunState, lead: str) -> Iterator[str]:
    """Yield a line for each task that the run has beside its lead."""
    for task in state.tasks.values():
        if task.id == lead:
            continue
        planned = course.tasks[task.id]
        needs = ", ".join(need.id for need in planned.needs)
        facts = [task.id, task.phase, f"needs {needs}" if needs else "", ", ".join(planned.files or ()), planned.title]
        yield "- " + " | ".join(fact for fact in facts if fact)


def bring_headers(
    course: PlanIndex, state: RunState, ended: Iterable[TaskState]
) -> tuple[tuple[LeadResult, ...], tuple[str, ...]]:
    """Return the results for a lead's rules, and their headers with what was asked beside them."""
    tasks = list(ended)
    results = tuple(LeadResult(task=task.id, ended=task.phase) for task in tasks)
    return results, tuple(header(course, task) for task in tasks)


def header(course: PlanIndex, task: TaskState) -> str:
    """Return `id | outcome | commit | red check | cost | missing n | one line`, and what was asked."""
    facts = (
        task.id,
        task.phase,
        task.commit[:12] or "no commit",
        _red(task),
        _cost(task),
        f"missing {len(missing(task))}",
        _clipped(_said(task), _LINE_CHARACTERS),
    )
    asked = _clipped(course.tasks[task.id].description, _ASKED_CHARACTERS)
    return " | ".join(fact for fact in facts if fact) + (f"\n  (asked: {asked})" if asked else "")


def missing(task: TaskState) -> tuple[str, ...]:
    """Return what its agent says it lacked."""
    report = task.report
    return report.missing if report is not None else task.result.missing if task.result is not None else ()


def _red(task: TaskState) -> str:
    if not task.reasons or task.phase not in ("failed", "needs_human"):
        return "nothing red"
    last = task.reasons[-1]
    return f"{last.kind}: {_clipped(', '.join(last.tests) or last.summary, 80)}"


def _cost(task: TaskState) -> str:
    used = [use.own for use in task.uses.values() if use.own is not None]
    if any(one.cost_usd is None for one in used):
        return "cost unknown"
    return f"{sum(one.cost_usd or 0.0 for one in used):.2f} USD"


def _said(task: TaskState) -> str:
    """Return what came of it in a line: its agent's words where it is done, else the harness's."""
    if task.phase == "blocked":
        return f"Dependency {task.blocked_by} failed"
    if task.report is not None:
        return task.report.summary
    if task.phase == "landed" and task.result is not None:
        return task.result.claimed_summary
    return task.question or task.detail


def summary_of(course: PlanIndex, task: TaskState, *, full: bool) -> str:
    """Return the summary of a result, and with `full` of one that failed also the end of its log."""
    lines = [header(course, task), _said(task)[:_SUMMARY_CHARACTERS]]
    if found := missing(task):
        lines.append("Missing, as its agent says:\n" + "\n".join(f"- {one_line(each)}" for each in found))
    if task.result is not None and task.result.paths:
        lines.append("Paths: " + ", ".join(task.result.paths[:50]))
    for reason in task.reasons:
        lines.append(f"Attempt {reason.attempt} came back: {reason.kind}: {reason.summary}")
        lines += [f"- {one_line(each)}" for each in reason.findings]
        if full and reason.log_tail:
            lines.append(f"The end of its log:\n{reason.log_tail}")
    return "\n".join(line for line in lines if line)


def describe_lead(event: LeadReplied | LeadSpoken) -> str:
    """Return the sentence of an event of the lead, for the run's story."""
    if isinstance(event, LeadSpoken):
        return f"{event.by} says to {event.task}: {one_line(event.text)}"
    results = ", ".join(result.task for result in event.reply.results)
    return f"{event.task}: goes on" + (f" with the results of {results}" if results else "")


def tell_words(state: RunState) -> tuple[str, ...]:
    """Return what people have said to the lead and it has not heard."""
    return tuple(f"A person says ({word.by}): {word.text}" for word in state.lead.words[state.lead.heard :])


def tell_open(tasks: Sequence[TaskState]) -> str:
    if not tasks:
        return "Nothing is open."
    return "Open: " + ", ".join(f"{task.id} ({task.phase})" for task in tasks) + "."


def _clipped(text: str, most: int) -> str:
    line = one_line(text)
    return line if len(line) <= most else f"{line[: most - 3]}..."
