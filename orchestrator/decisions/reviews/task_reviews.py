"""
Which reviews to ask for now, with how much of the run's budget, and what follows from their answers: pure.
"""

import time
from collections.abc import Iterator
from functools import reduce

from forgepool.orchestrator.decisions.lead.synthesis import digest_synthesis
from forgepool.orchestrator.decisions.orders.money import ask_for_treasury, budget_question
from forgepool.orchestrator.decisions.orders.purse import (
    cut_limits,
    face_accounts,
    face_review,
    find_review_accounts,
    has_account_limits,
    may_come_back,
)
from forgepool.orchestrator.decisions.orders.start_orders import token
from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.decisions.reasons import again_or_stop, reason_of_review
from forgepool.orchestrator.journal.events import Event, ReviewAwaited, ReviewSent, TaskParked, TreasuryLimited
from forgepool.orchestrator.plan.budget import BudgetLedger, Reservation, Use, find_least_share
from forgepool.orchestrator.state.review import ReviewState
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import MOST_TROUBLES, TaskState
from forgepool.supervisor.messages.answers import Review
from forgepool.supervisor.messages.requests import MOST_REVIEWERS, ReviewPolicy
from forgepool.workers.llm.batch import BatchCall
from forgepool.workers.schema.orders import Limits

_EVENING, _MORNING = 22, 7
"""The hours of the night, by the clock of the orchestrator's host."""
MOST_REVIEWS = 4
"""
Verdicts on one candidate. Who lands meanwhile may change the diff around its lines each time: then a person is asked.
"""


def next_reviews(
    course: PlanIndex, state: RunState, now: float, slots: int, synthesis: TaskState | None = None
) -> list[ReviewSent]:
    """
    First those that wait for nothing else, in the order in which they came to the gate; with `side_by_side` also those
    whose checks are still to be run. A lead's `synthesis` comes last. It is asked for without a worker, too, so that
    the run says that one is missing, and gives it up.
    """
    slots = max(slots, synthesis is not None)
    free = slots - sum(one.message is not None for one in (state.wave_review.review, *state.reviews()))
    if free <= 0 or state.halted:
        return []
    wanting = (*_wanting(course, state), *((synthesis,) if synthesis is not None else ()))
    able = [task for task in wanting if task.review.message is None and task.review.not_before <= now]
    if not able:
        return []
    sent: list[ReviewSent] = []
    taken: list[Reservation] = []
    last = not may_come_back(state)
    # Those in a batch have their money, and waiting longer costs them nothing.
    fresh, batched = ([task for task in able if (task.review.batch is None) == new] for new in (True, False))
    for task in fresh[:free]:
        reserved = Reservation()
        if needs_money(course):
            face, least = face_review(course, state, task), _least_to_review(course, state, task)
            ledger = reduce(BudgetLedger.with_reserved, taken, face.ledger_for(state))
            found = ledger.reserve(limits(course, task), useful=min(free, len(fresh)), last=last, least=least)
            if found is None and face is not course:
                continue  # Others may have other reviewers.
            if found is None:
                break
            reserved, last = found, False
            taken.append(found)
        sent.append(_review(course, state, task, now, reserved))
    looks = batched[: free - len(sent)]
    return [*sent, *(_review(course, state, task, now, get_reservation(task.review)) for task in looks)]


def needs_money(course: PlanIndex) -> bool:
    return course.review_policy.script is None


def review_policy_of(course: PlanIndex, task: TaskState) -> ReviewPolicy:
    """Return the plan's policy, with one more family of reviewers for each model of the ladder before the task's."""
    own, more = course.review_policy, course.rungs.get(task.id, 1) - 1
    if more < 1 or own.script is not None or task.id in course.models:
        return own
    return own.model_copy(update={"reviewers": min(own.reviewers + more, MOST_REVIEWERS)})


def limits(course: PlanIndex, task: TaskState | None = None) -> Limits:
    """
    Return the limits of a whole review, of a task or as the plan has it. Its policy limits one conversation; each
    reviewer and the judge have one.
    """
    policy = course.review_policy if task is None else review_policy_of(course, task)
    conversations = policy.reviewers + (policy.reviewers > 1)
    one = policy.limits
    return one.model_copy(
        update={
            "cost_usd": None if one.cost_usd is None else one.cost_usd * conversations,
            "tokens": None if one.tokens is None else one.tokens * conversations,
        }
    )


