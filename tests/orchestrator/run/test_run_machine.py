"""Random events, with deaths of the orchestrator at any point: a run keeps its guarantees at every step."""

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from invariants import FILES, GLOBS, Invariants, outcome_explained
from plans import RUN, course
from plans import task as planned
from world import Request, World

from forgepool.orchestrator.decisions.decide import decide
from forgepool.orchestrator.decisions.orders.purse import limits_of_order
from forgepool.orchestrator.decisions.orders.races import index_for
from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.decisions.requests import find_ended, grant_request, grow, why_not_grow, with_budget
from forgepool.orchestrator.decisions.results import Answer, message_of, receive_answer
from forgepool.orchestrator.decisions.reviews.task_reviews import MOST_REVIEWS
from forgepool.orchestrator.journal.events import (
    CheckSent,
    Event,
    LandingAnswered,
    LandingIntended,
    MessageLost,
    MoneyGranted,
    OrderAnswered,
    OrderSent,
    RacerWithdrawn,
    ReviewSent,
    RunResumed,
    RunStarted,
    TaskApproved,
    TaskCancelled,
    TasksAdded,
    WaveReviewSent,
    WaveSent,
)
from forgepool.orchestrator.journal.inbox import PersonRequest as Wish
from forgepool.orchestrator.journal.store import Journal, read
from forgepool.orchestrator.plan.budget import Budget, SeenUse
from forgepool.orchestrator.plan.entries import GateOptions, PlanReview, Wave
from forgepool.orchestrator.run.dispatch import (
    check_request,
    land_request,
    order,
    review_request,
    wave_request,
    wave_review_request,
)
from forgepool.orchestrator.run.recovery import settle_events
from forgepool.orchestrator.state.fold import apply
from forgepool.orchestrator.state.review import Outstanding
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import MOST_TROUBLES, TERMINAL, TaskState
from forgepool.supervisor.gate.affected_checks import ONE_LANE, Lanes
from forgepool.supervisor.messages.requests import CheckRequest, LandRequest, ReviewPolicy, ReviewRequest
from forgepool.workers.policy.gate_file.document import CheckDefinition
from forgepool.workers.schema.orders import BuiltinAgent, Limits, Outcome, WorkOrder

# Thousands of journals are written and synced, in memory where possible.
_PLACE = "/dev/shm" if Path("/dev/shm").is_dir() else None

_OUTCOMES: list[Outcome] = [
    *("candidate", "candidate", "candidate", "candidate", "candidate"),
    *("no_change", "verify_failed", "agent_failed", "limits_spent", "infrastructure", "infrastructure"),
    *("needs_human", "refused", "out_of_scope"),
]
_VERDICTS = [
    *(["green"] * 7),
    *("red", "red", "conflict", "findings", "stale", "apart", "infrastructure", "base_red", "not_configured"),
]
_OF_THE_TARGET = [*(["green"] * 3), "base_red", "not_configured", "infrastructure"]
_REVIEWS = [
    *(["passed"] * 5),
    *("failed", "failed", "void", "unreachable", "limits", "conflict", "stale", "infrastructure", "infrastructure"),
]

_RARELY = st.integers(0, 3).map(lambda one: one == 3)
_LIMITS = st.builds(Limits, cost_usd=st.sampled_from([None, None, 0.4, 2.0]), tokens=st.sampled_from([None, 300]))
SEEDS = st.integers(0, 2**32)
"""Seeds of the random choices within one step."""


