"""
The part of the run's budget that an order starts with, and the tasks that wait for want of one. Pure.

A task is given what tasks like it have used, four times in five; without such, its own limit or a fair share. Only
what the rest can finish is begun, and what is begun goes first once little is left.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from forgepool.orchestrator.decisions.plan_index import PlanIndex, describe_work
from forgepool.orchestrator.plan.budget import (
    Reservation,
    Use,
    find_carried_use,
    find_least_share,
    left_of,
)
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.steps.task_steps import stands
from forgepool.orchestrator.state.task import TaskState
from forgepool.workers.schema.orders import LimitKind, Limits, Spent

ROUNDED_USD = 1e-5
"""Reservations are rounded down; a difference this small is no cut."""
_EXPECTED_SHARE = 0.8
"""The share of tasks of one kind that use no more than is expected of the next."""
_LITTLE = 2
"""Little is left where the rest is less than so many times what one begun task is expected to need."""
Expected = Mapping[str, Reservation]
"""The expected use of a task, by its kind of work."""


def expect_use(course: PlanIndex, state: RunState) -> Expected:
    """Return the 80th percentile of what finished tasks have used, in this run and in earlier ones."""
    found: defaultdict[str, list[Spent]] = defaultdict(list)
    for kind, uses in course.learned_use.items():
        found[kind] += uses
    # The result of a task that another model goes on with is that of the model before. A lead is like no other task.
    for name in course.paid.difference(state.models, {course.lead}):
        task = state.tasks[name]
        use = None if task.id in state.rungs and not stands(task) else task.uses.get(task.made_by)
        if use is not None and use.whole is not None and task.result is not None and task.result.outcome in _FINISHED:
            found[describe_work(course.tasks[name])].append(use.whole)
    return {kind: _percentile(uses) for kind, uses in found.items()}


_FINISHED = ("candidate", "reported")


def _percentile(uses: Iterable[Spent]) -> Reservation:
    every = list(uses)
    usd = sorted(use.cost_usd for use in every if use.cost_usd is not None)
    tokens = sorted(use.tokens for use in every)
    return Reservation(
        usd=usd[math.ceil(_EXPECTED_SHARE * len(usd)) - 1] if usd else None,
        tokens=tokens[math.ceil(_EXPECTED_SHARE * len(tokens)) - 1] if tokens else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderWish:
    """The amounts that a task's next order asks of the budget."""

    limits: Limits
    """The wish, with the usage carried over: expected use, else the task's own limits."""
    most: Limits
    least: Reservation
    """Less is not worth starting with; on top of the usage carried over."""
    before: Use | None
    carried: Spent


def has_account_limits(course: PlanIndex) -> bool:
    return course.treasury is not None and any(one.limit.account for one in course.treasury.current)


def face_accounts(course: PlanIndex, accounts: tuple[str, ...]) -> PlanIndex:
    """Return the index as it is for what asks these accounts: the treasury's limits on them hold it back, too."""
    if course.treasury is None or not has_account_limits(course):
        return course
    _ = course.paid, course.conversing  # Indexed once, for all.
    return course.within(course.treasury.narrow(accounts))


def find_accounts(course: PlanIndex, state: RunState, task: TaskState) -> tuple[str, ...]:
    """Return the accounts of the task's attempt under way, else those that its next order reserves with."""
    use = task.uses.get(task.attempt) if task.phase in ("running", "answered") else None
    if use is not None or course.treasury is None:
        return () if use is None else use.accounts
    return course.treasury.choose(state, task.id, beside=bool(task.rung))


def find_review_accounts(course: PlanIndex, state: RunState, task: TaskState | None = None) -> tuple[str, ...]:
    """Return the accounts that the review of a task, or of all that has landed, reserves with."""
    if course.treasury is None:
        return ()
    result = None if task is None else task.result
    kin = result.families if result is not None and course.independence == "other_family" else ()
    return course.treasury.choose_for_review(state, kin)


def list_closed_accounts(course: PlanIndex, state: RunState, use: Use | None) -> tuple[str, ...]:
    """Return the accounts that an order or a review may not ask, since it has reserved nothing with them."""
    return () if course.treasury is None or use is None else course.treasury.list_closed(state, use.accounts)


def face_order(course: PlanIndex, state: RunState, task: TaskState) -> PlanIndex:
    return face_accounts(course, find_accounts(course, state, task)) if has_account_limits(course) else course


def face_review(course: PlanIndex, state: RunState, task: TaskState | None = None) -> PlanIndex:
    return face_accounts(course, find_review_accounts(course, state, task)) if has_account_limits(course) else course


def find_held_by_accounts(course: PlanIndex, state: RunState, able: Iterable[str]) -> frozenset[str]:
    """Return the tasks that wait for a limit of an account. Tasks of others go on meanwhile."""
    facts = course.treasury
    if facts is None or not has_account_limits(course):
        return frozenset()
    chosen = {name: facts.choose(state, name) for name in able if name in course.paid}
    return frozenset(name for name, own in chosen.items() if not all(facts.has_room(state, one) for one in own))


