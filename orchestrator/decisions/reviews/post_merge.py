"""
When all checks are run on the target itself, and what follows: pure.

A wave is due after every so many landings since one was green, and at the end of the run if anything has landed since.
"""

from collections.abc import Sequence

from forgepool.orchestrator.decisions.orders.money import budget_question
from forgepool.orchestrator.decisions.orders.purse import face_review, find_review_accounts, may_come_back
from forgepool.orchestrator.decisions.orders.start_orders import find_tasks_held_by_base, token
from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.decisions.reasons import one_line
from forgepool.orchestrator.decisions.reviews.task_reviews import get_reservation, limits, needs_money, next_batch_call
from forgepool.orchestrator.journal.events import Event, GateHalted, WaveApproved, WaveReviewSent, WaveSent
from forgepool.orchestrator.plan.budget import Reservation
from forgepool.orchestrator.state.post_merge import WaveState
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.streaks import is_pausing
from forgepool.orchestrator.state.task import IN_FLIGHT, MOST_TROUBLES
from forgepool.supervisor.findings import blocking
from forgepool.supervisor.messages.answers import CheckResult, Review
from forgepool.workers.schema.error_lines import error_lines


def is_check_due(course: PlanIndex, state: RunState) -> bool:
    """Tell whether the run must find the whole target green before it lets anything in, or ends."""
    wanted = course.plan.gate.wave
    if wanted is None or not (landed := len(list_landed_since(state))):
        return False
    if wanted.every is not None and landed >= wanted.every:
        return True
    return state.all_ended


def next_wave(state: RunState, now: float) -> list[WaveSent]:
    """The request for it, once the gate is free."""
    wave = state.wave
    if wave.message is not None or is_pausing(wave.not_before, now):
        return []
    landed = list_landed_since(state)
    if landed:
        return [request_all_checks(state, now, "wave", since=wave.since, tasks=landed)]
    tasks = list_landed_after(state, state.wave_review.upto)
    return [request_all_checks(state, now, "wave", since=state.wave_review.since, tasks=tasks)]


def request_all_checks(state: RunState, now: float, word: str, *, since: str, tasks: tuple[str, ...]) -> WaveSent:
    """Return the request for all checks on the target, after these landings; the word begins its name."""
    number = state.wave.number + 1
    message_id = f"{state.run}.{word}-{number}"
    return WaveSent(
        number=number,
        message_id=message_id,
        token=token(message_id, now),
        base=state.tip,
        since=since,
        tasks=tasks,
        issued_at=now,
    )


def give_up_check(state: RunState) -> list[GateHalted]:
    """Give the check up after too many infrastructure failures: an unanswered question is not taken for green."""
    if state.wave.troubles < MOST_TROUBLES or state.halted:
        return []
    why = f"{landings_of(state.wave)}: infrastructure failed it {state.wave.troubles} times in a row, lastly: "
    return [GateHalted(why=why + state.wave.detail, infrastructure=True)]


def list_landed_since(state: RunState) -> tuple[str, ...]:
    """Tasks that have landed since the target was found green as a whole, in their order."""
    return list_landed_after(state, state.wave.upto)


def list_landed_after(state: RunState, number: int) -> tuple[str, ...]:
    """Tasks that have landed after the event of that number, in their order."""
    return tuple(task.id for task in state.find_landed(after=number))


def landings_of(wave: WaveState) -> str:
    """`all checks on c7 after the landings of 'a', 'b' and 9 more since c3`, commits shortened."""
    if not wave.tasks:
        return f"all checks on {wave.base[:12]}, before anything has landed on it"
    return f"all checks on {wave.base[:12]}, after {of_landings(wave.tasks)} since {wave.asked_since[:12]}"


def of_landings(tasks: Sequence[str]) -> str:
    """`the landings of 'a', 'b' and 9 more`."""
    shown = ", ".join(f"'{task}'" for task in tasks[:10])
    more = f" and {len(tasks) - 10} more" if len(tasks) > 10 else ""
    return f"the landings of {shown}{more}"


_CLAIM_CHARACTERS = 300


