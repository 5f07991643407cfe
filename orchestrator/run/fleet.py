"""
The hosts that are present, and the queue by which a message reaches one that can do it; the accounts of their models.
"""

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from forgepool.orchestrator.decisions.orders.races import RUNG, index_for
from forgepool.orchestrator.decisions.orders.shut_models import AskedModels, ModelLimits, find_asked
from forgepool.orchestrator.decisions.orders.treasury import PROGRAM, AskedAccounts
from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.plan.document import Plan
from forgepool.orchestrator.state.hosts import Host
from forgepool.orchestrator.state.review import MessageKind
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import TaskState
from forgepool.workers.llm.routing.breaker import Breaker, Pair, Shut
from forgepool.workers.llm.routing.open import keys_present
from forgepool.workers.llm.routing.pace import find_pauses
from forgepool.workers.llm.routing.router import RoutingQuestion, candidates, choose
from forgepool.workers.llm.routing.table import Table, read_table
from forgepool.workers.queue.broker import CHECKS, LANDINGS, ORDERS, PROTOCOL, REVIEWS, Queue, Redis
from forgepool.workers.queue.leases import Present, slots
from forgepool.workers.schema import capabilities
from forgepool.workers.schema.mistakes import DocumentWrong

QUEUE: Mapping[MessageKind, Queue] = {
    "order": ORDERS,
    "check": CHECKS,
    "wave": CHECKS,
    "review": REVIEWS,
    "wave_review": REVIEWS,
    "landing": LANDINGS,
}


def find_mismatched(present: Iterable[Present]) -> dict[str, int]:
    """Return the hosts that read another version of the messages than this process writes, with that version."""
    return {worker.host: worker.protocol for worker in present if worker.protocol != PROTOCOL}


def list_order_hosts(present: Sequence[Present]) -> tuple[Host, ...]:
    """
    Return the hosts that take orders, those of another version with no slot. One with several workers can what all of
    them can.
    """
    hosts: dict[str, Host] = {}
    for worker in present:
        count, ours = slots((worker,), ORDERS), worker.protocol == PROTOCOL
        if not count:
            continue
        can = None if worker.facts.can is None else frozenset(worker.facts.can)
        known = hosts.get(worker.host)
        if known is not None:
            count += known.slots
            can = known.can if can is None else can if known.can is None else can & known.can
        hosts[worker.host] = Host(name=worker.host, slots=count if ours else 0, can=can, ours=ours)
    return tuple(hosts.values())


def find_well(present: Iterable[Present], state: RunState, now: float, queue: Queue) -> tuple[Present, ...]:
    """
    Return the workers of a queue that may be sent messages: of our version, not drained, and of no suspended host.

    Where all that are left are suspended, they are better than none.
    """
    ours = [one for one in present if queue in one.queues and one.protocol == PROTOCOL and not one.drained]
    well = (one for one in ours if one.host not in state.hosts or state.hosts[one.host].until <= now)
    return tuple(well) or tuple(ours)


def list_gate_hosts(present: Sequence[Present]) -> list[frozenset[str]]:
    """Return, for each queue of the gate, the names of the hosts that may be sent its messages."""
    ours = [one for one in present if one.protocol == PROTOCOL and not one.drained]
    return [frozenset(one.host for one in ours if queue in one.queues) for queue in (REVIEWS, CHECKS, LANDINGS)]


def find_reviewers(present: Iterable[Present], course: PlanIndex, authors: Collection[str] = ()) -> tuple[Present, ...]:
    """
    Return the workers with a model that may review work of these families, as far as they have told what they can.

    Where there is none, all are returned: the answer of any of them says what is missing.
    """
    policy, workers = course.review_policy, tuple(worker for worker in present if REVIEWS in worker.queues)
    if policy.script is not None:
        return workers
    named = frozenset(map(capabilities.model, policy.by))
    kin = frozenset(map(capabilities.reviews_by, authors if course.independence == "other_family" else ()))

    def can_review(worker: Present) -> bool:
        can = worker.facts.can
        if can is None or (named and not named.isdisjoint(can)):
            return True
        return not named and any(word.startswith(capabilities.reviews_by("")) and word not in kin for word in can)

    return tuple(filter(can_review, workers)) or workers


def choose_gate_host(
    kind: MessageKind,
    present: Sequence[Present],
    state: RunState,
    sent_to: Mapping[str, str],
    now: float,
    *,
    able: Callable[[Sequence[Present]], Sequence[Present]],
) -> str | None:
    """
    Return the host for a message to the gate: empty where any may take it, and None where no worker is there for it.

    All workers share one queue while each of them is well and able. Else the message goes to the one that has the
    fewest. `able` picks those that can do it.
    """
    queue = QUEUE[kind]
    there = [worker for worker in present if queue in worker.queues]
    well = able(find_well(present, state, now, queue))
    if len(well) == len(there):
        return ""
    if not well:
        return None
    load = Counter(sent_to.get(one, "") for one in state.outstanding())
    return min(well, key=lambda worker: (load[worker.host] / worker.concurrency, worker.host)).host


_LOOK_S = 1.0


