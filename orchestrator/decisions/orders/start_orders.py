"""
Which orders to send now, on which base, with how much of the run's budget: pure.
"""

import hashlib
from collections.abc import Iterator, Sequence

from forgepool.orchestrator.decisions.locks import find_tasks_held_elsewhere
from forgepool.orchestrator.decisions.orders.purse import (
    Purse,
    face_order,
    find_accounts,
    find_held_by_accounts,
    find_resumable_attempt,
    hold_back_for_money,
)
from forgepool.orchestrator.decisions.orders.shut_models import find_tasks_shut
from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.decisions.reasons import find_mended_attempt
from forgepool.orchestrator.journal.events import (
    Event,
    GateHalted,
    HostsLacking,
    OrderSent,
)
from forgepool.orchestrator.plan.budget import Reservation
from forgepool.orchestrator.plan.readiness import choose, find_overtaken
from forgepool.orchestrator.state.hosts import Host, Places
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import IN_FLIGHT, TaskState
from forgepool.workers.schema.capabilities import Need

_IN_LINE_PER_SLOT = 16
"""
Entries in line for each slot of the gate, above which no order starts.

By simulation of 200 tasks on 8 to 32 workers: with 4, workers stop while a red car is taken apart, and the run takes up
to a fifth longer; with 16, at most 7 percent, and mostly nothing.
"""


Hosts = Sequence[Host] | None
"""The present hosts that take orders; None where any order may go anywhere."""


def next_orders(
    course: PlanIndex, state: RunState, now: float, slots: int, check_slots: int, hosts: Hosts = None
) -> list[OrderSent]:
    running, streak = state.count("running"), state.streaks.get("order")
    if streak is not None and streak.is_open:
        slots = 0 if streak.is_pausing(now) else 1
    free = slots - running
    if free <= 0 or state.halted or _is_gate_full(state, check_slots):
        return []
    held = find_tasks_held_by_base(course, state) | find_tasks_held_elsewhere(state, now)
    held |= find_tasks_shut(course, state, now)
    held |= find_held_by_accounts(course, state, _Able(course, state, now, held).names())
    able = _Able(course, state, now, held)
    ready = (name for name in able.names() if not find_lack(course, state, state.tasks[name]))
    able = _Able(course, state, now, held | hold_back_for_money(course, state, ready))
    orders = list(_started(course, state, able, free, places_of(course, state, now, hosts)))
    if not orders and course.budget(state).capped:
        # Who pays for nothing need not wait for money behind those who do.
        unpaid = _Able(course, state, now, able.held | course.paid)
        orders = list(_started(course, state, unpaid, free, places_of(course, state, now, hosts)))
    return orders


def places_of(course: PlanIndex, state: RunState, now: float, hosts: Hosts) -> Places:
    """Return the free slots of the present hosts."""
    needs, kinds = course.host_needs, course.unlike_needs.keys() if hosts else ()
    return Places.of(hosts, state.hosts, needs, kinds=kinds, running=state.phases.each("running"), now=now)


def tell_lacking(course: PlanIndex, state: RunState, now: float, hosts: Hosts) -> list[Event]:
    """Tell which tasks no present host can do, where that has changed."""
    if not hosts:
        return []
    lacking = _find_lacking(course, state, now, hosts)
    if {kind: words for kind, (_, words) in lacking.items()} == _known_lacks(course, state):
        return []
    return [HostsLacking(tasks=dict(lacking.values()))]


Lacked = tuple[tuple[Need, ...], tuple[str, ...]]
"""The needs of a task, and the hosts that have passed it on: tasks with the same of both are lacking alike."""


def _lacked(course: PlanIndex, task: TaskState) -> Lacked:
    return course.host_needs[task.id], tuple(task.unfit)


def _find_lacking(
    course: PlanIndex, state: RunState, now: float, hosts: Hosts
) -> dict[Lacked, tuple[str, tuple[str, ...]]]:
    """Return, for waiting tasks that have their needs, what no present host has, with the first task that lacks it."""
    places = places_of(course, state, now, hosts)
    unmet = {needs for needs, one in course.unlike_needs.items() if places.lacking(TaskState(id=one))}
    # All can be done in most runs, and then only tasks that a host has passed on are looked at.
    asked = _pending(course, state) if unmet else (task for task in state.phases.pending_again() if task.unfit)
    found: dict[Lacked, tuple[str, tuple[str, ...]]] = {}
    for task in asked:
        kind = _lacked(course, task)
        if kind not in found and (task.unfit or kind[0] in unmet) and (words := places.lacking(task)):
            found[kind] = task.id, words
    return found


def _known_lacks(course: PlanIndex, state: RunState) -> dict[Lacked, tuple[str, ...]]:
    return {_lacked(course, state.tasks[one]): words for one, words in state.lacking.items() if one in state.tasks}


def find_lack(course: PlanIndex, state: RunState, task: TaskState) -> tuple[str, ...]:
    """Return what no present host has for a waiting task, in words, as far as it is journaled."""
    return _known_lacks(course, state).get(_lacked(course, task), ()) if state.lacking else ()


_WAITED_FOR_S = 60.0
"""Seconds for which a host that can do the rest may still come, before the run stops with a question."""


