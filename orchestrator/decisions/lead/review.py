"""
The review of a lead's synthesis by a model of another family, and the synthesis as it is shown with it. Pure.

The review holds up nothing but the run's end, and that for a bounded time. One that cannot be had, or is lost twice, is
given up, and the report says why.
"""

import re
from collections.abc import Iterator

from forgepool.orchestrator.decisions.lead.results import header, summary_of
from forgepool.orchestrator.decisions.lead.synthesis import (
    DONE_WORDS,
    GREEN,
    LANDED,
    MEASURED,
    REVIEWED,
    digest_synthesis,
    prove_synthesis,
)
from forgepool.orchestrator.decisions.orders.purse import face_review, may_come_back
from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.decisions.reasons import author_in, count_of, one_line
from forgepool.orchestrator.decisions.reviews.task_reviews import limits, needs_money
from forgepool.orchestrator.journal.events import MessageLost
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import DONE, TERMINAL, TaskState
from forgepool.supervisor.messages.answers import SynthesisReview
from forgepool.supervisor.messages.requests import SynthesisOf, ToldResult
from forgepool.workers.schema.reports import Report

_MOST_TROUBLES = 2
"""Reviews in a row that may be lost or fail for infrastructure; each may have been paid."""
_PATIENCE_S = 900.0
"""Seconds for which the run waits for a worker to take the review, and for a model's limit to end."""
_UNHELD = f"no worker took it within {_PATIENCE_S / 60:.0f} minutes"
_GOAL_CHARACTERS = 16_000
_ALL_CHARACTERS = 256_000
"""The most characters of all results that the reviewer is told."""
_OPENS = re.compile(r"<(?=[/!?])")
"""The begin of HTML that may end a quotation, or hide what follows it."""
_NOTE = (
    "The quoted text is the lead's. The journal confirms, for the tasks and commits that it names, each sentence with "
    f"one of these English words: {', '.join((*LANDED, *DONE_WORDS, *GREEN, *MEASURED, *REVIEWED))}. Nothing else in "
    "it is proven."
)


def view_review(course: PlanIndex, state: RunState) -> SynthesisReview | None:
    """Return how the review of the lead's synthesis stands; None before there is a synthesis."""
    lead = _find_reported(course, state)
    if lead is None:
        return None
    answer = lead.review.answer
    if answer is not None and answer.objections is not None:
        return SynthesisReview(
            outcome="objects" if answer.objections else "agrees",
            models=answer.models,
            families=answer.families,
            same_family=answer.same_family,
            objections=answer.objections,
            dropped=len(answer.voids),
        )
    why = _why_none(course, state, lead) or ("the run has ended without a review" if state.finished else "")
    return SynthesisReview(outcome="none", why=why) if why else SynthesisReview(outcome="waits")


def find_due(course: PlanIndex, state: RunState) -> TaskState | None:
    """Return the lead whose synthesis is to be reviewed now that every task has ended, or is under review."""
    if not state.all_ended:
        return None
    view = view_review(course, state)
    return _find_reported(course, state) if view is not None and view.outcome == "waits" else None


def give_up_unheld(course: PlanIndex, state: RunState, now: float) -> list[MessageLost]:
    """Give up a review that no worker has taken for a while: nothing else keeps the run from its end."""
    lead = _find_reported(course, state)
    message = None if lead is None else lead.review.message
    if lead is None or message is None or lead.review.holder or now < message.issued_at + _PATIENCE_S:
        return []
    return [MessageLost(message_id=message.message_id, why=_UNHELD)] if state.all_ended else []


def _find_reported(course: PlanIndex, state: RunState) -> TaskState | None:
    lead = state.tasks.get(course.lead or "")
    return lead if lead is not None and lead.report is not None else None


def _why_none(course: PlanIndex, state: RunState, lead: TaskState) -> str:
    """Return why the synthesis is not reviewed; empty while it may be."""
    review, answer = lead.review, lead.review.answer
    if review.message is not None:
        return ""
    if answer is not None:
        return _describe(answer.outcome, answer.detail)
    if len(state.tasks) == 1:
        return "the run has no other task whose result could bear it"
    if not course.wants_review(lead):
        return "the plan says `review: none`"
    if course.wants_person(lead):
        return "the plan says `review: person`, so no model is asked"
    if review.limit_until > review.limited_at + _PATIENCE_S:
        return f"its reviewers have reached a usage limit: {review.detail}"
    unheld = review.detail == _UNHELD
    if unheld or review.troubles >= _MOST_TROUBLES:
        return _UNHELD if unheld else f"{review.troubles} requests for a review failed, lastly: {review.detail}"
    if state.halted:
        return f"the run had stopped: {state.halted}"
    if lead.report is not None and not prove_synthesis(lead.report, state).text:
        return "nothing of it is confirmed"
    return _describe_budget(course, state)


