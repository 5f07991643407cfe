"""
When what has landed is reviewed as a whole, with how much of the budget, and what follows from the answer: pure.

It comes after all checks were green on the same tip. Failed, the gate is shut until the target is another or a person
has answered for it. Where nobody could give a verdict, landing goes on in the middle of a run, and the next review is
about these landings, too; at the end of it a person is waited for. A run does not end before.
"""

from forgepool.orchestrator.decisions.orders.retries import one_line
from forgepool.orchestrator.decisions.orders.start_orders import budget_question, may_come_back, token
from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.decisions.reviews.post_merge import is_due as is_wave_due
from forgepool.orchestrator.decisions.reviews.post_merge import list_landed_after, next_wave, of_landings
from forgepool.orchestrator.decisions.reviews.task_reviews import limits, needs_money
from forgepool.orchestrator.journal.events import Event, GateHalted, WaveApproved, WaveReviewSent
from forgepool.orchestrator.plan.budget import Reservation
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import MOST_TROUBLES, TERMINAL
from forgepool.supervisor.findings import blocking
from forgepool.supervisor.messages import Review

_CLAIM_CHARACTERS = 300


def is_due(course: PlanIndex, state: RunState) -> bool:
    """Whether the run may neither let anything in nor end before somebody has looked at what has landed."""
    if course.integration_review == "never":
        return False
    if all(task.phase in TERMINAL for task in state.tasks.values()):
        return bool(unseen(state))
    return course.integration_review == "each" and _is_due_now(course, state)


def _is_due_now(course: PlanIndex, state: RunState) -> bool:
    """In the middle of a run: of landings that a green wave has seen, and of which nobody was asked in vain."""
    asked = max(state.wave_review.upto, state.wave_review.tried)
    if state.wave.upto <= asked:
        return False
    seen = any(state.tasks[one].landed_at <= state.wave.upto for one in list_landed_after(state, asked))
    return seen and _used_up(course, state) is None


def unseen(state: RunState) -> tuple[str, ...]:
    """Tasks that have landed, and that nobody has passed as a whole."""
    return list_landed_after(state, state.wave_review.upto)


def next_look(course: PlanIndex, state: RunState, now: float) -> list[Event]:
    """Once the gate is free: the request for all checks on the target, and when these are green, for its review."""
    if not _is_green(course, state):
        return [*next_wave(state, now)]
    own = state.wave_review.review
    if own.not_before > now:
        return []
    reserved: Reservation | None = Reservation()
    if needs_money(course):
        reserved = course.ledger(state).reserve(limits(course), useful=1, last=not may_come_back(state))
    return [] if reserved is None else [_sent(state, now, reserved)]


def _is_green(course: PlanIndex, state: RunState) -> bool:
    """Whether all checks were green on the very tip, and nothing has landed since."""
    return state.tip == state.wave.since and not is_wave_due(course, state)


def _sent(state: RunState, now: float, reserved: Reservation) -> WaveReviewSent:
    own = state.wave_review
    number = own.review.sent + 1
    message_id = f"{state.run}.wave-review-{number}"
    return WaveReviewSent(
        number=number,
        message_id=message_id,
        token=token(message_id, now),
        base=own.since,
        tip=state.tip,
        tasks=unseen(state),
        issued_at=now,
        reserved_usd=reserved.usd,
        reserved_tokens=reserved.tokens,
    )


def give_up_review(course: PlanIndex, state: RunState) -> list[GateHalted]:
    """That the gate is shut, where asking once more would not help; what was said of another tip shuts nothing."""
    own = state.wave_review
    if state.halted or own.review.message is not None or not is_due(course, state):
        return []
    if own.review.troubles >= MOST_TROUBLES:
        lastly = f"infrastructure failed it {own.review.troubles} times in a row, lastly: {own.review.detail}"
        return [GateHalted(why=f"{_about(state)}: {lastly}", infrastructure=True, reviewed=True)]
    if own.against is not None and own.tip == state.tip:
        return [GateHalted(why=_why(course, state, own.against), reviewed=True)]
    if _is_green(course, state) and (short := _used_up(course, state)) is not None:
        return [GateHalted(why=f"{_about(state)} cannot be paid: {short}; or without: {by_hand(state)}", reviewed=True)]
    return []


def approve(course: PlanIndex, state: RunState, *, tip: str, by: str) -> list[Event]:
    """Empty where there is nothing to approve, as `why_not_approve` says, and where the target is another by now."""
    if tip != state.tip or why_not_approve(course, state) is not None:
        return []
    return [WaveApproved(by=by, tip=tip)]


def why_not_approve(course: PlanIndex, state: RunState) -> str | None:
    """What stands against a person's word on what has landed, to be read after the run's name; None where nothing."""
    if course.integration_review == "never":
        return "has nothing reviewed as a whole: its plan says no 'integration_review'"
    if not unseen(state):
        return "has nothing landed that waits to be looked at as a whole"
    own = state.wave_review
    asked = own.review.message is not None or own.against is not None or own.review.troubles
    if not asked and not is_due(course, state):
        return "waits for nobody's word on what has landed: it has not come to that yet"
    return None


def by_hand(state: RunState) -> str:
    """The command by which a person says what no reviewer could."""
    return f"forgepool approve {state.run} --wave --by NAME answers for it"


def _about(state: RunState) -> str:
    own = state.wave_review
    return f"the review of {of_landings(unseen(state))} as a whole, {own.since[:12]}..{state.tip[:12]},"


def _why(course: PlanIndex, state: RunState, answer: Review) -> str:
    """One sentence, with what a person can do."""
    if answer.outcome == "failed":
        mend = f"nothing is taken back; mend it on {state.target} and resume, or {by_hand(state)}"
        return f"{_about(state)} found {_found(course, answer)}; {mend}"
    again = f"forgepool resume {state.run} asks again, {by_hand(state)}"
    return f"a person has to look: {_about(state)} {_why_none(answer)}; {again}"


def _found(course: PlanIndex, answer: Review) -> str:
    held = blocking(answer.findings, course.review_policy.threshold)
    if not held:
        return answer.detail
    first, more = held[0], f" (and {len(held) - 1} more)" if held[1:] else ""
    place = f"{first.file}:{first.line}" if first.line else first.file
    return f"{place}: {one_line(first.claim)[:_CLAIM_CHARACTERS]}{more}"


def _why_none(answer: Review) -> str:
    match answer.outcome:
        case "unreachable":
            return f"can be given by nobody of another family than all its authors: {answer.detail}"
        case "not_configured":
            return f"cannot be asked for as its reviewers are set: {answer.detail}"
        case "void":
            return f"gave no verdict that counts: {'; '.join(answer.voids) or answer.detail}"
        case "limits":
            return f"used up its limits: {answer.detail}"
        case _:
            return f"ended as '{answer.outcome}': {answer.detail}"


def _used_up(course: PlanIndex, state: RunState) -> str | None:
    """What is to be said of the budget, where too little of it is left and nothing may come back; None where enough."""
    if not course.budget(state).capped or not needs_money(course) or may_come_back(state):
        return None
    ledger = course.ledger(state)
    kind = ledger.find_used_up(limits(course))
    return None if kind is None else budget_question(state, ledger, kind)
