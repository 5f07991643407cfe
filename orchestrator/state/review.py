"""
What is known of the review of a task's candidate, and whose word lets it land.

An approval is bound to what was looked at: a reviewer's to the composed diff, by its `patch_id`, a person's to the
candidate's commit. It is worked out from these whenever it is wanted, and kept nowhere.
"""

from dataclasses import dataclass, field, replace

from forgepool.orchestrator.plan.budget import Use, give_up_use
from forgepool.orchestrator.state.pending import Outstanding, pause_s
from forgepool.supervisor.messages import Approval, PersonApproval, Review, ReviewApproval

MOST_REVIEWS = 4
"""
Verdicts on one candidate. Who lands meanwhile may change the diff around its lines each time: then a person is asked.
"""


@dataclass(slots=True, kw_only=True)
class ReviewState:
    """Of one task; all but `sent` and `uses` is about its present candidate."""

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
    detail: str = ""

    @property
    def passed(self) -> bool:
        return self.person is not None or (self.answer is not None and self.answer.outcome == "passed")

    def forget_candidate(self) -> None:
        """There is another one now: nothing that was said of the last holds for it."""
        self.let_go()
        self.base, self.verdicts, self.answer, self.person = "", 0, None, None
        self.calm()

    def calm(self) -> None:
        self.troubles = self.waits = 0
        self.not_before = self.limit_until = 0.0
        self.detail = ""

    def puts_off(self, result: Review, at: float) -> bool:
        """Whether the answer says nothing of the change, so that it is asked for again."""
        if result.outcome != "infrastructure":
            self.calm()
            return False
        if result.not_before is None:
            self.fall_into_trouble(result.detail, at)
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
        self.waits += 1
        self.detail = detail
        self.not_before = self.limit_until = max(until, at + pause_s(self.waits))

    def let_go(self) -> None:
        """Nobody waits for the review under way any more; what it may have used stays counted."""
        if self.message is not None and (use := self.uses.get(self.sent)) is not None:
            self.uses = self.uses | {self.sent: give_up_use(use, taken=bool(self.holder), seen=None)}
        self.message, self.holder = None, ""

    def settle(self, review: Review) -> None:
        """
        One that broke off without a turn may have paid for one: all that was reserved counts, as for one that is lost.
        That a model is to be asked later is no such thing.
        """
        use = self.uses.get(self.sent, Use())
        untold = review.outcome == "infrastructure" and review.not_before is None and not review.spent.turns
        settled = give_up_use(use, taken=True, seen=None) if untold else replace(use, spent=review.spent)
        self.uses = self.uses | {self.sent: replace(settled, models=review.models)}
        self.message, self.holder = None, ""

    def approval(self, candidate: str, patch_id: str) -> Approval | None:
        """What lets this candidate land as this diff; None where nothing does."""
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