def out_of_budget_for_review(course: PlanIndex, state: RunState) -> list[TaskParked | TreasuryLimited]:
    """Candidates that wait for nothing but a review for which too little of the budget is left."""
    capped = course.budget(state).capped or has_account_limits(course)
    if not capped or not needs_money(course) or may_come_back(state):
        return []
    alone = course.within(None)
    parked: list[TaskParked | TreasuryLimited] = []
    for task in state.in_phase("reviewing"):
        face = face_review(course, state, task)
        ledger = face.ledger_for(state)
        kind = ledger.find_used_up(limits(course, task), least=_least_to_review(course, state, task))
        if kind is not None and alone is not course and can_pay_review(alone, state, task):
            rest = f"; or without its review: {by_hand(state, task)}"
            parked += ask_for_treasury(face, state, task, told=parked, review=True, rest=rest)
        elif kind is not None:
            question = f"its review cannot be paid: {budget_question(state, ledger, kind)}; or without: "
            parked.append(TaskParked(task=task.id, question=question + by_hand(state, task), why="budget"))
    return parked


def _least_to_review(course: PlanIndex, state: RunState, task: TaskState) -> Reservation:
    """Return the least that a review is asked for with: more than that of one that has used up its part."""
    review = task.review
    if review.answer is None or review.answer.outcome != "limits":
        return Reservation()
    use, share = review.uses.get(review.sent, Use()), find_least_share(course.budget(state))
    return Reservation(
        usd=None if share.usd is None else (use.reserved_usd or 0.0) + share.usd,
        tokens=None if share.tokens is None else (use.reserved_tokens or 0) + share.tokens,
    )


def can_pay_review(course: PlanIndex, state: RunState, task: TaskState) -> bool:
    """Tell whether the rest of the budget is enough for the review of a candidate that waits for it."""
    if not needs_money(course):
        return True
    least, face = _least_to_review(course, state, task), face_review(course, state, task)
    return face.ledger_for(state).find_used_up(limits(course, task), least=least) is None


def short_of_budget_for_review(course: PlanIndex, state: RunState) -> bool:
    """Tell whether a review that could be requested otherwise waits for money."""
    if not needs_money(course) or not course.budget(state).capped:
        return False
    return course.ledger_for(state).reserve(limits(course), useful=1, last=not may_come_back(state)) is None


def to_be_awaited(course: PlanIndex, task: TaskState) -> list[Event]:
    """That an entry waits for its review: once it is green by itself, or before its checks in a plan of that order."""
    if not course.wants_review(task) or task.review.passed:
        return []
    due = course.plan.gate.order == "review_first" or (task.verdict is not None and task.verdict.verdict == "green")
    return [ReviewAwaited(task=task.id)] if due else []


def give_up_review(course: PlanIndex, state: RunState, task: TaskState) -> list[Event]:
    """That a person is asked, where asking once more would not help."""
    review = task.review
    if review.message is not None:
        return []
    if course.wants_person(task) and not course.serving:
        return [_parked(state, task, "the plan, or its target, says `review: person`")]
    if review.troubles >= MOST_TROUBLES:
        return [
            _parked(state, task, f"infrastructure failed it {review.troubles} times in a row, lastly: {review.detail}")
        ]
    if review.verdicts >= MOST_REVIEWS:
        changed = "each time other landings had changed the lines around its own before it could land"
        return [_parked(state, task, f"it was passed {review.verdicts} times, and {changed}")]
    return []


def after_review(course: PlanIndex, state: RunState, task: TaskState, review: Review) -> Event:
    """Return the event that follows from a review that did not pass."""
    match review.outcome:
        case "failed" | "conflict":
            reason = reason_of_review(review, course.review_policy.threshold, task)
            return again_or_stop(course, task, reason)
        case "limits" if _cut_by_budget(course, state, task, review):
            question = (
                "the part of the run's budget that its review was given was not enough; give the run's new budget, and "
                f"it is asked again: forgepool budget {state.run} --usd USD; or without: {by_hand(state, task)}"
            )
            return TaskParked(task=task.id, question=question, why="budget")
        case _:
            return _parked(state, task, _why_none(review))


def park_unapproved(state: RunState, task: TaskState, why: str) -> TaskParked:
    """A lander has found its approval wanting: that is to be mended for this candidate, and stops no other."""
    return _parked(state, task, why)


