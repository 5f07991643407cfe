"""
What is known of a candidate, as sentences: who made it, what its checks said, who reviewed it and what was read. Pure.
"""

from collections.abc import Iterator

from forgepool.orchestrator.decisions.orders.retries import review_finding_words
from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.plan.document import Task
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import TaskState
from forgepool.supervisor.findings import ReviewFinding, Threshold, blocking
from forgepool.supervisor.messages import Author, Certificate, CheckResult, Review
from forgepool.workers.schema.orders import CliAgent, CommandAgent, WorkResult


def author_words(author: Author) -> str:
    """`builtin, claude-x (claude)`."""
    models = ", ".join(author.models)
    families = ", ".join(author.families)
    by = f", {models}" if models else ""
    return f"{author.agent}{by}" + (f" ({families})" if families else "")


def describe_checks(result: CheckResult) -> tuple[str, ...]:
    """What the checks said, a sentence each."""
    said = [_certified(one) for one in result.certificates]
    said += [f"check {one} was red, then green on the same tree" for one in flaky_words(result)]
    said += [f"check {one.words}" for one in result.advice]
    if result.red_base:
        said.append(f"on the target itself fail already: {_listed(result.red_base)}")
    return tuple(said)


def flaky_words(result: CheckResult) -> tuple[str, ...]:
    """`'test' (tests/a.py::b)`, for each check that was red, then green on the same tree."""
    return tuple(f"'{one.check}'{_named(one.tests)}" for one in result.flaky)


def reviewer_words(review: Review) -> str:
    """`gpt-x (gpt), who read 3 of 4 changed files`."""
    who = ", ".join(review.models) or "a scripted reviewer"
    families = f" ({', '.join(review.families)})" if review.families else ""
    read = len(set(review.read) & set(review.changed))
    kin = ", another model of the author's own family" if review.same_family else ""
    return f"{who}{families}{kin}, who read {read} of {len(review.changed)} changed files"


def finding_lines(review: Review, threshold: Threshold) -> Iterator[str]:
    """What it found: what is held against the candidate first, then what is not."""
    held = blocking(review.findings, threshold)
    for one in held:
        yield f"held: {_graded(one)}"
    for one in review.findings:
        if one not in held:
            yield f"dropped: {_graded(one)}"


def _graded(one: ReviewFinding) -> str:
    return f"{one.severity} {one.category}, {review_finding_words(one)}"


def _certified(one: Certificate) -> str:
    ran = "" if one.tests is None else f", {one.tests} tests"
    how = f"has {one.findings} findings, all of them on the target as well" if one.findings else "is green"
    return f"check '{one.check}' {how}{ran}, {one.seconds:.1f} s"


def _named(tests: tuple[str, ...]) -> str:
    return f" ({_listed(tests)})" if tests else ""


def _listed(tests: tuple[str, ...]) -> str:
    return ", ".join(tests[:10]) + (f" and {len(tests) - 10} more" if len(tests) > 10 else "")


def author_in(course: PlanIndex, state: RunState, task: TaskState) -> Author:
    """Of its candidate: as it was submitted to a gate, else as a worker has told."""
    entry = state.submitted.get(task.id)
    if entry is not None:
        return entry.author
    return author_of(course.tasks[task.id], task.result) if task.result is not None else Author()


def author_of(planned: Task, result: WorkResult) -> Author:
    """Who made the candidate. A model of which the worker tells no family may be anybody's."""
    agent = planned.agent
    name = agent.program if isinstance(agent, CliAgent) else agent.kind
    unknown = () if isinstance(agent, CommandAgent) else ("unknown",)
    return Author(agent=name, models=result.models, families=result.families or unknown)


def count_of(number: int, noun: str) -> str:
    """`1 path`, `2 paths`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
