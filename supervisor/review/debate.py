"""
Several reviewers of one change: each for itself first, then in view of what the others found; in the end a judge.

In the first round all hear the same, and nothing of one another. In each later one a reviewer hears the others'
findings and says again what it holds: it keeps, with evidence, takes up what it has seen to be so, or withdraws. It
ends when all hold the same. Where they do not come to that, a judge of a family that has had no part decides, where
there is one; else whatever one of them still holds counts. Nothing is settled by a majority: two who are blind to the
same thing outvote the one who sees it.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import combinations

from forgepool.supervisor.findings import ReviewFinding
from forgepool.supervisor.review.brief import ReviewBrief
from forgepool.supervisor.review.conversation import Position, ReviewConversation, ReviewSite, conversing
from forgepool.supervisor.review.panel import Panel
from forgepool.workers.schema.orders import Limits, Spent, add_spent

_NEAR = 5
"""Lines between two findings that are taken for one and the same."""
_LETTERS = "ABCDE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """The outcome of asking a panel."""

    standing: tuple[ReviewConversation, ...]
    """The conversations whose verdict counts."""
    decisive: tuple[ReviewConversation, ...]
    """The conversations whose verdicts decide: all that stand, or the judge's."""
    all: tuple[ReviewConversation, ...]
    failures: tuple[Position, ...]
    rounds: int
    told: tuple[str, ...] = ()

    @property
    def spent(self) -> Spent:
        total = Spent()
        for one in self.all:
            total = add_spent(total, one.spent)
        return total


Purse = Callable[[Spent], Limits | None]
"""A function from the use of all other conversations to the limits of the next; None where nothing is left."""


@dataclass(slots=True, kw_only=True)
class Debate:
    panel: Panel
    brief: ReviewBrief
    site: ReviewSite
    purse: Purse
    rounds: int
    _talks: list[ReviewConversation] = field(default_factory=list)
    _failures: list[Position] = field(default_factory=list)

    def hold(self) -> Heard:
        with ExitStack() as until_the_end:
            seats, lenses = self.panel.reviewers, self.site.lenses
            talks = [
                until_the_end.enter_context(conversing(seat, self.site, lenses[place :: len(seats)]))
                for place, seat in enumerate(seats)
            ]
            self._talks = [*talks]
            card = self.brief.card()
            for talk in talks:
                self._ask(talk, card)
            round_number = self._argue(talks)
            standing = _standing(talks)
            decisive = standing
            told = [self.panel.told] if self.panel.told else []
            if len(standing) > 1 and not _agree(standing):
                judge = self._judge(until_the_end, card, standing)
                decisive = judge or standing
                told += _dismissed(standing, judge) if judge else ["no judge could be had: what one holds counts"]
            return Heard(
                standing=standing,
                decisive=decisive,
                all=tuple(self._talks),
                failures=tuple(self._failures),
                rounds=round_number,
                told=tuple(told),
            )

    def _argue(self, talks: Sequence[ReviewConversation]) -> int:
        """Later rounds, until all hold the same; answers how many rounds there were."""
        number = 1
        while number < self.rounds and len(_standing(talks)) > 1 and not _agree(_standing(talks)):
            number += 1
            # What all said in the round before is what each hears: nobody has the last word for speaking last.
            said = {id(one): (_name(talks, one), one.held) for one in _standing(talks)}
            for talk in _standing(talks):
                others = [found for key, found in said.items() if key != id(talk)]
                self._ask(talk, self.brief.others(others, last=number == self.rounds))
        return number

    def _judge(
        self, until_the_end: ExitStack, card: str, standing: Sequence[ReviewConversation]
    ) -> tuple[ReviewConversation, ...]:
        if self.panel.judge is None:
            return ()
        judge = until_the_end.enter_context(conversing(self.panel.judge, self.site))
        self._talks.append(judge)
        said = [(_name(standing, one), one.held) for one in standing]
        self._ask(judge, card + "\n" + self.brief.to_judge(said))
        return (judge,) if judge.form is not None else ()

    def _ask(self, talk: ReviewConversation, say: str) -> None:
        others = Spent()
        for one in self._talks:
            if one is not talk:
                others = add_spent(others, one.spent)
        limits = self.purse(others)
        if limits is None:
            detail = f"{talk.seat.first}: what the review may cost was used up before it was asked"
            self._failures.append(Position(ended="limits", detail=detail))
            return
        position = talk.lead(say, limits)
        if position.ended != "verdict":
            self._failures.append(position)


def findings_of(decisive: Sequence[ReviewConversation]) -> tuple[ReviewFinding, ...]:
    """All that those whose verdicts decide have found; the same by two of them once."""
    found: list[ReviewFinding] = []
    for talk in decisive:
        before = tuple(found)
        for one in talk.form.findings if talk.form is not None else ():
            if not any(_same(one, other) and one.category == other.category for other in before):
                found.append(one)
    return tuple(found)


def _standing(talks: Sequence[ReviewConversation]) -> tuple[ReviewConversation, ...]:
    """A verdict of an earlier round stands where a later one brought none."""
    return tuple(talk for talk in talks if talk.form is not None)


def _agree(talks: Sequence[ReviewConversation]) -> bool:
    return all(_covers(one.held, other.held) and _covers(other.held, one.held) for one, other in combinations(talks, 2))


def _covers(held: Sequence[ReviewFinding], others: Sequence[ReviewFinding]) -> bool:
    return all(any(_same(one, other) for one in held) for other in others)


def _same(one: ReviewFinding, other: ReviewFinding) -> bool:
    near = not one.line or not other.line or abs(one.line - other.line) <= _NEAR
    return one.file == other.file and near


def _dismissed(standing: Sequence[ReviewConversation], judges: Sequence[ReviewConversation]) -> Iterator[str]:
    upheld = [finding for judge in judges for finding in judge.held]
    for talk in standing:
        for finding in talk.held:
            if not any(_same(finding, one) for one in upheld):
                claim = " ".join(finding.claim.split())[:200]
                yield f"dismissed by the judge: {finding.file}:{finding.line} {claim}"


def _name(talks: Sequence[ReviewConversation], talk: ReviewConversation) -> str:
    return f"reviewer {_LETTERS[[id(one) for one in talks].index(id(talk))]}"
