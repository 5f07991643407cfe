"""
The data of a plan of the train: entries, batches and trials in, actions out.

An **entry** stands in line until it lands or is returned. A **car** is one or more entries that are tested as one. A
**trial** checks one car on top of the tip and of the entries assumed to land ahead of it; what it tests is composed
before, and lands as it was tested, or not at all.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

TrialState = Literal["running", "stopping", "green", "red", "timeout"]
"""A trial that is stopping was cancelled, and holds its slot until the stop is seen."""
EntryClass = Literal["hotfix", "normal", "low"]
Ids = tuple[str, ...]
Scopes = frozenset[str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainEntry:
    id: str
    accepted: int
    """Orders entries of one class: when it was first accepted; kept over requeues."""
    klass: EntryClass = "normal"
    risk: float = 0.08
    """Probability that it is red by itself, as far as is known without a trial."""
    submitter: str = ""
    needs: Ids = ()
    """Entries in line without which it may not be tested nor land; they go before it."""
    ready: bool = True
    """
    True if it may share a batch and land, as no approval is outstanding. Otherwise it is tested alone, and then waits.
    """
    held: bool = False
    """A person holds it, or a pause after trouble does: it is not tested and does not land."""
    vetted: bool = False
    """It was green alone, on a tip that was the target's then."""
    single: bool = False
    """Never to share a car again: a car in which it was has been red."""
    suspect: bool = False
    """It was taken out of a red car, since all that failed there were its own tests: it is tried alone next."""
    kind: str = ""
    """Entries that share a batch are of one kind."""
    scopes: Scopes = None
    """The parts of its change that checks look at; None is everything. Entries with other scopes do not affect it."""
    overtaken: int = 0
    """How many cars with one accepted later, of its class or a higher one, were put before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One sending of a spec (`ahead` and then `car`, on the tip) to the checks."""

    id: str
    ahead: Ids
    """Entries assumed to land before the car, in order. Those that have landed meanwhile are no longer named."""
    car: Ids
    state: TrialState = "running"
    decisive: bool = False
    """It was sent with nothing ahead and one entry: its checks' failures came twice, and a partner was looked for."""
    clash: str = ""
    """Red without checks: this entry does not go on top of the tip and of those of the spec that stand before it."""
    suspects: Ids = ()
    """Red: each of these entries of the spec has a failed test in a file that it alone changes."""
    failing: bool = False
    """Decisive, its first run was red, and it was run again."""
    stale: bool = False
    """The tip has moved on since: it still tells whether its one entry is good, and can no longer land it."""

    behind: bool = False
    """
    True if the tip has moved since, in scopes outside its batch. Its result is still true, and the same is tested again
    on the tip before it lands.
    """

    @property
    def spec(self) -> Ids:
        return (*self.ahead, *self.car)

    @property
    def lands(self) -> bool:
        """Tell whether its content is green, and on the tip."""
        return self.state == "green" and not self.behind and not self.stale

    @property
    def is_doubted(self) -> bool:
        """Red, or red so far: who comes behind goes around it, and need not wait for its last word."""
        return self.state == "red" or (self.state == "running" and self.failing)


def have_common(some: Scopes, others: Scopes) -> bool:
    return some is None or others is None or not some.isdisjoint(others)


def scopes_of(entries: Iterable[TrainEntry]) -> Scopes:
    """Return the scopes of all of them together."""
    found = frozenset[str]()
    for entry in entries:
        if entry.scopes is None:
            return None
        found |= entry.scopes
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainPolicy:
    """The settings a person may give a train; the defaults are those that were simulated."""

    most: int = 8
    """Entries in a car."""
    later_passes: bool = True
    """A green spec lands also what stands ahead in it and was not found green itself: each move of the target is green,
    each commit need not be."""
    vet_above: float = 0.2
    vet_share: float = 0.6
    """The largest share of the slots for trials off the critical path."""
    hedge_above: float = 0.35
    most_of_one: int | None = None
    """Entries of one submitter in cars at once while others wait; None is no cap."""
    most_overtaken: int = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A line as it stands. Trials are those that may still be of use: on the present tip."""

    waiting: tuple[TrainEntry, ...]
    """In no car, in the order in which they came or came back."""
    cars: tuple[tuple[TrainEntry, ...], ...]
    """In the order in which they are to land."""
    trials: tuple[Trial, ...]
    slots: int
    """Trials that may run at once; those that run are counted among them."""
    policy: TrainPolicy = TrainPolicy()
    surprise: float = 0.02
    """How often an entry turned out red that was not thought risky, or had been green alone."""
    named: float = 0.0
    """The share of red cars whose failing tests named suspects, 0 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Couple:
    """These waiting entries become a car, which takes the place `at` among the cars."""

    entries: Ids
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StartTrial:
    ahead: Ids
    car: Ids
    decisive: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    trial: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Land:
    """The whole spec of this green trial, in one move of the target."""

    trial: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Return:
    """The decisive trial of this entry was red, or timed out: it is returned, or tried again by its author."""

    entry: str
    trial: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dissolve:
    """
    A batch that is red, or timed out, with nothing ahead: its entries go back, in parts.

    Without a trial, a member is held, not ready any more, or no more behind its needs: the others go on as the one
    part, in the batch's place, and an entry in no part waits again. So it is with suspects.
    """

    car: Ids
    parts: tuple[Ids, ...]
    trial: str
    suspects: Ids = ()
    """Entries in no part, that are to be tried alone next."""


Action = Couple | StartTrial | Cancel | Land | Return | Dissolve
