"""The hosts that are present, and the queue by which a message reaches one that can do it."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from forgepool.orchestrator.state.hosts import Host
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import MessageKind
from forgepool.workers.queue.broker import CHECKS, LANDINGS, ORDERS, PROTOCOL, REVIEWS, Queue
from forgepool.workers.queue.leases import Present, slots

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
    """Return the hosts that take orders. One with several workers can what all of them can."""
    hosts: dict[str, Host] = {}
    for worker in present:
        count = slots((worker,), ORDERS) if worker.protocol == PROTOCOL else 0
        if not count:
            continue
        can = None if worker.facts.can is None else frozenset(worker.facts.can)
        known = hosts.get(worker.host)
        if known is not None:
            count += known.slots
            can = known.can if can is None else can if known.can is None else can & known.can
        hosts[worker.host] = Host(name=worker.host, slots=count, can=can)
    return tuple(hosts.values())


def find_well(present: Sequence[Present], state: RunState, now: float) -> tuple[Present, ...]:
    """Return the workers that may be sent messages: of our version, neither drained nor of a suspended host."""
    return tuple(
        worker
        for worker in present
        if worker.protocol == PROTOCOL
        and not worker.drained
        and (worker.host not in state.hosts or state.hosts[worker.host].until <= now)
    )


def choose_gate_host(
    kind: MessageKind, present: Sequence[Present], state: RunState, sent_to: Mapping[str, str], now: float
) -> str | None:
    """
    Return the host for a message to the gate: empty where any may take it, and None where no worker is there for it.

    All workers share one queue while each of them is well. Else the message goes to the one that has the fewest.
    """
    queue = QUEUE[kind]
    there = [worker for worker in present if queue in worker.queues]
    well = [worker for worker in find_well(present, state, now) if queue in worker.queues]
    if len(well) == len(there):
        return ""
    if not well:
        # Suspended hosts are better than none; those of another version would lose it.
        well = [worker for worker in there if worker.protocol == PROTOCOL and not worker.drained]
    if not well:
        return None
    load = Counter(sent_to.get(one, "") for one in state.outstanding())
    return min(well, key=lambda worker: (load[worker.host] / worker.concurrency, worker.host)).host
