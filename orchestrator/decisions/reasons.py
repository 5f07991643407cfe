"""Again, or stop: pure. What a failed attempt leads to, and the reason pack the next one is given."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import assert_never

from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.journal.events import GateHalted, TaskFailed, TaskReturned, WorkKept
from forgepool.orchestrator.plan.document import Task
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import DONE, TERMINAL, TaskState
from forgepool.supervisor.findings import ReviewFinding, Threshold, blocking
from forgepool.supervisor.messages.answers import Certificate, CheckFailure, CheckResult, Review
from forgepool.supervisor.messages.requests import Author
from forgepool.workers.schema.error_lines import excerpt
from forgepool.workers.schema.orders import (
    AcpAgent,
    BuiltinAgent,
    CliAgent,
    CommandAgent,
    ReasonKind,
    ReasonPack,
    WorkResult,
)
from forgepool.workers.workspace.scans.findings import ScanFinding, finding_words

LOG_TAIL_CHARS = 6000
DIFF_TAIL_CHARS = 8000
TRIED_CHARS = 2000
SENTENCE_CHARS = 1500
MOST_FINDINGS = 10
MOST_TESTS = 50
_MOST_NAMED = 3
MOST_MOVES = 4
"""Attempts at a task that cost nothing because others landed meanwhile; on a busy target they would have no end."""


def again_or_stop(course: PlanIndex, task: TaskState, reason: ReasonPack) -> TaskReturned | TaskFailed:
    """
    Returned while attempts are left, counting the one that just failed; else failed.

    Each attempt that counts takes the next model of the task's ladder. One that infrastructure, an account's limit or
    others' landings undid does not count, and is repeated with the same model. In a race the other attempt goes on.
    """
    if _met_another_landing(course, task, reason):
        return TaskReturned(task=task.id, reason=reason, free=True)
    planned = course.tasks[task.id]
    if task.races or task.charged + 1 < planned.attempts:
        rung = 0 if task.races or planned.leads is not None else min(task.charged + 2, len(planned.ladder))
        if rung and not task.charged and reason.attempt == task.newest:
            rung = 1  # This was the second model's attempt in a race, and the first one's did not count.
        return TaskReturned(task=task.id, reason=reason, rung=rung)
    return TaskFailed(task=task.id, reason=reason)


def _met_another_landing(course: PlanIndex, task: TaskState, reason: ReasonPack) -> bool:
    """
    Tell whether a candidate came back only because of landings since it began: any, for a command; else another run's.

    A command does the same on the same tree. On another tree a retry is of use, and is no failure of its own. What
    others land no plan can foresee, while a plan's own tasks are kept apart by its locks.
    """
    met = reason.conflicting_entry
    by_others = met is not None and met not in course.tasks
    by_command = isinstance(course.tasks[task.id].agent, CommandAgent)
    if course.serving or task.moved >= MOST_MOVES or not (by_command or by_others):
        return False
    done_by_others = reason.kind == "no_change" and bool(task.candidate)
    broken_with_others = reason.kind == "check_failed" and met is not None
    return reason.kind == "conflict" or done_by_others or broken_with_others


_MENDABLE = ("findings", "out_of_scope", "review_failed", "rejected", "check_failed", "conflict")


def find_mended_attempt(course: PlanIndex, task: TaskState) -> int | None:
    """
    Return the attempt that the next one mends, the one judged last. None where the next begins afresh.

    Its candidate must be in the hub, and have come back for one of the `_MENDABLE` reasons. After a conflict in more
    than half of the candidate's files the next attempt begins afresh: little is left to mend. So it does after two
    attempts in a row that came back for the same kind of reason: mending has not helped. The next model of a ladder
    begins afresh, since its mistakes are to be its own. Where `why_never_mends` says why, every attempt does.

    A person's word goes before the first three. `candidate` stands for the last work that the hub has, of any kind.
    """
    if task.begins == "fresh" or why_never_mends(course, task.id):
        return None
    if task.begins == "candidate":
        return find_last_work(task)
    last = task.reasons[-1] if task.reasons else None
    work = task.works.get(last.attempt) if last is not None else None
    if last is None or work is None or work.what != "candidate" or work.withheld or last.kind not in _MENDABLE:
        return None
    conflicts_mostly = last.kind == "conflict" and 2 * len(last.paths) > work.files
    again = len(task.reasons) > 1 and task.reasons[-2].kind == last.kind
    model = None if task.id in course.models else getattr(course.tasks[task.id].agent, "model", None)
    by_another = task.id in course.rungs and model not in work.models
    return None if conflicts_mostly or again or by_another else last.attempt


def find_last_work(task: TaskState) -> int | None:
    """Return the newest attempt whose work, verified or not, the hub has as a commit."""
    works = task.works.items()
    return max((n for n, one in works if one.commit and not one.withheld and one.what != "unfinished"), default=None)


def why_never_mends(course: PlanIndex, task_id: str) -> str:
    """Return why no attempt at the task begins with earlier work, to be read after its name; empty where one may."""
    planned = course.tasks[task_id]
    if planned.answers or planned.files == () or task_id == course.lead:
        return "changes no file"
    match planned.agent:
        case CommandAgent():
            return "is done by a command, which does the same again"
        case BuiltinAgent() as agent if agent.red_first or agent.workflow not in (None, "build"):
            return "has phases of its own, such as a failing test, which begin with the files of the target"
        case _:
            return ""


def reason_of_unmended(task: TaskState) -> ReasonPack | None:
    """
    Return the last reason again, where the candidate is the returned one without a change, on the tip where that was
    judged. None where another judgement is possible, or a person asked for it.
    """
    result = task.result
    if result is None or not result.unmended or not task.reasons or task.begins == "candidate":
        return None
    last = task.reasons[-1]
    if last.attempt != result.mended or task.base != task.judged_on:
        return None
    summary = f"it left the change of attempt {last.attempt} as it was, which came back: {last.summary}"
    return last.model_copy(update={"attempt": result.attempt, "summary": summary, "tried": _tried(task)})


def reason_of_work(result: WorkResult, *, attempt: int) -> ReasonPack:
    """Why an attempt without a candidate failed."""
    return ReasonPack(
        attempt=attempt,
        kind=_kind_of_work(result),
        summary=result.detail or f"the attempt ended as {result.outcome}",
        log_tail=excerpt(result.log_tail, LOG_TAIL_CHARS),
        paths=result.paths,
    )


def _kind_of_work(result: WorkResult) -> ReasonKind:
    match result.outcome:
        case "no_change":
            return "no_change"
        case "verify_failed":
            return "verify_failed"
        case "limits_spent":
            return "limits"
        case "out_of_scope" | "refused":
            return result.outcome
        case "agent_failed" | "needs_human" | "candidate" | "reported" | "waiting" | "infrastructure":
            return "agent_failed"
        case _:
            assert_never(result.outcome)


def reason_of_check(result: CheckResult, task: TaskState) -> ReasonPack:
    """Why a candidate was not let in: a conflict, findings of the scans, or a check that is red because of it."""
    failure = result.failures[0] if result.failures else None
    kind = _kind_of_check(result)
    detail = "the target has all of its change already" if kind == "no_change" else result.detail
    return ReasonPack(
        attempt=task.made_by,
        kind=kind,
        summary=detail or f"the gate found it {result.verdict}",
        log_tail=_log_of(failure) if failure else "",
        conflicting_entry=result.partner,
        paths=result.conflict_paths,
        reproduce=result.reproduce,
        findings=_first(finding_words(one) for one in _held(result, task)),
        tests=tuple(dict.fromkeys(test for one in result.failures for test in one.problems or one.tests))[:MOST_TESTS],
        diff_tail=result.diff_tail[-DIFF_TAIL_CHARS:],
        tried=_tried(task),
    )


def _log_of(failure: CheckFailure) -> str:
    """Return the end of the log; of a ratchet's log only what is new, since old findings keep nothing out."""
    return excerpt("\n".join(failure.problems) or failure.log_tail, LOG_TAIL_CHARS)


