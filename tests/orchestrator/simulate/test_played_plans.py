"""A plan on a virtual clock takes the time worked out by hand, and obeys the rules of a real run."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
from plans import course, task
from virtual import terms

from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.plan.entries import PlanReview
from forgepool.orchestrator.simulate.run import Played, SimulatedSpan, play
from forgepool.orchestrator.simulate.world import PlanWorld
from forgepool.orchestrator.state.task import TERMINAL
from forgepool.supervisor.messages.requests import ReviewPolicy
from forgepool.workers.schema.orders import BuiltinAgent

CHAIN = course(task("a"), task("b", "a"), task("c", "b"))
DIAMOND = course(task("a"), task("b", "a"), task("c", "a"), task("d", "b", "c"))
ONE_FILE = course(task("a", files=("x",)), task("b", files=("x",)))
APART = course(task("a", files=("x",)), task("b", files=("y",)))


def makespan(of: PlanIndex, work_s: Mapping[str, float] | float = 100.0, **said: Any) -> float:
    return play(of, terms(of, work_s, **said), 1).makespan_s


def test_a_chain_takes_the_sum_of_its_tasks() -> None:
    """Each task is worked on, checked and landed after the one before, however many workers there are."""
    assert makespan(CHAIN, workers=1) == makespan(CHAIN, workers=9) == 3 * (100 + 60 + 1)


def test_a_diamond_takes_the_time_of_its_longer_side() -> None:
    """With one worker the shorter side is worked on after the longer one."""
    work = {"a": 100.0, "b": 100.0, "c": 200.0, "d": 100.0}
    assert makespan(DIAMOND, work) == 161 + 261 + 161
    assert makespan(DIAMOND, work, workers=1) == 161 + 200 + 161 + 161


def test_two_tasks_of_one_file_are_worked_on_one_after_the_other() -> None:
    """The second starts when the first has landed. Tasks of two files run together and land together."""
    assert makespan(ONE_FILE) == 2 * 161
    assert makespan(APART) == 161


def test_a_second_worker_saves_time() -> None:
    """The longer task starts first."""
    work = {"a": 100.0, "b": 300.0}
    assert makespan(APART, work, workers=2) == 300 + 60 + 1
    assert makespan(APART, work, workers=1) == 300 + 100 + 60 + 1


def test_a_task_that_stays_red_fails_and_blocks_what_needs_it() -> None:
    """Each red check runs twice, as in a real run."""
    played = play(CHAIN, terms(CHAIN, bad=1.0), 1)
    assert played.makespan_s == 2 * (100 + 2 * 60)
    assert played.phases == {"failed": 1, "blocked": 2} and not played.all_landed


def test_a_review_takes_time_between_checks_and_landing() -> None:
    plan = course(task("a", agent=BuiltinAgent()), review=PlanReview(policy=ReviewPolicy(script="x")))
    played = play(plan, terms(plan, review_s=(30.0,), reviews=1), 1)
    assert played.makespan_s == 100 + 60 + 30 + 1
    assert played.money.paid == 1 and played.money.unknown == 1


def test_a_review_that_the_target_demands_is_simulated() -> None:
    """This holds whatever the plan says about reviews."""
    assert makespan(APART, reviewed=True, review_s=(30.0,), reviews=2) > makespan(APART)


def test_at_most_the_given_number_of_trials_run_at_once() -> None:
    plan = course(*(task(f"t{one}", files=(str(one),)) for one in range(8)))
    for trials in (1, 3):
        played = play(plan, terms(plan, trials=trials, workers=8), 1)
        assert max(span.lane for span in played.spans if span.place == "check") == trials - 1


MIXED = course(
    *(
        task(
            f"t{at}", *([f"t{at - 3}"] if at > 3 else []), files=(f"m{at % 5}/**", *(["shared"] if at % 7 == 0 else []))
        )
        for at in range(24)
    )
)


@pytest.mark.parametrize("seed", range(1, 9))
def test_a_simulated_run_obeys_the_rules_of_a_real_one(seed: int) -> None:
    """All tasks end, needs land first, at most three are worked on, and no two hold the same paths at once."""
    played = play(MIXED, terms(MIXED, bad=0.3, fruitless=0.1, workers=3, trials=2), seed)
    assert all(one.phase in TERMINAL for one in played.state.tasks.values()) and played.state.finished
    assert all(span.ends_s >= span.begins_s for span in played.spans), "something is under way for ever"
    assert max(span.lane for span in played.spans if span.place == "worker") < 3
    held = {one: _held(played, one) for one in MIXED.tasks if played.state.tasks[one].phase == "landed"}
    for one, (begins, _) in held.items():
        assert all(held[need.id][1] <= begins for need in MIXED.tasks[one].needs)
    for one, other in combinations(held, 2):
        ours, theirs = MIXED.declared[one], MIXED.declared[other]
        assert ours is not None and theirs is not None
        if ours.meets(theirs):
            assert held[one][1] <= held[other][0] or held[other][1] <= held[one][0], f"{one} and {other} at once"


def _held(played: Played, name: str) -> tuple[float, float]:
    """Return the start of the attempt that landed and the end of the landing."""
    mine: list[SimulatedSpan] = [span for span in played.spans if name in span.tasks]
    landing = next(span for span in mine if span.place == "landing")
    return max(span.begins_s for span in mine if span.place == "worker"), landing.ends_s


def test_a_seed_gives_the_same_run_every_time() -> None:
    """Another seed gives another run."""
    told = terms(MIXED, bad=0.3, check_s=(30.0, 60.0, 90.0))
    first, again, other = (play(MIXED, told, seed) for seed in (1, 1, 2))
    assert first.spans == again.spans and first.spans != other.spans


def test_the_number_of_workers_does_not_change_which_attempts_are_bad() -> None:
    """Chance depends only on the seed and the attempt."""
    few = terms(MIXED, bad=0.5)
    for name in MIXED.tasks:
        worlds = [PlanWorld(terms=replace(few, workers=workers), seed=3) for workers in (1, 9)]
        assert len({world.is_bad(name, 1) for world in worlds}) == 1


def test_a_task_that_answers_is_worked_on_and_passes_no_gate() -> None:
    of = course(task("a", answers=True), task("b", "a"))
    played = play(of, terms(of, answering=frozenset("a")), 1)
    assert played.makespan_s == 100 + 161
    assert played.phases == {"reported": 1, "landed": 1} and played.all_landed
