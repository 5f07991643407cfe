"""Decisions of a run that delegates its candidates to a queue, on them and on the queue's replies. Pure."""

from collections.abc import Iterator

from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.decisions.reasons import (
    TRIED_CHARS,
    again_or_stop,
    count_of,
    describe_checks,
    reviewer_words,
)
from forgepool.orchestrator.journal.events import EntryGiven, EntryRefused, Event, TaskCancelled, TaskFailed
from forgepool.orchestrator.journal.queue_events import LAST_WORDS, Asks, GateAnswer, Word
from forgepool.orchestrator.plan.document import Plan
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import TERMINAL, TaskState
from forgepool.supervisor.messages.requests import ReviewPolicy
from forgepool.workers.schema.orders import ReasonPack


def delegate_queued(state: RunState) -> list[EntryGiven]:
    """Whatever stands in line here goes to the gate, but for what may have landed by the run's own train."""
    if not state.gate:
        return []
    waiting = state.in_phase("queued", "testing", "reviewing")
    waiting.sort(key=lambda task: task.queued_at)
    return [
        EntryGiven(task=task.id, number=task.given + 1, commit=task.candidate, gate=state.gate, tip=state.tip)
        for task in waiting
        if not task.landing_in_doubt and task.candidate
    ]


def settle_replies(course: PlanIndex, state: RunState) -> list[Event]:
    """Apply the queue's replies."""
    events: list[Event] = []
    for task in state.in_phase("given"):
        if task.told is not None:
            events += _after(course, task, task.told)
    return events


def _after(course: PlanIndex, task: TaskState, answer: GateAnswer) -> list[Event]:
    if answer.word in ("wants_person", "in_line", "landed"):
        return []
    if task.recalled:
        return [TaskCancelled(task=task.id)]
    if answer.word == "withdrawn":
        # By a person, who does not want to see it again a minute later.
        return [TaskFailed(task=task.id, reason=_reason(task, answer))]
    return [again_or_stop(course, task, _reason(task, answer))]


def _reason(task: TaskState, answer: GateAnswer) -> ReasonPack:
    """The gate's, told of the attempt that made it."""
    tried = task.result.claimed_summary[:TRIED_CHARS] if task.result is not None else ""
    if answer.reason is not None:
        return answer.reason.model_copy(update={"attempt": task.made_by, "tried": tried})
    kind = "rejected" if answer.word == "withdrawn" else "refused"
    return ReasonPack.model_validate(
        {"attempt": task.made_by, "kind": kind, "summary": f"{answer.gate}: {answer.why}", "tried": tried}
    )


def due_answers(state: RunState) -> Iterator[tuple[Asks, GateAnswer]]:
    """Yield what has changed for delegated entries since their runs were told last; after a final answer, nothing."""
    for name, entry in state.submitted.items():
        if entry.card is not None:
            asks, word = entry.card.asks, _word(state.tasks[name])
            if _is_news(state, name, asks.number, word):
                yield asks, _answer(state, state.tasks[name], asks, word)
    for refused in state.refused.values():
        if refused.asks is not None and _is_news(state, refused.name, refused.asks.number, "refused"):
            yield refused.asks, _refusal(state, refused, refused.asks)
    for stray in state.out_of_turn.values():
        if stray.asks is not None:
            yield stray.asks, _refusal(state, stray, stray.asks)


def _is_news(state: RunState, name: str, number: int, word: Word) -> bool:
    told, said = state.answered.get(name, (0, "in_line"))
    if number != told:
        return number > told and word != "in_line"
    return said != word and said not in LAST_WORDS


def _word(task: TaskState) -> Word:
    match task.phase:
        case "landed":
            return "landed"
        case "failed" | "blocked":
            return "returned"
        case "cancelled":
            return "withdrawn"
        case "needs_human":
            return "wants_person"
        case _:
            return "in_line"


def _answer(state: RunState, task: TaskState, asks: Asks, word: Word) -> GateAnswer:
    told = GateAnswer(gate=state.run, entry=task.id, number=asks.number, word=word, why=task.question or task.detail)
    if word == "landed":
        return told.model_copy(
            update={"commit": task.commit, "proofs": _proofs(task), "certificates": task.certificates}
        )
    reason = task.reasons[-1] if task.phase == "failed" and task.reasons else None
    return told.model_copy(update={"reason": reason})