@st.composite
def courses(draw: st.DrawFn) -> PlanIndex:
    count = draw(st.integers(5, 12))
    globs = st.lists(st.sampled_from(sorted(GLOBS)), max_size=2, unique=True)
    narrow = st.sampled_from(["a/1", "a/2", "b/1", "b/2", "c"]).map(lambda one: [one])
    tasks = []
    for number in range(count):
        earlier = st.sampled_from([f"t{one}" for one in range(number)] or ["none"])
        needs = draw(st.lists(earlier, max_size=2, unique=True)) if number and draw(_RARELY) else []
        reads = draw(globs) if draw(_RARELY) else []
        files = draw(narrow | narrow | globs | st.none())
        attempts = draw(st.integers(1, 3))
        said = {"agent": BuiltinAgent(), "limits": draw(_LIMITS)} if draw(st.booleans()) else {}
        said |= {"review": "none"} if draw(_RARELY) else {}
        said |= {"unchanged": draw(st.sampled_from(["ok", "fail"]))}
        if "agent" in said and draw(st.booleans()):
            attempts, ladder = max(2, attempts), ("m-1", "m-2", "m-3")
            said |= {"agent": BuiltinAgent(model="m-1"), "ladder": ladder[:attempts], "race": True}
        tasks.append(planned(f"t{number}", *needs, files=files, reads=tuple(reads), attempts=attempts, **said))
    by_script = draw(st.booleans())
    review = PlanReview(policy=ReviewPolicy(script="x" if by_script else None), commands=draw(st.booleans()))
    wave = Wave(every=draw(st.sampled_from([None, 1, 3]))) if draw(_RARELY) else None
    order_at_gate = draw(st.sampled_from(["cheap_first", "side_by_side", "review_first"]))
    whole = draw(st.sampled_from(["never", "end", "each", "each"])) if wave is not None else "never"
    made = course(
        *tasks,
        review=draw(st.sampled_from(["none", None, review, review])),
        gate=GateOptions.model_validate({"order": order_at_gate, "wave": wave, "integration_review": whole}),
        budget=draw(st.sampled_from([Budget(), Budget(usd=3.0), Budget(tokens=2000), Budget(usd=1.0, tokens=5000)])),
        scope=draw(st.sampled_from(["extend", "strict"])),
        undeclared=draw(st.sampled_from(["optimistic", "exclusive"])),
        reads=draw(st.sampled_from(["block", "ignore"])),
    )
    racing = frozenset(one.id for one in tasks if one.race)
    return replace(made, lanes=draw(st.sampled_from([ONE_LANE, LANES])), racing=racing)


LANES = Lanes([CheckDefinition(name=one.replace("/", "-"), run="x", paths=(one,)) for one in FILES])
"""A check for each file."""


