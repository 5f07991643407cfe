"""The events of a merge queue, and of its exchange with a run that delegates candidates to it."""

from typing import Annotated, Literal

from pydantic import Field

from forgepool.orchestrator.journal.queue_rules import GateRules
from forgepool.supervisor.messages.answers import Certificate
from forgepool.supervisor.messages.requests import Author, LandingStyle
from forgepool.supervisor.train.model import EntryClass
from forgepool.workers.schema.mistakes import Slug
from forgepool.workers.schema.orders import Message, ReasonPack

Word = Literal["landed", "returned", "withdrawn", "refused", "wants_person", "in_line"]
"""`refused`: it was not taken in. The last two may be followed by another; the others are the end of it."""
LAST_WORDS: tuple[Word, ...] = ("landed", "returned", "withdrawn", "refused")


class GateSign(Message):
    """A gate keeps the branch; another one of these every few seconds, for as long as it stands."""

    gate: str
    host: str
    beat: int
    """The time of the day by the queue's clock, in beats since midnight, UTC."""


class Asks(Message):
    """The run that is to be told the outcome of a candidate."""

    run: Slug
    task: Slug
    number: Annotated[int, Field(ge=1, lt=10**9)]
    """The number of this delegation of the task, over all attempts."""


class Card(Message):
    """The data a run sends with a candidate that it delegates to a queue, or takes back."""

    asks: Asks
    attempt: int
    description: str = ""
    acceptance: tuple[str, ...] = ()
    criteria: tuple[str, ...] = ()
    files: tuple[str, ...] | None = None
    """All that it may change; None where the plan does not say."""
    extended: tuple[str, ...] = ()
    planned: tuple[str, ...] = ()
    claims: str = ""
    author: Author = Author()
    reviewed: bool = False
    """The run would not let it land without an approval."""
    withdrawn: bool = False
    work: Annotated[str, Field(pattern=r"^(?:[0-9a-f]{32})?$")] = ""
    """A digest of what its task asks for, by which a later run knows that it has landed."""


class GateAnswer(Message):
    """The outcome of a delegated candidate."""

    gate: str
    entry: str
    number: int
    word: Word
    why: str = ""
    """One sentence."""
    commit: str = ""
    """With which it came into the target."""
    reason: ReasonPack | None = None
    proofs: tuple[str, ...] = ()
    """The words of checks and reviewers, a sentence each."""
    certificates: tuple[Certificate, ...] = ()


class EntrySubmitted(Message):
    """A commit stands in the queue. An earlier entry of the same name is withdrawn."""

    kind: Literal["entry.submitted"] = "entry.submitted"
    task: str
    """The entry's name."""
    branch: str = ""
    """The name that people know it by, such as `feature/base`; empty where that is the entry's own."""
    revision: int
    """Numbers the commits that were submitted under the name."""
    commit: str
    title: str
    by: str = ""
    author: Author = Author(agent="person")
    klass: EntryClass = "normal"
    needs: tuple[str, ...] = ()
    """Entries that have to land before it."""
    style: LandingStyle | None = None
    paths: tuple[str, ...] = ()
    """The paths it changes; none where they are not known."""
    grants: tuple[str, ...] = ()
    """Globs of what a person lets this very commit change, protected or not."""
    waive: tuple[str, ...] = ()
    """Rules of the scans that a person does not apply to it."""
    granted_by: str = ""
    card: Card | None = None
    """The data of the run that delegated it; None for an entry of a person or a program."""


class EntryRefused(Message):
    """A submission is not taken into the queue, and nothing has changed."""

    kind: Literal["entry.refused"] = "entry.refused"
    name: str
    branch: str = ""
    """The name that people know it by; empty where that is the entry's own."""
    commit: str
    why: str
    asks: Asks | None = None
    """The run that waits for an answer, if one does."""
    out_of_turn: bool = False
    """Its number does not follow that of the giving before it: it is answered, and changes nothing for others."""
    word: Word = "refused"
    """The word that the run is told."""


class EntryAnswered(Message):
    """The run that has given it has been told: it lies in the hub."""

    kind: Literal["entry.answered"] = "entry.answered"
    name: str
    number: int
    word: Word


class EntryGiven(Message):
    """
    A run delegates the candidate to the queue. The event is durable before the push, which is repeated until it
    succeeds.
    """

    kind: Literal["entry.given"] = "entry.given"
    task: str
    number: int
    """The number of this delegation of the task."""
    commit: str
    gate: str
    """The queue, as it was known then."""
    tip: str = ""
    """The target's, as it was known then."""


class EntryRecalled(Message):
    """A run asks for the candidate back, for a person. It stays the queue's until the queue has answered."""

    kind: Literal["entry.recalled"] = "entry.recalled"
    task: str


class EntryTold(Message):
    """A run has found the queue's answer about the candidate in the hub."""

    kind: Literal["entry.told"] = "entry.told"
    task: str
    answer: GateAnswer
    tip: str
    """The target's, then."""


class GateNoticed(Message):
    """A run has noticed which queue serves its target, or that this queue is silent."""

    kind: Literal["gate.noticed"] = "gate.noticed"
    gate: str
    away: str = ""
    """One sentence, for as long as the queue is silent; empty where it serves."""


class EntryHeld(Message):
    """A person keeps it where it is, or lets it go on."""

    kind: Literal["entry.held"] = "entry.held"
    task: str
    by: str = ""
    held: bool


class EntryReclassed(Message):
    kind: Literal["entry.reclassed"] = "entry.reclassed"
    task: str
    by: str = ""
    klass: EntryClass


class GatePaused(Message):
    """Nothing is tested and nothing lands until a person resumes it; what is under way may finish."""

    kind: Literal["gate.paused"] = "gate.paused"
    by: str = ""
    why: str = ""


class GateResumed(Message):
    """After a pause, or after something had shut the gate."""

    kind: Literal["gate.resumed"] = "gate.resumed"
    by: str = ""


class GateRuled(Message):
    """The settings a person gave as the queue was opened, where they differ from before."""

    kind: Literal["gate.ruled"] = "gate.ruled"
    rules: GateRules


class GateFrozen(Message):
    """A freeze has begun: nothing but hotfixes lands until then. Told again where the end is another."""

    kind: Literal["gate.frozen"] = "gate.frozen"
    until: float
    """Unix seconds."""
    clock: str
    """The same, as the clock shows it that the freezes are of."""


class GateThawed(Message):
    """The freeze is over."""

    kind: Literal["gate.thawed"] = "gate.thawed"


class TipMoved(Message):
    """The target was moved from outside. Later landings are composed on the new tip, and no entry is blamed."""

    kind: Literal["tip.moved"] = "tip.moved"
    tip: str
    lost: tuple[str, ...] = ()
    """Entries that have landed, and are not in its history: the target was taken back."""