@dataclass(slots=True, kw_only=True)
class AccountWatch:
    """
    The limits of the models that a plan's tasks ask, as all workers know them.

    The table is this machine's: an account must mean the same on all hosts. What it does not know has no limit.
    """

    client: Redis
    models_file: Path | None
    _looked: float = 0.0
    _limits: ModelLimits = field(default_factory=dict)
    _plan: Plan | None = None
    _asked: frozenset[AskedModels] = frozenset()
    _table: Table | None = None

    def look(self, plan: Plan, present: Sequence[Present], now: float) -> ModelLimits:
        """Return until when no present host may ask the models, as of the last second. May raise BrokerAway."""
        if plan is not self._plan:
            self._plan, self._looked = plan, 0.0
            self._asked = frozenset(asked for task in plan.tasks if (asked := find_asked(task)) is not None)
        if self._asked and time.monotonic() > self._looked + _LOOK_S:
            self._limits = self._find(present, now)
            self._looked = time.monotonic()
        return self._limits

    def _find(self, present: Sequence[Present], now: float) -> ModelLimits:
        try:
            self._table = self._table or read_table(self.models_file)
        except DocumentWrong:
            return {}
        table, keys = self._table, find_keys(self._table, present)
        pairs = {asked: [*chain.from_iterable(find_pairs(table, asked, keys))] for asked in self._asked}
        every = [pair for own in pairs.values() for pair in own]
        verdicts = Breaker(client=self.client).look(every)
        pauses = find_pauses(self.client, {account for account, _ in every})

        def until(pair: Pair) -> float:
            verdict = verdicts[pair]
            pause_s = pauses.get(pair[0], 0.0)
            return max(verdict.until if isinstance(verdict, Shut) else 0.0, now + pause_s if pause_s else 0.0)

        ends = {asked: min(map(until, own), default=0.0) for asked, own in pairs.items()}
        return {asked: end for asked, end in ends.items() if end > now}


def find_keys(table: Table, present: Sequence[Present], queue: Queue = ORDERS) -> frozenset[str]:
    """Return the variables of keys that some host has; a host that has proven nothing has those of this machine."""
    told = [worker.facts.can for worker in present if queue in worker.queues]
    own = keys_present(table) if None in told else frozenset[str]()
    names = (account.key for account in table.accounts.values() if account.key)
    offered = {word for can in told for word in can or ()}
    return own | {name for name in names if capabilities.key(name) in offered}


def find_pairs(table: Table, asked: AskedModels, keys: Collection[str]) -> tuple[tuple[Pair, ...], ...]:
    """Return, for each model that is named, the accounts and models that could serve; none where that is not known."""
    if asked.program:
        return (((f"{PROGRAM}{asked.program}", asked.names[0] or asked.program),),)
    questions = (RoutingQuestion(task_type=asked.task_type, model=name) for name in asked.names)
    choices = [choose(table, question, keys=keys) for question in questions]
    return tuple(
        tuple((one.account, one.model) for one in choice.candidates if one.wants_key is None)
        for choice in choices
        if not isinstance(choice, str)
    )


@dataclass(slots=True, kw_only=True)
class AccountFinder:
    """Finds the accounts that a run may ask, for the limits of the treasury on them. The table is this machine's."""

    models_file: Path | None
    _table: Table | None = None
    _plan: Plan | None = None
    _keys: tuple[Collection[str], ...] = ()
    _found: AskedAccounts = field(default_factory=AskedAccounts)

    def find(self, course: PlanIndex, present: Sequence[Present]) -> AskedAccounts:
        """Return them as of now: by the plan, and by the keys that the present hosts have. May raise DocumentWrong."""
        table = self._table = self._table or read_table(self.models_file)
        keys = find_keys(table, present), find_keys(table, present, REVIEWS)
        if course.plan is not self._plan or keys != self._keys:
            self._plan, self._keys = course.plan, keys
            self._found = _find_accounts(table, course, *keys)
        return self._found


def _find_accounts(
    table: Table, course: PlanIndex, keys: Collection[str], review_keys: Collection[str]
) -> AskedAccounts:
    asked = {task.id: find_asked(task) for task in course.plan.tasks}
    beside = {
        name: find_asked(index_for(course, TaskState(id=name, rung=RUNG)).tasks[name])
        for name in course.racing.intersection(asked)
    }
    every = {*asked.values(), *beside.values()}
    pairs = {one: find_pairs(table, one, keys) for one in every if one is not None}
    policy = course.review_policy
    named = [candidates(table, model, keys=review_keys) for model in policy.by if model in table.models]
    routed = choose(table, RoutingQuestion(task_type="review", phase="review"), keys=review_keys)
    if not named and not isinstance(routed, str):
        named = [routed.candidates]
    able = (one for one in chain.from_iterable(named) if one.wants_key is None)

    def list_accounts(some: Mapping[str, AskedModels | None]) -> dict[str, tuple[tuple[str, ...], ...]]:
        return {
            name: tuple(tuple(dict.fromkeys(account for account, _ in in_turn)) for in_turn in pairs[one])
            for name, one in some.items()
            if one is not None
        }

    return AskedAccounts(
        orders=list_accounts(asked),
        beside=list_accounts(beside),
        reviewers=() if policy.script is not None else tuple(dict.fromkeys((one.account, one.family) for one in able)),
        offered={model: tuple(place.account for place in table.places(model)) for model in table.models},
    )