def wish_for(course: PlanIndex, state: RunState, task: TaskState, expected: Expected) -> OrderWish:
    resumes = find_resumable_attempt(course, state, task)
    carried, own, most = find_carried_use(task.uses, resumes), course.tasks[task.id].limits, course.limits(task.id)
    # The use that is expected of a program would stop it, since it cannot ask for more.
    is_usual = task.id in course.conversing and task.id != course.lead
    usual = expected.get(describe_work(course.tasks[task.id]), Reservation()) if is_usual else Reservation()
    least, cap = _least_to_go_on(course, state, task, resumes), course.budget(state)
    usd, tokens = own.cost_usd, own.tokens
    if cap.usd is not None:
        usd = _wish(usd, most.cost_usd, usual.usd, carried.cost_usd or 0.0, least.usd)
    if cap.tokens is not None and (wish := _wish(tokens, most.tokens, usual.tokens, carried.tokens, least.tokens)):
        tokens = math.ceil(wish)
    return OrderWish(
        limits=own.model_copy(update={"cost_usd": usd, "tokens": tokens}),
        most=most,
        least=least,
        before=None if resumes is None else task.uses.get(resumes),
        carried=carried,
    )


def _wish(
    own: float | None, most: float | None, expected: float | None, carried: float, least: float | None
) -> float | None:
    """Return the wish of one kind, with what is carried over; None leaves it to a share."""
    if expected is not None and expected > carried:
        wish = max(expected, carried + (least or 0.0))
    elif least is not None:
        # It has used its part, and how much is missing is unknown: as much again.
        wish = carried + max(least, carried)
    else:
        return own
    return wish if most is None else min(wish, most)


def _least_to_go_on(course: PlanIndex, state: RunState, task: TaskState, resumes: int | None) -> Reservation:
    """
    Return the least with which a task that ended for want of money starts again: a least share more than it could not
    go on with. So no task starts again and again with too little.
    """
    if not has_ended_for_money(task) or task.result is None:
        return Reservation()
    share, use = find_least_share(course.budget(state)), task.uses[task.result.attempt]
    used = (use.own or Spent()) if resumes is not None else Spent()
    usd = None if share.usd is None else max(0.0, (use.reserved_usd or 0.0) - (used.cost_usd or 0.0)) + share.usd
    tokens = None if share.tokens is None else max(0, (use.reserved_tokens or 0) - used.tokens) + share.tokens
    return Reservation(usd=usd, tokens=tokens)


def has_ended_for_money(task: TaskState) -> bool:
    result = task.result
    return result is not None and result.outcome == "limits_spent" and task.interrupted == result.attempt


def hold_back_for_money(course: PlanIndex, state: RunState, able: Iterable[str]) -> frozenset[str]:
    """
    Return the tasks that may not start now, because begun ones are to be finished first. `able` may start otherwise.

    No paid task starts while an attempt under way waits for more money. Once little is left, none begins while one that
    was begun may need it. Where nothing may come back, what the rest can finish goes first.
    """
    if not course.budget(state).capped:
        return frozenset()
    running = [task for task in state.working() if task.id in course.paid]
    if any(awaits_money(course, task) for task in running):
        return course.paid
    waiting = [state.tasks[name] for name in able if name in course.paid]
    if _is_little_left(course, state, running, [task for task in waiting if task.attempt]):
        return frozenset(name for name in course.paid if not state.tasks[name].attempt and name != course.lead)
    if may_come_back(state):
        return frozenset()
    purse = Purse(course, state, 1)
    too_dear = frozenset(task.id for task in waiting if not purse.is_enough_for(task))
    return too_dear if len(too_dear) < len(waiting) else frozenset()


def _is_little_left(
    course: PlanIndex, state: RunState, running: Sequence[TaskState], waiting: Sequence[TaskState]
) -> bool:
    """Tell whether the rest is less than twice what one of these is expected to need."""
    if not running and not waiting:
        return False
    ledger, expected = course.ledger_for(state), expect_use(course, state)
    needs = [left_of(wish.limits, wish.carried) for wish in (wish_for(course, state, one, expected) for one in waiting)]
    kinds = (describe_work(course.tasks[task.id]) for task in running if find_growing(course, task))
    needs += [expected[kind] for kind in kinds if kind in expected]
    usd, tokens = (
        max((one.usd or 0.0 for one in needs), default=0.0),
        max((one.tokens or 0 for one in needs), default=0),
    )
    short_usd = ledger.left_usd is not None and ledger.left_usd < _LITTLE * usd
    return short_usd or (ledger.left_tokens is not None and ledger.left_tokens < _LITTLE * tokens)


def find_growing(course: PlanIndex, task: TaskState) -> tuple[LimitKind, ...]:
    """Return the limits of the attempt under way that are a part of the budget, and less than its task's own."""
    use = task.uses.get(task.attempt)
    if use is None or task.id not in course.paid or task.id not in course.conversing:
        return ()
    return tuple(kind for kind, _ in cut_limits(use, course.limits(task.id)))


