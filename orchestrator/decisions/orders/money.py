"""
Larger parts of the run's budget for attempts under way, and the wait for what comes back. Pure.

An attempt may ask for more while it is under way. It is answered before anything new starts. One that ends for want of
money waits, and goes on when reservations come back. A person is asked only once nothing is under way that could give
some back.
"""

import math
from collections.abc import Collection, Iterator, Sequence

from forgepool.orchestrator.decisions.orders.purse import (
    Expected,
    Purse,
    awaits_money,
    cut_limits,
    expect_use,
    face_accounts,
    face_order,
    face_review,
    find_accounts,
    find_growing,
    has_account_limits,
    has_ended_for_money,
    hold_back_for_money,
    may_come_back,
    wish_for,
)
from forgepool.orchestrator.decisions.orders.treasury import TreasuryFacts
from forgepool.orchestrator.decisions.plan_index import PlanIndex, describe_work
from forgepool.orchestrator.journal.events import (
    BudgetAwaited,
    MoneyGranted,
    MoneyQueued,
    TaskParked,
    TreasuryLimited,
)
from forgepool.orchestrator.plan.budget import (
    BudgetLedger,
    MoneyAsk,
    Reservation,
)
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import TaskState
from forgepool.workers.schema.orders import LimitKind, Limits, Spent, WorkResult

NOTHING, NO_LIMITS = Reservation(), Limits()
_DRIBBLE = 20
"""A grant is at least the attempt's part divided by this, unless its next call needs less."""


def answer_money(course: PlanIndex, state: RunState) -> Sequence[MoneyGranted | MoneyQueued]:
    """
    Answer the oldest request for more that can be met; any other waits for what comes back. One at a time: what is
    granted to one is gone for the next.
    """
    asking = [(task.money, task) for task in state.in_phase("running") if task.money is not None]
    if not asking:
        return []
    asking.sort(key=lambda one: (one[0].at, one[1].id))
    expected = expect_use(course, state)
    for ask, task in asking:
        if (granted := _grant(course, state, task, ask, expected)) is not None:
            return [granted]
    return [MoneyQueued(task=task.id, attempt=task.attempt) for ask, task in asking if not ask.queued][:1]


def _grant(
    course: PlanIndex, state: RunState, task: TaskState, ask: MoneyAsk, expected: Expected
) -> MoneyGranted | None:
    use, top = task.uses[task.attempt], course.limits(task.id)
    ledger = face_order(course, state, task).ledger_for_order(state, task.id)
    usual = expected.get(describe_work(course.tasks[task.id]), Reservation())
    usd, tokens = use.reserved_usd, use.reserved_tokens
    kinds = set(ask.kinds).intersection(find_growing(course, task))
    if "usd" in kinds and usd is not None:
        more = _more(ledger.left_usd, ask.usd, usd, use.limit_usd, usual.usd, top.cost_usd)
        if more is None and (ask.usd or not ask.tokens):
            return None
        usd = math.floor((usd + (more or 0.0)) * _MICRO) / _MICRO
    if "tokens" in kinds and tokens is not None:
        more = _more(ledger.left_tokens, ask.tokens, tokens, use.limit_tokens, usual.tokens, top.tokens)
        if more is None and (ask.tokens or not ask.usd):
            return None
        tokens = math.floor(tokens + (more or 0.0))
    if (usd, tokens) == (use.reserved_usd, use.reserved_tokens):
        return None
    return MoneyGranted(task=task.id, attempt=task.attempt, reserved_usd=usd, reserved_tokens=tokens)


_MICRO = 1_000_000


def _more(
    left: float | None, needs: float, part: float, limit: float | None, expected: float | None, top: float | None
) -> float | None:
    """Return how much more of one kind an attempt gets; None where too little is left."""
    if left is None or limit is None:
        return 0.0
    room = math.inf if top is None else max(0.0, top - limit)
    missing = part if expected is None or expected <= limit else expected - limit
    more = min(left, room, max(missing, needs))
    return more if more >= min(room, needs or part / _DRIBBLE) and more > 0 else None


