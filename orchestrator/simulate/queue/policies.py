"""The policies by name."""

from collections.abc import Callable

from forgepool.orchestrator.simulate.queue.peers import Batches, OptimisticChain, Oracle
from forgepool.orchestrator.simulate.queue.train import SimulatedTrain
from forgepool.orchestrator.simulate.queue.yard import QueuePolicy, Yard

_ALL = 10**9

POLICIES: dict[str, Callable[[Yard], QueuePolicy]] = {
    "forgepool": lambda yard: SimulatedTrain(yard=yard),
    "serial": lambda yard: Batches(yard=yard, most=1),
    "bors": lambda yard: Batches(yard=yard, most=8),
    "zuul": lambda yard: OptimisticChain(yard=yard),
    "zuulfix": lambda yard: OptimisticChain(yard=yard, window=yard.world.terms.workers, adapts=False),
    "gh": lambda yard: OptimisticChain(yard=yard, window=_ALL, adapts=False, lazy=True),
    "oracle": lambda yard: Oracle(yard=yard),
}