def _describe(outcome: str, detail: str) -> str:
    match outcome:
        case "unreachable":
            return f"no model of another family could be asked: {detail}"
        case "not_configured":
            return f"its reviewers cannot be asked as they are set: {detail}"
        case "limits":
            return f"its review used up its limits: {detail}"
        case _:
            return f"its reviewer gave no answer that counts: {detail}"


def _describe_budget(course: PlanIndex, state: RunState) -> str:
    """Return that the budget has no room for a review; empty where it has, or may have again."""
    face, alone = face_review(course, state), course.within(None)
    if not face.budget(state).capped or not needs_money(course) or may_come_back(state):
        return ""
    ledger = face.ledger_for(state)
    if alone is not course and alone.ledger_for(state).find_used_up(limits(course)) is None:
        full = course.treasury is not None and course.treasury.open and ledger.find_used_up(limits(course))
        return "the treasury leaves no room for it" if full else ""
    match ledger.find_used_up(limits(course)):
        case "usd":
            used = f"{ledger.usd:.2f} of {ledger.cap.usd:.2f} USD"
        case "tokens":
            used = f"{ledger.tokens:,} of {ledger.cap.tokens:,} tokens"
        case None:
            return ""
    return f"the run's budget has no room for it: {used} are spent or reserved"


def write_subject(course: PlanIndex, state: RunState, lead: TaskState) -> SynthesisOf:
    """Return what the reviewer is told: the synthesis as proven, the goal, and the results of the other tasks."""
    # It imports much that commands which only show a run do not need.
    from forgepool.workers.agents.briefing.task_card import report_text

    planned, proven = course.tasks[lead.id], prove_synthesis(lead.report or Report(summary=""), state)
    frames = (note.parts for note in state.lead.notes if note.kind == "frame")
    frame = next(frames, {})
    left, results = _ALL_CHARACTERS, []
    for task in state.in_phase(*TERMINAL):
        if task.id == lead.id:
            continue
        report, title = task.report, course.tasks[task.id].title
        text = summary_of(course, task, full=True) if report is None else report_text(task.id, title, report)
        text = text if len(text) <= left else ""
        left -= len(text)
        results.append(ToldResult(task=task.id, header=header(course, task), text=text))
    return SynthesisOf(
        number=lead.review.sent,
        goal=f"{planned.title}\n\n{planned.description}"[:_GOAL_CHARACTERS],
        frame="\n".join(f"{name.replace('_', ' ')}: {'; '.join(lines)}" for name, lines in frame.items()),
        text=proven.text,
        struck=tuple(f"{sentence} ({why})" for sentence, why in proven.struck),
        results=tuple(results),
        author=author_in(course, state, lead),
    )


def synthesis_lines(course: PlanIndex, state: RunState) -> Iterator[str]:
    """
    Yield the synthesis of the run's lead as it is proven now, and its review; nothing before it has ended with one. Its
    own text is quoted, so that none of it is taken for the harness's.
    """
    lead, view = _find_reported(course, state), view_review(course, state)
    if lead is None or lead.report is None or view is None:
        return
    proven = prove_synthesis(lead.report, state)
    yield from (f"> {_inert(line)}".rstrip() for line in proven.text.split("\n"))
    if proven.struck:
        yield from ("", "### Not confirmed", "")
        yield from (f"- {_inert(sentence)} ({why})" for sentence, why in proven.struck)
    same = view.outcome not in ("agrees", "objects") or (
        state.lead.reviewed_text in ("", digest_synthesis(lead.report, state))
    )
    earlier = "" if same else " It has reviewed an earlier state of this text."
    yield from ("", f"{_NOTE} {_inert(_describe_view(view))}{earlier}")
    if view.objections:
        yield from ("", "### Objections", "")
        yield from (f'- "{_inert(one_line(one.quote))}": {_inert(one_line(one.why))}' for one in view.objections)
    undone = [task for task in state.tasks.values() if task.phase not in DONE]
    if undone:
        yield from ("", "### Not done", "")
        yield from (f"- {task.id} ({task.phase}): {one_line(task.detail)}" for task in undone)


def _inert(text: str) -> str:
    """Return the text as it can end no quotation and hide nothing."""
    return _OPENS.sub("< ", text)


def _describe_view(view: SynthesisReview) -> str:
    if view.outcome == "waits":
        return "A model of another family is asked about it before the run ends."
    if view.outcome == "none":
        return f"No other model has reviewed this text: {one_line(view.why)}."
    who = "Another model of the lead's own family" if view.same_family else "A model of another family"
    name = ", ".join(view.models) + (f" ({', '.join(view.families)})" if view.families else "")
    found = count_of(len(view.objections), "sentence") if view.objections else "nothing in it"
    dropped = count_of(view.dropped, "more objection")
    rest = f" {dropped} quoted no sentence of it, and {'is' if view.dropped == 1 else 'are'} left out."
    return f"{who}, {name}, has held it against the results, and objects to {found}.{rest if view.dropped else ''}"