def is_review_due(course: PlanIndex, state: RunState) -> bool:
    """Tell whether the landings need a review before the run lets anything in, or ends."""
    if course.integration_review == "never":
        return False
    if state.all_ended:
        return bool(list_unreviewed(state))
    return course.integration_review == "each" and _is_due_now(course, state)


def _is_due_now(course: PlanIndex, state: RunState) -> bool:
    """
    Tell whether a review is due in the middle of a run: the landings are green as a whole, and no request for them
    failed.
    """
    asked = max(state.wave_review.upto, state.wave_review.tried)
    if state.wave.upto <= asked:
        return False
    seen = any(state.tasks[one].landed_at <= state.wave.upto for one in list_landed_after(state, asked))
    return seen and _used_up(course, state) is None


def list_unreviewed(state: RunState) -> tuple[str, ...]:
    """Return the landed tasks that no integration review has passed."""
    return list_landed_after(state, state.wave_review.upto)


def next_look(course: PlanIndex, state: RunState, now: float) -> list[Event]:
    """Once the gate is free: the request for all checks on the target, and when these are green, for its review."""
    if not _is_green(course, state):
        return [*next_wave(state, now)]
    own = state.wave_review.review
    if own.not_before > now:
        return []
    reserved: Reservation | None = Reservation()
    if own.batch is not None:
        reserved = get_reservation(own)
    elif needs_money(course):
        ledger = face_review(course, state).ledger_for(state)
        reserved = ledger.reserve(limits(course), useful=1, last=not may_come_back(state))
    return [] if reserved is None else [_sent(course, state, now, reserved)]


def _is_green(course: PlanIndex, state: RunState) -> bool:
    """Tell whether all checks were green on the very tip, and nothing has landed since."""
    return state.tip == state.wave.since and not is_check_due(course, state)


def _sent(course: PlanIndex, state: RunState, now: float, reserved: Reservation) -> WaveReviewSent:
    """Return the request. One about a batch is about the landings that the batch is about."""
    own = state.wave_review
    number, batched = own.review.sent + 1, own.review.batch is not None
    message_id = f"{state.run}.wave-review-{number}"
    return WaveReviewSent(
        number=number,
        message_id=message_id,
        token=token(message_id, now),
        base=own.review.base if batched else own.since,
        tip=own.tip if batched else state.tip,
        tasks=own.tasks if batched else list_unreviewed(state),
        issued_at=now,
        batch=next_batch_call(course, own.review, message_id, now),
        reserved_usd=reserved.usd,
        reserved_tokens=reserved.tokens,
        accounts=find_review_accounts(course, state),
    )


def give_up_review(course: PlanIndex, state: RunState) -> list[GateHalted]:
    """That the gate is shut, where asking once more would not help; what was said of another tip shuts nothing."""
    own = state.wave_review
    if state.halted or own.review.message is not None or not is_review_due(course, state):
        return []
    if own.review.troubles >= MOST_TROUBLES:
        lastly = f"infrastructure failed it {own.review.troubles} times in a row, lastly: {own.review.detail}"
        return [GateHalted(why=f"{_about(state)}: {lastly}", infrastructure=True, reviewed=True)]
    if own.against is not None and own.tip == state.tip:
        return [GateHalted(why=_why(course, state, own.against), reviewed=True)]
    if _is_green(course, state) and (short := _used_up(course, state)) is not None:
        if course.treasury is not None and _used_up(course.within(None), state) is None:
            return []  # The review waits for the treasury's next period.
        return [
            GateHalted(
                why=f"{_about(state)} cannot be paid: {short}; or without: {approve_landings_command(state)}",
                reviewed=True,
            )
        ]
    return []


def approve_landings(course: PlanIndex, state: RunState, *, tip: str, by: str) -> list[Event]:
    """Approve what has landed up to `tip`; nothing where that cannot be approved or the tip has moved."""
    if tip != state.tip or why_not_approve_landings(course, state) is not None:
        return []
    return [WaveApproved(by=by, tip=tip)]