def _kind_of_check(result: CheckResult) -> ReasonKind:
    match result.verdict:
        case "findings" if any(one.rule == "empty-change" for one in result.findings):
            # Others have landed the same.
            return "no_change"
        case "conflict" | "findings":
            return result.verdict
        case _:
            return "check_failed"


def _held(result: CheckResult, task: TaskState) -> list[ScanFinding]:
    """Return the findings that kept it out: those that block, and those that no reviewer was to look at."""
    weights = {"blocks"} if task.reviewed else {"blocks", "attention"}
    return [one for one in result.findings if one.weight in weights and one.is_of(task.id)]


def reason_of_review(review: Review, threshold: Threshold, task: TaskState) -> ReasonPack:
    """Why a reviewer has not let a candidate through: what has to be mended, by the plan's threshold."""
    if review.outcome == "conflict":
        return ReasonPack(attempt=task.made_by, kind="conflict", summary=review.detail, tried=_tried(task))
    held = blocking(review.findings, threshold) or review.findings
    more = f" and {len(held) - 1} more" if len(held) > 1 else ""
    first = (
        f"{review_finding_words(held[0])[:SENTENCE_CHARS]}{more}" if held else one_line(review.detail or review.summary)
    )
    return ReasonPack(
        attempt=task.made_by,
        kind="review_failed",
        summary=f"its review ({', '.join(review.models) or 'by a script'}) failed it: {first}",
        paths=tuple(dict.fromkeys(one.file for one in held)),
        findings=_first(review_finding_words(one) for one in held),
        diff_tail=task.verdict.diff_tail[-DIFF_TAIL_CHARS:] if task.verdict else "",
        tried=_tried(task),
    )


