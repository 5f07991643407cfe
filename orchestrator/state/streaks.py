"""
The same infrastructure mistake, task after task: a circuit breaker for a run.

A streak is about one kind of message. It begins with a failure of infrastructure, goes on with the next one that says
the same, and ends with an answer that is none. While it has met several tasks, one order at a time tries whether the
mistake is still there. When it has lasted, the run stops asking, and a person is asked instead.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

LONGEST_PAUSE_S = 60.0


def pause_s(times: int) -> float:
    """Seconds to wait after so many failures in a row: doubled each time, up to a minute."""
    return min(LONGEST_PAUSE_S, 0.5 * 2.0 ** min(times, 10))


def is_pausing(not_before: float, now: float) -> bool:
    """
    Tell whether a pause after failures goes on. A pause longer than any possible one is over: the clock was set back
    since.
    """
    return now < not_before <= now + LONGEST_PAUSE_S


Asked = Literal["order", "check"]
"""The kinds of message with a streak of their own."""
_TASKS = 3
"""Different tasks, and failures, in a row that make a mistake one of the run, and of none of them."""
_LASTS_S = 120.0
"""Seconds from the first to the last failure after which it does not pass by itself, as an outage of the hub may."""
_VARIES = re.compile(r"'[^']*'|\"[^\"]*\"|\S*[\d/]\S*")
"""Names, paths, ids and numbers in a sentence."""


@dataclass(slots=True, kw_only=True)
class TroubleStreak:
    said: str = ""
    """The sentence of the last failure."""
    tasks: dict[str, None] = field(default_factory=dict)
    """The tasks that have met it, in order."""
    failures: int = 0
    """One failure may concern several tasks, which were tested together."""
    since: float = 0.0
    last: float = 0.0
    opened: float = 0.0
    """When it became open; a failure of what was asked before says nothing new."""
    stopped: str = ""
    """Why the run stopped asking, where it has."""

    @property
    def is_open(self) -> bool:
        """Tell whether so many tasks have met it that only one order at a time is sent."""
        return len(self.tasks) >= _TASKS and self.failures >= _TASKS

    @property
    def lasts(self) -> bool:
        """Tell whether a person is to be asked."""
        return self.is_open and self.last - self.since >= _LASTS_S

    def is_pausing(self, now: float) -> bool:
        """Tell whether it is too early for the next try: after as long again as the streak has lasted."""
        pause = min(LONGEST_PAUSE_S, max(1.0, self.last - self.since))
        return self.is_open and is_pausing(self.last + pause, now)

    def note(self, tasks: Iterable[str], detail: str, at: float, *, asked_at: float) -> None:
        """Take in a failure of a message about these tasks; another mistake begins another streak."""
        tasks = list(tasks)
        if not self.tasks or _shape(self.said, self.tasks) != _shape(detail, tasks):
            self.tasks, self.failures, self.since = {}, 0, at
        elif self.is_open and asked_at < self.opened:
            return
        was_open = self.is_open
        self.said, self.last, self.failures = detail, at, self.failures + 1
        self.tasks |= dict.fromkeys(tasks)
        if self.is_open and not was_open:
            self.opened = at


def _shape(sentence: str, tasks: Iterable[str]) -> str:
    """Return a sentence without what differs from task to task."""
    for task in tasks:
        sentence = re.sub(rf"(?<![\w-]){re.escape(task)}(?![\w-])", "*", sentence)
    return " ".join(_VARIES.sub("*", sentence).split())