def out_of_budget(course: PlanIndex, state: RunState) -> list[TaskParked | TreasuryLimited]:
    """The tasks for which too little of the budget is left, once no order is under way that could give some back."""
    if not (course.budget(state).capped or has_account_limits(course)) or may_come_back(state):
        return []
    done, expected = course.find_done(state), expect_use(course, state)
    parked: list[TaskParked | TreasuryLimited] = []
    alone = course.within(None)
    for task in state.in_phase("pending"):
        if task.restorable:
            continue
        # Who needs what has not landed yet may never be wanted.
        if task.id not in course.paid or not course.graph.needs_landed(task.id, done):
            continue
        face = face_order(course, state, task)
        ledger = face.ledger_for_order(state, task.id)
        if (kind := _find_used_up(face, state, task, ledger, expected)) is not None:
            own = alone.ledger_for_order(state, task.id)
            if alone is not course and _find_used_up(alone, state, task, own, expected) is None:
                parked += ask_for_treasury(face, state, task, told=parked)
                continue
            question = _part_question(course, state, task) or budget_question(
                state, course.ledger_for(state, task.id), kind, kept=course.reserve_for_reviews(state, task.id)
            )
            parked.append(TaskParked(task=task.id, question=question, why="budget"))
    return parked


def ask_for_treasury(
    course: PlanIndex,
    state: RunState,
    task: TaskState,
    *,
    told: Sequence[TaskParked | TreasuryLimited],
    review: bool = False,
    rest: str = "",
) -> list[TaskParked | TreasuryLimited]:
    """
    Park a task, with the limit unless it is `told` already, where only the treasury keeps it from going on, by a limit
    that asks. By any other it stays where it is.
    """
    standing = None if course.treasury is None else course.treasury.find_tightest(state, review=review)
    if course.treasury is None or standing is None or standing.limit.at_limit != "ask":
        return []
    before = (one for one in told if isinstance(one, TreasuryLimited) and one.limit == standing.name)
    known = next(before, state.treasury.get(standing.name))
    new = known is None or known.effect != "asks"
    noted = course.treasury.note(state, standing, "asks") if known is None or new else known
    pass_it = f"forgepool retry {state.run} {task.id} lets this run pass it until then"
    question = f"{noted.words}; {pass_it}; or raise it in treasury.yaml{rest}"
    return [*([noted] if new else []), TaskParked(task=task.id, question=question, why="budget")]


def tell_treasury(course: PlanIndex, state: RunState, *, free_slots: int) -> list[TreasuryLimited]:
    """Tell of limits that are reached and only warn, and of one that holds back what could start otherwise."""
    facts = course.treasury
    if facts is None or state.halted:
        return []
    if warned := [*facts.warn(state)]:
        return warned
    held: list[tuple[TreasuryFacts | None, str, bool]] = [(find_review_held(course, state), "", True)]
    held += [(face, task, False) for face, task in _find_orders_held(course, state)] if free_slots > 0 else []
    for face, task, review in held:
        standing = None if face is None else face.find_tightest(state, review=review)
        if standing is not None and standing.name not in state.treasury:
            return [facts.note(state, standing, "waits", task)]
    return []


def find_review_held(course: PlanIndex, state: RunState) -> TreasuryFacts | None:
    """
    Return the limits for which a candidate, or all that has landed, waits for a review that the run itself could pay;
    None where none waits.
    """
    from forgepool.orchestrator.decisions.reviews.post_merge import is_review_due  # Late: it needs this module.

    subjects: list[TaskState | None] = [task for task in state.in_phase("reviewing") if task.review.message is None]
    whole, alone = state.wave_review.review, course.within(None)
    if whole.message is None and whole.batch is None and is_review_due(course, state):
        subjects.append(None)
    if not subjects or alone is course or course.review_policy.script is not None:
        return None
    if alone.ledger_for(state).find_used_up(NO_LIMITS) is not None:
        return None
    faces = (face_review(course, state, subject) for subject in subjects)
    return next((face.treasury for face in faces if face.ledger_for(state).find_used_up(NO_LIMITS) is not None), None)


def _find_orders_held(course: PlanIndex, state: RunState) -> Iterator[tuple[TreasuryFacts | None, str]]:
    """Yield the limits for which the first task that could start otherwise waits, for each choice of accounts."""
    able = () if course.serving else (course.graph.order[rank] for rank in course.frontier(state).ranks)
    seen: set[tuple[str, ...]] = set()
    for task in (state.tasks[name] for name in able if name in course.paid):
        accounts = find_accounts(course, state, task) if has_account_limits(course) else ()
        if accounts in seen:
            continue
        seen.add(accounts)
        if task.restorable or task.not_before > state.at or Purse(course, state, 1).take(task) is not None:
            continue
        if Purse(course.within(None), state, 1).take(task) is not None:
            yield face_accounts(course, accounts).treasury, task.id


def _find_used_up(
    course: PlanIndex, state: RunState, task: TaskState, ledger: BudgetLedger, expected: Expected
) -> LimitKind | None:
    wish = wish_for(course, state, task, expected)
    return ledger.find_used_up(wish.limits, wish.carried, most=wish.most, least=wish.least)