def reason_of_rejection(task: TaskState, *, by: str, why: str) -> ReasonPack:
    said = f": {one_line(why)}" if why.strip() else ", without a reason"
    summary = f"{by} does not let it land{said}"
    return ReasonPack(attempt=task.made_by, kind="rejected", summary=summary, tried=_tried(task))


def review_finding_words(one: ReviewFinding) -> str:
    """`src/a.py:3: claim; evidence; fix`; without the semicolon behind a part that ends with a full stop."""
    place = f"{one.file}:{one.line}" if one.line else one.file
    parts = [part.strip() for part in (one.claim, one.evidence, one.fix) if part.strip()]
    return one_line(f"{place}: " + "; ".join(parts).replace(".; ", ". "))


def stop_asking(state: RunState) -> list[GateHalted]:
    """Return that the run stops, where task after task has met the same infrastructure mistake, and it lasts."""
    lasting = next(((kind, one) for kind, one in state.streaks.items() if one.lasts), None)
    if state.halted or lasting is None:
        return []
    kind, streak = lasting
    named = [f"'{one}'" for one in streak.tasks]
    more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
    why = (
        f"infrastructure failed {', '.join(named[:_MOST_NAMED])}{more} in the same way, for "
        f"{streak.last - streak.since:.0f} s: {one_line(streak.said)[:SENTENCE_CHARS]}; "
        f"mend it, then: forgepool resume {state.run}"
    )
    return [GateHalted(why=why, infrastructure=True, streak=kind)]


def one_line(text: str) -> str:
    """Put a foreign text on one line of a sentence: lines of their own are the harness's."""
    return " ".join(text.split())


def _first(sentences: Iterable[str]) -> tuple[str, ...]:
    return tuple(one[:SENTENCE_CHARS] for one in islice(sentences, MOST_FINDINGS))


def _tried(task: TaskState) -> str:
    return task.result.claimed_summary[:TRIED_CHARS] if task.result else ""


