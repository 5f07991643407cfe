"""The events of two attempts at one task that work at the same time."""

from typing import Literal

from forgepool.orchestrator.plan.budget import SeenUse
from forgepool.workers.schema.orders import Message


class RacerPromoted(Message):
    """The attempt of a race that is left takes the place of the one that came back."""

    kind: Literal["race.promoted"] = "race.promoted"
    task: str
    attempt: int
    rung: int


class RacerWithdrawn(Message):
    """An attempt of a race is not needed any more: the other has landed, or the race has ended in another way."""

    kind: Literal["race.withdrawn"] = "race.withdrawn"
    task: str
    attempt: int
    message_id: str = ""
    """Its order, where that is under way."""
    why: str
    used: SeenUse | None = None
    """The use of its order; as for one that is lost."""
