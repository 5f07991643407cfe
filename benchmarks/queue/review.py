"""
Prints what the review protocol achieves with reviewers that have blind spots: recall and precision, alone and together.

    python benchmarks/queue/review.py

Two dozen small changes go through the whole review: composed, read on a checkout, judged by verdicts that count. Half
of them have a planted defect (`tests/supervisor/review/defects.py`). The reviewers are scripts. Each is blind to some
kinds of defects, and sees something wrong where nothing is. An open reviewer accepts a defect that it is shown, and
drops a finding that it cannot show. A stubborn one does neither. So these figures measure who is asked, who hears of
the others' findings, and who decides. They say nothing of any model, and nothing of how often models are open.
"""

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests"))

import find_helpers  # noqa: F401  # before any helper
from defects import Case, Player, cases
from gates import Gate
from repositories import Hub, git
from review_kit import COMMAND, Desk, several

from forgepool.supervisor.findings import blocking
from forgepool.supervisor.messages.answers import Review
from forgepool.supervisor.messages.requests import ReviewPolicy

LEFT = Player(family="left", blind=("race", "leak", "growth", "silence"), ghosts=("border", "injection"))
RIGHT = Player(family="right", blind=("injection", "traversal", "rounding", "units"), ghosts=("units",))
THIRD = Player(family="third", blind=("requirement", "leak"), ghosts=("silence",))
_STUBBORN = tuple(replace(one, open=False) for one in (LEFT, RIGHT))
_NEAR = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    name: str
    players: tuple[Player, ...]
    reviewers: int = 2
    rounds: int = 1


WAYS = (
    Way(name="left alone", players=(LEFT,), reviewers=1),
    Way(name="right alone", players=(RIGHT,), reviewers=1),
    Way(name="both, who never hear of one another", players=(LEFT, RIGHT)),
    Way(name="debate, both open", players=(LEFT, RIGHT), rounds=2),
    Way(name="debate, both stubborn, no judge", players=_STUBBORN, rounds=2),
    Way(name="debate, both stubborn, a third judges", players=(*_STUBBORN, THIRD), rounds=2),
)


@dataclass(slots=True, kw_only=True)
class Score:
    caught: int = 0
    planted: int = 0
    false: int = 0
    """Blocking findings that match no planted defect."""
    turns: int = 0
    seconds: float = 0.0

    @property
    def recall(self) -> float:
        return self.caught / self.planted

    @property
    def precision(self) -> float:
        return self.caught / (self.caught + self.false) if self.caught + self.false else 1.0

    def take(self, case: Case, review: Review) -> None:
        held = blocking(review.findings, "fix_if_easy")
        right = [one for one in held if case.planted and one.file == case.path and abs(one.line - case.line) <= _NEAR]
        self.planted += case.planted is not None
        self.caught += bool(right)
        self.false += len(held) - len(right)
        self.turns += review.spent.turns
        self.seconds += review.seconds


def measured(way: Way, folder: Path, chosen: Sequence[Case]) -> Score:
    desk, score = Desk(_gate(folder)), Score()
    policy = ReviewPolicy(
        script=several(*(player.script() for player in way.players)), reviewers=way.reviewers, rounds=way.rounds
    )
    for case in chosen:
        review = desk.review({case.path: case.text}, policy, author=COMMAND, title=case.title, request_id=case.name)
        if review.outcome not in ("passed", "failed"):
            sys.exit(f"{way.name}, {case.name}: no verdict, but {review.outcome}: {review.detail}")
        score.take(case, review)
    return score


def _gate(folder: Path) -> Gate:
    hub = Hub(path=folder / "hub.git", work=folder / "person")
    git(folder, "init", "-q", "--bare", "-b", "main", str(hub.path))
    git(folder, "init", "-q", "-b", "main", str(hub.work))
    git(hub.work, "commit", "-q", "--allow-empty", "-m", "first")
    git(hub.work, "remote", "add", "origin", str(hub.path))
    git(hub.work, "push", "-q", "origin", "main")
    return Gate(hub, folder)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.parse_args()
    every = list(cases())
    planted = sum(case.planted is not None for case in every)
    print(f"{len(every)} changes, {planted} with a planted defect; scripted reviewers: the protocol, not models\n")
    print(f"{'':40} {'recall':>7} {'precision':>10} {'turns':>6} {'s/review':>9}")
    for way in WAYS:
        folder, began = Path(tempfile.mkdtemp(prefix="fp-review-")), time.monotonic()
        try:
            score = measured(way, folder, every)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        each = (time.monotonic() - began) / len(every)
        print(f"{way.name:40} {score.recall:7.2f} {score.precision:10.2f} {score.turns:6} {each:9.2f}", flush=True)


if __name__ == "__main__":
    main()