def reason_of_scope(outside: tuple[str, ...], declared: tuple[str, ...], *, attempt: int) -> ReasonPack:
    """Why a candidate that touched undeclared paths is refused under `scope: strict`, or with `files: []`."""
    way_out = "which its `files` do not cover; widen `files`, or use `scope: extend`"
    if not declared:
        way_out = "and `files: []` lets it change nothing; name in `files` what it may change"
    shown = ", ".join(outside[:5]) + (f" and {len(outside) - 5} more" if len(outside) > 5 else "")
    return ReasonPack(
        attempt=attempt,
        kind="out_of_scope",
        summary=f"it changed {shown}, {way_out}",
        paths=outside,
    )


def author_words(author: Author) -> str:
    """`builtin, claude-x (claude)`."""
    families = ", ".join(author.families)
    return ", ".join(dict.fromkeys((author.agent, *author.models))) + (f" ({families})" if families else "")


def describe_checks(result: CheckResult) -> tuple[str, ...]:
    """Describe the checks' results, a sentence each."""
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
    """Yield the findings, first those that count against the candidate, then the others."""
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
    return f"check '{one.check}' {how}{ran}, {one.seconds:.1f} s{one.traced_words}"


def _named(tests: tuple[str, ...]) -> str:
    return f" ({_listed(tests)})" if tests else ""


def _listed(tests: tuple[str, ...]) -> str:
    return ", ".join(tests[:10]) + (f" and {len(tests) - 10} more" if len(tests) > 10 else "")


def author_in(course: PlanIndex, state: RunState, task: TaskState) -> Author:
    """Return the author of the candidate, as submitted to a queue or as the worker reported."""
    entry = state.submitted.get(task.id)
    if entry is not None or task.result is None:
        return Author() if entry is None else entry.author
    return add_authors(author_of(course.tasks[task.id], task.result), task.works, task.result.mended)


def add_authors(own: Author, works: Mapping[int, WorkKept], mended: int | None) -> Author:
    """Return the author with those of the work that its attempt began with: they are authors, too."""
    models, families, number = own.models, own.families, mended
    while number is not None and (work := works.get(number)) is not None:
        models, families, number = (*work.models, *models), (*(work.families or ("unknown",)), *families), work.mends
    return own.model_copy(update={"models": tuple(dict.fromkeys(models)), "families": tuple(dict.fromkeys(families))})


def author_of(planned: Task, result: WorkResult | None) -> Author:
    """Return the author. A model without a reported family could be of any family; so could one without a result."""
    agent = planned.agent
    name = agent.program if isinstance(agent, CliAgent | AcpAgent) else agent.kind
    unknown = () if isinstance(agent, CommandAgent) else ("unknown",)
    if result is None:
        return Author(agent=name, families=unknown)
    return Author(agent=name, models=result.models, families=result.families or unknown)


def count_of(number: int, noun: str) -> str:
    """`1 path`, `2 paths`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def stretch(seconds: float) -> str:
    """Return a duration: `4.2 s`, `3 min 05 s`, `2 h 10 min`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def survey_words(course: PlanIndex, task: TaskState) -> str:
    """Return the end of a sentence about a survey that has ended without a report; empty for all else."""
    missing = task.id in course.graph.soft and task.phase in TERMINAL - DONE
    return "; the tasks go on without a survey" if missing else ""


def word_verdicts(phases: Sequence[str], target: str) -> tuple[str, ...]:
    """Return the sentence for a run whose tasks are in these phases, and the one of earlier versions."""
    total, landed, reported = len(phases), phases.count("landed"), phases.count("reported")
    idle = sum(phase in DONE for phase in phases) - landed - reported
    others = [f"{reported} reported"] if reported else []
    if idle:
        others.append(f"{idle} had nothing to do")
    rest = total - landed - reported - idle
    landings = f"{landed} of {count_of(total, 'task')} landed on {target}"
    earlier = ", ".join([landings, *others, *([f"{rest} did not land"] if rest else [])])
    if rest or not others:
        return (earlier,)
    parts = [f"{landed} landed on {target}"] if landed else []
    return f"{total} of {count_of(total, 'task')} done: {', '.join([*parts, *others])}", earlier
