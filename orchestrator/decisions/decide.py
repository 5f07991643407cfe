"""
The next step of a run, as a pure function: plan, state and free slots in, the next events out.

The run loop journals the events, takes them into the state, sends the messages they stand for, and asks again until
there are none. The simulator and the random-event tests ask the same function. No clock, queue, file or git here.
"""

from collections.abc import Collection, Iterable, Sequence

from forgepool.orchestrator.decisions.landing import next_at_gate
from forgepool.orchestrator.decisions.lead.requests import give_up_lead, reply_to_lead
from forgepool.orchestrator.decisions.lead.review import find_due, give_up_unheld
from forgepool.orchestrator.decisions.lead.synthesis import prove_report
from forgepool.orchestrator.decisions.locks import PathsElsewhere, admit_candidates, answer_ask, hold_back
from forgepool.orchestrator.decisions.orders.money import answer_money, await_budget, out_of_budget, tell_treasury
from forgepool.orchestrator.decisions.orders.races import next_races, settle_races
from forgepool.orchestrator.decisions.orders.shut_models import ModelLimits, tell_shut
from forgepool.orchestrator.decisions.orders.start_orders import (
    Hosts,
    next_orders,
    places_of,
    stop_for_hosts,
    tell_lacking,
)
from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.decisions.queue.delegation import delegate_queued, settle_replies
from forgepool.orchestrator.decisions.queue.intake import back_in_line, withdrawn
from forgepool.orchestrator.decisions.reasons import again_or_stop, reason_of_work, stop_asking
from forgepool.orchestrator.decisions.requests import reopen_for_budget, restore_approved
from forgepool.orchestrator.decisions.reviews import post_merge, task_reviews
from forgepool.orchestrator.decisions.reviews.post_merge import halt_for_base
from forgepool.orchestrator.journal.events import (
    CheckSent,
    Event,
    HostReadmitted,
    HostSuspended,
    LandingIntended,
    RunEnded,
    TaskBlocked,
    TaskParked,
    TaskPassedOn,
    TaskReported,
    TaskReturned,
    TaskUnchanged,
)
from forgepool.orchestrator.state.hosts import Host
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import DONE, MOST_TROUBLES, TERMINAL, TaskState
from forgepool.workers.schema.orders import CommandAgent, WorkResult


def decide(
    course: PlanIndex,
    state: RunState,
    *,
    now: float,
    order_slots: int,
    draining: bool,
    review_slots: int = 1,
    check_slots: int = 1,
    hosts: Hosts = None,
    gate_hosts: Collection[frozenset[str]] = (),
    elsewhere: PathsElsewhere = None,
    limits: ModelLimits | None = None,
) -> list[Event]:
    """
    The next events. Ask again after taking them in; an empty list means: wait for an answer, or for time to pass.

    The slots are how many orders, reviews and checks may be in workers' hands at once; `draining` starts nothing new,
    and neither does a gate that is shut. `hosts` take the orders; without them, any order may go anywhere.
    `gate_hosts` names the hosts of each queue of the gate. `elsewhere` are the paths that other runs have in flight;
    `limits` tell which models may not be asked for now.
    """
    if state.finished:
        return []
    if not draining and (given := delegate_queued(state)):
        return [*given]
    if course.serving:
        decided: Sequence[Event] = _settled(course, state) or withdrawn(state) or back_in_line(state)
        decided = decided or _judge_hosts(state, now, (), gate_hosts)
    else:
        decided = _decided(course, state, now, hosts) or [
            *_judge_hosts(state, now, hosts or (), gate_hosts),
            *tell_lacking(course, state, now, hosts),
            *hold_back(course, state, elsewhere),
            *tell_shut(course, state, now, limits),
        ]
    if decided:
        return [*decided]
    at_gate = next_at_gate(course, state, now, check_slots, draining=draining)
    if (draining and at_gate) or any(not isinstance(one, CheckSent | LandingIntended) for one in at_gate):
        # What is settled there may change what is to be asked for, of these or of others.
        return at_gate
    if not draining:
        asked = task_reviews.next_reviews(course, state, now, review_slots, find_due(course, state))
        # Both reserve of one budget, so orders are decided on when what reviews take of it is in the state.
        started = [*at_gate, *(asked or _orders(course, state, now, order_slots, check_slots, hosts))]
        if started:
            return started
    return _nothing_to_send(course, state, now, order_slots)


def _nothing_to_send(course: PlanIndex, state: RunState, now: float, order_slots: int) -> list[Event]:
    return (
        _ended(course, state)
        or [*halt_for_base(course, state)]
        or [*stop_for_hosts(course, state, now)]
        or [*tell_treasury(course, state, free_slots=order_slots - len(state.working()))]
    )


def _ended(course: PlanIndex, state: RunState) -> list[Event]:
    if course.serving or not state.all_ended:
        return []
    if post_merge.is_check_due(course, state) or post_merge.is_review_due(course, state) or find_due(course, state):
        return []
    lacking = len(state.tasks) - len(course.find_done(state))
    return [
        RunEnded(
            landed=state.count("landed"),
            not_landed=lacking,
            unchanged=state.count("no_changes"),
            already_there=state.count("already_there"),
            reported=state.count("reported"),
        )
    ]