def awaits_money(course: PlanIndex, task: TaskState) -> bool:
    """Tell whether the attempt under way has asked for more, and its task's own limits let it have that."""
    return task.money is not None and not set(task.money.kinds).isdisjoint(find_growing(course, task))


def sum_earlier_use(course: PlanIndex, state: RunState, task: TaskState) -> Spent:
    """Return the use that the task's next order starts from."""
    return find_carried_use(task.uses, find_resumable_attempt(course, state, task))


def cut_limits(use: Use, own: Limits) -> list[tuple[LimitKind, float]]:
    """The limits it was told that are less than its task's own, with what it was told."""
    usd, tokens = use.limit_usd, use.limit_tokens
    cut: list[tuple[LimitKind, float]] = []
    if usd is not None and (own.cost_usd is None or usd < own.cost_usd - ROUNDED_USD):
        cut.append(("usd", usd))
    if tokens is not None and (own.tokens is None or tokens < own.tokens):
        cut.append(("tokens", tokens))
    return cut


def limits_of_order(course: PlanIndex, task: TaskState) -> Limits:
    """Return the task's limits, capped by its reservation. The built-in agent's default of money is `priced_usd`."""
    use, own = task.uses.get(task.attempt, Use()), course.limits(task.id)
    usd = course.tasks[task.id].limits.cost_usd if task.id in course.conversing else own.cost_usd
    return own.model_copy(update={"cost_usd": _less(usd, use.limit_usd), "tokens": _less(own.tokens, use.limit_tokens)})


def _less(own: float | None, reserved: float | None) -> float | None:
    return min((one for one in (own, reserved) if one is not None), default=None)


def find_resumable_attempt(course: PlanIndex, state: RunState, task: TaskState) -> int | None:
    """
    The attempt to go on from, where it was interrupted in a conversation that another worker can go on with.

    None where a task has landed since what this one works on: on its old base it could only conflict with it. Who else
    moved the target meanwhile, and what of it, is not known here.
    """
    if task.interrupted is None or task.id not in course.conversing:
        return None
    touches = course.touches(task)
    since = (one.result for one in state.find_landed(after=task.based_at) if one.result)
    changed = any(touches.covers(path) for result in since for path in result.paths)
    return None if changed else task.interrupted


class Purse:
    """The rest of the budget while orders are decided on. Without a cap nothing is added up."""

    def __init__(self, course: PlanIndex, state: RunState, free: int) -> None:
        self._course, self._state = course, state
        self._ledger = course.ledger(state) if course.budget(state).capped else None
        self._kept = course.reserve_for_lead(state)
        self._useful, self._last = 0, False
        self._expected: Expected = {}
        self._taken: list[Reservation] = []
        if self._ledger is not None or has_account_limits(course):
            paid = (task for task in state.phases.latest("pending") if task.id in course.paid)
            self._useful, self._last = sum(1 for _ in islice(paid, free)), not may_come_back(state)
            self._expected = expect_use(course, state)

    def is_enough_for(self, task: TaskState) -> bool:
        """Tell whether the rest covers all that the task's next order wishes."""
        return self._reserve(task, last=False) is not None

    def take(self, task: TaskState) -> Reservation | None:
        """Reserve for the task's next order; None where that is not possible now."""
        reserved = self._reserve(task, last=self._last)
        if reserved is not None and task.id in self._course.paid:
            self._taken.append(reserved)
            self._useful, self._last = self._useful - 1, False
        return reserved

    def _reserve(self, task: TaskState, *, last: bool) -> Reservation | None:
        if task.id not in self._course.paid:
            return Reservation()
        course = face_order(self._course, self._state, task)
        ledger = self._ledger if course is self._course else course.ledger(self._state)
        if ledger is None or not ledger.cap.capped:
            return left_of(self._course.tasks[task.id].limits, sum_earlier_use(self._course, self._state, task))
        wish = wish_for(course, self._state, task, self._expected)
        # Those of other accounts count here as well, until the next decision.
        for taken in (*self._taken, course.reserve_for_reviews(self._state, task.id)):
            ledger = ledger.with_reserved(taken)
        if task.id != self._course.lead:
            ledger = ledger.with_reserved(self._kept)
        return ledger.reserve(
            wish.limits,
            useful=self._useful,
            last=last,
            before=wish.before,
            carried=wish.carried,
            most=wish.most,
            least=wish.least,
        )


def may_come_back(state: RunState) -> bool:
    """Tell whether an order or a review is under way whose reservation may turn out to be more than it used."""
    orders = (task.uses.get(task.attempt) for task in state.working())
    reviews = (review.uses.get(review.sent) for review in state.reviews() if review.message or review.batch)
    own = state.wave_review
    whole = own.use if own.review.message or own.review.batch else None
    return any(use is not None and use.open for use in (*orders, *reviews, whole))
