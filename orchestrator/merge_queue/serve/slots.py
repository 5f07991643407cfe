"""
The places for trials of one machine, shared by the gates of one process.

A free place goes to the gate that has the fewest trials running, of those that want one; among equals to the one that
got its last longest ago. Nothing that runs is cancelled for it, so a gate that was alone and had all places gives them
up one by one, as its trials end.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from forgepool.orchestrator.state.run import RunState


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What one gate has, and wants."""

    running: int
    wants: int = 0
    """Trials that it would start besides, if it had all places."""
    served: int = 0
    """When it got its last place, as a number that grows."""


def places_for(asking: str, total: int, claims: Mapping[str, Claim]) -> int:
    """How many trials the gate that asks may have running, those that run among them. It may want any number."""
    have = {name: claim.running for name, claim in claims.items()}
    wants = {name: claim.wants for name, claim in claims.items()} | {asking: total}
    for _ in range(total - sum(have.values())):
        hungry = (name for name, wanted in wants.items() if wanted > 0)
        first = min(hungry, key=lambda name: (have[name], claims[name].served, name))
        have[first] += 1
        wants[first] -= 1
    return have[asking]


@dataclass(slots=True, kw_only=True)
class SharedSlots:
    """Who has which places; asked and told by one thread."""

    states: dict[str, RunState] = field(default_factory=dict)
    """Of the gates that are at work, by run."""
    _wants: dict[str, int] = field(default_factory=dict)
    _served: dict[str, int] = field(default_factory=dict)
    _count: int = 0

    def of(self, run: str, total: int) -> int:
        """As `places_for`."""
        return places_for(run, total, {name: self._claim(name) for name in self.states})

    def want(self, run: str, more: int) -> None:
        """So many trials the gate would start besides, if it had all places; it holds until the gate says anew."""
        self._wants[run] = more

    def serve(self, run: str) -> None:
        """The gate has started a trial."""
        self._count += 1
        self._served[run] = self._count

    def leave(self, run: str) -> None:
        self.states.pop(run, None)

    def _claim(self, run: str) -> Claim:
        owed = self.states[run].outstanding().values()
        running = sum(one.kind in ("check", "wave") for one in owed)
        return Claim(running=running, wants=self._wants.get(run, 0), served=self._served.get(run, 0))
