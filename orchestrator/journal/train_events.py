"""What happens in the train: trials, landings, and checks and reviews of the target as a whole."""

from typing import Literal

from pydantic import Field, model_validator

from forgepool.supervisor.messages import Approval, Certificate, CheckResult, Landing, Review
from forgepool.workers.schema.orders import Message


class EntryQueued(Message):
    """The candidate stands in the train."""

    kind: Literal["entry.queued"] = "entry.queued"
    task: str
    reviewed: bool = False
    """It may not land without an approval."""


class CheckSent(Message):
    """A trial: the car, on top of the target's tip and of entries that are assumed to land before it."""

    kind: Literal["check.sent"] = "check.sent"
    task: str
    """The last of the car."""
    message_id: str
    token: str
    base: str
    ahead: tuple[str, ...] = ()
    car: tuple[str, ...] = ()
    """Empty for the task alone."""
    at: int | None = None
    """The car is coupled with this, and takes this place in the train; None for one that has a place, or wants none."""
    decisive: bool = True
    scopes: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Of entries of the car, the checks that what they change has to do with; without one, all."""
    issued_at: float


class CheckAnswered(Message):
    kind: Literal["check.answered"] = "check.answered"
    task: str
    result: CheckResult
    ahead: tuple[str, ...] = ()
    car: tuple[str, ...] = ()
    """What it is about, as far as it had not landed by then; empty for the task alone."""


class CheckDoubted(Message):
    """The first run of a decisive trial was red, and it is run again: who comes behind need not wait for the second."""

    kind: Literal["check.doubted"] = "check.doubted"
    message_id: str


class CheckCancelled(Message):
    """Nobody wants to know any more what this trial would say."""

    kind: Literal["check.cancelled"] = "check.cancelled"
    task: str
    message_id: str
    why: str


class CarDissolved(Message):
    """Red, or out of time, with nobody else to doubt: its entries are tried in parts, behind all others."""

    kind: Literal["car.dissolved"] = "car.dissolved"
    car: tuple[str, ...]
    parts: tuple[tuple[str, ...], ...]
    message_id: str


class LandingIntended(Message):
    """Durable before the target may move: from here on, recovery asks the hub what became of it."""

    kind: Literal["landing.intended"] = "landing.intended"
    task: str
    message_id: str
    token: str
    base: str
    commit: str
    tree: str
    entries: tuple[str, ...] = ()
    """All that land with it, in order, the task itself last; empty for the task alone."""
    commits: tuple[str, ...] = ()
    """What each of them is composed to."""
    certificates: tuple[Certificate, ...]
    approvals: tuple[Approval | None, ...] = ()
    """For each of them, whose word lets it land; None where nobody's is wanted."""
    issued_at: float

    @model_validator(mode="before")
    @classmethod
    def _of_one_task(cls, said: object) -> object:
        """Earlier journals know landings of one task alone, with one approval."""
        if isinstance(said, dict) and "approval" in said:
            return {**{key: value for key, value in said.items() if key != "approval"}, "approvals": [said["approval"]]}
        return said


class LandingAnswered(Message):
    kind: Literal["landing.answered"] = "landing.answered"
    task: str
    result: Landing
    entries: tuple[str, ...] = ()
    """All that were to land with it; empty for the task alone."""


class WaveSent(Message):
    """All checks are run on the target itself; nothing is let in meanwhile."""

    kind: Literal["wave.sent"] = "wave.sent"
    number: int
    message_id: str
    token: str
    base: str
    """The target's tip, which is checked."""
    since: str
    """The tip at which it was found green last, or at which the run began."""
    tasks: tuple[str, ...]
    """Those that have landed since, in that order."""
    issued_at: float


class WaveAnswered(Message):
    kind: Literal["wave.answered"] = "wave.answered"
    result: CheckResult


class WaveReviewSent(Message):
    """What has landed is reviewed as a whole, once all checks were green on it; nothing is let in meanwhile."""

    kind: Literal["wave_review.sent"] = "wave_review.sent"
    number: int
    message_id: str
    token: str
    base: str
    """The target's commit before the first landing that nobody has passed as a whole yet."""
    tip: str
    tasks: tuple[str, ...]
    """Those that have landed since, in that order."""
    issued_at: float
    reserved_usd: float | None = None
    reserved_tokens: int | None = None


class WaveReviewAnswered(Message):
    kind: Literal["wave_review.answered"] = "wave_review.answered"
    result: Review


class WaveApproved(Message):
    """A person has looked at what has landed up to this tip, and answers for it in a reviewer's place."""

    kind: Literal["wave.approved"] = "wave.approved"
    by: str
    tip: str
