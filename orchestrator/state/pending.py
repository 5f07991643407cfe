"""Messages that somebody owes an answer to, and how long is waited before one is sent again after trouble."""

from dataclasses import dataclass
from typing import Literal

MessageKind = Literal["order", "check", "review", "landing", "wave", "wave_review"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outstanding:
    """A message somebody owes an answer to."""

    message_id: str
    token: str
    kind: MessageKind
    task: str
    """Empty for what concerns no single task."""
    issued_at: float


_LONGEST_PAUSE_S = 60.0


def pause_s(times: int) -> float:
    """Seconds to wait after so many failures in a row: doubled each time, up to a minute."""
    return min(_LONGEST_PAUSE_S, 0.5 * 2.0 ** min(times, 10))


def is_pausing(not_before: float, now: float) -> bool:
    """
    Whether a pause after failures goes on. One that would be longer than any is over: the clock was set back since.
    """
    return now < not_before <= now + _LONGEST_PAUSE_S
