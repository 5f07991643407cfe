"""The simulator gives all policies the same world and the same figures for one seed, and its figures reveal a cheat."""

from dataclasses import dataclass, field, replace
from itertools import combinations
from statistics import fmean, median

import pytest
from queue_policies import POLICIES
from simulated_world import QueueTerms, World
from simulated_yard import (
    Changes,
    QueuePolicy,
    Run,
    Yard,
    count_moves_to_red,
    exactness_violations,
    numbers,
    play,
)

SMALL = QueueTerms(workers=3, rate_h=14, bad=0.15, flake=0.02, retries=1, changes=60, real=0.3)


@dataclass(slots=True, kw_only=True)
class Cheat:
    """Lands each change when its checks end, whatever their result and whatever they ran on."""

    yard: Yard
    waiting: list[int] = field(default_factory=list)

    def decide(self, arrived: Changes, ended: list[Run]) -> None:
        self.waiting.extend(arrived)
        for run in ended:
            self.yard.land(run.spec)
        while self.waiting and self.yard.free > 0:
            spec = (self.waiting.pop(0),)
            self.yard.start(spec, spec)


class Idle:
    """Does nothing."""

    def decide(self, arrived: Changes, ended: list[Run]) -> None:
        pass


SCOPED = replace(SMALL, scopes=True, real=0.1)
UNSCOPED = replace(SCOPED, scopes=False)


def played(policy: str, terms: QueueTerms = SMALL, seed: int = 1) -> Yard:
    yard = Yard(world=World(terms=terms, seed=seed))
    yard.play(POLICIES[policy](yard))
    return yard


@pytest.mark.parametrize("policy", POLICIES)
def test_a_policy_lands_what_is_red_or_untested(policy: str) -> None:
    """No policy moves the target to a red or untested tree, and each decides all changes."""
    yard = played(policy)
    assert (count_moves_to_red(yard), exactness_violations(yard)) == (0, 0)
    assert sorted(yard.landed | yard.returned) == list(range(60))
    assert not yard.landed.keys() & yard.returned.keys()
    assert sorted(yard.target) == sorted(yard.landed)
    assert yard.free == 3


def test_with_scopes_the_train_lands_what_is_red_or_untested() -> None:
    """With scopes, each move of the target is still green and tested exactly so on that tip."""
    yard = played("forgepool", SCOPED)
    assert (count_moves_to_red(yard), exactness_violations(yard)) == (0, 0)
    assert sorted(yard.landed | yard.returned) == list(range(60))
    assert any(run.times == 0 and run.state == "green" for run in yard.runs)


def test_what_is_known_to_be_green_costs_a_run() -> None:
    """If all that its checks look at was green before, no check runs on another tip."""
    world = World(terms=QueueTerms(changes=200, bad=0.0, real=0.0, scopes=True), seed=1)
    apart = next(one for one in world.changes[1:] if not one.modules & world.changes[0].modules)
    together = next(one for one in world.changes[1:] if one.modules & world.changes[0].modules)
    yard = Yard(world=world)
    first = yard.start((0,), (0,))
    yard.play(Idle())
    assert first.state == "green"
    yard.land((apart.number,))
    again = yard.start((0,), (0,))
    assert (again.times, again.green) == (0, True)
    assert again.ends - again.began < 0.1
    yard.land((together.number,))
    assert yard.start((0,), (0,)).times == 1


def test_scopes_gain_nothing() -> None:
    """In the same worlds the train lands sooner and with fewer runs if checks have scopes."""
    within, without = (play("forgepool", POLICIES["forgepool"], terms, [1, 2]) for terms in (SCOPED, UNSCOPED))
    assert within.p50_min < without.p50_min
    assert within.runs_per_change < without.runs_per_change
    assert within.wasted_pct < without.wasted_pct


def test_a_first_red_is_known_before_it_is_there() -> None:
    """A repeated run counts as failing from the end of its first run, and its last run decides."""

    @dataclass(slots=True, kw_only=True)
    class Watching:
        seen: list[tuple[float, bool, str]] = field(default_factory=list)
        run: Run | None = None

        def decide(self, arrived: Changes, ended: list[Run]) -> None:
            self.run = self.run or yard.start((0,), (0,))
            self.seen.append((yard.now, self.run.failing, self.run.state))

    yard = Yard(world=World(terms=QueueTerms(changes=1, bad=1.0, retries=1), seed=1))
    watching = Watching()
    yard.play(watching)
    assert [told for _, *told in watching.seen] == [[False, "running"], [True, "running"], [True, "red"]]
    began, first, last = (at for at, *_ in watching.seen)
    assert began < first < last


