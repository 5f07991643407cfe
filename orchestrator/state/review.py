"""The messages that a state waits for, and the state of the reviews of one candidate."""

from dataclasses import dataclass, field, replace
from typing import Literal

from forgepool.orchestrator.journal.events import ReviewSent, WaveReviewSent
from forgepool.orchestrator.plan.budget import Use, give_up_use
from forgepool.orchestrator.state.streaks import pause_s
from forgepool.supervisor.messages.answers import Approval, PersonApproval, Review, ReviewApproval
from forgepool.workers.llm.batch import BatchCall

_LEAST_PAUSE_S = 5.0
"""Seconds between two looks at a batch, whatever the reviewer's host says."""
MessageKind = Literal["order", "check", "review", "landing", "wave", "wave_review"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outstanding:
    """A message whose answer is due."""

    message_id: str
    token: str
    kind: MessageKind
    task: str
    """Empty for what concerns no single task."""
    issued_at: float


@dataclass(slots=True, kw_only=True)
class ReviewState:
    """The review of one task; all but `sent` and `uses` is about its present candidate."""

    sent: int = 0
    """Reviews asked for so far; numbers the next one."""
    uses: dict[int, Use] = field(default_factory=dict)
    """By number, what each was promised and has used."""
    message: Outstanding | None = None
    holder: str = ""
    base: str = ""
    """The tip on which the review under way, or the last one, composes the candidate."""
    verdicts: int = 0
    answer: Review | None = None
    """The last one that decides anything."""
    person: PersonApproval | None = None
    troubles: int = 0
    """Failures of infrastructure in a row."""
    waits: int = 0
    not_before: float = 0.0
    limit_until: float = 0.0
    limited_at: float = 0.0
    """The time of the first answer in a row that told of a limit."""
    detail: str = ""
    batch: BatchCall | None = None
    """Its call in a batch lane, from the first request to the last; its reservation stays open as long."""
    live: bool = False
    """No batch brought its answer, so it is asked for live."""

    @property
    def passed(self) -> bool:
        return self.person is not None or (self.answer is not None and self.answer.outcome == "passed")

    def forget_candidate(self) -> None:
        """There is another one now: nothing that was said of the last holds for it."""
        self.let_go()
        self.base, self.verdicts, self.answer, self.person, self.live = "", 0, None, None, False
        self.calm()

    def calm(self) -> None:
        self.troubles = self.waits = 0
        self.not_before = self.limit_until = 0.0
        self.detail = ""

    def resume(self) -> None:
        """Forget failed requests, as a reviewer may be there now; a verdict stands."""
        self.calm()
        if self.answer is not None and self.answer.outcome not in ("passed", "failed"):
            self.answer = None

    def puts_off(self, result: Review, at: float) -> bool:
        """Tell whether the answer says nothing about the change, so that it is requested again."""
        if result.outcome != "infrastructure":
            self.calm()
            return False
        if result.not_before is None:
            self.fall_into_trouble(result.detail, at)
        elif result.batch is not None:
            self.calm()
            # The clock of the reviewer's host may be late.
            self.detail, self.not_before = result.detail, max(result.not_before, at + _LEAST_PAUSE_S)
        else:
            self.wait_for_limit(result.not_before, result.detail, at)
        return True

    def fall_into_trouble(self, detail: str, at: float) -> None:
        """Infrastructure failed the review; the candidate's own troubles are counted elsewhere."""
        self.troubles += 1
        self.detail, self.limit_until = detail, 0.0
        self.not_before = at + pause_s(self.troubles)

    def wait_for_limit(self, until: float, detail: str, at: float) -> None:
        """A limit of the models': no trouble. One stated wrongly, again and again, is asked less often."""
        self.limited_at = self.limited_at if self.waits else at
        self.waits, self.detail = self.waits + 1, detail
        self.not_before = self.limit_until = max(until, at + pause_s(self.waits))

    def let_go(self) -> None:
        """Drop the review under way; its possible use stays counted, as a batch may be paid that is not read."""
        begun = self.batch is not None and self.batch.again
        if (self.message is not None or begun) and (use := self.uses.get(self.sent)) is not None:
            self.uses = self.uses | {self.sent: give_up_use(use, taken=begun or bool(self.holder), seen=None)}
        self.message, self.holder, self.batch = None, "", None

    def lose(self) -> None:
        """Drop the request under way. A batch that it may have made is looked for by the next one."""
        if self.batch is None:
            self.let_go()
        else:
            self.batch = self.batch.model_copy(update={"again": True})
            self.message, self.holder = None, ""

    def open_use(self, event: ReviewSent | WaveReviewSent) -> None:
        """Begin another request. One about a batch has the reservation of the request before it, and its time."""
        uses = dict(self.uses)
        use = Use(
            reserved_usd=event.reserved_usd,
            reserved_tokens=event.reserved_tokens,
            sent_at=event.issued_at,
            accounts=event.accounts,
        )
        if self.batch is not None and (before := uses.pop(self.sent, None)) is not None:
            use = replace(use, sent_at=before.sent_at, accounts=before.accounts)
        self.uses = uses | {event.number: use}
        self.sent, self.batch, self.holder, self.limit_until = event.number, event.batch, "", 0.0

    def settle(self, review: Review) -> None:
        """
        One that broke off without a turn may have paid for one: all that was reserved counts, as for one that is lost.
        That a model is to be asked later is no such thing. While a batch is waited for, nothing is settled.
        """
        self.message, self.holder = None, ""
        waits, ticket = review.outcome == "infrastructure", review.batch
        if waits and self.batch is not None and (ticket is None or not ticket.over):
            known = {"again": True} if ticket is None else {"again": True, "ticket": ticket}
            self.batch = self.batch.model_copy(update=known)
            return
        maybe = self.batch is not None and self.batch.again and self.batch.ticket is None
        self.batch, self.live = None, waits and (self.live or ticket is not None)
        use = self.uses.get(self.sent, Use())
        untold = review.outcome == "infrastructure" and review.not_before is None and not review.spent.turns
        # A batch whose request was lost may have been made and paid for, and is not looked for after its deadline.
        untold = untold or (maybe and ticket is not None and not ticket.id)
        settled = give_up_use(use, taken=True, seen=None) if untold else replace(use, spent=review.spent)
        self.uses = self.uses | {self.sent: replace(settled, models=review.models)}

    def approval(self, candidate: str, patch_id: str) -> Approval | None:
        """Return the approval that lets this candidate land as this diff; None where there is none."""
        if self.person is not None and self.person.commit == candidate:
            return self.person
        answer = self.answer
        if answer is None or answer.outcome != "passed" or not patch_id or patch_id != answer.patch_id:
            return None
        return ReviewApproval(
            patch_id=answer.patch_id,
            families=answer.families,
            models=answer.models,
            same_family=answer.same_family,
        )
