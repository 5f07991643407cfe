"""
Several gates of one process: one thread, a turn of each after the other.

Why not a thread for each: what they share (the machine's Redis and workers, the places for trials, Ctrl-C) belongs to
the process' main thread, and a turn that finds nothing to do waits for an answer, not for the processor. Each has a
journal, a link and a state of its own. All stand at one hub: where that is slow, it is slow for all.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from forgepool.orchestrator.run.loop import Ending, Parts
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


log = structlog.get_logger()


class ServedGate(Protocol):
    """One of several at work."""

    state: RunState

    def step(self) -> Ending | None: ...

    def leave(self) -> None: ...


Leave = Callable[[RunState, Exception], None]


@dataclass(slots=True)
class Shared:
    """The parts of the machine, as one gate of several sees them: each is told of all that was started again."""

    parts: Parts
    others: list["Shared"] = field(default_factory=list, repr=False)
    _untold: list[str] = field(default_factory=list)

    def mend(self) -> list[str]:
        mended = self.parts.mend()
        for one in (self, *self.others):
            one._untold += mended
        told, self._untold = self._untold, []
        return told


def make_shared(parts: Parts | None, count: int) -> Sequence[Shared | None]:
    """For each of so many gates; None where the machine has none of its own."""
    if parts is None:
        return [None] * count
    made = [Shared(parts) for _ in range(count)]
    for one in made:
        one.others = [other for other in made if other is not one]
    return made


def keep_together(gates: Sequence[ServedGate], left: Leave) -> list[Exception]:
    """
    Turns of each, until a person has stopped all. What nobody foresaw ends the gate that it happens to, of which `left`
    is told, and not the others; it is answered when these have ended, too.
    """
    troubles, at_work = list[Exception](), list(gates)
    while at_work:
        for gate in list(at_work):
            try:
                if gate.step() is None:
                    continue
            except Exception as trouble:
                log.exception("gate.left", run=gate.state.run)
                troubles.append(trouble)
                left(gate.state, trouble)
            at_work.remove(gate)
            troubles += _leave(gate)
    return troubles


def _leave(gate: ServedGate) -> list[Exception]:
    """What keeps a gate from going on may keep it from taking its leave as well: that too is nobody else's."""
    try:
        gate.leave()
    except Exception as trouble:
        return [trouble]
    return []