def by_hand(state: RunState, task: TaskState) -> str:
    """The commands by which a person says what no reviewer could."""
    where = f"{state.run} {task.id}"
    return (
        f"forgepool approve {where} --by NAME lets {task.candidate[:12]} land, "
        f"forgepool reject {where} REASON --by NAME gives it back, forgepool retry {where} starts it again"
    )


def _wanting(course: PlanIndex, state: RunState) -> Iterator[TaskState]:
    waiting = state.in_phase("reviewing")
    if course.plan.gate.order == "side_by_side":
        at_checks = state.in_phase("queued", "testing")
        waiting += [task for task in at_checks if course.wants_review(task) and not task.review.passed]
    for task in sorted(waiting, key=lambda task: (task.phase != "reviewing", task.queued_at)):
        review = task.review
        if course.wants_person(task):
            continue
        if review.message is None and review.troubles < MOST_TROUBLES and review.verdicts < MOST_REVIEWS:
            yield task


def next_batch_call(course: PlanIndex, review: ReviewState, message_id: str, now: float) -> BatchCall | None:
    """Return the call in a batch lane that the next request is about; None where it is made live."""
    policy = course.review_policy
    if review.batch is not None:
        return review.batch
    hour = time.localtime(now).tm_hour
    if policy.lane == "live" or review.live or (policy.when == "night" and _MORNING <= hour < _EVENING):
        return None
    return BatchCall(key=message_id, since=now, until=now + policy.deadline)


def write_batch_call(state: RunState, own: ReviewState, *, resent: bool) -> BatchCall | None:
    """Return the call as its request has it, with the batches that are known to be those of other reviews."""
    if own.batch is None:
        return None
    every = (one for one in (state.wave_review.review, *state.reviews()) if one is not own)
    tickets = (one.batch.ticket for one in every if one.batch is not None)
    ids = tuple(ticket.id for ticket in tickets if ticket is not None and ticket.id)
    return own.batch.model_copy(update={"again": own.batch.again or resent, "others": ids})


def get_reservation(own: ReviewState) -> Reservation:
    """Return what is reserved for its last request."""
    use = own.uses.get(own.sent, Use())
    return Reservation(usd=use.reserved_usd, tokens=use.reserved_tokens)


def _review(course: PlanIndex, state: RunState, task: TaskState, now: float, reserved: Reservation) -> ReviewSent:
    number, own = task.review.sent + 1, task.review
    message_id = f"{state.run}.{task.id}.{task.made_by}.review-{number}"
    at_tip = task.base if task.phase == "testing" else state.tip
    # A batch has one reviewer, and a later model of a ladder is read by more.
    may_batch = task.report is None and review_policy_of(course, task).reviewers == 1
    return ReviewSent(
        task=task.id,
        number=number,
        message_id=message_id,
        token=token(message_id, now),
        base=at_tip if own.batch is None else own.base,
        issued_at=now,
        reserved_usd=reserved.usd,
        reserved_tokens=reserved.tokens,
        synthesis=digest_synthesis(task.report, state) if task.report is not None else "",
        batch=next_batch_call(course, own, message_id, now) if may_batch else None,
        accounts=find_review_accounts(course, state, task),
    )


def _cut_by_budget(course: PlanIndex, state: RunState, task: TaskState, review: Review) -> bool:
    """Tell whether the run's budget cut it short, and not a limit of the review's own."""
    own, use = limits(course, task), task.review.uses.get(task.review.sent)
    if use is None or not face_accounts(course, use.accounts).budget(state).capped or not needs_money(course):
        return False
    timed = review.seconds - review.waited_s >= own.wall_s or (
        own.turns is not None and review.spent.turns >= own.turns
    )
    return not timed and bool(cut_limits(use, own))


def _why_none(review: Review) -> str:
    match review.outcome:
        case "unreachable":
            return f"no model may review it: {review.detail}"
        case "not_configured":
            return f"its reviewers cannot be asked as they are set: {review.detail}"
        case "void":
            voids = "; ".join(review.voids) or review.detail
            return f"its reviewer gave no verdict that counts: {voids}"
        case "limits":
            return f"its review used up its limits: {review.detail}"
        case _:
            return f"its review ended as '{review.outcome}': {review.detail}"


def _parked(state: RunState, task: TaskState, why: str) -> TaskParked:
    question = f"{why}; {by_hand(state, task)}"
    return TaskParked(task=task.id, question=question, why="review")
