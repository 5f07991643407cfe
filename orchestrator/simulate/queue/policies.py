"""The policies by name."""

from collections.abc import Callable

from forgepool.orchestrator.simulate.queue.peers import Batches, Chain, Oracle
from forgepool.orchestrator.simulate.queue.train import Train
from forgepool.orchestrator.simulate.queue.yard import Policy, Yard

_ALL = 10**9

POLICIES: dict[str, Callable[[Yard], Policy]] = {
    "forgepool": lambda yard: Train(yard=yard),
    "serial": lambda yard: Batches(yard=yard, most=1),
    "bors": lambda yard: Batches(yard=yard, most=8),
    "zuul": lambda yard: Chain(yard=yard),
    "zuulfix": lambda yard: Chain(yard=yard, window=yard.world.terms.workers, adapts=False),
    "gh": lambda yard: Chain(yard=yard, window=_ALL, adapts=False, lazy=True),
    "oracle": lambda yard: Oracle(yard=yard),
}
