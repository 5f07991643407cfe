"""What a run and the gate of its target tell each other by way of the hub."""

from typing import Annotated, Literal

from pydantic import Field

from forgepool.supervisor.messages import Author, Certificate
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
    """Who is to be told what becomes of a candidate."""

    run: Slug
    task: Slug
    number: Annotated[int, Field(ge=1, lt=10**9)]
    """Of all givings of this task, whichever attempt made the candidate."""


class Card(Message):
    """What a run says of a candidate that it gives to a gate, or takes back."""

    asks: Asks
    attempt: int
    description: str = ""
    acceptance: tuple[str, ...] = ()
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
    """What has become of a candidate."""

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
    """What checks and reviewers said, a sentence each."""
    certificates: tuple[Certificate, ...] = ()
