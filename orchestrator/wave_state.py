"""
The wave gate: all checks on the target itself, after every so many landings and at the end of the run.

Each landing was tested on exactly its tree, by what may have been reused, in parts, or on this host alone; a wave asks
once more of the whole. Nothing is let in while it is asked, so that what it says is said of the target as it stands.
"""

from dataclasses import dataclass

from orchestrator import events as e
from orchestrator.outstanding import Outstanding, pause_s
from orchestrator.task_state import IllegalStep
from supervisor.messages import CheckResult


@dataclass(slots=True, kw_only=True)
class WaveState:
    number: int = 0
    """Waves sent so far."""
    since: str = ""
    """The target's tip at the last wave that was green, or at the run's beginning."""
    upto: int = 0
    """Number of the event up to which landings were in a green wave."""
    asked_at: int = 0
    """Number of the event with which the last one was sent."""
    base: str = ""
    """The tip that the last one is about."""
    asked_since: str = ""
    """From where it is told: `since`, or where others have moved a green target, what nobody has passed as a whole."""
    tasks: tuple[str, ...] = ()
    message: Outstanding | None = None
    holder: str = ""
    troubles: int = 0
    not_before: float = 0.0
    detail: str = ""
    green: CheckResult | None = None
    """What was said of the target when it was found green last."""

    def sent(self, event: e.WaveSent, number: int) -> None:
        if self.message is not None or event.number != self.number + 1:
            raise IllegalStep(f"wave {event.number} does not follow {self.number}")
        self.number, self.asked_at, self.holder = event.number, number, ""
        self.base, self.tasks, self.asked_since = event.base, event.tasks, event.since
        self.message = Outstanding(
            message_id=event.message_id,
            token=event.token,
            kind="wave",
            task="",
            issued_at=event.issued_at,
        )

    def answered(self, event: e.WaveAnswered, at: float) -> None:
        result = event.result
        if self.message is None or self.message.message_id != result.request_id:
            raise IllegalStep(f"no wave is waited for under {result.request_id}")
        self.message, self.holder = None, ""
        match result.verdict:
            case "infrastructure":
                self._fall_into_trouble(result.detail, at)
            case "green":
                self.upto, self.since, self.troubles, self.green = self.asked_at, self.base, 0, result
            case _:
                self.troubles = 0

    def lost(self, event: e.MessageLost, at: float) -> None:
        first = self.troubles == 0
        self.message, self.holder = None, ""
        self._fall_into_trouble(event.why, at)
        if first:
            self.not_before = at

    def _fall_into_trouble(self, detail: str, at: float) -> None:
        self.troubles += 1
        self.detail, self.not_before = detail, at + pause_s(self.troubles)
