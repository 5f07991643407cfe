"""
The run loop: answers and the clock become events, events become decisions, decisions become messages.

One thread, one journal. Each turn reads answers, watches leases and takes in people's requests. Then it asks
`decisions.decide` until there are no more events. The answers of a turn and all that follows from them are journaled in
one commit, before the messages they stand for are sent. So whatever dies, the journal knows as much as any other part.
"""

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Literal

import structlog

from forgepool.orchestrator.decisions.decide import decide
from forgepool.orchestrator.decisions.locks import beyond
from forgepool.orchestrator.decisions.orders.start_orders import next_orders
from forgepool.orchestrator.decisions.requests import grant_request, why_refused
from forgepool.orchestrator.decisions.results import find_asking_task, knows_less, receive_answer
from forgepool.orchestrator.journal import inbox
from forgepool.orchestrator.journal.events import (
    Event,
    PartRestarted,
    ProfileChosen,
    RacerWithdrawn,
    RunEnded,
    RunPaused,
    TaskCancelled,
    TaskReported,
    TasksHeld,
    TipMoved,
)
from forgepool.orchestrator.journal.inbox import PersonRequest
from forgepool.orchestrator.run import recovery
from forgepool.orchestrator.run.fleet import (
    AccountWatch,
    find_reviewers,
    list_gate_hosts,
)
from forgepool.orchestrator.run.neighbours.other_runs import describe_run, find_paths_elsewhere, share_of_slots
from forgepool.orchestrator.run.run_folder import keep_report
from forgepool.orchestrator.run.sending import Sender
from forgepool.orchestrator.state.hosts import Host
from forgepool.orchestrator.state.review import Outstanding
from forgepool.orchestrator.state.task import IllegalStep, TaskState
from forgepool.supervisor.gate.affected_checks import TargetLanes
from forgepool.workers.queue.broker import CHECKS, LANDINGS, REVIEWS, BrokerAway
from forgepool.workers.queue.leases import slots
from forgepool.workers.queue.replies import MessageRefused, MoneyRequest, PathRequest, PathsAnswer
from forgepool.worktrees.git.git import GitFailed
from forgepool.worktrees.hub.mirror import MissingCommit

log = structlog.get_logger()

WAIT_S = 0.2
_KEEPING_S = 10.0
"""Longest wait at the end of a run for the files of cancelled attempts."""
_AWAY_PAUSE_S = _ANNOUNCE_S = 0.2
_MOST_ROUNDS = 10_000
"""Decisions in one turn: what would be decided without end is not, and answers are heard in between."""

Ending = Literal["ended", "interrupted", "halted"]