def stop_for_hosts(course: PlanIndex, state: RunState, now: float) -> list[GateHalted]:
    """Return that the run stops, where all that is left waits for what no present host has."""
    if not state.lacking or state.halted or state.outstanding() or now < state.lacking_since + _WAITED_FOR_S:
        return []
    known = _known_lacks(course, state)
    if any(_lacked(course, task) not in known for task in _pending(course, state)):
        return []
    if any(state.count(phase) for phase in IN_FLIGHT):
        return []
    named = [f"'{task.id}'" for task in _pending(course, state)]
    more = f" and {len(named) - 3} more" if len(named) > 3 else ""
    missing = dict.fromkeys(words for each in state.lacking.values() for words in each)
    why = (
        f"no present host can do {', '.join(named[:3])}{more}: missing is {' and '.join(missing)}; "
        f"start a worker that has it, then: forgepool resume {state.run}"
    )
    return [GateHalted(why=why, infrastructure=True, orders=True)]


def _pending(course: PlanIndex, state: RunState) -> Iterator[TaskState]:
    """Yield the waiting tasks that have their needs, the highest ranked first."""
    return (state.tasks[course.graph.order[rank]] for rank in course.frontier(state).ranks)


def _is_gate_full(state: RunState, check_slots: int) -> bool:
    """Tell whether enough entries stand in line: what is made now would only wait, on an older base."""
    by_person = state.held | state.train.refused.keys()
    standing = sum(task.id not in by_person for task in state.phases.each("queued"))
    return standing > _IN_LINE_PER_SLOT * max(1, check_slots)


class _Able:
    """The tasks that may start now, but for locks, slots and money."""

    def __init__(self, course: PlanIndex, state: RunState, now: float, held: frozenset[str]) -> None:
        self._frontier, self._tasks = course.frontier(state), state.tasks
        self._order, self.now, self.held = course.graph.order, now, held

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._frontier and self._may_start(name)

    def ranks(self) -> Iterator[int]:
        """Yield their ranks, the highest ranked first."""
        return (rank for rank in self._frontier.ranks if self._may_start(self._order[rank]))

    def names(self) -> Iterator[str]:
        return (self._order[rank] for rank in self.ranks())

    def _may_start(self, name: str) -> bool:
        task = self._tasks[name]
        return task.not_before <= self.now and not task.restorable and name not in self.held


def find_tasks_held_by_base(course: PlanIndex, state: RunState) -> frozenset[str]:
    """
    Return the tasks for which no model may be called, since nothing is known of the target yet, or it is red.

    A task with the red check among its acceptance commands is there to make it green, and starts; so does the survey
    that it waits for.
    """
    wave = state.wave
    if not wave.holds_models:
        return frozenset()
    red = {failure.command for failure in wave.base_red.failures} if wave.base_red is not None else set()
    held = frozenset(one for one in course.paid if red.isdisjoint(course.tasks[one].acceptance))
    return held if held == course.paid else held - course.graph.soft


def token(message_id: str, issued_at: float) -> str:
    """Differs for every message ever sent under an id; needs no randomness, so that decisions can be replayed."""
    return hashlib.sha256(f"{message_id}@{issued_at!r}".encode()).hexdigest()[:16]


def _started(course: PlanIndex, state: RunState, able: _Able, free: int, places: Places) -> Iterator[OrderSent]:
    """From the top, as far as slots, locks and the budget go; who comes after one that waits for money waits too."""
    if next(able.ranks(), None) is None:
        return
    wanted = course.find_wanted_locks(state)
    hosts: dict[str, str] = {}

    def admit(task: str) -> bool:
        host = places.take(state.tasks[task])
        if host is not None:
            hosts[task] = host
        return host is not None

    started = choose(
        course.graph,
        able.ranks(),
        in_flight=course.in_flight(state),
        slots=free,
        overtaken=lambda task: state.tasks[task].overtaken,
        wanted=wanted,
        admit=admit,
    )
    purse = Purse(course, state, free)
    for task_id in started:
        face = face_order(course, state, state.tasks[task_id])
        reserved = purse.take(state.tasks[task_id])
        if reserved is None and face is not course:
            continue  # Tasks of other accounts go on.
        if reserved is None:
            return
        overtook = find_overtaken(course.graph, task_id, able=able, wanted=wanted)
        passed = tuple(one for one in overtook if one not in started)
        sent = _order(course, state, state.tasks[task_id], able.now, reserved, passed)
        yield sent.model_copy(update={"host": hosts[task_id]})


def _order(
    course: PlanIndex, state: RunState, task: TaskState, now: float, reserved: Reservation, overtook: tuple[str, ...]
) -> OrderSent:
    attempt = task.attempt + 1
    message_id = f"{state.run}.{task.id}.{attempt}"
    resumes = find_resumable_attempt(course, state, task)
    # A survey is of the tree on which this run began, whatever commands have landed meanwhile.
    tip = state.began_on if attempt == 1 and task.id in course.graph.soft else state.tip
    return OrderSent(
        task=task.id,
        attempt=attempt,
        message_id=message_id,
        token=token(message_id, now),
        base=tip if resumes is None else task.interrupted_base,
        issued_at=now,
        overtook=overtook,
        reserved_usd=reserved.usd,
        reserved_tokens=reserved.tokens,
        resumes=resumes,
        # One that goes on began with that work already; without its checkpoint it begins with it again.
        mends=find_mended_attempt(course, task) if resumes is None else task.mends,
        leads=task.id == course.lead,
        accounts=find_accounts(course, state, task),
    )