def can_pay(course: PlanIndex, state: RunState, task: TaskState, expected: Expected) -> bool:
    """Tell whether the rest of the budget is enough for the next order of a task that waits for it."""
    if any(awaits_money(course, one) for one in state.in_phase("running")):
        return False
    face = face_order(course, state, task)
    return _find_used_up(face, state, task, face.ledger_for_order(state, task.id), expected) is None


def await_budget(course: PlanIndex, state: RunState, task: TaskState, result: WorkResult) -> BudgetAwaited | None:
    """
    Return that the task waits for more, where an attempt ended at a limit that was the run's and not the task's own.

    A limit of turns or of time is the task's own. A program that is ended only after it has used too much was stopped
    by what it has passed.
    """
    use, own = task.uses.get(result.attempt), course.limits(task.id)
    if result.outcome != "limits_spent" or use is None or task.id not in course.paid:
        return None
    if not face_accounts(course, use.accounts).budget(state).capped or _own_limit_reached(own, result):
        return None
    cut = cut_limits(use, own)
    if task.id not in course.conversing:
        cut = [(kind, limit) for kind, limit in cut if _amount(result.spent, kind) >= limit]
    return BudgetAwaited(task=task.id, attempt=result.attempt) if cut else None


def _part_question(course: PlanIndex, state: RunState, task: TaskState) -> str | None:
    """Return the question about a task whose part of the budget was not enough; None for any other."""
    if not has_ended_for_money(task) or task.result is None:
        return None
    cut = cut_limits(task.uses[task.result.attempt], course.limits(task.id))
    limits = " and ".join(f"{limit:.2f} USD" if kind == "usd" else f"{limit:,.0f} tokens" for kind, limit in cut)
    option = "--tokens TOKENS" if cut and cut[0][0] == "tokens" else "--usd USD"
    return (
        f"the part of the run's budget that it was given, {limits}, was not enough; "
        f"give the run's new budget, and it goes on: forgepool budget {state.run} {option}"
    )


def find_held_for_money(course: PlanIndex, state: RunState) -> frozenset[str]:
    """Return the tasks that may not start now because begun ones are to be finished first."""
    return hold_back_for_money(course, state, (name for name in state.tasks if name in course.frontier(state)))


def short_of_budget(course: PlanIndex, state: RunState, task: TaskState, held: Collection[str]) -> str | None:
    """
    Return, in a few words, the missing part of the budget for a task that could start otherwise; None where there is
    enough. `held` is from `find_held_for_money`.
    """
    if task.id not in course.paid or not course.budget(state).capped or task.restorable:
        return None
    if task.id in held:
        return "waits until tasks that were begun have what they need of the budget"
    if Purse(course, state, 1).take(task) is not None:
        return None
    ledger = course.ledger_for(state, task.id)
    usd = "" if ledger.left_usd is None else f"{ledger.left_usd:.2f} USD"
    tokens = "" if ledger.left_tokens is None else f"{ledger.left_tokens:,} tokens"
    kept = _kept_words(course.reserve_for_reviews(state, task.id))
    left = " and ".join(one for one in (usd, tokens) if one) + (f" ({kept})" if kept else "")
    if may_come_back(state):
        return f"waits for what orders under way will leave of the budget; {left} are left, too little for it"
    return f"waits for more budget; {left} are left, too little for it"


def _own_limit_reached(own: Limits, result: WorkResult) -> bool:
    turns = own.turns is not None and result.spent.turns >= own.turns
    return turns or result.finished_at - result.started_at - result.waited_s >= own.wall_s


def _amount(spent: Spent, kind: LimitKind) -> float:
    return (spent.cost_usd or 0.0) if kind == "usd" else spent.tokens


def _kept_words(kept: Reservation) -> str:
    """Return what is kept apart for reviews, as a part of a sentence; empty without any."""
    usd = [f"{kept.usd:.2f} USD"] if kept.usd else []
    tokens = [f"{kept.tokens:,} tokens"] if kept.tokens else []
    return f"{' and '.join([*usd, *tokens])} are kept for reviews" if usd or tokens else ""


def budget_question(state: RunState, ledger: BudgetLedger, kind: str, *, kept: Reservation = NOTHING) -> str:
    if kind == "usd":
        of, option = f"{ledger.usd:.2f} of {ledger.cap.usd:.2f} USD are", "--usd USD"
    else:
        of, option = f"{ledger.tokens:,} of {ledger.cap.tokens:,} tokens are", "--tokens TOKENS"
    apart = f", and {words}" if (words := _kept_words(kept)) else ""
    return f"the run's budget is used: {of} spent or reserved{apart}; raise it: forgepool budget {state.run} {option}"