def _proofs(task: TaskState) -> tuple[str, ...]:
    said = [*describe_checks(task.verdict)] if task.verdict is not None else []
    if task.review.answer is not None:
        said.append(f"review: {task.review.answer.outcome} by {reviewer_words(task.review.answer)}")
    if task.review.person is not None:
        said.append(f"approved by {task.review.person.by}, for {task.review.person.commit[:12]}")
    return tuple(said)


def _refusal(state: RunState, refused: EntryRefused, asks: Asks) -> GateAnswer:
    """
    Answer for a refused submission. If the name has landed already, by an earlier delegation, it counts as landed.
    """
    told = GateAnswer(gate=state.run, entry=refused.name, number=asks.number, word=refused.word, why=refused.why)
    task = state.tasks.get(refused.name)
    if task is None or task.phase != "landed":
        return told
    why = "an earlier candidate of it had landed already"
    return told.model_copy(update={"word": "landed", "commit": task.commit, "why": why})


def why_not_through(plan: Plan, gate: str) -> str | None:
    """Return the part of a plan that a queue could not keep to, in one sentence; None where it can be delegated."""
    found = next(_beyond(plan), None)
    if found is None:
        return None
    what, mend = found
    return f"{plan.target} is kept by {gate}: {what}; {mend}, or land past it with --own-train"


def _beyond(plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield settings that only a person may give a run, each with what would be right."""
    if isinstance(plan.checks, tuple) and plan.checks:
        what = (
            f"plan {plan.name} has checks of its own, and those of {plan.target}:forgepool.yaml alone are asked there"
        )
        yield what, "put them there, and say nothing of `checks` in the plan"
    for task in plan.tasks:
        if task.grants or task.waive:
            key = "grants" if task.grants else "waive"
            what = f"task '{task.id}' has `{key}`, which a queue takes from a person alone"
            yield what, "take it out, and let a person push what is protected"
    policy = plan.review.policy if plan.review is not None and plan.review != "none" else ReviewPolicy()
    if policy.by or policy.script is not None or policy.reviewers > 1 or policy.lenses:
        what = f"plan {plan.name} names its reviewers, but a queue has its own"
        yield what, "leave `by`, `scripted`, `reviewers` and `lenses` out"
    if plan.gate.wave is not None:
        yield f"plan {plan.name} has a `wave`, which belongs to a train of the run's own", "take it out"


def unheard(state: RunState) -> str:
    """Return the sentence about a silent queue."""
    where = f"forgepool queue serve --repo {state.hub} --target {state.target}"
    waiting = count_of(len(state.in_phase("given")), "candidate")
    return f"nothing is heard of {state.gate}, which has {waiting} of this run; keep it again, on its host: {where}"


def gate_words(state: RunState, task: TaskState) -> str:
    """Return, in a few words, why a delegated candidate waits."""
    wanted_back = "is wanted back from" if task.recalled else "at"
    if task.told is not None and task.told.word == "wants_person":
        return f"a person is wanted at {state.gate}: {task.told.why}"
    if state.gate_away:
        return f"{wanted_back} {state.gate}, which is silent"
    return f"{wanted_back} {state.gate}"


def why_held_up(state: RunState, *, patient: bool) -> str:
    """Why a run cannot go on by itself, whatever it waits for; empty where it may."""
    given = state.in_phase("given")
    wanted = [task for task in given if task.told is not None and task.told.word == "wants_person"]
    waiting = [task for task in wanted if not task.recalled]
    if given and len(waiting) == len(given):
        more = f", and {len(waiting) - 1} more wait so" if len(waiting) > 1 else ""
        return f"'{waiting[0].id}': {gate_words(state, waiting[0])}{more}"
    if state.gate_away and not patient:
        left = sum(task.phase not in TERMINAL for task in state.tasks.values())
        return f"{state.gate_away} ({count_of(left, 'task')} left)"
    return ""