def test_a_cheat_is_not_found_out() -> None:
    """A policy that lands untested trees is counted, and so are the red ones among them."""
    yard = Yard(world=World(terms=SMALL, seed=1))
    yard.play(Cheat(yard=yard))
    told = numbers("cheat", yard)
    assert told.exactness_violations > 10
    assert told.red_moves > 5
    assert told.false_reject_pct == 0


def test_a_landing_before_its_test_ended_counts_as_tested() -> None:
    """A tree that was green only after its landing was not tested, and a cancelled run tests nothing."""
    yard = Yard(world=World(terms=QueueTerms(changes=2, bad=0.0, real=0.0), seed=1))
    run = yard.start((0,), (0,))
    yard.land((0,))
    assert exactness_violations(yard) == 1
    yard.now = run.ends
    honest = yard.start((1,), (1,))
    yard.now = honest.ends
    yard.land((1,))
    assert exactness_violations(yard) == 1
    yard.cancel(honest)
    assert exactness_violations(yard) == 2


def test_one_seed_gives_two_answers() -> None:
    """The same seed gives the same figures, and another seed gives others."""
    first, again, other = (play("forgepool", POLICIES["forgepool"], SMALL, [seed]) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_the_world_follows_the_policy() -> None:
    """Every policy meets the same changes with the same outcomes."""
    assert World(terms=SMALL, seed=5).changes == World(terms=SMALL, seed=5).changes
    slow = QueueTerms(workers=1, rate_h=SMALL.rate_h, bad=SMALL.bad, flake=0.0, changes=60)
    assert [one.bad for one in World(terms=slow, seed=5).changes] == [
        one.bad for one in World(terms=SMALL, seed=5).changes
    ]


def test_the_world_is_another_than_described() -> None:
    """The median check takes 8 minutes, every twentieth pair shares a module, and labels are mostly right."""
    world = World(terms=QueueTerms(changes=1500), seed=3)
    assert 7.3 < median(one.takes for one in world.changes) < 8.7
    assert 0.05 < fmean(one.bad for one in world.changes) < 0.11
    pairs = list(combinations(world.changes[:300], 2))
    assert 0.03 < fmean(bool(one.modules & other.modules) for one, other in pairs) < 0.07
    risky = [one for one in world.changes if one.risk > 0.2]
    assert fmean(one.bad for one in risky) == pytest.approx(risky[0].risk, abs=0.1)
    heavy = World(terms=QueueTerms(changes=400, spread=1.0, cap_min=90.0), seed=3)
    assert max(one.takes for one in heavy.changes) == 90.0


def test_a_burst_trickles_in() -> None:
    """A burst arrives at the beginning, and the rest at the given rate."""
    arrivals = [one.arrived for one in World(terms=QueueTerms(changes=6, burst=4), seed=1).changes]
    assert arrivals[:4] == [0.0] * 4
    assert 0 < arrivals[4] < arrivals[5]


def test_a_flake_is_retried_for_nothing() -> None:
    """One retry lets good changes land that are returned without it. Every run of a retry counts."""
    flaky = {"workers": 2, "rate_h": 6.0, "bad": 0.0, "real": 0.0, "changes": 100, "flake": 0.1}
    without = play("serial", POLICIES["serial"], QueueTerms(**flaky), [1])
    once = play("serial", POLICIES["serial"], QueueTerms(**flaky, retries=1), [1])
    assert without.false_reject_pct > 5 > once.false_reject_pct
    assert without.runs_per_change == 1 < once.runs_per_change


def test_runs_exceed_the_workers() -> None:
    """No policy has more runs at once than workers, except the oracle, which knows the times beforehand."""

    class Watched(Yard):
        def start(self, spec: Changes, car: Changes, *, again: bool = True, flake: float | None = None) -> Run:
            assert self.free > 0
            return super().start(spec, car, again=again, flake=flake)

    for name in set(POLICIES) - {"oracle"}:
        yard = Watched(world=World(terms=SMALL, seed=2))
        policy: QueuePolicy = POLICIES[name](yard)
        yard.play(policy)


def test_the_train_is_behind_its_peers() -> None:
    """In a small world with few workers the train lands sooner than batches or a serial queue."""
    at = {name: play(name, POLICIES[name], SMALL, [1, 2]).p95_min for name in ("forgepool", "bors", "serial")}
    assert at["forgepool"] < min(at["bors"], at["serial"])
