"""
The wave gate: all checks on the target itself, after every so many landings and at the end of the run.

Each landing was tested on exactly its tree, by what may have been reused, in parts, or on this host alone; a wave asks
once more of the whole. Nothing is let in while it is asked, so that what it says is said of the target as it stands.
"""

from dataclasses import dataclass, field

from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.plan.budget import Use
from forgepool.orchestrator.state.review import Outstanding, ReviewState
from forgepool.orchestrator.state.streaks import pause_s
from forgepool.orchestrator.state.task import IllegalStep
from forgepool.supervisor.messages.answers import CheckResult, PersonApproval, Review


def fit_to_build_on(result: CheckResult) -> bool:
    """
    Tell whether work on a target with this result can land at all. Tests that are known to fail on it count against no
    task. Where a check fails by its exit status alone, only work that makes it green can land.
    """
    if result.verdict == "base_red":
        return all(one.how == "exit" and one.tests for one in result.failures)
    return result.verdict == "green"


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
    """
    The commit from which it was requested: `since`, or the start of what no review has passed where others moved a
    green target.
    """
    tasks: tuple[str, ...] = ()
    message: Outstanding | None = None
    holder: str = ""
    troubles: int = 0
    not_before: float = 0.0
    detail: str = ""
    green: CheckResult | None = None
    """The result that last found the target green."""
    base_first: bool = False
    """The target is checked before the first paid call to a model."""
    base_known: bool = False
    """The target is fit to be built on, or a person has read that it is not and goes on."""
    base_red: CheckResult | None = None
    """Why calls to models wait: the answer about the tip `base`."""

    @property
    def holds_models(self) -> bool:
        """Tell whether paid calls to models wait for an answer about the target, or for a fix."""
        return self.base_first and not self.base_known

    @property
    def base_wanted(self) -> bool:
        """Tell whether the target is still unknown and has to be checked."""
        return self.holds_models and self.base_red is None

    def note_sent(self, event: e.WaveSent, number: int) -> None:
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

    def take_answer(self, event: e.WaveAnswered, at: float) -> None:
        result = event.result
        if self.message is None or self.message.message_id != result.request_id:
            raise IllegalStep(f"no wave is waited for under {result.request_id}")
        self.message, self.holder = None, ""
        if result.verdict != "infrastructure" and not self.base_known:
            self.base_known = fit_to_build_on(result)
            self.base_red = None if self.base_known else result
        match result.verdict:
            case "infrastructure":
                self._fall_into_trouble(result.detail, at)
            case "green":
                self.upto, self.since, self.troubles, self.green = self.asked_at, self.base, 0, result
            case _:
                self.troubles = 0

    def has_landed(self) -> None:
        """Take what has just landed, and was green, for the base of what comes."""
        self.base_known, self.base_red = True, None

    def resume(self, *, moved: bool) -> None:
        """Ask about a target that has moved; on the same one, the person who goes on has read what it is like."""
        self.troubles, self.not_before = 0, 0.0
        if moved and not self.tasks:
            self.message = None
        self.base_known = self.base_known or (self.base_red is not None and not moved)
        self.base_red = None

    def lose_message(self, event: e.MessageLost, at: float) -> None:
        first = self.troubles == 0
        self.message, self.holder = None, ""
        self._fall_into_trouble(event.why, at)
        if first:
            self.not_before = at

    def _fall_into_trouble(self, detail: str, at: float) -> None:
        self.troubles += 1
        self.detail, self.not_before = detail, at + pause_s(self.troubles)


@dataclass(slots=True, kw_only=True)
class WaveReviewState:
    review: ReviewState = field(default_factory=ReviewState)
    """The messages, what they used, and the last answer that says anything of the wave up to `tip`."""
    since: str = ""
    """The target's commit before the first landing that no integration review has passed; empty where there is none."""
    anchor: str = ""
    """The tip that was passed last, or with which the run began."""
    upto: int = 0
    """Number of the event up to which landings were passed as a whole."""
    tried: int = 0
    """The number of the event up to which a request found no reviewer."""
    landed: int = 0
    """Number of the event with which something landed last."""
    asked_at: int = 0
    tip: str = ""
    """The target's commit that the last one is about."""
    tasks: tuple[str, ...] = ()

    @property
    def use(self) -> Use | None:
        """Return the reservation and the use of the last review."""
        return self.review.uses.get(self.review.sent)

    @property
    def against(self) -> Review | None:
        """The last answer, where it is no pass."""
        answer = self.review.answer
        return None if answer is None or answer.outcome == "passed" else answer

    def has_landed(self, base: str, number: int) -> None:
        """`base` is the commit that it landed on; empty where that is not known, of one that was found landed late."""
        self.since, self.landed = self.since or base or self.anchor, number

    def note_sent(self, event: e.WaveReviewSent, number: int) -> None:
        review = self.review
        if review.message is not None or event.number != review.sent + 1:
            raise IllegalStep(f"review {event.number} of what has landed does not follow {review.sent}")
        review.base = event.base
        self.asked_at, self.tip, self.tasks = number, event.tip, event.tasks
        review.open_use(event)
        review.message = Outstanding(
            message_id=event.message_id,
            token=event.token,
            kind="wave_review",
            task="",
            issued_at=event.issued_at,
        )

    def take_answer(self, event: e.WaveReviewAnswered, at: float) -> None:
        review, result = self.review, event.result
        if review.message is None or review.message.message_id != result.request_id:
            raise IllegalStep(f"no review of what has landed is waited for under {result.request_id}")
        review.settle(result)
        if review.puts_off(result, at):
            return
        review.answer, review.person = result, None
        if result.outcome == "passed":
            self._pass(self.asked_at, self.tip)
        elif result.outcome != "failed":
            self.tried = self.asked_at

    def lose_message(self, event: e.MessageLost, at: float) -> None:
        """Asked for again, at once the first time; what it may have used stays counted."""
        first = self.review.troubles == 0
        self.review.lose()
        self.review.fall_into_trouble(event.why, at)
        if first:
            self.review.not_before = at

    def approve(self, event: e.WaveApproved, number: int) -> None:
        """A review under way is not wanted any more."""
        self.review.let_go()
        self.review.calm()
        self.review.person = PersonApproval(commit=event.tip, by=event.by)
        self._pass(number, event.tip)

    def resume(self) -> None:
        """Forget failed requests, as a reviewer may be there now; a verdict stands."""
        self.review.resume()
        if self.review.answer is None:
            self.tried = 0

    def _pass(self, upto: int, tip: str) -> None:
        self.upto, self.anchor = upto, tip
        self.since = tip if self.landed > upto else ""
