"""
Several queues in one process: one thread gives each a turn after the other, and they share the machine's check slots.

Why not a thread each: they share Redis, workers, slots and Ctrl-C, which belong to the main thread, and an idle turn
waits for answers, not for the processor. Each queue has its own journal, link and state. All use one hub, so a slow hub
slows all.

A free slot goes to the queue with the fewest running trials among those that want one; among equals, to the one served
longest ago. Running trials are never cancelled, so a queue that had all slots returns them one by one.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from forgepool.orchestrator.run.loop import Ending
from forgepool.orchestrator.run.sending import Parts
from forgepool.orchestrator.state.run import RunState

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The slots that one queue uses and wants."""

    running: int
    wants: int = 0
    """Further trials it would start if it had all slots."""
    served: int = 0
    """Serial number of its last slot."""


def places_for(asking: str, total: int, claims: Mapping[str, Claim]) -> int:
    """Return how many trials the asking queue may have running in all. It may want any number."""
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
    """The slots of all queues; used by one thread."""

    states: dict[str, RunState] = field(default_factory=dict)
    """States of the active queues, by run."""
    _wants: dict[str, int] = field(default_factory=dict)
    _served: dict[str, int] = field(default_factory=dict)
    _count: int = 0

    def of(self, run: str, total: int) -> int:
        """Return how many trials this queue may have running."""
        return places_for(run, total, {name: self._claim(name) for name in self.states})

    def want(self, run: str, more: int) -> None:
        """Set how many further trials this queue would start with all slots; holds until set again."""
        self._wants[run] = more

    def serve(self, run: str) -> None:
        """Note that the queue has started a trial."""
        self._count += 1
        self._served[run] = self._count

    def leave(self, run: str) -> None:
        self.states.pop(run, None)

    def _claim(self, run: str) -> Claim:
        owed = self.states[run].outstanding().values()
        running = sum(one.kind in ("check", "wave") for one in owed)
        return Claim(running=running, wants=self._wants.get(run, 0), served=self._served.get(run, 0))


class ServedGate(Protocol):
    """A queue that is served together with others."""

    state: RunState

    def step(self) -> Ending | None: ...

    def leave(self) -> None: ...


Leave = Callable[[RunState, Exception], None]


@dataclass(slots=True)
class Shared:
    """The machine's parts as one of several queues sees them: each learns of every restart."""

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
    """Return shared parts for each queue; None where the machine has none of its own."""
    if parts is None:
        return [None] * count
    made = [Shared(parts) for _ in range(count)]
    for one in made:
        one.others = [other for other in made if other is not one]
    return made


def keep_together(gates: Sequence[ServedGate], left: Leave) -> list[Exception]:
    """
    Give each queue its turns until a person has stopped all.

    An unforeseen exception ends only its own queue, is passed to `left`, and is returned once the others have ended.
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
    """Close a queue. The trouble that ended it may keep it from closing too; the others go on."""
    try:
        gate.leave()
    except Exception as trouble:
        return [trouble]
    return []