class Run(RuleBasedStateMachine):
    """A run, its journal, and the world around it."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="forgepool-machine-", dir=_PLACE))
        self.now = 1000.0

    @initialize(plan=courses(), seed=SEEDS)
    def begin(self, plan: PlanIndex, seed: int) -> None:
        self.course, self.world, self.watch = plan, World(), Invariants(plan)
        self.planned = tuple(plan.tasks)
        self.state = RunState.blank(self.planned)
        self.journal = Journal(self.folder)
        self.record(RunStarted(run=RUN, plan_digest="d", hub="/hub", target="t", tip=self.world.tip))
        self.go_on(Random(seed).randint(0, 10), seed)

    @rule(rounds=st.integers(1, 20), seed=SEEDS)
    def go_on(self, rounds: int, seed: int) -> None:
        """Run the loop while the world answers in any order, mostly well and not completely."""
        chance = Random(seed)
        for _ in range(rounds):
            self.now += chance.choice([0.5, 2.0, 20.0])
            self.turn(chance.randint(1, 4), slots=chance.randint(0, 4))
            for request in chance.sample(self.world.mail, len(self.world.mail)):
                if isinstance(request, WorkOrder) and request in self.world.mail and chance.random() < 0.3:
                    self.ask_for(request, chance)
                    self.ask_money_for(request, chance)
                elif request in self.world.mail and chance.random() < 0.7:
                    well = chance.random() < (0.3 if isinstance(request, ReviewRequest) else 0.6)
                    self.receive(self.finish_well(request) if well else self.finish(request, chance))
                elif self.state.outstanding() and chance.random() < 0.4:
                    self.lose(chance.getrandbits(32), for_good=chance.random() < 0.2)
            if chance.random() < 0.15:
                self.ask(chance.getrandbits(32), chance.choice(["approve", "approve", "reject"]))
            self.resend()

    @rule(times=st.integers(1, 4), slots=st.integers(0, 4), draining=st.booleans())
    def turn(self, times: int, slots: int, draining: bool = False) -> None:
        for _ in range(times):
            events = self.decided(slots, draining=draining)
            self.record(*events)
            self.send(events)

    @rule(slots=st.integers(1, 4))
    def die_deciding(self, slots: int) -> None:
        """Die after the last decision was journaled and before anything was sent."""
        self.record(*self.decided(slots))
        self.restart()

    @precondition(lambda self: self.world.mail)
    @rule(seed=SEEDS, arrives=st.booleans())
    def answer(self, seed: int, arrives: bool) -> None:
        """Finish one message, perhaps one given up or cancelled long ago."""
        chance = Random(seed)
        request = chance.choice(self.world.mail)
        self.receive(self.world.start(request))
        answer = self.finish(request, chance)
        if arrives:
            self.receive(answer)

    @precondition(lambda self: self.world.told)
    @rule(seed=SEEDS)
    def answer_again(self, seed: int) -> None:
        self.receive(Random(seed).choice(self.world.told))

    @precondition(lambda self: self.world.mail)
    @rule(seed=SEEDS)
    def answer_with_a_wrong_token(self, seed: int) -> None:
        request = Random(seed).choice(self.world.mail)
        if request.token in {one.token for one in self.state.outstanding().values()}:
            # A worker that answers has reported its start before.
            self.receive(self.world.start(request))
            answer = self.finish_well(request).model_copy(update={"token": "wrong"})
            assert not receive_answer(self.course, self.state, answer), "an answer was taken without its token"

    @precondition(lambda self: self.state.outstanding())
    @rule(seed=SEEDS, for_good=st.booleans())
    def lose(self, seed: int, for_good: bool) -> None:
        """Let a worker vanish. Its work may be done all the same, and reported much later."""
        sent = Random(seed).choice(list(self.state.outstanding().values()))
        self.begin_work(sent, Random(seed))
        if for_good:
            self.world.mail = [one for one in self.world.mail if one.token != sent.token]
        silent = sent.kind in ("review", "wave", "wave_review")
        found = [] if silent else self.in_hub(self.state.attempt_at(sent.task, message=sent.message_id), sent)
        self.record(*(found or [self.lost(sent)]))

    @rule(seconds=st.sampled_from([1.0, 10.0, 100.0]))
    def somebody_else_lands(self, seconds: float) -> None:
        self.now += seconds
        self.world.somebody_else_lands()

    @rule(seed=SEEDS, do=st.sampled_from(["cancel", "retry", "answer", "approve", "approve", "reject"]))
    def ask(self, seed: int, do: str) -> None:
        asking = [task.id for task in self.state.tasks.values() if task.question]
        made = [task.id for task in self.state.tasks.values() if task.candidate and task.phase != "landed"]
        likely = {"answer": asking, "approve": made, "reject": made}.get(do, [])
        named = Random(seed).choice(likely or list(self.state.tasks))
        wish = Wish.model_validate({"do": do, "task": named, "text": "this one", "by": "A Person"})
        for event in grant_request(self.course, self.state, wish):
            if isinstance(event, TaskApproved):
                self.world.approved.add(event.commit)
            self.record(self.with_use(event, Random(seed)))

    @precondition(lambda self: len(self.state.additions) < 5)
    @rule(seed=SEEDS, by_lead=st.booleans())
    def add(self, seed: int, by_lead: bool) -> None:
        """Add tasks that need what there is, perhaps in place of one that has not begun. The same key adds once."""
        chance, number = Random(seed), len(self.state.additions)
        needed = {need.id for task in self.course.plan.tasks for need in task.needs}
        free = [one.id for one in self.state.in_phase("pending") if not one.attempt and one.id not in needed]
        drop = chance.sample(free, 1) if free and chance.random() < 0.4 else []
        ids = [f"n{number}-{one}" for one in range(chance.randint(1, 3))]
        ids[0] = drop[0] if drop and chance.random() < 0.5 else ids[0]
        there = [one for one in self.course.tasks if one not in drop and one not in find_ended(self.state)]
        tasks = []
        for at, name in enumerate(ids):
            needs = chance.sample([*there, *ids[:at]], min(len(there) + at, chance.randint(0, 2)))
            said = {"agent": BuiltinAgent()} if chance.random() < 0.3 else {}
            tasks.append(planned(name, *needs, files=[chance.choice(FILES)], attempts=2, **said))
        added = TasksAdded(tasks=tuple(tasks), by="lead", why="", request=f"lead#{number}" if by_lead else f"k{number}")
        events = grow(self.course, self.state, added, drop)
        assert events, why_not_grow(self.course, self.state, added, drop)
        self.record(*events)
        assert set(ids) <= set(self.course.tasks) == set(self.state.tasks)
        assert not grow(self.course, self.state, added), "a request was granted twice"

    @precondition(lambda self: self.state.wave_review.review.sent)
    @rule()
    def answer_for_the_whole(self) -> None:
        """Approve the landed whole. An approval of another tip is refused."""
        wish = Wish(do="approve", wave=True, by="A Person", candidate=self.state.tip)
        self.record(*grant_request(self.course, self.state, wish))
        stale = wish.model_copy(update={"candidate": "another"})
        assert not grant_request(self.course, self.state, stale), "a word on another tip was taken"

    @rule(more=st.sampled_from([1.5, 3.0]))
    def raise_budget(self, more: float) -> None:
        cap = self.course.budget(self.state)
        usd = None if cap.usd is None else cap.usd * more
        tokens = None if cap.tokens is None else int(cap.tokens * more)
        self.record(*with_budget(self.course, self.state, Budget(usd=usd, tokens=tokens)))

    @precondition(lambda self: any(isinstance(one, WorkOrder) for one in self.world.mail))
    @rule(seed=SEEDS)
    def ask_for_paths(self, seed: int) -> None:
        """Let an attempt ask for paths, perhaps one whose order was given up."""
        chance = Random(seed)
        asking = chance.choice([one for one in self.world.mail if isinstance(one, WorkOrder)])
        self.ask_for(asking, chance)

    @precondition(lambda self: any(isinstance(one, WorkOrder) for one in self.world.mail))
    @rule(seed=SEEDS)
    def ask_for_money(self, seed: int) -> None:
        """Let an attempt ask for more of the budget, perhaps one whose order was given up."""
        chance = Random(seed)
        asking = chance.choice([one for one in self.world.mail if isinstance(one, WorkOrder)])
        self.ask_money_for(asking, chance)

    def ask_money_for(self, asking: WorkOrder, chance: Random) -> None:
        if asking.shared:
            self.receive(self.world.ask_money(asking, chance.choice([0.0, 0.0, 0.01, 0.2])))

    def ask_for(self, asking: WorkOrder, chance: Random, *, many: bool = False) -> None:
        wanted = chance.sample(FILES, 4 if many else chance.randint(1, 2))
        self.receive(self.world.ask_paths(asking, chance.getrandbits(53), wanted))

    def queued(self, request: WorkOrder) -> bool:
        """Return whether the attempt was told that others hold the paths it needs."""
        task = self.state.attempt_at(request.task, request.attempt)
        mine = task.message is not None and task.message.token == request.token
        return mine and any(ask.verdict == "queued" for ask in task.asks.values())

    def stop_for_paths(self, request: WorkOrder) -> Answer:
        """End an attempt that was queued in PLAN; its host's clock may be wrong."""
        said: dict[str, Any] = {"share": 0.0, "resumable": False, "not_before": self.now}
        return self.world.work(request, "infrastructure", (), **said)

    @rule()
    def resend(self) -> None:
        """Send lost messages again unchanged."""
        here = {one.token for one in self.world.mail}
        for sent in self.state.outstanding().values():
            if sent.token not in here:
                self.world.take(self.message(sent, resent=True))

    @rule()
    def restart(self) -> None:
        """Kill and resume the orchestrator, which knows only its journal. Redis delivers all answers again."""
        self.journal.close()
        replayed = RunState.blank(self.planned)
        for one in read(self.folder):
            apply(replayed, one.event, number=one.number, at=one.at)
        assert replayed == self.state, "the journal does not lead to the state that wrote it"
        self.state, self.journal = replayed, Journal(self.folder)
        self.record(RunResumed(tip=self.world.tip))
        for task in (*self.state.tasks.values(), *self.state.racers.values()):
            self.record(*(self.in_hub(task, task.message) if task.phase in _ASKED_ON_RESUME else []))
        for answer in list(self.world.told):
            self.receive(answer)

    @invariant()
    def no_more_is_used_than_the_run_may(self) -> None:
        """The real use stays below the cap, reported or not, if workers obey their limits."""
        if hasattr(self, "watch"):
            cap = self.course.budget(self.state)
            assert cap.usd is None or self.world.burnt_usd <= cap.usd + 1e-6
            assert cap.tokens is None or self.world.burnt_tokens <= cap.tokens
            ledger = self.course.ledger(self.state)
            assert cap.usd is None or self.world.burnt_usd <= ledger.usd + 1e-6, "something was used and is not counted"
            assert cap.tokens is None or self.world.burnt_tokens <= ledger.tokens

    @invariant()
    def nothing_lands_twice(self) -> None:
        if hasattr(self, "watch"):
            assert set(self.watch.landed.items()) <= set(self.world.markers.items())

    def teardown(self) -> None:
        try:
            if hasattr(self, "state"):
                self.ends_when_all_goes_well()
                self.journal.close()
        finally:
            shutil.rmtree(self.folder)

    def ends_when_all_goes_well(self) -> None:
        # The first turn may read an answer that pauses landing. A person then resumes.
        self.restart()
        self.restart()
        rich = self.now % 2 > 1
        if rich:
            self.raise_budget(1000)
        rich = rich or not self.course.budget(self.state).capped
        doubted = {one for trial in self.state.train.line.trials.values() if trial.state == "red" for one in trial.spec}
        could = [
            task.id
            for task in self.state.tasks.values()
            if task.phase not in (*TERMINAL, "answered", "reviewed")
            and task.id not in doubted
            and max(task.troubles, task.review.troubles) < MOST_TROUBLES
            and (rich or task.id not in self.course.paid | self.course.reviewed)
        ]
        self.world.calm = True
        greedy: set[str] = set()
        for _ in range(20 * len(self.state.tasks)):
            self.now += 61.0
            while events := self.decided(3):
                self.record(*events)
                self.send(events)
            asks = [ask for task in self.state.working() for ask in task.asks.values()]
            assert all(ask.verdict for ask in asks), "a worker waits for an answer, holding a slot"
            money = [task.money for task in self.state.working() if task.money is not None]
            assert all(ask.queued for ask in money), "a worker waits for money, and is not told that there is none"
            self.resend()
            if self.state.halted_by_review:
                self.answer_for_the_whole()
            for request in list(self.world.mail):
                if isinstance(request, WorkOrder) and request.task not in greedy:
                    greedy.add(request.task)
                    self.ask_for(request, Random(len(greedy)), many=True)
            while events := self.decided(0):
                self.record(*events)
                self.send(events)
            for request in list(self.world.mail):
                self.receive(self.finish_well(request))
        assert self.state.finished, {one.id: one.phase for one in self.state.tasks.values()}
        assert all(outcome_explained(self.state, one, self.course) for one in self.state.tasks)
        for one in could if self.course.plan.scope == "extend" else ():
            over = self.state.tasks[one].review.verdicts >= MOST_REVIEWS
            assert over or self.state.tasks[one].phase in ("landed", "blocked"), f"{one} was given up for no reason"

    def decided(self, slots: int, *, draining: bool = False) -> list[Event]:
        said: dict[str, Any] = {"now": self.now, "order_slots": slots, "review_slots": slots, "draining": draining}
        said |= {"check_slots": 1 + int(self.now * 10) % 4}
        events = decide(self.course, self.state, **said)
        events = [self.with_use(one, Random(self.now)) if isinstance(one, RacerWithdrawn) else one for one in events]
        return settle_events(self.state, events, lambda task: self.in_hub(task, None))

    def record(self, *events: Event) -> None:
        self.now += 0.01
        for event in events:
            phases = self.watch.before(self.state, event)
            owed = {one: self.state.holder(one) for one in self.state.messages_about(event)}
            apply(self.state, event, number=self.state.number + 1, at=self.now)
            self.course = self.watch.course = self.course.grow_with(self.state)
            self.watch.after(self.state, event, phases)
            self.fence_needless(event, owed)
        if events:
            self.journal.append(events, at=self.now)

    def fence_needless(self, event: Event, owed: dict[Outstanding, str]) -> None:
        """
        Fence messages that are no longer needed, as the loop does. A holder may continue, but no worker begins one.
        """
        left = self.state.messages_about(event)
        for one, holder in owed.items():
            if one not in left and one.message_id != message_of(event) and not holder:
                self.world.fenced.add(one.token)

    def receive(self, answer: Answer) -> None:
        for event in receive_answer(self.course, self.state, answer):
            self.record(event)

    def send(self, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, OrderSent | CheckSent | ReviewSent | LandingIntended | WaveSent | WaveReviewSent):
                sent = self.state.outstanding()[event.message_id]
                self.world.take(self.message(sent, resent=False))
            elif isinstance(event, MoneyGranted):
                task = self.state.attempt_at(event.task, event.attempt)
                if task.message is not None:
                    self.world.grant(task.message.message_id, limits_of_order(self.course, task))

    def message(self, sent: Outstanding, *, resent: bool) -> Request:
        if sent.kind == "wave":
            return wave_request(self.course, self.state, sent, now=self.state.at)
        if sent.kind == "wave_review":
            return wave_review_request(self.course, self.state, sent, now=self.state.at)
        task = self.state.tasks[sent.task]
        match sent.kind:
            case "order":
                task = self.state.attempt_at(sent.task, message=sent.message_id)
                return order(index_for(self.course, task), self.state, task, sent, now=self.state.at, resent=resent)
            case "check":
                return check_request(self.course, self.state, sent, now=self.state.at)
            case "review":
                return review_request(self.course, self.state, task, sent, now=self.state.at)
            case "landing":
                return land_request(self.course, self.state, sent, now=self.state.at)

    def in_hub(self, task: TaskState, sent: Outstanding | None) -> list[Event]:
        """Return the events that `recovery` would find in a hub that is a dictionary."""
        marker = self.world.markers.get(task.id)
        if marker is not None and task.phase in _MAY_HAVE_LANDED:
            where = {"request_id": sent.message_id if sent else "", "token": sent.token if sent else ""}
            landing = {"outcome": "landed", "commit": marker, **where}
            return [LandingAnswered.model_validate({"task": task.id, "result": landing})]
        kept = self.world.published.get((task.id, task.attempt))
        if kept is not None and task.phase == "running" and sent is not None:
            return [OrderAnswered(task=task.id, result=kept.model_copy(update={"token": sent.token}))]
        return []

    def lost(self, sent: Outstanding) -> Event:
        used = self.use_of(sent) if sent.kind == "order" else None
        return MessageLost(message_id=sent.message_id, why="h/7 took it and is gone", used=used)

    def begin_work(self, sent: Outstanding, chance: Random) -> None:
        """Let a worker take the message and use something."""
        for one in [one for one in self.world.mail if one.token == sent.token]:
            self.receive(self.world.start(one))
            if isinstance(one, WorkOrder):
                self.world.burn(one, chance.random(), keep=chance.random() < 0.6)
            elif isinstance(one, ReviewRequest):
                self.world.burn_review(one, chance.random())

    def with_use(self, event: Event, chance: Random) -> Event:
        """Ask the hub about the use of an attempt that is ended, as the loop does."""
        if not isinstance(event, TaskCancelled | RacerWithdrawn):
            return event
        attempt = event.attempt if isinstance(event, RacerWithdrawn) else None
        if (sent := self.state.attempt_at(event.task, attempt).message) is None:
            return event
        if chance.random() < 0.5:
            self.begin_work(sent, chance)
        return event.model_copy(update={"used": self.use_of(sent)})

    def use_of(self, sent: Outstanding) -> SeenUse:
        task = self.state.attempt_at(sent.task, message=sent.message_id)
        if not task.holder:
            self.world.fenced.add(sent.token)
        return self.world.seen(task.id, task.attempt)

    def finish(self, request: Request, chance: Random) -> Answer:
        match request:
            case WorkOrder() if self.queued(request) and chance.random() < 0.7:
                return self.stop_for_paths(request)
            case WorkOrder():
                granted_to = list(self.state.tasks[request.task].extra)
                inside = [one for one in FILES if any(one in GLOBS[glob] for glob in request.files)] + granted_to
                touchable = inside if chance.random() < 0.3 and inside else FILES
                paths = sorted({chance.choice(touchable), chance.choice(touchable)})
                outcome = chance.choice(_OUTCOMES)
                said: dict[str, Any] = {"share": chance.random(), "resumable": chance.random() < 0.5}
                if outcome == "infrastructure" and chance.random() < 0.5:
                    said["not_before"] = self.now + chance.choice([-5.0, 50.0, 300.0])
                return self.world.work(request, outcome, paths, **said)
            case CheckRequest():
                return self.world.check(request, chance.choice(_OF_THE_TARGET if request.whole else _VERDICTS))
            case ReviewRequest():
                outcome, said = chance.choice(_REVIEWS), {"share": chance.random()}
                if outcome == "infrastructure" and chance.random() < 0.5:
                    said["not_before"] = self.now + chance.choice([-5.0, 50.0])
                return self.world.review(request, outcome, **said)
            case LandRequest():
                went = chance.random()
                return self.world.land(request, refused=went < 0.2, trouble=went > 0.8)

    def finish_well(self, request: Request) -> Answer:
        match request:
            case WorkOrder() if self.queued(request):
                return self.stop_for_paths(request)
            case WorkOrder():
                inside = [one for one in FILES if any(one in GLOBS[glob] for glob in request.files)]
                return self.world.work(request, "candidate", inside[:1])
            case CheckRequest():
                return self.world.check(request, "green")
            case ReviewRequest():
                return self.world.review(request, "passed")
            case LandRequest():
                return self.world.land(request)


_MAY_HAVE_LANDED = ("queued", "testing", "reviewing", "reviewed", "landing")
_ASKED_ON_RESUME = ("running", *_MAY_HAVE_LANDED)


Run.TestCase.settings = settings(
    max_examples=80, stateful_step_count=60, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestRun = Run.TestCase
