"""
Counts of a run's events, for monitoring: a fold beside the state, which forgets what is over. Pure.

They only grow, and the same journal always gives the same ones. None is about a single task.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Literal

from forgepool.orchestrator.journal import events as e

BUCKETS_S = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0)
"""Upper bounds of the buckets of durations; a last bucket takes what lasted longer."""
Counted = Literal["attempts", "answers", "landings", "returns", "suspensions"]
Timed = Literal["checks", "waits", "landed after"]


@dataclass(slots=True)
class Durations:
    """The number of durations in each bucket, and their sum."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS_S) + 1))
    total_s: float = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(BUCKETS_S, seconds)] += 1
        self.total_s += max(0.0, seconds)

    def merge(self, other: "Durations") -> None:
        self.counts = [one + another for one, another in zip(self.counts, other.counts, strict=True)]
        self.total_s += other.total_s


@dataclass(slots=True)
class EventCounts:
    """The counts of the events so far, by kind and label."""

    counted: Counter[tuple[Counted, str]] = field(default_factory=Counter)
    timed: defaultdict[tuple[Timed, str], Durations] = field(default_factory=lambda: defaultdict(Durations))
    _sent: dict[str, tuple[str, float]] = field(default_factory=dict)
    """By message that is not answered, its kind and the time at which it was sent."""
    _taken: set[str] = field(default_factory=set)
    _queued: dict[str, float] = field(default_factory=dict)
    """By task that is to land, the time at which it first entered the queue."""

    def merge(self, other: "EventCounts") -> None:
        self.counted.update(other.counted)
        for key, durations in other.timed.items():
            self.timed[key].merge(durations)

    def take(self, event: e.Event, at: float) -> None:
        """Count one event; `at` is its time in Unix seconds."""
        match event:
            case e.HostSuspended():
                self.counted["suspensions", ""] += 1
            case e.TaskReturned(reason=reason) | e.TaskFailed(reason=reason) | e.TaskRejected(reason=reason):
                self.counted["returns", reason.kind] += 1
                self._queued.pop(event.task, None)
            case e.EntryQueued() | e.EntrySubmitted():
                self._queued.setdefault(event.task, at)
            case e.EntryTold(answer=answer) if answer.word == "landed":
                self.counted["landings", "landed by a queue"] += 1
            case _:
                self._take_message(event, at)

    def _take_message(self, event: e.Event, at: float) -> None:
        match event:
            case (
                e.OrderSent() | e.CheckSent() | e.ReviewSent() | e.LandingIntended() | e.WaveSent() | e.WaveReviewSent()
            ):
                kind = event.kind.partition(".")[0]
                self._sent[event.message_id] = kind, at
                self.counted["attempts", ""] += kind == "order"
            case e.MessageTaken(message_id=message) if message in self._sent and message not in self._taken:
                kind, sent_at = self._sent[message]
                self._taken.add(message)
                self.timed["waits", kind].add(at - sent_at)
            case e.MessageLost(message_id=message):
                self.counted["answers", "lost"] += self._end(message) == "order"
            case e.CheckCancelled(message_id=message) | e.RacerWithdrawn(message_id=message):
                self._end(message)
            case e.OrderAnswered(result=result):
                self._end(result.order_id)
                self.counted["answers", result.outcome] += 1
            case e.ReviewAnswered(result=answer) | e.WaveReviewAnswered(result=answer):
                self._end(answer.request_id)
            case e.CheckAnswered(result=checked) | e.WaveAnswered(result=checked):
                self._end(checked.request_id)
                self.timed["checks", checked.verdict].add(checked.seconds)
            case e.LandingAnswered(result=landing):
                self._end(landing.request_id)
                entries = event.entries or (event.task,)
                self.counted["landings", landing.outcome] += len(entries)
                for queued_at in [self._queued.pop(one, at) for one in entries] if landing.outcome == "landed" else ():
                    self.timed["landed after", ""].add(at - queued_at)
            case _:
                pass

    def _end(self, message: str) -> str:
        """Forget a message; return its kind."""
        self._taken.discard(message)
        return self._sent.pop(message, ("", 0.0))[0]
