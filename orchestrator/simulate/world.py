"""
The world of a simulated run: it draws durations, costs and outcomes, and answers each message with them.

Every draw depends on the seed and its subject, never on the order of questions. So runs of one seed with more workers,
or fewer, meet the same candidates, the same failures and the same durations.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Literal

from forgepool.orchestrator.journal.events import (
    CheckSent,
    LandingIntended,
    OrderSent,
    ReviewSent,
    WaveReviewSent,
    WaveSent,
)
from forgepool.supervisor.messages.answers import Certificate, CheckResult, Landing, Review
from forgepool.workers.schema.orders import Outcome, Spent, WorkResult
from forgepool.workers.schema.reports import Report

Sent = OrderSent | CheckSent | ReviewSent | LandingIntended | WaveSent | WaveReviewSent
Said = WorkResult | CheckResult | Review | Landing
Seconds = tuple[float, ...]
"""One of these values is drawn, each equally likely."""
Source = Literal["given", "runs", "plan", "assumed"]

HOST = "simulated"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanTerms:
    """The assumptions about the world."""

    workers: int
    trials: int = 1
    """Cars that are checked at the same time."""
    reviews: int = 1
    """Reviews at the same time."""
    work_s: Mapping[str, Seconds]
    """The duration of an attempt, by task."""
    check_s: Seconds = (60.0,)
    """The duration of one trial, for any car. A decisive one that fails runs twice, as in a real run."""
    review_s: Seconds = (120.0,)
    landing_s: Seconds = (1.0,)
    bad: float = 0.08
    """Probability that a candidate fails its checks by itself."""
    fruitless: float = 0.0
    """Probability that an attempt ends without a candidate."""
    reviewed: bool = False
    """True when the target requires reviews, whatever the plan says."""
    failed_review: float = 0.0
    answering: frozenset[str] = frozenset()
    """The tasks that end with a report."""
    usd: Mapping[str, Seconds] = field(default_factory=dict)
    """The cost of an attempt, by task, where it is known."""
    review_usd: Seconds = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanWorld:
    """Returns, for each message, the time until its answer and the answer."""

    terms: PlanTerms
    seed: int

    def is_bad(self, task: str, attempt: int) -> bool:
        return self._chance("bad", task, attempt) < self.terms.bad

    def work(self, sent: OrderSent, run: str) -> tuple[float, WorkResult]:
        terms, about = self.terms, (sent.task, sent.attempt)
        takes = self._one_of(terms.work_s[sent.task], "work", *about)
        aim: Outcome = "reported" if sent.task in terms.answering else "candidate"
        outcome = aim if self._chance("fruitless", *about) >= terms.fruitless else "agent_failed"
        if self._is_stopped(sent):
            outcome = "limits_spent"
        made, cost = outcome == "candidate", self.usd(sent)
        answer = WorkResult(
            order_id=sent.message_id,
            token=sent.token,
            outcome=outcome,
            commit=candidate(*about) if made else None,
            report=Report(summary="simulated") if outcome == "reported" else None,
            detail="" if outcome == aim else f"the attempt ended without a {'report' if aim == 'reported' else aim}",
            spent=Spent(seconds=takes, cost_usd=cost or 0.0),
            host=HOST,
            started_at=sent.issued_at,
            finished_at=sent.issued_at + takes,
        )
        return takes, answer

    def usd(self, sent: OrderSent) -> float | None:
        """Return the cost of an attempt, at most its reservation; None where it is unknown."""
        drawn = self._drawn_usd(sent)
        return drawn if drawn is None or sent.reserved_usd is None else min(drawn, sent.reserved_usd)

    def _drawn_usd(self, sent: OrderSent) -> float | None:
        known = self.terms.usd.get(sent.task)
        return self._one_of(known, "usd", sent.task, sent.attempt) if known else None

    def _is_stopped(self, sent: OrderSent) -> bool:
        """Return whether an attempt would cost more than its reservation."""
        drawn = self._drawn_usd(sent)
        return drawn is not None and sent.reserved_usd is not None and drawn > sent.reserved_usd

    def check(self, sent: CheckSent, made_by: Mapping[str, int]) -> tuple[float, CheckResult]:
        """Check a car. `made_by` has, by task, the attempt whose candidate is in the train."""
        car = sent.car or (sent.task,)
        spec = (*sent.ahead, *car)
        red = any(self.is_bad(task, made_by[task]) for task in spec)
        takes = self._one_of(self.terms.check_s, "check", sent.message_id)
        candidates = [candidate(task, made_by[task]) for task in spec]
        commits = compose_trees(sent.base, candidates)
        tree = f"tree-{commits[-1]}"
        answer = CheckResult(
            request_id=sent.message_id,
            token=sent.token,
            verdict="red" if red else "green",
            commit=commits[-1],
            tree=tree,
            commits=tuple(commits),
            patch_ids=tuple(map(patch, candidates)),
            reviewed=self.terms.reviewed,
            certificates=() if red else (_certificate(tree, takes),),
            detail="one of them is red" if red else "",
            host=HOST,
        )
        return takes * (2 if red and sent.decisive else 1), answer

    def review(self, sent: ReviewSent, made_by: int) -> tuple[float, Review]:
        terms, of = self.terms, candidate(sent.task, made_by)
        takes = self._one_of(terms.review_s, "review", sent.task, sent.number)
        passed = self._chance("review", sent.task, made_by) >= terms.failed_review
        return takes, self._reviewed(sent, takes, passed=passed, patch_id=patch(of))

    def wave_review(self, sent: WaveReviewSent) -> tuple[float, Review]:
        """Review the whole; it always passes, since no history says how often it fails."""
        takes = self._one_of(self.terms.review_s, "wave-review", sent.number)
        return takes, self._reviewed(sent, takes, passed=True)

    def _reviewed(self, sent: ReviewSent | WaveReviewSent, takes: float, *, passed: bool, patch_id: str = "") -> Review:
        return Review(
            request_id=sent.message_id,
            token=sent.token,
            outcome="passed" if passed else "failed",
            patch_id=patch_id,
            families=(HOST,),
            summary="" if passed else "it was failed",
            spent=Spent(seconds=takes, cost_usd=self.review_usd(sent) or 0.0),
            seconds=takes,
            host=HOST,
        )

    def review_usd(self, sent: ReviewSent | WaveReviewSent) -> float | None:
        if not self.terms.review_usd:
            return None
        of = sent.task if isinstance(sent, ReviewSent) else "the whole"
        drawn = self._one_of(self.terms.review_usd, "review-usd", of, sent.number)
        return drawn if sent.reserved_usd is None else min(drawn, sent.reserved_usd)

    def land(self, sent: LandingIntended) -> tuple[float, Landing]:
        takes = self._one_of(self.terms.landing_s, "land", sent.message_id)
        where = {"request_id": sent.message_id, "token": sent.token, "host": HOST}
        return takes, Landing.model_validate({**where, "outcome": "landed", "commit": sent.commit})

    def wave(self, sent: WaveSent) -> tuple[float, CheckResult]:
        takes = self._one_of(self.terms.check_s, "wave", sent.message_id)
        return takes, CheckResult(request_id=sent.message_id, token=sent.token, verdict="green", host=HOST)

    def _chance(self, *about: object) -> float:
        return self._random(about).random()

    def _one_of(self, known: Seconds, *about: object) -> float:
        return known[0] if len(known) == 1 else self._random(about).choice(known)

    def _random(self, about: Sequence[object]) -> Random:
        return Random("/".join(map(str, (self.seed, *about))))


def candidate(task: str, attempt: int) -> str:
    return f"{task}-{attempt}"


def compose_trees(base: str, candidates: Sequence[str]) -> list[str]:
    """Return the commit of each candidate on top of the base and of those before it."""
    commits: list[str] = []
    for each in candidates:
        below = commits[-1] if commits else base
        commits.append(hashlib.sha1(f"{below}/{each}".encode(), usedforsecurity=False).hexdigest())
    return commits


def patch(of: str) -> str:
    """Return the id of a candidate's composed diff, the same on every tip: nothing conflicts here."""
    return f"patch-{of}"


def _certificate(tree: str, seconds: float) -> Certificate:
    return Certificate(
        key="simulated", check="all", definition="", environment="", tree=tree, seconds=seconds, host=HOST
    )
