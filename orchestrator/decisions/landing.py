"""
The next step at the gate: the train's plan, as events. Pure.

The plan knows entries and trials; what else decides about an entry, its review and its troubles, is told to it here.
While a landing is under way the plan is made as if it had succeeded, and nothing but trials follows from it: what is
tried behind a landing that fails is of no use, and costs no other entry anything.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import assert_never

from forgepool.orchestrator.decisions.orders.start_orders import token
from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.decisions.reasons import again_or_stop, reason_of_check
from forgepool.orchestrator.decisions.reviews import post_merge
from forgepool.orchestrator.decisions.reviews.post_merge import next_base
from forgepool.orchestrator.journal.events import (
    CarDissolved,
    CheckCancelled,
    CheckSent,
    Event,
    LandingIntended,
    ReviewAwaited,
)
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.streaks import is_pausing
from forgepool.orchestrator.state.task import TaskState
from forgepool.orchestrator.state.train import decorate_line
from forgepool.supervisor.messages.answers import Approval, CheckResult
from forgepool.supervisor.train.model import (
    Action,
    Cancel,
    Couple,
    Dissolve,
    Ids,
    Land,
    Return,
    StartTrial,
    TrainPolicy,
    Trial,
)
from forgepool.supervisor.train.queue import TrainQueue
from forgepool.supervisor.train.surprise import surprise_rate, suspect_rate

_USUAL_RISK, _USUAL_N = 0.08, 12
"""How often an entry is returned, and how many outcomes that is worth as long as little is known here."""
_ROUNDS = 1000
"""Plans that only couple entries are asked on; more of them than there are entries would be a mistake in the plan."""


def next_at_gate(course: PlanIndex, state: RunState, now: float, slots: int, *, draining: bool) -> list[Event]:
    """
    Return the next events of the merge train, with at most `slots` checks running at once.

    A paused queue starts no new checks; pending results still take effect. While a post-merge check runs, nothing else
    happens.
    """
    if state.wave.message is not None or state.wave_review.review.message is not None:
        return []
    if not (draining or state.halted) and (base := next_base(state, now)):
        return [*base]
    due = post_merge.is_review_due(course, state) or post_merge.is_check_due(course, state)
    events = _Gate(course=course, state=state, now=now, line=_line(course, state, now)).next(slots)
    if state.paused:
        events = [one for one in events if not isinstance(one, CheckSent | CheckCancelled | LandingIntended)]
    if due or draining or state.halted:
        events = [one for one in events if not isinstance(one, CheckSent | CheckCancelled)]
    if due and not (draining or state.halted or events or state.train.messages()):
        # As long as it has not been found green, and well, it is due: nobody else comes to the gate.
        return [*post_merge.next_look(course, state, now)]
    return events


def _line(course: PlanIndex, state: RunState, now: float) -> TrainQueue:
    line = state.train.line
    on_tip = {
        key: one
        for key, one in line.trials.items()
        if one.stale or one.behind or state.train.out[key].base == state.tip
    }
    line = TrainQueue(entries=line.entries, cars=line.cars, trials=on_tip)
    frozen = _frozen(state, now)
    going = state.train.apart & line.entries.keys() - state.held - state.train.refused.keys() - frozen
    apart = [line.entries[one].accepted for one in going]
    known = {one: _known(course, state, state.tasks[one], now, frozen=one in frozen) for one in line.entries}
    if apart:
        needed = _all_needed(course, state, state.train.apart)
        for one, entry in line.entries.items():
            behind = entry.accepted > min(apart) and one not in needed
            known[one] |= {"held": known[one]["held"] or behind}
            known[one] |= {"single": known[one]["single"] or one in state.train.apart}
    return decorate_line(line, known, state.train.decorated)


def _frozen(state: RunState, now: float) -> set[str]:
    """Return the entries that may not land before a freeze ends. Each is tested alone once; hotfixes pass it by."""
    if state.rules.frozen_until(now) is None:
        return set()
    return {one for one in state.train.line.entries if state.submitted[one].klass != "hotfix"}


def _known(course: PlanIndex, state: RunState, task: TaskState, now: float, *, frozen: bool) -> dict[str, object]:
    planned, stands = course.tasks[task.id], state.train.line.entries[task.id]
    waits = task.phase not in ("queued", "testing", "landing")
    entry, outcomes = state.submitted.get(task.id), state.train.outcomes
    of_gate = {} if entry is None else {"klass": entry.klass, "submitter": entry.by}
    return of_gate | {
        "ready": (not course.wants_review(task) or task.review.passed) and not frozen,
        "held": waits
        or (frozen and stands.vetted)
        or is_pausing(task.not_before, now)
        or _stays(state, task.id)
        or _lacks_a_need(state, task),
        "needs": tuple(need for need in _needs(course, state, task) if need in state.train.line.entries),
        "risk": (_USUAL_N * _USUAL_RISK + sum(outcomes)) / (_USUAL_N + len(outcomes)),
        "scopes": course.lanes.of(task.result.paths) if task.result is not None else None,
        "kind": "reviewed" if course.wants_review(task) else "",
        "single": bool(planned.grants or planned.waive) or stands.single or task.id in state.train.doubted,
    }


def _stays(state: RunState, entry: str) -> bool:
    return entry in state.held or entry in state.train.refused


def _needs(course: PlanIndex, state: RunState, task: TaskState) -> tuple[str, ...]:
    entry = state.submitted.get(task.id)
    return entry.needs if entry is not None else tuple(need.id for need in course.tasks[task.id].needs)


def _lacks_a_need(state: RunState, task: TaskState) -> bool:
    """An entry needs one that has neither landed nor stands in line: it waits for a person's word."""
    entry = state.submitted.get(task.id)
    wanted = () if entry is None else entry.needs
    return any(one not in state.train.line.entries and state.tasks[one].phase != "landed" for one in wanted)