def why_not_approve_landings(course: PlanIndex, state: RunState) -> str | None:
    """Return why a person cannot approve the landings now, to be read after the run's name; None where they can."""
    if course.integration_review == "never":
        return "has nothing reviewed as a whole: its plan says no 'integration_review'"
    if not list_unreviewed(state):
        return "has nothing landed that waits to be looked at as a whole"
    own = state.wave_review
    asked = own.review.message is not None or own.against is not None or own.review.troubles
    if not asked and not is_review_due(course, state):
        return "has no landings that wait for an approval yet"
    return None


def approve_landings_command(state: RunState) -> str:
    """The command by which a person says what no reviewer could."""
    return f"forgepool approve {state.run} --wave --by NAME answers for it"


def _about(state: RunState) -> str:
    own = state.wave_review
    return f"the review of {of_landings(list_unreviewed(state))} as a whole, {own.since[:12]}..{state.tip[:12]},"


def _why(course: PlanIndex, state: RunState, answer: Review) -> str:
    """One sentence, with what a person can do."""
    if answer.outcome == "failed":
        mend = f"nothing is taken back; mend it on {state.target} and resume, or {approve_landings_command(state)}"
        return f"{_about(state)} found {_found(course, answer)}; {mend}"
    again = f"forgepool resume {state.run} asks again, {approve_landings_command(state)}"
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
            return f"has no reviewer of another family than all its authors: {answer.detail}"
        case "not_configured":
            return f"cannot be asked for as its reviewers are set: {answer.detail}"
        case "void":
            return f"gave no verdict that counts: {'; '.join(answer.voids) or answer.detail}"
        case "limits":
            return f"used up its limits: {answer.detail}"
        case _:
            return f"ended as '{answer.outcome}': {answer.detail}"


def _used_up(course: PlanIndex, state: RunState) -> str | None:
    """
    Return the sentence about a used-up budget, where too little is left and nothing may come back; None where enough
    is.
    """
    face = face_review(course, state)
    if not face.budget(state).capped or not needs_money(course) or may_come_back(state):
        return None
    ledger = face.ledger_for(state)
    kind = ledger.find_used_up(limits(course))
    return None if kind is None else budget_question(state, ledger, kind)


def next_base(state: RunState, now: float) -> list[WaveSent]:
    """Return the request for all checks on the target, where nothing is known of it yet."""
    wave = state.wave
    if not wave.base_wanted or wave.message is not None or is_pausing(wave.not_before, now):
        return []
    return [request_all_checks(state, now, "base", since=state.tip, tasks=())]


def base_words(state: RunState) -> str:
    """Return why no model is called yet."""
    red = state.wave.base_red
    return "no model is called until the target has been checked" if red is None else f"waits: {red.detail}"


def halt_for_base(course: PlanIndex, state: RunState) -> list[GateHalted]:
    """Return that the run stops where nothing but calls to models is left, and the target is red."""
    red = state.wave.base_red
    if red is None or state.halted or state.outstanding() or state.in_phase(*IN_FLIGHT):
        return []
    done = course.find_done(state)
    able = [task.id for task in state.in_phase("pending") if course.graph.needs_landed(task.id, done)]
    held = find_tasks_held_by_base(course, state)
    if not able or not held.issuperset(able):
        return []
    anyway = "resume without one, where these tasks are to fix it"
    return [GateHalted(why=f"{describe_red_target(state, red)}; no model was called for {_list_some(able)}; {anyway}")]


def describe_red_target(state: RunState, result: CheckResult, *, serving: bool = False) -> str:
    """Return what is wrong with the target and what to do, in one line."""
    after = ": the queue continues by itself" if serving else f", then: forgepool resume {state.run}"
    return f"{result.detail}; push a fix to {state.target}{after}"


def where_to_look(result: CheckResult) -> list[str]:
    """Return the first error lines of each red check, the log's path, and the commands that show it again."""
    found = []
    for failure in result.failures:
        found += [f"{failure.check}: {line}" for line in error_lines(failure.log_tail)]
        found += [f"log: {failure.log}"] if failure.log else []
    return [*found, *(f"see it again: {line}" for line in result.reproduce.splitlines())]


def _list_some(tasks: Sequence[str]) -> str:
    return ", ".join(tasks[:5]) + (f" and {len(tasks) - 5} more" if len(tasks) > 5 else "")