@dataclass(slots=True)
class Loop(Sender):
    """A run under way, turn by turn."""

    away: bool = False
    wait_s: float = WAIT_S
    """How long a turn waits for an answer."""
    weight: int = 1
    """The run's part of the order slots, relative to the other runs on its Redis."""
    accounts: AccountWatch | None = None
    """None where no order waits for the limits of models."""
    _announced: float = 0.0
    _let_go: bool = False  # no worker was seen with the files of cancelled attempts
    _keeping_until: float = 0.0
    """When the end of the run waits no longer for these files; 0 while it does not wait."""
    _lanes: TargetLanes = field(init=False)

    def __post_init__(self) -> None:
        checks = self.course.plan.checks
        self._lanes = TargetLanes(self.mirror.git, checks if isinstance(checks, tuple) else ())

    def run(self, *, resumed: bool) -> Ending:
        """Goes on until every task has ended, the person has stopped it, or nothing more can be let in."""
        self.begin(resumed=resumed)
        while (ending := self.step()) is None:
            pass
        return ending

    def begin(self, *, resumed: bool) -> None:
        if resumed:
            self.record(recovery.recover_events(self.state, self.mirror))
            # It may have been killed between the journal and the file.
            self._keep_reports(self.state.in_phase("reported"))
        if self.parts is not None:
            # A private Redis is as young as this process: nobody can hold a message of an earlier one.
            self.link.begin()
            owed = self.state.outstanding()
            self.watch.unsent.update(owed)
            self.watch.interrupted = {one: self.state.holder(sent) for one, sent in owed.items()}

    def step(self) -> Ending | None:
        """One turn; how the run has ended with it, None where it goes on."""
        self._turn()
        if self.state.finished:
            self._forget()
            return "ended"
        stopped = self._stopped()
        if stopped is not None:
            with suppress(*BrokerAway):
                self._withdraw()
        return stopped

    def _turn(self) -> None:
        self._mend()
        try:
            if self.copy is not None:
                self.copy.push_due()
            self._receive()
            self._look_after_leases()
            self._take_requests()
            self._decide()
            self._fence()
            self._miss_workers()
            if self.away:
                self.wishes.untold.append("Redis answers again")
            self.away = False
        except BrokerAway:
            self.keep()
            self._redis_away()
        except (GitFailed, MissingCommit) as trouble:
            self.keep()
            log.warning("hub.away", run=self.state.run, why=str(trouble))
            time.sleep(_AWAY_PAUSE_S)
        self.listener(self.state, ())

    def _mend(self) -> None:
        restarted = self.parts.mend() if self.parts is not None else []
        if "redis" in restarted:
            self.link.give_grace()
            self.watch.unsent.update(self._untaken())
        if restarted:
            self.record([PartRestarted(part=part) for part in restarted])

    def _untaken(self) -> set[str]:
        """Return the messages no worker was seen to take; if Redis is gone, they are gone too."""
        return {one for one, sent in self.state.outstanding().items() if not self.state.holder(sent)}

    def _redis_away(self) -> None:
        if not self.away:
            log.warning("redis.away", run=self.state.run)
            self.wishes.untold.append(
                "Redis does not answer; the run waits for it, and workers go on with what they have"
            )
        self.away = True
        self.link.give_grace()
        time.sleep(_AWAY_PAUSE_S)

    def _receive(self) -> None:
        """Takes in what was answered; an answer that does not fit is logged, and changes nothing."""
        with self._one_commit():
            for answer in self.link.answers(wait_s=self.wait_s):
                if isinstance(answer, MessageRefused):
                    self.record(self.watch.note_refused(answer, self.state, self.link.workers()))
                    continue
                if isinstance(answer, PathRequest):
                    self._reply_at_once(answer)
                if isinstance(answer, MoneyRequest):
                    self._repeat_money(answer)
                for event in receive_answer(self.course, self.state, answer):
                    self._note_reviewer(event)
                    try:
                        self.record([event])
                    except IllegalStep as refused:
                        log.warning("answer.refused", run=self.state.run, why=str(refused))

    def _reply_at_once(self, question: PathRequest) -> None:
        """To one that was answered before, and whose answer got lost; and where nothing new is asked for."""
        task = find_asking_task(self.state, question)
        if task is None:
            return
        if question.number in task.asks:
            self._reply(task, question.number)
        elif not beyond(self.course, task, question.paths):
            self.link.reply(question.order_id, question.number, PathsAnswer(verdict="granted"))

    def _repeat_money(self, request: MoneyRequest) -> None:
        """Answer one whose answer got lost."""
        task = find_asking_task(self.state, request)
        if task is not None and (knows_less(task, request) or (task.money is not None and task.money.queued)):
            self._reply_money(task)

    def _look_after_leases(self) -> None:
        findings = self.watch.look(self.state, self.link)
        self.record(findings.taken)
        for message in findings.unsent:
            self._send(message, resent=True)
        for message in findings.waiting:
            self._move(message)
        for message in findings.lost:
            self._lose(message)

    def _lose(self, message: Outstanding) -> None:
        """Handle a lost holder: ask the hub whether it finished; if not, fence it and retry. May raise GitFailed."""
        used = None
        events: list[Event] = []
        if message.kind == "order":
            task = self.state.attempt_at(message.task, message=message.message_id)
            events = recovery.recover_result(self.state, self.mirror, task)
            used = None if events else recovery.find_seen_use(self.course, self.state, self.mirror, task)
        elif message.kind == "landing":
            events = recovery.recover_landing(self.state, self.mirror, self.state.tasks[message.task])
        self.link.fence(message.message_id)
        if not events:
            lost = self.watch.make_lost_event(message, self.state.holder(message))
            events = [lost.model_copy(update={"used": used})]
        self.record(events)

    def _take_requests(self) -> None:
        for path, request in inbox.waiting(self.folder):
            if (why := why_refused(self.course, self.state, request)) is not None:
                log.warning("request.overtaken", run=self.state.run, why=why)
                if request.do in ("add", "budget"):
                    what = "no task is added" if request.do == "add" else "the budget stays"
                    self.wishes.untold.append(f"{what}: {why}")
            events = [self._with_use(one) for one in self._granted(request)]
            for event in events:
                self._note_reviewer(event)
            try:
                self.record(events)
            except IllegalStep as refused:
                log.warning("request.refused", run=self.state.run, why=str(refused))
            # Before the request is gone: an attempt under way hears of it in no other way.
            for event in events:
                if isinstance(event, ProfileChosen):
                    self.link.wish_profile(event.task, event.profile)
            self.keep()
            path.unlink()

    def _granted(self, request: PersonRequest) -> list[Event]:
        return grant_request(self.course, self.state, request)

    def _with_use(self, event: Event) -> Event:
        """Add the use of a cancelled attempt, or of one that lost a race, where the hub can be asked for it."""
        if not isinstance(event, TaskCancelled | RacerWithdrawn):
            return event
        task = self.state.attempt_at(event.task, event.attempt if isinstance(event, RacerWithdrawn) else None)
        if task.phase != "running" or task.message is None:
            return event
        self._note_holder(task.message)
        try:
            used = recovery.find_seen_use(self.course, self.state, self.mirror, task)
        except GitFailed:
            return event
        return event.model_copy(update={"used": used})

    def _decide(self) -> None:
        self._meet_tip()
        if self.treasury is not None:
            self.treasury.note_accounts(self.course, self.link.workers())
            self.course = self.course.within(self.treasury.look(self.state, self.clock()))
        hosts = self._order_hosts()
        review_slots = slots(find_reviewers(self._well(REVIEWS), self.course), REVIEWS)
        check_slots, gate_hosts = self._check_slots(), list_gate_hosts(self.link.workers())
        # Nobody else is on a private Redis.
        others = () if self.parts is not None else self.link.other_runs()
        all_slots = sum(host.slots for host in hosts)
        order_slots = share_of_slots(all_slots, self.state.run, self.weight, others)
        elsewhere = find_paths_elsewhere(self.state, others)
        watch = self.accounts
        limits = None if watch is None else watch.look(self.course.plan, self.link.workers(), self.clock())
        decided: list[Event] = []
        with self._one_commit():
            for _ in range(_MOST_ROUNDS):
                events = decide(
                    self.course,
                    self.state,
                    now=self.clock(),
                    order_slots=order_slots,
                    review_slots=review_slots,
                    check_slots=check_slots,
                    draining=self.wishes.drain,
                    hosts=hosts,
                    gate_hosts=gate_hosts,
                    elsewhere=elsewhere,
                    limits=limits,
                )
                if not events or (isinstance(events[0], RunEnded) and self._is_keeping()):
                    break
                events = [self._with_use(one) for one in events]
                events, refused = self._reserve(recovery.unless_landed(self.state, self.mirror, events))
                decided += self._take(events)
                if refused or any(isinstance(event, TasksHeld) for event in events):
                    break
            else:
                log.error("decisions.put_off", run=self.state.run, rounds=_MOST_ROUNDS)
        self.keep()
        self._keep_reports(self.state.tasks[event.task] for event in decided if isinstance(event, TaskReported))
        self._tell(decided)
        if any(isinstance(event, TasksHeld) for event in decided):
            self._meet_other_landings()
        if self.parts is None and time.monotonic() > self._announced + _ANNOUNCE_S:
            self._announced = time.monotonic()
            self._announce(hosts, all_slots if order_slots < all_slots else 0, check_slots)

    def _reserve(self, events: list[Event]) -> tuple[list[Event], bool]:
        """Return the events for which the treasury has room, and whether it has none for others."""
        return (events, False) if self.treasury is None else self.treasury.reserve(self.state, events, self.clock())

    def _is_keeping(self) -> bool:
        """
        Tell whether a worker may still keep the files of an attempt that was ended; the run's own end with the run.

        It hears of the cancelling at the next renewal of its lease, and lets go of the lease once it is done.
        """
        orders = self.state.list_ended_orders()
        # Its last word may have come after this turn read the answers, so one more turn reads them.
        before, self._let_go = self._let_go, bool(orders) and not self.link.holders(orders)
        if not orders or self._let_go:
            return self._let_go and not before
        self._fence()
        self._keeping_until = self._keeping_until or time.monotonic() + _KEEPING_S
        return time.monotonic() < self._keeping_until

    def _keep_reports(self, tasks: Iterable[TaskState]) -> None:
        for task in (one for one in tasks if one.report is not None):
            keep_report(self.folder, self.course, self.state, task, self.mirror.git)

    def _meet_other_landings(self) -> None:
        """Take in what other runs have landed, so that a task that has waited for it is based on it."""
        state, ref = self.state, f"refs/heads/{self.state.target}"
        if all(held.run for held in state.elsewhere.values()):
            return
        if state.halted or state.train.landing or state.wave.message or state.wave_review.review.message:
            return
        try:
            tip = self.mirror.hub_refs(ref).get(ref)
            if tip is not None and tip != state.tip:
                self.mirror.ensure(tip, refs=(ref,))
                self.record([TipMoved(tip=tip)])
        except (GitFailed, MissingCommit) as trouble:
            log.warning("hub.away", run=state.run, why=str(trouble))

    def _announce(self, hosts: Sequence[Host], slots_wanted: int, check_slots: int) -> None:
        """Tell the other runs on this Redis how this one stands, and how many orders it would start by itself."""
        waiting = 0
        if slots_wanted and not (self.wishes.drain or self.course.serving):
            waiting = len(next_orders(self.course, self.state, self.clock(), slots_wanted, check_slots, hosts))
        self.link.announce(describe_run(self.course, self.state, weight=self.weight, waiting=waiting))

    def _meet_tip(self) -> None:
        lanes = self._lanes.at(self.state.tip)
        if lanes is not self.course.lanes:
            self.course = replace(self.course, lanes=lanes)

    def _check_slots(self) -> int:
        return slots(self._well(CHECKS), CHECKS, beside=LANDINGS)

    def _stopped(self) -> Ending | None:
        """Return the ending of a run that stops here unfinished."""
        if self.wishes.stop or (self.wishes.drain and not self._held()):
            self.record([RunPaused(why="interrupted")])
            return "interrupted"
        if self.state.halted and not self.state.outstanding() and self._nothing_to_wait_for():
            self.record([RunPaused(why="")])
            return "halted"
        return None

    def _held(self) -> bool:
        """Tell whether a worker holds a message; one that no worker has taken is sent again on resume."""
        return any(self.state.holder(sent) for sent in self.state.outstanding().values())

    def _nothing_to_wait_for(self) -> bool:
        now = self.clock()
        waiting = [task.not_before for task in self.state.in_phase("pending", "queued")]
        if any(one.is_pausing(now) and not one.stopped for one in self.state.streaks.values()):
            return False
        return all(until <= now for until in waiting) and not decide(
            self.course, self.state, now=now, order_slots=1, review_slots=1, draining=False
        )

    def _withdraw(self) -> None:
        if self.treasury is not None:
            self.treasury.leave()
        self.link.withdraw()

    def _forget(self) -> None:
        try:
            self._withdraw()
            self.link.forget()
        except BrokerAway:
            log.info("redis.away", during="forget")