def _all_needed(course: PlanIndex, state: RunState, names: Iterable[str]) -> set[str]:
    """Return these entries, and all that they need directly or through others."""
    found, left = set[str](), list(names)
    while left:
        one = left.pop()
        if one not in found:
            found.add(one)
            left.extend(_needs(course, state, state.tasks[one]))
    return found


@dataclass(slots=True, kw_only=True)
class _Gate:
    """One asking of the plan."""

    course: PlanIndex
    state: RunState
    now: float
    line: TrainQueue
    coupled: dict[Ids, int] = field(default_factory=dict)
    sent: Counter[str] = field(default_factory=Counter)

    def next(self, slots: int) -> list[Event]:
        landing = self.state.train.landing
        if not self.line.entries:
            return []
        if landing is not None:
            running = self._running()
            self.line.land(landing.intent.entries)
            # What is tried of those that land goes on until they have landed.
            slots -= running - self._running()
        outcomes, cap = self.state.train.outcomes, self.state.rules.most_of_one
        named = suspect_rate(self.state.train.named)
        doubted = (one for one in self.state.train.doubted if not _stays(self.state, one))
        policy = TrainPolicy(most_of_one=cap, later_passes=not any(doubted))
        events: list[Event] = []
        for _ in range(_ROUNDS):
            seen = self.line.snapshot(slots=slots, policy=policy, surprise=surprise_rate(outcomes), named=named)
            actions = self.state.train.plan(seen)
            events += [event for action in actions for event in self._events(action)]
            if landing is not None:
                return [one for one in events if isinstance(one, CheckSent | CheckCancelled)]
            if not actions or (events and not self._makes_room(events)):
                return events
        raise RuntimeError("the train's plan couples without end")

    def _running(self) -> int:
        return sum(trial.state == "running" for trial in self.line.trials.values())

    def _makes_room(self, events: list[Event]) -> bool:
        """
        Cancel trials for a batch that is kept nowhere before its trial is sent. Both happen in the same turn, or the
        cancelled ones would be started and cancelled again for ever.
        """
        return bool(self.coupled) and all(isinstance(one, CheckCancelled) for one in events)

    def _events(self, action: Action) -> list[Event]:
        match action:
            case Couple(entries=entries, at=at):
                self.line.couple(entries, at)
                self.coupled[entries] = at
                return []
            case StartTrial():
                return [self._start(action)]
            case Cancel(trial=trial, why=why):
                lead = self.line.trials[trial].car[-1]
                self.line.forget(trial)
                return [CheckCancelled(task=lead, message_id=trial, why=why)]
            case Land(trial=trial):
                return self._land(self._apart(self.line.trials[trial]))
            case Return(entry=entry, trial=trial):
                task, result = self.state.tasks[entry], self._result(trial)
                reason = reason_of_check(result, task)
                return [again_or_stop(self.course, task, reason)]
            case Dissolve(car=car, parts=parts, trial=trial, suspects=suspects):
                return [CarDissolved(car=car, parts=parts, message_id=trial, suspects=suspects)]
            case _:
                assert_never(action)

    def _start(self, start: StartTrial) -> CheckSent:
        lead = self.state.tasks[start.car[-1]]
        self.sent[lead.id] += 1
        message_id = f"{self.state.run}.{lead.id}.{lead.made_by}.check-{lead.checks + self.sent[lead.id]}"
        landing = self.state.train.landing
        return CheckSent(
            task=lead.id,
            message_id=message_id,
            token=token(message_id, self.now),
            base=self.state.tip,
            ahead=(*(landing.intent.entries if landing is not None else ()), *start.ahead),
            car=start.car,
            at=self.coupled.pop(start.car, None),
            decisive=start.decisive,
            scopes={
                one: tuple(sorted(found)) for one in start.car if (found := self.line.entries[one].scopes) is not None
            },
            issued_at=self.now,
        )

    def _land(self, trial: Trial) -> list[Event]:
        """Land the trial, or let entries wait again whose diff has changed since their approval."""
        tasks, result = [self.state.tasks[one] for one in trial.spec], self._result(trial.id)
        # The answer is of the spec as it was sent: those that have landed since stand before these in it.
        approvals = [self._approval(task, result, at) for at, task in enumerate(tasks, start=-len(tasks))]
        wanting = [
            task
            for task, found in zip(tasks, approvals, strict=True)
            if found is None and self.course.wants_review(task)
        ]
        if wanting:
            return [ReviewAwaited(task=task.id) for task in wanting]
        return [self._landing(tasks, result, approvals)]

    def _apart(self, trial: Trial) -> Trial:
        """
        Return the longest tested part of a spec before the first entry that the hub refused, or that entry by itself.

        Without such a part return the whole spec: it is as green as ever, and the hub answers.
        """
        spec, doubted = trial.spec, self.state.train.doubted
        first = next((at for at, one in enumerate(spec) if one in doubted), len(spec))
        wanted = [spec[:size] for size in range(first or 1, 0, -1)]
        able = {one.spec: one for one in (trial, *self.line.trials.values()) if one.lands}
        return next((able[one] for one in wanted if one in able), trial)

    def _approval(self, task: TaskState, result: CheckResult, at: int) -> Approval | None:
        return task.approval(result, at) if self.course.wants_review(task) else None

    def _landing(self, tasks: list[TaskState], result: CheckResult, approvals: list[Approval | None]) -> Event:
        if result.commit is None or result.tree is None:
            raise ValueError(f"'{tasks[-1].id}' was found green without a commit")
        lead = tasks[-1]
        message_id = f"{self.state.run}.{lead.id}.{lead.made_by}.land-{lead.landings + 1}"
        return LandingIntended(
            task=lead.id,
            message_id=message_id,
            token=token(message_id, self.state.at),
            base=self.state.tip,
            commit=result.commit,
            tree=result.tree,
            entries=tuple(task.id for task in tasks),
            commits=result.commits[-len(tasks) :] or (result.commit,),
            certificates=result.certificates,
            approvals=tuple(approvals),
            issued_at=self.state.at,
        )

    def _result(self, trial: str) -> CheckResult:
        result = self.state.train.out[trial].result
        if result is None:
            raise ValueError(f"{trial} was decided upon without an answer")
        return result
