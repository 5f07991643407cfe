"""
What is known of the review of what has landed as a whole, and of what nobody has passed as a whole yet.

Nothing that has landed is taken back by it. What was passed, by a reviewer or by a person, is in no later review; what
was failed, or could not be had, stays in the next one.
"""

from dataclasses import dataclass, field

from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.plan.budget import Use
from forgepool.orchestrator.state.pending import Outstanding
from forgepool.orchestrator.state.review import ReviewState
from forgepool.orchestrator.state.task import IllegalStep
from forgepool.supervisor.messages import PersonApproval, Review


@dataclass(slots=True, kw_only=True)
class WaveReviewState:
    review: ReviewState = field(default_factory=ReviewState)
    """The messages, what they used, and the last answer that says anything of the wave up to `tip`."""
    since: str = ""
    """The target's commit before the first landing that nobody has passed as a whole; empty where there is none."""
    anchor: str = ""
    """The tip that was passed last, or with which the run began."""
    upto: int = 0
    """Number of the event up to which landings were passed as a whole."""
    tried: int = 0
    """Number of the event up to which somebody was asked in vain."""
    landed: int = 0
    """Number of the event with which something landed last."""
    asked_at: int = 0
    tip: str = ""
    """The target's commit that the last one is about."""
    tasks: tuple[str, ...] = ()

    @property
    def use(self) -> Use | None:
        """What the last one was promised, and has used."""
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
        review.sent, review.base, review.holder, review.limit_until = event.number, event.base, "", 0.0
        self.asked_at, self.tip, self.tasks = number, event.tip, event.tasks
        use = Use(reserved_usd=event.reserved_usd, reserved_tokens=event.reserved_tokens)
        review.uses = review.uses | {event.number: use}
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
        self.review.let_go()
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
        """Who could not be asked then may be there now; a verdict stands."""
        self.review.calm()
        if self.against is not None and self.against.outcome != "failed":
            self.review.answer, self.tried = None, 0

    def _pass(self, upto: int, tip: str) -> None:
        self.upto, self.anchor = upto, tip
        self.since = tip if self.landed > upto else ""
