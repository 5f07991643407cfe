"""
Races: two attempts of one task at once, by the first two models of its ladder. Pure.

The whole run waits for the tasks of its longest path, so only these race, and only in slots that no task wants. The
first attempt that passes the gate lands, and the other is withdrawn. One that comes back leaves its place to the other.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from forgepool.orchestrator.decisions.orders.purse import Purse, find_accounts, hold_back_for_money
from forgepool.orchestrator.decisions.orders.start_orders import Hosts, next_orders, places_of, token
from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.journal.events import OrderSent, RacerPromoted, RacerWithdrawn
from forgepool.orchestrator.plan.addition import choose_models
from forgepool.orchestrator.plan.readiness import find_critical_path
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import TERMINAL, TaskState

RUNG = 2
"""The place in its ladder of the model that races the first one."""
_TOGETHER_S = 5.0
"""Seconds within which two attempts begin together: a late one would mostly cost what the other is about to land."""


def explain_races(course: PlanIndex, family: Callable[[str], str]) -> Mapping[str, str]:
    """
    Return, by task that is to race, why it does not, as a clause; empty where it does. `family` returns that of a
    model.
    """
    # Imported late: every command that looks at a run imports this module, and few races are explained.
    from forgepool.workers.agents.families import UNKNOWN, are_apart

    wanted = [task for task in course.plan.tasks if task.race and task.leads is None]
    path = frozenset(find_critical_path(course.graph)) if wanted else frozenset()
    found: dict[str, str] = {}
    for task in wanted:
        first, second = task.ladder[:2]
        found[task.id] = ""
        if task.id not in path:
            found[task.id] = "it is not on the longest path of the plan"
        elif unknown := [name for name in (first, second) if family(name) == UNKNOWN]:
            found[task.id] = f"this host's models.yaml does not know the family of '{unknown[0]}'"
        elif not are_apart(family(second), (family(first),)):
            found[task.id] = f"'{first}' and '{second}' are of the same family"
    return found


def index_for(course: PlanIndex, attempt: TaskState) -> PlanIndex:
    """Return the index by which an attempt works: one beside another has a model of its own."""
    if not attempt.rung:
        return course
    rungs = {attempt.id: attempt.rung}
    index = replace(course, plan=choose_models(course.plan, course.models, rungs), rungs={**course.rungs, **rungs})
    index.__dict__["graph"] = course.graph  # It knows no models.
    return index


def settle_races(state: RunState) -> list[RacerPromoted | RacerWithdrawn]:
    """Decide on the attempt beside one that has come back or ended."""
    settled: list[RacerPromoted | RacerWithdrawn] = []
    for racer in state.racers.values():
        task = state.tasks[racer.id]
        is_over = racer.attempt <= task.over
        if task.phase == "pending" and not is_over and not task.restorable:
            settled.append(RacerPromoted(task=task.id, attempt=racer.attempt, rung=racer.rung))
        elif task.phase in TERMINAL or task.phase == "pending" or is_over:
            landed = task.phase == "landed"
            settled.append(_withdraw(racer, f"attempt {task.made_by} has landed" if landed else f"it is {task.phase}"))
    return settled


def next_races(
    course: PlanIndex, state: RunState, now: float, slots: int, check_slots: int, hosts: Hosts
) -> list[OrderSent] | list[RacerWithdrawn]:
    """
    Return the next attempt that races another, where no order can be sent and slots are left. Where none is left and a
    task that is ready wants one, return that the last racer gives up its own.
    """
    if not course.racing or state.halted or state.streaks.get("order") is not None:
        return []
    free = slots - len(state.working())
    if free <= 0:
        return _give_way(course, state, now, slots, check_slots, hosts)
    if hold_back_for_money(course, state, ()):
        return []
    for task in state.phases.in_order(state.phases.each("running")):
        if _may_race(course, task, now) and (sent := _race(course, state, task, now, free, hosts)) is not None:
            return [sent]
    return []


def _may_race(course: PlanIndex, task: TaskState, now: float) -> bool:
    """Tell whether its first attempt begins just now, so that another can begin together with it."""
    if task.id not in course.racing or task.id in course.models or task.message is None:
        return False
    return task.attempt == task.last_attempt == 1 and abs(now - task.message.issued_at) < _TOGETHER_S


def _race(course: PlanIndex, state: RunState, task: TaskState, now: float, free: int, hosts: Hosts) -> OrderSent | None:
    racer = TaskState(id=task.id, rung=RUNG)
    beside = index_for(course, racer)
    host = places_of(beside, state, now, hosts).take(task)
    reserved = None if host is None else Purse(beside, state, free).take(racer)
    if host is None or reserved is None:
        return None
    attempt = task.last_attempt + 1
    message_id = f"{state.run}.{task.id}.{attempt}"
    return OrderSent(
        task=task.id,
        attempt=attempt,
        message_id=message_id,
        token=token(message_id, now),
        base=task.base,
        issued_at=now,
        reserved_usd=reserved.usd,
        reserved_tokens=reserved.tokens,
        host=host,
        accounts=find_accounts(beside, state, racer),
        races=task.attempt,
        rung=RUNG,
    )


def _give_way(
    course: PlanIndex, state: RunState, now: float, slots: int, check_slots: int, hosts: Hosts
) -> list[RacerWithdrawn]:
    racing = [(one.message.issued_at, one.id) for one in state.racers.values() if one.message is not None]
    if not racing:
        return []
    racer = state.racers[max(racing)[1]]
    wanted = next_orders(course, state, now, slots, check_slots, hosts, without=racer)
    return [_withdraw(racer, f"'{wanted[0].task}' is ready and needs its slot")] if wanted else []


def _withdraw(racer: TaskState, why: str) -> RacerWithdrawn:
    message_id = "" if racer.message is None else racer.message.message_id
    return RacerWithdrawn(task=racer.id, attempt=racer.attempt, message_id=message_id, why=why)