def _judge_hosts(
    state: RunState, now: float, hosts: Iterable[Host], gate_hosts: Collection[frozenset[str]]
) -> list[HostReadmitted | HostSuspended]:
    """
    Decide which hosts are suspended and readmitted. `gate_hosts` names the hosts of each queue of the gate.

    One is suspended only while another well one takes orders or, for a host of the gate alone, serves a queue of it.
    """
    changed: list[HostReadmitted | HostSuspended] = []
    taking = {one.name for one in hosts if one.ours}
    ill = {name for name, health in state.hosts.items() if health.until}
    for name, health in state.hosts.items():
        beside = taking if name in taking else {one for names in gate_hosts if name in names for one in names}
        if health.is_well_again:
            changed.append(HostReadmitted(host=name))
        elif health.is_ill and name in beside and beside - ill - {name}:
            ill.add(name)
            changed.append(HostSuspended(host=name, why=health.words, until=now + health.next_pause_s))
    return changed


def _orders(
    course: PlanIndex, state: RunState, now: float, slots: int, check_slots: int, hosts: Hosts
) -> Sequence[Event]:
    if course.serving:
        return []
    orders = next_orders(course, state, now, slots, check_slots, hosts)
    return orders or next_races(course, state, now, slots, check_slots, hosts)


def _decided(course: PlanIndex, state: RunState, now: float, hosts: Hosts) -> Sequence[Event]:
    return (
        settle_races(state)
        or _passed_on(course, state, now, hosts)
        or _settled(course, state)
        or reply_to_lead(course, state)
        or give_up_lead(course, state)
        or give_up_unheld(course, state, now)
        or settle_replies(course, state)
        or restore_approved(course, state)
        or admit_candidates(course, state)
        or answer_ask(course, state)
        or answer_money(course, state)
        or reopen_for_budget(course, state)
        or _blocked(course, state)
        or out_of_budget(course, state)
        or task_reviews.out_of_budget_for_review(course, state)
        or stop_asking(state)
        or post_merge.give_up_check(state)
        or post_merge.give_up_review(course, state)
    )


def _settled(course: PlanIndex, state: RunState) -> list[Event]:
    """Decide on answers: retry, fail, ask a person, or go on to the landing."""
    events: list[Event] = []
    asking = state.in_phase("queued", "answered", "reviewing", "reviewed")
    for task in state.phases.in_order([*asking, *state.phases.pending_again()]):
        match task.phase:
            case "pending" | "queued" if task.troubles >= MOST_TROUBLES:
                events.append(TaskParked(task=task.id, question=_trouble_question(task)))
            case "queued":
                events += task_reviews.to_be_awaited(course, task)
            case "answered" if task.result is not None:
                events.append(_after_work(course, state, task, task.result))
            case "reviewing":
                events += task_reviews.give_up_review(course, state, task)
            case "reviewed" if task.review.answer is not None:
                events.append(task_reviews.after_review(course, state, task, task.review.answer))
            case _:
                pass
    return events


def _passed_on(course: PlanIndex, state: RunState, now: float, hosts: Hosts) -> list[TaskPassedOn]:
    """Decide on answers that tell of a key or program that their host lacks, where another host may have it."""
    passed = []
    for task in state.phases.in_order(state.phases.each("answered")):
        if hosts and task.result is not None and task.result.lacks and task.result.outcome == "needs_human":
            others = places_of(course, state, now, hosts).able(task)
            if any(host.name != task.result.host for host in others):
                passed.append(TaskPassedOn(task=task.id, host=task.result.host, why=task.result.detail))
    return passed


def _after_work(course: PlanIndex, state: RunState, task: TaskState, result: WorkResult) -> Event:
    if result.report is not None:
        report = prove_report(result.report, state) if task.id == course.lead else result.report
        return TaskReported(task=task.id, report=report)
    if result.outcome == "needs_human" and task.races:
        # Before a person is asked, the other attempt may do it.
        return TaskReturned(task=task.id, reason=reason_of_work(result, attempt=result.attempt), free=True)
    if result.outcome == "needs_human" and result.question:
        return TaskParked(task=task.id, question=result.question, why="question")
    if result.outcome == "needs_human":
        # Nobody asks: something of the host's is wrong, and no answer would mend it.
        wrong = result.detail or "the agent cannot go on, and does not say why"
        return TaskParked(task=task.id, question=f"{wrong}; mend it, then: forgepool retry {state.run} {task.id}")
    if (waits := await_budget(course, state, task, result)) is not None:
        return waits
    planned = course.tasks[task.id]
    # A reviewer answers criteria, and none looks at a task that changes nothing.
    may_idle = (result.nothing_to_do and not planned.criteria) or planned.unchanged == "ok"
    if result.outcome == "no_change" and may_idle and not task.charged:
        # After an attempt that was refused, changing nothing is no way of doing what was asked.
        return TaskUnchanged(task=task.id, why=_unchanged_words(course, task, result))
    reason = reason_of_work(result, attempt=result.attempt)
    return again_or_stop(course, task, reason)


def _unchanged_words(course: PlanIndex, task: TaskState, result: WorkResult) -> str:
    by_command = isinstance(course.tasks[task.id].agent, CommandAgent)
    return "command exited 0" if by_command else result.detail


def _trouble_question(task: TaskState) -> str:
    return f"infrastructure failed it {task.troubles} times in a row, lastly: {task.detail}; mend it, then retry"


def _blocked(course: PlanIndex, state: RunState) -> list[Event]:
    """Pending tasks that need what will not be done, and at once all that need them."""
    if not course.frontier(state).doomed:
        return []
    hopeless = {task.id for task in state.in_phase(*(TERMINAL - DONE))} - course.graph.soft
    waiting = [one for one in course.graph.after_all(hopeless) if state.tasks[one].phase == "pending"]
    events: list[Event] = []
    for task_id in waiting:
        by = next((need.id for need in course.tasks[task_id].needs if need.id in hopeless), None)
        if by is not None:
            hopeless.add(task_id)
            events.append(TaskBlocked(task=task_id, by=by, reports=course.tasks[by].answers))
    return events
